"""HoeffdingAdaptiveTreeRegressor: a block of events in one call."""

import math
from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import alternates
from glasstream.models.online import layout as L
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import common_child, find_leaf, next_child
from glasstream.models.online.growing import child_with_targets, root_of_targets
from glasstream.models.online.moments import observe, variance
from glasstream.models.online.targets import answer_of, learn_target, new_target_leaf


@bare_kernel
def adaptive_regressor_block(
    p: L.Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, most: float, values: Any, outcomes: Any
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
def _mean_answer(p: L.Pool, answer: float, X: Any, e: int, order: Any) -> float:
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
def _learn(p: L.Pool, leaf: int, answer: float, X: Any, e: int, order: Any, y: float, weight: float) -> int:
    """`learn_one` of the tree; return the outcome. `leaf` predicts `answer` for the event."""
    I = p.I
    p.tree[0, L.LEARNED] += int(weight)
    node, parent = root_of_targets(p, 0), 0
    while I[node + L.KIND] != L.LEAF:
        observe(p.F, I[node + L.WEIGHTS], y, weight)
        alternate = I[node + L.ALTERNATE]
        if alternates.observe_target_error(p, node, abs(y - answer)) and alternate == 0:
            alternates.forget_target_error(p, node)
            alternate = new_target_leaf(p, I[node + L.DEPTH], 0)
            alternates.begin_alternate(p, node, alternate)
        elif alternate != 0:
            outcome, alternate = _compare(p, node, parent, alternate)
            if outcome != L.ANSWERED:
                return outcome
        if alternate != 0:
            other = answer_of(p, alternate, X, e, order)
            outcome = _learn_leaf(p, alternate, other, X, e, order, y, weight, True, node, parent)
            if outcome != L.ANSWERED:
                return outcome
        parent, node = node, child_with_targets(p, 0, node, X, e)[0]
    if node != leaf:
        answer = answer_of(p, node, X, e, order)
    return _learn_leaf(p, node, answer, X, e, order, y, weight, False, 0, parent)


@inlined
def _error_variance(p: L.Pool, node: int) -> float:
    return variance((p.F[node + L.ERROR_COUNT], 0.0, p.F[p.I[node + L.WEIGHTS] + L.ERROR_DEVIATION]))


@bare_kernel
def _compare(p: L.Pool, node: int, parent: int, alternate: int) -> tuple[int, int]:
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
        alternates.drop_alternate(p, node)
        return L.ANSWERED, 0
    return L.ANSWERED, alternates.switch(p, node, parent, alternate)


@bare_kernel
def _learn_leaf(
    p: L.Pool, leaf: int, answer: float, X: Any, e: int, order: Any, y: float, weight: float,
    is_alternate: bool, owner: int, parent: int,
) -> int:  # fmt: skip
    """`learn_one` of a leaf. Where an alternate splits, it takes the place of `owner` below `parent`."""
    weight = alternates.drawn_weight(p, weight)
    alternates.observe_target_error(p, leaf, abs(y - answer))
    if not learn_target(p, leaf, X, e, order, y, weight):
        return L.RAISED
    alternates.grow_target_leaf(p, leaf, is_alternate, owner, parent)
    return L.ANSWERED
