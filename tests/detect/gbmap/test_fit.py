"""The fit (003, 3.2 and appendix A; row 10: Lemma 1, the training loss)."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge

from glasstream.base.errors import SettingsError
from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.objective import TILE, Step, Tiles, mean_loss
from glasstream.detect.gbmap.settings import FEW_ROWS, PRESETS, UNITS, GbmapSettings
from tests.support.gbmap_examples import classes, cosines, generator

LOSSES = ("quadratic", "logistic")
QUICK = GbmapSettings(learners=6, beta=2.0, iterations=60)


def data(loss: str, n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return (cosines if loss == "quadratic" else classes)(n, p, seed)


def plain_objective(x, y, base, parameters, sign, unit, beta, loss, ridge):  # type: ignore[no-untyped-def]
    """Equations 3 and 4 written down with numpy."""
    a, w = parameters[0], parameters[1:]
    z = np.column_stack((np.ones(len(x)), x)) @ w
    f = base + a + sign * (np.logaddexp(0, beta * z) / beta, np.maximum(z, 0), z)[unit]
    each = (f - y) ** 2 if loss == "quadratic" else np.logaddexp(0, -y * f)
    return each.mean() + ridge * (w**2).sum() / len(w)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("unit", [0, 1, 2])
@pytest.mark.parametrize("n", [1, TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
def test_the_objective_is_the_formula_and_its_gradient_the_finite_differences(loss: str, unit: int, n: int) -> None:
    p, ridge, beta, sign = 3, 0.3, 1.7, -1.0
    x, y = data(loss, n, p, n)
    base, parameters = generator(n).normal(size=n), generator(n + 1).normal(size=p + 2)
    tiles = Tiles.of(x, y, base, np.arange(n), single=False)
    step = Step(sign, unit, beta, LOSSES.index(loss), ridge / (p + 1), True)
    found, gradient = step.objective(tiles, parameters)
    arguments = (sign, unit, beta, loss, ridge)
    assert found == pytest.approx(plain_objective(x, y, base, parameters, *arguments), rel=1e-13)
    for k in range(p + 2):
        move = 1e-6 * np.eye(p + 2)[k]
        high, low = (plain_objective(x, y, base, parameters + at, *arguments) for at in (move, -move))
        assert gradient[k] == pytest.approx((high - low) / 2e-6, abs=2e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("unit", ["softplus", "relu", "linear"])
@pytest.mark.parametrize("ridge", [0.0, 1e-2, 10.0])
def test_row_10_the_training_loss_does_not_rise_from_learner_to_learner(loss: str, unit: str, ridge: float) -> None:
    for seed in range(3):
        x, y = data(loss, 200, 4, seed)
        settings = replace(QUICK, learners=10, loss=loss, unit=unit, ridge=ridge, seed=seed)  # type: ignore[arg-type]
        fit = fit_map(x, y, settings)
        assert len(fit.losses) == 11
        assert (np.diff(fit.losses) <= 0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_losses_are_those_of_the_map_with_so_many_learners(loss: str) -> None:
    x, y = data(loss, 300, 4)
    fit = fit_map(x, y, replace(QUICK, loss=loss), initial=lambda rows: 0.1 * rows[:, 0])  # type: ignore[arg-type]
    embedded = fit.map.embed(x)
    for j in range(7):
        f = 0.1 * x[:, 0] + embedded[:, :j].sum(axis=1)
        each = (f - y) ** 2 if loss == "quadratic" else np.logaddexp(0, -y * f)
        assert fit.losses[j] == pytest.approx(each.mean(), rel=1e-12)


def plain_start(x: np.ndarray, y: np.ndarray, base: np.ndarray, sign: float, unit: str, loss: str) -> np.ndarray:
    """Start of length 2 along the slope, the curvature or between them, whichever correlates best with the residual."""
    left = 2 * (y - base) if loss == "quadratic" else y / (1 + np.exp(y * base))
    left -= left.mean()
    slope = sign * left @ x / np.linalg.norm(left @ x)
    values, vectors = np.linalg.eigh(x.T @ (left[:, None] * x))
    found = [slope]
    for value, vector in ((values[0], vectors[:, 0]), (values[-1], vectors[:, -1])):
        if sign * value > 0:
            turned = vector if vector @ slope >= 0 else -vector
            found += [turned, (turned + slope) / np.linalg.norm(turned + slope)]
    z = [2 * x @ direction for direction in found]
    g = [np.logaddexp(0, 1.5 * one) / 1.5 if unit == "softplus" else one for one in z]
    best = int(np.argmax([sign * np.corrcoef(left, one)[0, 1] for one in g]))
    return np.concatenate(([0.0, 0.0], 2 * found[best]))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("unit", ["softplus", "linear"])
def test_the_fit_equals_a_slow_plain_one(loss: str, unit: str) -> None:
    """Boosting with numpy's formulas and numerical gradients."""
    x, y = data(loss, 150, 2, 3)
    settings = GbmapSettings(learners=3, loss=loss, unit=unit, beta=1.5, ridge=0.05, tolerance=1e-10)  # type: ignore[arg-type]
    fit = fit_map(x, y, settings)
    base = np.zeros(len(y))
    for j in range(3):
        tried = []
        for sign in (1.0, -1.0):
            arguments = (sign, UNITS.index(settings.unit), 1.5, loss, 0.05)
            start = plain_start(x, y, base, sign, unit, loss)
            best = minimize(lambda v, b=base, a=arguments: plain_objective(x, y, b, v, *a), start, tol=1e-12)
            z = np.column_stack((np.ones(len(x)), x)) @ best.x[1:]
            learner = best.x[0] + sign * (np.logaddexp(0, 1.5 * z) / 1.5 if unit == "softplus" else z)
            tried.append((best.fun, sign, learner))
        _, sign, learner = min(tried)
        assert unit == "linear" or fit.map.signs[j] == sign  # with the linear unit both give the same learner
        assert fit.map.embed(x)[:, j] == pytest.approx(learner, abs=1e-5)
        base = base + learner


