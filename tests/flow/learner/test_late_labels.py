"""Labels that come after their events: at delay 0 as if they had come with them, and always a function of the log."""

import pickle
from typing import Any

import pytest

from glasstream.events.message import Message, Position
from glasstream.events.sources.bundled import BundledStream
from glasstream.events.sources.delayed import Delayed, LabelDelay
from glasstream.flow.learner.checkpoint import opened
from glasstream.flow.learner.partition import PartitionLearner
from glasstream_topics import predictions
from glasstream_topics.events_dead import Reason
from tests.support.late_labels import apart, delays
from tests.support.learner import Collected, learn, message, same, settings
from tests.support.learner_checkpoints import checkpoint_of
from tests.support.odd_labels import given, odd, packed

EVENTS = [odd(n) for n in range(140)]
DELAYS = {kind: delays(kind, 140) for kind in (0, 17, "random:40")}
MODELS = ["linear", "tree", "forest"]


@pytest.mark.parametrize("model", MODELS)
def test_labels_right_after_their_events_are_as_if_they_had_come_with_them(model: str) -> None:
    together = learn(packed(EVENTS, 10), 1_000, given(model))
    late = learn(packed(apart(EVENTS, DELAYS[0]), 10), 1_000, given(model))
    assert late.rows == together.rows and len(late.rows) == 130
    assert repr(late.snapshots) == repr(together.snapshots)
    assert late.dead == together.dead == []
    pairs = zip(map(predictions.decode, late.predictions), map(predictions.decode, together.predictions), strict=True)
    for mine, theirs in list(pairs)[1:]:
        assert (mine.seq, mine.id, mine.prediction, mine.probabilities) == (
            theirs.seq, theirs.id, theirs.prediction, theirs.probabilities,
        )  # fmt: skip
        assert mine.target is None and mine.loss is None and mine.model_version == theirs.model_version


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("delay", [17, "random:40"])
def test_how_they_are_packed_and_blocks_cut_changes_nothing(model: str, delay: int | str) -> None:
    log = apart(EVENTS, DELAYS[delay])
    whole = learn(packed(log, len(log)), 10**9, given(model))
    assert sorted(whole.rows) == list(range(10, 140)) and whole.dead == []
    for size, cut_every in ((1, 1), (7, 3), (50, 1_000)):
        same(learn(packed(log, size), cut_every, given(model)), whole)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_forgotten_for_its_bytes_is_so_however_events_are_packed(model: str) -> None:
    """A limit of about 12 events, of which 20 would wait. What waits is never more than that."""
    chosen = given(model, "limits.waiting_bytes=4096")
    log = apart(EVENTS, DELAYS["random:40"])
    alone = learn(packed(log, 1), 1, chosen)
    assert 40 < len(alone.rows) < 110 and {why for found in alone.dead for _, why in found} == {Reason.UNKNOWN_ID}
    for size, cut_every in ((7, 3), (50, 1_000), (len(log), 10**9)):
        found = learn(packed(log, size), cut_every, chosen)
        assert (found.rows, found.predictions) == (alone.rows, alone.predictions)
        assert sum(map(len, found.dead)) == len(alone.dead)


def test_a_row_is_learned_where_its_label_stands_by_the_model_of_that_moment() -> None:
    log = apart(EVENTS, DELAYS["random:40"])
    order = [one["id"] for one in log if "x" not in one]
    whole = learn(packed(log, 9), 5, given())
    assert [whole.rows[row][1] for row in range(10, 140)] == order[10:]
    assert order != sorted(order)
    versions = [sent[0] for _, sent in sorted(whole.rows.items())]
    assert versions == sorted(versions) and versions[0] == 8
    assert all(version <= row for row, version in zip(range(10, 140), versions, strict=True))
    learned_before: list[int] = []
    labels = 0
    for one in log:
        if "x" in one:
            learned_before.append(labels)
        else:
            labels += 1
    assert [predictions.decode(one).model_version for one in whole.predictions] == learned_before


