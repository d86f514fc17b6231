"""Contributions and requests with valid checksums that no stage sends: they pin, fill and break nothing."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import ModelError
from glasstream.events.message import Message
from glasstream.explain.explainer import explain
from glasstream.explain.sizes import LARGEST, bounded, sizes
from glasstream.kafka.stages import explainer
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.explainer import ExplainerTask
from glasstream.models.predictors.arrays import as_rows
from glasstream.models.predictors.kernels import leaf_sets
from glasstream_topics import contributions, requests
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest, Grid
from glasstream_topics.snapshots import Identity
from tests.support.contributions import ROWS, START, block
from tests.support.forged_states import committed


def fed(*blocks: Contributions, assignments: tuple[str, ...] = ()) -> AggregatorTask:
    task = AggregatorTask(0, load(assignments=[*CHOSEN, *assignments]))
    task.restore({}, 0, 10_000)
    give(task, *blocks)
    return task


CHOSEN = (
    "explain.methods=ipfi,isage,ipdp", f"explain.reservoir={START}", "explain.loss=zero_one", "publish.every=10",
    "topics.events=1",
)  # fmt: skip


def give(task: AggregatorTask, *blocks: Contributions) -> None:
    for one in blocks:
        data = contributions.encode(one)
        asyncio.run(task.feed([Message("contributions", 0, task.core.next_offset, b"s", data)]))


def shifted(first: int, by: int, **fields: Any) -> Contributions:
    return replace(block(first, first + 5), first_row=first + by, **fields)


def test_a_block_further_ahead_than_any_learner_is_skipped_and_pins_no_position() -> None:
    task = fed(block(START, 20), shifted(20, 2**40), block(20, ROWS))
    assert task.damaged == 1
    assert committed(task) and task.core.offset == 3 and not task.core.streams["s"].waiting
    nearer = fed(block(START, 20), shifted(20, 50))
    assert committed(nearer) and nearer.core.offset == 1 and nearer.core.streams["s"].waiting == 1


@pytest.mark.parametrize("fields", [{"seqs": np.arange(2**60, 2**60 + 5)}, {"first_row": 2**60}, {"loss": "brier"}])
def test_numbers_that_no_state_can_have_are_skipped(fields: dict[str, Any]) -> None:
    task = fed(block(START, 20), replace(block(20, 25), **fields), block(20, ROWS))
    assert task.damaged == 1 and task.core.streams["s"].next_row == ROWS


def test_blocks_that_wait_are_bounded_and_the_furthest_is_dropped_first() -> None:
    limit = 30_000
    task = fed(block(START, 10), assignments=(f"limits.request_bytes={limit}",))
    ahead = [block(row, row + 2) for row in range(12, ROWS, 2)]
    give(task, *reversed(ahead))
    stream = task.core.streams["s"]
    assert 0 < task.core.waiting_bytes <= 2 * limit and task.damaged == task.core.dropped > 0
    assert min(stream._waiting) == 12, "what is needed next is kept"
    give(task, block(10, 12), *ahead)
    assert stream.next_row == ROWS and task.core.waiting_bytes == 0 and not stream.waiting


def test_a_block_narrower_than_the_rows_before_is_skipped() -> None:
    """A kernel would read the kinds of features beyond its own."""
    narrow = block(20, 25)
    values = dict(narrow.values)
    for name in ("inputs", "ipfi", "isage"):
        values[name] = values[name][:, :2]
    values["isage.first"] = values["isage.first"] % 2
    values["ipdp"], values["ipdp.points"] = values["ipdp"][:, :2], values["ipdp.points"][:, :, :2]
    narrow = replace(narrow, names=narrow.names[:2], kinds=narrow.kinds[:2], values=values)
    task = fed(block(START, 20), narrow, block(20, ROWS))
    assert task.damaged == 1 and task.core.streams["s"].next_row == ROWS
    late = fed(narrow, block(START, 20), block(20, ROWS))
    assert late.damaged == 1 and late.core.streams["s"].next_row == ROWS, "also if it has waited"


def greedy(rows: int, features: int, points: int) -> ExplainRequest:
    """Return a request of a few kilobytes that names a large grid."""
    return ExplainRequest(
        stream="s",
        epoch=0,
        partition=0,
        first_row=100,
        version=50,
        seqs=np.arange(rows),
        names=[f"f{j}" for j in range(features)],
        kinds=[0] * features,
        classes=["a", "b"],
        loss="brier",
        task="classification",
        x=np.zeros((rows, features)),
        y=np.zeros(rows),
        grid=Grid(points, points, equidistant=False),
        draws={
            "ipdp.row": np.zeros(1, np.int32), "ipdp.place": np.zeros(1, np.int32), "ipdp.value": np.zeros(1),
        },
    )  # fmt: skip


def test_a_request_whose_answer_no_learner_wants_is_answered_as_failed() -> None:
    block = requests.decode(requests.encode(greedy(500, 20, 1_000)))
    assert sizes(block).answer > 50 * LARGEST
    refused = bounded(block)
    assert "expected contributions of at most" in refused.refused
    (answer,) = explain(refused, None)
    assert (answer.kind, answer.count, answer.first_row) == ("failed", 500, 100)
    fits = greedy(5, 2, 3)
    assert bounded(fits) is fits


def test_an_explainer_answers_such_a_request_without_waiting_for_its_model() -> None:
    worker = ExplainerTask(load(assignments=["topics.events=1"]), None, AggregatorProgress())
    data = requests.encode(greedy(500, 20, 1_000))
    (record,) = asyncio.run(worker.handle(Message("explain.requests", 0, 7, b"s", data)))
    assert contributions.decode(record.value or b"").kind == "failed"


def test_decoded_models_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "_MODEL_BYTES", 1_000)
    worker = ExplainerTask(load(assignments=["topics.events=1"]), None, AggregatorProgress())

    def read(data: bytes, *, key: object) -> Any:
        version = int(data)
        return explainer.codec.Snapshot("s", 0, version, None, 400)  # type: ignore[arg-type]

    monkeypatch.setattr(explainer.codec, "read", read)
    for version in range(5):
        asyncio.run(worker._decode(Identity("s", 0, version), str(version).encode()))
    assert [identity.version for identity in worker._models] == [3, 4]


def test_sets_of_leaves_are_bounded_before_their_table_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """`features` may be as many as a snapshot can name."""
    called: list[object] = []
    monkeypatch.setattr(leaf_sets, "_tests", lambda *arguments: called.append(arguments))
    branches = leaf_sets.Branches(*(np.zeros(1, np.int64) for _ in leaf_sets.Branches._fields))
    assert leaf_sets.leaf_sets(branches, 10**9) is None and not called


def test_rows_are_not_padded_without_a_bound() -> None:
    with pytest.raises(ModelError, match="expected rows of about 1000000000 features, got 2 rows of 3"):
        as_rows(np.zeros((2, 3)), 10**9)
    assert as_rows(np.zeros((2, 3)), 5).shape == (2, 5)
