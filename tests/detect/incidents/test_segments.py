"""Weak segments: equality with plain numpy, false claims, planted boxes, cuts, successors and forged state."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from glasstream.base.errors import FrameError
from glasstream.detect.incidents import lattice
from glasstream.detect.incidents.lattice import BLOCK
from glasstream.detect.incidents.segments import COHORTS, WeakSegments
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream.detect.incidents.where import conditions_of
from glasstream_topics import frames
from glasstream_topics.segments import Segments, WeakSegment
from tests.support.segment_rows import KINDS, NAMES, TEXTS, Floats, holds, inputs_of


def watched(inputs: Floats, losses: Floats) -> IncidentWatch:
    """Return a watch that has got the first block, and so has bins."""
    watch = IncidentWatch("s", 0, 1, 0.5)
    rows, count = np.arange(BLOCK), BLOCK
    part = Rows(0, rows, [], NAMES, KINDS, inputs[:count], np.zeros(count), [], losses[:count], "squared", None, TEXTS)
    assert not list(watch.update(part))
    return watch


class Stream:
    """Weak segments whose bins stay those of the first block."""

    def __init__(self, inputs: Floats, losses: Floats, level: float = 0.05) -> None:
        self.inputs, self.losses = inputs, losses
        self.watch = watched(inputs, losses)
        self.weak = WeakSegments("s", 0, level)
        self.records: list[Segments] = []
        self.row = 0

    def go(self, end: int, most: int = BLOCK) -> "Stream":
        """Add rows up to `end`, at most so many at once."""
        self.weak.widen(NAMES, KINDS)
        while self.row < end:
            stop = min(end, self.row + min(most, self.weak.until_due))
            inputs = self.inputs[self.row : stop]
            importance = np.tile([5.0, 4.0, 3.0, 2.0, 1.0], (len(inputs), 1))
            self.weak.add(inputs, self.losses[self.row : stop], importance)
            self.row = stop
            if not self.weak.until_due:
                record = self.weak.look(stop - 1, stop - 1, "squared", self.watch.series, TEXTS)
                self.records += [record] if record is not None else []
        return self


def planted(seed: int, rows: int, rise: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return inputs, losses, and which rows are in a box of two features in which the mean loss is higher."""
    draws = np.random.default_rng(seed)
    inputs = inputs_of(draws, rows)
    inside = (inputs[:, 0] >= 0.4) & (inputs[:, 2] == 0.0)
    return inputs, draws.exponential(size=rows) * (1.0 + rise * inside), inside


def test_cells_and_their_sums_over_blocks_are_those_of_plain_numpy() -> None:
    inputs, losses, _ = planted(1, 4 * BLOCK, 0.0)
    weak = Stream(inputs, losses).go(4 * BLOCK - 1, most=300).weak
    places = np.zeros(inputs.shape, np.int64)
    for slot, kind in enumerate(KINDS):
        cuts = weak.arrays["cuts"][slot, : weak.arrays["used"][slot]]
        column = inputs[:, slot]
        equal = column[:, np.newaxis] == cuts
        places[:, slot] = np.where(equal.any(axis=1), equal.argmax(axis=1), len(cuts)) + 1
        if kind == 0:
            places[:, slot] = 1 + (column[:, np.newaxis] >= cuts).sum(axis=1)
        places[np.isnan(column), slot] = 0
    clipped = np.minimum(losses, weak.arrays["limits"][1])
    assert weak.chosen == [0, 1, 2, 3, 4]
    for name, decayed in (("", False), ("past_", True)):
        expected = np.zeros(weak.arrays["pairs"].shape)
        for block in (1, 2) if decayed else (3,):
            part = slice(block * BLOCK, min((block + 1) * BLOCK, 4 * BLOCK - 1))
            values = clipped[part] - (clipped[part].mean() if decayed else 0.0)
            weight = 0.5 ** (max(0, 2 - block) / lattice.HALF_LIFE)
            pair = 0
            for second in range(5):
                for first in range(second):
                    for power in range(3):
                        np.add.at(
                            expected[pair, ..., power],
                            (places[part, first], places[part, second]),
                            weight * values**power,
                        )
                    pair += 1
        np.testing.assert_allclose(weak.arrays[f"{name}pairs"], expected, atol=1e-8)
        np.testing.assert_allclose(weak.arrays[f"{name}singles"][1], expected[0].sum(axis=0), atol=1e-8)


