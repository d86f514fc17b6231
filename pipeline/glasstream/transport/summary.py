"""A log that summarises lines of one kind: a broker that is down makes its client write a dozen errors a second."""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

EVERY: Final = 10.0
"""Seconds in which one line of a kind is written."""
KINDS: Final = 200
"""How many kinds are told apart at a time."""
_NUMBER: Final = re.compile(r"\d+")


@dataclass(slots=True)
class _Kind:
    """Lines of one kind since the last that was written."""

    written_at: float
    left_out: int = 0
    last: logging.LogRecord | None = None


class SummarisingHandler(logging.StreamHandler[TextIO]):
    """Write at most one line of a kind in `EVERY` seconds, with how many like it were left out before.

    Lines are of a kind if they have the same logger, level and text, apart from arguments and numbers. Lines of our
    own modules are all written. What was left out last is told with the next line of whatever kind, and at the end.

    Parameters
    ----------
    stream
        Where lines go.
    own
        Loggers whose lines are all written: these and those below them.
    clock
        Tells seconds; they only grow.
    """

    def __init__(self, stream: TextIO, own: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._own = own
        self._clock = clock
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it; before it, what is due of other kinds."""
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
        """Tell what was left out, and end."""
        self.acquire()
        try:
            self._tell(self._clock(), every=0.0)
            self._kinds.clear()
        finally:
            self.release()
        super().close()

    def _tell(self, now: float, every: float = EVERY) -> None:
        """Write a line for each kind of which lines were left out and none was written for long; forget the quiet."""
        for name, kind in list(self._kinds.items()):
            if now - kind.written_at < every:
                continue
            if kind.last is None:
                del self._kinds[name]
                continue
            self._write(kind, kind.last, now, less=1)
            kind.left_out, kind.last, kind.written_at = 0, None, now

    def _write(self, kind: _Kind, record: logging.LogRecord, now: float, less: int = 0) -> None:
        """Write a line of a kind, with how many others were left out."""
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
