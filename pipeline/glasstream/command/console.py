"""The console to which commands print."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_NO_WIDTH = 10_000
"""Number of columns when standard output is not a terminal."""


def standard_console() -> "Console":
    """Return a console on standard output. Without a terminal, lines are neither wrapped nor cut."""
    from rich.console import Console

    on_a_terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=not on_a_terminal, width=None if on_a_terminal else _NO_WIDTH)