def test_row_10_lemma_1_a_linear_unit_gives_ridge_regression() -> None:
    x, y = cosines(400, 5, 1)
    y = y + x @ [1.0, -2.0, 0.5, 0.0, 3.0] + 7.0
    settings = GbmapSettings(learners=1, unit="linear", ridge=0.3, tolerance=1e-13, iterations=1000)
    found = fit_map(x, y, settings).map
    expected = Ridge(alpha=len(x) * 0.3 / 6).fit(x, y)  # p counts the constant
    assert found.weights[0] == pytest.approx(expected.coef_, abs=1e-6)
    assert found.predict(x) == pytest.approx(expected.predict(x), abs=1e-6)


def test_row_10_lemma_1_a_linear_unit_gives_logistic_regression() -> None:
    x, y = classes(400, 5, 2)
    y = np.where(y + x @ [1.0, -2.0, 0.5, 0.0, 1.0] > 0.3, 1.0, -1.0)
    settings = GbmapSettings(learners=1, unit="linear", loss="logistic", ridge=0.3, tolerance=1e-13, iterations=1000)
    found = fit_map(x, y, settings).map
    expected = LogisticRegression(C=6 / (2 * len(x) * 0.3), tol=1e-12, max_iter=10_000).fit(x, y)
    assert found.weights[0] == pytest.approx(expected.coef_[0], abs=1e-6)
    assert found.probabilities(x) == pytest.approx(expected.predict_proba(x)[:, 1], abs=1e-6)


def test_row_10_lemma_1_without_penalty_the_linear_learners_after_the_first_vanish() -> None:
    x, y = cosines(400, 5, 1)
    settings = GbmapSettings(learners=4, unit="linear", ridge=0.0, tolerance=1e-13, iterations=1000)
    embedded = fit_map(x, y + x[:, 0] + 2.0, settings).map.embed(x)
    assert np.abs(embedded[:, 0]).max() > 1
    assert np.abs(embedded[:, 1:]).max() <= 1e-6


def test_lemma_1_with_a_penalty_linear_learners_shrink_with_its_powers() -> None:
    x, y = cosines(400, 5, 1)
    settings = GbmapSettings(learners=3, unit="linear", ridge=1e-2, tolerance=1e-13, iterations=1000)
    weights = np.abs(fit_map(x, y + 3 * x[:, 0], settings).map.weights).max(axis=1)
    assert weights[1] <= 1e-2 * weights[0]
    assert weights[2] <= 1e-2 * weights[1]


