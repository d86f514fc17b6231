"""Where a command shows what a person reads."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_NO_WIDTH = 10_000
"""Columns of what is not a terminal."""


def standard_console() -> "Console":
    """Standard output. Where it is no terminal no line has an end: nothing is folded, nothing cut."""
    from rich.console import Console

    on_a_terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=not on_a_terminal, width=None if on_a_terminal else _NO_WIDTH)
