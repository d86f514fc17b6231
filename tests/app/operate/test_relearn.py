"""A stream learned again gives what was sent of each event, from its beginning and from any checkpoint."""

from copy import deepcopy

import numpy as np
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.app.operate.explain_at.from_log import StartingPoint, place, relearn
from glasstream.events.message import Message, Position
from glasstream.explain.explainer import explain
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.settings import Settings
from glasstream.models.codec import snapshot as codec
from glasstream_topics import events
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest
from tests.support.learner import BASE
from tests.support.learner_checkpoints import LOG, METHODS, VARIANTS

KEY = b"a key of sixteen bytes"


def sent(
    settings: Settings, *, at_rest: bool = False
) -> tuple[dict[int, tuple[ExplainRequest, Contributions]], list[StartingPoint]]:
    """Return the request and the explanation of every explained event, by seq, and every position to start from."""
    learner = PartitionLearner(0, settings)
    found: dict[int, tuple[ExplainRequest, Contributions]] = {}
    begins = [StartingPoint(Position(0, 0))]
    models: dict[int, bytes] = {}
    for message in LOG:
        for stream in learner.consume(message):
            if at_rest:
                learner.cut()
            outbox, _ = learner.take_outbox()
            for one in outbox.snapshots:
                models[one.version] = codec.encode(one.predictor, stream="s", epoch=0, version=one.version, key=KEY)
            if stream.at_snapshot or (at_rest and message.offset % 5 == 0):
                state = learner.state("s", at_rest=at_rest)
                if state.tells_model:
                    begins.append(StartingPoint(learner.position, stream.seqs, deepcopy(state)))
            for block in outbox.requests:
                _add(found, block, models)
    learner.cut()
    for block in learner.take_outbox()[0].requests:
        _add(found, block, models)
    return found, begins


def _add(
    found: dict[int, tuple[ExplainRequest, Contributions]], block: ExplainRequest, models: dict[int, bytes]
) -> None:
    if block.count:
        (answer,) = explain(block, codec.decode(models[block.version], key=KEY))
        found.update((seq, (block, answer)) for seq in block.seqs.tolist())


def of_row(arrays: dict[str, np.ndarray], index: int) -> dict[str, bytes]:
    return {name: array[index].tobytes() for name, array in arrays.items() if not name.startswith("ipdp.")}


@pytest.mark.parametrize(
    ("variant", "at_rest"),
    [
        ("tree", False),
        pytest.param("tree", True, marks=pytest.mark.slow),
        ("conditional removal", False),
        ("conditional removal", True),
        ("not compiled", False),
        ("not compiled", True),
    ],
)
def test_it_is_the_same_from_every_beginning(variant: str, at_rest: bool) -> None:
    settings = load(assignments=[*BASE, *METHODS, *VARIANTS[variant]])
    expected, begins = sent(settings, at_rest=at_rest)
    assert len(expected) > 30 and len(begins) > 2
    messages = [Message(one.topic, one.partition, one.offset, one.key, one.value, one.timestamp) for one in LOG]
    newest = [begin for begin in begins if any(seq >= begin.seq for seq in expected)][-1]
    for begin in (begins[0], begins[len(begins) // 2], newest):
        seqs = [seq for seq in expected if seq >= begin.seq][::5]
        assert seqs
        rest = [one for one in messages if one.offset >= begin.at.offset]
        found = relearn(settings, "s", 0, begin, rest, seqs)
        assert sorted(found) == seqs
        counted = place(settings, begin, rest, seqs)
        assert sorted(counted.events) == seqs
        for seq, (block, model) in found.items():
            theirs, published = expected[seq]
            at, there = int(np.searchsorted(block.seqs, seq)), int(np.searchsorted(theirs.seqs, seq))
            assert block.first_row + at == theirs.first_row + there and block.version == theirs.version
            assert of_row({**block.draws, "x": block.x}, at) == of_row({**theirs.draws, "x": theirs.x}, there)
            (answer,) = explain(block, model)
            assert of_row(dict(answer.values), at) == of_row(dict(published.values), there)
            event = counted.events[seq]
            for name, value in zip(block.names, block.x[at].tolist(), strict=True):
                if name in counted.texts and not np.isnan(value):
                    assert counted.texts[name][int(value)] == event.x[name]


def test_a_reset_mark_ends_the_search_for_what_still_waits() -> None:
    """An event without a label waits to the end of the log, and what comes after the mark has the same seqs again."""
    settings = load(assignments=[*BASE, *METHODS])
    begin, end = StartingPoint(Position(0, 0)), LOG[-1].offset + 1
    more = [
        Message(one.topic, one.partition, end + 1 + one.offset, one.key, orjson.dumps({"x": {"new": 1.0}, "y": True}))
        for one in LOG
    ]
    log = [*LOG, Message("events", 0, end, b"s", events.RESET), *more]
    last = LOG[-1].offset + 1000
    for asked in ([40, 60], [60, last]):
        alone = relearn(settings, "s", 0, begin, LOG, asked)
        found = relearn(settings, "s", 0, begin, log, asked)
        assert found.keys() == alone.keys() and 60 in found
        assert all(found[seq][0].epoch == 0 and "new" not in found[seq][0].names for seq in found)
        assert place(settings, begin, log, asked) == place(settings, begin, LOG, asked)


def test_events_that_are_not_explained_are_not_among_them() -> None:
    settings = load(assignments=[*BASE, *METHODS])
    expected, _ = sent(settings)
    begin = StartingPoint(Position(0, 0))
    everything = range(max(expected) + 1)
    found = relearn(settings, "s", 0, begin, LOG, everything)
    counted = place(settings, begin, LOG, everything)
    assert found.keys() == expected.keys()
    assert sorted(counted.events) == list(everything)
    assert all(counted.events[seq].target is not None for seq in expected)
