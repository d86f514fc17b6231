"""All stages together, without Kafka: whatever dies, wakes, moves or is explained twice, the records are those of the
plain loop."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import orjson
import pytest

from glasstream.base.errors import LostInputError, StateError
from glasstream.flow.aggregator import incidents
from glasstream.flow.reference import Reference
from glasstream.kafka.stages.aggregator import AggregatorTask, notes
from glasstream_topics import (
    checkpoints,
    chunks,
    events,
    events_dead,
    frames,
    importance,
    progress_aggregator,
    progress_learner,
)
from glasstream_topics.progress import PARTITION_KEY
from tests.support.counting_watch import CountingWatch
from tests.support.late_labels import apart, delays
from tests.support.logs import event
from tests.support.pipeline_in_memory import CRASHES, Entry, NothingMoves, Pipeline
from tests.support.pipeline_settings import PUBLIC, WATCHED, settings

UNLABELLED = ("explain.unlabelled=true", "explain.methods=ipfi,ipdp", "drift.grace=20", "drift.delta=0.3")
ATTRIBUTED = ("model.name=tree", "explain.methods=ipfi,attributions", "attributions.rows=8", "attributions.refresh=15")
GROUPED = ("groups.by=sex,branch", "groups.every=15", "groups.window=25", "groups.least=5", "labels.window=60")
STREAMS = (b"one", b"two", b"four")
"""Streams that do not all lie on one partition."""


def log(
    count: int,
    *,
    late: bool = False,
    reset: bool = False,
    never: bool = False,
    alone: bool = False,
    meta: bool = False,
) -> list[tuple[bytes | None, bytes | None]]:
    """Events of three streams in turn, some messages that hold none, and a flush mark of each.

    With `alone`, each event or label is a message.
    """
    made = [event(number) for number in range(count)]
    for one in made if meta else ():
        one["meta"] = {"sex": "fm"[one["id"] % 2], "branch": one["id"] % 30}
    for one in made[::5] if never else ():
        del one["y"]
    sent = apart(made, delays("random:30", count)) if late else made
    turns = [sent[at : at + 7] for at in range(0, len(sent), 7)]
    values: list[tuple[bytes | None, bytes | None]] = []
    for number, part in enumerate(turns):
        values += [(key, orjson.dumps(one)) for key in STREAMS for one in (part if alone else [part])]
        if number % 4 == 1:
            values += [(b"one", b"{"), (b"two", None)]
        if reset and number == len(turns) // 2:
            values.append((b"two", events.RESET))
    return [*values, *((key, events.FLUSH) for key in STREAMS)]


CASES: dict[str, tuple[tuple[str, ...], dict[str, bool]]] = {
    "importance and curves": (("explain.methods=ipfi,isage,ipdp",), {}),
    "a tree": (("model.name=tree",), {}),
    "no checkpoints": (("checkpoint.seconds=0",), {}),
    "labels that come late": (("labels.estimate=10", "labels.window=40"), {"late": True, "never": True}),
    "one event or label in each message": (("labels.window=40",), {"late": True, "never": True, "alone": True}),
    "effects of events without labels": (UNLABELLED, {"late": True, "never": True}),
    "attributions": (ATTRIBUTED, {"late": True, "never": True, "reset": True}),
    "a reset mark": ((), {"reset": True}),
    "groups": (GROUPED, {"late": True, "never": True, "reset": True, "meta": True}),
    "novelty": (WATCHED, {}),
}


def assert_as_the_plain_loop(pipeline: Pipeline) -> None:
    expected = pipeline.expected(*PUBLIC)
    assert {topic for topic, _ in expected} >= {"predictions", "importance"}
    assert len(expected) >= 2 * len(STREAMS)
    found = pipeline.published(*PUBLIC)
    assert {place: len(values) for place, values in found.items()} == {
        place: len(values) for place, values in expected.items()
    }, "lost or double"
    assert found == expected


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_whatever_happens_the_records_are_those_of_the_plain_loop(case: str, seed: int) -> None:
    more, options = CASES[case]
    pipeline = Pipeline(settings(*more), seed).run(log(126, **options), faults=20)
    assert_as_the_plain_loop(pipeline)
    if any(one.startswith("labels.estimate") for one in more):
        records = b"".join(b"".join(values) for values in pipeline.published("predictions").values())
        assert records.count(b'"realised"') > 2 * len(STREAMS)
    if more == GROUPED:
        assert all(len(values) > 4 for values in pipeline.published("groups").values())
    assert len(pipeline.happened) > 6, pipeline.happened


@pytest.mark.parametrize("more", [(), ("explain.methods=isage,ipdp", "model.name=tree"), ("publish.every=3",)])
def test_incidents_are_those_of_the_plain_loop_whatever_happens(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "IncidentWatch", CountingWatch)
    pipeline = Pipeline(settings(*more), 0).run(log(126, reset=True), faults=20)
    assert_as_the_plain_loop(pipeline)
    for topic, least in (("incidents", 3), ("watching", 1)):
        found = pipeline.published(topic)
        assert found.keys() == {(topic, key.decode()) for key in STREAMS}
        assert all(len(values) >= least for values in found.values())


@pytest.mark.parametrize("stage", ["learner", "aggregator", "novelty"])
@pytest.mark.parametrize("point", CRASHES)
def test_the_successor_of_a_worker_that_dies_at_any_point_of_a_commit_continues_exactly(stage: str, point: str) -> None:
    pipeline = Pipeline(settings(*WATCHED), explainers=1)
    values = log(42)

    async def play() -> None:
        for key, value in values:
            pipeline.log.send(key, value)
            await pipeline.step()
            for partition in range(2):
                pipeline.kill(stage, partition, point)
        await pipeline.finish()

    pipeline.drive(play)
    assert pipeline.happened[f"{stage}: {point}"] == 2 * len(values)
    assert_as_the_plain_loop(pipeline)


@pytest.mark.parametrize("stage", ["learner", "novelty"])
@pytest.mark.parametrize("point", CRASHES)
def test_a_worker_that_dies_in_the_middle_of_a_run_has_a_successor_that_goes_on_exactly(stage: str, point: str) -> None:
    pipeline = Pipeline(settings(*WATCHED, "labels.window=40"), explainers=1)
    values = log(42, late=True, reset=True, alone=True)

    async def play() -> None:
        for begin in range(0, len(values), 9):
            for key, value in values[begin : begin + 9]:
                pipeline.log.send(key, value)
            await pipeline.step()
            for partition in range(2):
                pipeline.kill(stage, partition, point)
        await pipeline.finish()

    pipeline.drive(play)
    assert_as_the_plain_loop(pipeline)


def test_labels_of_a_topic_of_their_own_are_moved_once_whoever_dies() -> None:
    made = [event(number) for number in range(98)]
    labels = [{"id": one["id"], "y": one["y"]} for one in made]
    for seed in range(3):
        pipeline = Pipeline(settings("labels.window=1000"), seed, labels=True)
        chance = random.Random(seed)

        async def play(pipeline: Pipeline = pipeline, chance: random.Random = chance) -> None:
            for at in range(0, 98, 7):
                without = [{"id": one["id"], "x": one["x"]} for one in made[at : at + 7]]
                for key in STREAMS:
                    pipeline.log.send(key, orjson.dumps(without))
                    await pipeline.step()
                    pipeline.log.send(key, orjson.dumps(labels[at : at + 7]), "labels")
                if chance.random() < 0.5:
                    await pipeline.fault()
            for value in (b'{"id":97,"y":true}', b"no label", b'{"id":"nobody","y":true}'):
                pipeline.log.send(b"one", value, "labels")
            await pipeline.finish()
            for key in STREAMS:
                pipeline.log.send(key, events.FLUSH)
            await pipeline.finish()

        pipeline.drive(play)
        assert_as_the_plain_loop(pipeline)
        moved = pipeline.log.values("events")
        for key in STREAMS:
            found = [one for value in moved[key] if b'"y"' in value for one in _elements(value)]
            ours = [one for one in found if one["id"] in range(98)]
            assert ours[:98] == labels, "each once, in order"
        letters = [
            events_dead.decode(list(entry.headers)).reason
            for partition in range(2)
            for entry in pipeline.log.partitions["events.dead", partition].entries
            if entry is not None
        ]
        assert sorted(letters) == ["doubled_label", "not_json", "unknown_id"]


def _elements(value: bytes) -> list[dict]:
    read = orjson.loads(value)
    return read if isinstance(read, list) else [read]


def test_a_new_epoch_goes_on_from_here_under_other_settings() -> None:
    """From there on, the output equals that of a fresh run with the new settings, and no event is refused."""
    before, after = log(70), log(84)
    old, new = settings(), settings("seed=4", "worker.new_epoch=1")
    pipeline = Pipeline(old).run(before)
    first = pipeline.published(*PUBLIC)
    assert first == pipeline.expected(*PUBLIC)
    pipeline.settings = pipeline.log.settings = new
    pipeline.run(after, faults=10)
    fresh = Pipeline(settings("seed=4", "epoch=1"))
    for message in after:
        fresh.log.send(*message)
    second = fresh.expected(*PUBLIC)
    assert pipeline.published(*PUBLIC) == {place: [*first[place], *second[place]] for place in first}


def test_an_option_for_a_new_epoch_that_is_left_on_discards_nothing_more() -> None:
    """Two releases run in turn, each with the option: the older one is refused, and the state of the newer stays."""
    old, new = settings("worker.new_epoch=1"), settings("seed=4", "worker.new_epoch=1")
    pipeline = Pipeline(old).run(log(35))
    assert agreed(pipeline) == {0}, "nothing differs from the settings of the state, which is its own"
    pipeline.settings = pipeline.log.settings = new
    pipeline.run(log(42))
    assert agreed(pipeline) == {1}
    pipeline.settings = pipeline.log.settings = old
    with pytest.raises(StateError, match=r"seed: was 4, is .*already in epoch 1, so --new-epoch 1 has no effect"):
        pipeline.run([])
    pipeline.settings = pipeline.log.settings = new
    pipeline.run(log(49), faults=10)
    assert agreed(pipeline) == {1}, "and what was learned in it is still there"


def agreed(pipeline: Pipeline) -> set[int]:
    """Return the epochs of the records that learner and aggregator keep of the partitions."""
    epochs = set()
    for partition in range(2):
        learner = pipeline.log.partitions["progress.learner", partition].newest()
        aggregator = pipeline.log.partitions["progress.aggregator", partition].newest()
        for restored in (progress_learner.restore(learner), progress_aggregator.restore(aggregator)):
            assert restored.partition is not None
            epochs.add(restored.partition.epoch)
    return epochs


def test_with_checkpoints_the_first_events_may_be_gone() -> None:
    values = log(126)
    pipeline = Pipeline(settings()).run(values[:-3])
    for partition in range(2):
        kept = pipeline.log.partitions["events", partition]
        assert kept.high > 10
        pipeline.log.delete_records("events", partition, kept.high // 3)
    pipeline.run(values[-3:], faults=4)
    for partition in range(2):
        pipeline.log.delete_records("events", partition, 0)
    assert_as_the_plain_loop(pipeline)


def test_who_waits_for_what_never_comes_is_named() -> None:
    """A test of recovery cannot pass by ending early. Here no aggregator runs."""
    pipeline = Pipeline(settings("limits.rows_ahead=20"), explainers=1)

    async def play() -> None:
        for key, value in log(63):
            pipeline.log.send(key, value)
        for worker in [name for name in pipeline.workers if name[0] == "aggregator"]:
            pipeline.workers.pop(worker).kill()
        await pipeline.finish()

    with pytest.raises(NothingMoves, match=r"learner\[\d\].* never comes"):
        pipeline.drive(play)


def test_the_same_seed_is_the_same_course_of_events() -> None:
    runs = [Pipeline(settings(), 7).run(log(63), faults=10) for _ in range(2)]
    assert runs[0].log.partitions == runs[1].log.partitions
    assert runs[0].happened == runs[1].happened


BAD: list[tuple[str, bytes | None]] = [
    ("not_utf8", b"\xff\xfe"),
    ("not_json", b'{"x": {"a": NaN}}'),
    ("rejected_elements", b'[{"x": {"a": 1}}, 3]'),
    ("not_an_object", b"3"),
    ("no_x", b"{}"),
    ("empty_x", b'{"x": {}}'),
    ("nested_value", b'{"x": {"a": [1]}}'),
    ("null_message", None),
    ("too_large", b'{"x": {"a": "' + b"z" * 70_000 + b'"}}'),
    ("target_kind", b'{"x": {"a": 0.5}, "y": "text"}'),
]


def test_bad_input_is_a_dead_letter_as_it_came_and_the_rest_is_explained() -> None:
    limits = ("limits.message_bytes=60000", "limits.dead_bytes=66000")
    good = log(63)
    values = [*good[:20], *((b"one", value) for _, value in BAD), *good[20:]]
    pipeline = Pipeline(settings(*limits), 1)
    right = events.partition(b"one", 2)

    async def play() -> None:
        for key, value in values:
            pipeline.log.send(key, value)
            await pipeline.step()
        pipeline.log.append("events", 1 - right, Entry(b"one", good[0][1]))  # the partition of another key
        pipeline.log.append("events", right, Entry(None, good[0][1]))  # no stream
        for _ in range(6):
            await pipeline.fault()
        await pipeline.finish()

    pipeline.drive(play)
    assert_as_the_plain_loop(pipeline)
    letters = {}
    for partition in range(2):
        for entry in pipeline.log.partitions["events.dead", partition].entries:
            if entry is not None:
                letter = events_dead.decode(list(entry.headers))
                assert letter.topic == pipeline.settings.prefix + "events"
                letters.setdefault(letter.reason, (entry, letter))
    assert sorted(letters) == sorted([*(reason for reason, _ in BAD), "wrong_partition", "missing_stream"])
    for reason, value in BAD:
        entry, letter = letters[reason]
        if reason == "too_large":
            assert entry.value is None and letter.omitted_bytes == len(value or b"")
        elif reason not in ("not_json", "null_message"):  # of which there are others
            assert entry.value == value
    assert letters["rejected_elements"][1].rejected == [(1, "not_an_object")]
    assert "murmur2_random" in letters["wrong_partition"][1].detail


def restart(pipeline: Pipeline, stage: str, partition: int = 0) -> None:
    """Take a partition over, as a worker that starts does, and end."""

    async def once() -> None:
        pipeline.take_over(stage, partition).kill()

    asyncio.run(once())


def test_a_learner_whose_first_events_are_gone_refuses() -> None:
    pipeline = Pipeline(settings("checkpoint.seconds=0")).run(log(63))
    home = events.partition(b"one", 2)
    pipeline.log.delete_records("events", home, 10)
    with pytest.raises(LostInputError, match=r"again from offset \d, but the broker keeps it from 10 on.*--prefix"):
        restart(pipeline, "learner", home)


@pytest.mark.parametrize("stage", ["learner", "aggregator"])
def test_changed_settings_are_refused_by_name(stage: str) -> None:
    pipeline = Pipeline(settings()).run(log(42))
    pipeline.settings = settings("explain.alpha=0.05", "seed=4", "block.rows=7")
    with pytest.raises(StateError, match=r"explain\.alpha: was 0\.001, is 0\.05; seed: was \d+, is 4\.") as refused:
        restart(pipeline, stage, events.partition(b"one", 2))
    assert "block.rows" not in str(refused.value)


def _version(package: str, record: dict) -> dict:
    return {**record, "fingerprint": {**record["fingerprint"], f"version.{package}": "0.1"}}


OTHERS: list[tuple[Callable[[dict], dict], list[str]]] = [
    (partial(_version, "python"), ["version.python: was '0.1', is '3.", "--new-epoch"]),
    (partial(_version, "numpy"), ["version.numpy: was '0.1', is '", "--new-epoch"]),
    (lambda record: {**record, "schema_version": 2}, ["Invalid enum value 2", "schema_version"]),
    (lambda record: {**record, "schema_version": 0}, ["Invalid enum value 0", "schema_version"]),
    (lambda record: {}, ["missing required field", "the release that wrote it"]),
]


@pytest.mark.parametrize("stage", ["learner", "aggregator", "novelty"])
def test_state_that_this_release_cannot_go_on_from_is_refused(stage: str) -> None:
    """State of another Python among it: from 3.12 on sums are compensated, and River's numbers differ."""
    pipeline = Pipeline(settings(*WATCHED)).run(log(42))
    home = events.partition(b"one", 2)
    good = pipeline.log.partitions[f"progress.{stage}", home].newest()[PARTITION_KEY]
    for change, said in OTHERS:
        pipeline.log.append(f"progress.{stage}", home, Entry(PARTITION_KEY, orjson.dumps(change(orjson.loads(good)))))
        with pytest.raises(StateError) as refused:
            restart(pipeline, stage, home)
        wanted = [f"progress.{stage}[{home}]", "another --prefix", *said]
        assert all(text in str(refused.value) for text in wanted), refused.value
    pipeline.log.append(f"progress.{stage}", home, Entry(PARTITION_KEY, good))
    restart(pipeline, stage, home)


