"""Bytes that were once written are written today, and read."""

from pathlib import Path

import msgspec
import numpy as np
import orjson
import pytest

import glasstream_topics
from glasstream_topics import (
    attributions,
    checkpoints,
    comparisons,
    contributions,
    drift,
    effects,
    events,
    events_dead,
    groups,
    importance,
    incidents,
    labels,
    models,
    novelty,
    predictions,
    progress_aggregator,
    progress_intake,
    progress_labels,
    progress_learner,
    progress_novelty,
    requests,
    segments,
    snapshots,
    watching,
)
from glasstream_topics.errors import FrameError, RecordError
from glasstream_topics.labels import Label
from glasstream_topics.progress import PARTITION_KEY
from tests.support.golden_records import (
    DIRECTORY,
    GOLDEN,
    SNAPSHOT,
    aggregator_partition,
    aggregator_state,
    alarm,
    anchor,
    block,
    checked_in,
    checkpoint,
    comparison,
    curve,
    estimate,
    estimate_of_isage,
    explained,
    failed,
    fields,
    group_record,
    incident,
    learner_partition,
    learner_stream,
    novel_event,
    novelty_partition,
    novelty_stream,
    prediction,
    segments_record,
    usual_event,
    watched,
    watching_record,
)


@pytest.mark.parametrize("name", GOLDEN)
def test_todays_encoder_writes_the_golden_bytes(name: str) -> None:
    assert GOLDEN[name]() == checked_in(name)


def test_every_golden_file_belongs_to_a_record_and_every_topic_has_one() -> None:
    assert {path.name for path in Path(DIRECTORY).iterdir() if path.is_file()} == {*GOLDEN}
    for topic in glasstream_topics.ALL:
        assert any(name.startswith(f"{topic.name}.v{topic.schema_version}") for name in GOLDEN), topic.name


def test_public_records_have_the_binding_fields_in_the_binding_order() -> None:
    assert fields(prediction()) == [
        *("schema_version", "epoch", "stream", "seq", "id", "prediction", "probabilities", "target", "loss"),
        *("loss_name", "metric", "model_version"),
    ]
    assert fields(estimate()) == [
        *("schema_version", "epoch", "stream", "row", "seq", "method", "loss", "alpha", "sampling", "interval"),
        *("n", "coverage", "model_version", "lag", "staleness", "ts", "features"),
    ]
    assert fields(estimate_of_isage())[-5:] == ["staleness", "marginal_loss", "model_loss", "total", "features"]
    assert fields(curve()) == [
        *("schema_version", "epoch", "stream", "row", "seq", "feature", "output", "kind", "grid", "curve"),
        *("margin", "level", "importance", "ice", "n", "coverage", "model_version", "ts"),
    ]
    assert fields(alarm()) == [
        *("schema_version", "epoch", "stream", "row", "seq", "signal", "feature", "method", "model_version"),
        *("coverage", "before", "after", "width", "curve_before", "curve_after", "detector", "ts"),
    ]
    assert fields(checked_in("incidents.v3.json")) == [
        *("schema_version", "epoch", "stream", "incident", "status", "row", "seq", "onset", "verdict", "weight"),
        *("alternatives", "features", "loss_name", "loss_before", "loss_after", "summary", "evidence"),
        *("rule", "muted", "where", "advice"),
    ]
    assert fields(watching_record()) == [
        *("schema_version", "epoch", "stream", "row", "seq", "unlabelled", "label", "features"),
    ]
    assert fields(comparisons.encode(comparison())) == [
        *("schema_version", "epoch", "stream", "seq", "other", "loss", "scale", "start", "rows", "left_out"),
        *("own_loss", "other_loss", "difference", "low", "high", "level", "better", "since_row", "since_seq"),
        *("evidence", "visible"),
    ]
    assert fields(segments_record()) == [
        *("schema_version", "epoch", "stream", "row", "seq", "loss_name", "rows", "loss", "level", "looked", "tested"),
        "segments",
    ]
    assert fields(group_record()) == [
        *("schema_version", "epoch", "stream", "seq", "attribute", "loss", "classes", "more_classes", "least", "level"),
        *("left_out", "window", "total", "alarms"),
    ]
    scored = [
        *("schema_version", "epoch", "stream", "seq", "id", "indicator", "baseline", "threshold", "flagged"),
        "map_version",
    ]
    assert fields(usual_event()) == [*scored, "held_threshold"]
    assert fields(novel_event(alarm=True)) == [*scored, "attribution", "alarm", "held_threshold"]


