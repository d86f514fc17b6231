"""Laws of the alarms of groups: claims are seldom false, name what changed, and do not depend on how rows come."""

import csv
import gzip
from collections.abc import Iterator
from itertools import pairwise, product
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln, xlog1py, xlogy  # type: ignore[import-untyped]
from scipy.stats import binom  # type: ignore[import-untyped]

from glasstream.base.errors import FrameError
from glasstream.detect.groups.alarms import log_evidence
from glasstream.detect.groups.marks import OLDEST, RUN, WARM_UP, Marks, compared
from glasstream.detect.groups.sums import FIRST, Sums
from glasstream.flow.learner.groups import GroupRecords, GroupState, LabelledColumns
from glasstream_topics.groups import Alarm, Groups, decode
from tests.support.examples import examples
from tests.support.learner import settings

COUNTS = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def products(cells: Any, rates: Any) -> Any:
    """Logarithm of the product of m over cells, by its definition."""
    s, n = np.array(cells, np.float64).T
    return (betaln(s + 0.5, n - s + 0.5) - log(np.pi) - xlogy(s, rates) - xlog1py(n - s, -rates)).sum(axis=-1)


@given(cells=st.lists(COUNTS, min_size=4, max_size=4), seed=st.integers(0, 10**6))
@examples(30)
def test_the_evidence_is_the_smallest_product_of_all_rates_that_contradict_the_claim(cells: Any, seed: int) -> None:
    source = np.random.default_rng(seed)
    s, n = np.array(cells, np.float64).T
    found = float(log_evidence(s[None], n[None], -np.inf)[0])
    rates = source.random((4000, 4)) ** source.choice([0.2, 1.0, 5.0], (4000, 1))
    rates[2000:] = np.clip(s / n + source.normal(size=(2000, 4)) * source.choice([0.03, 0.2], (2000, 1)), 0, 1)
    contradict = rates[rates.sum(axis=1) <= 2.0]
    with np.errstate(divide="ignore"):
        smallest = products(cells, contradict).min(initial=np.inf)
    assert found <= smallest + 1e-9


@given(first=COUNTS, second=COUNTS)
@examples(30)
def test_the_evidence_of_two_cells_is_that_at_the_rate_of_all_rows(first: Any, second: Any) -> None:
    (s, n), (t, m) = first, second
    cells = [(s, n), (m - t, m)]  # the claim: the first rate is above the second
    found = float(log_evidence(*np.array(cells, np.float64).T[:, None], -np.inf)[0])  # type: ignore[misc]
    rate = (s + t) / (n + m) if s / n > t / m else np.array([s / n, t / m])
    either = np.array([rate, 1 - rate]) if s / n > t / m else np.array([rate[0], 1 - rate[1]])  # type: ignore[index]
    assert found == pytest.approx(products(cells, either), abs=1e-9)


@pytest.mark.parametrize("sizes", [(5, 9), (2, 3, 3, 2)])
@pytest.mark.parametrize("rates", [(0.5, 0.5, 0.5, 0.5), (0.1, 0.9, 0.3, 0.7), (0.2, 0.3, 0.6, 0.1)])
def test_the_evidence_of_what_is_not_true_is_at_most_one_on_average(sizes: Any, rates: Any) -> None:
    """Over all outcomes of rows with these rates, whose sum is at most half their number."""
    outcomes = np.array([*product(*(range(n + 1) for n in sizes))], np.float64)
    evidence = log_evidence(outcomes, np.broadcast_to(np.array(sizes, np.float64), outcomes.shape), -np.inf)
    chance = np.prod([binom.pmf(outcomes[:, k], n, rates[k]) for k, n in enumerate(sizes)], axis=0)
    assert (chance * np.exp(evidence)).sum() <= 1.0 + 1e-12


def test_the_marks_that_are_compared_are_kept_and_few() -> None:
    marks, counts = Marks(1), np.zeros((1, 1, 2), np.int64)
    for run in range(1500):
        marks.mark(WARM_UP + run * RUN, run, counts)
        pairs = [(marks.kept[first], marks.kept[place]) for first, place in zip(*compared(marks.kept), strict=True)]
        assert len(marks.kept) <= 25 and len(pairs) >= min(run, 5)
        for first, mark in pairs:
            assert first.run < mark.run and run - mark.run <= OLDEST and mark.row - first.row <= 25_600
            assert first.run == 0 or mark.row - first.row >= 12_800
        ages = [run - mark.run for _, mark in pairs]
        assert all(older <= 2 * age + 4 for older, age in pairwise(ages))
    saved = marks.saved(1, 0)
    again, sums = Marks(1), Sums(1)
    again.restore(saved, 0.0, WARM_UP + run * RUN, run, sums, 1, 0)
    assert [(mark.run, mark.seq) for mark in again.kept] == [(mark.run, mark.seq) for mark in marks.kept]


