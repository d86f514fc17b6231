"""The intake writes each event once, in order, and names the source of what it rejects."""

import asyncio
import gc
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.configuration import load
from glasstream.base.errors import UnavailableError
from glasstream.events.mapping.formats import LEVELS, Documents, Json
from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream.kafka.health.catalogue import DEAD_LETTERS, INTAKE_EVENTS, INTAKE_MESSAGES
from glasstream.kafka.stages.intake import Intake
from glasstream.kafka.stages.schemas import format_maker
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.relay import Relay
from glasstream_topics import events, events_dead
from glasstream_topics.progress_intake import IntakeTypes
from tests.support.transport_harness import embedded_topics, options, produce, read_all
from tests.support.waiting import until

LABELS = ("intake.labels_topics=paid", "intake.labels_id=o", "intake.labels_target=paid", "intake.id=o")


def configured(*assignments: str) -> Settings:
    return load(assignments=["intake.topics=orders", "intake.target=y", "topics.events=3", *assignments])


class Held:
    """Types that all workers of a test share."""

    def __init__(self) -> None:
        self.types = IntakeTypes({}, {})

    def __call__(self, proposed: IntakeTypes) -> IntakeTypes:
        now = self.types
        self.types = IntakeTypes(
            {**proposed.events, **now.events}, {**proposed.labels, **now.labels}, (*now.topics, *proposed.topics)
        )
        return self.types


def intake(settings: Settings, held: Held | None = None) -> Intake:
    return Intake(settings, format_maker(settings.intake, {}), held or Held())


def message(value: Any, offset: int = 0, partition: int = 0, topic: str = "orders", key: bytes | None = None) -> Any:
    content = value if isinstance(value, bytes | None) else orjson.dumps(value)
    return Message(topic, partition, offset, key, content, 1_000 + offset)


def by_stream(records: Iterable[ProducerRecord]) -> dict[bytes, list[Any]]:
    """Return the events of each stream, in the order of the log of its partition."""
    found: dict[bytes, list[Any]] = defaultdict(list)
    for record in records:
        if record.topic == "glasstream.events":
            assert record.key is not None and record.value is not None
            assert record.partition == events.partition(record.key, 3)
            content = orjson.loads(record.value)
            found[record.key] += content if isinstance(content, list) else [content]
    return dict(found)


def test_events_are_packed_by_stream_and_partitioned_by_murmur2() -> None:
    stage = intake(configured("intake.stream=@key"))
    log = [message({"a": n, "y": n % 2}, n, n % 4, key=b"s%d" % (n % 5)) for n in range(1_000)]
    records = stage.handle(log)
    assert len(records) == 10  # 200 events of each stream, at most 128 in a message
    for key, found in by_stream(records).items():
        numbers = [n for n in range(1_000) if b"s%d" % (n % 5) == key]
        assert found == [{"x": {"a": n}, "y": n % 2, "id": f"orders[{n % 4}]@{n}", "ts": 1_000 + n} for n in numbers]


@pytest.mark.parametrize("most", [1, 7, 128])
def test_a_message_has_as_many_events_as_the_settings_allow(most: int) -> None:
    log = [message({"a": n, "s": n % 2, "y": 1}, n) for n in range(300)]
    records = intake(configured("intake.stream=s", f"intake.batch={most}")).handle(log)
    assert by_stream(records) == by_stream(intake(configured("intake.stream=s")).handle(log))
    assert len(records) == 2 * -(-150 // most)
    if most == 1:
        assert all(isinstance(orjson.loads(record.value or b""), dict) for record in records)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.sets(st.integers(0, 59)))
def test_however_the_log_is_cut_events_and_order_are_the_same(streams: list[int], cuts: set[int]) -> None:
    log = [message({"a": n, "s": stream, "y": 1}, n) for n, stream in enumerate(streams)]
    settings, whole, parts = configured("intake.stream=s"), [], []
    whole = list(intake(settings).handle(log))
    held, begin = Held(), 0
    for end in [*sorted(cut for cut in cuts if cut < len(log)), len(log)]:
        if end > begin:
            parts += intake(settings, held).handle(log[begin:end])  # a worker of its own for each part
            begin = end
    assert by_stream(parts) == by_stream(whole)


