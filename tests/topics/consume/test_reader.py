"""A program's own reading of the explanations, on the embedded broker; transactions need a real Kafka."""

import itertools
import re
import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.base.errors import BrokerError, InputError, RecordError, VersionError
from glasstream_topics import drift as drift_topic
from glasstream_topics import effects as effects_topic
from glasstream_topics import importance as importance_topic
from glasstream_topics.consume import Origin, drift, effects, importance, opening
from tests.support.golden_records import checked_in
from tests.support.writing import ESTIMATE, SECONDS, Writer, curve, estimate

PREFIX = "test."
FAST = {"fetch.wait.max.ms": "10"}
"""The embedded broker answers a fetch without records only after this time."""


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as opened:
        yield opened


@pytest.fixture
def writer(broker: EmbeddedKafka) -> Writer:
    """To `importance`, of two partitions."""
    broker.create_topic(f"{PREFIX}importance", 2)
    return Writer(broker.bootstrap, f"{PREFIX}importance")


def test_records_come_typed_in_order_and_with_their_place(writer: Writer) -> None:
    writer.send(*(estimate(row) for row in range(5)))
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, follow=False) as records:
        assert records.origin is None
        for row, record in enumerate(records):
            assert record == importance_topic.decode(estimate(row))
            assert records.origin is not None
            assert records.origin == Origin(writer.topic, records.origin.partition, row)
    assert row == 4


def test_records_of_other_minor_versions_are_read_beside_ours(writer: Writer) -> None:
    later = orjson.dumps({**ESTIMATE, "row": 200, "added": {"by": ["a", "later", "release"]}})
    writer.send(later, checked_in("importance.v2.json"))
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, follow=False) as records:
        assert [(one.schema_version, one.row, one.staleness) for one in records] == [(2, 200, 0.0625), (2, 199, 0.0625)]


def test_a_damaged_record_is_raised_once_and_the_iteration_goes_on(writer: Writer) -> None:
    writer.send(estimate(0), b"\x00 no record", estimate(2))
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, follow=False) as records:
        assert next(records).row == 0
        with pytest.raises(RecordError, match=re.escape(f"{writer.topic}[") + r"\d\]@1: "):
            next(records)
        assert records.origin is not None and records.origin.offset == 1
        assert [record.row for record in records] == [2]
        assert records.damaged == 1


def test_damaged_records_can_be_skipped_and_are_counted(writer: Writer) -> None:
    writer.send(b"{}", estimate(0), b"", estimate(1))
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, follow=False, damaged="skip") as records:
        assert [record.row for record in records] == [0, 1]
        assert records.damaged == 2


def test_an_unknown_major_version_is_never_skipped(writer: Writer) -> None:
    writer.send(estimate(0), estimate(1, schema_version=99), estimate(2))
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, follow=False, damaged="skip") as records:
        assert next(records).row == 0
        with pytest.raises(VersionError, match=re.escape(f"{writer.topic}[") + r"\d\]@1: .* got 99"):
            next(records)
        assert (next(records).row, records.damaged) == (2, 0)


def test_only_the_streams_asked_for_come(writer: Writer) -> None:
    for row, stream in enumerate(["a", "a/b", "b", "a"]):
        writer.send(estimate(row, stream), key=stream.encode())
    writer.send(b"damaged, of another stream", key=b"b")
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, follow=False, streams="a") as records:
        assert [record.row for record in records] == [0, 3]
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, follow=False, streams=["a/b", "a"]) as records:
        assert sorted(record.row for record in records) == [0, 1, 3]


def test_latest_begins_after_the_call(writer: Writer) -> None:
    writer.send(estimate(0))
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, start="latest", timeout=SECONDS) as records:
        writer.send(estimate(1))
        assert next(records).row == 1


