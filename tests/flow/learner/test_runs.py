"""Laws of runs: how events are divided into messages, and messages into runs and commits, changes no byte."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.events.message import Message, Oversized, Position
from glasstream.flow.learner.dead_letters import dead_letter
from glasstream.flow.learner.learner import StreamLearner
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.settings import Settings
from glasstream_topics import events, requests
from tests.support.examples import examples, some
from tests.support.learner import as_sent, content, message, settings

MODELS = {
    "linear": ("model.name=linear", "model.task=classification", "model.many_classes=true"),
    "tree": ("model.name=tests.support.eager:plain_tree", "model.task=classification"),
    "forest": ("model.name=tests.support.eager:small_forest", "model.task=classification"),
    "one that stays in River": ("model.name=tests.support.eager:scaled", "model.task=classification"),
    "one whose task is open": ("model.name=tree",),
    "effects of unlabelled events": (
        *("model.name=tests.support.eager:plain_tree", "model.task=classification"),
        *("explain.methods=ipfi,ipdp", "explain.unlabelled=true"),
    ),
    "expected performance": (
        *("model.name=tests.support.eager:plain_tree", "model.task=classification", "labels.estimate=10"),
    ),
    "groups": (
        *("model.name=tests.support.eager:plain_tree", "model.task=classification"),
        *("groups.by=day,open,late,f0", "groups.every=7", "groups.window=20", "groups.least=3"),
    ),
}
every_model = pytest.mark.parametrize("model", some(["linear", "tree", "groups"], list(MODELS), pytest.mark.slow))
SIZES = (1, 7, 100, None)
"""Events in a message; None for any number of them."""


def chosen(model: str) -> Settings:
    return settings(*MODELS[model], "labels.window=60", "limits.waiting_bytes=100000", "snapshot.cadence=60")


def plain(value: Any) -> Any:
    """Return what a snapshot holds with the bytes of its arrays, of which `repr` shows only a part."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return [(name, plain(one)) for name, one in value.items()]
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


class Published:
    """What a learner publishes, in the order of its stream; requests row by row, because commits cut them."""

    def __init__(self) -> None:
        self.predictions: dict[str, list[bytes]] = {}
        self.groups: dict[str, list[bytes]] = {}
        self.rows: dict[tuple[str, int, int], tuple[Any, ...]] = {}
        self.marks: list[tuple[str, int, int, bool]] = []
        self.snapshots: list[tuple[str, int, int, Any]] = []
        self.dead: list[tuple[Any, ...]] = []
        self.reasons: Counter[str] = Counter()

    def take(self, learner: PartitionLearner) -> None:
        if learner.silent:
            return
        learner.cut()
        outbox, dead = learner.take_outbox()
        for stream, record in outbox.predictions:
            self.predictions.setdefault(stream, []).append(record)
        for stream, record in outbox.groups:
            self.groups.setdefault(stream, []).append(record)
        for one in outbox.snapshots:
            self.snapshots.append((one.stream, one.epoch, one.version, repr(plain(content(one.predictor)))))
        for rejections in dead:
            letter = dead_letter(rejections, 100_000)
            self.dead.append((letter.key, letter.value, letter.headers))
            self.reasons.update(found.reason for found in rejections.found)
        for block in outbox.requests:
            one = requests.decode(requests.encode(block))
            if one.flush_before or not one.count:
                self.marks.append((one.stream, one.epoch, one.first_row, one.ends))
            for i in range(one.count):
                draws = None if one.parts else [array[i].tobytes() for _, array in sorted(one.draws.items())]
                place = (one.stream, one.epoch, one.first_row + i)
                assert place not in self.rows, "a row was sent twice"
                self.rows[place] = (
                    *(one.version, int(one.seqs[i]), one.x[i].tobytes(), one.y[i].tobytes(), draws, tuple(one.names)),
                    *(tuple(one.classes), one.staleness, one.parts[i] if one.parts else None),
                )

    def of(self) -> tuple[Any, ...]:
        return self.predictions, self.groups, self.rows, sorted(self.marks), sorted(self.snapshots), self.dead


def mixed(seed: int) -> list[Message]:
    """Messages of two streams, with events as users send them, marks, and messages that hold nothing of use."""
    source = random.Random(seed)
    left = {b"s": list(as_sent(seed, 90)), b"t": list(as_sent(seed + 1, 50))}
    log: list[Message] = []
    offset = key = 0
    while any(left.values()):
        offset += source.choice([1, 1, 1, 2])  # a marker of a transaction takes an offset
        if source.random() < 0.05:
            key = source.randrange(2)
        name, size = (b"s", b"t")[key], source.choice([1, 1, 1, 1, 1, 7, 30])
        odd = source.random()
        if odd < 0.06:
            value: Any = source.choice([b"{", None, events.FLUSH, events.model_mark("0a" * 32), b'[1,{"x":{"a":2}}]'])
            log.append(message(offset, value, source.choice([name, name, None])))
        elif odd < 0.07:
            log.append(message(offset, events.RESET, name))
        elif odd < 0.08:
            log.append(Message("events", 0, offset, name, Oversized(10**6, "expected less")))
        else:
            part, left[name] = left[name][:size], left[name][size:]
            if part:
                log.append(message(offset, part if len(part) > 1 or source.random() < 0.2 else part[0], name))
    return log


