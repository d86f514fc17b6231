"""Kernels that scale, predict and learn, event by event."""

import math
from typing import Final

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online.layout import REFUSED
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.linear_forms import SIGMOID, linked

COUNT, MEAN, VARIANCE, WEIGHT, MET = range(5)
"""Fields of a feature."""
FIELDS: Final = 5
INTERCEPT, STEPS, RATE, INTERCEPT_RATE, CLIP, HALF, POWER, IMPLICIT = range(8)
"""Fields of `numbers`. The rate of the intercept at step t is INTERCEPT_RATE / (t + 1) ** POWER."""
NUMBERS: Final = 8
REGRESSION, BINARY, ONE_VS_REST = range(3)
"""Kinds of models."""


@inlined
def _score(features: Array, numbers: Array, member: int, slots: Array, values: Array, count: int) -> float:
    """Return the linear form of an event with `count` values."""
    dot = 0.0
    for k in range(count):
        j = slots[k]
        variance, scaled = features[member, j, VARIANCE], 0.0
        if variance != 0.0:
            scaled = (values[k] - features[member, j, MEAN]) / variance ** numbers[member, HALF]
        dot += features[member, j, WEIGHT] * scaled
        features[member, j, MET] = 1.0
    return float(dot + numbers[member, INTERCEPT])


@inlined
def _learn(
    features: Array,
    numbers: Array,
    member: int,
    slots: Array,
    values: Array,
    scaled: Array,
    count: int,
    y: float,
    logistic: bool,
) -> None:
    """Learn an event: first the scaler, then a step on what it makes of the event. `scaled` is scratch space."""
    dot = 0.0
    for k in range(count):
        j, x = slots[k], values[k]
        times = features[member, j, COUNT] + 1.0
        before, variance = features[member, j, MEAN], features[member, j, VARIANCE]
        mean = before + (x - before) / times
        variance += ((x - before) * (x - mean) - variance) / times
        features[member, j, COUNT], features[member, j, MEAN], features[member, j, VARIANCE] = times, mean, variance
        features[member, j, MET] = 1.0
        scaled[k] = (x - mean) / variance ** numbers[member, HALF] if variance != 0.0 else 0.0
        dot += features[member, j, WEIGHT] * scaled[k]
    gradient = _gradient(dot + numbers[member, INTERCEPT], y, logistic)
    clip = numbers[member, CLIP]
    if clip < gradient:  # comparisons as in River, for which NaN passes
        gradient = clip
    if -clip > gradient:
        gradient = -clip
    step = numbers[member, INTERCEPT_RATE] / (numbers[member, STEPS] + 1.0) ** numbers[member, POWER]
    numbers[member, INTERCEPT] -= step * gradient
    if numbers[member, IMPLICIT] != 0.0:  # `ImplicitRegression`
        squares = 0.0
        for k in range(count):
            squares += scaled[k] * scaled[k]
        gradient /= 1.0 + 2.0 * numbers[member, RATE] * squares
    for k in range(count):
        features[member, slots[k], WEIGHT] -= numbers[member, RATE] * (scaled[k] * gradient)
    numbers[member, STEPS] += 1.0


@inlined
def _gradient(score: float, y: float, logistic: bool) -> float:
    if not logistic:
        return 2.0 * (score - y)
    sign = -1.0 if y == 0.0 else 1.0
    z = score * sign
    if z > 18.0:
        return math.exp(-z) * -sign
    if z < -18.0:
        return -sign
    return -sign / (math.exp(z) + 1.0)


@bare_kernel
def score_row(features: Array, numbers: Array, slots: Array, values: Array, link: int) -> float:
    """Return the prediction of the only member for one event."""
    return float(linked(_score(features, numbers, 0, slots, values, slots.size), link))


@bare_kernel
def learn_row(
    features: Array, numbers: Array, slots: Array, values: Array, scaled: Array, y: float, logistic: bool
) -> None:
    """Let the only member learn one event."""
    _learn(features, numbers, 0, slots, values, scaled, slots.size, y, logistic)


@bare_kernel
def learn_rows(
    features: Array,
    numbers: Array,
    order: Array,
    born: Array,
    slots: Array,
    X: Array,
    y: Array,
    given: Array,
    scaled: Array,
    named: Array,
    kind: int,
    dense: bool,
    bounds: Array,
    votes: Array,
    sequence: Array,
    labels: Array,
) -> None:
    """Predict each event, then learn it, one after the other.

    Parameters
    ----------
    features, numbers, order
        The model.
    born
        int64[1]: how many entries of `order` there are.
    slots
        int64[d]: the slot of each column.
    X, y
        float64[n, d], float64[n]: the events and their targets or numbers of classes. A target of NaN, or a class of
        -1, means that an event is predicted only.
    given, scaled, named
        float64[d], float64[d], int64[d]: scratch space.
    kind
        Kind of the model.
    dense
        Whether NaN is a value, and not a feature that the event lacks.
    bounds
        float64[n]: an event is learned only if the sum of its votes is within ± this number; NaN means always.
    votes, sequence, labels
        Receive the answers: [n, classes], [n, classes], [n]; for a regression votes[n, 1], and `REFUSED` in labels.
    """
    for e in range(X.shape[0]):
        count = 0
        for k in range(slots.size):
            x = X[e, k]
            if dense or x == x:
                given[count], named[count] = x, slots[k]
                count += 1
        total = 0.0
        for k in range(born[0]):
            m = order[k]
            score = _score(features, numbers, m, named, given, count)
            votes[e, m] = score if kind == REGRESSION else linked(score, SIGMOID)
            total += votes[e, m]
        if kind != REGRESSION:
            total = _vote(votes, sequence, labels, order, born[0], kind, e, total)
        if bounds[e] == bounds[e] and not abs(total) <= bounds[e]:
            labels[e] = REFUSED
            continue
        if kind == REGRESSION:
            if y[e] == y[e]:
                _learn(features, numbers, 0, named, given, scaled, count, y[e], False)
        elif y[e] >= 0.0:
            if kind == BINARY:
                _learn(features, numbers, 0, named, given, scaled, count, y[e], True)
                continue
            truth = int(y[e])
            known = False
            for k in range(born[0]):
                known |= order[k] == truth
            if not known:
                order[born[0]] = truth
                born[0] += 1
            for k in range(born[0]):
                same = 1.0 if order[k] == truth else 0.0
                _learn(features, numbers, order[k], named, given, scaled, count, same, True)


@inlined
def _vote(
    votes: Array, sequence: Array, labels: Array, order: Array, born: int, kind: int, e: int, total: float
) -> float:
    """Write the answer of a classifier, of whose members votes[e] holds the probabilities; return the votes' sum."""
    if kind == BINARY:
        share = votes[e, 0]
        votes[e, 0], votes[e, 1] = 1.0 - share, share
        sequence[e, 0], sequence[e, 1] = 0, 1
        labels[e] = 1 if share > votes[e, 0] else 0
        return float(votes[e, 0] + share)
    for k in range(votes.shape[1]):
        sequence[e, k] = -1
    best, summed = -1, 0.0
    for k in range(born):
        m = order[k]
        votes[e, m] = votes[e, m] / total if total != 0.0 else 1.0 / born
        summed += votes[e, m]
        sequence[e, k] = m
        if best < 0 or votes[e, m] > votes[e, best]:
            best = m
    labels[e] = best
    return summed
