"""SAGE of a data set, of a sliding window, and exact: they are estimates of one another (002, Algorithm 5)."""

from itertools import permutations

import numpy as np
import pytest
from river import linear_model

from glasstream.base.draws import Purpose, below, stream_key
from glasstream.base.errors import SettingsError
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.losses import CustomLoss, losses
from glasstream.explain.sage.contributions import contributions
from glasstream.explain.sampling.orders import orders
from glasstream.models.predictors.predictor import Output
from glasstream_lab.batch_sage import batch_sage
from glasstream_lab.shapley import exact_sage, sage_game, shapley_values
from glasstream_lab.window_sage import WindowSAGE


class Product:
    """A number with an interaction, or the same as the probability of the first of two classes."""

    features, compiled = ("a", "b", "c"), True

    def __init__(self, task="regression"):
        self.task = task
        self.classes = ("yes", "no") if task == "classification" else ()

    def evaluate(self, rows):
        x = np.nan_to_num(rows)
        total = 2 * x[:, 0] + x[:, 0] * x[:, 1] - x[:, 2]
        if self.task == "regression":
            return Output(total[:, None], np.full(len(x), -1))
        yes = 0.5 + 0.5 * total / (1 + np.abs(total))
        return Output(np.stack([yes, 1 - yes], axis=1), np.where(yes >= 0.5, 0, 1))


def data(loss, count=24, seed=4):
    rng = np.random.Generator(np.random.PCG64(seed))
    model = Product("regression" if loss in ("squared", "absolute") else "classification")
    rows = rng.normal(size=(count, 3))
    rows[:, 2] += rows[:, 0]
    rows[rng.random(rows.shape) < 0.05] = np.nan
    said = model.evaluate(rows)
    noisy = said.values[:, 0] + rng.normal(size=count)
    return model, rows, noisy if model.task == "regression" else (noisy < 0.5).astype(float)


ALL_LOSSES = ("zero_one", "cross_entropy", "brier", "absolute", "squared")


@pytest.mark.parametrize("loss", ALL_LOSSES)
def test_the_mean_over_all_orders_and_the_whole_background_is_exact(loss):
    """With every permutation, and every row as a background row, sampling leaves nothing out."""
    model, rows, targets = data(loss)
    count, width = rows.shape
    every = np.array(list(permutations(range(width))))
    order = np.tile(every, (count, 1))
    many, known = np.repeat(rows, len(every), axis=0), np.repeat(targets, len(every))
    background = np.broadcast_to(rows, (len(many), 1, count, width)).copy()
    block = contributions(model, loss, many, known, order, background)
    mean = np.repeat(model.evaluate(rows).values.mean(axis=0, keepdims=True), len(many), axis=0)
    values, _ = block.completed(losses(loss, mean, np.argmax(mean, axis=1), known))
    assert values.mean(axis=0) == pytest.approx(exact_sage(model, loss, rows, targets), abs=1e-12)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("loss", ["squared", "brier"])
def test_corrected_batch_sage_estimates_the_exact_values(loss, fresh):
    model, rows, targets = data(loss)
    exact = exact_sage(model, loss, rows, targets)
    found = [
        batch_sage(model, loss, rows, targets, inner=2, passes=100, fresh=fresh, corrected=True, seed=seed).values
        for seed in range(30)
    ]
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert error.max() < 0.05
    assert (np.abs(np.mean(found, axis=0) - exact) < 3 * error).all()


def test_batch_sage_equals_plain_python():
    """Algorithm 5, line by line."""
    model, rows, targets = data("squared")
    key, (count, d), m = stream_key(7, "batch SAGE"), rows.shape, 3
    f = lambda row: float(model.evaluate(row[None]).values[0, 0])  # noqa: E731
    phi = np.zeros(d)
    y0 = sum(f(row) for row in rows) / count
    for i, (x, y) in enumerate(zip(rows, targets, strict=True)):
        before = (y0 - y) ** 2
        order = orders(key, i, 1, d)[0]
        for step, j in enumerate(order):
            mixed = np.array([rows[below(count, key, i, int(Purpose.ISAGE), k)] for k in range(m)])
            mixed[:, order[: step + 1]] = x[order[: step + 1]]
            after = (sum(f(row) for row in mixed) / m - y) ** 2
            phi[j] += before - after
            before = after
    found = batch_sage(model, "squared", rows, targets, inner=m, seed=7)
    assert found.values == pytest.approx(phi / count, abs=1e-9)
    assert found.values.sum() == pytest.approx(found.total, abs=1e-12)
    assert found.total == found.marginal_loss - found.model_loss


