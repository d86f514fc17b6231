"""A log handler that summarises repeated lines: a client of a broker that is down logs a dozen errors a second."""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

EVERY: Final = 10.0
"""Seconds between two written lines of a kind."""
KINDS: Final = 200
"""Largest number of kinds to distinguish at a time."""
_NUMBER: Final = re.compile(r"\d+")


@dataclass(slots=True)
class _Kind:
    """Lines of one kind since the last written one."""

    written_at: float
    left_out: int = 0
    last: logging.LogRecord | None = None


class SummarisingHandler(logging.StreamHandler[TextIO]):
    """Handler that writes at most one line of a kind in `EVERY` seconds, with the number of lines omitted.

    Lines are of a kind if they have the same logger, level and text, apart from arguments and numbers. All lines of our
    own modules are written. Lines omitted since are reported with the next line of any kind, and at the end.

    Parameters
    ----------
    stream
        Stream to write to.
    own
        Names of loggers whose lines are all written, including the loggers below them.
    clock
        Monotonic clock in seconds.
    """

    def __init__(self, stream: TextIO, own: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._own = own
        self._clock = clock
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it. Write due summaries of other kinds first."""
        now = self._clock()
        if record.name == self._own or record.name.startswith(f"{self._own}."):
            self._tell(now)
            super().emit(record)
            return
        kind = (record.name, record.levelno, _NUMBER.sub("#", str(record.msg)))
        known = self._kinds.get(kind)
        if known is not None and now - known.written_at < EVERY:
            known.left_out += 1
            known.last = record
            self._tell(now)
            return
        if known is not None and known.left_out:
            self._write(known, record, now)
            known.left_out, known.last, known.written_at = 0, None, now
            self._tell(now)
            return
        self._tell(now)
        if len(self._kinds) >= KINDS:
            self._tell(now, every=0.0)
            self._kinds.clear()
        self._kinds[kind] = _Kind(now)
        super().emit(record)

    def close(self) -> None:
        """Report the omitted lines, and close."""
        self.acquire()
        try:
            self._tell(self._clock(), every=0.0)
            self._kinds.clear()
        finally:
            self.release()
        super().close()

    def _tell(self, now: float, every: float = EVERY) -> None:
        """Write a summary for each kind with omitted lines that is due, and forget inactive kinds."""
        for name, kind in list(self._kinds.items()):
            if now - kind.written_at < every:
                continue
            if kind.last is None:
                del self._kinds[name]
                continue
            self._write(kind, kind.last, now, less=1)
            kind.left_out, kind.last, kind.written_at = 0, None, now

    def _write(self, kind: _Kind, record: logging.LogRecord, now: float, less: int = 0) -> None:
        """Write a line of a kind, with the number of other lines that were omitted."""
        others = kind.left_out - less
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit: as every handler does
            self.handleError(record)
            return
        if others:
            text += f" (and {others} more like it in the last {now - kind.written_at:.0f} s)"
        told = logging.makeLogRecord({**record.__dict__, "msg": text, "args": None})
        super().emit(told)