def welch(part: Floats, rest: Floats) -> float:
    """Return Welch's statistic of two (3,) sums; 0 if either part is too small."""
    if min(part[0], rest[0]) < 25.0:
        return 0.0
    error = part[2] / part[0] ** 2 + rest[2] / rest[0] ** 2
    return float((part[1] / part[0] - rest[1] / rest[0]) / error**0.5)


def intervals(used: int, category: bool) -> list[slice]:
    if category:
        return [slice(bin_, bin_ + 1) for bin_ in range(used + 1)]
    values = range(1, used + 2)
    return [slice(0, 1)] + [slice(low, high + 1) for low in values for high in values if 0 <= high - low < used]


def test_the_best_boxes_are_those_of_an_exhaustive_search() -> None:
    inputs, losses, _ = planted(2, 3 * BLOCK, 1.0)
    weak = Stream(inputs, losses).go(3 * BLOCK).weak
    used, categories = weak.arrays["used"], np.array(KINDS) > 0
    cells, chosen = weak.arrays["past_pairs"], np.array(weak.chosen)
    scores, boxes, looked = lattice.best_boxes(cells, chosen, used, categories)
    every, pair = 0, 0
    for second in range(len(chosen)):
        for first in range(second):
            best, own = (0.0, None), cells[pair]
            whole = own.sum(axis=(0, 1))
            for of_row in intervals(used[chosen[first]], categories[chosen[first]]):
                row = own[of_row].sum(axis=(0, 1))
                for of_column in intervals(used[chosen[second]], categories[chosen[second]]):
                    part, column = own[of_row, of_column].sum(axis=(0, 1)), own[:, of_column].sum(axis=(0, 1))
                    if row[0] < 25.0 or not max(25.0, 0.01 * whole[0]) <= part[0] <= 0.5 * whole[0]:
                        continue
                    every += 1
                    found = min(welch(part, other - part) for other in (whole, row, column))
                    if found > best[0] + 1e-9:
                        best = found, (of_row.start, of_row.stop - 1, of_column.start, of_column.stop - 1)
            assert scores[pair] == pytest.approx(best[0], abs=1e-8)
            if best[1] is not None:
                assert tuple(boxes[pair, [1, 2, 4, 5]].tolist()) == best[1]
            pair += 1
    assert looked == every > 1_000
    single, _, _ = lattice.best_intervals(weak.arrays["past_singles"], used, categories)
    for slot in range(5):
        own = weak.arrays["past_singles"][slot]
        whole = own.sum(axis=0)
        parts = [own[one].sum(axis=0) for one in intervals(used[slot], categories[slot])]
        fits = [part for part in parts if max(25.0, 0.01 * whole[0]) <= part[0] <= 0.5 * whole[0]]
        assert single[slot] == pytest.approx(max(0.0, *(welch(part, whole - part) for part in fits)), abs=1e-8)


def test_kernels_have_python_forms_with_the_same_bits() -> None:
    inputs, losses, _ = planted(3, 4 * BLOCK, 1.0)
    weak = Stream(inputs, losses).go(4 * BLOCK - 900).weak
    arrays, categories = weak.arrays, np.array(KINDS) > 0
    chosen = np.array(weak.chosen)
    found = []
    for form in (lambda kernel: kernel, lambda kernel: kernel.py_func):
        singles, pairs, common, whole, importance = (
            arrays[name].copy() for name in ("singles", "pairs", "common", "whole", "importance")
        )
        part = slice(3_100, 3_300)
        form(lattice.add_rows)(
            inputs[part], losses[part], inputs[part], arrays["cuts"], arrays["used"], categories, chosen,
            arrays["candidates"], np.empty(5, np.int64), np.empty((5, lattice.BINS), np.uint64),
            singles, pairs, common, whole, importance,
        )  # fmt: skip
        tested, apart = arrays["tested"][-1].copy(), arrays["apart"][-1].copy()
        form(lattice.tally)(arrays["candidates"][-1], tested, common[-1], apart, chosen, singles, pairs, whole)
        best = form(lattice.best_intervals)(arrays["past_singles"], arrays["used"], categories)
        found.append([singles, pairs, common, whole, importance, tested, apart, *best])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_of_a_candidate_outside_another_are_compared_with_the_rows_outside_both() -> None:
    inputs, losses, _ = planted(14, 5 * BLOCK, 1.0)
    weak = Stream(inputs, losses).go(5 * BLOCK).weak
    cohort, (first_row, _) = 0, weak.cohorts[0]
    boxes = [box for box in weak.arrays["candidates"][cohort].tolist() if box[0] >= 0]
    assert len(boxes) == lattice.CANDIDATES and COHORTS * lattice.CANDIDATES <= 64  # bits of a word
    clipped = np.minimum(losses, weak.arrays["limits"][1])
    missing = np.zeros(len(NAMES), np.bool_)
    inside = []
    for box in boxes:
        path = [*weak._questions(*box[:3]), *(weak._questions(*box[3:]) if box[3] >= 0 else ())]
        inside.append(holds(conditions_of(tuple(path), NAMES, KINDS, TEXTS, missing), inputs))
    for i in range(len(boxes)):
        for j in range(len(boxes)):
            expected = np.zeros(lattice.SUMS)
            for begin in range(first_row, 5 * BLOCK, BLOCK) if i != j else ():
                rows = np.arange(len(losses)) // BLOCK == begin // BLOCK
                part, others = clipped[rows & inside[i] & ~inside[j]], clipped[rows & ~inside[i] & ~inside[j]]
                if len(part) and len(others) > 1:
                    excess, error = part - others.mean(), others.var(ddof=1) / len(others)
                    sums = len(part), len(others), part.sum(), excess.sum(), (excess**2).sum(), len(part) ** 2 * error
                    expected += np.array(sums)
            np.testing.assert_allclose(weak.arrays["apart"][cohort, i, j], expected, rtol=1e-9, atol=1e-7)


