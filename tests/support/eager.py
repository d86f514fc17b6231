"""Models that grow and change within few events, as factories of `model.name`."""

from typing import Any

from river import compose, drift, forest, linear_model, optim, preprocessing, tree

SPLITS: dict[str, Any] = {"grace_period": 10, "delta": 0.5, "tau": 0.3}


def plain_tree() -> Any:
    return tree.HoeffdingTreeClassifier(**SPLITS)


def adaptive_tree() -> Any:
    return tree.HoeffdingAdaptiveTreeClassifier(
        **SPLITS, drift_window_threshold=20, drift_detector=drift.ADWIN(delta=0.3, clock=4), seed=3
    )


def steep() -> Any:
    """A regression whose weights explode."""
    return compose.Pipeline(preprocessing.StandardScaler(), linear_model.LinearRegression(optim.SGD(1e50)))


def scaled() -> Any:
    return compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())


def small_forest() -> Any:
    return forest.ARFClassifier(**SPLITS, **_bagging())


def forest_of_models() -> Any:
    return forest.ARFRegressor(**SPLITS, **_bagging())


def _bagging() -> dict[str, Any]:
    return {
        "n_models": 3,
        "seed": 3,
        "drift_detector": drift.ADWIN(delta=0.2, clock=4),
        "warning_detector": drift.ADWIN(delta=0.4, clock=4),
    }


def tree_of_models() -> Any:
    return tree.HoeffdingTreeRegressor(**SPLITS)


def tree_of_means() -> Any:
    return tree.HoeffdingTreeRegressor(**SPLITS, leaf_prediction="mean")


def adaptive_tree_of_models() -> Any:
    return tree.HoeffdingAdaptiveTreeRegressor(
        **SPLITS, drift_window_threshold=20, drift_detector=drift.ADWIN(delta=0.3, clock=4), seed=3
    )
