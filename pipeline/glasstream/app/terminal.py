"""Print to the terminal, which may show names and texts of users: no control character in them has an effect there."""

import sys
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from glasstream.base.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NO_WIDTH = 10_000
"""Number of columns when the output is not a terminal."""


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


def table(
    columns: Sequence[str], rows: Iterable[Iterable[object]], *, right: Container[str] = (), title: str | None = None
) -> "Table":
    """Return a table whose cells wrap where there is no room: None is a dash, and integers have separators.

    Parameters
    ----------
    right
        Columns that are aligned to the right.
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left")
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        cells = ("–" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row)
        made.add_row(*map(Text, cells))
    return made
