"""ARFRegressor: a block of events in one call."""

import math
from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import find_leaf
from glasstream.models.online.forest import watch_error
from glasstream.models.online.growing import learn_target_below
from glasstream.models.online.leaves import UNASKED
from glasstream.models.online.moments import square, variance
from glasstream.models.online.targets import answer_of
from glasstream.models.online.twister import poisson
from glasstream.models.predictors.kernels.average import mean_of_row, median_of_row, sum_of_row

_ANSWERS = 0
"""Row of `room`: what each tree predicts."""
_VOTES = 1
"""Row of `room`: the same, times the tree's weight, or sorted."""
_WEIGHTS = 2
"""Row of `room`: the weight of each tree."""


@bare_kernel
def forest_regressor_block(
    p: L.Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, most: float, values: Any, outcomes: Any
) -> int:
    """Predict, then learn, the events from `first` on; parameters and result as of `tree_regressor_block`.

    As in River, bagging draws the weight of an event for each tree, and `weight` has no effect.
    """
    for e in range(first, X.shape[0]):
        if not has_room(p, order.size):
            return e
        outcomes[e] = L.ANSWERED
        for t in range(p.option[L.MODELS]):
            answer = 0.0
            if p.tree[t, L.ROOT] != 0:
                answer = answer_of(p, find_leaf(p, p.tree[t, L.ROOT], X, e), X, e, order)
            p.room[_ANSWERS, t] = answer
        if says[e]:
            values[e] = _combined(p)
            if says[e] == L.FINITE and not abs(values[e]) <= most:
                outcomes[e] = L.REFUSED
                continue
        if y[e] == y[e]:
            for t in range(p.option[L.MODELS]):
                if not _learn(p, t, p.room[_ANSWERS, t], X, e, order, y[e]):
                    outcomes[e] = L.RAISED
                    break
    return X.shape[0]


@inlined
def _combined(p: L.Pool) -> float:
    """Return the prediction of the forest: the median of its trees' predictions, or their mean, which may be weighted.

    River takes the mean, not the sum, of predictions times weights that add up to 1. The larger the error of a tree,
    the smaller is its weight.
    """
    room, models = p.room, p.option[L.MODELS]
    for t in range(models):
        room[_VOTES, t] = room[_ANSWERS, t]
    if p.option[L.MEDIAN] == 1:
        return median_of_row(room, _VOTES, models)
    if p.option[L.WEIGHTED] == 1:
        losses = 0.0
        for t in range(models):
            losses += p.scores[t, L.LOSS]
        if losses != 0.0:
            for t in range(models):
                room[_WEIGHTS, t] = losses - p.scores[t, L.LOSS]
            total = sum_of_row(room, _WEIGHTS, models)
            for t in range(models):
                room[_VOTES, t] *= room[_WEIGHTS, t] / total
    return mean_of_row(room, _VOTES, models)


@inlined
def _learn(p: L.Pool, t: int, answer: float, X: Any, e: int, order: Any, y: float) -> bool:
    """One round of `learn_one`; return False where River raises an OverflowError, after which it learns no more."""
    error = y - answer
    squared = square(error, p.number[L.TWO])
    if squared == math.inf and abs(error) < math.inf:
        return False
    p.scores[t, L.SCORED] += 1.0
    p.scores[t, L.LOSS] += (1.0 / p.scores[t, L.SCORED]) * (squared - p.scores[t, L.LOSS])
    draw = poisson(p.twister, p.position, p.number[L.POISSON_LIMIT])
    if draw <= 0:
        return True
    background = p.option[L.MODELS] + t
    for learner in (background, t):
        learns = learner == t or p.tree[background, L.EXISTS] == 1
        if learns and not learn_target_below(p, learner, 0, X, e, order, 0, y, float(draw), UNASKED, UNASKED):
            return False
    if p.tree[t, L.WARNING] != 0 or p.tree[t, L.DRIFT] != 0:
        watch_error(p, t, _scaled(p, t, error))
    return True


@inlined
def _scaled(p: L.Pool, t: int, error: float) -> float:
    """Return the error between 0 and 1 if it is within three standard deviations: `_drift_detector_input`."""
    scores = p.scores
    before = scores[t, L.NORM + 1]
    scores[t, L.NORM] += 1.0
    scores[t, L.NORM + 1] += (1.0 / scores[t, L.NORM]) * (error - before)
    scores[t, L.NORM + 2] += (error - before) * (error - scores[t, L.NORM + 1])
    if scores[t, L.NORM] == 1.0:
        return 0.5
    deviation = math.sqrt(variance((scores[t, L.NORM], scores[t, L.NORM + 1], scores[t, L.NORM + 2])))
    if deviation > 0.0:
        return (error + 3.0 * deviation) / (6.0 * deviation)
    return 0.5
