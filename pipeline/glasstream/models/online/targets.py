"""What a leaf of a regressor knows: statistics of its targets, a linear model, and an observer of each feature."""

import math
from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import take, wider
from glasstream.models.online.leaves import new_node
from glasstream.models.online.moments import observe, square
from glasstream.models.online.observers import watch_with_target


# --- Leaves ---------------------------------------------------------------------------------------------------------
@bare_kernel
def new_target_leaf(p: L.Pool, depth: int, parent: int) -> int:
    """Return the address of a new leaf, with the linear model and the losses of the leaf `parent` if that is not 0."""
    F, I = p.F, p.I
    node = new_node(p, depth, L.TARGET)
    target = I[node + L.WEIGHTS]
    I[node + L.CLASSES] = 1
    if p.option[L.PREDICTION] == L.MEAN_LEAF:
        return node
    F[target + L.INTERCEPT] = p.number[L.INTERCEPT_START]
    if parent != 0:
        source = I[parent + L.WEIGHTS]
        F[target + L.INTERCEPT] = F[source + L.INTERCEPT]
        I[target + L.STEPS] = I[source + L.STEPS]
        F[target + L.MEAN_LOSS] = F[source + L.MEAN_LOSS]
        F[target + L.MODEL_LOSS] = F[source + L.MODEL_LOSS]
        count = I[source + L.ENTRY_COUNT]
        if count > 0:
            entries = take(p, L.PAIR * count)
            for word in range(L.PAIR * count):
                I[entries + word] = I[I[source + L.ENTRIES] + word]
            I[target + L.ENTRIES], I[target + L.ENTRY_COUNT], I[target + L.ENTRY_ROOM] = entries, count, count
    return node


# --- Linear model ---------------------------------------------------------------------------------------------------
@inlined
def _entry(p: L.Pool, target: int, feature: int, guess: int) -> int:
    """Return the place of a feature among the weights of a leaf's model, or -1. `guess` is where it probably is."""
    I = p.I
    entries, count = I[target + L.ENTRIES], I[target + L.ENTRY_COUNT]
    if guess < count and I[entries + L.PAIR * guess + L.CLASS] == feature:
        return guess
    for q in range(count):
        if I[entries + L.PAIR * q + L.CLASS] == feature:
            return q
    return -1


@inlined
def linear(p: L.Pool, node: int, X: Any, e: int, order: Any) -> float:
    """Return what a leaf's linear model predicts; the sum is in the order in which the event names its features."""
    target = p.I[node + L.WEIGHTS]
    entries = p.I[target + L.ENTRIES]
    dot = 0.0
    guess = 0
    for q in range(order.size):
        feature = order[q]
        value = X[e, feature]
        if value == value:
            place = _entry(p, target, feature, guess)
            if place >= 0:
                dot += p.F[entries + L.PAIR * place] * value
                guess = place + 1
    return dot + p.F[target + L.INTERCEPT]


@bare_kernel
def _more_entries(p: L.Pool, target: int, expected: int) -> None:
    """Make room for more weights."""
    I = p.I
    count = I[target + L.ENTRY_COUNT]
    room = max(wider(count), count + expected) if count > 0 else expected
    entries = take(p, L.PAIR * room)
    for word in range(L.PAIR * count):
        I[entries + word] = I[I[target + L.ENTRIES] + word]
    I[target + L.ENTRIES], I[target + L.ENTRY_ROOM] = entries, room
    p.control[L.MOST_ENTRIES] = max(p.control[L.MOST_ENTRIES], room)


@inlined
def _learn_linear(p: L.Pool, node: int, X: Any, e: int, order: Any, y: float, weight: float, predicted: float) -> None:
    """One step of stochastic gradient descent on the squared loss: `GLM.learn_one`."""
    F, I = p.F, p.I
    target = I[node + L.WEIGHTS]
    gradient = 2.0 * (predicted - y)
    gradient *= weight
    if p.number[L.CLIP] < gradient:
        gradient = p.number[L.CLIP]
    if -p.number[L.CLIP] > gradient:
        gradient = -p.number[L.CLIP]
    F[target + L.INTERCEPT] -= p.number[L.INTERCEPT_RATE] * gradient
    guess = 0
    for q in range(order.size):
        feature = order[q]
        value = X[e, feature]
        if value == value:
            place = _entry(p, target, feature, guess)
            if place < 0:
                place = I[target + L.ENTRY_COUNT]
                if place == I[target + L.ENTRY_ROOM]:
                    _more_entries(p, target, order.size)
                F[I[target + L.ENTRIES] + L.PAIR * place] = 0.0
                I[I[target + L.ENTRIES] + L.PAIR * place + L.CLASS] = feature
                I[target + L.ENTRY_COUNT] = place + 1
            F[I[target + L.ENTRIES] + L.PAIR * place] -= p.number[L.RATE] * (value * gradient)
            guess = place + 1
    I[target + L.STEPS] += 1


# --- Predicting and learning ----------------------------------------------------------------------------------------
@inlined
def answers_mean(p: L.Pool, node: int) -> bool:
    """Return whether a leaf predicts the mean of its targets, not its linear model."""
    if p.option[L.PREDICTION] == L.ADAPTIVE_LEAF:
        target = p.I[node + L.WEIGHTS]
        return p.F[target + L.MEAN_LOSS] < p.F[target + L.MODEL_LOSS]
    return p.option[L.PREDICTION] == L.MEAN_LEAF


@inlined
def answer_of(p: L.Pool, node: int, X: Any, e: int, order: Any) -> float:
    """Return the prediction of a leaf."""
    if answers_mean(p, node):
        return p.F[p.I[node + L.WEIGHTS] + L.AVERAGE]
    return linear(p, node, X, e, order)


@inlined
def learn_target(p: L.Pool, node: int, X: Any, e: int, order: Any, y: float, weight: float) -> bool:
    """`learn_one` of a leaf; return False where River's squared error raises an OverflowError."""
    F, I = p.F, p.I
    target = I[node + L.WEIGHTS]
    predicted = 0.0
    if p.option[L.PREDICTION] != L.MEAN_LEAF:
        predicted = linear(p, node, X, e, order)
    if p.option[L.PREDICTION] == L.ADAPTIVE_LEAF:
        two, decay = p.number[L.TWO], p.number[L.DECAY]
        F[target + L.MEAN_LOSS] = decay * F[target + L.MEAN_LOSS] + square(y - F[target + L.AVERAGE], two)
        error = y - predicted
        squared = square(error, two)
        if squared == math.inf and abs(error) < math.inf:
            return False
        F[target + L.MODEL_LOSS] = decay * F[target + L.MODEL_LOSS] + squared
    observe(F, target, y, weight)
    if I[node + L.ACTIVE] == 1:
        watch_with_target(p, node, X, e, order, 0, y, weight)
    if p.option[L.PREDICTION] != L.MEAN_LEAF:
        _learn_linear(p, node, X, e, order, y, weight, predicted)
    return True