def test_a_feature_that_depends_on_the_weak_one_is_not_named() -> None:
    named = 0
    for seed in range(3):
        draws = np.random.default_rng(seed)
        inputs = inputs_of(draws, 10 * BLOCK)
        inputs[:, 4] = inputs[:, 0] + 0.7 * draws.normal(size=len(inputs))
        inputs[np.isnan(inputs[:, 0]), 0] = 0.0
        losses = draws.exponential(size=len(inputs)) * (1.0 + 1.5 * (inputs[:, 0] >= 0.8))
        for record in Stream(inputs, losses).go(len(inputs)).records[COHORTS:]:
            assert [one.feature for one in record.segments[0].conditions][:1] == ["a"]
            named += sum(one.feature == "noise" for weak in record.segments for one in weak.conditions)
    assert named <= 1


def test_the_numbers_of_a_segment_are_those_of_the_rows_after_its_choice() -> None:
    inputs, losses, _ = planted(4, 9 * BLOCK, 1.5)
    stream = Stream(inputs, losses).go(9 * BLOCK)
    record = stream.records[-1]
    assert (record.row, record.rows) == (9 * BLOCK - 1, COHORTS * BLOCK)
    newest = slice(record.row + 1 - record.rows, record.row + 1)
    clipped = np.minimum(losses[newest], stream.weak.arrays["limits"][1])
    assert record.loss == pytest.approx(clipped.mean())
    assert record.segments
    for weak in record.segments:
        inside = holds(weak.conditions, inputs[newest])
        assert weak.share == inside.mean() and weak.loss == pytest.approx(clipped[inside].mean())
        blocks = [slice(begin, begin + BLOCK) for begin in range(0, record.rows, BLOCK)]
        counts = np.array([inside[block].sum() for block in blocks])
        others = [clipped[block][~inside[block]] for block in blocks]
        outside = (counts * [other.mean() for other in others]).sum() / counts.sum()
        assert weak.outside == pytest.approx(outside)
        assert weak.low < weak.loss - weak.outside < weak.high
        assert weak.low + weak.high == pytest.approx(2.0 * (weak.loss - weak.outside))
        errors = (counts**2 * [other.var(ddof=1) / len(other) for other in others]).sum() / counts.sum() ** 2
        excess = np.concatenate([clipped[b][inside[b]] - o.mean() for b, o in zip(blocks, others, strict=True)])
        error = (excess.var(ddof=1) / len(excess) + errors) ** 0.5
        assert 2.7 < (weak.high - weak.low) / 2.0 / error < 2.95  # 0.05 / 20, Student's t