def test_the_running_metric_counts_what_was_said_before_the_label_came() -> None:
    log = apart(EVENTS, DELAYS[17])
    found = {one.seq: one for one in map(predictions.decode, learn(packed(log, 11), 4, given()).predictions)}
    right = scored = 0
    events = 0
    for one in log:
        if "x" in one:
            assert found[events].metric.value == (right / scored if scored else None)
            events += 1
        elif (said := found[one["id"]].prediction) is not None:
            scored += 1
            right += said == one["y"]
    assert scored > 100


@pytest.mark.parametrize("model", ["linear", "tree"])
@pytest.mark.parametrize("further", [0, pytest.param(2, marks=pytest.mark.slow), 9])
@pytest.mark.parametrize("most", [2**26, 4_096])
def test_a_successor_goes_on_from_any_checkpoint(model: str, further: int, most: int) -> None:
    """The window travels in the state, in the middle of a message too."""
    chosen = given(model, "snapshot.cadence=10", f"limits.waiting_bytes={most}")
    log = packed([*apart(EVENTS, DELAYS["random:40"]), {"id": 3, "y": "a"}, {"id": "nobody", "y": "a"}], 13)
    learner, whole, states = PartitionLearner(0, chosen), Collected(), []
    for one in log:
        for stream in learner.consume(one):
            if stream.at_snapshot:
                states.append((learner.position, checkpoint_of(learner)))
    whole.take(learner)
    assert len(states) > 4 and any(place.used for place, _ in states)
    for place, checkpoint in states:
        end = Position(place.offset + further, 0 if further else place.used)
        first, collected = PartitionLearner(0, chosen), Collected()
        _until(first, end, log)
        collected.take(first)
        second = PartitionLearner(0, chosen, first_offset=place.offset, silent_until=first.position)
        second.resume("s", opened(checkpoint, chosen, key=None), place)
        _until(second, Position(len(log), 0), log[place.offset :])
        collected.take(second)
        collected.snapshots = whole.snapshots
        same(collected, whole)
        mine, theirs = second.streams["s"].learner.state.waiting, learner.streams["s"].learner.state.waiting
        for of in ("joined", "missed", "dropped", "waiting", "bytes"):
            assert getattr(mine, of) == getattr(theirs, of)
        assert bool(mine.dropped) == (most < 2**20)


def test_a_checkpoint_holds_no_event_that_has_left_the_window() -> None:
    """Events without an id count for the window, although none of them waits."""
    chosen = settings("model.name=tree", "labels.window=2")
    plain = [{"x": {"a": k}, "y": "ab"[k % 2]} for k in range(6)]
    learner = PartitionLearner(0, chosen)
    for one in packed([*plain, {"id": "w", "x": {"a": 1}}, *plain[:3]], 1):
        list(learner.consume(one))
    state = opened(checkpoint_of(learner, at_rest=True), chosen, key=None)
    assert state.learner.waiting.missed == 1 and not state.learner.waiting.events


def test_a_label_of_a_reused_id_belongs_to_the_event_before_it_in_the_same_block() -> None:
    first, second = {"id": 1, "x": {"a": 1.0, "b": 0.0}}, {"id": 1, "x": {"a": 2.0, "b": 0.0}}
    log = [*EVENTS[2:32], first, *EVENTS[32:36], second, {"id": 1, "y": "a"}, *EVENTS[36:40]]
    whole = learn(packed(log, 33), 10**9, given("tree"))
    assert [whole.rows[row][1] for row in (33, 34, 35)] == [34, 35, 36]
    same(whole, learn(packed(log, 1), 1, given("tree")))


def _until(learner: PartitionLearner, end: Position, log: list[Message]) -> None:
    for one in log:
        if learner.position >= end:
            return
        for _ in learner.consume(one):
            if learner.position >= end:
                return


