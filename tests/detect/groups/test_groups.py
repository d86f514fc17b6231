"""Laws of groups: sums do not depend on how rows come, and rates and differences are those of their definitions."""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.base.errors import FrameError, SettingsError
from glasstream.detect.groups.measures import Measures
from glasstream.detect.groups.settings import GroupSettings
from glasstream.detect.groups.sums import CLASSES, CODES, FIRST, Rows, Sums
from tests.support.examples import examples
from tests.support.fairness import by_definition


def rows_of(seed: int, count: int, attributes: int = 2, classes: int = 3) -> Rows:
    source = np.random.default_rng(seed)
    predicted, actual = source.integers(0, classes, (2, count))
    return Rows(
        source.integers(0, FIRST + 3, (count, attributes)).astype(np.uint8),
        predicted,
        actual,
        (predicted == actual).astype(float),
        source.exponential(size=count) * 10.0 ** source.integers(-9, 9, count),
    )


def sums_of(rows: Rows, cuts: Sequence[int] = ()) -> Sums:
    sums = Sums(rows.codes.shape[1])
    ends = sorted({0, *cuts, len(rows.losses)})
    for begin, end in pairwise(ends):
        sums.add(Rows(*(column[begin:end] for column in rows)))  # type: ignore[arg-type]
    return sums


@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 200)))
@examples(20)
def test_how_rows_are_divided_changes_no_bit(seed: int, cuts: list[int]) -> None:
    rows = rows_of(seed, 200)
    whole, parts = sums_of(rows), sums_of(rows, cuts)
    assert all(whole.arrays[name].tobytes() == array.tobytes() for name, array in parts.arrays.items())
    one_by_one = np.zeros((2, CODES))
    for codes, loss in zip(rows.codes, rows.losses, strict=True):
        one_by_one[[0, 1], codes] += loss
    assert one_by_one.tobytes() == whole.arrays["losses"].tobytes()


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_rates_and_differences_are_those_of_fairlearns_definitions(seed: int, classes: int) -> None:
    rows = rows_of(seed, 400, 1, classes)
    summary = Measures(0.95, 1).summary(sums_of(rows), 0, ["a", "b", "c"], classes)
    values = rows.codes[:, 0]
    known = values >= FIRST
    expected = by_definition(rows.actual[known], rows.predicted[known], values[known], classes)
    groups = [group for group in summary.groups if group.kind == "value"]
    for group, of_group in zip(groups, expected.groups, strict=True):
        for name in ("selection_rate", "true_positive_rate", "false_positive_rate"):
            assert [rate.value for rate in getattr(group, name)] == pytest.approx(of_group[name], abs=1e-12)
        assert group.accuracy is not None and group.accuracy.value == pytest.approx(of_group["accuracy"], abs=1e-12)
    found = [(one.demographic_parity, one.equalized_odds) for one in summary.differences]
    assert [*chain(*found)] == pytest.approx([*chain(*expected.differences)], abs=1e-12)
    assert summary.demographic_parity_difference == max(one for one, _ in found if one is not None)
    assert summary.equalized_odds_difference == max(one for _, one in found if one is not None)
    losses = [rows.losses[values == code].mean() for code in range(FIRST, FIRST + 3)]
    assert [group.loss.value for group in groups] == pytest.approx(losses)
    assert summary.loss_difference == pytest.approx(max(losses) - min(losses))