def test_events_are_read() -> None:
    (one,) = events.decode(checked_in("events.v1.one.json"))
    assert one == events.Event(x={"age": 31.0, "car": "Škoda", "new": None}, id="e-1", ts=1700000000000, y="a")
    (with_meta,) = events.decode(checked_in("events.v2.meta.json"))
    assert with_meta.meta == {"sex": "f", "branch": 7.0, "staff": False, "note": None}
    two = events.decode(checked_in("events.v1.array.json"))
    assert two == [events.Event(x={"age": 31.5, "new": True}, y=1), events.Event(x={"age": -1e-9}, id=12)]
    assert events.is_flush(checked_in("events.v1.flush.json"))
    assert events.is_reset(checked_in("events.v1.reset.json"))


def test_the_types_of_the_intake_are_restored() -> None:
    value = checked_in("progress.intake.v1.json")
    found = progress_intake.restore({progress_intake.KEY: value})
    assert found == progress_intake.IntakeTypes({"age": "number", "/shop/name": "text"}, {"paid": "boolean"})
    assert progress_intake.restore({}) == progress_intake.IntakeTypes({}, {})
    for damaged in ({progress_intake.KEY: value, b"s": value}, {progress_intake.KEY: value.replace(b"text", b"date")}):
        with pytest.raises(RecordError, match=r"progress\.intake"):
            progress_intake.restore(damaged)


def test_labels_are_read() -> None:
    assert events.decode_with_labels(checked_in("events.v1.label.json")) == [Label("e-1", "a")]
    both = [events.Event(x={"age": 31.5}, id=12), Label(12, 1.5)]
    assert events.decode_with_labels(checked_in("events.v1.labelled.json")) == both
    assert labels.decode(checked_in("labels.v1.one.json")) == [Label(12, True, 1_700_000_000_000)]
    assert labels.decode(checked_in("labels.v1.array.json")) == [Label("e-1", "a"), Label(12, 1.5)]
    for name in ("events.v1.label.json", "events.v1.labelled.json"):
        with pytest.raises(RecordError):
            events.decode(checked_in(name))
    value = checked_in("progress.labels.v1.json")
    found = progress_labels.restore({PARTITION_KEY: value})
    assert found == progress_labels.LabelsPartitionProgress(offset=42)
    assert progress_labels.restore({}) is None
    with pytest.raises(RecordError, match="the key b's'"):
        progress_labels.restore({PARTITION_KEY: value, b"s": value})


def test_a_dead_letter_is_read() -> None:
    lines = checked_in("events.dead.v1.headers.txt").split(b"\n")
    headers = [(name.decode(), text) for name, text in (line.split(b": ", 1) for line in lines)]
    assert events_dead.decode(headers) == events_dead.DeadLetter(
        schema_version=1,
        epoch=0,
        reason="rejected_elements",
        topic="glasstream.events",
        partition=1,
        offset=42,
        time=1700000000000,
        detail="1 of 3 elements rejected",
        rejected=[(2, "no_x")],
    )


def test_predictions_are_read() -> None:
    record = predictions.decode(checked_in("predictions.v1.json"))
    assert (record.stream, record.seq, record.prediction, record.target) == ("elec2", 100, "UP", "DOWN")
    assert record.probabilities == {"DOWN": 0.25, "UP": 0.75}
    assert record.metric == predictions.Metric("accuracy", 0.5)
    nothing = predictions.decode(checked_in("predictions.v1.nothing.json"))
    assert (nothing.prediction, nothing.probabilities, nothing.loss, nothing.metric.value) == (None, None, None, None)
    assert nothing.target == 3.5