@pytest.mark.parametrize("stop", [0, 1, 40, 133, 200, 279])
def test_a_successor_without_a_checkpoint_learns_it_all_again(stop: int) -> None:
    log = packed(apart(EVENTS, DELAYS["random:40"]), 9)
    whole = learn(log, 1_000, given())
    first, collected = PartitionLearner(0, given()), Collected()
    _until(first, Position(stop // 9, stop % 9), log)
    collected.take(first)
    second = PartitionLearner(0, given(), silent_until=first.position)
    _until(second, Position(len(log), 0), log)
    collected.take(second)
    collected.snapshots = whole.snapshots
    same(collected, whole)


def without(number: int) -> dict[str, Any]:
    return {name: value for name, value in odd(number).items() if name != "y"}


def test_labels_of_nothing_and_second_ones_are_dead_letters_however_they_are_packed() -> None:
    before = [odd(n) for n in range(20)]
    log: list[Any] = [
        *before,
        {"id": 50, "y": "a"},  # before its event
        without(50),
        {"id": 50, "y": 3},  # of another kind
        {"id": 50, "y": None},
        {"id": 50, "y": "a"},
        {"id": 50, "y": "a"},  # again
        odd(51),
        {"id": 51, "y": "a"},  # it came with its own
        {"id": "nobody", "y": "a"},
        {"id": 5.5, "y": "a"},
        {"y": "a"},
        {"id": 52},
        without(53),
        without(53),
        {"id": "53", "y": "a"},  # of the newer one
        {"id": 53, "y": "a"},
    ]
    reasons = {
        20: "unknown_id", 22: "target_kind", 23: "bad_target", 25: "doubled_label", 27: "doubled_label",
        28: "unknown_id", 29: "bad_id", 30: "no_x", 31: "no_x", 35: "doubled_label",
    }  # fmt: skip
    for size in (1, 4, len(log)):
        collected = learn(packed(log, size), 1_000, given())
        dead: dict[int, str] = {}
        learner = PartitionLearner(0, given())
        for one in packed(log, size):
            for _ in learner.consume(one):
                pass
        for letter in learner.take_outbox()[1]:
            dead |= {letter.message.offset * size + (one.index or 0): one.reason for one in letter.found}
        assert dead == reasons
        seqs = [sent[1] for _, sent in sorted(collected.rows.items())]
        assert seqs == [*range(10, 20), 20, 21, 23]
        waiting = learner.streams["s"].learner.state.waiting
        assert (waiting.joined, waiting.missed, waiting.waiting) == (2, 1, 0)


def test_what_leaves_the_window_is_counted_and_its_label_comes_too_late() -> None:
    chosen = settings("labels.window=5")
    log = [*[without(n) for n in range(8)], *[{"id": n, "y": "ab"[n % 2]} for n in range(8)]]
    learner = PartitionLearner(0, chosen)
    for one in packed(log, 3):
        for _ in learner.consume(one):
            pass
    learner.cut()
    outbox, dead = learner.take_outbox()
    assert [(letter.message.offset * 3 + (one.index or 0), one.reason) for letter in dead for one in letter.found] == [
        (8, "unknown_id"), (9, "unknown_id"), (10, "unknown_id"),
    ]  # fmt: skip
    stream = learner.streams["s"].learner
    assert (stream.state.rows, stream.state.seqs, stream.state.waiting.missed) == (5, 8, 3)
    assert sum("got no label within labels.window = 5" in line for line in outbox.notices) == 1
    assert "labels.window" in next(one.detail for letter in dead for one in letter.found)


def test_a_first_label_in_a_message_decides_what_its_later_events_may_be() -> None:
    """Events after a label know what it says about the stream, whether in the same message or in the next."""
    log = [
        {"id": 1, "x": {"a": 1.0}},
        {"id": 1, "y": "up"},
        {"x": {"a": 2.0}, "y": 3.0},
        {"x": {"a": 3.0}, "y": "down"},
    ]
    for size in (1, 2, 4):
        learner = PartitionLearner(0, settings())
        for one in packed(log, size):
            for _ in learner.consume(one):
                pass
        assert [one.reason for letter in learner.take_outbox()[1] for one in letter.found] == ["target_kind"]
        assert learner.streams["s"].learner.state.rows == 2


def test_streams_keep_their_labels_apart() -> None:
    learner = PartitionLearner(0, settings())
    contents = [
        (b"one", without(1)),
        (b"two", without(1)),
        (b"one", {"id": 1, "y": "a"}),
        (b"two", {"id": 2, "y": "a"}),
        (b"three", {"id": 1, "y": "a"}),
    ]
    for offset, (key, content) in enumerate(contents):
        for _ in learner.consume(message(offset, content, key)):
            pass
    assert {name: stream.learner.state.rows for name, stream in learner.streams.items()} == {
        "one": 1,
        "two": 0,
        "three": 0,
    }
    assert [letter.message.offset for letter in learner.take_outbox()[1]] == [3, 4]


def test_a_value_is_counted_as_absent_once_an_event() -> None:
    counts = []
    for delay in (0, "random:40"):
        learner = PartitionLearner(0, given())
        for one in packed(apart(EVENTS, DELAYS[delay]), 10):
            for _ in learner.consume(one):
                pass
        counts.append(learner.streams["s"].learner.state.features.counts)
    together = PartitionLearner(0, given())
    for one in packed(EVENTS, 10):
        for _ in together.consume(one):
            pass
    assert counts == [together.streams["s"].learner.state.features.counts] * 2 and counts[0].retyped > 10


def test_a_source_gives_each_label_once_and_so_many_events_later() -> None:
    for text, most in (("0", 0), ("7", 7), ("random:7", 7)):
        source = Delayed(BundledStream(3, 200), LabelDelay.parse(text, 100), 3)
        made, seen, after = list(source.events()), 0, []
        for one in made:
            seen += "x" in one
            assert ("x" in one) != ("y" in one)
            if "y" in one:
                after.append(seen - 1 - one["id"])
        plain = {one["id"]: one["y"] for one in BundledStream(3, 200).events()}
        assert {one["id"]: one["y"] for one in made if "y" in one} == plain and len(made) == 400
        assert set(after[: 200 - most]) == ({most} if text == str(most) else set(range(8)))
        assert list(Delayed(BundledStream(3, 200), LabelDelay.parse(text, 100), 3).events()) == made


@pytest.mark.parametrize("kind", ["text", "features", "values"])
def test_memory_and_checkpoint_of_waiting_events_do_not_grow_with_their_messages(kind: str) -> None:
    """A text beyond limits.text and features beyond limits.features are not kept; what is kept has a limit."""

    def event(number: int) -> dict[str, Any]:
        if kind == "text":
            return {"id": number, "x": {"a": number, "note": f"{number} " + "x" * 100_000}}
        if kind == "features":
            return {"id": number, "x": {"a": number} | {f"f{number % 7}_{j}": j + 0.5 for j in range(5_000)}}
        return {"id": number, "x": {f"f{j}": number + 0.5 for j in range(2_000)}}

    chosen = settings("model.name=linear", "limits.waiting_bytes=1000000")
    learner = PartitionLearner(0, chosen)
    sizes = []
    for offset in range(300):
        for _ in learner.consume(message(offset, [event(offset)])):
            learner.outbox.predictions.clear()
        if offset in (149, 299):
            learner.cut()
            sizes.append(len(checkpoint_of(learner, at_rest=True).state))
    waiting = learner.streams["s"].learner.state.waiting
    held = sum(len(pickle.dumps(kept)) for _, kept in waiting.events.values())
    assert waiting.bytes <= 1_000_000 and held <= 2 * waiting.bytes
    assert max(sizes) <= 2_000_000
    if kind == "values":
        assert waiting.dropped > 200 and waiting.waiting + waiting.dropped == 300
        assert any("limits.waiting_bytes" in line for line in learner.outbox.notices)
