"""Laws of the reader of stages: nothing is lost, doubled or early on the way from the broker to a state.

What happens within the worker is shown on the embedded broker. One test needs a real Kafka, for the markers of
transactions and what they hide. Fencing is in `test_transport_waits.py`, groups of two are in
`test_transport_stages.py`.
"""

import asyncio
import queue
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from faust.types import TP

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.brokers.local import Kafka
from glasstream.base.errors import FencedError
from glasstream.events.message import Message, Oversized
from glasstream.kafka.transport import reader as reader_module
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.consumer import Consumer, Transport
from glasstream.kafka.transport.input_topic import LIMIT
from glasstream.kafka.transport.lane import Lane
from glasstream.kafka.transport.reader import Batch, Reader
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.snapshot_table import TableSpec
from glasstream.kafka.transport.stateful import StatefulStage
from glasstream.kafka.transport.stateless import StatelessStage
from tests.chaos.proxy import Proxy, requests
from tests.support.transport_harness import (
    Total,
    Totals,
    committed_offset,
    embedded_topics,
    make_topics,
    numbers,
    options,
    produce,
    produce_in_transactions,
    read_all,
    running,
    stays,
    total_stage,
)
from tests.support.waiting import until

METADATA = 3
"""Kind of the request that asks for brokers and topics."""


class Handled:
    """A handler that remembers the offsets it was given."""

    def __init__(self, out: str) -> None:
        self.out = out
        self.offsets: list[int] = []

    async def __call__(self, message: Message) -> list[ProducerRecord]:
        self.offsets.append(message.offset)
        return [ProducerRecord(self.out, message.key, message.value, message.partition)]


# --- the reader alone -------------------------------------------------------------------------------------------------


class Listening:
    """Keeps what a reader tells."""

    def __init__(self) -> None:
        self.assignments: queue.Queue[tuple[set[TP], int]] = queue.Queue()
        self.batches: queue.Queue[Batch] = queue.Queue()
        self.lost: queue.Queue[tuple[TP, int]] = queue.Queue()
        self.revocations: queue.Queue[None] = queue.Queue()
        self.failures: queue.Queue[Exception] = queue.Queue()
        #: While it is held, nothing arrives.
        self.quiet = threading.Lock()

    def assigned(self, partitions: set[TP], generation: int) -> None:
        self.assignments.put((partitions, generation))

    def revoked(self) -> "Future[None]":
        self.revocations.put(None)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def arrived(self, batches: Sequence[Batch], taken: Callable[[], None]) -> None:
        with self.quiet:
            for batch in batches:
                self.batches.put(batch)
        taken()

    def out_of_range(self, tp: TP, position: int) -> None:
        self.lost.put((tp, position))

    def failed(self, error: Exception) -> None:
        self.failures.put(error)


def test_every_seek_gives_the_message_at_its_offset_and_none_fetched_before(
    embedded: EmbeddedKafka, prefix: str
) -> None:
    link = embedded_topics(embedded, prefix, 2)
    for partition in range(2):
        produce(link.bootstrap, f"{prefix}in", numbers(0, 5_000), partition)
    heard = Listening()
    reader = Reader(link, options(prefix), heard)
    reader.start([f"{prefix}in"])
    draw = random.Random(1)
    try:
        partitions, generation = heard.assignments.get(timeout=60)
        assert partitions == {TP(f"{prefix}in", 0), TP(f"{prefix}in", 1)}
        expected: dict[TP, int] = {}
        sought: queue.Queue[int] = queue.Queue()  # how many batches had arrived when a seek was done
        for seek in range(20):
            places = {tp: draw.randrange(4_000) for tp in partitions if not seek or draw.random() < 0.6}
            with heard.quiet:
                placed = reader.place(places, generation)
                placed.add_done_callback(lambda _: sought.put(heard.batches.qsize()))
            placed.result(60)
            for _ in range(sought.get(timeout=60)):
                batch = heard.batches.get()
                assert batch.follows == expected.get(batch.tp)
                expected[batch.tp] = batch.records[-1].offset + 1
            expected |= places
            for _ in range(draw.randrange(1, 4)):
                if min(expected.values()) == 5_000:
                    break  # all has been read
                batch = heard.batches.get(timeout=60)
                offsets = [record.offset for record in batch.records]
                assert (batch.follows, batch.generation) == (expected[batch.tp], generation)
                assert offsets == list(range(expected[batch.tp], offsets[-1] + 1))
                expected[batch.tp] = offsets[-1] + 1
        reader.place({TP(f"{prefix}in", 0): 0}, generation - 1).result(60)
        assert reader.handed(TP(f"{prefix}in", 0)) != 0, "a seek of another assignment is not for this one"
    finally:
        reader.stop(30)
    assert heard.failures.empty()
    with pytest.raises(Exception, match="has left its group"):
        reader.place({TP(f"{prefix}in", 0): 0}, generation).result(60)


