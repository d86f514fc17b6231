"""Names of streams, features and classes are text on the page: none of its files makes markup of a text."""

import re
from pathlib import Path

import pytest

import glasstream.app.page

STATIC = Path(glasstream.app.page.__file__).parent / "static"
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|"
    r"\beval\(|new Function"
)
FILES = sorted(path for path in STATIC.iterdir() if path.suffix in (".js", ".html"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_text_becomes_markup(path: Path) -> None:
    assert not MARKUP.findall(path.read_text(encoding="utf-8"))


def test_the_page_has_files() -> None:
    assert len(FILES) > 10
