"""The README and the documents, as blocks and words in backticks."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "ops" / "docs").glob("*.md"))]
NAMES = [path.name for path in PAGES]

PROGRAMS = {".", "./ops/demo", "./ops/test", "cmp", "docker", "export", "glasstream", "install"}
PROGRAMS |= {"helm", "kubectl", "openssl", "pip", "python", "python3"}
"""Programs with which a line of shell may begin."""
_FILE = re.compile(r"(?:#|--) (\w+\.(?:py|toml|sql))\n")


@dataclass(frozen=True)
class Block:
    """A block of code: where it begins, what it is, what it says."""

    page: str
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def kind(self) -> str:
        """Kind of the block, which decides how the tests treat it.

        Raises
        ------
        ValueError
            No rule says.
        """
        text = self.text
        if text.startswith(">>> "):
            return "examples"
        if text.startswith("$ "):
            return "terminal"
        if _FILE.match(text):
            return "file"
        if text.startswith("{"):
            return "events"
        if text.startswith("["):
            return "settings"
        if text.startswith(("import ", "from ")):
            return "program"
        if "──►" in text or "────" in text:
            return "drawing"
        if self.page == "methods.md" and " = " in text:
            return "formula"
        if all(line.split()[0] in PROGRAMS for line in text.splitlines() if line.strip()):
            return "shell"
        raise ValueError(
            f"{self.where}: expected examples, a program, a file, events, settings or commands, got {text[:80]!r}"
        )

    @property
    def file_name(self) -> str:
        """Name of the file that a block of kind `file` holds."""
        found = _FILE.match(self.text)
        assert found is not None
        return found[1]

    @property
    def commands(self) -> list[tuple[str, str | None]]:
        """Lines of shell; of a terminal each with what it prints, else with None."""
        if self.kind == "shell":
            return [(line.strip(), None) for line in self.text.splitlines() if line.strip()]
        if self.kind != "terminal":
            return []
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [(line, said) for line, _, said in (part.partition("\n") for part in parts)]

    @property
    def events(self) -> list[dict]:
        """Events in a block of kind `events`."""
        return [json.loads(line) for line in self.text.splitlines()]


@dataclass(frozen=True)
class Page:
    """One document."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def _tokens(self) -> list[Token]:
        return MarkdownIt("commonmark").enable("table").parse(self.text)

    @property
    def blocks(self) -> list[Block]:
        """Fenced and indented ones, in order."""
        return [
            Block(self.name, token.map[0] + 1, token.content)
            for token in self._tokens()
            if token.type in ("code_block", "fence") and token.map is not None
        ]

    @property
    def spans(self) -> list[tuple[str, str]]:
        """Texts in backticks, each with its place."""
        return [
            (f"{self.name}:{(token.map or [0])[0] + 1}", child.content)
            for token in self._tokens()
            for child in token.children or []
            if child.type == "code_inline"
        ]


def page(name: str) -> Page:
    return Page(PAGES[NAMES.index(name)])
