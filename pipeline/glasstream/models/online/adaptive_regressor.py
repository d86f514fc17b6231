"""HoeffdingAdaptiveTreeRegressor: a block of events in one call.

As in the adaptive classifier, an alternate tree is always one leaf: when it splits, it takes its branch's place.
"""

import math
from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.adaptive import COUNT, KILL, deactivate, replace, visit, wake
from glasstream.models.online.adwin import new_detector, update
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import common_child, find_leaf, next_child
from glasstream.models.online.reductions import attempt_reduction
from glasstream.models.online.splits import append_child
from glasstream.models.online.targets import answer_of, learn_target, new_target_leaf, observe_target, variance
from glasstream.models.online.twister import poisson

Pool = Any


@bare_kernel
def adaptive_regressor_block(
    p: Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, most: float, values: Any, outcomes: Any
) -> int:
    """Predict, then learn, the events from `first` on; parameters and result as of `tree_regressor_block`."""
    for e in range(first, X.shape[0]):
        if not has_room(p, order.size):
            return e
        outcomes[e] = L.ANSWERED
        leaf, answer = 0, 0.0
        if p.tree[0, L.ROOT] != 0:
            leaf = find_leaf(p, p.tree[0, L.ROOT], X, e)
            answer = answer_of(p, leaf, X, e, order)
        if says[e]:
            values[e] = _mean_answer(p, answer, X, e, order) if leaf != 0 else 0.0
            if says[e] == L.FINITE and not abs(values[e]) <= most:
                outcomes[e] = L.REFUSED
                continue
        if y[e] == y[e]:
            outcomes[e] = _learn(p, leaf, answer, X, e, order, y[e], weight[e])
    return X.shape[0]


@bare_kernel
def _mean_answer(p: Pool, answer: float, X: Any, e: int, order: Any) -> float:
    """Return the mean of the answers of the leaf, and of the alternates of the branches on the way.

    Where an event lacks the feature of a branch, River visits the child that it then takes twice.
    """
    node, visits = p.tree[0, L.ROOT], 1
    total, count = 0.0, 1
    while p.I[node + L.KIND] != L.LEAF:
        alternate = p.I[node + L.ALTERNATE]
        if alternate != 0:
            for _ in range(visits):
                total += answer_of(p, alternate, X, e, order)
                count += 1
        child, visits = next_child(p, node, X, e), 1
        if child == 0:
            child, visits = common_child(p, node), 2
        node = child
    return (total + answer) / count


# --- Learning ---------------------------------------------------------------------------------------------------------
@inlined
def _forget_error(p: Pool, node: int) -> None:
    p.F[node + L.ERROR_COUNT], p.F[node + L.ERROR_MEAN] = 0.0, 0.0
    p.F[p.I[node + L.WEIGHTS] + L.ERROR_DEVIATION] = 0.0


@inlined
def _observe(p: Pool, node: int, error: float) -> bool:
    """Update a node's detector and the statistics of its error; return whether the error has risen."""
    F, I = p.F, p.I
    before = F[node + L.ERROR_MEAN]
    I[node + L.DETECTOR] = update(F, I, p.control, p.detector, I[node + L.DETECTOR], 1, error)
    F[node + L.ERROR_COUNT] += 1.0
    F[node + L.ERROR_MEAN] += (1.0 / F[node + L.ERROR_COUNT]) * (error - before)
    F[I[node + L.WEIGHTS] + L.ERROR_DEVIATION] += (error - before) * (error - F[node + L.ERROR_MEAN])
    changed = I[I[node + L.DETECTOR] + L.DETECTED] == 1
    if changed and F[node + L.ERROR_MEAN] < before:
        _forget_error(p, node)
        changed = False
    return changed


