"""A program's own reading of the explanations, where it rests on a real Kafka: transactions, groups, compaction.

What a reader makes of records is in `tests/topics/consume`.
"""

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from glasstream.base.errors import TopicError, VersionError
from glasstream_topics import effects as effects_topic
from glasstream_topics.consume import effects, importance
from tests.support.kafka_writer import KafkaWriter
from tests.support.waiting import wait_for
from tests.support.writing import ESTIMATE, SECONDS, curve, estimate

PAGE = Path(__file__).resolve().parents[2] / "ops" / "docs" / "consuming.md"


def test_only_what_is_committed_is_seen_and_a_group_goes_on_behind_what_was_used(kafka: str, prefix: str) -> None:
    """Only a broker keeps transactions apart, and the offsets of groups whose members come and go."""
    for number, check in enumerate((only_what_is_committed, behind_what_was_used, both_programs_of_the_document)):
        own = f"{prefix}{number}."
        writer = KafkaWriter(kafka, f"{own}importance", partitions=2)
        try:
            check(kafka, own, writer)
        finally:
            writer.delete()


def only_what_is_committed(kafka: str, prefix: str, writer: KafkaWriter) -> None:
    """Aborted transactions are left out, and an open one is waited for."""
    writer.transaction(estimate(0), commit=True)
    writer.transaction(estimate(1), estimate(2), commit=False)
    writer.transaction(estimate(3), commit=True)
    with importance(kafka, prefix=prefix, follow=False) as records:
        assert [record.row for record in records] == [0, 3], "an aborted transaction is seen"
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": prefix})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(writer.topic, estimate(4), b"s")
    producer.flush(SECONDS)
    with importance(kafka, prefix=prefix, follow=False) as records:
        assert [record.row for record in records] == [0, 3], "an open transaction is seen"
    with importance(kafka, prefix=prefix, timeout=SECONDS) as records:
        producer.commit_transaction(SECONDS)
        assert [next(records).row for _ in range(3)] == [0, 3, 4], "a transaction is not seen after its commit"
    with pytest.raises(TopicError, match=f"expected topic {prefix}effects on {kafka}, got none"):
        effects(kafka, prefix=prefix)


def behind_what_was_used(kafka: str, prefix: str, writer: KafkaWriter) -> None:
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


@pytest.mark.slow
def test_a_compacted_topic_gives_the_newest_of_each_key(kafka: str, prefix: str) -> None:
    """Only a broker compacts."""
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": "0",
    }
    writer = KafkaWriter(kafka, f"{prefix}effects", config=config)

    def rows() -> list[tuple[str, int]]:
        # A record more each time: the newest segment is not cleaned, and closes only when something is written.
        writer.send(curve("last", 0), key=effects_topic.key("s", "last"))
        with effects(kafka, prefix=prefix, follow=False) as records:
            return [(one.feature, one.row) for one in records if one.feature != "last"]

    for row, feature in itertools.product(range(50), ("age", "loan")):
        writer.send(curve(feature, row), key=effects_topic.key("s", feature))
    writer.send(curve("gone", 0), None, key=effects_topic.key("s", "gone"))
    assert len(rows()) <= 101
    wait_for("all rows", lambda: rows() == [("age", 49), ("loan", 49)])
    writer.delete()


def programs() -> list[str]:
    """Return the programs of the section, as they stand there."""
    section = PAGE.read_text(encoding="utf-8").split("## Read the explanations from your own program", 1)[1]
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", section.split("\n## ", 1)[0], re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in blocks if block.strip()]


def both_programs_of_the_document(kafka: str, prefix: str, writer: KafkaWriter) -> None:
    """Both print the same: two clients, each in a group of its own, neither with the aborted record."""
    writer.transaction(estimate(99, "loans"), commit=False)
    for row in (199, 299):
        writer.send(estimate(row, "loans"), key=b"loans")
        writer.send(estimate(row, "others"), key=b"others")
    best = min(ESTIMATE["features"], key=lambda name: ESTIMATE["features"][name]["rank"])
    expected = [f"{row} ipfi {best} {ESTIMATE['features'][best]['value']}" for row in (199, 299)]
    written = programs()
    assert len(written) == 2
    processes = []
    for number, program in enumerate(written):
        for told, here in (
            ("60", "15"),  # first: names that come after may hold it; joining the group counts as idle too
            ('"kafka:9092"', repr(kafka)),
            ('"glasstream.', f'"{prefix}'),
            ('"dashboard"', f'"{prefix}{number}"'),
        ):
            assert told in program
            program = program.replace(told, here)
        processes.append(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True))
    for program, process in zip(written, processes, strict=True):
        said, _ = process.communicate(timeout=4 * SECONDS)
        assert said.splitlines() == expected, program
