"""State of the aggregator: what it writes it can read, however much there is; what a commit costs is bounded."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.kafka.stages import aggregator as stage
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.models.codec import snapshot
from glasstream_topics import checkpoints, chunks, contributions, progress_aggregator, progress_novelty, snapshots
from glasstream_topics.progress_aggregator import AggregatorPartitionProgress, AggregatorState, AggregatorStreamProgress
from tests.support.contributions import ROWS, block
from tests.support.examples import examples

SETTINGS = load(
    assignments=[
        "explain.methods=ipfi,isage,ipdp", "explain.reservoir=5", "explain.loss=zero_one", "publish.every=10",
        "topics.events=1",
    ]
)  # fmt: skip
STREAMS = [f"stream {number}" for number in range(4)]
START = SETTINGS.explain.first_row
Log = list[bytes]


def log_of(order: list[int]) -> Log:
    """The blocks of all streams, cut at every tenth row, in some order."""
    cuts = [START, *range(10, ROWS + 1, 10)]
    blocks = [
        contributions.encode(replace(block(first, end), stream=stream))
        for first, end in pairwise(cuts)
        for stream in STREAMS
    ]
    return [blocks[at % len(blocks)] for at in dict.fromkeys([*order, *range(len(blocks))])]


def run(log: Log, crashes: set[int], every: int) -> dict[str, list[bytes]]:
    """Aggregate a log, with a commit after every so many messages; after some commits a successor takes over."""
    state: dict[bytes, bytes] = {}
    published: dict[str, list[bytes]] = defaultdict(list)
    aggregator, at, commits = AggregatorTask(0, SETTINGS), 0, 0
    aggregator.restore({}, 0, len(log))
    while True:
        end = min(at + every, len(log))
        for offset in range(at, end):
            asyncio.run(aggregator.feed([Message("contributions", 0, offset, b"", log[offset])]))
        at = end
        outputs = aggregator.collect()
        if not outputs and at == len(log):
            assert aggregator.core.offset == len(log) and aggregator.damaged == 0
            return dict(published)
        for record in outputs.records:
            published[(record.key or b"").decode()].append(record.value or b"")
        for record in outputs.progress:
            if record.value is None:
                del state[record.key or b""]
            else:
                state[record.key or b""] = record.value
        commits += 1
        if commits in crashes:
            aggregator = AggregatorTask(0, SETTINGS)
            records = dict(state)
            at = aggregator.restore(records, 0, len(log))
            assert not records, "large state is in memory once"


@cache
def expected() -> dict[str, list[bytes]]:
    """Return what is published without any fault."""
    return run(log_of([]), set(), 1_000)


@pytest.fixture
def one_stream_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "STATE_BYTES", 1)


@given(
    order=st.lists(st.integers(0, 23), max_size=24),
    crashes=st.sets(st.integers(1, 30), max_size=4),
    every=st.integers(1, 9),
)
@examples(20)
@pytest.mark.usefixtures("one_stream_a_commit")
def test_streams_that_are_committed_in_turn_say_what_they_say_alone(
    order: list[int], crashes: set[int], every: int
) -> None:
    """A commit holds some of the streams; whoever dies after it, rows of the others are aggregated again, exactly."""
    assert {key.partition("/")[0] for key in expected()} == set(STREAMS)
    assert run(log_of(order), crashes, every) == expected()


def test_a_commit_is_bounded_however_many_streams_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    aggregator = AggregatorTask(0, SETTINGS)
    aggregator.restore({}, 0, 10_000)
    names = [f"stream {number}" for number in range(30)]
    for offset, name in enumerate(names):
        data = contributions.encode(replace(block(START, 20), stream=name))
        asyncio.run(aggregator.feed([Message("contributions", 0, offset, b"", data)]))
    one = sum(len(record.value or b"") for record in aggregator._state_records(aggregator.core.streams["stream 0"]))
    monkeypatch.setattr(stage, "STATE_BYTES", 3 * one)
    committed: list[str] = []
    while outputs := aggregator.collect():
        size = sum(len(record.value or b"") for record in outputs.progress)
        assert one < size < 5 * one
        decoded = [progress_aggregator.decode(record.key or b"", record.value or b"") for record in outputs.progress]
        committed += [record.stream for record in decoded if isinstance(record, AggregatorStreamProgress)]
        positions = [record.offset for record in decoded if isinstance(record, AggregatorPartitionProgress)]
        assert positions == [len(committed)], "what is not committed yet is read again"
    assert committed == names, "in the order in which they have changed"


@pytest.mark.slow
def test_the_aggregator_restores_more_than_any_fixed_bound() -> None:
    """Two streams with 280 MB of state together, as a thousand have with a hundred features."""
    state: dict[bytes, bytes] = {}
    numbers = np.zeros(18_000_000)
    for name in ("a", "b"):
        progress = AggregatorStreamProgress(stream=name, epoch=0, next_row=7, published_row=6)
        state |= {
            key: value
            for key, value in progress_aggregator.encode_stream(
                AggregatorState(progress=progress, meta={}, arrays={"numbers": numbers})
            )
            if value is not None
        }
    key, value = progress_aggregator.encode_partition(AggregatorPartitionProgress(epoch=0, offset=9, fingerprint={}))
    restored = progress_aggregator.restore({**state, key: value})
    for name in ("a", "b"):
        assert restored.state(name).arrays["numbers"].nbytes == numbers.nbytes


Written = dict[bytes, bytes]


def _aggregator(size: int, limit: int) -> Written:
    progress = AggregatorStreamProgress(stream="s", epoch=0, next_row=7, published_row=6)
    pairs = progress_aggregator.encode_stream(
        AggregatorState(progress=progress, meta={}, arrays={"n": np.zeros(size, "u1")}), limit=limit
    )
    pairs.append(progress_aggregator.encode_partition(AggregatorPartitionProgress(epoch=0, offset=9, fingerprint={})))
    return {key: value for key, value in pairs if value is not None}


def _novelty(size: int, limit: int) -> Written:
    anchor = progress_novelty.Anchor(
        stream="s", epoch=0, offset=1, used=0, seqs=7, meta={}, arrays={"n": np.zeros(size, "u1")}
    )
    stream = progress_novelty.NoveltyStreamProgress(stream="s", epoch=0, first_offset=0, seqs=9, anchor=7)
    partition = progress_novelty.NoveltyPartitionProgress(epoch=0, offset=1, used=0, fingerprint={})
    pairs = [*progress_novelty.encode_anchor(anchor, limit=limit), *map(progress_novelty.encode, (stream, partition))]
    return {key: value for key, value in pairs if value is not None}


def _checkpoint(size: int, limit: int) -> Written:
    one = checkpoints.Checkpoint(
        stream="s", epoch=0, rows=7, seqs=9, offset=1, used=0, fingerprint={}, form="plain", state=bytes(size)
    )
    return dict(checkpoints.split(one, limit))


def _restored_checkpoint(latest: Mapping[bytes, bytes]) -> int:
    assembler = checkpoints.Assembler(chunks.room_for(latest.values()))
    for key, value in latest.items():
        assembler.add(key, value)
    data = assembler.get("s", 0, 7)
    return -1 if data is None else len(checkpoints.decode(data).state)


def _restored_anchor(latest: Mapping[bytes, bytes]) -> int:
    found = progress_novelty.restore(latest).anchor("s")
    return -1 if found is None else found.arrays["n"].size


CODECS: dict[str, tuple[Callable[[int, int], Written], Callable[[Mapping[bytes, bytes]], int]]] = {
    "progress.aggregator": (
        _aggregator,
        lambda latest: progress_aggregator.restore(latest).state("s").arrays["n"].size,
    ),
    "progress.novelty": (_novelty, _restored_anchor),
    "checkpoints": (_checkpoint, _restored_checkpoint),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("size", "limit"), [(0, 1), (1, 1), (300, 1), (40_000, 100), (5_000_000, 500_000)])
def test_what_is_written_is_never_too_much_to_be_read(codec: str, size: int, limit: int) -> None:
    """Whatever its size and however it is cut: the reader's bound follows from what was written."""
    write, read = CODECS[codec]
    latest = write(size, limit)
    assert read(latest) == size
    assert read(dict(reversed(latest.items()))) == size