@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (6, 7, 8))])
def test_a_planted_box_is_named_with_its_share_and_rise_once_and_lastingly(seed: int) -> None:
    inputs, losses, inside = planted(seed, 12 * BLOCK, 1.5)
    records = Stream(inputs, losses).go(12 * BLOCK).records
    overlaps = []
    for record in records[COHORTS:]:
        assert [len(weak.conditions) for weak in record.segments][:1] == [2], record
        weak = record.segments[0]
        assert {one.feature for one in weak.conditions} == {"a", "text"}
        newest = slice(record.row + 1 - record.rows, record.row + 1)
        named = holds(weak.conditions, inputs[newest])
        within = inside[newest]
        overlaps.append((within[named].mean(), named[within].mean()))
        rise = 1.5 * (within[named].mean() - within[~named].mean())
        assert weak.low < rise < weak.high + 0.2  # of exponential losses, those beyond the limit do not count
        features = [one.feature for weak in record.segments for one in weak.conditions]
        assert len(set(features)) == len(features)
    assert records[-1].segments[0].since < 5 * BLOCK
    assert np.min(overlaps) > 0.5 and (np.median(overlaps, axis=0) > 0.75).all()


def test_a_pair_is_named_only_if_it_says_more_than_its_features() -> None:
    draws = np.random.default_rng(7)
    inputs = inputs_of(draws, 10 * BLOCK)
    losses = draws.exponential(size=len(inputs)) * (1.0 + (inputs[:, 1] >= 0.75))
    for record in Stream(inputs, losses).go(len(inputs)).records[COHORTS:]:
        (weak,) = record.segments
        assert {one.feature for one in weak.conditions} == {"b"} and 0.2 < weak.share < 0.36


TAILS = {
    "zero_one": lambda draws, rows: (draws.random(rows) < 0.1).astype(np.float64),
    "squared": lambda draws, rows: draws.normal(size=rows) ** 2,
    "heavy": lambda draws, rows: draws.standard_t(2.0, rows) ** 2,
}


