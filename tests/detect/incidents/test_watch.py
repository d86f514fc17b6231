"""Incidents are a function of the rows alone: blocks, restarts and new features change no byte."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise

import msgspec
import numpy as np
import pytest

from glasstream.base.errors import FrameError
from glasstream.detect.incidents.series import sampled_rows
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream.events.admission import Task
from glasstream.explain.losses import LOSSES, rounding
from glasstream_topics import frames
from glasstream_topics.incidents import Incident, encode
from glasstream_topics.record import refuse_non_finite
from glasstream_topics.watching import Watching
from tests.support.extremes import forged
from tests.support.incident_streams import (
    AT,
    NAMES,
    ROWS,
    Change,
    Stream,
    changed,
    concept_moved,
    data_and_loss_moved,
    nothing,
    reasoning_moved,
    scaled,
    swapped,
    twins,
    twins_swapped,
)

SEEDS = range(4)


def cut(draws: np.random.Generator, rows: int) -> list[slice]:
    places = np.unique([0, rows, *draws.integers(0, rows, size=60)])
    return [slice(int(first), int(last)) for first, last in pairwise(places)]


def encoded(records: Sequence[Incident | Watching]) -> list[bytes]:
    return [encode(one) if isinstance(one, Incident) else msgspec.json.encode(one) for one in records]


def whole(stream: Stream) -> tuple[list[bytes], list[bytes]]:
    watch = IncidentWatch("s", 0, 7, 0.5)
    return encoded(list(watch.update(stream.rows()))), encoded(watch.taken())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("change", [swapped, concept_moved, data_and_loss_moved, reasoning_moved, twins_swapped])
def test_blocks_and_restarts_change_no_byte(change: Change, seed: int) -> None:
    stream, draws = changed(change, seed), np.random.default_rng(seed)
    watch, found, watching = IncidentWatch("s", 0, 7, 0.5), list[Incident](), list[Watching]()
    for part in cut(draws, ROWS):
        found += watch.update(stream.rows(part.start, part.stop))
        watching += watch.taken()
        assert watch.verdict == (found[-1].verdict if found and found[-1].status == "open" else None)
        if draws.random() < 0.5:
            meta, arrays = watch.state()
            watch = IncidentWatch("s", 0, 7, 0.5)
            frame = frames.decode(frames.encode("state", 1, meta, arrays), "state", 1)
            watch.restore(frame.meta, frame.arrays)
    assert (encoded(found), encoded(watching)) == whole(stream)
    assert found and len(watching) > 4


@pytest.mark.parametrize(
    ("change", "seed"), [(concept_moved, 3), (data_and_loss_moved, 8), (reasoning_moved, 10), (twins_swapped, 1)]
)
def test_rows_one_at_a_time_change_no_byte(change: Change, seed: int) -> None:
    """After each row a block may have become longer, which must not make of its old wealth an alarm."""
    stream, watch = changed(change, seed), IncidentWatch("s", 0, 7, 0.5)
    found = list(watch.update(stream.rows(0, AT)))
    for row in range(AT, AT + 500):
        found += watch.update(stream.rows(row, row + 1))
    found += watch.update(stream.rows(AT + 500))
    assert (encoded(found), encoded(watch.taken())) == whole(stream)
    assert found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("change", [nothing, twins])
def test_features_that_come_later_change_nothing_for_the_others(change: Change, seed: int) -> None:
    """A new feature has no rows to be compared with, so it raises no alarm."""
    stream = changed(change, seed)
    watch, found = IncidentWatch("s", 0, 7, 0.5), list[Incident]()
    for part in cut(np.random.default_rng(seed), ROWS):
        rows = stream.rows(part.start, part.stop)
        width = 3 if part.stop < 1_000 else 4 if part.stop < 2_000 else 5
        found += watch.update(_narrow(rows, width))
    assert found == []
    assert watch.names == NAMES


def _narrow(rows: Rows, width: int) -> Rows:
    assert rows.importance is not None
    return rows._replace(
        names=rows.names[:width],
        kinds=rows.kinds[:width],
        inputs=rows.inputs[:, :width],
        importance=rows.importance[:, :width],
    )


@pytest.mark.parametrize("name", ["brier", "cross_entropy", "absolute", "squared"])
@pytest.mark.parametrize(("times", "found"), [(1.0, 0), (1e6, 1)], ids=["rounding", "small"])
def test_losses_of_a_model_that_is_always_right_are_no_evidence(name: str, times: float, found: int) -> None:
    """Its losses are what rounding makes of 0. Tests that look at ranks and at ratios would find them telling."""
    stream, draws = Stream(3), np.random.default_rng(3)
    classes = ["no", "yes"] if LOSSES[name] is Task.CLASSIFICATION else []
    targets = stream.target if classes else draws.normal(1e5, 1e3, ROWS)
    largest = times * float(rounding(name, targets).min())
    stream.loss = largest * draws.uniform(0.05, 0.1, ROWS)
    stream.loss[AT:] *= 10.0
    stream.importance = stream.loss[:, np.newaxis] * draws.uniform(-1.0, 1.0, (ROWS, len(NAMES)))
    rows = stream.rows()._replace(loss_name=name, target=targets, classes=classes)
    incidents = [one for one in IncidentWatch("s", 0, 7, 0.5).update(rows) if one.status == "open"]
    assert len(incidents) == found, [one.summary for one in incidents]


def test_a_stream_without_importance_is_watched() -> None:
    rows = changed(scaled, 1).rows()._replace(importance=None)
    assert next(IncidentWatch("s", 0, 7, 0.5).update(rows)).verdict == "feature_broken"


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("features", [1, 16, 100, 500])
def test_the_state_is_bounded(features: int, alike: bool) -> None:
    """While an incident is open: about 5 KB a feature, 3 KB a pair, and rows to judge and locate it by."""
    draws = np.random.default_rng(1)
    watch = IncidentWatch("s", 0, 7, 0.5)
    most = 0
    for first in range(0, 6_000, 300):
        inputs = draws.normal(size=(300, features)) + 5.0 * (first >= 1_500)
        if alike:
            inputs = inputs[:, :1] + 0.01 * inputs
        rows = Rows(
            first, np.arange(first, first + 300), [], [f"f{j}" for j in range(features)], [0] * features, inputs,
            draws.random(300), [], draws.random(300), "squared", inputs,
        )  # fmt: skip
        list(watch.update(rows))
        most = max(most, sum(array.nbytes for array in watch.state()[1].values()))
    pairs = features // 2 if alike else 0
    assert len(watch.series.pairs) == pairs
    kept = 8 * max(20_000, 150 * (features + 1)) + 8 * max(10_000, 60 * (features + 1))
    recent = min(4 * 120_000, 4 * 1_200 * features) + 16 * 1_200
    sample = 8 * sampled_rows(features) * (features + 3)
    assert most <= 5_200 * (features + 1) + 3_200 * pairs + kept + recent + sample


@pytest.mark.parametrize(("row", "end"), [(3_499, ROWS), (3_500, 3_500), (3_749, 3_500), (4_499, 4_250)])
def test_importance_before_a_row_is_that_of_a_stream_that_ends_there(row: int, end: int) -> None:
    """It is known at every 250th of the newest 1,000 rows. The loss is that of now."""
    stream = changed(nothing, 1)
    whole, begun = IncidentWatch("s", 0, 7, 0.5), IncidentWatch("s", 0, 7, 0.5)
    list(whole.update(stream.rows(first_row=0)))
    list(begun.update(stream.rows(0, end, first_row=0)))
    (mean, variance), now = whole.series.levels_before(row), whole.series.arrays
    assert np.array_equal(mean[1:], begun.series.arrays["robust"][1:])
    assert np.array_equal(variance[1:], begun.series.arrays["variance"][1:])
    assert (mean[0], variance[0]) == (now["robust"][0], now["variance"][0])


def test_a_damaged_state_is_refused() -> None:
    watch = IncidentWatch("s", 0, 7, 0.5)
    list(watch.update(changed(swapped, 1).rows()))
    meta, arrays = watch.state()
    for damaged in ({**arrays, "counts": arrays["counts"][:1]}, {k: v for k, v in arrays.items() if k != "edges"}):
        with pytest.raises(FrameError):
            IncidentWatch("s", 0, 7, 0.5).restore(meta, damaged)


def test_more_values_in_a_bin_than_in_all_are_refused() -> None:
    """They would make ranks above 1, and evidence that is no number."""
    watch = IncidentWatch("s", 0, 7, 0.5)
    list(watch.update(changed(swapped, 1).rows()))
    meta, arrays = watch.state()
    arrays["counts"][0, 3] += 1.0
    with pytest.raises(FrameError, match="as many values of a series as in all its bins"):
        IncidentWatch("s", 0, 7, 0.5).restore(meta, arrays)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])  # not a divisor: all numbers come
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_state_with_an_extreme_number_anywhere_is_refused_or_goes_on(every: int, replaced: bool) -> None:
    """It goes on with records that can be written, and with a state that can be resumed."""
    stream, watch = changed(twins_swapped, 3), IncidentWatch("s", 0, 7, 0.5)
    outcomes = Counter[str]()
    end = AT + 450
    list(watch.update(stream.rows(0, AT + 300)))
    if replaced:
        list(watch.replace(100 + AT + 300, 100 + AT + 300, None, "brier"))
    list(watch.update(stream.rows(AT + 300, end)))
    meta, arrays = watch.state()
    assert (watch.alarm is None, watch.replacement is not None) == (replaced, replaced)
    for what, damaged in islice(forged(arrays), 0, None, every):
        watch = IncidentWatch("s", 0, 7, 0.5)
        try:
            watch.restore(meta, damaged, 100 + end - 1)
        except FrameError:
            outcomes["refused"] += 1
            continue
        found = list(watch.update(stream.rows(end, end + 300)))
        for one in (*found, *watch.taken()):
            refuse_non_finite(what, one)
        IncidentWatch("s", 0, 7, 0.5).restore(*watch.state(), 100 + end + 299)
        outcomes["went on"] += 1
    assert outcomes["refused"] > 100 // every and outcomes["went on"] > 100 // every
