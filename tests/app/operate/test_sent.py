"""What the topics hold about some events, whatever else is there, and the settings under which a stream was learned."""

from collections.abc import Iterator, Mapping

import pytest

from glasstream.app.configuration import load
from glasstream.app.operate.explain_at import from_topics as module
from glasstream.app.operate.explain_at.from_topics import sent
from glasstream.app.operate.explain_at.stream_epoch import StreamEpoch, adopt
from glasstream.base.errors import SettingsError
from glasstream.explain.explainer import explain
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.kafka.stages.names import fingerprint
from glasstream.kafka.transport.records import ConsumerRecord
from glasstream.models.codec import snapshot as codec
from glasstream_topics import contributions, requests, snapshots
from glasstream_topics.progress_learner import LearnerStreamProgress
from tests.support.learner import BASE, event, message

KEY = b"a key of sixteen bytes"
SETTINGS = load(assignments=[*BASE, "prefix=p.", "topics.requests=1", "model.name=river.neighbors:KNNClassifier"])


class Topics:
    """Messages on the topics, by partition."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], list[ConsumerRecord]] = {}

    def write(self, topic: str, key: bytes, value: bytes | None) -> None:
        records = self.records.setdefault((f"p.{topic}", 0), [])
        records.append(ConsumerRecord(f"p.{topic}", 0, len(records), key, value))

    def read_records(
        self, link: object, begin: Mapping[tuple[str, int], int], *, read_committed: bool
    ) -> Iterator[ConsumerRecord]:
        for place in begin:
            yield from self.records.get(place, [])


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    """A stream's blocks, contributions and sealed snapshots, ended ones and another epoch's among them."""
    made = Topics()
    monkeypatch.setattr(module, "read_records", made.read_records)
    learner = PartitionLearner(0, SETTINGS)
    models: dict[int, bytes] = {}
    for number in range(60):
        for _ in learner.consume(message(number, event(number))):
            outbox, _ = learner.take_outbox()
            for one in outbox.snapshots:
                data = codec.encode(one.predictor, stream="s", epoch=0, version=one.version, key=KEY)
                models[one.version] = data
                for key, value in snapshots.split("s", 0, one.version, data):
                    made.write("snapshots", key, value)
                    made.write("snapshots", key, None)
                for key, _ in snapshots.split("s", 1, one.version, data):
                    made.write("snapshots", key, b"of another epoch, and damaged")
            for block in outbox.requests:
                made.write("explain.requests", requests.key("s", block.first_row), requests.encode(block))
                made.write("explain.requests", requests.key("t", block.first_row), b"of another stream, and damaged")
                for answer in explain(block, codec.decode(models[block.version], key=KEY)):
                    made.write("contributions", contributions.key("s"), contributions.encode(answer))
                made.write("contributions", contributions.key("s"), b"damaged")
    return made


def stream_epoch() -> StreamEpoch:
    return StreamEpoch(
        "s", 0, LearnerStreamProgress(stream="s", epoch=0, seqs=60, rows=60, first_offset=0, after=0), SETTINGS, ()
    )


def test_blocks_models_and_contributions_are_found(topics: Topics) -> None:
    found = sent(stream_epoch(), {12, 30}, KEY)
    assert found.published.keys() == found.requests.keys() == {12, 30} and not found.notes
    assert found.models.keys() == {found.requests[12].version, found.requests[30].version}
    for seq, block in found.requests.items():
        assert seq in block.seqs and seq in found.published[seq].contributions.seqs
    assert found.published[12].place.startswith("p.contributions[0]@")


@pytest.mark.parametrize(
    ("key", "why"), [(None, "set GLASSTREAM_HMAC_KEY"), (b"another key of 16 bytes or more", "its HMAC does not match")]
)
def test_a_sealed_model_that_cannot_be_opened_is_named(topics: Topics, key: bytes | None, why: str) -> None:
    found = sent(stream_epoch(), {12}, key)
    assert not found.models and found.requests.keys() == {12}
    (note,) = found.notes
    assert "cannot read model version" in note and "on p.snapshots: " in note and why in note


def test_a_model_that_is_gone_is_named_with_what_would_have_kept_it(topics: Topics) -> None:
    topics.records[("p.snapshots", 0)] = [one for one in topics.records[("p.snapshots", 0)] if one.value is None]
    (note,) = sent(stream_epoch(), {12}, KEY).notes
    assert "no longer on p.snapshots" in note and "min.compaction.lag.ms" in note


def test_the_settings_of_a_stream_are_adopted_but_no_module_is_named_by_a_record() -> None:
    theirs = load(assignments=["model.name=tree", "explain.alpha=0.25", "seed=9", "explain.methods=ipfi,ipdp"])
    adopted = adopt(load(assignments=["prefix=p."]), fingerprint(theirs))
    assert adopted.prefix == "p." and fingerprint(adopted) == fingerprint(theirs)
    named = {**fingerprint(theirs), "model.name": "os:abort"}
    assert adopt(load(), named).model.name == load().model.name
    with pytest.raises(SettingsError, match=r"explain\.nope: .* this release has no such setting"):
        adopt(load(), {"explain.nope": 1})
    with pytest.raises(SettingsError, match="under which the stream was learned cannot be used"):
        adopt(load(), {"explain.alpha": 7.0})