def runs(log: Sequence[Message], source: random.Random) -> Iterator[Sequence[Message]]:
    begin = 0
    while begin < len(log):
        size = source.choice([1, 2, 7, 100])
        yield log[begin : begin + size]
        begin += size


def one_by_one(log: Iterable[Message], given: Settings) -> Published:
    learner, published = PartitionLearner(0, given), Published()
    for one in log:
        for _ in learner.consume(one):
            pass
        published.take(learner)
    return published


@every_model
@given(seed=st.integers(0, 10**6), most=st.integers(1, 130))
@examples(10)
def test_how_messages_are_divided_into_runs_and_commits_changes_no_byte(model: str, seed: int, most: int) -> None:
    log, source = mixed(seed), random.Random(seed)
    learner, published = PartitionLearner(0, chosen(model)), Published()
    learner.block_events = most
    for run in runs(log, source):
        for _ in learner.consume(*run):
            if source.random() < 0.1:
                published.take(learner)
    published.take(learner)
    assert learner.position == Position(log[-1].offset + 1, 0)
    assert published.of() == one_by_one(log, chosen(model)).of()


@every_model
@given(seed=st.integers(0, 10**6))
@examples(5)
def test_how_events_are_divided_into_messages_changes_no_byte(model: str, seed: int) -> None:
    """Dead letters name the message, so only their reasons are the same."""
    elements, source, found = list(as_sent(seed, 120)), random.Random(seed), []
    for size in SIZES:
        log: list[Message] = []
        begin = 0
        while begin < len(elements):
            count = size or source.choice([1, 1, 7, 100])
            part = elements[begin : begin + count]
            log.append(message(len(log), part if len(part) > 1 else part[0]))
            begin += count
        learner, published = PartitionLearner(0, chosen(model)), Published()
        for run in runs(log, source):
            for _ in learner.consume(*run):
                pass
        published.take(learner)
        found.append((*published.of()[:-1], published.reasons))
    assert found[0][0] and all(one == found[0] for one in found)


@every_model
@given(seed=st.integers(0, 10**6), most=st.integers(1, 12), share=st.floats(0, 1))
@examples(8)
def test_a_successor_publishes_exactly_what_follows_any_stop(model: str, seed: int, most: int, share: float) -> None:
    """It learns everything again, and is silent up to the position that its predecessor committed."""
    log, source = mixed(seed), random.Random(seed)
    whole = one_by_one(log, chosen(model))
    division = [list(run) for run in runs(log, source)]
    last = int(share * len([stop for stop in stops(division, chosen(model), most) if not stop[1].ended]))
    before = Published()
    passed = 0
    for first, stopped in stops(division, chosen(model), most):
        passed += not stopped.ended
        if passed >= last and not stopped.ended:
            before.take(first)
            break
    begun = {name: stream.first_offset for name, stream in first.streams.items()}
    second, after = PartitionLearner(0, chosen(model), silent_until=first.position, begun=begun), Published()
    for name, stream in first.streams.items():
        if stream.learner.epoch:
            second.begin(name, stream.learner.epoch, stream.first_offset)
    for run in runs(log, source):
        for _ in second.consume(*run):
            after.take(second)
    after.take(second)
    for name, records in whole.predictions.items():
        assert before.predictions.get(name, []) + after.predictions.get(name, []) == records
        assert before.groups.get(name, []) + after.groups.get(name, []) == whole.groups.get(name, [])
    assert before.rows.keys().isdisjoint(after.rows) and before.rows | after.rows == whole.rows
    assert before.dead + after.dead == whole.dead


def stops(
    division: Iterable[Sequence[Message]], given: Settings, most: int
) -> Iterator[tuple[PartitionLearner, StreamLearner]]:
    """Yield a learner at each stop, with the stream that it has stopped at."""
    learner = PartitionLearner(0, given)
    learner.block_events = most
    for run in division:
        for stream in learner.consume(*run):
            yield learner, stream


def test_messages_of_one_event_are_learned_in_blocks_and_an_invalid_one_ends_none() -> None:
    log = [message(n, {"id": n, "x": {"a": n / 7, "b": n % 3}, "y": "ab"[n % 2]}) for n in range(300)]
    log[70] = message(70, b"{")
    log[90] = message(90, {"id": 90, "x": {}})
    learner = PartitionLearner(0, settings("model.name=tree", "snapshot.doubling=64", "snapshot.cadence=250"))
    stops = [(stream.state.rows, learner.position) for stream in learner.consume(*log)]
    assert [rows for rows, _ in stops] == [1, 2, 4, 8, 16, 32, 64, 250, 298]
    assert [position.used for _, position in stops] == [0] * len(stops) and stops[-1][1].offset == 300
    assert [one.message.offset for one in learner.take_outbox()[1]] == [70, 90]