def test_a_transaction_leaves_nothing_to_the_garbage_collector() -> None:
    stage = intake(configured())
    log = [message({"a": n, "b": "t", "y": 1}, n) for n in range(10_000)]
    stage.handle(log[:1])
    tracked: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        tracked.append(len(gc.get_objects()))

    before, threshold = len(gc.get_objects()), gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(500)
    try:
        stage.handle(log)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note)
    assert max(tracked, default=before) - before < len(log) / 2


def test_dead_letters_name_the_source_and_keep_the_message() -> None:
    stage = intake(configured())
    good = [{"a": 1, "y": 0}, {"a": 2, "y": 0}]
    bad = [message([good[0], {"a": "?"}, 3], 5, 7), message(b"{", 6, 7), message(None, 7, 7), message({"a": "!"}, 8, 7)]
    records = stage.handle([*(message(one, n, 7) for n, one in enumerate(good)), *bad])
    letters = [record for record in records if record.topic == "glasstream.events.dead"]
    said = [events_dead.decode(letter.headers) for letter in letters]
    assert [(one.topic, one.partition, one.offset, one.reason) for one in said] == [
        ("orders", 7, 5, "rejected_elements"), ("orders", 7, 6, "not_json"), ("orders", 7, 7, "null_message"),
        ("orders", 7, 8, "field_type"),
    ]  # fmt: skip
    assert said[0].rejected == [(1, "field_type"), (2, "not_an_object")]
    assert "a: expected a number" in said[3].detail and "'!'" in said[3].detail
    assert [letter.value for letter in letters] == [one.value for one in bad]
    assert {letter.partition for letter in letters} == {1}  # there are three
    (found,) = by_stream(records).values()
    assert [one["id"] for one in found] == ["orders[7]@0", "orders[7]@1", "orders[7]@5#0"]
    assert not any(sample.value for sample in stage.samples())
    stage.committed()
    values = {(sample.metric, *sample.labels): sample.value for sample in stage.samples()}
    assert values[INTAKE_MESSAGES, "orders", "7"] == 6 and values[INTAKE_EVENTS, "events"] == 3
    assert values[DEAD_LETTERS, "field_type", "orders[7]"] == 2


def test_an_event_beyond_the_limit_is_a_dead_letter_of_its_source() -> None:
    stage = intake(configured("limits.message_bytes=100"))
    records = stage.handle([message({"a": "b" * 70}, 3), message({"a": "c"}, 4)])
    (letter,) = [record for record in records if record.topic == "glasstream.events.dead"]
    said = events_dead.decode(letter.headers)
    assert (said.reason, said.offset) == ("too_large", 3)
    assert letter.instead is not None and letter.instead().value is None
    assert [one["id"] for one in by_stream(records)[b"orders"]] == ["orders[0]@4"]


def test_labels_of_another_topic_join_their_events() -> None:
    stage = intake(configured(*LABELS))
    records = stage.handle([message({"o": 1, "a": 2}, 0), message({"o": 1, "paid": True}, 0, topic="paid")])
    assert by_stream(records) == {b"orders": [{"x": {"a": 2}, "id": 1, "ts": 1000}, {"y": True, "id": 1, "ts": 1000}]}