def test_after_a_learner_that_is_0_nothing_is_tried_that_would_end_the_same() -> None:
    x, y = data("quadratic", 200, 3)
    settings = replace(QUICK, learners=40, ridge=0.01, beta=1.0)
    many = fit_map(x, y, settings)
    zero = ~many.map.weights.any(axis=1)
    first = int(zero.argmax())
    few = fit_map(x, y, replace(settings, learners=first + 1))
    assert zero[first:].all() and many.evaluations == few.evaluations
    assert (many.map.embed(x)[:, first:] == 0.0).all() and (many.losses[first:] == many.losses[first]).all()
    # Random starts differ from learner to learner, so that with them the search goes on.
    searched = [fit_map(x, y, replace(settings, learners=m, starts=2)).evaluations for m in (38, 39, 40)]
    assert searched[0] < searched[1] < searched[2]


def test_a_run_ends_by_its_iterations_and_not_by_evaluations_before() -> None:
    x = np.vander(np.linspace(-1, 1, 40), 17, increasing=True)[:, 1:]  # L-BFGS gets on slowly
    settings = GbmapSettings(learners=1, unit="linear", ridge=0.0, tolerance=1e-300, iterations=16_000)
    fit = fit_map(x, np.abs(x[:, 0]), settings)
    assert fit.iterations == 16_000 < fit.evaluations


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_sign_is_that_of_the_better_learner(sign: float) -> None:
    x = generator(1).normal(size=(300, 2))
    fit = fit_map(x, sign * np.maximum(x[:, 0], 0), GbmapSettings(learners=1, beta=20.0, ridge=1e-6))
    assert fit.map.signs[0] == sign
    assert fit.losses[1] < 1e-3


def test_more_starts_never_end_at_a_higher_objective_of_the_first_learner() -> None:
    for seed in range(5):
        x, y = cosines(200, 4, seed)
        settings = replace(QUICK, learners=1, ridge=0.0)
        once, often = (fit_map(x, y, replace(settings, starts=starts)).losses[1] for starts in (1, 6))
        assert often <= once


@pytest.mark.parametrize(("n", "starts"), [(FEW_ROWS, 2), (FEW_ROWS + 1, 1)])
def test_starts_of_0_are_two_for_few_rows_and_else_one(n: int, starts: int) -> None:
    x, y = data("quadratic", n, 2)
    settings = replace(QUICK, learners=3, iterations=20)
    found, expected = (fit_map(x, y, replace(settings, starts=many)) for many in (0, starts))
    assert found.map.weights.tobytes() == expected.map.weights.tobytes()
    assert found.evaluations == expected.evaluations


def test_random_starts_seldom_find_a_better_first_learner() -> None:
    better = 0
    for seed in range(10):
        x, y = cosines(300, 6, seed)
        settings = replace(QUICK, learners=1)
        once, often = (fit_map(x, y, replace(settings, starts=starts)).losses[1] for starts in (1, 6))
        better += often < once - 0.01
    assert better <= 2


def test_without_an_intercept_the_map_has_no_constants() -> None:
    x, y = cosines(200, 3)
    assert not fit_map(x, y, replace(QUICK, intercept=False)).map.constants.any()
    assert fit_map(x, y, QUICK).map.constants.any()


def test_the_penalty_makes_weights_smaller() -> None:
    x, y = cosines(200, 3)
    small, large = (fit_map(x, y, replace(QUICK, learners=1, ridge=ridge)).map for ridge in (1e-4, 1.0))
    assert np.square(large.weights).sum() < 0.5 * np.square(small.weights).sum()


