"""Rises of the loss in few rows: found and named, with true numbers, within the budget, however rows are cut."""

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.stats import poisson

from glasstream.base.errors import FrameError
from glasstream.detect.incidents.local import _KNOWN, _MEMORY, LocalRises
from glasstream.detect.incidents.series import Series
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream_topics.incidents import Incident
from glasstream_topics.record import refuse_non_finite
from tests.support.extremes import forged
from tests.support.segment_rows import KINDS, NAMES, TEXTS, Floats, holds, inputs_of

AT = 8_000


def rows_of(inputs: Floats, losses: Floats, texts: Any = TEXTS) -> Rows:
    count = len(losses)
    rows = np.arange(count)
    return Rows(0, rows, [1_000 * row for row in range(count)], NAMES, KINDS, inputs, np.zeros(count), [], losses,
                "squared", None, texts)  # fmt: skip


def stream(seed: int, rows: int, inside: Any, rise: float = 1.5, end: int | None = None) -> tuple[Floats, Floats]:
    """Return inputs and losses, whose mean of 1 rises from row `AT` on in some rows."""
    draws = np.random.default_rng(seed)
    inputs = inputs_of(draws, rows)
    since = (np.arange(rows) >= AT) & (np.arange(rows) < (end or rows))
    return inputs, draws.exponential(size=rows) * (1.0 + rise * (inside(inputs) & since))


def watched(rows: Rows, cuts: list[int] | None = None, learns: bool = False) -> list[Incident]:
    watch = IncidentWatch("s", 0, 1, 0.5, learns=learns)
    ends = [*(cuts or []), len(rows.loss)]
    return [
        one for begin, end in zip([0, *ends], ends, strict=False) for one in watch.update(rows.part(slice(begin, end)))
    ]


BOXES = {
    "an interval": lambda x: (x[:, 1] >= 0.5) & (x[:, 1] < 0.58),
    "an end": lambda x: x[:, 0] >= 1.3,
    "a category": lambda x: x[:, 2] == 3.0,
    "two categories": lambda x: (x[:, 2] == 3.0) | (x[:, 2] == 4.0),
    "missing values": lambda x: np.isnan(x[:, 0]),
}


@pytest.mark.parametrize("box", BOXES)
def test_a_rise_in_few_rows_is_found_and_the_segment_named(box: str) -> None:
    inside = BOXES[box]
    inputs, losses = stream(5, 26_000, inside, rise=2.0)
    first, *_ = watched(rows_of(inputs, losses))
    assert (first.verdict, first.status, first.row >= AT) == ("segment_worse", "open", True)
    assert first.onset.earliest <= AT <= first.onset.latest
    assert first.where is not None
    (segment,) = first.where.segments
    named = holds(segment.conditions, inputs)
    assert (named & inside(inputs)).sum() >= 0.7 * named.sum()
    assert (named & inside(inputs)).sum() >= 0.6 * inside(inputs).sum()
    rows = np.arange(len(losses))
    true = losses[named & (rows >= AT)].mean() - losses[named & (rows < AT)].mean()
    assert segment.low is not None and segment.high is not None and segment.low - 0.2 <= true <= segment.high + 0.2
    assert segment.text in first.summary


def test_intervals_of_the_rise_hold_the_true_one_as_often_as_they_say() -> None:
    hits, widths = [], []
    for seed in range(60):
        inputs, losses = stream(100 + seed, 20_000, BOXES["a category"], rise=2.0)
        for one in watched(rows_of(inputs, losses)):
            if one.status == "open" and one.where is not None and one.where.segments[0].text == "text = t3":
                segment = one.where.segments[0]
                assert segment.low is not None and segment.high is not None
                hits.append(segment.low <= 2.0 <= segment.high)
                widths.append(segment.high - segment.low)
    assert len(hits) >= 40 and np.mean(hits) >= 0.85
    assert np.median(widths) < 1.5, "three quarters of the rise"


