"""check_splits finds what it is for, and passes what is right."""

import numpy as np
import pytest

from glasstream.base.errors import ModelError
from glasstream.models.predictors.checks import check_splits
from glasstream.models.predictors.predictor import Output


class _OwnPredictor:
    task = "regression"
    features = tuple("abcdefgh")
    classes = ()
    compiled = True

    def __init__(self, values):
        self._values = values

    def evaluate(self, rows):
        return Output(self._values(rows), np.full(len(rows), -1))


@pytest.fixture
def rows():
    return np.random.Generator(np.random.PCG64(1)).normal(size=(400, 8))


def _row_by_row(rows):
    return np.array([[sum(row.tolist())] for row in rows]).reshape(-1, 1)


def test_a_predictor_that_treats_rows_alone_passes(rows):
    said = check_splits(_OwnPredictor(_row_by_row), rows)
    assert said.values.shape == (400, 1)


@pytest.mark.parametrize(
    "values",
    [
        lambda rows: rows[:, :1] - rows[:, :1].mean(),
        lambda rows: rows[:, :1] + np.arange(len(rows))[:, None],
        lambda rows: _row_by_row(rows) * (1 + 2e-16 * (len(rows) == 400)),
    ],
)
def test_a_predictor_that_looks_at_other_rows_fails(values, rows):
    with pytest.raises(ModelError, match="depends on the other rows of a call"):
        check_splits(_OwnPredictor(values), rows)


@pytest.mark.parametrize("values", [lambda rows: rows[:, :2], lambda rows: rows[:, 0], lambda rows: rows[:, :1] > 0])
def test_an_output_of_another_form_fails(values, rows):
    with pytest.raises(ModelError, match="expected values float64"):
        check_splits(_OwnPredictor(values), rows)


def test_a_predictor_that_writes_into_the_rows_fails(rows):
    def values(given):
        said = _row_by_row(given)
        if len(given) == 400 and given.base is None:
            given[0, 7] = -given[0, 7]
            given[0, 6] = 0.0
        return said

    with pytest.raises(ModelError, match=r"depends on|changed the rows"):
        check_splits(_OwnPredictor(values), rows)