def test_a_dead_letter_that_leaves_things_out_is_read() -> None:
    lines = checked_in("events.dead.v1.cut.txt").split(b"\n")
    read = events_dead.decode([(name.decode(), text) for name, text in (line.split(b": ", 1) for line in lines)])
    assert (read.schema_version, read.omitted_bytes, read.omitted_key_bytes) == (1, 9_000_000, 5_000)
    assert read.rejected is not None and (len(read.rejected), read.rejected_count) == (1_000, 1_001)


def test_a_prediction_of_many_classes_is_read() -> None:
    read = predictions.decode(checked_in("predictions.v1.others.json"))
    assert (read.schema_version, len(read.probabilities or {})) == (1, 100)
    assert read.others == predictions.Others(26, 0.13)


def test_importance_is_read() -> None:
    record = importance.decode(checked_in("importance.v2.json"))
    assert (record.schema_version, record.staleness, record.total) == (2, 0.0625, None)
    assert record.ts == 1767225600000
    assert list(record.features) == ["age", "car", "salary"]
    assert [feature.rank for feature in record.features.values()] == [2, 3, 1]
    assert record.features["salary"] == importance.Feature(0.5, 0.25, 0.0625, None, None, 1)
    assert record.interval == importance.Interval(None, None)
    isage = importance.decode(checked_in("importance.v2.isage.json"))
    assert (isage.marginal_loss, isage.model_loss, isage.total) == (0.5, 0.125, 0.375)
    assert isage.interval == importance.Interval("normal", 0.95)


def test_effects_are_read() -> None:
    numeric = effects.decode(checked_in("effects.v2.json"))
    assert (numeric.feature, numeric.output, numeric.kind, numeric.curve) == (
        "age",
        "yes",
        "numeric",
        [0.25, 0.5, 0.125],
    )
    assert numeric.ice is not None
    assert numeric.ice[1] == effects.IceCurve([20.0, 61.0], [0.5, 0.25])
    categorical = effects.decode(checked_in("effects.v2.categories.json"))
    assert (categorical.grid, categorical.output, categorical.ice) == (["clear", "rain"], None, None)


def test_drift_is_read() -> None:
    curves = drift.decode(checked_in("drift.v2.json"))
    assert (curves.signal, curves.feature, curves.method, curves.width) == ("pd_importance", "age", "ipdp", 64)
    assert curves.curve_after == drift.Curve("yes", [20.0, 61.0], [0.5, 0.25])
    assert curves.detector == drift.Detector("adwin", {"delta": 0.0625, "grace_period": 500})
    loss = drift.decode(checked_in("drift.v2.loss.json"))
    assert (loss.feature, loss.method, loss.curve_before, loss.curve_after) == (None, None, None, None)


def test_groups_are_read() -> None:
    one = groups.decode(checked_in("groups.v2.json"))
    assert (one.attribute, one.total.rows, one.total.equalized_odds_difference) == ("sex", 703, 0.5)
    assert [(group.kind, group.value, group.loss.of) for group in one.total.groups] == [
        ("value", "f", 300), ("value", "m", 400), ("other", None, 2), ("missing", None, 1),
    ]  # fmt: skip
    assert one.total.groups[0].true_positive_rate == [groups.Mean(300, 0.25, 0.125, 0.375), groups.Mean(3)]
    two = groups.decode(checked_in("groups.v2.regression.json"))
    assert two.total.groups[0].error == groups.Mean(300, 0.25, 0.125, 0.375) and two.classes == []


def test_watching_is_read() -> None:
    one = watching.decode(checked_in("watching.v1.json"))
    assert list(one.features) == ["age", "car"] and one.label is not None
    assert one.features["age"].detectable[0] == watching.Detectable(1_000, 0.0625, None, 2.5)
    assert one.features["car"].state == "muted" and one.features["car"].detectable == []


def test_comparisons_are_read_and_told_in_words() -> None:
    one = comparisons.decode(checked_in("comparisons.v1.json"))
    assert one == comparison()
    assert one.sentence("loans @ learning.", "loans @ fixed.") == (
        "loans @ fixed. is better since row 1,234 of 5,000: absolute error (at most 500) lower by 4.2500, "
        "95 % interval 2.0000 to 6.5000, evidence 1 : 1,778"
    )
    fields = {"better": None, "since_row": None, "since_seq": None, "difference": -0.5, "low": -1.5, "high": 0.5}
    unknown = msgspec.structs.replace(one, **fields, loss="zero_one", scale=None, evidence=0.5)
    assert unknown.sentence() == (
        "not known yet after 5,000 rows: error rate of loans lower by 0.5000, 95 % interval -0.5000 to 1.5000; a "
        "difference of 2.2500 would have been seen by now"
    )


