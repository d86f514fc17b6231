"""Tiny stages to run the transport with, in this process or as a worker of its own.

    python -m tests.support.transport_harness BOOTSTRAP PREFIX INSTANCE

runs one worker of the stage `total`, which adds up the numbers on `<prefix>in` and writes every sum to `<prefix>out`.
A path in place of a number is a gate (see `Gate`).
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.events.message import Message
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream.kafka.transport.stage import Stage
from glasstream.kafka.transport.stateful import StatefulStage
from glasstream.kafka.transport.worker import run_worker
from tests.support.paths import ROOT
from tests.support.waiting import DEADLINE, until, wait_for

NAMES = "in state out table"
"""Topics of a stage, after the prefix."""


def options(prefix: str, instance: str = "a", name: str = "total", **changes: object) -> StageOptions:
    settings = {"session_timeout": 6.0, "heartbeat_interval": 1.0, **changes}
    return StageOptions(name=name, instance=instance, prefix=prefix, **settings)  # type: ignore[arg-type]


class Gate:
    """A message at which a worker waits, with this message uncommitted, until it is opened; it counts as a 1.

    Parameters
    ----------
    path : Path
        In a folder that the worker sees too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reached = path.with_suffix(".reached")

    @property
    def message(self) -> bytes:
        return bytes(self._path)

    def is_reached(self) -> bool:
        return self._reached.exists()

    def open(self) -> None:
        self._path.touch()

    async def pass_through(self) -> None:
        """Wait, in the worker, until it is opened."""
        self._reached.touch()
        await until(self._path.exists, 600.0)


class Total:
    """Adds up numbers. Its progress consists of the sum, the count, and the next offset."""

    def __init__(self, partition: int, out: str) -> None:
        self.partition, self.out = partition, out
        self.sum = self.count = self.next = 0
        self.fed: list[int] = []
        self.restored = self.was_dropped = False
        self._new: list[ProducerRecord] = []
        self._changed = False

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        saved = records.get(b"")
        self.next = low
        if saved is not None:
            state = json.loads(saved)
            self.sum, self.count, self.next = state["sum"], state["count"], state["next"]
        self.restored = True
        return self.next

    async def feed(self, run: Sequence[Message]) -> None:
        for message in run:
            await self.use(message)

    def used(self) -> int:
        return self.next

    async def use(self, message: Message) -> None:
        self.fed.append(message.offset)
        value = message.value or b"0"
        if value.startswith(b"/"):
            await Gate(Path(value.decode())).pass_through()
            value = b"1"
        self.sum += int(value)
        self.count += 1
        self.next = message.offset + 1
        self._new.append(ProducerRecord(self.out, message.key, b"%d" % self.sum, self.partition))
        self._changed = True

    def collect(self) -> Outputs:
        if not self._changed:
            return Outputs()
        new, self._new, self._changed = self._new, [], False
        state = json.dumps({"sum": self.sum, "count": self.count, "next": self.next})
        return Outputs(records=new, progress=[ProducerRecord("", b"", state.encode())])

    def committed(self) -> None:
        pass

    def stalled(self) -> str | None:
        return None

    def pending(self) -> int:
        return len(self._new)

    def dropped(self) -> None:
        self.was_dropped = True


class Totals:
    """Makes a `Total` for every partition that is taken over, and remembers all of them."""

    def __init__(self, prefix: str, kind: Callable[[int, str], Total] = Total) -> None:
        self.made: list[Total] = []
        self.prefix, self.kind = prefix, kind

    def __call__(self, partition: int) -> Total:
        self.made.append(self.kind(partition, f"{self.prefix}out"))
        return self.made[-1]

    def counted(self) -> int:
        """Return the number of messages that living states have used."""
        return sum(state.count for state in self.made if not state.was_dropped)


def total_stage(
    connection: Connection, prefix: str, totals: Totals, instance: str = "a", kind: type[StatefulStage] = StatefulStage,
    commit_interval: float = 0.1, **changes: object,
) -> StatefulStage:  # fmt: skip
    return kind(
        connection, options(prefix, instance, **changes), input_topic=f"{prefix}in", state_topic=f"{prefix}state",
        make_state=totals, topics={f"{prefix}out": None}, commit_interval=commit_interval,
    )  # fmt: skip


