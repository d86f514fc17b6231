"""Records of weak segments do not depend on how blocks are cut, on restarts, or on what else is published."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import StateError
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream_topics import frames, segments
from glasstream_topics.contributions import Contributions

START, ROWS = 5, 4_600
DRAWS = np.random.default_rng(1)
INPUTS = np.column_stack([DRAWS.normal(size=ROWS), DRAWS.integers(0, 3, ROWS), DRAWS.normal(size=ROWS)])
MOVED = INPUTS.copy()
MOVED[1_700:, 2] += 40.0  # so that an incident opens, and the watch makes new bins
LOSS = DRAWS.exponential(size=ROWS) * (1.0 + 2.0 * ((INPUTS[:, 0] > 0.3) & (INPUTS[:, 1] == 1)))


def block(first: int, end: int) -> Contributions:
    return Contributions(
        stream="s",
        epoch=0,
        partition=0,
        first_row=first,
        version=1,
        seqs=np.arange(first, end) * 2,
        kind="ok",
        names=["a", "text", "c"],
        kinds=[0, 2, 0],
        outputs=[""],
        texts={1: {0: "zero", 1: "one", 2: "two"}},
        loss="squared",
        values={
            "inputs": MOVED[first:end],
            "target": INPUTS[first:end, 0],
            "loss": LOSS[first:end],
            "ipfi": np.abs(INPUTS[first:end]),
        },
    )


def settings(*more: str) -> Any:
    usual = ["explain.methods=ipfi", f"explain.reservoir={START}", "model.task=regression", "segments.level=0.05"]
    return load(assignments=[*usual, *more])


def aggregated(cuts: list[int], *more: str, successors: bool = False) -> dict[str, list[bytes]]:
    stream = StreamAggregator.empty("s", settings(*more))
    found: dict[str, list[bytes]] = {}
    for number, (first, end) in enumerate(pairwise([START, *cuts, ROWS])):
        stream.offer(block(first, end), number)
        for record in stream.records:
            found.setdefault(record.topic, []).append(record.value)
        stream.records.clear()
        if successors:
            frame = frames.decode(frames.encode("state", 1, *stream.state()), "state", 1)
            stream = StreamAggregator.restore("s", settings(*more), frame.meta, frame.arrays)
    return found


WHOLE = aggregated([])


def test_the_planted_segment_is_named_as_of_whole_thousands_of_rows() -> None:
    records = [segments.decode(one) for one in WHOLE["segments"]]
    assert [(one.row, one.seq, one.rows) for one in records] == [
        (3_004, 6_008, 1_000),
        (4_004, 8_008, 2_000),
    ]
    (weak,) = records[-1].segments
    assert [one.feature for one in weak.conditions] == ["a", "text"] and "text = one" in weak.text
    assert weak.low < 2.0 and weak.high > 1.0 and records[-1].loss_name == "squared"
    assert WHOLE["incidents"]


@pytest.mark.parametrize("successors", [False, True])
def test_cuts_and_successors_change_no_record(successors: bool) -> None:
    draws = np.random.default_rng(successors)
    cuts = sorted({*draws.integers(START + 1, ROWS, 40).tolist(), 1_004, 1_005, 1_006})
    assert aggregated(cuts, successors=successors) == WHOLE


def test_without_a_level_or_incidents_nothing_is_named_and_no_other_record_changes() -> None:
    without = aggregated([], "segments.level=0")
    assert "segments" not in without
    assert without == {topic: records for topic, records in WHOLE.items() if topic != "segments"}
    assert "segments" not in aggregated([], "drift.budget=0")


def test_a_state_with_or_without_segments_is_refused_under_other_settings() -> None:
    for of, other in (((), ("segments.level=0",)), (("segments.level=0",), ())):
        meta, arrays = StreamAggregator.empty("s", settings(*of)).state()
        with pytest.raises(StateError, match="a state of weak segments"):
            StreamAggregator.restore("s", settings(*other), meta, arrays)
