"""Marks that name a model: from their place on the log on, the stream has that model, whatever dies, wakes or moves."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import orjson
import pytest
from sklearn.ensemble import RandomForestClassifier

from glasstream.app.configuration import load
from glasstream.base.errors import ModelError, StateError
from glasstream.detect.incidents import replacement
from glasstream.events.message import Message, Position
from glasstream.flow.learner import stream_state
from glasstream.flow.learner.checkpoint import opened, saved
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.learner.pushed import MOST_REFUSED, Decisions, PushedModels, file_of
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.learner import LearnerTask
from glasstream_topics import events, frames, incidents, models
from glasstream_topics.checkpoints import PLAIN, Checkpoint
from tests.support.fixed_models import BASE, event, settings
from tests.support.onnx_exports import FRAME, TEXT, encoded, exported
from tests.support.pipeline_in_memory import CRASHES, Pipeline
from tests.support.pipeline_settings import settings as learning

PUBLIC = ("predictions", "importance", "effects", "drift", "incidents")
UNLABELLED = ("explain.unlabelled=true", "explain.methods=ipfi,ipdp")
FIRST, SECOND, THIRD = "encoded forest", "encoded network", "ordinal boosting"
"""The second one is evaluated by onnxruntime."""
Log = list[bytes | str]
"""Messages, and names of models to push."""

MARKS = {5: [SECOND], 6: [THIRD, SECOND], 10: [FIRST]}
"""Replacements, of which two have no row between them, and a roll-back."""


def of(folder: Path, *more: str) -> Settings:
    return settings(folder, FIRST, *more)


def log(count: int, marks: dict[int, list[str]], size: int = 7) -> Log:
    """Events in messages, some without labels, and models to push before the messages with these numbers."""
    values: Log = []
    for number, first in enumerate(range(0, count, size)):
        values += marks.get(number, [])
        values.append(orjson.dumps([event(one) for one in range(first, min(first + size, count))]))
    return [*values, events.FLUSH]


async def play(pipeline: Pipeline, values: Log, after: Callable[[], Awaitable[None]] | None = None) -> None:
    for value in values:
        if isinstance(value, str):
            value = events.model_mark(pipeline.log.store(exported(value)))
        pipeline.log.send(b"s", value)
        await pipeline.step()
        if after is not None:
            await after()
    await pipeline.finish()


def assert_as_the_plain_loop(pipeline: Pipeline) -> dict[tuple[str, str], list[bytes]]:
    expected, found = pipeline.expected(*PUBLIC), pipeline.published(*PUBLIC)
    assert {place: len(values) for place, values in found.items()} == {
        place: len(values) for place, values in expected.items()
    }, "lost or double"
    assert found == expected
    return found


def versions(found: dict[tuple[str, str], list[bytes]], topic: str) -> list[int]:
    return [orjson.loads(value)["model_version"] for value in found[topic, "s"]]


@pytest.mark.parametrize("more", [(), UNLABELLED], ids=["rows", "entries"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_whatever_happens_the_records_are_those_of_the_plain_loop(
    tmp_path: Path, more: tuple[str, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old events have the old model, and new ones the new model."""
    monkeypatch.setattr(replacement, "ROWS", 9)
    pipeline = Pipeline(of(tmp_path, *more), seed)
    pipeline.drive(lambda: play(pipeline, log(112, MARKS), after=pipeline.fault))
    assert len(pipeline.happened) > 6, pipeline.happened
    found = assert_as_the_plain_loop(pipeline)
    assert versions(found, "predictions") == [0] * 35 + [1] * 7 + [3] * 28 + [4] * 42
    assert set(versions(found, "importance")) == {0, 3, 4}
    told = [incidents.decode(value) for value in found["incidents", "s"]]
    assert [(one.incident, one.status) for one in told if one.verdict == "model_pushed"] == [
        (1, "open"), (1, "normal"), (2, "open"), (2, "normal"), (3, "open"), (3, "normal"),
    ]  # fmt: skip