def make_topics(bootstrap: str, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
    wanted = [NewTopic(name, count, 1, config=dict(config or {})) for name, count in topics.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept alive until its futures have ended
    for future in admin.create_topics(wanted).values():
        future.result()

    def listed() -> bool:
        found = admin.list_topics(timeout=20).topics
        return all(
            name in found and [one.leader >= 0 for one in found[name].partitions.values()] == [True] * count
            for name, count in topics.items()
        )

    wait_for(f"{', '.join(topics)} with their leaders", listed)


def embedded_topics(broker: EmbeddedKafka, prefix: str, partitions: int = 1, *, names: str = NAMES) -> Connection:
    """Make topics on the embedded broker, and return how stages connect to it."""
    for name in names.split():
        broker.create_topic(f"{prefix}{name}", partitions)
    return Connection(broker.bootstrap, fetch_wait_ms=10, check_crcs=False)


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    partition: int = 0,
    key: bytes = b"k",
    batch: int = 10_000,
) -> None:
    """Write values in batches of at most `batch`: a batch is the least that a consumer fetches."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": batch})
    for value in values:
        producer.produce(topic, value, key, partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def produce_in_transactions(
    bootstrap: str, topic: str, batches: Sequence[Iterable[bytes]], partition: int = 0, abort: Sequence[int] = ()
) -> None:
    """Write every batch in a transaction of its own; those whose position is in `abort` are aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-user-{time.monotonic()}"})
    producer.init_transactions(60)
    for position, batch in enumerate(batches):
        producer.begin_transaction()
        for value in batch:
            producer.produce(topic, value, b"k", partition)
        producer.flush(60)
        if position in abort:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def read_all(bootstrap: str, topic: str, partitions: int = 1, committed: bool = True) -> list[list[bytes | None]]:
    """Return the values of each partition up to its end."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "harness", "enable.auto.commit": False,
            "enable.partition.eof": True, "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )  # fmt: skip
    found: list[list[bytes | None]] = [[] for _ in range(partitions)]
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"{topic} could not be read to its end"
        message = reader.poll(0.5)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append(message.value())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    reader.close()
    return found


def committed_offset(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    """Return what a group has committed, negative for nothing."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        return int(reader.committed([TopicPartition(topic, partition)], timeout=60)[0].offset)
    finally:
        reader.close()


async def stays(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether `condition` stays false for `seconds`."""
    try:
        await until(condition, seconds)
    except TimeoutError:
        return True
    return False


@asynccontextmanager
async def running(*stages: Stage) -> AsyncIterator[None]:
    """Start stages, and stop them whatever happens: a loop that is closed over a running one waits for ever."""
    try:
        await asyncio.gather(*(stage.start() for stage in stages))
        yield
    except BaseException:
        await asyncio.gather(*(stage.stop(drain=False) for stage in stages))
        raise
    await asyncio.gather(*(stage.stop() for stage in stages))


def sums(count: int) -> list[bytes]:
    """What `total` writes for 0, 1, 2, ..."""
    return [b"%d" % (number * (number + 1) // 2) for number in range(count)]


def numbers(first: int, after: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, after)]


class Worker:
    """A worker of `total` in its own process."""

    def __init__(self, bootstrap: str, prefix: str, instance: str, session: float = 6.0, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.transport_harness", bootstrap, prefix, instance, str(session)],
            cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONFAULTHANDLER": "1", **environment},
        )  # fmt: skip

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, timeout: float = DEADLINE) -> tuple[int, str]:
        """Wait for the end; return the exit code and the output. TimeoutExpired leaves the worker running."""
        _, said = self.process.communicate(timeout=timeout)
        return self.process.returncode, said

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *args: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def main() -> None:
    bootstrap, prefix, instance, session = sys.argv[1:]
    seconds = float(session)
    run_worker(
        lambda: total_stage(Connection(bootstrap), prefix, Totals(prefix), instance, session_timeout=seconds),
        options(prefix, instance, session_timeout=seconds),
    )


if __name__ == "__main__":
    main()
