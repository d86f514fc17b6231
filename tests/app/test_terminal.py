"""Names of users reach the terminal as text: nothing in them moves the cursor, colours, hides or rewrites a line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from glasstream.app.terminal import say, standard_console
from glasstream.base.printable import REPLACEMENT, printable
from tests.support.paths import SOURCE

HOSTILE = "a\x1b[2J\x1b]0;title\x07\r\x9b31m[bold]x[/bold] :smile: \u202egnp.exe\u2028"
SHOWN = "a[2J]0;title31m[bold]x[/bold] :smile: gnp.exe"


OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@given(st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Lu", "So"])))
def test_no_character_with_an_effect_is_left_and_all_others_are(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text) and not OBEYED.search(shown)
    assert all(after == before or OBEYED.match(before) for before, after in zip(text, shown, strict=True))


@pytest.mark.parametrize("place", ["text", "Text", "cell", "title", "caption", "line"])
def test_hostile_names_are_shown_wherever_they_stand(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    console, table = standard_console(), Table(width=200)
    table.add_column("name")
    table.add_row(Text(HOSTILE) if place == "cell" else "x")
    if place in ("title", "caption"):
        setattr(table, place, Text(HOSTILE))
    if place == "line":
        say(HOSTILE)
    else:
        console.print({"text": HOSTILE, "Text": Text(HOSTILE)}.get(place, table))
    shown = capsys.readouterr().out
    assert SHOWN in shown.replace(REPLACEMENT, "") and not OBEYED.search(shown)


def test_nobody_makes_another_console() -> None:
    """Otherwise each command would have to remember what names may contain."""
    assert not [path for path in SOURCE.rglob("*.py") if re.search(r"\bConsole\(", path.read_text(encoding="utf-8"))]
