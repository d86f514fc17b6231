"""Shapley values from mixtures of rows: exact for few differing features, else estimates that add up."""

import numpy as np
import pytest

from glasstream.base.draws import stream_key
from glasstream.explain.attributions import mixtures
from glasstream.explain.attributions.game import Attributor
from tests.support.function_predictor import FunctionPredictor
from tests.support.random_trees import random_trees

KEY = stream_key(3, "s")
ZERO = np.zeros(1, np.int64)


def waves(width):
    """A function with interactions of every order."""
    return FunctionPredictor(lambda rows: np.sin(np.nan_to_num(rows).sum(axis=1)), width)


def test_a_row_that_differs_in_few_features_is_exact_and_equals_the_game_of_the_model():
    random = np.random.default_rng(1)
    for seed in range(12):
        predictor = random_trees(np.random.default_rng(seed), 5)
        background, rows = random.normal(size=(9, 5)), random.normal(size=(3, 5))
        game = predictor.game(background)
        if game is None:
            continue
        exact = game.play(rows, np.zeros(3, np.int64)).values
        for row, wanted in zip(rows, exact, strict=True):
            made = mixtures.from_mixtures(predictor, row, background, 0, KEY, 0)
            assert made.error is None
            assert np.allclose(made.values, wanted, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(wanted).max()))
            pairs = game.pairs(row[np.newaxis], ZERO).values[0]
            of_mixtures = mixtures.pairs_from_mixtures(predictor, row, background, 0)
            assert np.allclose(of_mixtures, pairs, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(pairs).max()))


def test_interactions_of_many_differing_features_are_not_computed():
    random = np.random.default_rng(8)
    background, x = random.normal(size=(3, 12)), random.normal(size=12)
    attributor = Attributor(waves(12), background, key=KEY)
    assert attributor.pairs(x, 0) is None and attributor.largest_pairs(x, 0, 5) == []
    x[:2] = background[:, :2] = 1.0
    pairs = Attributor(waves(12), background, key=KEY).pairs(x, 0)
    assert pairs is not None and not pairs[:2].any() and pairs[2:, 2:][np.triu_indices(10, 1)].all()


def test_the_largest_interactions_come_first():
    product = FunctionPredictor(lambda rows: rows[:, 0] * rows[:, 1] - 3.0 * rows[:, 1] * rows[:, 2] + rows[:, 3], 4)
    attributor = Attributor(product, np.zeros((5, 4)), key=KEY)
    largest = attributor.largest_pairs(np.array([2.0, 1.0, 1.0, 7.0]), 0, 5)
    assert [pair[:2] for pair in largest] == [(1, 2), (0, 1)]
    assert np.allclose([amount for *_, amount in largest], [-3.0, 2.0])
    assert attributor.largest_pairs(np.array([2.0, 1.0, 1.0, 7.0]), 0, 1) == largest[:1]


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_estimates_add_up_for_any_number_of_background_rows(rows):
    random = np.random.default_rng(2)
    predictor, background, x = waves(14), random.normal(size=(rows, 14)), random.normal(size=(5, 14))
    made = Attributor(predictor, background, key=KEY).explain(x, np.zeros(5, np.int64), np.arange(5))
    assert made.residual.max() < 1e-12
    assert (made.error > 0).any()
    assert np.allclose(made.total, predictor.evaluate(x).values[:, 0])


def test_estimates_lie_around_the_exact_values_as_their_errors_say():
    random = np.random.default_rng(4)
    predictor, background = waves(10), random.normal(size=(30, 10))
    off = []
    for number in range(40):
        row = random.normal(size=10)
        exact = mixtures.from_mixtures(predictor, row, background, 0, KEY, number)
        assert exact.error is None
        drawn = mixtures._sampled(predictor, row, background, 0, KEY, number)
        off.append((drawn.values - exact.values) / drawn.error)
    off = np.array(off)
    assert abs(off.mean()) < 4.0 / np.sqrt(off.size)
    assert 0.9 < off.std() < 1.2


def test_draws_depend_on_the_number_of_the_row_only():
    random = np.random.default_rng(5)
    predictor, background, x = waves(12), random.normal(size=(8, 12)), random.normal(size=(6, 12))
    attributor, outputs = Attributor(predictor, background, key=KEY), np.zeros(6, np.int64)
    whole = attributor.explain(x, outputs, np.arange(6) * 7)
    for place in range(6):
        alone = attributor.explain(x[place : place + 1], ZERO, np.array([place * 7]))
        assert alone.values.tobytes() == whole.values[place : place + 1].tobytes()
    other = attributor.explain(x[:1], ZERO, np.array([1]))
    assert other.values.tobytes() != whole.values[:1].tobytes()


def test_features_that_do_not_differ_get_exactly_nothing():
    background = np.tile(np.arange(12.0), (5, 1))
    row = background[0].copy()
    row[3] = 7.0
    made = mixtures.from_mixtures(waves(12), row, background, 0, KEY, 0)
    assert made.error is None
    assert np.flatnonzero(made.values).tolist() == [3]