class Refused(Reader):
    """A reader whose first clients the group refuses while they read."""

    left = 2 * reader_module.IN_FLIGHT

    def _read(self, consumer: Any) -> list[Batch]:
        if self.left:
            self.left -= 1
            raise KafkaException(KafkaError(KafkaError._FATAL))
        return super()._read(consumer)


def test_clients_that_are_refused_again_and_again_are_replaced_until_one_reads(
    embedded: EmbeddedKafka, prefix: str
) -> None:
    link = embedded_topics(embedded, prefix, 1)
    produce(link.bootstrap, f"{prefix}in", numbers(0, 10), 0)
    heard = Listening()
    reader = Refused(link, options(prefix), heard)
    reader.start([f"{prefix}in"])
    try:
        partitions, generation = heard.assignments.get(timeout=60)
        reader.place(dict.fromkeys(partitions, 0), generation).result(60)
        assert heard.batches.get(timeout=60).records[0].offset == 0
    finally:
        reader.stop(30)
    assert reader.left == 0 and heard.failures.empty()


def test_an_offset_that_the_log_does_not_have_is_told_and_the_other_partitions_are_read(
    embedded: EmbeddedKafka, prefix: str
) -> None:
    link = embedded_topics(embedded, prefix, 2)
    first, second = TP(f"{prefix}in", 0), TP(f"{prefix}in", 1)
    for partition in range(2):
        produce(link.bootstrap, f"{prefix}in", numbers(0, 10), partition)
    heard = Listening()
    reader = Reader(link, options(prefix), heard)
    reader.start([f"{prefix}in"])
    try:
        _, generation = heard.assignments.get(timeout=60)
        reader.place({first: 500, second: 0}, generation).result(60)
        assert heard.lost.get(timeout=60) == (first, 500)
        assert heard.batches.get(timeout=60).tp == second
        reader.place({first: 3}, generation).result(60)
        assert heard.batches.get(timeout=60).records[0].offset == 3
    finally:
        reader.stop(30)
    assert heard.failures.empty() and heard.lost.empty()