def test_a_rise_everywhere_is_no_matter_of_a_segment() -> None:
    inputs, losses = stream(6, 14_000, lambda x: np.ones(len(x), bool), rise=0.6)
    found = watched(rows_of(inputs, losses))
    assert found and "segment_worse" not in {one.verdict for one in found}


def test_a_repaired_fault_is_over_and_a_lasting_one_becomes_normal() -> None:
    inside = BOXES["a category"]
    repaired = watched(rows_of(*stream(7, 40_000, inside, rise=2.0, end=13_000)))
    lasting = watched(rows_of(*stream(7, 40_000, inside, rise=2.0)))
    assert [(one.incident, one.status) for one in repaired] == [(1, "open"), (1, "over")]
    assert [(one.incident, one.status) for one in lasting] == [(1, "open"), (1, "normal")]
    assert repaired[1].row >= 13_000
    actions = [one.advice.action for one in [*repaired, *lasting] if one.advice is not None]
    assert actions == ["retrain", "none", "retrain", "retrain"]


def test_a_model_that_learns_and_recovers_opens_no_incident() -> None:
    inputs, losses = stream(10, 30_000, BOXES["a category"], rise=2.0, end=12_500)
    assert watched(rows_of(inputs, losses))
    assert not watched(rows_of(inputs, losses), learns=True)
    inputs, losses = stream(10, 30_000, BOXES["a category"], rise=2.0)
    assert {one.verdict for one in watched(rows_of(inputs, losses), learns=True)} == {"segment_worse"}


def test_a_category_without_a_name_is_in_no_condition() -> None:
    inputs, losses = stream(9, 24_000, BOXES["a category"], rise=2.0)
    named = {2: {code: name for code, name in TEXTS[2].items() if code != 3}}
    assert watched(rows_of(inputs, losses))
    assert not watched(rows_of(inputs, losses, named))


@pytest.mark.parametrize("seed", range(3))
def test_incidents_do_not_depend_on_how_rows_are_cut_or_on_a_successor(seed: int) -> None:
    draws = np.random.default_rng(seed)
    inside = BOXES[["an end", "a category", "an interval"][seed]]
    rows = rows_of(*stream(10 + seed, 22_000, inside, rise=2.0, end=16_000))
    whole = watched(rows)
    assert {one.verdict for one in whole} >= {"segment_worse"}
    assert watched(rows, np.unique(draws.integers(1, 22_000, 900)).tolist()) == whole
    watch, found = IncidentWatch("s", 0, 1, 0.5, learns=False), []
    ends = [*np.unique(draws.integers(1, 22_000, 25)).tolist(), 22_000]
    for begin, end in zip([0, *ends], ends, strict=False):
        found += watch.update(rows.part(slice(begin, end)))
        successor = IncidentWatch("s", 0, 1, 0.5, learns=False)
        successor.restore(*watch.state(), end - 1)
        watch = successor
    assert found == whole


def test_bins_take_over_at_the_same_row_however_rows_are_cut() -> None:
    """A feature that comes late gets its bins while an alarm is located, which is then dismissed."""
    found = []
    for cuts in ([], list(range(1_000, 20_000, 61))):
        draws = np.random.default_rng(4)
        inputs = inputs_of(draws, 20_000)
        losses = draws.exponential(size=20_000)
        losses[8_000:9_300] *= 1.0 + 2.0 * (inputs[8_000:9_300, 2] == 3.0)  # and is as before then
        inputs[:8_600, 4] = np.nan
        watch = IncidentWatch("s", 0, 1, 0.5, learns=False)
        rows, begin = rows_of(inputs, losses), 0
        first = rows._replace(names=NAMES[:4], kinds=KINDS[:4], inputs=inputs[:, :4])
        alarms = 0
        for end in sorted({*cuts, 8_600, 20_000}):
            list(watch.update((first if end <= 8_600 else rows).part(slice(begin, end))))
            begin = end
            alarms += watch.local.rise is not None
        found.append((watch.local.arrays, alarms))
    (whole, _), (parts, alarms) = found
    assert alarms, "an alarm was under way"
    for name, array in whole.items():
        np.testing.assert_array_equal(array, parts[name], name)


