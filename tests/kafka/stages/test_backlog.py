"""With `limits.lag=shed` the learner goes on without the aggregator: what it remembers of the rows stays bounded."""

import asyncio
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.explain.sizes import LARGEST
from glasstream.flow.learner.make_model import fixed_model
from glasstream.flow.learner.outbox import ModelVersion
from glasstream.flow.learner.state import NEVER
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.backlog import Backlog
from glasstream.kafka.stages.learner import LearnerTask
from glasstream_topics import progress_aggregator, requests
from glasstream_topics.progress_aggregator import AggregatorState, AggregatorStreamProgress
from glasstream_topics.progress_learner import LearnerStreamProgress
from glasstream_topics.requests import ExplainRequest
from tests.support.logs import messages
from tests.support.onnx_exports import exported

LIMIT = 512 * 1024
ROWS = 4
SETTINGS = ("limits.lag=shed", f"limits.request_bytes={LIMIT}", "topics.events=1")


def block(number: int) -> ExplainRequest:
    """The n-th block of a stream whose model is published before each block."""
    first = 100 + number * ROWS
    return ExplainRequest(
        stream="s", epoch=0, partition=0, first_row=first, version=first, task="regression", loss="squared_error",
        seqs=np.arange(first, first + ROWS), x=np.zeros((ROWS, 2)), y=np.zeros(ROWS), names=["a", "b"], kinds=[0, 0],
    )  # fmt: skip


def aggregated(progress: AggregatorProgress, row: int) -> None:
    done = AggregatorStreamProgress(stream="s", epoch=0, next_row=row, published_row=row - 1)
    for key, value in progress_aggregator.encode_stream(AggregatorState(progress=done, meta={}, arrays={}), 0):
        progress.on_record(0, 0, key, value)


def shed(backlog: Backlog, begin: int, end: int) -> None:
    for number in range(begin, end):
        backlog.add_request(block(number))
        backlog.take_requests()
        backlog.shed()


def test_memory_is_bounded_while_the_aggregator_is_away() -> None:
    """The blocks that are forgotten take their rows' numbers, not an object each."""
    backlog = Backlog(load(assignments=SETTINGS), None, AggregatorProgress())
    shed(backlog, 0, 200)
    tracemalloc.start()
    try:
        shed(backlog, 200, 3_000)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < LIMIT
    assert backlog.request_bytes <= LIMIT and not backlog.exhausted


def test_the_blocks_of_a_stream_take_turns_over_all_partitions() -> None:
    backlog = Backlog(load(assignments=("topics.events=1", "topics.requests=8")), None, AggregatorProgress())
    for number in range(30):
        backlog.add_request(block(number))
    sent = Counter(record.partition for record in backlog.take_requests())
    assert sorted(sent) == list(range(8))
    assert max(sent.values()) - min(sent.values()) <= 1


def test_forgotten_rows_come_again_as_refused_blocks_that_a_broker_takes() -> None:
    progress = AggregatorProgress()
    backlog = Backlog(load(assignments=(*SETTINGS[:1], "limits.request_bytes=1", "topics.events=1")), None, progress)
    total = 20_000
    shed(backlog, 0, total)
    assert backlog.exhausted, "the numbers of the rows count, so the learner must wait at last"
    assert backlog.repair("s") < 10
    records = backlog.take_requests()
    again = [requests.decode(record.value or b"") for record in records]
    assert max(len(record.value or b"") for record in records) <= LARGEST
    assert np.array_equal(np.concatenate([one.seqs for one in again]), np.arange(100, 100 + total * ROWS))
    assert all("limits.lag" in one.refused and one.version <= one.first_row for one in again)
    aggregated(progress, again[-1].first_row)
    assert backlog.outstanding() == {"s": 1}
    aggregated(progress, 100 + total * ROWS)
    assert backlog.outstanding() == {} and backlog.request_bytes == 0 and not backlog.exhausted


def test_blocks_that_are_not_adjacent_stay_apart() -> None:
    """A flush mark between two blocks, and a block that the aggregator has already."""
    progress = AggregatorProgress()
    backlog = Backlog(load(assignments=(*SETTINGS[:1], "limits.request_bytes=1", "topics.events=1")), None, progress)
    shed(backlog, 0, 2)
    mark = requests.flush_item(stream="s", epoch=0, partition=0, first_row=block(2).first_row)
    for one in (mark, block(2), block(4)):
        backlog.add_request(one)
    backlog.take_requests()
    backlog.shed()
    assert backlog.repair("s") == 4
    again = [requests.decode(record.value or b"") for record in backlog.take_requests()]
    assert [(one.first_row, one.count, one.flush_before) for one in again] == [
        (100, 8, False), (108, 0, True), (108, 4, False), (116, 4, False),
    ]  # fmt: skip


def test_a_flush_mark_after_which_nothing_is_due_waits_for_nobody() -> None:
    """The aggregator commits nothing for the second one, so no progress would ever settle it."""
    progress = AggregatorProgress()
    backlog = Backlog(load(assignments=SETTINGS), None, progress)
    mark = requests.flush_item(stream="s", epoch=0, partition=0, first_row=block(1).first_row)
    for one in (block(0), mark):
        backlog.add_request(one)
    assert len(backlog.take_requests()) == 2 and backlog.outstanding() == {"s": 2}
    aggregated(progress, block(1).first_row)
    assert backlog.outstanding() == {}
    backlog.add_request(mark)
    assert backlog.outstanding() == {} and backlog.take_requests() == []


def test_the_learner_waits_when_it_can_forget_nothing_more() -> None:
    settings = load(
        assignments=(
            "model.name=linear", "model.task=classification", "explain.methods=ipfi", "topics.events=1",
            "limits.lag=shed", "limits.request_bytes=4000", "limits.rows_ahead=100",
        )
    )  # fmt: skip
    progress = AggregatorProgress()

    async def run() -> None:
        learner = LearnerTask(0, settings, None, progress, lambda topic, number: {})

        async def feed() -> None:
            for offset, value in enumerate(messages(0, 2_000)):
                await learner.feed([Message("events", 0, offset, b"s", value)])

        feeding = asyncio.ensure_future(feed())
        while not (learner._holding_back or feeding.done()):
            await asyncio.sleep(0)
            learner.collect()
        assert not feeding.done(), "the learner forgot rows without a bound"
        while not feeding.done():
            learner.collect()
            aggregated(progress, learner.core.streams["s"].learner.state.rows)
            await asyncio.sleep(0)
        feeding.result()

    asyncio.run(run())


def test_a_predecessors_snapshot_stays_until_the_next_versions_first_row_is_known(tmp_path: Path) -> None:
    """Versions of a trained model count models, not rows."""
    file = tmp_path / "forest.onnx"
    file.write_bytes(exported("encoded forest"))
    settings, progress = load(assignments=["topics.events=1", f"model.name={file}"]), AggregatorProgress()
    backlog = Backlog(settings, None, progress)
    mine = LearnerStreamProgress("s", 0, seqs=900, rows=900, first_offset=0, after=9, snapshots={"0": 1, "1": 1})
    backlog.inherit({"s": mine})
    aggregated(progress, 300)
    assert backlog.take_records() == []
    model = fixed_model(settings).predictor
    backlog.add_snapshot(ModelVersion("s", 0, 0, model, 1, NEVER))
    backlog.add_snapshot(ModelVersion("s", 0, 1, model, 500, NEVER))
    assert [record.value is None for record in backlog.take_records()] == [False, False]
    aggregated(progress, 500)
    assert [(record.key, record.value) for record in backlog.take_records()] == [(b"s/0/0/0", None)]