def test_another_worker_of_the_same_name_ends_this_one(kafka: str, prefix: str) -> None:
    make_topics(kafka, {f"{prefix}in": 1})
    ours, other = Listening(), Listening()
    readers = [Reader(Connection(kafka), options(prefix), heard) for heard in (ours, other)]
    try:
        readers[0].start([f"{prefix}in"])
        ours.assignments.get(timeout=60)
        readers[1].start([f"{prefix}in"])
        assert isinstance(ours.failures.get(timeout=60), FencedError)
        assert other.failures.empty()
    finally:
        for reader in readers:
            reader.stop(30)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_client_that_has_lost_its_session_is_replaced(
    local_broker: Callable[..., Kafka], prefix: str, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """Requests of such a client go on without its member id, and the group refuses them for good.

    Sometimes it never closes: eight stages whose broker was paused a dozen times found such a client.
    """
    broker = local_broker()
    clients: list[str] = []
    over = threading.Event()

    class Counted(reader_module.Consumer):  # type: ignore[misc]
        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__(settings)
            clients.append(settings["group.instance.id"])

        def close(self) -> None:
            if hangs:
                over.wait()
            super().close()

    monkeypatch.setattr(reader_module, "Consumer", Counted)
    make_topics(broker.bootstrap, {f"{prefix}in": 1})
    produce(broker.bootstrap, f"{prefix}in", numbers(0, 10))
    heard = Listening()
    reader = Reader(Connection(broker.bootstrap), options(prefix), heard)
    place = TP(f"{prefix}in", 0)
    try:
        reader.start([f"{prefix}in"])
        _, generation = heard.assignments.get(timeout=60)
        reader.place({place: 0}, generation).result(60)
        assert len(heard.batches.get(timeout=60).records) == 10
        broker.pause()
        heard.revocations.get(timeout=60)
        refused = reader.commit({place: 5})
        broker.resume()
        partitions, later = heard.assignments.get(timeout=60)
        assert (partitions, clients) == ({place}, [f"{prefix}total.a"] * 2)
        assert later > generation
        reader.place({place: 5}, generation).result(60)
        assert reader.handed(place) is None, "a seek of a former assignment is not for this one"
        reader.place({place: 5}, later).result(60)
        assert [record.offset for record in heard.batches.get(timeout=60).records] == [5, 6, 7, 8, 9]
        assert refused.result(60) is False, "these offsets are those of a former assignment"
    finally:
        over.set()
        reader.stop(30)
    assert heard.failures.empty()


class Mute(Proxy):
    """Hands on everything but questions about topics, which stay without an answer."""

    async def _forward(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, broker: asyncio.StreamWriter, target: int
    ) -> None:
        async for kind, request in requests(reader):
            if kind != METADATA:
                broker.write(request)
                await broker.drain()


def test_a_client_whose_question_about_its_topics_is_lost_joins_all_the_same(kafka: str, prefix: str) -> None:
    """It is lost when the client drops the address it was asked at; brokers that restart bring clients there."""
    make_topics(kafka, {f"{prefix}in": 1})
    target = int(kafka.rpartition(":")[2])
    proxy = Mute([target])
    heard = Listening()
    link = Connection(f"127.0.0.1:{proxy.ports[target]}", {"socket.timeout.ms": "2000"})
    reader = Reader(link, options(prefix), heard)
    try:
        reader.start([f"{prefix}in"])
        assert heard.assignments.get(timeout=30)[0] == {TP(f"{prefix}in", 0)}
    finally:
        reader.stop(30)
        proxy.close()
    assert heard.failures.empty()


def test_what_a_broker_refuses_before_the_first_assignment_is_told(embedded: EmbeddedKafka, prefix: str) -> None:
    heard = Listening()
    reader = Reader(Connection(embedded.bootstrap), options(prefix), heard)
    reader.start([f"{prefix}in"])
    try:
        asyncio.run(until(lambda: f"{prefix}in" in (reader.refusal or "")))
        embedded_topics(embedded, prefix, 1)
        assigned = iter(lambda: heard.assignments.get(timeout=90)[0], {TP(f"{prefix}in", 0)})
        assert not any(assigned), "an assignment before the topic exists is empty"
        assert reader.refusal is None
    finally:
        reader.stop(30)
    assert heard.failures.empty()


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_batch_that_inflates_too_far_is_replaced_and_later_messages_are_read(
    kafka: str, prefix: str, codec: str
) -> None:
    """The client gives up zstd, and inflates gzip; neither reaches a stage. Only a real Kafka stores such a batch."""
    make_topics(kafka, {f"{prefix}in": 1})
    produce(kafka, f"{prefix}in", numbers(0, 5))
    producer = Producer(
        {
            "bootstrap.servers": kafka,
            "compression.type": codec,
            "message.max.bytes": 10**9,
            "batch.size": 10**9,
            "linger.ms": 2_000,
        }
    )
    for _ in range(3):
        producer.produce(f"{prefix}in", bytes(LIMIT // 2 if codec == "zstd" else LIMIT + 1), b"k", 0)
        if codec == "gzip":
            producer.flush()
    assert producer.flush(120) == 0
    produce(kafka, f"{prefix}in", numbers(8, 12))
    heard = Listening()
    reader = Reader(Connection(kafka), options(prefix), heard)
    reader.start([f"{prefix}in"])
    found: list[Message] = []
    try:
        _, generation = heard.assignments.get(timeout=60)
        reader.place({TP(f"{prefix}in", 0): 0}, generation).result(60)
        expected = 0
        while expected < 12:
            batch = heard.batches.get(timeout=120)
            assert batch.follows == expected
            found += batch.records
            expected = batch.records[-1].offset + 1
    finally:
        reader.stop(30)
    assert heard.failures.empty()
    stand_ins = {record.offset: record.value for record in found if isinstance(record.value, Oversized)}
    assert [(one.offset, one.value) for one in found if one.offset not in stand_ins] == [
        (number, b"%d" % number) for number in (*range(5), *range(8, 12))
    ]
    if codec == "zstd":
        assert list(stand_ins) == [7] and "offsets 5 to 7" in stand_ins[7].detail
    else:
        assert list(stand_ins) == [5, 6, 7] and all(one.size == LIMIT + 1 for one in stand_ins.values())


# --- messages dropped at a start with a backlog ---------------------------------------------------------------------


BACKLOG = 500


class LateAgent(StatelessStage):
    """A worker whose agent gets its turn when the worker is ready: what was fetched until then waits in the queue."""

    async def _consume(self, stream: Any) -> None:
        while self.app.rebalancing or not self.lanes:
            await asyncio.sleep(0.01)
        await super()._consume(stream)


def test_a_start_with_a_backlog_drops_no_message(embedded: EmbeddedKafka, prefix: str) -> None:
    link = embedded_topics(embedded, prefix)
    produce(link.bootstrap, f"{prefix}in", numbers(0, BACKLOG))
    produce(link.bootstrap, f"{prefix}table", numbers(0, 20))
    handled = Handled(f"{prefix}out")
    followed: list[bytes | None] = []

    async def run() -> int:
        stage = LateAgent(
            link, options(prefix), input_topic=f"{prefix}in", handle=handled,
            table=TableSpec(f"{prefix}table", lambda key, value: followed.append(value)),
        )  # fmt: skip
        async with running(stage):
            await until(lambda: len(handled.offsets) >= BACKLOG)
            await asyncio.to_thread(produce, link.bootstrap, f"{prefix}table", numbers(20, 30))
            await until(lambda: len(followed) == 30)
        assert stage.failure is None
        return stage.lost

    assert asyncio.run(run()) == 0
    assert handled.offsets == list(range(BACKLOG))
    assert followed == numbers(0, 30)


# --- messages lost anywhere on the way ------------------------------------------------------------------------------


class Leaky(Consumer):
    """Loses batches between the reader and the stage: the first two, and twice the last."""

    lose: Mapping[int, int] = {1: 1, 2: 1, 5: 2}
    """How often the batch that begins with a message is lost."""

    def arrived(self, batches: Sequence[Batch], taken: Callable[[], None]) -> None:
        losses = self.__dict__.setdefault("losses", dict(self.lose))
        kept = []
        for batch in batches:
            number = int(batch.records[0].value or b"0")
            if losses.get(number, 0):
                losses[number] -= 1
            else:
                kept.append(batch)
        super().arrived(kept, taken)


@pytest.mark.parametrize("repaired", [True, False])
def test_messages_lost_on_the_way_are_read_again(
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch, repaired: bool
) -> None:
    link = embedded_topics(embedded, prefix)
    monkeypatch.setattr(Transport, "Consumer", Leaky)
    if not repaired:
        monkeypatch.setattr(Lane, "read_again", lambda self: None)
    totals = Totals(prefix)

    async def run() -> int:
        stage = total_stage(link, prefix, totals)
        async with running(stage):
            for number in range(6):
                produce(link.bootstrap, f"{prefix}in", numbers(number, number + 1))
                await until(lambda: (stage.app.consumer.handed(TP(f"{prefix}in", 0)) or 0) > number)  # noqa: B023
            if repaired:
                await until(lambda: totals.counted() == 6)
            else:
                await stays(lambda: totals.counted() > 1, 3)
        return stage.lost

    lost = asyncio.run(run())
    assert totals.made[0].fed == list(range(6 if repaired else 1))
    assert (lost >= 1) is repaired


# --- the markers of transactions, and an aborted one, on the input ----------------------------------------------------


def test_the_group_commits_past_transaction_markers_and_is_given_nothing_aborted(kafka: str, prefix: str) -> None:
    """Only a broker writes markers that have offsets, and hides aborted records from who reads committed ones."""
    make_topics(kafka, {f"{prefix}{name}": 1 for name in ("in", "state", "out")})
    batches = [numbers(0, 5)] * 20
    batches.insert(10, [b"aborted"])  # at offset 60; each of the others is 5 records and a marker
    produce_in_transactions(kafka, f"{prefix}in", batches, abort=[10])

    def run(name: str, **changes: object) -> tuple[list[int], int]:
        """Return the offsets that a stage is given, and what its group has committed when it has stopped."""
        handled = Handled(f"{prefix}out")

        async def handle_all() -> None:
            stage = StatelessStage(
                Connection(kafka), options(prefix, name=name, **changes), input_topic=f"{prefix}in", handle=handled
            )
            async with running(stage):
                await until(lambda: 120 in handled.offsets)
            assert stage.lost == 0

        asyncio.run(handle_all())
        return handled.offsets, committed_offset(kafka, f"{prefix}{name}", f"{prefix}in")

    offsets, committed = run("committed")
    assert len(offsets) == 100 and 60 not in offsets, "an aborted record is delivered, or a committed one is not"
    assert committed == 121, "the commits are stuck behind a marker"
    offsets, _ = run("uncommitted", read_committed=False)
    assert 60 in offsets, "who reads uncommitted records is given the aborted one"


# --- commits ----------------------------------------------------------------------------------------------------------


def test_a_commit_that_fails_is_repeated_and_does_not_end_the_worker(
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = embedded_topics(embedded, prefix)
    refused: list[object] = []
    commit = Reader.commit

    def refuse(self: Reader, offsets: Mapping[TP, int]) -> "Future[bool]":
        if len(refused) == 2:
            return commit(self, offsets)
        refused.append(offsets)
        done: Future[bool] = Future()
        done.set_result(False)
        return done

    monkeypatch.setattr(Reader, "commit", refuse)
    handled = Handled(f"{prefix}out")

    async def run() -> Exception | None:
        stage = StatelessStage(link, options(prefix), input_topic=f"{prefix}in", handle=handled)
        async with running(stage):
            produce(link.bootstrap, f"{prefix}in", numbers(0, 10))
            await until(lambda: len(handled.offsets) == 10 and len(refused) == 2)
        return stage.failure

    assert asyncio.run(run()) is None
    assert committed_offset(link.bootstrap, f"{prefix}total", f"{prefix}in") == 10


def test_what_is_used_during_a_commit_is_committed_at_the_stop(
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = embedded_topics(embedded, prefix)
    under_way = threading.Event()
    go_on = asyncio.Event()
    commit_offsets = Consumer.commit_offsets

    async def held_up(self: Consumer, offsets: Mapping[TP, int]) -> bool:
        if not under_way.is_set():
            under_way.set()
            await go_on.wait()
        return await commit_offsets(self, offsets)

    monkeypatch.setattr(Consumer, "commit_offsets", held_up)
    handled = Handled(f"{prefix}out")

    async def run() -> None:
        stage = StatelessStage(link, options(prefix), input_topic=f"{prefix}in", handle=handled)
        async with running(stage):
            produce(link.bootstrap, f"{prefix}in", numbers(0, 5))
            await until(under_way.is_set)
            produce(link.bootstrap, f"{prefix}in", numbers(5, 10))
            await until(lambda: len(read_all(link.bootstrap, f"{prefix}out")[0]) == 10)
            go_on.set()

    asyncio.run(run())
    assert committed_offset(link.bootstrap, f"{prefix}total", f"{prefix}in") == 10


def test_a_release_asks_nothing_of_the_reader_which_waits_for_it(
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit within a release would be answered after it only; the group would wait until the commit is given up."""
    link = embedded_topics(embedded, prefix)
    release, commit = Consumer._release, Reader.commit
    tasks: list[object] = []
    within: list[bool] = []
    released = threading.Event()

    async def releasing(self: Consumer) -> None:
        self.used(TP(f"{prefix}in", 0), 10)  # there is something to commit
        tasks.append(asyncio.current_task())
        await release(self)
        released.set()

    def asked(self: Reader, offsets: Mapping[TP, int]) -> "Future[bool]":
        within.append(asyncio.current_task() in tasks)
        return commit(self, offsets)

    monkeypatch.setattr(Consumer, "_release", releasing)
    monkeypatch.setattr(Reader, "commit", asked)
    handled = Handled(f"{prefix}out")

    async def run() -> None:
        first, second = (
            StatelessStage(link, options(prefix, instance), input_topic=f"{prefix}in", handle=handled)
            for instance in "ab"
        )
        async with running(first):
            await until(lambda: first.settled)
            async with running(second):
                await until(released.is_set)

    asyncio.run(run())
    assert tasks and not any(within)


# --- messages that arrive before a slow take-over has finished --------------------------------------------------------


class EarlyCounter(StatefulStage):
    """Counts the batches that reach the agent before their partition has been taken over."""

    early = 0

    async def _consume(self, stream: Any) -> None:
        async for batch in stream.noack():
            lane = self.lanes.get(batch.tp.partition)
            if lane is None:
                self.early += 1
            else:
                lane.offer(batch)


def test_no_message_arrives_before_a_slow_take_over_has_finished(embedded: EmbeddedKafka, prefix: str) -> None:
    link = embedded_topics(embedded, prefix)

    class SlowTotal(Total):
        """Takes its time to be restored."""

        def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
            threading.Event().wait(2.0)
            return super().restore(records, low, high)

    produce(link.bootstrap, f"{prefix}in", numbers(0, 200))
    totals = Totals(prefix, SlowTotal)

    async def run() -> tuple[int, int]:
        stage = total_stage(link, prefix, totals, kind=EarlyCounter)
        async with running(stage):
            await until(lambda: totals.counted() >= 200)
        return stage.early, stage.lost  # type: ignore[attr-defined]

    assert asyncio.run(run()) == (0, 0)
    assert totals.made[0].fed == list(range(200))