@pytest.mark.parametrize("more", [(), UNLABELLED], ids=["rows", "entries"])
@pytest.mark.parametrize("stage", ["learner", pytest.param("aggregator", marks=pytest.mark.slow)])
@pytest.mark.parametrize("point", CRASHES)
def test_the_successor_of_a_worker_that_dies_at_any_point_of_a_commit_continues_exactly(
    tmp_path: Path, more: tuple[str, ...], stage: str, point: str
) -> None:
    pipeline = Pipeline(of(tmp_path, *more), explainers=1)

    async def die() -> None:
        pipeline.kill(stage, 0, point)

    values: Log = [*log(28, {1: [THIRD], 3: [FIRST]}, 5)]
    pipeline.drive(lambda: play(pipeline, values, after=die))
    assert pipeline.happened[f"{stage}: {point}"] == len(values)
    assert_as_the_plain_loop(pipeline)


@pytest.mark.parametrize("more", [(), UNLABELLED], ids=["rows", "entries"])
def test_old_rows_are_explained_as_without_a_mark(tmp_path: Path, more: tuple[str, ...]) -> None:
    """To the byte, also those whose records come after the mark. The row before it was explained by the old model."""
    marked = [value for value in log(84, {}) if isinstance(value, bytes)]
    plain = [*marked[:8], events.FLUSH]
    data = exported(THIRD)
    marked = [*marked[:8], events.model_mark(models.digest(data)), *marked[8:], events.FLUSH]
    settings, file = of(tmp_path, "publish.every=1", *more), partial(file_of, records=dict(models.split(data)))
    found, wanted = (
        [(topic, value) for topic, value in Reference(settings, file).run((b"s", one) for one in values)]
        for values in (marked, plain)
    )
    old = [
        (topic, value) for topic, value in found if topic != "incidents" and orjson.loads(value)["model_version"] == 0
    ]
    assert old == wanted and len(found) > len(old) > 100


def test_the_incident_says_what_the_model_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacement, "ROWS", 40)
    pipeline = Pipeline(of(tmp_path))
    pipeline.drive(lambda: play(pipeline, log(140, {10: ["encoded logistic"]})))
    found = assert_as_the_plain_loop(pipeline)
    rows = [orjson.loads(value) for value in found["predictions", "s"] if orjson.loads(value)["loss"] is not None]
    first = next(number for number, one in enumerate(rows) if one["model_version"] == 1)
    begun, done = (incidents.decode(value) for value in found["incidents", "s"])
    assert (begun.status, begun.onset.row, begun.onset.earliest, begun.onset.latest) == ("open", first, first, first)
    assert begun.onset.seq == begun.seq == rows[first]["seq"] and begun.loss_after is None
    assert begun.summary == f"the model was replaced at row {first}; the Brier loss was {begun.loss_before:.3g}."
    losses = [one["loss"] for one in rows[first : first + 40]]
    assert done.row == first + 39 and done.loss_after == pytest.approx(sum(losses) / 40, abs=1e-12)
    before = [one["loss"] for one in rows[1:first]]
    assert done.loss_before == begun.loss_before == pytest.approx(sum(before) / len(before), abs=0.01)
    assert done.summary.startswith(f"the model was replaced at row {first}; the Brier loss ")
    assert {one.side for one in done.evidence} == {"loss", "reasoning"} and "; it relies " in done.summary
    assert [one.feature for one in done.features] == [one.feature for one in done.evidence if one.side == "reasoning"]