def stream(source: np.random.Generator, rows: int, at: int, **changed: float) -> tuple[Any, Any, Any]:
    """Return groups, labels and predictions. Some rates of the group f change at a row: right (accuracy), and high."""
    since = np.arange(rows) >= at
    women, actual = source.random(rows) < 0.4, source.random(rows) < 0.3
    right = np.where(women & since, changed.get("right", 0.85), np.where(since, changed.get("others", 0.85), 0.85))
    predicted = actual == (source.random(rows) < right)
    high = women & since & (source.random(rows) < changed.get("high", 0.0))
    return np.where(women, "f", "m"), actual, predicted | high


def records(groups: Any, actual: Any, predicted: Any, *given: str, size: int = 128) -> list[bytes]:
    """Return the records of rows that come in calls of this size; the state is saved and restored between some."""
    of = settings("groups.by=sex", "groups.every=250", *given)
    state, made, found = GroupState(of.groups), GroupRecords(of, "s"), list[bytes]()
    known: dict[str, int] = {}
    codes = [bytes([known.setdefault(one, FIRST + len(known))]) for one in groups.tolist()]
    state.codes = [known]
    regression = predicted.dtype == np.float64
    targets, answers = (
        one.tolist() if regression else [">50K" if yes else "<=50K" for yes in one] for one in (actual, predicted)
    )
    for begin in range(0, len(codes), size):
        rows = slice(begin, begin + size)
        labelled = LabelledColumns()
        labelled.extend(range(len(codes))[rows], codes[rows], answers[rows], targets[rows], [0.5] * len(codes[rows]))
        found += made.add(labelled, state, "absolute" if regression else "brier")
        if begin % 1024 == 0:
            saved, arrays = state.saved()
            state = GroupState(of.groups)
            state.restore(saved, arrays, len(codes))
    return found


def alarms(found: list[bytes]) -> Iterator[tuple[Groups, Alarm]]:
    return ((record, alarm) for record in map(decode, found) for alarm in record.alarms)


def test_a_group_whose_accuracy_falls_is_named_with_the_row() -> None:
    rows = stream(np.random.default_rng(1), 6500, 4000, right=0.6)
    found = [*alarms(records(*rows))]
    of_accuracy = [(record, alarm) for record, alarm in found if alarm.measure == "accuracy"]
    assert {(*alarm.groups,) for _, alarm in of_accuracy} == {("f",)}
    first, alarm = of_accuracy[0]
    assert 4000 < first.total.rows <= 5000 and abs(alarm.row - 4000) <= 500 and alarm.seq == alarm.row - 1
    groups, actual, predicted = rows
    before, since = slice(WARM_UP, alarm.row), slice(alarm.row, first.total.rows)
    for part, value in ((before, alarm.before), (since, alarm.after)):
        assert value == pytest.approx((actual == predicted)[part][groups[part] == "f"].mean(), abs=1e-12)
    values, odds = f"{alarm.before:.3f} to {alarm.after:.3f}", f"{10**alarm.evidence:,.0f} to 1"
    assert alarm.text == f"accuracy of sex = 'f' fell from {values} since row {alarm.row:,} (evidence {odds})"
    assert 10**alarm.evidence >= 1000 / 0.5 * 3 * 2  # marks in 100,000 rows, budget, three measures, two groups


def test_a_difference_that_grows_is_named_with_class_rate_and_both_groups() -> None:
    groups, actual, predicted = stream(np.random.default_rng(2), 7000, 4000, high=0.5)
    found = {alarm.measure: (record, alarm) for record, alarm in alarms(records(groups, actual, predicted))}
    record, parity = found["demographic_parity_difference"]
    assert (parity.groups, parity.positive, parity.rate) in (
        (["f", "m"], ">50K", "selection_rate"),
        (["m", "f"], "<=50K", "selection_rate"),
    )
    said = predicted == (parity.positive == ">50K")
    before, since = slice(WARM_UP, parity.row), slice(parity.row, record.total.rows)
    for part, value in ((before, parity.before), (since, parity.after)):
        rates = [said[part][groups[part] == one].mean() for one in "fm"]
        assert value == pytest.approx(abs(rates[0] - rates[1]), abs=1e-12)
    _, odds = found["equalized_odds_difference"]
    assert odds.rate in ("true_positive_rate", "false_positive_rate") and {*odds.groups} == {"f", "m"}
    assert f"equalized odds difference of sex rose from {odds.before:.3f} to {odds.after:.3f}" in odds.text


