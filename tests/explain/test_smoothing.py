"""Smoothing against its definition, and the numbers anyone can check (row 2)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.explain.smoothing import Smoothing


def test_row_2_smoothing_of_a_constant() -> None:
    smoothing = Smoothing.empty(0.01)
    for n in range(1, 101):
        smoothing.update(np.ones((1, 1)))
        assert smoothing.value[0] == 1.0, n
        if n == 10:
            assert smoothing.raw[0] == pytest.approx(0.09562, abs=5e-6)
    assert smoothing.raw[0] == pytest.approx(0.63397, abs=5e-6)
    assert smoothing.variance[0] == 0.0


@given(
    st.lists(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), min_size=1, max_size=40),
    st.floats(0.001, 1.0),
)
def test_equals_the_weighted_mean_and_variance(rows: list[list[float]], alpha: float) -> None:
    values = np.array(rows)
    smoothing = Smoothing.empty(alpha)
    smoothing.update(values)
    n = len(values)
    weights = alpha * (1 - alpha) ** np.arange(n - 1, -1, -1)
    mean = (weights[:, None] * values).sum(axis=0) / weights.sum()
    variance = (weights[:, None] * (values - mean) ** 2).sum(axis=0) / weights.sum()
    assert smoothing.value == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert smoothing.raw == pytest.approx(weights @ values, rel=1e-9, abs=1e-9)
    assert smoothing.variance == pytest.approx(variance, rel=1e-7, abs=1e-7)


def test_how_rows_are_cut_changes_no_bit() -> None:
    values = np.random.Generator(np.random.PCG64(1)).normal(size=(300, 4))
    whole, parts = Smoothing.empty(0.01), Smoothing.empty(0.01)
    whole.update(values)
    for a, b in ((0, 1), (1, 50), (50, 299), (299, 300)):
        parts.update(values[a:b])
    assert whole.raw.tobytes() == parts.raw.tobytes()
    assert whole.variance.tobytes() == parts.variance.tobytes()


def test_a_feature_that_comes_later_contributed_nothing_before() -> None:
    late, always = Smoothing.empty(0.1), Smoothing.empty(0.1)
    late.update(np.ones((5, 1)))
    late.update(np.ones((3, 2)))
    values = np.ones((8, 2))
    values[:5, 1] = 0.0
    always.update(values)
    assert late.raw.tobytes() == always.raw.tobytes()
    assert late.spread == pytest.approx(always.spread)