def test_events_and_labels_of_one_topic_are_told_apart_and_the_rest_is_skipped() -> None:
    apart = ("intake.labels_topics=orders", *LABELS[1:], "intake.where=type=order", "intake.labels_where=type=paid")
    log = [
        message({"type": "order", "o": 7, "a": 1}, 0),
        message({"type": "heartbeat"}, 1),
        message({"type": "paid", "o": 7, "paid": "no"}, 2),
        message(b"broken", 3),
    ]
    stage = intake(configured(*apart))
    records = stage.handle(log)
    stage.committed()
    assert by_stream(records) == {b"orders": [{"x": {"a": 1}, "id": 7, "ts": 1_000}, {"y": "no", "id": 7, "ts": 1_002}]}
    letters = [events_dead.decode(one.headers) for one in records if one.topic == "glasstream.events.dead"]
    assert [letter.offset for letter in letters] == [3]
    counts = {sample.labels: sample.value for sample in stage.samples() if sample.metric is INTAKE_EVENTS}
    assert counts == {("events",): 1, ("labels",): 1, ("skipped",): 1}
    assert by_stream(one for entry in log for one in stage.handle([entry])) == by_stream(records)


@pytest.mark.parametrize("form", ["json", "json-lines"])
@pytest.mark.parametrize("unwrap", [(), ("intake.unwrap=dynamodb",)])
@pytest.mark.parametrize("levels", [LEVELS + 1, 500, 1_010, 100_000])
def test_a_message_of_many_levels_is_a_dead_letter(form: str, unwrap: tuple[str, ...], levels: int) -> None:
    """Functions that call themselves would end the worker."""
    good = {"a": 1, "b": {"c": 2}}
    stage = intake(configured(f"intake.format={form}", "intake.features=a", *unwrap))
    for opens, closes in ((b'{"a":', b"}"), (b'{"a":[', b"]}")):
        deep = opens * levels + b"1" + closes * levels
        records = stage.handle([message(good, 0), message(deep, 1), message(good, 2)])
        (letter,) = (one for one in records if one.topic == "glasstream.events.dead")
        assert events_dead.decode(letter.headers).offset == 1
        assert len(by_stream(records)[b"orders"]) == 2


def test_as_many_levels_as_are_allowed_are_read() -> None:
    deep = b'{"a":' * LEVELS + b"1" + b"}" * LEVELS
    (event,) = by_stream(intake(configured()).handle([message(deep)]))[b"orders"]
    assert list(event["x"].values()) == [1]


def test_a_document_that_both_conditions_select_is_rejected() -> None:
    apart = ("intake.labels_topics=orders", *LABELS[1:], "intake.where=type!=ping", "intake.labels_where=type=paid")
    (letter,) = intake(configured(*apart)).handle([message({"type": "paid", "o": 7, "paid": "no"})])
    assert "satisfies both intake.where and intake.labels_where" in events_dead.decode(letter.headers).detail


@pytest.mark.parametrize("number", ["9" * 38, "-" + "9" * 400, "1e999", "1_0", "٣", "NaN", "7", "1.5"])
@pytest.mark.parametrize("part", ["a", "y", "id", "ts"])
def test_wrapped_numbers_of_any_size_become_events_or_dead_letters(number: str, part: str) -> None:
    stage = intake(configured("intake.unwrap=dynamodb", "intake.id=id", "intake.ts=ts"))
    good: dict[str, Any] = {"a": {"N": "1"}, "b": 1, "y": 1, "id": {"S": "x"}, "ts": {"N": "1700000000000"}}
    records = stage.handle([message(good, 0), message({**good, part: {"N": number}}, 1), message(good, 2)])
    letters = [one for one in records if one.topic == "glasstream.events.dead"]
    assert len(by_stream(records)[b"orders"]) + len(letters) == 3


def test_types_are_held_for_all_workers() -> None:
    held = Held()
    intake(configured(), held).handle([message({"a": 1, "y": "u"})])
    assert held.types.events == {"a": "number", "y": "text"}
    records = intake(configured(), held).handle([message({"a": "x", "b": 1, "y": "u"}), message({"b": 1, "y": "u"})])
    assert [record.topic for record in records] == ["glasstream.events", "glasstream.events.dead"]
    assert held.types.events == {"a": "number", "b": "number", "y": "text"}
    (letter,) = intake(configured(), held).handle([message({"b": 1, "y": 3})])
    assert "y: expected a text" in events_dead.decode(letter.headers).detail
    stated = intake(configured("intake.types=a=text"), held).handle([message({"a": 1})])
    assert by_stream(stated)[b"orders"][0]["x"] == {"a": "1"}