def test_values_without_a_past_are_no_segment() -> None:
    """Missing values that begin after the alarm have no loss before with which theirs could be compared."""
    for seed in range(6):
        draws = np.random.default_rng(seed)
        inputs = inputs_of(draws, 16_000)
        inputs[:, 1] = draws.uniform(size=16_000)
        inputs[np.isnan(inputs[:, 0]), 0] = 0.0
        losses = 1.0 + 0.2 * draws.normal(size=16_000)
        losses[6_000:] += 0.2 * (inputs[6_000:, 0] >= 1.6)
        inputs[9_000:, 1] = np.where(draws.random(7_000) < 0.03, np.nan, inputs[9_000:, 1])
        for one in watched(rows_of(inputs, losses)):
            assert "b is missing" not in one.summary
            assert one.where is None or min(part.loss_before or 1.0 for part in one.where.segments) > 0.5


def test_false_alarms_of_cells_stay_within_the_budget() -> None:
    """Losses with heavy tails that do not depend on the features: a twentieth of the budget for 1,000,000 rows."""
    alarms, rows = 0, 50_000
    for seed in range(20):
        draws = np.random.default_rng(seed)
        inputs, losses = inputs_of(draws, rows), draws.pareto(3.0, rows)
        series, local = Series(50.0), LocalRises()
        series.widen(KINDS)
        series.arrays["edges"][1:, :4], series.arrays["used"][1:] = [-0.5, 0.5, 1.0, 2.0], 4
        local.widen(KINDS)
        local.adopt(series, TEXTS)
        done, events = 0, np.zeros((rows, 2), np.int64)
        while done < rows:
            fed, _ = local.feed(done, inputs[done:], losses[done:], events[done:], series.need_of_cell)
            done += fed
            if local.rise is not None:
                alarms += 1
                local.end()
    expected = 20 * rows / 100_000 * 50.0 * 0.05
    assert alarms <= poisson.ppf(0.999, expected)
    local.feed(rows, inputs[:5_000], 1.0 + losses[:5_000], events[:5_000], series.need_of_cell)
    assert local.rise is not None, "the same bets see a real rise"


def test_the_bets_are_those_of_a_plain_loop() -> None:
    draws = np.random.default_rng(3)
    rows = 3_000
    inputs, losses = inputs_of(draws, rows), draws.exponential(size=rows)
    series, local = Series(0.5), LocalRises()
    series.widen(KINDS)
    edges = [-0.5, 0.5, 1.0, 2.0]
    series.arrays["edges"][1:, :4], series.arrays["used"][1:] = edges, 4
    local.widen(KINDS)
    local.adopt(series, TEXTS)
    local.feed(0, inputs, losses, np.zeros((rows, 2), np.int64), np.inf)
    cuts = [local.arrays["cuts"][slot, : local.arrays["used"][slot]].tolist() for slot in range(len(NAMES))]
    past: dict[tuple[int, int], tuple[float, float, float, float]] = {}
    whole = (0.0, 0.0, 0.0)
    for x, loss in zip(inputs, losses, strict=True):
        count, mean, variance = whole
        if count >= _KNOWN:
            loss = min(loss, mean + 8.0 * variance**0.5)
        for slot, value in enumerate(x):
            cell = 0 if np.isnan(value) else 1 + int(np.searchsorted(cuts[slot], value, "right"))
            if KINDS[slot] and not np.isnan(value):
                cell = 1 + cuts[slot].index(value) if value in cuts[slot] else 1 + len(cuts[slot])
            n, m, v, wealth = past.get((slot, cell), (0.0, 0.0, 0.0, 0.0))
            if n >= _KNOWN:
                own = max(v**0.5, 0.25 * variance**0.5)
                stake = min(0.3, 0.96 * own / m)
                wealth = (wealth + 1.0) * max(0.04, 1.0 + stake * min(8.0, (loss - m) / own))
            share = 1.0 / min(n + 1.0, _MEMORY)
            step = loss - m
            past[slot, cell] = (n + 1.0, m + share * step, (1.0 - share) * (v + share * step * step), wealth)
        share = 1.0 / min(count + 1.0, _MEMORY)
        step = loss - mean
        whole = count + 1.0, mean + share * step, (1.0 - share) * (variance + share * step * step)
    for (slot, cell), numbers in past.items():
        found = [local.arrays[name][slot, cell] for name in ("rows", "mean", "variance", "wealth")]
        assert found == pytest.approx(numbers, rel=1e-9), (slot, cell)
    assert local.arrays["rows"].sum() == sum(numbers[0] for numbers in past.values())


