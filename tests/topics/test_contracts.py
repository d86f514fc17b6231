"""The catalogue says what the architecture demands, and the schemas checked in are those of the types."""

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

import glasstream_topics
from glasstream_topics import schema
from glasstream_topics.contract import MIB, Topic
from glasstream_topics.errors import ContractError, TopicError

TOPICS = {topic.name: topic for topic in glasstream_topics.ALL}
COUNTS = {"events": 4, "requests": 12}


def test_every_topic_is_in_the_catalogue_once() -> None:
    assert sorted(TOPICS) == [
        "attributions",
        "checkpoints",
        "comparisons",
        "contributions",
        "drift",
        "effects",
        "events",
        "events.dead",
        "explain.requests",
        "groups",
        "importance",
        "incidents",
        "labels",
        "models",
        "novelty",
        "predictions",
        "progress.aggregator",
        "progress.intake",
        "progress.labels",
        "progress.learner",
        "progress.novelty",
        "segments",
        "snapshots",
        "watching",
    ]
    assert len(TOPICS) == len(glasstream_topics.ALL)


@pytest.mark.parametrize("topic", glasstream_topics.ALL, ids=lambda topic: topic.name)
def test_a_contract_is_complete(topic: Topic) -> None:
    assert topic.full_name() == f"glasstream.{topic.name}"
    assert topic.full_name("run-1.") == f"run-1.{topic.name}"
    assert topic.holds and topic.key and topic.partitioning and topic.read_by
    assert topic.schema_version is not None
    assert topic.config["cleanup.policy"] in ("delete", "compact")
    assert all(isinstance(value, str) for value in topic.config.values())


def test_public_topics_are_json_and_internal_ones_bounded() -> None:
    assert {name for name, topic in TOPICS.items() if topic.public} == {
        "labels",
        "events",
        "events.dead",
        "predictions",
        "groups",
        "importance",
        "effects",
        "attributions",
        "drift",
        "incidents",
        "watching",
        "segments",
        "novelty",
        "comparisons",
    }
    for topic in glasstream_topics.ALL:
        if topic.name in ("effects", "segments", "watching"):
            assert topic.config["min.compaction.lag.ms"] == "86400000"
        elif topic.public:
            assert topic.config["cleanup.policy"] == "delete"
        elif topic.config["cleanup.policy"] == "compact":
            assert topic.config["segment.bytes"] == str(16 * MIB)
            assert topic.config["segment.ms"] == "600000"
            assert topic.config["min.cleanable.dirty.ratio"] == "0.1"
        else:
            assert int(topic.config["retention.bytes"]) > 0
    compacted = {name for name, topic in TOPICS.items() if topic.config["cleanup.policy"] == "compact"}
    assert compacted == {
        "effects",
        "segments",
        "watching",
        "models",
        "snapshots",
        "checkpoints",
        "progress.learner",
        "progress.aggregator",
        "progress.novelty",
        "progress.intake",
        "progress.labels",
    }


def test_a_dead_letter_may_be_larger_than_an_event() -> None:
    sizes = [int(TOPICS[name].config["max.message.bytes"]) for name in ("events", "events.dead")]
    assert MIB <= sizes[0] < sizes[1]


def test_partitions_follow_events_or_requests() -> None:
    found = {name: topic.partition_count(COUNTS) for name, topic in TOPICS.items()}
    assert found == {
        **dict.fromkeys(TOPICS, 4),
        "explain.requests": 12,
        "snapshots": 1,
        "models": 1,
        "progress.intake": 1,
    }
    for counts in ({}, {"events": 0}, {"requests": 3}):
        with pytest.raises(TopicError, match="expected a count of events from 1 on"):
            TOPICS["events"].partition_count(counts)


def test_the_schemas_checked_in_are_those_of_the_types() -> None:
    assert schema.findings() == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The checked-in schemas, to be tampered with."""
    return Path(shutil.copytree(schema.DIRECTORY, tmp_path / "schemas"))


def changed_type(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    schemas = schema.generate()
    change(schemas["predictions.v1"]["$defs"]["Prediction"])
    monkeypatch.setattr(schema, "generate", lambda: schemas)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["properties"].update(extra={"type": "string"}),
        lambda record: record["required"].remove("loss"),
        lambda record: record["properties"].update(seq={"type": "string"}),
        lambda record: record["properties"].update(stream=record["properties"].pop("stream")),  # order
        lambda record: record["properties"].update(title={"type": "string"}),
    ],
)
def test_a_changed_record_without_a_changed_version_is_found(
    copy: Path, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    changed_type(monkeypatch, change)
    assert schema.findings(copy) == [
        "predictions.v1: its type changed and its version did not; raise its version in the topic's module"
    ]
    with pytest.raises(ContractError, match=r"predictions\.v1.*raise its version"):
        schema.write(copy)


def test_a_changed_description_is_no_changed_record(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_type(monkeypatch, lambda record: record.update(description="better"))
    assert schema.findings(copy) == [
        "predictions.v1: the checked-in schema is not today's; run `python -m glasstream_topics.schema`"
    ]
    assert schema.write(copy) == ["predictions.v1"]
    assert schema.findings(copy) == []


def test_an_avro_schema_that_registries_would_refuse_is_found(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new version, and an old one in which a field is missing, nested records included."""
    schemas, name = schema.generate(), "predictions.v2.avsc"
    later = schemas[name] = schemas.pop("predictions.v1.avsc")
    monkeypatch.setattr(schema, "generate", lambda: schemas)
    fields = {field["name"]: field for field in later["fields"]}
    fields["metric"]["type"]["fields"].append({"name": "unit", "type": ["null", "string"], "default": None})
    later["fields"] = [field for field in later["fields"] if field["name"] != "ts"]
    schema.write(copy)
    assert schema.findings(copy) == []
    fields["metric"]["type"]["fields"][-1].pop("default")
    later["fields"] = [field for field in later["fields"] if field["name"] != "loss_name"]
    (copy / name).unlink()
    digests = orjson.loads((copy / schema.DIGESTS).read_bytes())
    (copy / schema.DIGESTS).write_bytes(orjson.dumps({key: one for key, one in digests.items() if key != name}))
    schema.write(copy)
    assert [line.partition(", which")[0] for line in schema.findings(copy)] == [
        f"{name}: expected a default of Metric.unit",
        f"{name}: expected a default of Prediction.loss_name",
    ]


def test_a_schema_changed_together_with_its_file_is_found(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_type(monkeypatch, lambda record: record["required"].remove("loss"))
    path = copy / "predictions.v1.json"
    path.write_bytes(orjson.dumps(schema.generate()["predictions.v1"]))
    assert any("raise its version" in line for line in schema.findings(copy))
    assert any("not the one that was published" in line for line in schema.findings(copy))


def test_a_new_version_stands_beside_the_old_one(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = schema.generate()
    schemas["predictions.v2"] = {**schemas.pop("predictions.v1"), "type": "object"}
    monkeypatch.setattr(schema, "generate", lambda: schemas)
    assert schema.findings(copy) == [
        "predictions.v2: expected its digest in digests.json, got none; run `python -m glasstream_topics.schema`"
    ]
    assert schema.write(copy) == ["predictions.v2"]
    assert schema.findings(copy) == []
    (copy / "predictions.v1.json").unlink()
    assert schema.findings(copy) == [
        "predictions.v1: expected the schema of every version on the list, got none for this one"
    ]