def test_small_groups_other_values_and_missing_ones_are_counted_and_not_compared() -> None:
    codes = np.array([[FIRST]] * 40 + [[FIRST + 1]] * 29 + [[0]] * 50 + [[1]] * 50, np.uint8)
    count = len(codes)
    predicted, actual = np.zeros(count, np.int64), np.arange(count) % 2
    rows = Rows(codes, predicted, actual, (predicted == actual).astype(float), np.ones(count))
    summary = Measures(0.95, 30).summary(sums_of(rows), 0, ["big", "small"], 2)
    assert [(group.kind, group.value, group.loss.of) for group in summary.groups] == [
        ("value", "big", 40), ("value", "small", 29), ("other", None, 50), ("missing", None, 50),
    ]  # fmt: skip
    big, small, other, missing = summary.groups
    assert small.loss.value is small.selection_rate[0].value is small.selection_rate[0].low is None
    assert [rate.of for rate in big.true_positive_rate] == [20, 20] and big.true_positive_rate[0].value is None
    assert other.accuracy is not None and missing.accuracy is not None and missing.accuracy.value == 0.5
    assert summary.demographic_parity_difference is summary.equalized_odds_difference is None
    assert summary.loss_difference is None and [one.demographic_parity for one in summary.differences] == [None, None]


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_an_interval_has_the_rates_that_its_count_does_not_contradict(level: float) -> None:
    """Wilson: at each end, the count lies z standard deviations from what the rate at that end promises."""
    measures = Measures(level, 1)
    for of in (1, 7, 200):
        for count in range(0, of + 1, max(1, of // 7)):
            rate = measures.rate(count, of)
            assert rate.low is not None and rate.high is not None and rate.value is not None
            assert 0.0 <= rate.low <= rate.value <= rate.high <= 1.0
            opposite = measures.rate(of - count, of)
            assert (opposite.low, opposite.high) == pytest.approx((1 - rate.high, 1 - rate.low))
            for end in (rate.low, rate.high):
                if 0.0 < end < 1.0:
                    distance = abs(count - of * end) / np.sqrt(of * end * (1 - end))
                    assert distance == pytest.approx({0.8: 1.2815515655, 0.95: 1.9599639845, 0.99: 2.5758293035}[level])


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    values = np.random.default_rng(1).exponential(size=50)
    mean = Measures(0.95, 30).mean(values.sum(), np.square(values).sum(), 50)
    reach = 1.959963984540054 * values.std(ddof=1) / np.sqrt(50)
    assert (mean.value, mean.low, mean.high) == pytest.approx(
        (values.mean(), values.mean() - reach, values.mean() + reach)
    )


@pytest.mark.parametrize(
    ("name", "place", "value", "expected"),
    [
        ("rows", (0, FIRST), -1, "whole numbers from 0"),
        ("rows", (0, FIRST), 7, "rows of each attribute"),
        ("predicted", (0, FIRST, 0), 10**6, "a class for each row"),
        ("hits", (0, FIRST, 0), 10**6, "right predictions among"),
        ("hits", (0, FIRST, CLASSES), 1, "right predictions among"),
        ("losses", (0, FIRST), np.nan, "numbers from 0"),
        ("losses", (0, CODES - 1), 1.0, "losses of rows only"),
        ("losses_squared", (0, CODES - 1), 1.0, "losses of rows only"),
        ("scores", (1, CODES - 1), 1.0, "scores of rows only"),
        ("scores_squared", (1, CODES - 1), 1.0, "scores of rows only"),
        ("scores", (0, FIRST), -1.0, "numbers from 0"),
    ],
)
def test_forged_sums_are_refused(name: str, place: Any, value: float, expected: str) -> None:
    sums = sums_of(rows_of(1, 100))
    Sums(2).restore(sums.arrays, 100)
    forged = {**sums.arrays, name: sums.arrays[name].copy()}
    forged[name][place] = value
    with pytest.raises(FrameError, match=expected):
        Sums(2).restore(forged, 100)


def test_wrong_predictions_of_rows_that_all_have_the_class_are_refused() -> None:
    rows = rows_of(1, 100, classes=1)
    sums = sums_of(rows)
    forged = {**sums.arrays, "hits": sums.arrays["hits"] // 2}
    with pytest.raises(FrameError, match="wrong predictions of a class among the rows of other classes"):
        Sums(2).restore(forged, 100)


def test_names_of_attributes_may_have_spaces_around_them() -> None:
    assert GroupSettings(by="sex, home region").attributes == ("sex", "home region")


@pytest.mark.parametrize("by", ["", "a, ", "a, a", ",".join("abcdefghi")])
def test_names_of_attributes_are_checked(by: str) -> None:
    with pytest.raises(SettingsError, match=r"groups.by: expected 1 to 8 different names"):
        GroupSettings(by=by)
