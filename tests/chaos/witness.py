"""A reader beside the soak that checks what it is shown, and asks every second who says to be ready.

Like the checkers of Kafka's `transactions_test` and of Jepsen, it reads committed records while faults are under way,
from another broker than the stages where it can, and compares in the end with what the log then holds:

- `again`: records that were delivered twice, or before an earlier one of their partition
- `aborted`: records that were delivered as committed, and that the log does not hold
- `skipped`: records that the log holds, and that were not delivered

Readiness tells the truth if both hold:

- while rows are outstanding and none is aggregated, a worker is not ready at the latest after `LIE_SECONDS`
- after each fault every worker becomes ready again, at the latest after `_READY_SECONDS`

A worker that needs longer than `LIE_SECONDS` is listed under `slow_to_be_ready` with the reason that it named, because
other stages may go on while it waits, for example for its group.
"""

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import Message

from glasstream.app.runner.monitor import Monitor
from glasstream.base.errors import BrokerError
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import Connection

LIE_SECONDS: Final = 30.0
_SAMPLE_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 2.0
_READ_SECONDS: Final = 120.0
_READY_SECONDS: Final = 240.0

Place = tuple[str, int, int]


class Witness:
    """Reads records and checks readiness in its own thread until `close`."""

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        stream: str,
        sent: Callable[[], int],
        ports: Callable[[], Mapping[str, int]],
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._stream = stream
        self._sent = sent
        self._ports = ports
        self._delivered: dict[Place, bytes | None] = {}
        self._newest: dict[tuple[str, int], int] = {}
        self._again: list[Place] = []
        self._failure: BaseException | None = None
        self.lies: list[str] = []
        self.slow: list[str] = []
        self.samples = 0
        self.unready = 0
        self.aggregated = 0
        self._troubles: dict[str, str] = {}
        self._pool = ThreadPoolExecutor(8, "readiness")
        self._closing = threading.Event()
        self._reader = Monitor(connection, settings, self._take)
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"witness-{work.__name__}", daemon=True)
            for work in (self._read, self._ask)
        ]
        for thread in self._threads:
            thread.start()

    def await_ready(self, after: str) -> None:
        """Wait until every worker says that it is ready."""
        begun, asked = time.monotonic(), self.samples
        named: dict[str, str] = {}
        while self.samples < asked + 2 or self._troubles:
            waited = time.monotonic() - begun
            if waited > LIE_SECONDS:
                named.update(self._troubles)
            if waited > _READY_SECONDS:
                self.lies.append(f"after {after} rows are aggregated, and {self._troubles} for {waited:.0f} s")
                return
            self._closing.wait(0.2)
        if named:
            self.slow.append(f"after {after}: {named}, ready after {time.monotonic() - begun:.0f} s")

    def close(self) -> dict[str, object]:
        """End, read everything once more, and return what was found.

        Raises
        ------
        TimeoutError
            The log cannot be read to its end.
        """
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown()
        if self._failure is not None:
            raise self._failure
        ends = self._reader.ends()
        self._until_read(self._reader, ends)
        self._reader.close()
        held: dict[Place, bytes | None] = {}

        def take(topic: str, messages: list[Message]) -> None:
            held.update(((topic, m.partition(), m.offset()), m.value()) for m in messages)

        plain = Connection(self._connection.bootstrap)
        reader = Monitor(plain, self._settings, take)
        self._until_read(reader, ends)
        reader.close()
        return {
            "delivered": len(self._delivered),
            "again": len(self._again),
            "aborted": len(self._delivered.items() - held.items()),
            "skipped": len(held.keys() - self._delivered.keys()),
            "readiness_samples": self.samples,
            "readiness_unready": self.unready,
            "slow_to_be_ready": self.slow,
            "readiness_lies": self.lies,
        }

    def _until_read(self, reader: Monitor, ends: Mapping[tuple[str, int], int]) -> None:
        until = time.monotonic() + _READ_SECONDS
        while not reader.has_read(ends):
            reader.poll(0.2)
            if time.monotonic() > until:
                raise TimeoutError(f"the witness could not read to {ends} within {_READ_SECONDS:.0f} s")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (BrokerError, OSError, RuntimeError, KeyError) as error:
            self._failure = error

    def _read(self) -> None:
        while not self._closing.is_set():
            self._reader.poll(0.2)
            self.aggregated = self._reader.progress.aggregated.get(self._stream, 0)

    def _take(self, topic: str, messages: list[Message]) -> None:
        for message in messages:
            place = (topic, message.partition(), message.offset())
            if place[2] <= self._newest.get(place[:2], -1):
                self._again.append(place)
            self._newest[place[:2]] = place[2]
            self._delivered[place] = message.value()

    def _ask(self) -> None:
        moved, aggregated, told = time.monotonic(), -1, False
        while not self._closing.wait(_SAMPLE_SECONDS):
            ports = dict(self._ports())
            answers = self._pool.map(_trouble, ports.values())
            self._troubles = {name: said for name, said in zip(ports, answers, strict=True) if said is not None}
            self.samples += 1
            self.unready += bool(self._troubles)
            now = time.monotonic()
            if self.aggregated != aggregated or self.aggregated >= self._sent() or self._troubles:
                moved, aggregated, told = now, self.aggregated, False
            elif now - moved > LIE_SECONDS and not told:
                told = True
                outstanding = self._sent() - self.aggregated
                self.lies.append(
                    f"{time.strftime('%H:%M:%S')}, {aggregated} rows aggregated: {outstanding} rows outstanding, none "
                    f"aggregated for {LIE_SECONDS:.0f} s, all are ready"
                )


def _trouble(port: int) -> str | None:
    """Return why a worker is not ready; None if it is."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=_ANSWER_SECONDS):
            return None
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace").strip()
    except OSError as error:
        return f"no answer: {error}"
