"""The leaves of River's regression trees, flattened."""

from collections.abc import Iterable
from typing import Any, Final

from river import linear_model, optim

from glasstream.base.errors import NotCompilable
from glasstream.models.predictors.arrays import sealed_tuple
from glasstream.models.predictors.kernels.walk import Means
from glasstream.models.predictors.slots import ABSENT, Slots
from glasstream.models.river.leaves import OF_REGRESSORS, by_type

LEAF_TYPES: Final = by_type(OF_REGRESSORS)

IDENTITY_LOSSES: Final = frozenset(
    {
        optim.losses.Absolute,
        optim.losses.Cauchy,
        optim.losses.EpsilonInsensitiveHinge,
        optim.losses.Huber,
        optim.losses.Quantile,
        optim.losses.Squared,
    }
)
"""River's losses for regressions whose prediction is the linear form itself."""


def weight(leaf: Any) -> float:
    """Return the total weight that a leaf has seen."""
    return float(leaf.stats.mean.n)


def check_leaf_model(tree: Any) -> None:
    """Check that the leaf models that `tree` may grow can be flattened.

    Raises
    ------
    NotCompilable
        The leaf models are not linear regressions with a plain link.
    """
    if tree.leaf_prediction != "mean":
        _check_linear(tree.leaf_model)


def flatten(leaves: Iterable[Any], slots: Slots) -> Means:
    """Return the answers of the leaves.

    Raises
    ------
    NotCompilable
        A leaf's model is not a linear regression with a plain link.
    """
    values: list[float] = []
    starts = [0]
    entries: list[tuple[int, float]] = []
    for leaf in leaves:
        kind = LEAF_TYPES[type(leaf)]
        if kind == "mean" or (kind == "adaptive" and leaf._fmse_mean < leaf._fmse_model):
            values.append(leaf.stats.mean.get())
        else:
            model = leaf._leaf_model
            _check_linear(model)
            values.append(model.intercept)
            own = [(slots.numeric(name, "a leaf"), factor) for name, factor in model.weights.items()]
            entries.extend(sorted(pair for pair in own if pair[0] != ABSENT))
        starts.append(len(entries))
    arrays = (values, starts, [slot for slot, _ in entries], [factor for _, factor in entries])
    return sealed_tuple(Means, arrays)


def _check_linear(model: Any) -> None:
    if type(model) is not linear_model.LinearRegression or type(model.loss) not in IDENTITY_LOSSES:
        loss = f" with the loss {type(model.loss).__name__}" if type(model) is linear_model.LinearRegression else ""
        raise NotCompilable(
            f"leaves with a {type(model).__name__}{loss} have no compiled form; use a LinearRegression with a loss "
            "that does not transform its predictions"
        )
