"""A program's own reading of the explanations, on a real Kafka."""

import io
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from glasstream.brokers.local import Kafka
from glasstream.consume import Origin, drift, effects, importance, opening
from glasstream.errors import BrokerError, RecordError, TopicError, VersionError
from glasstream_topics import drift as drift_topic
from glasstream_topics import effects as effects_topic
from glasstream_topics import importance as importance_topic
from tests.topics.golden_records import checked_in

pytestmark = pytest.mark.kafka

PAGE = Path(__file__).resolve().parents[2] / "ops" / "docs" / "consuming.md"
SECONDS = 30.0
ESTIMATE = orjson.loads(checked_in("importance.v1.json"))
CURVE = orjson.loads(checked_in("effects.v1.json"))


def estimate(row: int, stream: str = "s", **changes: Any) -> bytes:
    return orjson.dumps({**ESTIMATE, "stream": stream, "row": row, **changes})


def curve(feature: str, row: int, stream: str = "s") -> bytes:
    return orjson.dumps({**CURVE, "stream": stream, "feature": feature, "row": row, "output": None})


class Writer:
    """Makes one topic of a prefix and writes to it; the topic is gone at the end of the test."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result(SECONDS)
        self.until(lambda: topic in self.admin.list_topics(timeout=SECONDS).topics)
        self.producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})

    def until(self, condition: Callable[[], bool], seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def send(self, *values: bytes | None, key: bytes = b"s") -> None:
        for value in values:
            self.producer.produce(self.topic, value, key)
        assert self.producer.flush(SECONDS) == 0

    def transaction(self, *values: bytes, commit: bool) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.topic})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.topic, value, b"s")
        producer.flush(SECONDS)
        producer.commit_transaction(SECONDS) if commit else producer.abort_transaction(SECONDS)
        # The markers come after the answer, and until then committed records are read up to the transaction only.
        self.until(lambda: self.ends(IsolationLevel.READ_COMMITTED) == self.ends(IsolationLevel.READ_UNCOMMITTED))

    def ends(self, level: IsolationLevel) -> list[int]:
        """Where each partition ends for who reads at an isolation level."""
        partitions = self.admin.list_topics(self.topic, timeout=SECONDS).topics[self.topic].partitions
        asked = {TopicPartition(self.topic, partition): OffsetSpec.latest() for partition in partitions}
        found = self.admin.list_offsets(asked, isolation_level=level)
        return [found[place].result(SECONDS).offset for place in asked]

    def delete(self) -> None:
        self.admin.delete_topics([self.topic])[self.topic].result(SECONDS)


@pytest.fixture
def writer(kafka: str, prefix: str) -> Iterator[Writer]:
    """To `importance`, of two partitions."""
    made = Writer(kafka, f"{prefix}importance", partitions=2)
    yield made
    made.delete()


@pytest.fixture
def curves(kafka: str, prefix: str) -> Iterator[Writer]:
    """To `effects`."""
    made = Writer(kafka, f"{prefix}effects", config={"cleanup.policy": "compact"})
    yield made
    made.delete()


def test_records_come_typed_in_order_and_with_their_place(kafka: str, prefix: str, writer: Writer) -> None:
    writer.send(*(estimate(row) for row in range(5)))
    with importance(kafka, prefix=prefix, follow=False) as records:
        assert records.origin is None
        for row, record in enumerate(records):
            assert record == importance_topic.decode(estimate(row))
            assert records.origin is not None
            assert records.origin == Origin(writer.topic, records.origin.partition, row)
    assert row == 4


def test_an_aborted_transaction_is_not_seen(kafka: str, prefix: str, writer: Writer) -> None:
    writer.transaction(estimate(0), commit=True)
    writer.transaction(estimate(1), estimate(2), commit=False)
    writer.transaction(estimate(3), commit=True)
    with importance(kafka, prefix=prefix, follow=False) as records:
        assert [record.row for record in records] == [0, 3]


def test_records_of_an_open_transaction_are_waited_for(kafka: str, prefix: str, writer: Writer) -> None:
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": prefix})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(writer.topic, estimate(0), b"s")
    producer.flush(SECONDS)
    with importance(kafka, prefix=prefix, follow=False) as records:
        assert list(records) == []
    with importance(kafka, prefix=prefix, timeout=SECONDS) as records:
        producer.commit_transaction(SECONDS)
        assert next(records).row == 0


def test_records_of_other_minor_versions_are_read_beside_ours(kafka: str, prefix: str, writer: Writer) -> None:
    later = orjson.dumps({**ESTIMATE, "row": 200, "added": {"by": ["a", "later", "release"]}})
    writer.send(later, checked_in("importance.v1.json"))
    with importance(kafka, prefix=prefix, follow=False) as records:
        assert [(one.schema_version, one.row, one.staleness) for one in records] == [(1, 200, 0.0625), (1, 199, 0.0625)]


def test_a_damaged_record_is_raised_once_and_the_iteration_goes_on(kafka: str, prefix: str, writer: Writer) -> None:
    writer.send(estimate(0), b"\x00 no record", estimate(2))
    with importance(kafka, prefix=prefix, follow=False) as records:
        assert next(records).row == 0
        with pytest.raises(RecordError, match=re.escape(f"{writer.topic}[") + r"\d\]@1: "):
            next(records)
        assert records.origin is not None and records.origin.offset == 1
        assert [record.row for record in records] == [2]
        assert records.damaged == 1


def test_damaged_records_can_be_skipped_and_are_counted(kafka: str, prefix: str, writer: Writer) -> None:
    writer.send(b"{}", estimate(0), b"", estimate(1))
    with importance(kafka, prefix=prefix, follow=False, damaged="skip") as records:
        assert [record.row for record in records] == [0, 1]
        assert records.damaged == 2


def test_an_unknown_major_version_is_never_skipped(kafka: str, prefix: str, writer: Writer) -> None:
    writer.send(estimate(0), estimate(1, schema_version=99), estimate(2))
    with importance(kafka, prefix=prefix, follow=False, damaged="skip") as records:
        assert next(records).row == 0
        with pytest.raises(VersionError, match=re.escape(f"{writer.topic}[") + r"\d\]@1: .* got 99"):
            next(records)
        assert (next(records).row, records.damaged) == (2, 0)


def test_only_the_streams_asked_for_come(kafka: str, prefix: str, writer: Writer) -> None:
    for row, stream in enumerate(["a", "a/b", "b", "a"]):
        writer.send(estimate(row, stream), key=stream.encode())
    writer.send(b"damaged, of another stream", key=b"b")
    with importance(kafka, prefix=prefix, follow=False, streams="a") as records:
        assert [record.row for record in records] == [0, 3]
    with importance(kafka, prefix=prefix, follow=False, streams=["a/b", "a"]) as records:
        assert sorted(record.row for record in records) == [0, 1, 3]


def test_latest_begins_after_the_call(kafka: str, prefix: str, writer: Writer) -> None:
    writer.send(estimate(0))
    with importance(kafka, prefix=prefix, start="latest", timeout=SECONDS) as records:
        writer.send(estimate(1))
        assert next(records).row == 1


def test_a_group_goes_on_behind_what_was_used(kafka: str, prefix: str, writer: Writer) -> None:
    """What was handed out and not finished with comes again; what was refused as well."""
    writer.send(*(estimate(row) for row in range(3)), estimate(3, schema_version=99))
    options: dict[str, Any] = {"prefix": prefix, "group": f"{prefix}group", "timeout": SECONDS}
    with pytest.raises(ZeroDivisionError), importance(kafka, **options) as records:
        assert next(records).row == 0
        assert next(records).row == 1
        raise ZeroDivisionError  # while row 1 is in work
    with importance(kafka, **options) as records:
        assert next(records).row == 1
    with importance(kafka, **options) as records:
        assert next(records).row == 2
        with pytest.raises(VersionError):
            next(records)
    with importance(kafka, **options) as records, pytest.raises(VersionError):
        next(records)


def test_a_reader_ends_when_nothing_comes_when_time_is_up_or_when_told(kafka: str, prefix: str, writer: Writer) -> None:
    writer.send(estimate(0))
    with importance(kafka, prefix=prefix, idle=10.0) as records:
        assert [record.row for record in records] == [0]
    with importance(kafka, prefix=prefix, timeout=0.5) as records:
        assert len(list(records)) <= 1  # as far as it comes
    with importance(kafka, prefix=prefix, start="latest") as records:
        threading.Timer(0.1, records.stop).start()
        assert list(records) == []
    assert list(records) == []  # closed


def test_an_interrupt_passes_through_and_closes(kafka: str, prefix: str, writer: Writer) -> None:
    writer.send(estimate(0), estimate(1))
    with pytest.raises(KeyboardInterrupt), importance(kafka, prefix=prefix) as records:
        for _ in records:
            raise KeyboardInterrupt
    assert list(records) == []


def test_a_missing_topic_and_a_missing_broker_are_said(
    kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TopicError, match=f"expected topic {prefix}importance on {kafka}, got none"):
        importance(kafka, prefix=prefix)
    monkeypatch.setattr(opening, "_ANSWER_SECONDS", 1.0)
    with pytest.raises(BrokerError, match=r"no broker answers at 127\.0\.0\.1:1: "):
        importance("127.0.0.1:1", kafka={"log_level": "0"})


def test_the_newest_curves_are_what_a_mapping_ends_with(kafka: str, prefix: str, curves: Writer) -> None:
    for row, feature in itertools.product(range(3), ("age", "loan")):
        curves.send(curve(feature, row), key=effects_topic.key("s", feature))
    curves.send(curve("age", 9, "other"), key=effects_topic.key("other", "age"))
    curves.send(None, key=effects_topic.key("s", "gone"))
    with effects(kafka, prefix=prefix, streams="s", follow=False) as records:
        found = {one.feature: one.row for one in records}
    assert found == {"age": 2, "loan": 2}


def test_alarms_are_read_alike(kafka: str, prefix: str) -> None:
    fields: dict[str, Any] = {"epoch": 0, "stream": "s", "seq": 8, "signal": "loss", "feature": None, "method": None}
    fields |= {"model_version": 4, "coverage": 1.0, "before": 0.25, "after": 0.5, "width": 32}
    fields |= {"curve_before": None, "curve_after": None, "detector": "adwin", "parameters": {"delta": 0.002}}
    writer = Writer(kafka, f"{prefix}drift")
    writer.send(*(drift_topic.encode(row=row, **fields) for row in (7, 8)))
    with drift(kafka, prefix=prefix, streams="s", follow=False) as records:
        assert [(one.row, one.signal, one.after) for one in records] == [(7, "loss", 0.5), (8, "loss", 0.5)]
    writer.delete()


@pytest.mark.slow
def test_a_compacted_topic_gives_the_newest_of_each_key(local_broker: Callable[..., Kafka], prefix: str) -> None:
    broker = local_broker(settings={"log.cleaner.backoff.ms": "100"})
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": "0",
    }
    writer = Writer(broker.bootstrap, f"{prefix}effects", config=config)

    def rows() -> list[tuple[str, int]]:
        # A record more each time: the newest segment is not cleaned, and closes only when something is written.
        writer.send(curve("last", 0), key=effects_topic.key("s", "last"))
        with effects(broker.bootstrap, prefix=prefix, follow=False) as records:
            return [(one.feature, one.row) for one in records if one.feature != "last"]

    for row, feature in itertools.product(range(50), ("age", "loan")):
        writer.send(curve(feature, row), key=effects_topic.key("s", feature))
    writer.send(curve("gone", 0), None, key=effects_topic.key("s", "gone"))
    assert len(rows()) <= 101
    writer.until(lambda: rows() == [("age", 49), ("loan", 49)], 120.0)


def programs() -> list[str]:
    """Return the programs of the section, as they stand there."""
    section = PAGE.read_text(encoding="utf-8").split("## Read the explanations from your own program", 1)[1]
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", section.split("\n## ", 1)[0], re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in blocks if block.strip()]


def test_both_programs_of_the_document_print_the_same(kafka: str, prefix: str, writer: Writer) -> None:
    writer.transaction(estimate(99, "loans"), commit=False)
    for row in (199, 299):
        writer.send(estimate(row, "loans"), key=b"loans")
        writer.send(estimate(row, "others"), key=b"others")
    best = min(ESTIMATE["features"], key=lambda name: ESTIMATE["features"][name]["rank"])
    expected = [f"{row} ipfi {best} {ESTIMATE['features'][best]['value']}" for row in (199, 299)]
    written = programs()
    assert len(written) == 2
    for number, program in enumerate(written):
        for told, here in (
            ("60", "15"),  # first: names that come after may hold it; joining the group counts as idle too
            ('"kafka:9092"', repr(kafka)),
            ('"glasstream.', f'"{prefix}'),
            ('"dashboard"', f'"{prefix}{number}"'),
        ):
            assert told in program
            program = program.replace(told, here)
        said = io.StringIO()
        with redirect_stdout(said):
            exec(program, {})
        assert said.getvalue().splitlines() == expected