def test_other_draws_are_independent_of_the_first():
    model, rows, targets = data("squared")
    both = batch_sage(model, "squared", rows, targets, passes=2)
    second = batch_sage(model, "squared", rows, targets, first_draw=len(rows))
    assert both.contributions[len(rows) :].tobytes() == second.contributions.tobytes()
    assert not np.allclose(both.contributions[: len(rows)], second.contributions)


def test_standard_errors_are_those_of_a_mean():
    model, rows, targets = data("squared", count=200)
    found = batch_sage(model, "squared", rows, targets, passes=10)
    assert found.contributions.shape == (2_000, 3)
    assert found.standard_errors == pytest.approx(found.contributions.std(axis=0) / np.sqrt(2_000))


def test_a_loss_of_ones_own():
    model, rows, targets = data("brier")
    own = CustomLoss("own", "classification", lambda p, y: sum((q - (c == y)) ** 2 for c, q in p.items()))
    assert exact_sage(model, own, rows, targets) == pytest.approx(exact_sage(model, "brier", rows, targets))
    mine, ours = (batch_sage(model, loss, rows, targets).values for loss in (own, "brier"))
    assert mine == pytest.approx(ours, abs=1e-12)


def test_exact_values_of_a_linear_model_on_independent_features():
    """c_i = β_i² σ_i²; a full factorial makes the features exactly independent."""
    rows = np.array(np.meshgrid([-1, 1], [-1, 0, 1], [-2, 2], indexing="ij"), float).reshape(3, -1).T

    class Linear(Product):
        def evaluate(self, rows):
            return Output((2 * rows[:, 0] + 3 * rows[:, 1])[:, None], np.full(len(rows), -1))

    targets = Linear().evaluate(rows).values[:, 0]
    assert exact_sage(Linear(), "squared", rows, targets) == pytest.approx([4.0, 6.0, 0.0], abs=1e-12)


def test_shapley_values_are_the_mean_over_all_orders():
    rng = np.random.Generator(np.random.PCG64(1))
    worth = {frozenset(i for i in range(4) if members >> i & 1): rng.normal() for members in range(16)}
    wanted = np.zeros(4)
    for order in permutations(range(4)):
        for place, player in enumerate(order):
            wanted[player] += worth[frozenset(order[: place + 1])] - worth[frozenset(order[:place])]
    found = shapley_values(worth.__getitem__, 4)
    assert found == pytest.approx(wanted / 24, abs=1e-12)
    assert found.sum() == pytest.approx(worth[frozenset(range(4))] - worth[frozenset()])


def test_the_game_of_no_features_is_worth_nothing():
    model, rows, targets = data("zero_one")
    game = sage_game(model, "zero_one", rows, targets, rows[:5])
    assert game(frozenset()) == 0.0
    assert shapley_values(game, 3).sum() == pytest.approx(game(frozenset({0, 1, 2})))


@pytest.mark.parametrize("players", [-1, 21])
def test_more_players_than_can_be_enumerated_are_refused(players):
    with pytest.raises(SettingsError, match="expected 0 to 20 players"):
        shapley_values(lambda _: 0.0, players)


def test_no_players_have_no_values():
    assert shapley_values(lambda _: 1.0, 0).tolist() == []


def test_the_window_is_explained_from_scratch_at_every_stride():
    model = linear_model.LinearRegression()
    sage = WindowSAGE(model, window=30, stride=10, inner=2, seed=3)
    rng = np.random.Generator(np.random.PCG64(1))
    seen, live = [], LiveModel(model)
    for t in range(80):
        x = {"a": rng.normal(), "b": rng.normal()} | ({"late": rng.normal()} if t >= 40 else {})
        y = 3 * x["a"] - x.get("late", 0.0)
        seen.append((live.row(x)[0], y))
        before = sage.newest
        values = sage.explain_one(x, y)
        if t < 29:
            assert values == {}
        elif (t - 29) % 10:
            assert sage.newest is before
        else:
            rows = np.full((30, len(live.names)), np.nan)
            for place, (row, _) in zip(rows, seen[-30:], strict=True):
                place[: len(row)] = row
            targets = np.array([y for _, y in seen[-30:]])
            first_draw = (t - 29) // 10 * 30
            wanted = batch_sage(live.predictor, "squared", rows, targets, inner=2, seed=3, first_draw=first_draw)
            assert values == dict(zip(live.names, wanted.values.tolist(), strict=True))
        model.learn_one(x, y)
    assert list(values) == ["a", "b", "late"]
    assert values["a"] > values["b"]


@pytest.mark.parametrize("settings", [{"window": 0}, {"stride": 0}, {"loss": "brier"}])
def test_settings_of_the_window_out_of_range_are_refused(settings):
    with pytest.raises(SettingsError, match="expected"):
        WindowSAGE(linear_model.LinearRegression(), **settings)
