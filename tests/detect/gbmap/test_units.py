"""The non-linearity's value and slope against numpy's functions."""

import numpy as np
import pytest

from glasstream.detect.gbmap.units import LINEAR, RELU, SOFTPLUS, decay, log1p_unit, sigmoid, slope, softplus, value

POINTS = np.concatenate(
    (np.linspace(-60, 60, 4_001), 10.0 ** np.arange(-300, 301, 7), -(10.0 ** np.arange(-300, 301, 7)), [0.0, -0.0])
)


def test_the_exponential_of_a_number_below_zero_is_right_to_1e_15() -> None:
    x = -np.concatenate((np.linspace(0, 708, 5_001), 10.0 ** np.arange(-300.0, 2.0)))
    assert [decay(one) for one in x] == pytest.approx(np.exp(x), rel=1e-15, abs=0)
    assert decay(-1e300) == decay(-708.0) > 0


def test_the_logarithm_of_one_plus_a_fraction_is_right_to_1e_15() -> None:
    e = np.concatenate((np.linspace(0, 1, 5_001), 10.0 ** np.arange(-300.0, 0.0)))
    assert [log1p_unit(one) for one in e] == pytest.approx(np.log1p(e), rel=1e-15, abs=0)


@pytest.mark.parametrize("beta", [0.1, 1.0, 5.0, 1e6])
def test_softplus_is_log_of_one_plus_exp(beta: float) -> None:
    with np.errstate(over="ignore"):
        expected = np.logaddexp(0.0, beta * POINTS[np.abs(POINTS) < 1e290]) / beta
    found = [softplus(beta, one) for one in POINTS[np.abs(POINTS) < 1e290]]
    assert found == pytest.approx(expected, rel=2e-15, abs=1e-300)


def test_the_sigmoid_is_the_slope_of_softplus_and_mirrors_itself() -> None:
    z = np.linspace(-30, 30, 1_001)
    found = np.array([sigmoid(one) for one in z])
    assert found == pytest.approx(1 / (1 + np.exp(-z)), rel=2e-15)
    assert found + found[::-1] == pytest.approx(np.ones(len(z)), abs=1e-15)
    assert [slope(SOFTPLUS, 3.0, one) for one in z] == [sigmoid(3.0 * one) for one in z]


def test_relu_and_the_linear_unit_are_what_they_are_called() -> None:
    z = [-2.5, 0.0, 1.5]
    assert [value(RELU, 1.0, one) for one in z] == [0.0, 0.0, 1.5]
    assert [slope(RELU, 1.0, one) for one in z] == [0.0, 0.0, 1.0]
    assert [value(LINEAR, 1.0, one) for one in z] == z
    assert [slope(LINEAR, 1.0, one) for one in z] == [1.0, 1.0, 1.0]


def test_softplus_tends_to_relu_as_beta_grows() -> None:
    z = np.linspace(-2, 2, 101)
    for beta in (1e2, 1e4, 1e6):
        apart = np.array([softplus(beta, one) - value(RELU, 1.0, one) for one in z])
        assert 0 <= apart.min() <= apart.max() <= np.log(2) / beta + 1e-15
