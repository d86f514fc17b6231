"""The block function of iSAGE (002, Algorithm 1): against plain Python, and what it must leave unchanged."""

from math import log

import numpy as np
import pytest

from glasstream.explain.losses import CustomLoss
from glasstream.explain.sage.contributions import OpenContributions, contributions, correctable, first_largest
from glasstream.models.predictors.predictor import Output


class Toy:
    """Three classes with probabilities that are quotients, or a number; absent features count as 0."""

    compiled = True

    def __init__(self, task="classification", classes=("a", "b", "c")):
        self.task = task
        self.classes = classes if task == "classification" else ()
        self.features = ()

    def evaluate(self, rows):
        x = np.nan_to_num(rows)
        total = np.zeros(len(x))
        for j in range(x.shape[1]):
            total = total + (j + 1) * x[:, j] * (1 + x[:, j - 1])
        if self.task == "regression":
            return Output(total[:, None], np.full(len(x), -1))
        votes = np.stack([1 + total * total, 2 + np.abs(total), 3 / (1 + np.abs(total))], axis=1)
        said = votes / (votes[:, 0] + votes[:, 1] + votes[:, 2])[:, None]
        said = np.ascontiguousarray(said[:, : len(self.classes)])
        return Output(said, first_largest(said))


LOSSES = {
    "zero_one": lambda p, y: float(y < 0 or p.index(max(p)) != y),
    "cross_entropy": lambda p, y: -log(max(p[y], 1e-15)) if y >= 0 else -log(1e-15),
    "brier": lambda p, y: sum((q - (c == y)) ** 2 for c, q in enumerate(p)) + (y < 0),
    "squared": lambda p, y: (p[0] - y) ** 2,
    "absolute": lambda p, y: abs(p[0] - y),
}


def block_of(loss, count=40, width=4, steps=1, inner=3, seed=1):
    """Rows with absent features and their draws."""
    rng = np.random.Generator(np.random.PCG64(seed))
    toy = Toy("regression" if loss in ("squared", "absolute") else "classification")
    rows = rng.normal(size=(count, width))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    background = rng.normal(size=(count, steps, inner, width))
    background[rng.random(background.shape) < 0.2] = np.nan
    targets = rng.normal(size=count) if toy.task == "regression" else rng.integers(-1, 3, count).astype(float)
    order = rng.permuted(np.tile(np.arange(width), (count, 1)), axis=1)
    return toy, rows, targets, order, background


def in_plain_python(toy, loss, row, target, order, background, corrected=False):
    """Algorithm 1, lines 7 to 19, for one row; the first loss before is 0."""
    lost, before = {}, 0.0
    for step, feature in enumerate(order):
        after = LOSSES[loss](toy.evaluate(row[None]).values[0].tolist(), int(target) if toy.classes else target)
        if step < len(order) - 1:
            drawn = background[step if len(background) > 1 else 0].copy()
            drawn[:, order[: step + 1]] = row[order[: step + 1]]
            said = np.array([toy.evaluate(one[None]).values[0] for one in drawn])
            after = LOSSES[loss](said.mean(axis=0).tolist(), int(target) if toy.classes else target)
            after -= excess_in_plain_python(loss, said, int(target)) if corrected else 0.0
        lost[feature] = before - after
        before = after
    return [lost[feature] for feature in range(len(order))]


def excess_in_plain_python(loss, said, target):
    if loss != "cross_entropy":
        return said.var(axis=0, ddof=1).sum() / len(said)
    true = said[:, target] if target >= 0 else np.zeros(len(said))
    return true.var(ddof=1) / len(said) / (2 * true.mean() ** 2) if true.any() else 0.0


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_equals_plain_python(loss, steps):
    toy, rows, targets, order, background = block_of(loss, steps=steps)
    block = contributions(toy, loss, rows, targets, order, background)
    wanted = [in_plain_python(toy, loss, *row) for row in zip(rows, targets, order, background, strict=True)]
    assert block.contributions == pytest.approx(np.array(wanted), abs=1e-9)
    assert block.first.tolist() == order[:, 0].tolist()
    assert block.predictions.tobytes() == toy.evaluate(rows).values.tobytes()


@pytest.mark.parametrize("loss", ["squared", "brier", "cross_entropy"])
def test_the_corrected_estimator_equals_plain_python(loss):
    toy, rows, targets, order, background = block_of(loss)
    block = contributions(toy, loss, rows, targets, order, background, corrected=True)
    wanted = [in_plain_python(toy, loss, *row, True) for row in zip(rows, targets, order, background, strict=True)]
    assert block.contributions == pytest.approx(np.array(wanted), abs=1e-9)


@pytest.mark.parametrize("inner", [3, 5])
def test_the_remainder_of_cross_entropy_compares_all_rows_with_all_but_one(inner):
    toy, rows, targets, order, background = block_of("cross_entropy", inner=inner)
    block = contributions(toy, "cross_entropy", rows, targets, order, background, corrected=True)
    whole = np.array([np.cumsum(one[turn]) for one, turn in zip(block.contributions, order, strict=True)])
    fewer = np.zeros_like(whole)
    for out in range(inner):
        kept = np.delete(background, out, axis=2)
        for i, one in enumerate(zip(rows, targets, order, kept, strict=True)):
            fewer[i] += np.cumsum(np.array(in_plain_python(toy, "cross_entropy", *one, True))[order[i]]) / inner
    remainders = np.array([np.cumsum(one[turn]) for one, turn in zip(block.remainders, order, strict=True)])
    assert remainders == pytest.approx((fewer - whole) / (inner**2 / (inner - 1) ** 2 - 1), abs=1e-9)
    assert np.abs(remainders[:, -1]).max() < 1e-12 and np.abs(remainders).max() > 1e-4