class Unreachable(Json):
    """A format whose registry is away until `back` is set."""

    back = False

    def read(self, topic: str, value: bytes) -> tuple[Documents, bool]:
        if not self.back:
            raise UnavailableError("the schema registry at http://r does not answer: refused")
        return super().read(topic, value)


def test_a_registry_that_is_away_is_waited_for_and_named(embedded: EmbeddedKafka, prefix: str) -> None:
    """The embedded broker keeps no offsets of transactions: restarts are in tests/integration/test_intake.py."""
    settings = load(assignments=["intake.topics=" + prefix + "orders", "topics.events=2", f"prefix={prefix}"])
    link = embedded_topics(embedded, prefix, 2, names="orders events events.dead")
    count, way = 300, Unreachable()

    def send(begin: int, end: int) -> None:
        for partition in (0, 1):
            values = [orjson.dumps({"p": partition, "n": n}) for n in range(begin, end)]
            produce(embedded.bootstrap, f"{prefix}orders", values, partition)

    def taken() -> list[Any]:
        found: list[Any] = []
        for value in (value for part in read_all(embedded.bootstrap, f"{prefix}events", 2) for value in part):
            content = orjson.loads(value or b"")
            found += content if isinstance(content, list) else [content]
        return found

    async def run() -> None:
        worker = Intake(settings, lambda name: way, Held())
        topics = {f"{prefix}events": 2, f"{prefix}events.dead": 2}
        stage = Relay(link, options(prefix, name="intake"), (f"{prefix}orders",), worker, topics, 0.05, "intake.topics")
        await stage.start()
        try:
            await until(lambda: "does not answer: refused" in (stage.unready() or ""))
            assert not taken()
            way.back = True
            send(count // 2, count)
            await until(lambda: stage.failure is not None or len(taken()) >= 2 * count)
            assert stage.failure is None
            await until(lambda: stage.unready() is None)
        finally:
            await stage.stop()

    send(0, count // 2)
    asyncio.run(run())
    for partition in (0, 1):
        assert [one["x"]["n"] for one in taken() if one["x"]["p"] == partition] == list(range(count))


def test_a_group_whose_offsets_kafka_has_forgotten_writes_nothing_again(embedded: EmbeddedKafka, prefix: str) -> None:
    """The embedded broker keeps no offsets of transactions, as a broker that has forgotten them."""
    source = f"{prefix}orders"
    settings = load(assignments=[f"intake.topics={source}", "topics.events=2", f"prefix={prefix}"])
    link, held = embedded_topics(embedded, prefix, 2, names="orders events events.dead"), Held()
    produce(embedded.bootstrap, source, [orjson.dumps({"n": n}) for n in range(20)], 1)

    def messages() -> list[bytes | None]:
        return [value for part in read_all(embedded.bootstrap, f"{prefix}events", 2) for value in part]

    async def run(expected: str | None) -> None:
        worker = Intake(settings, lambda name: Json(), held)
        topics = {f"{prefix}events": 2, f"{prefix}events.dead": 2}
        stage = Relay(
            link, options(prefix, name="intake"), (source,), worker, topics, 0.05, "intake.topics",
            begun=lambda: held.types.topics,
        )  # fmt: skip
        await stage.start()
        try:
            if expected is None:
                await until(lambda: worker.read.total() == 20)
            else:
                await until(lambda: expected in (stage.unready() or ""))
                assert stage.stalls.keys() == {(source, 0), (source, 1)} and not worker.read
                assert f"--topic {source} --reset-offsets --to-datetime" in (stage.unready() or "")
            assert stage.failure is None
        finally:
            await stage.stop()

    asyncio.run(run(None))
    assert held.types.topics == (source,)
    written = messages()
    asyncio.run(run("Kafka has forgotten its offsets"))
    assert messages() == written
