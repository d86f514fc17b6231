"""The README and the documents, as blocks, words in backticks and links."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "ops" / "docs").glob("*.md"))]
NAMES = [path.name for path in PAGES]

PROGRAMS = {".", "./ops/demo", "./ops/test", "cmp", "docker", "export", "glasstream", "install"}
PROGRAMS |= {"kubectl", "openssl", "pip", "python", "python3"}
"""Programs with which a line of shell may begin."""
_FILE = re.compile(r"# (\w+\.(?:py|toml))\n")


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

    def _inline(self) -> Iterator[tuple[int, Token]]:
        for token in self._tokens():
            for child in token.children or []:
                yield (token.map or [0])[0] + 1, child

    @property
    def spans(self) -> list[tuple[str, str]]:
        """Texts in backticks, each with its place."""
        return [(f"{self.name}:{line}", child.content) for line, child in self._inline() if child.type == "code_inline"]

    @property
    def links(self) -> list[str]:
        """Targets of links and pictures."""
        kinds = {"link_open": "href", "image": "src"}
        return [str(child.attrs[kinds[child.type]]) for _, child in self._inline() if child.type in kinds]

    @property
    def anchors(self) -> set[str]:
        """Anchors of the headings, as GitHub forms them."""
        found = re.findall(r"^#+ (.+)$", self.text, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def page(name: str) -> Page:
    return Page(PAGES[NAMES.index(name)])