@pytest.mark.parametrize("case", ["another key", "future", "damaged"])
def test_a_checkpoint_that_cannot_be_used_is_refused_or_passed_over(
    case: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = log(126)
    pipeline = Pipeline(settings()).run(values[:-6])
    home = events.partition(b"one", 2)
    written = pipeline.log.partitions["checkpoints", home].newest()
    key = max((checkpoints.Key.decode(key) for key in written), key=lambda one: one.version)
    if case == "another key":
        monkeypatch.setattr("tests.support.pipeline_in_memory.KEY", b"not the key that it was sealed with")
    else:
        body = frames.encode("checkpoint", checkpoints.VERSION + 1, {"rows": key.version}, {})
        value = chunks.split("checkpoint-chunk", body)[0] if case == "future" else b"damaged"
        pipeline.log.append("checkpoints", home, Entry(key._replace(chunk=0).encode(), value))
    if case == "damaged":
        pipeline.run(values[-6:])
        assert "is damaged; using an older one" in caplog.text
        assert_as_the_plain_loop(pipeline)
        return
    with pytest.raises(StateError, match=f"the checkpoint of stream {key.stream!r} at row") as refused:
        restart(pipeline, "learner", home)
    said, later = str(refused.value), f"version {checkpoints.VERSION + 1}"
    assert ("HMAC" in said) if case == "another key" else (later in said and "new epoch" in said)


def test_who_sheds_goes_on_and_says_what_was_not_explained(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody explains while the learner learns: with `lag = shed` it goes on, and dropping old snapshots."""
    caplog.set_level("INFO")
    pipeline = Pipeline(settings("limits.lag=shed", "limits.snapshot_bytes=1"), explainers=0)

    async def play() -> None:
        for message in log(210):
            pipeline.log.send(*message)
        while not all(worker.idle for (stage, _), worker in pipeline.workers.items() if stage == "learner"):
            await pipeline.step()
        pipeline.add_explainer()
        await pipeline.finish()

    pipeline.drive(play)
    assert pipeline.published("predictions") == pipeline.expected("predictions")
    for stream in STREAMS:
        newest = importance.decode(pipeline.published("importance")["importance", stream.decode()][-1])
        assert newest.row == 209 and 0.0 < newest.coverage < 0.5
    assert "dropping old snapshots" in caplog.text and "limits.lag" in caplog.text
    assert "aggregator is behind" not in caplog.text


def test_a_learner_that_waits_often_says_so_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    pipeline = Pipeline(settings("limits.rows_ahead=20"))
    pipeline.run(log(210))
    lines = [line for line in caplog.messages if "aggregator is behind" in line]
    numbers = [line.partition("pauses=")[2].rstrip(")") for line in lines]
    assert "10" in numbers and {*numbers} <= {"1", "10", "100"}


def test_rows_on_which_the_model_raises_count_as_unexplained_and_the_rest_is_explained(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same rows as in the plain loop: which ones fail does not depend on the rows beside them."""
    pipeline = Pipeline(settings("model.name=tests.support.raising:strict"), 2).run(log(63), faults=4)
    assert_as_the_plain_loop(pipeline)
    newest = importance.decode(pipeline.published("importance")["importance", "one"][-1])
    assert 0.0 < newest.coverage < 1.0
    assert "ArithmeticError: c is not a times b" in caplog.text


@pytest.mark.parametrize("model", ["strict", "refusing"])
def test_rows_that_could_not_be_explained_are_counted_with_the_first_cause(model: str) -> None:
    """By the plain loop, in the committed progress, and in `/readyz`; whatever happens, all of them agree."""
    own = settings(f"model.name=tests.support.raising:{model}")
    sent = log(63)
    pipeline = Pipeline(own, 2).run(sent, faults=4)
    loop = Reference(own)
    assert list(loop.run(sent))
    found: dict[str, tuple[int, str]] = {}
    rows = 63 - own.explain.first_row
    for partition in range(own.topics.events):
        committed = dict(pipeline.log.partitions["progress.aggregator", partition].newest())
        for record in map(progress_aggregator.decode, committed, committed.values()):
            if isinstance(record, progress_aggregator.AggregatorStreamProgress):
                found[record.stream] = record.failed, record.cause
                assert record.next_row == 63
        task = AggregatorTask(partition, own)
        task.restore(committed, 0, 0)
        for note in notes([task]):
            failed, cause = found[note.text.split("'")[1]]
            assert f"{failed:,} of {rows:,} rows could not be explained; the first because: {cause}" in note.text
            assert note.unready == (model == "refusing") == (failed == rows)
    assert found == loop.unexplained() and found.keys() == {key.decode() for key in STREAMS}
    assert all(failed and "ArithmeticError: c is not a times b" in cause for failed, cause in found.values())


def test_dead_letters_are_written_once() -> None:
    pipeline = Pipeline(settings(), 3).run(log(63), faults=20)
    letters = [
        events_dead.decode(list(entry.headers))
        for partition in range(2)
        for entry in pipeline.log.partitions["events.dead", partition].entries
        if entry is not None
    ]
    sent = [entry for n in range(2) for entry in pipeline.log.partitions["events", n].entries if entry is not None]
    assert Counter(one.reason for one in letters) == {
        "not_json": sum(entry.value == b"{" for entry in sent),
        "null_message": sum(entry.value is None for entry in sent),
    }
