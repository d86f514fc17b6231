"""Durations of the steps of a stage."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from glasstream.kafka.health.catalogue import STEP_SECONDS, Sample


class Steps:
    """Total seconds spent in each step. Steps may run in several threads."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = Lock()

    @contextmanager
    def time(self, step: str) -> Iterator[None]:
        """Add the duration of the `with` block to a step."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.add(step, time.perf_counter() - begun)

    def add(self, step: str, seconds: float) -> None:
        """Add seconds to a step."""
        with self._lock:
            self._seconds[step] = self._seconds.get(step, 0.0) + seconds

    def samples(self) -> Iterator[Sample]:
        """Yield one sample per step."""
        with self._lock:
            seconds = sorted(self._seconds.items())
        for step, value in seconds:
            yield Sample(STEP_SECONDS, value, (step,))