REFUSALS = {
    "another task": ("encoded line", "expected the task of the stream's model, classification, got regression"),
    "other features": ("forest", "expected the features of the stream's model, a, b, c, d, town, visits, got"),
    "no key": (SECOND, "GLASSTREAM_HMAC_KEY"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_model_that_does_not_fit_is_a_dead_letter_and_the_stream_goes_on(tmp_path: Path, case: str) -> None:
    name, wanted = REFUSALS[case]
    data = exported(name)
    if case == "other features":
        data = noted(data)
    records = dict(models.split(data))
    learner = PartitionLearner(0, of(tmp_path), models=PushedModels(lambda one: file_of(one, records), None))
    assert wanted in refusal(learner, models.digest(data))


def test_a_model_whose_trial_ends_badly_is_a_dead_letter_and_stays_refused(tmp_path: Path) -> None:
    """The verdict is on the log: a successor follows it, although it tries nothing again."""
    data = exported(THIRD)
    records, asked = dict(models.split(data)), list[object]()

    def trial(given: bytes, named: object) -> None:
        asked.append((given, named))
        raise ModelError("model.name: the trial of the model took too long")

    pushed = PushedModels(lambda one: file_of(one, records), trial=trial)
    learner = PartitionLearner(0, of(tmp_path), models=pushed)
    assert "the trial of the model took too long. The stream keeps its model" in refusal(learner, models.digest(data))
    assert asked == [(data, (None, None, None))] and learner.refused == {"s": [2]}
    able = PushedModels(lambda one: file_of(one, records))
    successor = PartitionLearner(0, of(tmp_path), models=able, decisions=Decisions(3, learner.refused))
    assert "it was refused before" in refusal(successor, models.digest(data))


def test_a_partition_reports_the_trial_of_a_model_and_uses_no_thread_of_the_loop(tmp_path: Path) -> None:
    data = exported(THIRD)
    records = dict(models.split(data))
    began, over = threading.Event(), threading.Event()

    def trial(given: bytes, named: object) -> None:
        began.set()
        assert over.wait(60)
        raise ModelError("model.name: the trial of the model took too long")

    async def course(judges: ThreadPoolExecutor) -> None:
        task = LearnerTask(
            0, of(tmp_path), None, AggregatorProgress(), lambda topic, number: {},
            file=lambda one: file_of(one, records), trial=trial, judges=judges,
        )  # fmt: skip
        task.restore({}, 0, 0)
        values = [orjson.dumps(event(0)), events.model_mark(models.digest(data)), orjson.dumps(event(1))]
        first, mark, last = [Message("events", 0, number, b"s", one, 0) for number, one in enumerate(values)]
        await task.feed([first])
        assert task.stalled() is None
        judging = asyncio.ensure_future(task.feed([mark]))
        while not began.is_set():
            await asyncio.sleep(0)
        reason = task.stalled()
        assert reason is not None and "the model that events[0]@1 names is tested before it is used" in reason
        one_thread = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(one_thread)
        await asyncio.wait_for(asyncio.to_thread(int), 60)
        over.set()
        await judging
        assert task.stalled() is None
        await task.feed([last])
        outputs = task.collect()
        assert [record.topic.removeprefix("glasstream.") for record in outputs.records] == [
            "predictions", "predictions", "events.dead"
        ]  # fmt: skip

    with ThreadPoolExecutor(1) as judges:
        asyncio.run(course(judges))


def noted(data: bytes) -> bytes:
    import onnx

    model = onnx.load_model_from_string(data)
    onnx.helper.set_model_props(model, {"features": "p,q,r,s"})
    return bytes(model.SerializeToString())


def refusal(learner: PartitionLearner, named: str) -> str:
    """Feed an event, a mark and an event; return why the mark was rejected, after which nothing has changed."""
    for offset, value in enumerate([*map(orjson.dumps, (event(0), event(1))), events.model_mark(named)]):
        for _ in learner.consume(Message("events", 0, offset, b"s", value)):
            pass
    for _ in learner.consume(Message("events", 0, 3, b"s", orjson.dumps(event(2)))):
        pass
    learner.cut()
    outbox, dead = learner.take_outbox()
    assert {orjson.loads(value)["model_version"] for _, value in outbox.predictions} == {0}
    assert len(outbox.predictions) == 3
    assert [one.version for one in outbox.snapshots] == [0]
    ((found,),) = [one.found for one in dead]
    assert found.index is None and found.reason == "model_refused"
    assert found.detail.endswith("The stream keeps its model")
    return found.detail


def test_a_file_that_is_not_there_or_is_damaged_is_a_dead_letter(tmp_path: Path) -> None:
    data = exported(THIRD)
    whole = dict(models.split(data, 1_000))
    name, (first, *_) = models.digest(data), whole
    damaged = {**whole, first: whole[first][:-9] + bytes([whole[first][-9] ^ 1]) + whole[first][-8:]}
    swapped = {**whole, first: models.split(data[:900], 1_000)[0][1]}
    cut = {key: value for key, value in whole.items() if key != f"{name}/1".encode()}
    for records, wanted in (
        ({}, "found none"),
        (damaged, "frame"),
        (swapped, "expected the SHA-256"),
        (cut, "found 1"),
    ):
        learner = PartitionLearner(0, of(tmp_path), models=PushedModels(lambda one, of=records: file_of(one, of)))
        said = refusal(learner, name)
        assert wanted in said and "push the file itself" in said
    assert file_of(name, whole) == data


@cache
def elsewhere() -> bytes:
    """Return a model of the same features that knows other towns."""
    from skl2onnx import to_onnx

    frame = FRAME.assign(town=FRAME["town"].replace("far", "new 1"))
    model = encoded(RandomForestClassifier(5, max_depth=4, random_state=2)).fit(frame, TEXT)
    return bytes(to_onnx(model, frame[:1]).SerializeToString())


def test_a_model_that_knows_other_texts_predicts_as_if_the_stream_began_with_it(tmp_path: Path) -> None:
    records = dict(models.split(elsewhere()))
    begun = tmp_path / "begun.onnx"
    begun.write_bytes(elsewhere())
    values = [value for value in log(60, {}) if isinstance(value, bytes)]
    mark = events.model_mark(models.digest(elsewhere()))
    pushed = Reference(of(tmp_path), partial(file_of, records=records)).run(
        (b"s", value) for value in [*values[:3], mark, *values[3:]]
    )
    alone = Reference(load(assignments=[*BASE, f"model.name={begun}"])).run((b"s", value) for value in values)
    found, wanted = ([orjson.loads(one) for topic, one in of if topic == "predictions"] for of in (pushed, alone))
    assert [one["probabilities"] for one in found[21:]] == [one["probabilities"] for one in wanted[21:]]
    assert [one["probabilities"] for one in found[:21]] != [one["probabilities"] for one in wanted[:21]]


def consumed(learner: PartitionLearner, values: list[bytes], first: int = 0) -> None:
    for offset, value in enumerate(values, first):
        for _ in learner.consume(Message("events", 0, offset, b"s", value)):
            pass


def test_texts_have_the_same_codes_in_the_stream_and_in_the_new_model(tmp_path: Path) -> None:
    """Texts that the new model knows come before those that the stream has not had yet."""
    records = dict(models.split(elsewhere()))
    more = ("explain.start=2", "explain.reservoir=2", "explain.methods=ipfi")
    learner = PartitionLearner(0, of(tmp_path, *more), models=PushedModels(lambda one: file_of(one, records)))
    later = [{**event(number), "x": {**event(number)["x"], "town": f"new {number}"}} for number in (7, 2, 1)]
    mark = events.model_mark(models.digest(elsewhere()))
    consumed(learner, [*map(orjson.dumps, map(event, range(3))), mark, *map(orjson.dumps, later)])
    learner.cut()
    outbox, _ = learner.take_outbox()
    predictor = outbox.snapshots[-1].predictor
    rows = np.concatenate([one.x for one in outbox.requests if one.version == 1])
    explained = predictor.evaluate(rows[:, : len(predictor.features)]).values
    said = [list(orjson.loads(value)["probabilities"].values()) for _, value in outbox.predictions[-3:]]
    assert explained.tolist() == said and said[0] != said[2]


def test_a_state_saved_at_the_mark_has_the_model_and_ignores_the_mark(tmp_path: Path) -> None:
    records = dict(models.split(exported(THIRD)))
    pushed, settings = PushedModels(lambda one: file_of(one, records)), of(tmp_path)
    first = PartitionLearner(0, settings, models=pushed)
    consumed(first, [orjson.dumps([event(number) for number in range(30)])])
    mark = events.model_mark(models.digest(exported(THIRD)))
    for _ in first.consume(Message("events", 0, 1, b"s", mark)):
        at, learner = first.position, first.streams["s"].learner
        place = Checkpoint(
            stream="s", epoch=0, rows=learner.state.next_entry, seqs=learner.state.seqs, offset=at.offset, used=at.used,
            fingerprint={}, form=PLAIN, state=b"",
        )  # fmt: skip
        checkpoint = saved(first.state("s"), place, key=None)
    assert at == Position(1, 1)
    second = PartitionLearner(0, settings, first_offset=1, models=pushed)
    second.resume("s", opened(checkpoint, settings, key=None, models=pushed), at)
    consumed(second, [mark], 1)
    for one in (first, second):
        consumed(one, [orjson.dumps([event(number) for number in range(30, 60)])], 2)
        one.cut()
    (old, new), (again,) = first.take_outbox()[0].snapshots, second.take_outbox()[0].snapshots
    assert (old.version, new.version, again.version) == (0, 1, 1)
    assert [one.streams["s"].learner.state.version for one in (first, second)] == [1, 1]
    with pytest.raises(StateError, match="cannot be loaded again"):
        opened(checkpoint, settings, key=None)
    for name, value in (("version", 0), ("pushed", None), ("known_categories", [0]), ("known_categories", [9] * 6)):
        frame = frames.decode(checkpoint.state, stream_state.KIND, stream_state.VERSION)
        state = frames.encode(stream_state.KIND, stream_state.VERSION, {**frame.meta, name: value}, frame.arrays)
        with pytest.raises(StateError, match="cannot be used"):
            opened(replace(checkpoint, state=state), settings, key=None, models=pushed)


@pytest.mark.parametrize("setting", ["limits.categories=3", "limits.snapshot_largest=900"])
def test_a_model_beyond_a_limit_is_a_dead_letter(tmp_path: Path, setting: str) -> None:
    records = dict(models.split(elsewhere()))
    learner = PartitionLearner(0, of(tmp_path, setting), models=PushedModels(lambda one: file_of(one, records)))
    assert setting.partition("=")[0] in refusal(learner, models.digest(elsewhere()))


def test_a_model_that_learns_is_not_replaced() -> None:
    learner = PartitionLearner(0, learning("topics.events=1"))
    for offset, value in enumerate([b'{"x":{"a":1},"y":"p"}', events.model_mark("0" * 64)]):
        for _ in learner.consume(Message("events", 0, offset, b"s", value)):
            pass
    (dead,) = learner.take_outbox()[1]
    assert "got one whose model learns" in dead.found[0].detail and not learner.refused


def test_a_mark_before_the_first_event_and_more_marks_than_rows_are_refused(tmp_path: Path) -> None:
    records = dict(models.split(exported(THIRD)))
    settings = of(tmp_path, "explain.start=2", "explain.reservoir=2", "explain.methods=ipfi")
    learner = PartitionLearner(0, settings, models=PushedModels(lambda one: file_of(one, records)))
    mark = events.model_mark(models.digest(exported(THIRD)))
    consumed(learner, [mark, orjson.dumps([event(0), event(1)]), mark, mark, mark, orjson.dumps(event(2)), mark])
    early, third = (dead.found[0].detail for dead in learner.take_outbox()[1])
    assert "stream 's' has no events yet; set its first model with model.name" in early
    assert "at most one pushed model per row, 2 so far; push this one after the next row" in third
    assert learner.streams["s"].learner.state.version == 3


def test_what_was_refused_stays_refused_when_the_file_comes_later(tmp_path: Path) -> None:
    """The successor learns the stream again, without checkpoints, and finds the file. It decides as its predecessor."""
    pipeline = Pipeline(of(tmp_path, "checkpoint.seconds=0"), 3)
    data = exported(THIRD)
    named = models.digest(data)

    async def course() -> None:
        await play(pipeline, log(21, {}))
        pipeline.log.send(b"s", events.model_mark(named))
        await play(pipeline, log(21, {}))
        pipeline.log.store(data)
        pipeline.kill("learner")
        await play(pipeline, log(21, {}))
        pipeline.log.send(b"s", events.model_mark(named))
        await play(pipeline, log(21, {}))
        pipeline.kill("learner")
        await play(pipeline, log(21, {}))

    pipeline.drive(course)
    found = pipeline.published("predictions")
    assert versions(found, "predictions") == [0] * 63 + [1] * 42
    (letter,) = pipeline.log.partitions["events.dead", 0].newest() and pipeline.log.values("events.dead")[b"s"]
    assert letter == events.model_mark(named)


def test_who_finds_no_file_that_a_predecessor_has_used_refuses_to_go_on(tmp_path: Path) -> None:
    for more in (("checkpoint.seconds=0",), ()):
        pipeline = Pipeline(of(tmp_path, *more))
        pipeline.drive(lambda pipeline=pipeline: play(pipeline, log(42, {2: [THIRD]})))
        pipeline.log.partitions["models", 0].entries.clear()
        with pytest.raises(StateError, match=r"cannot be loaded again: .* store its file again"):
            pipeline.drive(lambda pipeline=pipeline: play(pipeline, log(7, {})))


def test_so_many_refused_marks_that_further_ones_are_not_looked_at(tmp_path: Path) -> None:
    asked: list[str] = []

    def file(name: str) -> bytes:
        asked.append(name)
        return file_of(name, {})

    refused = Decisions(9, {"s": [*range(-MOST_REFUSED, 0)]})
    learner = PartitionLearner(0, of(tmp_path), models=PushedModels(file), decisions=refused)
    assert "1,000 models were refused before" in refusal(learner, "0" * 64)
    assert not asked and len(learner.refused["s"]) == MOST_REFUSED