@inlined
def _learn(p: Pool, leaf: int, answer: float, X: Any, e: int, order: Any, y: float, weight: float) -> int:
    """`learn_one` of the tree; return the outcome. `leaf` predicts `answer` for the event."""
    I = p.I
    p.tree[0, L.LEARNED] += int(weight)
    node, parent = p.tree[0, L.ROOT], 0
    if node == 0:
        node = new_target_leaf(p, 0, 0)
        p.tree[0, L.ROOT] = node
        p.tree[0, L.ACTIVE_LEAVES] = 1
    while I[node + L.KIND] != L.LEAF:
        observe_target(p, node, y, weight)
        alternate = I[node + L.ALTERNATE]
        if _observe(p, node, abs(y - answer)) and alternate == 0:
            _forget_error(p, node)
            alternate = new_target_leaf(p, I[node + L.DEPTH], 0)
            I[node + L.ALTERNATE] = alternate
            p.tree[0, L.ALTERNATES] += 1
        elif alternate != 0:
            outcome, alternate = _compare(p, node, parent, alternate)
            if outcome != L.ANSWERED:
                return outcome
        if alternate != 0:
            other = answer_of(p, alternate, X, e, order)
            outcome = _learn_leaf(p, alternate, other, X, e, order, y, weight, True, node, parent)
            if outcome != L.ANSWERED:
                return outcome
        child = next_child(p, node, X, e)
        if child == 0:
            value = X[e, I[node + L.FEATURE]]
            if I[node + L.KIND] == L.MULTIWAY and value == value:
                child = new_target_leaf(p, I[node + L.DEPTH] + 1, 0)
                append_child(p, node, child, value)
                p.tree[0, L.ACTIVE_LEAVES] += 1
            else:
                child = common_child(p, node)
        parent, node = node, child
    if node != leaf:
        answer = answer_of(p, node, X, e, order)
    return _learn_leaf(p, node, answer, X, e, order, y, weight, False, 0, parent)


@inlined
def _error_variance(p: Pool, node: int) -> float:
    return variance((p.F[node + L.ERROR_COUNT], 0.0, p.F[p.I[node + L.WEIGHTS] + L.ERROR_DEVIATION]))


@bare_kernel
def _compare(p: Pool, node: int, parent: int, alternate: int) -> tuple[int, int]:
    """Let an alternate take its branch's place, or drop it.

    Return the outcome, and the alternate that still learns, or 0. Where both errors have been constant, the test
    divides by zero, which River raises.
    """
    F = p.F
    count, other_count = F[node + L.ERROR_COUNT], F[alternate + L.ERROR_COUNT]
    if not (other_count > p.number[L.SWITCH_WINDOW] and count > p.number[L.SWITCH_WINDOW]):
        return L.ANSWERED, alternate
    error, other = F[node + L.ERROR_MEAN], F[alternate + L.ERROR_MEAN]
    spread = math.sqrt(_error_variance(p, alternate) / other_count + _error_variance(p, node) / count)
    if spread == 0.0:
        return L.DIVIDED, alternate
    z = (other - error) / spread
    if not 2.0 * (0.5 * (1.0 + math.erf(-abs(z) / p.number[L.ROOT_TWO]))) <= p.number[L.SIGNIFICANCE]:
        return L.ANSWERED, alternate
    if not other < error:
        p.I[node + L.ALTERNATE] = 0
        p.tree[0, L.PRUNED] += 1
        return L.ANSWERED, 0
    p.tree[0, L.ACTIVE_LEAVES] += 1 - visit(p, node, COUNT)
    visit(p, node, KILL)
    replace(p, parent, node, alternate)
    p.I[node + L.ALTERNATE] = 0
    p.tree[0, L.SWITCHED] += 1
    return L.ANSWERED, alternate if parent == 0 else 0


@bare_kernel
def _learn_leaf(
    p: Pool, leaf: int, answer: float, X: Any, e: int, order: Any, y: float, weight: float,
    is_alternate: bool, owner: int, parent: int,
) -> int:  # fmt: skip
    """`learn_one` of a leaf. Where an alternate splits, it takes the place of `owner` below `parent`."""
    F, I = p.F, p.I
    if p.option[L.BOOTSTRAP] == 1:
        draw = poisson(p.twister, p.position, p.number[L.POISSON_LIMIT])
        if draw > 0:
            weight *= draw
    _observe(p, leaf, abs(y - answer))
    if not learn_target(p, leaf, X, e, order, y, weight):
        return L.RAISED
    seen = F[I[leaf + L.WEIGHTS] + L.SEEN]
    if not seen - F[leaf + L.LAST] >= p.number[L.GRACE]:
        return L.ANSWERED
    if I[leaf + L.DEPTH] >= p.option[L.MAX_DEPTH]:
        deactivate(p, leaf)
    elif I[leaf + L.ACTIVE] == 1:
        children = attempt_reduction(p, leaf, seen)
        if children > 0:
            p.tree[0, L.ACTIVE_LEAVES] += children - 1
            I[leaf + L.DETECTOR] = new_detector(p, 1)
            _forget_error(p, leaf)
            if is_alternate:
                replace(p, parent, owner, leaf)
                I[owner + L.ALTERNATE] = 0
            wake(p)
            return L.ANSWERED
        F[leaf + L.LAST] = seen
        if children < 0:
            deactivate(p, leaf)
            wake(p)
    return L.ANSWERED
