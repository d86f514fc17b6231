"""HoeffdingTreeRegressor: a block of events in one call."""

from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import common_child, find_leaf, next_child
from glasstream.models.online.leaves import forget_slots
from glasstream.models.online.reductions import attempt_reduction
from glasstream.models.online.splits import append_child
from glasstream.models.online.targets import answer_of, learn_target, new_target_leaf

Pool = Any


@bare_kernel
def tree_regressor_block(
    p: Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, most: float, values: Any, outcomes: Any
) -> int:
    """Predict, then learn, the events from `first` on; return how many are done.

    Parameters
    ----------
    X
        float64[n, features], NaN where a feature is absent.
    y
        float64[n]: targets, or NaN of events that are only predicted.
    weight
        float64[n]
    order
        The features in the order in which the events name them.
    says
        int64[n]: how to answer each event, `layout.SILENT`, `ANSWERS` or `FINITE`.
    most
        With `FINITE`, an event with a prediction beyond ±`most` is not learned.
    values, outcomes
        float64[n] and int64[n]: what is predicted, and `ANSWERED`, `REFUSED` or `RAISED`.
    """
    for e in range(first, X.shape[0]):
        if not has_room(p, order.size):
            return e
        outcomes[e] = L.ANSWERED
        if says[e]:
            values[e] = 0.0
            if p.tree[0, L.ROOT] != 0:
                values[e] = answer_of(p, find_leaf(p, p.tree[0, L.ROOT], X, e), X, e, order)
            if says[e] == L.FINITE and not abs(values[e]) <= most:
                outcomes[e] = L.REFUSED
                continue
        if y[e] == y[e] and not learn_target_below(p, 0, X, e, order, y[e], weight[e]):
            outcomes[e] = L.RAISED
    return X.shape[0]


@inlined
def learn_target_below(p: Pool, t: int, X: Any, e: int, order: Any, y: float, weight: float) -> bool:
    """`learn_one` of the tree in row `t`; return False where River raises an OverflowError."""
    F, I = p.F, p.I
    p.tree[t, L.LEARNED] += int(weight)
    node = p.tree[t, L.ROOT]
    if node == 0:
        node = new_target_leaf(p, 0, 0)
        p.tree[t, L.ROOT] = node
        p.tree[t, L.ACTIVE_LEAVES] = 1
    stuck = False
    while I[node + L.KIND] != L.LEAF:
        child = next_child(p, node, X, e)
        if child == 0:
            stuck = True
            value = X[e, I[node + L.FEATURE]]
            if I[node + L.KIND] == L.MULTIWAY and value == value:
                child = new_target_leaf(p, I[node + L.DEPTH] + 1, 0)
                append_child(p, node, child, value)
                p.tree[t, L.ACTIVE_LEAVES] += 1
            else:
                child = common_child(p, node)
        node = child
    if not learn_target(p, node, X, e, order, y, weight):
        return False
    if stuck or I[node + L.ACTIVE] == 0:
        return True
    if I[node + L.DEPTH] >= p.option[L.MAX_DEPTH]:
        I[node + L.ACTIVE] = 0
        forget_slots(p, node)
        p.tree[t, L.ACTIVE_LEAVES] -= 1
        p.tree[t, L.INACTIVE_LEAVES] += 1
        return True
    seen = F[I[node + L.WEIGHTS] + L.SEEN]
    if seen - F[node + L.LAST] >= p.number[L.GRACE]:
        children = attempt_reduction(p, node, seen)
        if children > 0:
            p.tree[t, L.ACTIVE_LEAVES] += children - 1
        else:
            if children < 0:  # deactivated, and at once activated again by _enforce_size_limit
                forget_slots(p, node)
            F[node + L.LAST] = seen
    return True