def test_a_reader_continues_at_the_positions_of_another(writer: Writer) -> None:
    """Not those of records that came before: also behind skipped ones, and in a partition without new records."""
    writer.send(estimate(0), estimate(1, "other"), b"damaged")
    options: dict[str, Any] = {"prefix": PREFIX, "kafka": FAST, "follow": False, "damaged": "skip", "streams": "s"}
    with importance(writer.bootstrap, **options) as records:
        assert records.positions == {}
        assert [record.row for record in records] == [0]
        reached = records.positions
    assert [*reached.values()] == [3]  # one partition has records
    with importance(writer.bootstrap, start=reached, **options) as records:
        assert records.positions == reached
        assert not [*records]
        assert records.positions == reached
    writer.send(estimate(2))
    with importance(writer.bootstrap, start=reached, **options) as records:
        assert [record.row for record in records] == [2]
    assert records.positions == {}


def test_a_position_behind_the_end_or_for_a_group_is_refused(writer: Writer) -> None:
    writer.send(estimate(0))
    with pytest.raises(InputError, match=r"up to [01], the end of test\.importance\[1\], got 7; the topic was deleted"):
        importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, start={1: 7})
    with pytest.raises(InputError, match="expected earliest or latest for a group"):
        importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, start={1: 0}, group="g")


def test_a_reader_ends_when_nothing_comes_when_time_is_up_or_when_told(writer: Writer) -> None:
    writer.send(estimate(0))
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, idle=SECONDS) as records:
        assert next(records).row == 0
        records._idle = 0.1  # from here on: how long the first fetch takes is not told
        assert list(records) == []
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, timeout=0.5) as records:
        assert len(list(records)) <= 1  # as far as it comes
    with importance(writer.bootstrap, prefix=PREFIX, kafka=FAST, start="latest") as records:
        threading.Timer(0.1, records.stop).start()
        assert list(records) == []
    assert list(records) == []  # closed


def test_an_interrupt_passes_through_and_closes(writer: Writer) -> None:
    writer.send(estimate(0), estimate(1))
    with pytest.raises(KeyboardInterrupt), importance(writer.bootstrap, prefix=PREFIX, kafka=FAST) as records:
        for _ in records:
            raise KeyboardInterrupt
    assert list(records) == []


def test_a_missing_broker_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_ANSWER_SECONDS", 1.0)
    with pytest.raises(BrokerError, match=r"no broker answers at 127\.0\.0\.1:1: "):
        importance("127.0.0.1:1", kafka={"log_level": "0"})


def test_the_newest_curves_are_what_a_mapping_ends_with(broker: EmbeddedKafka) -> None:
    broker.create_topic(f"{PREFIX}effects", 1)
    curves = Writer(broker.bootstrap, f"{PREFIX}effects")
    for row, feature in itertools.product(range(3), ("age", "loan")):
        curves.send(curve(feature, row), key=effects_topic.key("s", feature))
    curves.send(curve("age", 9, "other"), key=effects_topic.key("other", "age"))
    curves.send(None, key=effects_topic.key("s", "gone"))
    with effects(broker.bootstrap, prefix=PREFIX, kafka=FAST, streams="s", follow=False) as records:
        found = {one.feature: one.row for one in records}
    assert found == {"age": 2, "loan": 2}


def test_alarms_are_read_alike(broker: EmbeddedKafka) -> None:
    fields: dict[str, Any] = {"epoch": 0, "stream": "s", "seq": 8, "signal": "loss", "feature": None, "method": None}
    fields |= {"model_version": 4, "coverage": 1.0, "before": 0.25, "after": 0.5, "width": 32}
    fields |= {"curve_before": None, "curve_after": None, "detector": "adwin", "parameters": {"delta": 0.002}}
    broker.create_topic(f"{PREFIX}drift", 1)
    Writer(broker.bootstrap, f"{PREFIX}drift").send(*(drift_topic.encode(row=row, **fields) for row in (7, 8)))
    with drift(broker.bootstrap, prefix=PREFIX, kafka=FAST, streams="s", follow=False) as records:
        assert [(one.row, one.signal, one.after) for one in records] == [(7, "loss", 0.5), (8, "loss", 0.5)]