def test_an_explainer_holds_every_snapshot_that_a_learner_keeps_alive() -> None:
    """A bound of its own would make it wait for ever for what it has forgotten."""
    from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
    from glasstream.kafka.stages.explainer import ExplainerTask

    settings = load(assignments=["limits.snapshot_bytes=1000", "limits.snapshot_largest=1000"])
    explainer = ExplainerTask(settings, None, AggregatorProgress())
    for number in range(20):
        for key, value in snapshots.split(f"stream {number}", 0, 7, bytes(900)):
            explainer.on_snapshot(key, value)
    assert all(explainer._snapshots.get(f"stream {number}", 0, 7) == bytes(900) for number in range(20))


def test_no_snapshot_is_written_that_inflates_to_more_than_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from river import linear_model

    from glasstream.base.errors import ModelError
    from glasstream.events.features import FeatureTable
    from glasstream.models.river.generic import GenericPredictor

    predictor = GenericPredictor(linear_model.LinearRegression(), FeatureTable(), None)
    key = b"a key of sixteen bytes"
    written = snapshot.encode(predictor, stream="s", epoch=0, version=1, key=key)
    assert snapshot.decode(written, key=key).task == "regression"
    monkeypatch.setattr(snapshot, "LIMIT", 100)
    with pytest.raises(ModelError, match="of which explainers read at most 100; use a smaller model"):
        snapshot.encode(predictor, stream="s", epoch=0, version=1, key=key)
