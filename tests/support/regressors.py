"""One regressor of each compiled family."""

from collections.abc import Callable
from typing import Any

from river import forest, tree

from tests.support import adaptive_regressors, forest_regressors, tree_regressors

REGRESSORS: dict[str, Callable[[], Any]] = {
    "tree": lambda: tree.HoeffdingTreeRegressor(**tree_regressors.EAGER),
    "unsure": lambda: tree.HoeffdingTreeRegressor(**tree_regressors.UNSURE),
    "adaptive": lambda: tree.HoeffdingAdaptiveTreeRegressor(**adaptive_regressors.RESTLESS),
    "forest": lambda: forest.ARFRegressor(**forest_regressors.RESTLESS),
    "weighted": lambda: forest.ARFRegressor(
        **forest_regressors.RESTLESS, **forest_regressors.WEIGHTED, leaf_prediction="mean"
    ),
    "means": lambda: tree.HoeffdingTreeRegressor(**tree_regressors.EAGER, leaf_prediction="mean"),
}