def test_where_no_background_row_gives_the_true_class_the_loss_bounds_the_remainder():
    class Never(Toy):
        def evaluate(self, rows):
            said = np.where(rows[:, :1] > 5, [[0.5, 0.5, 0.0]], [[0.0, 0.5, 0.5]])
            return Output(said, np.zeros(len(rows), np.int64))

    arrays = np.array([[9.0, 0.0]]), np.zeros(1), np.array([[1, 0]]), np.zeros((1, 1, 3, 2))
    block = contributions(Never(), "cross_entropy", *arrays, corrected=True)
    assert block.contributions.tolist() == pytest.approx(np.array([[-log(2) - log(1e-15), log(1e-15)]]))
    assert np.abs(block.remainders) == pytest.approx(-log(1e-15))


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("width", [0, 1, 2, 5])
def test_completed_contributions_add_up_row_by_row(width, corrected):
    toy, rows, targets, order, background = block_of("brier", width=width)
    block = contributions(toy, "brier", rows, targets, order, background, corrected)
    values, marginal = block.completed(np.linspace(0, 2, len(rows)))
    assert values.sum(axis=1) == pytest.approx(marginal - block.model_losses, abs=1e-12)
    assert (marginal == (np.linspace(0, 2, len(rows)) if width else block.model_losses)).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_row_does_not_depend_on_the_rows_beside_it(loss):
    toy, *arrays = block_of(loss)
    whole = contributions(toy, loss, *arrays, corrected=True)
    for rows in (slice(0, 1), slice(1, 17), slice(17, 40), slice(5, 5)):
        part = contributions(toy, loss, *(array[rows] for array in arrays), corrected=True)
        assert all(a.tobytes() == b[rows].tobytes() for a, b in zip(part, whole, strict=True))


def test_a_feature_that_the_background_shares_contributes_nothing_after_the_first():
    toy, rows, targets, _, background = block_of("squared")
    background[:, 0, :, 2] = rows[:, None, 2]
    order = np.tile([0, 2, 3, 1], (len(rows), 1))
    assert not contributions(toy, "squared", rows, targets, order, background).contributions[:, 2].any()


def test_the_last_loss_is_that_of_the_model_with_its_own_label():
    class Contrary(Toy):
        def evaluate(self, rows):
            said = super().evaluate(rows)
            return Output(said.values, np.full(len(rows), 2))

    _, rows, _, order, background = block_of("zero_one")
    block = contributions(Contrary(), "zero_one", rows, np.full(len(rows), 2.0), order, background)
    assert not block.model_losses.any()


def test_the_label_of_a_mean_is_the_first_largest_and_none_where_nothing_is_predicted():
    assert first_largest(np.array([[0.2, 0.4, 0.4], [0.0, 0.0, 0.0]])).tolist() == [1, -1]
    assert first_largest(np.zeros((2, 0))).tolist() == [-1, -1]


def test_a_loss_of_ones_own():
    toy, *arrays = block_of("squared")
    own = CustomLoss("quadratic", "regression", lambda value, target: (value - target) ** 2)
    mine, ours = (contributions(toy, loss, *arrays) for loss in (own, "squared"))
    assert all(np.allclose(a, b, atol=1e-9) for a, b in zip(mine, ours, strict=True))


@pytest.mark.parametrize(("loss", "inner"), [("absolute", 5), ("zero_one", 5), ("squared", 1), ("cross_entropy", 2)])
def test_what_has_no_correction_stays_as_it_is(loss, inner):
    toy, *arrays = block_of(loss, inner=inner)
    plain, corrected = (contributions(toy, loss, *arrays, corrected) for corrected in (False, True))
    assert not correctable(loss, inner) and corrected.remainders.shape[1] == 0
    assert plain.contributions.tobytes() == corrected.contributions.tobytes()


class Linear:
    """2 x_0 + x_1 + 0 x_2."""

    task, classes, features, compiled = "regression", (), ("a", "b", "c"), True

    def evaluate(self, rows):
        return Output((2 * rows[:, 0] + rows[:, 1])[:, None], np.full(len(rows), -1))


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    ("inner", "corrected", "expected"),
    [
        (1, False, [19 / 3, 1 / 3, -5 / 3]),
        (5, False, [67 / 15, 13 / 15, -1 / 3]),
        (2, True, [4, 1, 0]),
        (5, True, [4, 1, 0]),
    ],
)
def test_row_6_finite_m_closed_form_and_its_correction(inner, corrected, expected, fresh):
    """E φ_i = c_i (1 + (d-1)/(dm)) - Σ_{j≠i} c_j / (dm) for squared loss, linear f and independent features."""
    count, d = 100_000, 3
    rng = np.random.Generator(np.random.PCG64(6))
    rows = rng.normal(size=(count, d))
    order = rng.permuted(np.tile(np.arange(d), (count, 1)), axis=1)
    background = rng.normal(size=(count, d - 1 if fresh else 1, inner, d))
    targets = Linear().evaluate(rows).values[:, 0]
    block = contributions(Linear(), "squared", rows, targets, order, background, corrected)
    values, _ = block.completed(targets * targets)  # the mean prediction is 0
    error = values.std(axis=0) / np.sqrt(count)
    assert error.max() < 0.06
    assert (np.abs(values.mean(axis=0) - expected) < 3 * error).all()


def test_open_contributions_take_part_rows():
    first, ones = np.zeros(2, np.int64), np.ones(2)
    block = OpenContributions(np.zeros((2, 1)), first, ones, np.ones((2, 1)), np.zeros(2), np.empty((2, 0)))
    values, marginal = block.completed(np.array([3.0, 4.0]))
    assert values.tolist() == [[3.0], [4.0]] and marginal.tolist() == [3.0, 4.0]
    assert not block.contributions.any()
