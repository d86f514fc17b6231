"""The drift indicator and its threshold (003, 4.5)."""

from dataclasses import replace

import numpy as np
import pytest

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.distances import embedding_distances
from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.indicator import DriftIndicator, calibrate
from glasstream.detect.gbmap.neighbours import Neighbours
from glasstream.detect.gbmap.settings import PAPER_DRIFT
from tests.support.gbmap_examples import generator, random_map


def plainly(indicator: DriftIndicator, reference: np.ndarray, values: np.ndarray, row: np.ndarray) -> float:
    apart = embedding_distances(indicator.map, np.repeat(row[None], len(reference), axis=0), reference)
    nearest = np.argsort(apart, kind="stable")[:5]
    return float(abs(indicator.map.predict(row[None])[0] - values[nearest].mean()))


@pytest.mark.parametrize("index", [False, True])
def test_in_regression_the_neighbours_say_their_targets(index: bool) -> None:
    map = replace(random_map(6, 3, 1), initial=lambda rows: rows[:, 1])
    reference, rows = generator(2).normal(size=(80, 3)), generator(4).normal(size=(9, 3))
    y = generator(3).normal(size=80)
    indicator = DriftIndicator.of(map, reference, y, index=index)
    expected = [plainly(indicator, reference, y, row) for row in rows]
    assert indicator.indicator(rows) == pytest.approx(expected, rel=1e-12)


def test_in_classification_the_neighbours_say_their_scores() -> None:
    map = random_map(6, 3, 1, loss="logistic")
    reference, rows = generator(2).normal(size=(80, 3)), generator(4).normal(size=(9, 3))
    indicator = DriftIndicator.of(map, reference)
    expected = [plainly(indicator, reference, map.predict(reference), row) for row in rows]
    assert indicator.indicator(rows) == pytest.approx(expected, rel=1e-12)


def test_the_baseline_is_the_euclidean_distance_to_the_fifth_nearest() -> None:
    reference, rows = generator(2).normal(size=(80, 3)), generator(4).normal(size=(9, 3))
    found = DriftIndicator.of(random_map(6, 3, 1), reference, np.zeros(80)).baseline(rows)
    assert found == pytest.approx(np.sort(np.linalg.norm(rows[:, None] - reference, axis=2), axis=1)[:, 4], rel=1e-12)


def test_euclidean_neighbours_of_another_indicator_give_the_same() -> None:
    reference, rows = generator(2).normal(size=(80, 3)), generator(4).normal(size=(9, 3))
    plain = Neighbours.of(reference, "euclidean")
    own, shared = (
        DriftIndicator.of(random_map(6, 3, 1), reference, np.arange(80.0), plain=given) for given in (None, plain)
    )
    assert own.baseline(rows).tobytes() == shared.baseline(rows).tobytes()
    assert own.indicator(rows).tobytes() == shared.indicator(rows).tobytes()


def test_a_row_far_out_stands_out_where_the_target_depends_on_it_and_only_there() -> None:
    draws = generator(5)
    x = draws.normal(size=(600, 4))
    y = np.abs(x[:, 0]) + 0.1 * x[:, 1]  # columns 2 and 3 are of no use
    indicator = DriftIndicator.of(fit_map(x, y, PAPER_DRIFT).map, x, y)
    fresh, used, unused = draws.normal(size=(200, 4)), np.array([1, 0, 0, 0]), np.array([0, 0, 1, 0])
    threshold = calibrate(indicator.indicator(draws.normal(size=(400, 4))), 0.05)
    assert threshold.flags(indicator.indicator(fresh + 8 * used)).mean() > 0.95
    assert threshold.flags(indicator.indicator(fresh - 8 * used)).mean() > 0.95
    assert threshold.flags(indicator.indicator(fresh + 8 * unused)).mean() < 0.5
    usual = calibrate(indicator.baseline(draws.normal(size=(400, 4))), 0.05)
    assert usual.flags(indicator.baseline(fresh + 8 * unused)).mean() > 0.95  # which the baseline cannot tell


def test_a_row_has_the_same_bits_whatever_rows_stand_beside_it() -> None:
    reference, rows = generator(2).normal(size=(80, 3)), generator(4).normal(size=(50, 3))
    indicator = DriftIndicator.of(random_map(6, 3, 1), reference, np.arange(80.0))
    for score in (indicator.indicator, indicator.baseline, indicator.supported):
        assert score(rows[13:29]).tobytes() == score(rows)[13:29].tobytes()


def test_the_stated_rate_is_the_share_of_flags_over_resamplings() -> None:
    """400 calibrations of 199 rows: the mean share is the stated rate, and their spread the stated one."""
    for rate in (0.01, 0.05, 0.2):
        shares = []
        for seed in range(400):
            threshold = calibrate(generator(seed).exponential(size=199), rate)
            shares.append(np.exp(-threshold.value))  # the share of all further draws that are above
        assert threshold.rate == pytest.approx(rate)
        assert np.mean(shares) == pytest.approx(threshold.rate, abs=4 * threshold.spread / 20)
        assert np.std(shares) == pytest.approx(threshold.spread, rel=0.15)


def test_the_stated_rate_is_never_above_the_one_asked_for() -> None:
    for n in range(19, 200):
        threshold = calibrate(np.arange(float(n)), 0.05)
        assert 0.05 - 1 / (n + 1) < threshold.rate <= 0.05 + 1e-12
        assert threshold.flags(np.arange(float(n))).sum() == round(threshold.rate * (n + 1)) - 1


def test_a_row_at_the_threshold_is_not_flagged() -> None:
    assert calibrate(np.ones(99), 0.1).flags(np.array([1.0, 1.5])).tolist() == [False, True]


def test_too_few_rows_for_a_rate_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected at least 19 held-out rows for an alarm rate of 0\.05, got 18"):
        calibrate(np.zeros(18), 0.05)
    assert calibrate(np.zeros(19), 0.05).rate == 0.05


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, np.nan])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="expected an alarm rate above 0 and below 1"):
        calibrate(np.zeros(100), rate)


def test_a_reference_of_fewer_rows_than_neighbours_is_refused() -> None:
    with pytest.raises(InputError, match="expected k from 1 to the 4 reference rows, got 5"):
        DriftIndicator.of(random_map(2, 3), np.zeros((4, 3)), np.zeros(4))


def test_a_reference_without_targets_is_refused_for_the_quadratic_loss() -> None:
    with pytest.raises(InputError, match="expected the targets of the reference rows"):
        DriftIndicator.of(random_map(2, 3), np.zeros((9, 3)))


def test_the_indicators_own_map_sees_directions_in_which_no_row_varies() -> None:
    rows, later = generator(7).normal(size=(2, 200, 3))
    rows[:, 2] = 0.0
    y = np.abs(rows[:, 0]) + rows[:, 1]
    later[:, 2] = 0.0
    beyond = later.copy()
    beyond[:, 2] = 8.0
    blind = DriftIndicator.fit(rows, y, PAPER_DRIFT)
    assert np.array_equal(blind.indicator(later), blind.indicator(beyond))
    sensitive = DriftIndicator.fit(rows, y)
    assert np.median(sensitive.indicator(beyond)) > np.quantile(sensitive.indicator(later), 0.95)