def test_equal_settings_give_equal_bits_and_other_seeds_or_streams_other_starts() -> None:
    x, y = cosines(300, 4)
    several = replace(QUICK, starts=3)
    first, again = (fit_map(x, y, several).map.embed(x) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    for change in ({"seed": 1}, {"stream": "b"}):
        assert fit_map(x, y, replace(several, **change)).map.embed(x).tobytes() != first.tobytes()
        same = (fit_map(x, y, settings).map.embed(x).tobytes() for settings in (QUICK, replace(QUICK, **change)))
        assert len(set(same)) == 1, "the first start depends on the rows alone"


def test_the_layout_of_the_rows_in_memory_changes_nothing() -> None:
    x, y = cosines(300, 4)
    first = fit_map(x, y, QUICK).map.embed(x)
    assert fit_map(np.asfortranarray(x), y, QUICK).map.embed(x).tobytes() == first.tobytes()
    assert fit_map(np.repeat(x, 2, axis=0)[::2], y.tolist(), QUICK).map.embed(x).tobytes() == first.tobytes()


def test_rows_held_in_single_precision_give_nearly_the_same_map() -> None:
    x, y = cosines(300, 4)
    settings = replace(QUICK, learners=1, tolerance=1e-9, iterations=1000)
    double, single = (fit_map(x, y, replace(settings, single=flag)).map.embed(x) for flag in (False, True))
    assert single == pytest.approx(double, abs=1e-4)
    assert single.tobytes() != double.tobytes()


def test_held_out_rows_end_the_fit_at_the_number_of_learners_that_is_best_for_them() -> None:
    x = generator(1).normal(size=(400, 10))
    y = np.abs(x[:, 0]) + generator(2).normal(size=400)  # noise that 40 learners learn by heart
    settings = GbmapSettings(learners=40, held_out=0.25, patience=3)
    fit, whole = fit_map(x, y, settings), fit_map(x, y, replace(settings, held_out=0.0))
    assert whole.map.learners == 40
    assert fit.map.learners == np.argmin(fit.held_out) < 30
    assert len(fit.held_out) == fit.map.learners + 1 + 3
    assert len(fit.losses) == fit.map.learners + 1
    fresh = generator(3).normal(size=(2_000, 10))
    wrong = [np.square(one.map.predict(fresh) - np.abs(fresh[:, 0])).mean() for one in (fit, whole)]
    assert wrong[0] < wrong[1]


def test_values_of_an_initial_model_may_be_given_instead_of_it() -> None:
    x, y = cosines(200, 3)
    model = fit_map(x, y, QUICK, initial=lambda rows: rows[:, 0]).map
    values = fit_map(x, y, QUICK, initial=x[:, 0]).map
    assert values.embed(x).tobytes() == model.embed(x).tobytes()
    assert values.predict(x) + x[:, 0] == pytest.approx(model.predict(x), rel=1e-12, abs=1e-12)


def test_the_loss_of_what_is_fitted_leaves_out_the_filling_of_the_last_tile() -> None:
    tiles = Tiles.of(np.zeros((3, 1)), np.full(3, 2.0), np.zeros(3), np.arange(3), single=False)
    assert mean_loss(tiles, 0) == 4.0


def test_the_papers_settings_have_names() -> None:
    assert [(name, one.learners, one.beta, one.iterations) for name, one in PRESETS.items()] == [
        ("paper-drift", 20, 5.0, 200),
        ("paper-scaling", 2, 1.0, 100),
        ("paper-features", 32, 5.0, 400),
    ]
    assert {one.ridge for one in PRESETS.values()} == {1e-3}


def test_settings_out_of_range_are_refused_all_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        GbmapSettings(learners=0, beta=-1.0, ridge=np.nan, tolerance=0.0, held_out=1.0, loss="hinge", unit="tanh")  # type: ignore[arg-type]
    assert len(raised.value.findings) == 7
    with pytest.raises(SettingsError, match="expected starts as a whole number of 0 or more, got -1"):
        GbmapSettings(starts=-1)
    assert "expected beta > 0 and finite, got -1.0" in str(raised.value)


def test_a_column_of_zeros_gets_no_weight_unless_the_start_is_drawn_from_n_0_1() -> None:
    x, y = cosines(300, 4, 2)
    x[:, 3] = 0.0
    within = fit_map(x, y, QUICK).map
    drawn = fit_map(x, y, replace(QUICK, start="normal")).map
    assert not within.weights[:, 3].any()
    assert np.abs(drawn.weights[:, 3]).min() > 0.0
    assert not fit_map(x, y, replace(QUICK, start="normal", intercept=False)).map.constants.any()


def test_with_starts_from_n_0_1_every_learner_is_kept() -> None:
    x = generator(3).normal(size=(200, 2))
    linear = replace(QUICK, unit="linear", ridge=0.0)
    within, drawn = (
        fit_map(x, x[:, 0] - x[:, 1], replace(linear, start=start)).map.weights for start in ("rows", "normal")
    )
    assert not within[1:].any() and np.abs(drawn).max(axis=1).min() > 0.0


def test_starts_from_n_0_1_depend_on_the_seed_alone() -> None:
    x, y = cosines(200, 3, 1)
    one, same, other = (fit_map(x, y, replace(QUICK, start="normal", seed=seed)).map for seed in (1, 1, 2))
    assert np.array_equal(one.weights, same.weights) and not np.array_equal(one.weights, other.weights)
    with pytest.raises(SettingsError, match="expected a start of rows, normal, got 'zero'"):
        replace(QUICK, start="zero")  # type: ignore[arg-type]
