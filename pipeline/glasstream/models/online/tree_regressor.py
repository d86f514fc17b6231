"""HoeffdingTreeRegressor: a block of events in one call."""

from typing import Any

from glasstream.base.jit import bare_kernel
from glasstream.models.online import layout as L
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import find_leaf
from glasstream.models.online.growing import learn_target_below
from glasstream.models.online.leaves import UNASKED
from glasstream.models.online.targets import answer_of


@bare_kernel
def tree_regressor_block(
    p: L.Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, most: float, values: Any, outcomes: Any
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
        if y[e] == y[e] and not learn_target_below(p, 0, 0, X, e, order, 0, y[e], weight[e], UNASKED, UNASKED):
            outcomes[e] = L.RAISED
    return X.shape[0]