def test_segments_are_read() -> None:
    one = segments.decode(checked_in("segments.v1.json"))
    (weak,) = one.segments
    assert [condition.op for condition in weak.conditions] == ["in", ">="] and (one.rows, weak.since) == (5_000, 3_000)
    assert weak.sentence == (
        "region = north and hour >= 15: loss 0.5 instead of 0.25 (+0.125 to +0.375), 12 % of the rows, since row 3,000"
    )


def test_incidents_are_read() -> None:
    data = checked_in("incidents.v3.json")
    assert incidents.decode(data) == incident()
    affected = orjson.loads(data)["features"]
    between = {"factor_low": 0.0625, "factor_high": 0.25}
    assert affected[0] == {"feature": "age", "fault": "scaled", "factor": 0.125, **between}
    assert affected[2] == {"feature": "salary", "fault": None}


def test_incidents_of_version_1_are_read() -> None:
    fields = orjson.loads(checked_in("incidents.v3.json"))
    former = {name: value for name, value in fields.items() if name not in ("rule", "muted", "where", "advice")}
    read = incidents.decode(orjson.dumps({**former, "schema_version": 1}))
    assert (read.schema_version, read.rule, read.muted) == (1, None, None)


def test_attributions_of_version_1_are_read() -> None:
    fields = orjson.loads(checked_in("attributions.v2.json"))
    assert attributions.decode(orjson.dumps(fields)).pairs == [attributions.Interaction("price", "day", -0.0625)]
    del fields["pairs"]
    read = attributions.decode(orjson.dumps({**fields, "schema_version": 1}))
    assert (read.schema_version, read.pairs) == (1, None) and "interactions" not in read.sentence()


def test_novelty_is_read() -> None:
    usual, flagged, alarmed = (
        novelty.decode(checked_in(f"novelty.v2{name}.json")) for name in ("", ".flagged", ".alarm")
    )
    assert (usual.seq, usual.indicator, usual.flagged, usual.attribution, usual.alarm) == (1204, 0.5, False, None, None)
    assert (flagged.baseline, flagged.threshold, flagged.flagged, flagged.map_version) == (0.75, 1.25, True, 999)
    assert flagged.attribution == {"day": 0.25, "price": -0.5} and list(flagged.attribution) == ["day", "price"]
    assert (flagged.alarm, alarmed.alarm) == (None, novelty.Alarm(0.0625, 0.5, 64))


def test_a_request_is_read() -> None:
    read, written = requests.decode(checked_in("explain.requests.v1.bin")), block()
    for name in ("seqs", "x", "y"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name), strict=True)
    assert read.draws.keys() == written.draws.keys()
    for name, drawn in written.draws.items():
        np.testing.assert_array_equal(read.draws[name], drawn, strict=True)
    for name in ("stream", "epoch", "partition", "first_row", "version", "names", "kinds", "classes", "task", "loss"):
        assert getattr(read, name) == getattr(written, name)
    assert (read.texts, read.staleness) == (written.texts, written.staleness)
    assert read.new_categories == {1: (2, ("Škoda", "Tatra"))}
    assert (read.flush_before, read.watched) == (True, False)
    assert requests.decode(checked_in("explain.requests.v1.watched.bin")).watched
    flush = requests.decode(checked_in("explain.requests.v1.flush.bin"))
    assert (flush.count, flush.first_row, flush.flush_before, flush.ends) == (0, 200, True, False)
    reset = requests.decode(checked_in("explain.requests.v1.reset.bin"))
    assert (reset.count, reset.first_row, reset.flush_before, reset.ends) == (0, 200, True, True)