@pytest.mark.parametrize("tail", TAILS)
def test_a_loss_that_does_not_depend_on_the_features_names_few_segments(tail: str) -> None:
    """Also if it rises and falls for all rows, and features move at the same time."""
    named = total = 0
    for seed in range(4):
        draws = np.random.default_rng(seed)
        rows = 9 * BLOCK
        inputs = inputs_of(draws, rows)
        level = 1.0 + (np.arange(rows) // 2_000) % 2
        inputs[:, 0] += level
        records = Stream(inputs, TAILS[tail](draws, rows) * level).go(rows).records
        assert all(record.tested >= 5 and record.looked > 1_000 for record in records)
        named += sum(bool(record.segments) for record in records)
        total += len(records)
    assert total == 28 and named <= 3


def test_rows_that_resemble_their_neighbours_need_more_evidence() -> None:
    inputs, losses, _ = planted(8, 5 * BLOCK, 1.5)
    wide = Stream(inputs, losses)
    wide.watch.series.arrays["level_block"][0] = 4
    narrow, wide = Stream(inputs, losses).go(5 * BLOCK), wide.go(5 * BLOCK)
    one, other = (stream.records[-1].segments[0] for stream in (narrow, wide))
    assert one.conditions == other.conditions
    assert 2.0 < (other.high - other.low) / (one.high - one.low) < 2.1


def test_cuts_and_successors_change_nothing() -> None:
    inputs, losses, _ = planted(9, 8 * BLOCK, 1.0)
    whole = Stream(inputs, losses).go(8 * BLOCK)
    cut = Stream(inputs, losses)
    draws = np.random.default_rng(0)
    while cut.row < 8 * BLOCK:
        cut.go(min(8 * BLOCK, cut.row + int(draws.integers(1, 700))), most=int(draws.integers(1, 300)))
        frame = frames.decode(frames.encode("state", 1, *cut.weak.state()), "state", 1)
        cut.weak = WeakSegments("s", 0, 0.05)
        cut.weak.restore(frame.meta, frame.arrays, cut.row - 1, list(zip(NAMES, KINDS, strict=True)), TEXTS)
    assert cut.records == whole.records and len(whole.records) == 6
    assert frames.encode("state", 1, *cut.weak.state()) == frames.encode("state", 1, *whole.weak.state())


def test_features_that_come_late_or_have_no_values_are_no_obstacle() -> None:
    inputs, losses, _ = planted(10, 4 * BLOCK, 1.0)
    inputs[:, 1], inputs[:, 3] = np.nan, 1.0
    stream = Stream(inputs, losses)
    stream.weak.widen(NAMES[:2], KINDS[:2])
    stream.weak.add(inputs[:70, :2], losses[:70], None)
    stream.row = 70
    records = stream.go(4 * BLOCK).records
    assert [record.row for record in records] == [3 * BLOCK - 1, 4 * BLOCK - 1]


def test_bins_that_the_watch_makes_anew_start_their_cells_over() -> None:
    inputs, losses, _ = planted(11, 8 * BLOCK, 1.5)
    stream = Stream(inputs, losses).go(6 * BLOCK)
    assert stream.records[-1].segments[0].conditions[0].feature == "a"
    stream.watch.series.arrays["edges"][1] += 0.01
    stream.go(7 * BLOCK)
    weak = stream.weak
    assert not weak.arrays["past_singles"][0].any() and weak.arrays["past_singles"][1].any()
    slots = weak.arrays["candidates"][..., [0, 3]][weak.arrays["candidates"][..., 0] >= 0]
    assert len(slots) and not (slots == 0).any()
    assert all(one.feature != "a" for weak in stream.go(8 * BLOCK).records[-1].segments for one in weak.conditions)


def _stored() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    inputs, losses, _ = planted(12, 5 * BLOCK + 10, 1.5)
    return Stream(inputs, losses).go(5 * BLOCK + 10).weak.state()


META, ARRAYS = _stored()


def changed(name: str, place: Any, value: float) -> dict[str, np.ndarray]:
    array = ARRAYS[name].copy()
    array[place] = value
    return {name: array}


FORGED: dict[str, tuple[dict[str, Any], dict[str, np.ndarray], str]] = {
    "rows of two": ({}, changed("common", (0, 0, 0), 11.0), "rows of two candidates"),
    "rows outside others": ({}, changed("apart", (0, 0, 1, 0), 9e9), "rows of candidates"),
    "numbers of rows": ({}, changed("past_singles", (0, 1, 0), -1.0), "numbers of rows"),
    "rows of the block": ({}, changed("whole", 0, 1_000.0), "rows of a block"),
    "parts of rows": ({}, changed("whole", 0, 0.5), "rows of a block"),
    "rows of features": ({}, changed("singles", (0, 1, 0), 7.0), "rows of each feature"),
    "squares": ({}, changed("past_pairs", (0, 1, 1, 2), -1.0), "squares"),
    "sums": ({}, changed("past_pairs", (0, 1, 1, 1), 1e200), "sums"),
    "rows of candidates": ({}, changed("tested", (0, 0, 0, 0), 9e9), "rows of candidates"),
    "sums of candidates": ({}, changed("tested", (0, 0, 0, 3), 1e200), "sums"),
    "rows of cohorts": ({}, changed("totals", (0, 0), 999.0), "whole blocks"),
    "bins without edges": ({}, changed("edged", 0, -1), "bins with edges"),
    "cuts out of order": ({}, changed("cuts", (0, 0), 1e9), "ascending"),
    "categories": ({}, changed("cuts", (2, 0), -3.0), "categories"),
    "slot of a candidate": ({}, changed("candidates", (0, 0, 0), 99), "intervals"),
    "bins of a candidate": ({}, changed("candidates", (0, 0, 2), 99), "intervals"),
    "bins of what was named": ({}, changed("named", (0, 2), 99), "intervals"),
    "nothing was named": ({}, changed("named", (0, 0), -1), "intervals"),
    "limits": ({}, changed("limits", 0, 1e9), "limit"),
    "features in pairs": ({"chosen": [0, 1, 2, 4, 3]}, {}, "features in pairs"),
    "pairs": ({"chosen": [0, 1]}, {}, "pairs"),
    "since": ({"since": [10**9 for _ in META["since"]]}, {}, "rows up to"),
    "cohorts": ({"cohorts": META["cohorts"][1:]}, {}, "candidates"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_state_is_refused(what: str) -> None:
    meta, arrays, field = FORGED[what]
    features = list(zip(NAMES, KINDS, strict=True))
    WeakSegments("s", 0, 0.05).restore(META, ARRAYS, 5 * BLOCK + 9, features, TEXTS)
    with pytest.raises(FrameError, match=field):
        WeakSegments("s", 0, 0.05).restore({**META, **meta}, {**ARRAYS, **arrays}, 5 * BLOCK + 9, features, TEXTS)


def test_a_segment_without_conditions_is_never_named() -> None:
    inputs, losses, _ = planted(13, 8 * BLOCK, 1.0)
    records = Stream(inputs, losses).go(8 * BLOCK).records
    segments: list[WeakSegment] = [one for record in records for one in record.segments]
    assert segments and all(one.conditions and 0.0 < one.share <= 0.6 and one.low > 0.0 for one in segments)
