"""A watchdog that ends a worker whose event loop hangs, because nothing inside the loop could."""

import logging
import os
import time
from collections.abc import Callable
from threading import Event, Thread

log = logging.getLogger(__name__)


class Watchdog:
    """Thread that expects regular calls of `feed`.

    Parameters
    ----------
    seconds
        Longest allowed time between two calls.
    bite
        Function that ends the worker. Its argument is the number of seconds since the last call.
    """

    def __init__(self, seconds: float, bite: Callable[[float], None]) -> None:
        self._seconds = seconds
        self._bite = bite
        self._patted = time.monotonic()
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="watchdog", daemon=True)

    def feed(self) -> None:
        """Report that the loop turns."""
        self._patted = time.monotonic()

    async def start(self) -> None:
        """Start watching."""
        self.feed()
        self._thread.start()

    async def stop(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _watch(self) -> None:
        woken = time.monotonic()
        while not self._ended.wait(self._seconds / 10):
            before, woken = woken, time.monotonic()
            if woken - before > self._seconds / 2:
                self._patted = woken  # the whole process stood still (a suspended machine), so give the loop time
            silent = woken - self._patted
            if silent > self._seconds:
                self._bite(silent)
                return


def end_process(code: int) -> Callable[[float], None]:
    """Return a function that reports the hang and ends the process with `code`."""

    def bite(silent: float) -> None:
        log.critical("the event loop has been blocked for %.0f s; exiting with code %d (stalled)", silent, code)
        logging.shutdown()
        os._exit(code)

    return bite
