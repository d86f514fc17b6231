"""Rows of mixed features as finite, standardised numbers."""

import numpy as np
import pytest

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.encoding import LIMIT, Encoding
from tests.support.gbmap_examples import generator

NAN = np.nan


def test_numbers_are_standardised_by_the_reference() -> None:
    reference = generator(1).normal(size=(200, 3)) * [1, 1e-9, 1e9] + [5, 0, 1e9]
    encoding = Encoding.learn(reference)
    encoded = encoding.encode(reference)
    assert encoded.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)
    assert encoded.std(axis=0) == pytest.approx(np.ones(3), rel=1e-12)
    later = encoding.encode(reference + reference.std(axis=0))
    assert later == pytest.approx(encoded + 1, rel=1e-9, abs=1e-9)


def test_a_category_has_a_column_for_each_code_of_the_reference() -> None:
    encoding = Encoding.learn([[2.0, 1.0], [0.0, 1.0], [7.0, 1.0], [2.0, 2.0]], categorical=[0])
    encoded = encoding.encode([[7.0, 1.25], [0.0, 1.25], [2.0, 1.25]])
    assert encoded[:, :3].tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert encoding.columns == (0, 0, 0, 1)
    assert not encoded[:, 3].any()  # 1.25 is the mean


def test_a_missing_or_unseen_category_is_none_of_them() -> None:
    encoding = Encoding.learn([[0.0], [1.0], [NAN]], categorical=[0])
    assert encoding.encode([[NAN], [2.0], [np.inf], [1.0]]).tolist() == [[0, 0], [0, 0], [0, 0], [0, 1]]


def test_a_missing_number_is_the_mean_of_the_reference() -> None:
    encoding = Encoding.learn([[1.0], [NAN], [3.0], [np.inf]])
    assert encoding.encode([[NAN], [np.inf], [-np.inf], [2.0], [3.0]])[:, 0].tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e15, 1e-300])
def test_a_constant_column_is_zero_and_another_value_moves_by_the_difference(constant: float) -> None:
    encoding = Encoding.learn(np.full((7, 1), constant))
    assert encoding.encode([[constant], [constant + 2.0]])[:, 0].tolist() == [0.0, 2.0]


def test_an_all_missing_column_is_zero_whatever_comes_later() -> None:
    encoding = Encoding.learn([[NAN, 1.0], [NAN, 2.0]])
    assert encoding.encode([[NAN, 1.5], [5.0, 1.5], [-1e300, 1.5]]).tolist() == [[0, 0]] * 3


def test_an_all_missing_category_has_no_column() -> None:
    encoding = Encoding.learn([[NAN, 1.0], [NAN, 2.0]], categorical=[0])
    assert encoding.encode([[3.0, 1.0]]).shape == (1, 1)


def test_values_beyond_any_size_stay_finite() -> None:
    encoding = Encoding.learn([[1e308], [-1e308], [1e-308]])
    assert np.isfinite(encoding.encode([[1.7e308], [-1.7e308]])).all()
    assert Encoding.learn([[0.0], [1e-300]]).encode([[1e300]])[0, 0] == LIMIT


def test_a_row_has_the_same_bits_whatever_rows_stand_beside_it() -> None:
    rows = generator(2).normal(size=(50, 4))
    rows[:, 3] = generator(3).integers(0, 4, size=50)
    encoding = Encoding.learn(rows, [3])
    assert encoding.encode(rows[9:10]).tobytes() == encoding.encode(rows)[9:10].tobytes()


def test_no_rows_another_width_and_columns_that_are_not_there_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1 reference row"):
        Encoding.learn(np.zeros((0, 2)))
    with pytest.raises(InputError, match="expected categorical columns from 0 to 1, got"):
        Encoding.learn(np.zeros((3, 2)), [2])
    with pytest.raises(InputError, match="expected rows of 2 columns, got 3"):
        Encoding.learn(np.zeros((3, 2))).encode(np.zeros((3, 3)))
    with pytest.raises(InputError, match="float64"):
        Encoding.learn(np.zeros(3))