def test_a_change_of_all_groups_alike_raises_no_difference() -> None:
    rows = stream(np.random.default_rng(3), 9000, 4000, right=0.7, others=0.7)
    found = [alarm for _, alarm in alarms(records(*rows))]
    assert {(alarm.measure, *alarm.groups) for alarm in found} == {("accuracy", "f"), ("accuracy", "m")}


def test_what_gets_better_raises_nothing() -> None:
    assert not [*alarms(records(*stream(np.random.default_rng(4), 8000, 4000, right=0.97)))]


def test_large_errors_of_a_group_of_a_regression_are_found() -> None:
    source = np.random.default_rng(5)
    errors, women = source.standard_normal(7000), source.random(7000) < 0.4
    errors[women & (np.arange(7000) >= 3500)] *= 2.0
    groups, actual = np.where(women, "f", "m"), source.normal(size=7000)
    found = [*alarms(records(groups, actual, actual + errors))]
    assert {(alarm.measure, *alarm.groups) for _, alarm in found} == {("large_errors", "f")}
    assert found[0][0].total.rows <= 4500 and 0.1 < found[0][1].before < 0.35


@pytest.mark.parametrize("regression", [False, True])
def test_how_rows_are_divided_changes_no_byte(regression: bool) -> None:
    rows = stream(np.random.default_rng(6), 3000, 1500, right=0.5)
    if regression:
        rows = rows[0], rows[1] * 1.0, rows[2] * np.random.default_rng(7).exponential(size=3000)
    whole = records(*rows)
    assert regression or [*alarms(whole)]
    assert records(*rows, size=1024) == records(*rows, size=7) == whole


@pytest.mark.slow
def test_alarms_about_shuffled_rows_stay_within_their_budget(data_dir: Path) -> None:
    """A fixed rule predicts the income of shuffled people. Nothing changes, so every claim is false."""
    with gzip.open(data_dir / "adult.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    groups = np.array([row["race"] for row in rows])
    actual = np.array([row["target"].strip(". ").startswith(">") for row in rows])
    said = np.array([float(row["education-num"]) > 12 and row["relationship"] in ("Husband", "Wife") for row in rows])
    order = np.random.default_rng(1).permutation(len(rows))
    found = records(groups[order], actual[order], said[order], "groups.budget=100", size=2000)
    assert len({alarm.row for _, alarm in alarms(found)}) <= 100 * len(rows) / 100_000


@pytest.mark.parametrize(
    ("name", "place", "value", "expected"),
    [
        ("counts", (0, 0, 0, 0), -1, "whole numbers from 0"),
        ("counts", (-1, 0, 0, 0), 0, "counts that grow"),
        ("counts", (1, 0, 0, 0), 0, "counts that grow"),
        ("counts", (-1, 0, 0, 1), 10**6, "counts that grow"),
        ("counts", (0, 0, 0, 0), 501, "counts of the rows between two marks"),
        ("counts", (0, 0, 0, 4), 0, "counts of the rows between two marks"),
        ("seqs", (0,), 5000, "events in the order"),
        ("large", (0, FIRST), 1, "no limit of classes"),
        ("large", (0, FIRST), 10**4, "large errors among the rows"),
    ],
)
def test_forged_marks_are_refused(name: str, place: Any, value: int, expected: str) -> None:
    of = settings("groups.by=sex")
    state, labelled = GroupState(of.groups), LabelledColumns()
    state.codes = [{"f": FIRST, "m": FIRST + 1}]
    for number in range(1350):
        answers = "ab"[number % 3 == 0], "ab"[number % 2]
        labelled.add(number, bytes([FIRST + number % 2]), *answers, exp(-number))
    assert len([*state.add(labelled, 500)]) == 2
    saved, arrays = state.saved()
    GroupState(of.groups).restore(saved, arrays, 1350)
    forged = {**arrays, f"marks/{name}": arrays[f"marks/{name}"].copy()}
    forged[f"marks/{name}"][place] = value
    with pytest.raises(FrameError, match=expected):
        GroupState(of.groups).restore(saved, forged, 1350)
    for shape in ((slice(1, None),), (slice(None), slice(None), slice(1, None))):
        with pytest.raises(FrameError, match="expected 'counts' as int64"):
            GroupState(of.groups).restore(saved, {**arrays, "marks/counts": arrays["marks/counts"][shape]}, 1350)