NOWHERE = {"of": "loss", "extent": "segments", "rows_before": 1, "rows_since": 1, "change": 1.0, "segments": []}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"slot": 9}, "features with bins"),
        ({"chosen": [1, 0]}, "features with bins"),
        ({"bin": 17}, "bins up to"),
        ({"box": [2, 1]}, "a box of 6 numbers"),
        ({"box": [2, 3, 1, -1, 0, 0]}, "intervals"),
        ({"box": [9, 1, 1, -1, 0, 0]}, "intervals"),
        ({"box": []}, "a box of an incident"),
        ({"where": None}, "the segment"),
        (
            {
                "where": {
                    "of": "loss",
                    "extent": "segments",
                    "rows_before": 1,
                    "rows_since": 1,
                    "change": 1.0,
                    "segments": [],
                }
            },
            "the segment",
        ),
        ({"rows": 10_001}, "10000"),
    ],
)
def test_a_forged_rise_is_refused(change: dict[str, Any], error: str) -> None:
    inputs, losses = stream(9, 18_000, BOXES["a category"], rise=2.0)
    watch = IncidentWatch("s", 0, 1, 0.5, learns=False)
    (record,) = watch.update(rows_of(inputs, losses))
    meta, arrays = watch.state()
    assert record.verdict == "segment_worse" and meta["local"]["number"] == 1
    meta["local"] |= change
    with pytest.raises(FrameError, match=error):
        IncidentWatch("s", 0, 1, 0.5).restore(meta, arrays, 17_999)


def step_of(watch: IncidentWatch) -> str:
    rise = watch.local.rise
    return "none" if rise is None else "locate" if not rise.box else "open" if rise.number else "confirm"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("step", ["none", "locate", "confirm", "open"])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])  # not a divisor: all numbers come
def test_a_state_with_an_extreme_number_anywhere_is_refused_or_goes_on(step: str, every: int) -> None:
    """It goes on with records that can be written, and with a state that can be resumed."""
    rows = rows_of(*stream(9, 24_000, BOXES["a category"], rise=2.0))
    watch, end = IncidentWatch("s", 0, 1, 0.5, learns=False), 0
    while end < AT or step_of(watch) != step:
        list(watch.update(rows.part(slice(end, end + 100))))
        end += 100
    meta, arrays = watch.state()
    arrays = {name: array.copy() for name, array in arrays.items()}
    outcomes, own = Counter[str](), {name: array for name, array in arrays.items() if name.startswith("local.")}
    for what, damaged in islice(forged(own), 0, None, every):
        watch = IncidentWatch("s", 0, 1, 0.5, learns=False)
        try:
            watch.restore(meta, {**arrays, **damaged}, end - 1)
        except FrameError:
            outcomes["refused"] += 1
            continue
        for one in watch.update(rows.part(slice(end, end + 4_000))):
            refuse_non_finite(what, one)
        IncidentWatch("s", 0, 1, 0.5, learns=False).restore(*watch.state(), end + 3_999)
        outcomes["went on"] += 1
    assert outcomes["refused"] > 100 // every and outcomes["went on"] > 100 // every
