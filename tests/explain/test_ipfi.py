"""The contributions of iPFI against their definition, features and sets of features."""

import numpy as np
import pytest

from glasstream.explain import pfi as ipfi
from glasstream.explain.pfi import contributions, set_contributions
from tests.support.function_predictor import FunctionPredictor

RANDOM = np.random.Generator(np.random.PCG64(1))
ROWS, WIDTH, DRAWS = 40, 4, 3
X = RANDOM.normal(size=(ROWS, WIDTH))
X[RANDOM.random(X.shape) < 0.2] = np.nan
Y = RANDOM.normal(size=ROWS)
BACKGROUND = RANDOM.normal(size=(ROWS, DRAWS, 3, WIDTH))
BACKGROUND[RANDOM.random(BACKGROUND.shape) < 0.2] = np.nan
MEMBERS = np.array([[1, 0, 0, 0], [1, 1, 0, 1], [0, 0, 0, 0]], np.bool_)


def f(rows: np.ndarray) -> np.ndarray:
    """Return predictions of a model that is not additive, and for which absence matters."""
    x = np.where(np.isnan(rows), -0.5, rows)
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + np.isnan(rows[:, 0])


PREDICTOR = FunctionPredictor(f, WIDTH)


def one(row: np.ndarray, target: float) -> float:
    return abs(f(row[None])[0] - target)


def test_equals_the_definition() -> None:
    found = contributions(PREDICTOR, "absolute", X, Y, BACKGROUND[:, :, 0])
    for i in range(ROWS):
        for j in range(WIDTH):
            total = 0.0
            for k in range(DRAWS):
                other = X[i].copy()
                other[j] = BACKGROUND[i, k, 0, j]
                total += one(other, Y[i]) - one(X[i], Y[i])
            assert found[i, j] == pytest.approx(total / DRAWS, abs=1e-12)
    assert (found[:, 3] == 0).all(), "the model does not use the last feature"


@pytest.mark.parametrize("chunk", [1, 64, 1 << 20])
def test_a_set_is_replaced_jointly(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipfi, "_CHUNK_VALUES", chunk)
    found = set_contributions(PREDICTOR, "absolute", X, Y, BACKGROUND, MEMBERS)
    for i in range(ROWS):
        for s, members in enumerate(MEMBERS):
            total = 0.0
            for k in range(DRAWS):
                total += one(np.where(members, BACKGROUND[i, k, s], X[i]), Y[i]) - one(X[i], Y[i])
            assert found[i, s] == pytest.approx(total / DRAWS, abs=1e-12)
    assert (found[:, 2] == 0).all(), "an empty set"


def test_sets_of_one_feature_are_features() -> None:
    draws = np.repeat(BACKGROUND[:, :, :1], WIDTH, axis=2)
    singles = set_contributions(PREDICTOR, "squared", X, Y, draws, np.eye(WIDTH, dtype=np.bool_))
    assert singles.tobytes() == contributions(PREDICTOR, "squared", X, Y, BACKGROUND[:, :, 0]).tobytes()


def test_a_value_replaced_by_itself_contributes_exactly_nothing_and_costs_nothing() -> None:
    own = np.repeat(X[:, None], 2, axis=1)
    predictor = FunctionPredictor(f, WIDTH)
    assert (contributions(predictor, "squared", X, Y, own) == 0).all()
    assert (set_contributions(predictor, "squared", X, Y, own[:, :, None], np.ones((1, WIDTH), np.bool_)) == 0).all()
    assert predictor.evaluated == 2 * ROWS


def test_how_rows_are_cut_changes_no_bit() -> None:
    whole = set_contributions(PREDICTOR, "squared", X, Y, BACKGROUND, MEMBERS)
    cuts = np.split(np.arange(ROWS), [1, 7, 30])
    parts = [set_contributions(PREDICTOR, "squared", X[i], Y[i], BACKGROUND[i], MEMBERS) for i in cuts]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_nothing_of_nothing() -> None:
    assert contributions(PREDICTOR, "squared", X[:0], Y[:0], BACKGROUND[:0, :, 0]).shape == (0, WIDTH)
    assert contributions(PREDICTOR, "squared", X[:, :0], Y, BACKGROUND[:, :, 0, :0]).shape == (ROWS, 0)
    assert set_contributions(PREDICTOR, "squared", X[:0], Y[:0], BACKGROUND[:0], MEMBERS).shape == (0, 3)
