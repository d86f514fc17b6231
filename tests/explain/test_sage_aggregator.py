"""The aggregator's part of iSAGE (002, Algorithm 1): the first difference, and values that add up."""

import numpy as np
import pytest

from glasstream.base.errors import FrameError
from glasstream.explain.sage.contributions import OpenContributions
from glasstream.explain.sage.smoothing import SageAggregator

ALPHA = 0.02


def opened(count, width=3, classes=3, seed=1):
    """Open contributions as some model might have given them: each row's add up to minus its model loss."""
    rng = np.random.Generator(np.random.PCG64(seed))
    said = rng.random((count, classes)) + 0.01
    said /= said.sum(axis=1, keepdims=True)
    model_losses = rng.random(count)
    values = rng.normal(size=(count, width))
    if width:
        values[:, -1] -= values.sum(axis=1) + model_losses
    first = rng.integers(0, max(width, 1), count)
    targets = rng.integers(-1, classes, count).astype(float)
    return OpenContributions(values, first, model_losses, said, targets, rng.normal(size=(count, width)))


def part(block, rows):
    return OpenContributions(*(array[rows] for array in block))


def bits(aggregator):
    return [array.tobytes() for array in aggregator.state()[1].values()]


def test_row_5_values_add_up_at_every_step_while_features_and_classes_come():
    aggregator = SageAggregator.empty(ALPHA)
    for step in range(300):
        width, classes = (1, 2) if step < 50 else (3, 2) if step < 100 else (5, 4)
        aggregator.update("brier", opened(1, width, classes, seed=step))
        assert abs(aggregator.smoothing.value.sum() - aggregator.total) <= 1e-9 * (1 + abs(aggregator.total))
        assert aggregator.total == aggregator.marginal_loss - aggregator.model_loss


def test_the_first_difference_is_the_loss_of_the_mean_after_the_row_entered_it():
    block = opened(80)
    completed = SageAggregator.empty(ALPHA).update("cross_entropy", block)
    raw, weight = np.zeros(3), 0.0
    for i in range(80):
        raw = (1 - ALPHA) * raw + ALPHA * block.predictions[i]
        weight = (1 - ALPHA) * weight + ALPHA
        target = int(block.targets[i])
        wanted = block.contributions[i].copy()
        wanted[block.first[i]] += -np.log(raw[target] / weight if target >= 0 else 1e-15)
        assert completed[i] == pytest.approx(wanted, abs=1e-12)


def test_losses_are_smoothed_like_the_contributions():
    block = opened(50)
    aggregator = SageAggregator.empty(ALPHA)
    aggregator.update("brier", block)
    weights = (1 - ALPHA) ** np.arange(49, -1, -1)
    assert aggregator.model_loss == pytest.approx((weights * block.model_losses).sum() / weights.sum(), abs=1e-12)
    assert aggregator.count == 50


def test_the_interval_is_wider_by_the_smoothed_remainder():
    block = opened(50)
    aggregator, plain = SageAggregator.empty(ALPHA), SageAggregator.empty(ALPHA)
    aggregator.update("brier", block)
    plain.update("brier", block._replace(remainders=np.empty((50, 0))))
    weights = (1 - ALPHA) ** np.arange(49, -1, -1)
    left = np.abs(weights @ block.remainders / weights.sum())
    (low, high), (inner_low, inner_high) = aggregator.interval(0.9), plain.interval(0.9)
    assert low == pytest.approx(inner_low - left) and high == pytest.approx(inner_high + left)


def test_the_zero_one_loss_of_the_mean_takes_the_first_largest_class():
    said = np.array([[0.5, 0.5]])
    for target, loss in ((0.0, 0.0), (1.0, 1.0), (-1.0, 1.0)):
        aggregator = SageAggregator.empty(ALPHA)
        zero = np.zeros(1)
        aggregator.update(
            "zero_one",
            OpenContributions(np.zeros((1, 1)), zero.astype(int), zero, said, np.array([target]), np.empty((1, 0))),
        )
        assert aggregator.marginal_loss == loss


def test_how_rows_are_cut_and_a_restore_change_no_bit():
    block = opened(120)
    whole = SageAggregator.empty(ALPHA)
    wanted = whole.update("brier", block)
    aggregator = SageAggregator.empty(ALPHA)
    got = []
    for begin, end in ((0, 1), (1, 1), (1, 33), (33, 119), (119, 120)):
        got.append(aggregator.update("brier", part(block, slice(begin, end))))
        aggregator = SageAggregator.restore(ALPHA, *aggregator.state())
    assert np.concatenate(got).tobytes() == wanted.tobytes()
    assert bits(aggregator) == bits(whole)


def test_a_state_is_a_copy_and_the_block_is_not_changed():
    block = opened(10)
    before = [array.copy() for array in block]
    aggregator = SageAggregator.empty(ALPHA)
    aggregator.update("brier", block)
    assert all((a == b).all() for a, b in zip(block, before, strict=True))
    kept = aggregator.state()[1]
    frozen = {name: array.copy() for name, array in kept.items()}
    aggregator.update("brier", block)
    assert all((kept[name] == frozen[name]).all() for name in kept)


def test_a_row_without_features_distributes_nothing():
    aggregator = SageAggregator.empty(ALPHA)
    aggregator.update("brier", opened(5, width=0))
    assert aggregator.count == 5 and aggregator.total == 0.0 and aggregator.marginal_loss > 0.0


def test_nothing_explained_is_0():
    aggregator = SageAggregator.empty(ALPHA)
    assert (aggregator.count, aggregator.total, aggregator.smoothing.value.size) == (0, 0.0, 0)
    assert SageAggregator.restore(ALPHA, *aggregator.state()).count == 0


@pytest.mark.parametrize("name", ["values.raw", "losses.weight", "mean.raw", "mean.weight"])
def test_a_state_that_lacks_something_is_refused(name):
    aggregator = SageAggregator.empty(ALPHA)
    aggregator.update("brier", opened(5))
    meta, arrays = aggregator.state()
    with pytest.raises(FrameError, match="expected"):
        SageAggregator.restore(ALPHA, meta, {key: array for key, array in arrays.items() if key != name})
    with pytest.raises(FrameError, match="expected"):
        SageAggregator.restore(ALPHA, meta, {**arrays, name: np.zeros((4, 4))})
    with pytest.raises(FrameError, match="its count: Expected `int`"):
        SageAggregator.restore(ALPHA, {}, arrays)
