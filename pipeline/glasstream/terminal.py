"""Print to the terminal, which may show names and texts of users: no control character in them has an effect there."""

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NO_WIDTH = 10_000
"""Number of columns when the output is not a terminal."""
_WITH_EFFECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for tab and newline, other separators of lines, and marks that change the direction."""


def printable(text: str) -> str:
    """Return a text with a replacement character for each character that a terminal would obey.

    >>> printable("age\\x1b[2J")
    'age�[2J'
    """
    return _WITH_EFFECT.sub(REPLACEMENT, text)


def say(line: str, *, err: bool = False) -> None:
    """Print a line that may contain texts of users."""
    click.echo(printable(line), err=err)


def standard_console(*, err: bool = False) -> "Console":
    """Return a console on standard output or standard error. Without a terminal, lines are neither wrapped nor cut.

    Texts are shown as they are: markup and names of emoji have no meaning, and control characters are replaced.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Plain(Console):
        """A console that replaces control characters of texts. Those of styles are segments of their own."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    on_a_terminal = (sys.stderr if err else sys.stdout).isatty()
    return Plain(
        stderr=err,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not on_a_terminal,
        width=None if on_a_terminal else _NO_WIDTH,
    )
