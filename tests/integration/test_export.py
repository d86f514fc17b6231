"""`glasstream export` into tables that grow, where it rests on a real Kafka: transactions, retention, ids of topics."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import IsolationLevel, TopicPartition

from glasstream.app.command.cli import cli
from glasstream.base.errors import InputError
from tests.support.kafka_writer import KafkaWriter
from tests.support.waiting import wait_for
from tests.support.writing import SECONDS, estimate


@pytest.fixture
def writer(kafka: str, prefix: str) -> Iterator[KafkaWriter]:
    made = KafkaWriter(kafka, f"{prefix}importance", partitions=2)
    yield made
    made.delete()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "parquet"
    path.mkdir()
    return path


def exported(writer: KafkaWriter, out: Path) -> Result:
    options = ["--broker", writer.bootstrap, "--prefix", writer.topic.removesuffix("importance"), "--out", str(out)]
    return CliRunner().invoke(cli, ["export", "importance", *options], standalone_mode=False, catch_exceptions=False)


def rows(out: Path) -> list[int]:
    """Return the rows whose records are there, and check that none is there twice."""
    found = duckdb.sql(f"""SELECT "row" FROM '{out}/importance-*.parquet' WHERE rank = 1 ORDER BY 1""").fetchall()
    assert len(found) == len({*found})
    return [row for (row,) in found]


def test_only_committed_records_are_added_and_each_once(writer: KafkaWriter, out: Path) -> None:
    """Also where a transaction ends the topic: its marker is behind the last record."""
    writer.transaction(estimate(0), estimate(1), commit=True)
    writer.transaction(estimate(2), commit=False)
    exported(writer, out)
    assert rows(out) == [0, 1]
    assert exported(writer, out).stdout.startswith("0 rows")
    writer.transaction(estimate(3), commit=False)
    writer.transaction(estimate(4), estimate(5), commit=True)
    exported(writer, out)
    assert rows(out) == [0, 1, 4, 5]


def test_records_that_retention_deleted_are_said(writer: KafkaWriter, out: Path) -> None:
    writer.send(*(estimate(row) for row in range(3)))
    exported(writer, out)
    writer.send(*(estimate(row) for row in range(3, 9)))
    ends = writer.ends(IsolationLevel.READ_COMMITTED)
    (partition,) = [number for number, end in enumerate(ends) if end]
    place = TopicPartition(writer.topic, partition, 7)
    assert writer.admin.delete_records([place])[place].result(SECONDS).low_watermark == 7
    result = exported(writer, out)
    assert result.stderr.startswith(f"{writer.topic}[{partition}]: the records at offsets 3 to 6 were deleted before")
    assert rows(out) == [0, 1, 2, 7, 8]


def test_a_topic_that_was_created_again_is_not_taken_for_the_same(writer: KafkaWriter, out: Path) -> None:
    """However long it is by now."""
    writer.send(estimate(0))
    exported(writer, out)
    writer.delete()
    wait_for("the end of the topic", lambda: writer.topic not in writer.admin.list_topics(timeout=SECONDS).topics)
    again = KafkaWriter(writer.bootstrap, writer.topic, partitions=2)
    again.send(*(estimate(row) for row in range(1, 5)))
    with pytest.raises(InputError, match=r"another topic .*importance, which was deleted since.*give another --out"):
        exported(writer, out)
    assert rows(out) == [0]
