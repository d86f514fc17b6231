"""Notice that numerical kernels are compiled, so that a silent first run does not look like one that hangs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

_COMPILE = "numba:compile"
"""Event that numba broadcasts when it compiles a kernel, but not when it loads one from its cache."""


class _Notice(event.Listener):
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._given = False

    def on_start(self, event: Any) -> None:
        if not self._given:
            self._given = True
            self._say("compiling numerical kernels, which takes about a minute; later runs load them from a cache")

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def compile_notice(say: Callable[[str], None]) -> Iterator[None]:
    """Say at most once that kernels are compiled, when the first one is compiled inside the block.

    Parameters
    ----------
    say
        Function that prints a line for the user.
    """
    notice = _Notice(say)
    event.register(_COMPILE, notice)
    try:
        yield
    finally:
        event.unregister(_COMPILE, notice)