def test_contributions_are_read() -> None:
    read = contributions.decode(checked_in("contributions.v1.ok.bin"))
    for name, given in explained().values.items():
        np.testing.assert_array_equal(read.values[name], given, strict=True)
    assert (read.classes, read.outputs, read.texts) == (["no", "yes"], ["yes"], {1: {0: "Praga"}})
    assert (read.kind, read.first_row, read.loss, read.flush_before) == ("ok", 100, "zero_one", True)
    no = contributions.decode(checked_in("contributions.v1.failed.bin"))
    assert (no.kind, no.reason, no.count, no.values) == ("failed", failed().reason, 1, {})
    for name, ends in (("flush", False), ("reset", True)):
        mark = contributions.decode(checked_in(f"contributions.v1.{name}.bin"))
        assert (mark.kind, mark.ends) == ("flush", ends)


def test_contributions_of_a_watched_stream_are_read() -> None:
    read, written = contributions.decode(checked_in("contributions.v1.watched.bin")), watched()
    for name in ("inputs", "target"):
        np.testing.assert_array_equal(read.values[name], written.values[name], strict=True)
    assert (read.classes, read.new_classes) == (["no", "yes"], ["maybe"])


def test_a_snapshot_is_read() -> None:
    assembler = snapshots.Assembler(1 << 20)
    for index in (1, 0):
        assembler.add(b"elec2/0/64/%d" % index, checked_in(f"snapshots.v1.chunk-{index}.bin"))
    assert assembler.get("elec2", 0, 64) == SNAPSHOT


def test_the_file_of_a_model_is_read() -> None:
    name = models.digest(SNAPSHOT)
    records = {f"{name}/{index}".encode(): checked_in(f"models.v1.chunk-{index}.bin") for index in (1, 0)}
    assert models.whole(name, records, len(SNAPSHOT)) == SNAPSHOT
    with pytest.raises(FrameError, match="expected a file of at most 100 bytes, got 768"):
        models.whole(name, records, 100)


def test_a_checkpoint_is_read() -> None:
    assembler = checkpoints.Assembler(1 << 20)
    assembler.add(b"elec2/0/64/0", checked_in("checkpoints.v2.chunk-0.bin"))
    data = assembler.get("elec2", 0, 64)
    assert data is not None
    assert checkpoints.decode(data) == checkpoint()


def test_progress_of_the_learner_is_read() -> None:
    restored = progress_learner.restore(
        {
            PARTITION_KEY: checked_in("progress.learner.v1.partition.json"),
            b"elec2": checked_in("progress.learner.v1.stream.json"),
        }
    )
    assert restored == progress_learner.Restored(learner_partition(), {"elec2": learner_stream()})


def test_progress_of_the_aggregator_is_read() -> None:
    restored = progress_aggregator.restore(
        {
            PARTITION_KEY: checked_in("progress.aggregator.v1.partition.json"),
            b"elec2": checked_in("progress.aggregator.v1.stream.json"),
            b"\xffstate/elec2/0": checked_in("progress.aggregator.v1.state.bin"),
        }
    )
    assert restored.partition == aggregator_partition()
    state = restored.state("elec2")
    assert restored.streams["elec2"] == state.progress == aggregator_state().progress
    assert state.meta == aggregator_state().meta
    for name, array in aggregator_state().arrays.items():
        np.testing.assert_array_equal(state.arrays[name], array, strict=True)


NOVELTY = {
    PARTITION_KEY: "partition.json",
    b"elec2": "stream.json",
    b"\xffanchor/elec2/1": "anchor-1.bin",
    b"\xffanchor/elec2/0": "anchor-0.bin",
}


def test_progress_of_the_novelty_detector_is_read() -> None:
    latest = {key: checked_in(f"progress.novelty.v1.{name}") for key, name in NOVELTY.items()}
    restored = progress_novelty.restore(latest)
    assert (restored.partition, restored.streams) == (novelty_partition(), {"elec2": novelty_stream()})
    found, written = restored.anchor("elec2"), anchor()
    assert found is not None
    for name in ("stream", "epoch", "offset", "used", "seqs", "meta"):
        assert getattr(found, name) == getattr(written, name)
    for name, array in written.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)
    assert restored.chunks("elec2") == len(progress_novelty.encode_anchor(written, limit=256))
