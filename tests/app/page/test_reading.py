"""The topics read back from a real Kafka: the newest of each partition, committed, and then what comes."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command.cli import cli
from glasstream.app.page.reading import Taken, Topics
from glasstream.base.errors import TopicError
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.progress import watermarks
from glasstream_topics import admin
from glasstream_topics.importance import Importance
from tests.support.page_records import drift_record, effect_record, importance_record
from tests.support.waiting import wait_for


@pytest.fixture
def deployed(kafka: str, prefix: str) -> Iterator[str]:
    """A prefix with topics."""
    client = AdminClient(Connection(kafka).client())
    admin.create(client, {"events": 2, "requests": 2}, prefix)
    yield prefix
    admin.delete(client, prefix)


def read(topics: Topics, count: int) -> list[Taken]:
    found: list[Taken] = []

    def enough() -> bool:
        found.extend(topics.read())
        return len(found) >= count and not topics.left

    wait_for(f"{count} records", enough)
    return found


def test_the_newest_are_read_back_and_then_what_comes(kafka: str, deployed: str) -> None:
    """Only a broker hides aborted records, and counts their offsets and the markers of transactions."""
    plain = Producer(Connection(kafka).producer())
    for row in range(50):
        plain.produce(f"{deployed}importance", importance_record(row, {"a": 0.5}), b"s")
    plain.produce(f"{deployed}effects", effect_record(9, "a", [0.1, 0.2]), b"s/a")
    plain.produce(f"{deployed}effects", None, b"s/gone")
    plain.produce(f"{deployed}events.dead", b"?", b"s", headers={"reason": b"not_json"})
    plain.flush(30.0)
    sure = Producer(Connection(kafka).producer(transactional_id=f"{deployed}t"))
    sure.init_transactions(30.0)
    sure.begin_transaction()
    sure.produce(f"{deployed}drift", drift_record(9, "a", 0.1, 0.2), b"s")
    sure.flush(30.0)
    sure.abort_transaction(30.0)

    def marked() -> bool:
        ends = [watermarks(Connection(kafka), f"{deployed}drift", partition, 30.0)[1] for partition in range(2)]
        return sum(ends) == 2  # the record that was aborted, and the marker

    wait_for("the marker of the transaction, which comes after the answer", marked)

    topics = Topics(Connection(kafka), [deployed], history=20)
    try:
        assert topics.total == 20 + 2 + 1 + 2  # a transaction's marker is an offset too
        back = read(topics, 22)
        rows = [one.record.row for one in back if isinstance(one.record, Importance)]
        assert rows == list(range(30, 50))
        assert sorted(one.topic for one in back if one.topic != "importance") == ["effects", "events.dead"]
        assert [one.reason for one in back if one.reason] == ["not_json"]
        assert all(one.written > 1e12 for one in back)

        plain.produce(f"{deployed}importance", b'{"schema_version": 99}', b"s")
        plain.produce(f"{deployed}importance", importance_record(50, {"a": 0.5}), b"s")
        plain.flush(30.0)
        damaged, good = read(topics, 2)
        assert damaged.record is None and damaged.reason is None
        assert isinstance(good.record, Importance) and good.record.row == 50
        assert topics.trouble() is None
    finally:
        topics.close()


def test_topics_that_are_not_there_are_named(embedded: EmbeddedKafka, prefix: str) -> None:
    result = CliRunner().invoke(cli, ["page", "--broker", embedded.bootstrap, "--prefix", prefix, "--port", "0"])
    assert isinstance(result.exception, TopicError)
    assert f"expected topic {prefix}predictions" in str(result.exception) and "topics create" in str(result.exception)
