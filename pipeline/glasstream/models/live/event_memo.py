"""Remember the answers of River's trees for the event that is processed now.

River asks its trees repeatedly. An adaptive tree asks the naive Bayes of a leaf to predict the event, in every branch
above the leaf, and where the leaf learns: 5.1 times an event on the Agrawal stream, 54 % of its time. A forest asks
each tree when it predicts and again before the tree learns. An answer changes only when the leaf, or the tree, has
learned.
"""

import functools
from typing import Any, Final

from river import forest, tree
from river.tree import utils
from river.tree.nodes import hatc_nodes, htc_nodes

_TYPES: Final = frozenset(
    {
        tree.HoeffdingTreeClassifier,
        tree.HoeffdingAdaptiveTreeClassifier,
        tree.ExtremelyFastDecisionTreeClassifier,
        forest.ARFClassifier,
    }
)
"""Models that pass an event to their leaves unchanged."""

_ask: Final = utils.do_naive_bayes_prediction
_predict: Final = tree.HoeffdingTreeClassifier.predict_proba_one


class _UnderWay:
    """The event that a model predicts and learns now."""

    x: object = None
    #: Answers of leaves, by the identity of a leaf's class weights: the weights, the leaf's splitters, the sum of the
    #: weights at the time of the answer, and the answer. Learning adds to the weights.
    leaves: Final[dict[int, tuple[object, object, float, dict[Any, float]]]] = {}
    #: Answers of trees, by their identity: the tree, the weight it had learned at the time, and the answer.
    trees: Final[dict[int, tuple[object, float, dict[Any, float]]]] = {}


def asks_repeatedly(model: object) -> bool:
    """Return whether `begin` makes a model faster."""
    return type(model) in _TYPES


def begin(x: object) -> None:
    """Remember answers for the event `x` from now on. The caller must not change `x`."""
    _UnderWay.x = x
    _UnderWay.leaves.clear()
    _UnderWay.trees.clear()


def end() -> None:
    """Forget the event: River behaves as without this module."""
    begin(None)


def _ask_once(x: Any, weights: dict[Any, float], splitters: Any) -> dict[Any, float]:
    """Replace River's function for the naive Bayes of a leaf."""
    if x is not _UnderWay.x:
        return _ask(x, weights, splitters)  # type: ignore[no-any-return]
    total = sum(weights.values())
    known = _UnderWay.leaves.get(id(weights))
    if known is None or known[1] is not splitters or known[2] != total:
        known = _UnderWay.leaves[id(weights)] = (weights, splitters, total, _ask(x, weights, splitters))
    return known[3].copy()


def _predict_once(model: Any, x: Any) -> dict[Any, float]:
    """Replace River's method for the class shares of a tree that is not adaptive."""
    if x is not _UnderWay.x:
        return _predict(model, x)  # type: ignore[no-any-return]
    learned = model._train_weight_seen_by_model
    known = _UnderWay.trees.get(id(model))
    if known is None or known[1] != learned:
        known = _UnderWay.trees[id(model)] = (model, learned, _predict(model, x))
    return known[2].copy()


for _nodes in (htc_nodes, hatc_nodes):
    _nodes.do_naive_bayes_prediction = _ask_once
tree.HoeffdingTreeClassifier.predict_proba_one = functools.wraps(_predict)(_predict_once)
