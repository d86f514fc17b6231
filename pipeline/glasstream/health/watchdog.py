"""Ends a worker whose event loop does not turn any more: nothing inside it could."""

import logging
import os
import time
from collections.abc import Callable
from threading import Event, Thread

log = logging.getLogger(__name__)


class Watchdog:
    """A thread that expects to be patted.

    Parameters
    ----------
    seconds
        The longest time between two pats.
    bite
        What ends the worker, given the seconds since the last pat.
    """

    def __init__(self, seconds: float, bite: Callable[[float], None]) -> None:
        self._seconds = seconds
        self._bite = bite
        self._patted = time.monotonic()
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="watchdog", daemon=True)

    def feed(self) -> None:
        """The loop turns."""
        self._patted = time.monotonic()

    async def start(self) -> None:
        """Begin to watch."""
        self.feed()
        self._thread.start()

    async def stop(self) -> None:
        """Watch no more."""
        self._ended.set()

    def _watch(self) -> None:
        woken = time.monotonic()
        while not self._ended.wait(self._seconds / 10):
            before, woken = woken, time.monotonic()
            if woken - before > self._seconds / 2:
                self._patted = woken  # the whole process stood still (a suspended machine): the loop gets its time
            silent = woken - self._patted
            if silent > self._seconds:
                self._bite(silent)
                return


def end_process(code: int) -> Callable[[float], None]:
    """A bite that says what happened and ends the process with `code`."""

    def bite(silent: float) -> None:
        log.critical("the event loop has been blocked for %.0f s; exiting with code %d (stalled)", silent, code)
        logging.shutdown()
        os._exit(code)

    return bite
