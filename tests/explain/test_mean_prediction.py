"""The smoothed mean prediction (002, Algorithm 1, lines 5 and 6)."""

import numpy as np
import pytest

from glasstream.base.errors import FrameError
from glasstream.explain.sage.smoothing import MeanPrediction

ALPHA = 0.03


def predictions(count, seed=1):
    return np.random.Generator(np.random.PCG64(seed)).random((count, 3))


def test_equals_the_weighted_mean_after_every_row():
    said = predictions(60)
    means = MeanPrediction.empty(ALPHA).enter(said)
    for n in range(1, 61):
        weights = (1 - ALPHA) ** np.arange(n - 1, -1, -1)
        assert means[n - 1] == pytest.approx((weights[:, None] * said[:n]).sum(axis=0) / weights.sum(), abs=1e-12)


def test_it_has_no_start_up_bias():
    said = predictions(1)
    mean = MeanPrediction.empty(ALPHA)
    assert mean.enter(said) == pytest.approx(said, abs=1e-15)
    assert mean.enter(np.repeat(said, 50, axis=0)) == pytest.approx(np.repeat(said, 50, axis=0), abs=1e-14)
    assert mean.value == pytest.approx(said[0], abs=1e-14)


def test_a_class_that_comes_later_had_probability_0_before():
    late, always = MeanPrediction.empty(ALPHA), MeanPrediction.empty(ALPHA)
    said = predictions(40)
    said[:20, 2] = 0.0
    wanted = always.enter(said)
    assert late.enter(said[:20, :2]).tobytes() == wanted[:20, :2].tobytes()
    assert late.enter(said[20:]).tobytes() == wanted[20:].tobytes()


def test_a_class_that_is_missing_has_probability_0_now():
    mean, other = MeanPrediction.empty(ALPHA), MeanPrediction.empty(ALPHA)
    said = predictions(20)
    mean.enter(said[:10])
    other.enter(said[:10])
    padded = said[10:].copy()
    padded[:, 2] = 0.0
    assert mean.enter(said[10:, :2]).tobytes() == other.enter(padded).tobytes()


def test_how_rows_are_cut_and_a_restore_change_no_bit():
    said = predictions(100)
    wanted = MeanPrediction.empty(ALPHA).enter(said)
    mean = MeanPrediction.empty(ALPHA)
    parts = []
    for begin, end in ((0, 1), (1, 1), (1, 40), (40, 99), (99, 100)):
        parts.append(mean.enter(said[begin:end]))
        mean = MeanPrediction.restore(ALPHA, end, mean.arrays())
    assert np.concatenate(parts[1:]).tobytes() == wanted[1:].tobytes()
    assert parts[0].tobytes() == wanted[:1].tobytes()


def test_nothing_is_0_before_the_first_row():
    assert MeanPrediction.empty(ALPHA).value.tolist() == []


@pytest.mark.parametrize("arrays", [{"weight": np.zeros(1)}, {"weight": np.zeros(2), "raw": np.zeros(1)}])
def test_arrays_that_do_not_fit_are_refused(arrays):
    with pytest.raises(FrameError):
        MeanPrediction.restore(ALPHA, 0, arrays)
