"""Static files of the page, loaded from the package."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """Static file."""

    body: bytes
    kind: str
    tag: str
    """Entity tag, which changes with the content."""


def load() -> Mapping[str, Asset]:
    """Return all static files by path. The page serves no other files."""
    return dict(_below(files("glasstream.app.page") / "static", ""))


def _below(folder: Traversable, path: str) -> list[tuple[str, Asset]]:
    found: list[tuple[str, Asset]] = []
    for entry in folder.iterdir():
        suffix = "." + entry.name.rpartition(".")[2]
        if entry.is_dir():
            found += _below(entry, f"{path}{entry.name}/")
        elif suffix in _KINDS:
            body = entry.read_bytes()
            found.append((path + entry.name, Asset(body, _KINDS[suffix], f'"{sha256(body).hexdigest()[:16]}"')))
    return found
