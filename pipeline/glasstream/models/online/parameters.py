"""Which parameters are supported, and how they are passed to kernels."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from glasstream.base.errors import ModelError, NotCompilable
from glasstream.models.online import layout as L
from glasstream.models.online.layout import Array

Parameters = dict[str, Any]
"""Names and values of River's parameters, as JSON has them."""

_CRITERIA: Final = {"gini": L.GINI, "info_gain": L.INFO_GAIN, "hellinger": L.HELLINGER}
_PREDICTIONS: Final = {"mc": L.MAJORITY, "nb": L.BAYES, "nba": L.BAYES_ADAPTIVE}
_TARGET_PREDICTIONS: Final = {"mean": L.MEAN_LEAF, "model": L.MODEL_LEAF, "adaptive": L.ADAPTIVE_LEAF}
MOST_DIGITS: Final = 7
"""Decimal places to which kernels round exactly."""
EVERY_DIGIT: Final = -1
"""In the place of decimal places: features are not rounded."""
ADWIN: Final = ("delta", "clock", "max_buckets", "min_window_length", "grace_period")
SPLITS: Final = 10
"""Thresholds that River's default splitter of a classifier tries."""
OF_TREES_OF_FOREST: Final[Mapping[str, Any]] = {
    "splitter": 1,
    "leaf_model": [0.01, 0.0, 0.01, 1e12],
    "min_samples_split": 5,
}
"""What River's forest of regressors leaves to its trees: their defaults."""
_MEAN: Final = "mean"
_MANY: Final = 10_000
MOST_ADDED: Final = 128
"""Numbers up to which kernels add them in numpy's order."""
_INT32: Final = 2**31 - 1  # the largest count of River's ADWIN


def _number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and low <= value <= high


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _one_of(*values: object) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(one) and value == one for one in values)


def _names(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _list_of(*checks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(checks)
        and all(check(one) for check, one in zip(checks, value, strict=True))
    )


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


_adwin = _list_of(_number(1e-300, 1), _whole(1, _INT32), _whole(2, 64), _whole(1, _INT32), _whole(0, _INT32))
_linear = _list_of(*(_number(-1e300, 1e300),) * 3, _number(0.0, 1e300))
_SWITCH: Final = _one_of(False, True)
OF_TREES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "grace_period": (_number(0, 2**53), "a number from 0 on"),
    "max_depth": (_whole(0, L.DEEPEST - 2), f"at most {L.DEEPEST - 2}"),
    "split_criterion": (_one_of(*_CRITERIA), "one of " + ", ".join(_CRITERIA)),
    "delta": (_number(1e-300, 1.0), "in (0, 1]"),
    "tau": (_number(-1e300, 1e300), "a number"),
    "leaf_prediction": (_one_of(*_PREDICTIONS), "one of " + ", ".join(_PREDICTIONS)),
    "nb_threshold": (_number(-1e300, 1e300), "a number"),
    "nominal_attributes": (_names, "names as text"),
    "splitter": (_or_none(_whole(0, _MANY)), "GaussianSplitter"),
    "binary_split": (_SWITCH, "a boolean"),
    "min_branch_fraction": (_number(0.0, 1.0), "in [0, 1]"),
    "max_share_to_split": (_number(-1e300, 1e300), "a number"),
    "max_size": (_number(100.0, 1e300), "at least 100, River's default: smaller limits count bytes of Python objects"),
    "memory_estimate_period": (_whole(1, 2**53), "a whole number"),
    "stop_mem_management": (_one_of(False), "False"),
    "remove_poor_attrs": (_one_of(False), "False"),
    "merit_preprune": (_SWITCH, "a boolean"),
}
OF_REGRESSORS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    **{
        name: check
        for name, check in OF_TREES.items()
        if name not in ("split_criterion", "nb_threshold", "min_branch_fraction", "max_share_to_split")
    },
    "leaf_prediction": (_one_of(*_TARGET_PREDICTIONS), "one of " + ", ".join(_TARGET_PREDICTIONS)),
    "leaf_model": (_linear, "an untrained LinearRegression with SGD, constant rates, squared loss and no penalty"),
    "model_selector_decay": (_number(0.0, 1.0), "in [0, 1]"),
    "splitter": (_whole(EVERY_DIGIT, MOST_DIGITS), f"EBSTSplitter, or TEBSTSplitter with at most {MOST_DIGITS} digits"),
    "min_samples_split": (_number(0, 2**53), "a number from 0 on"),
}
_OF_ADAPTIVE_TREES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "bootstrap_sampling": (_SWITCH, "a boolean"),
    "drift_window_threshold": (_number(-1e300, 1e300), "a number"),
    "drift_detector": (_adwin, "ADWIN"),
    "switch_significance": (_number(1e-300, 2.0), "in (0, 2]"),
    "seed": (lambda value: value is None or type(value) is int, "a whole number"),
}
_OF_FORESTS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "max_depth": (_or_none(_whole(0, L.DEEPEST - 2)), f"at most {L.DEEPEST - 2}"),
    "n_models": (_whole(1, _MANY), "a whole number"),
    "max_features": (
        lambda value: value is None or value in ("sqrt", "log2") or type(value) in (int, float),
        "one of sqrt, log2, None or a number",
    ),
    "lambda_value": (_number(0, 700), "a number from 0 to 700"),
    "disable_weighted_vote": (_SWITCH, "a boolean"),
    "drift_detector": (_or_none(_adwin), "ADWIN or NoDrift"),
    "warning_detector": (_or_none(_adwin), "ADWIN or NoDrift"),
    "seed": (lambda value: value is None or type(value) is int, "a whole number"),
}
OF: Final[Mapping[int, Mapping[str, tuple[Callable[[Any], bool], str]]]] = {
    L.TREE_FAMILY: OF_TREES,
    L.TREE_REGRESSOR: OF_REGRESSORS,
    L.ADAPTIVE_REGRESSOR: {**OF_REGRESSORS, **_OF_ADAPTIVE_TREES},
    L.ADAPTIVE_FAMILY: {
        **OF_TREES,
        **_OF_ADAPTIVE_TREES,
    },
    L.FOREST_FAMILY: {
        **OF_TREES,
        **_OF_FORESTS,
        "metric": (_one_of("Accuracy"), "Accuracy"),
    },
    L.FOREST_REGRESSOR: {
        **OF_REGRESSORS,
        **_OF_FORESTS,
        "metric": (_one_of("MSE"), "MSE"),
        "aggregation_method": (_one_of(_MEAN, "median"), "mean or median"),
        "leaf_model": (_or_none(OF_REGRESSORS["leaf_model"][0]), OF_REGRESSORS["leaf_model"][1]),
        "splitter": (_or_none(OF_REGRESSORS["splitter"][0]), OF_REGRESSORS["splitter"][1]),
    },
}


def check(family: int, parameters: Mapping[str, Any]) -> None:
    """Refuse what is not supported.

    Raises
    ------
    NotCompilable
        A parameter is missing, unknown or has a value that is not supported.
    """
    expected = OF[family]
    if parameters.keys() != expected.keys():
        raise NotCompilable(f"expected the parameters {', '.join(expected)}, got {', '.join(parameters)}")
    for name, (fits, what) in expected.items():
        if not fits(parameters[name]):
            raise NotCompilable(f"{name}: expected {what}, got {parameters[name]!r:.100}")
    if parameters.get("aggregation_method") == _MEAN and parameters["n_models"] > MOST_ADDED:
        raise NotCompilable(f"n_models: expected at most {MOST_ADDED} for a mean, got {parameters['n_models']}")


def of_trees(family: int, parameters: Mapping[str, Any]) -> Parameters:
    """Return the parameters of a model's trees: a forest for regression leaves some of them to the trees."""
    if family != L.FOREST_REGRESSOR:
        return dict(parameters)
    left = {name for name in ("splitter", "leaf_model") if parameters[name] is None} | {"min_samples_split"}
    return {**parameters, **{name: OF_TREES_OF_FOREST[name] for name in left}}


def shape(family: int) -> int:
    """Return the family of the classifier that has the form of this family: a tree, an adaptive tree or a forest."""
    return family % L.TREE_REGRESSOR


def options(family: int, parameters: Mapping[str, Any], max_depth: int) -> Array:
    """Return the options of kernels; those that depend on the stream are 0."""
    made = np.zeros(L.OPTIONS, np.int64)
    made[L.FAMILY], made[L.MAX_DEPTH] = shape(family), max_depth
    if family >= L.TREE_REGRESSOR:
        made[L.REGRESSION] = 1
        made[L.PREDICTION] = _TARGET_PREDICTIONS[parameters["leaf_prediction"]]
        made[L.DIGITS] = parameters["splitter"]
    else:
        made[L.CRITERION] = _CRITERIA[parameters["split_criterion"]]
        made[L.PREDICTION] = _PREDICTIONS[parameters["leaf_prediction"]]
        made[L.CANDIDATES] = SPLITS if parameters["splitter"] is None else parameters["splitter"]
    made[L.BINARY_ONLY], made[L.PREPRUNE] = parameters["binary_split"], parameters["merit_preprune"]
    made[L.BOOTSTRAP] = parameters.get("bootstrap_sampling", False)
    made[L.MODELS] = parameters.get("n_models", 1)
    made[L.MEDIAN] = parameters.get("aggregation_method", _MEAN) != _MEAN
    made[L.WEIGHTED] = not (parameters.get("disable_weighted_vote", False) or made[L.MEDIAN])
    return made


def numbers(parameters: Mapping[str, Any]) -> Array:
    """Return the numbers of kernels."""
    made = np.zeros(L.NUMBERS)
    made[L.GRACE], made[L.TAU] = parameters["grace_period"], parameters["tau"]
    made[L.LOG_DELTA] = math.log(1.0 / parameters["delta"])
    if "leaf_model" in parameters:
        made[L.DECAY], made[L.LEAST_SAMPLES] = parameters["model_selector_decay"], parameters["min_samples_split"]
        made[L.RATE], made[L.INTERCEPT_START], made[L.INTERCEPT_RATE], made[L.CLIP] = parameters["leaf_model"]
        made[L.POWER_OF_TEN] = 10.0 ** max(parameters["splitter"], 0)
    else:
        made[L.BRANCH_FRACTION], made[L.SHARE] = parameters["min_branch_fraction"], parameters["max_share_to_split"]
        made[L.BAYES_WEIGHT] = parameters["nb_threshold"]
    made[L.TWO], made[L.HALF], made[L.ROOT_TWO] = 2.0, 0.5, math.sqrt(2.0)
    made[L.HALF_LOG_TAU] = 0.5 * math.log(math.tau)
    made[L.SWITCH_LOG] = math.log(2.0 / parameters.get("switch_significance", 2.0))
    made[L.SIGNIFICANCE] = parameters.get("switch_significance", 0.0)
    made[L.SWITCH_WINDOW] = parameters.get("drift_window_threshold", 0)
    made[L.POISSON_LIMIT] = math.exp(-parameters.get("lambda_value", 1))
    return made


def detectors(parameters: Mapping[str, Any]) -> Array:
    """Return float64[2, 5]: the parameters of the detectors of warnings and of drifts; zeros where there is none."""
    made = np.zeros((2, len(ADWIN)))
    for which, name in enumerate(("warning_detector", "drift_detector")):
        if parameters.get(name) is not None:
            made[which] = parameters[name]
    return made


def most_features(given: Any, features: int) -> int:
    """Return how many features a leaf of a forest may watch: `_set_max_features`.

    Raises
    ------
    ModelError
        The first event has no feature, of which there is no logarithm.
    """
    if given == "log2" and features == 0:
        raise ModelError("max_features: expected the first event of a forest to have a feature, for log2")
    if given == "sqrt":
        most = round(math.sqrt(features))
    elif given == "log2":
        most = round(math.log2(features))
    elif isinstance(given, int):
        most = given
    elif isinstance(given, float):
        most = int(given * features)
    else:
        most = features
    if most < 0:
        most += features
    return min(max(most, 1), features)


def pool_most(most: int) -> int:
    """Return the largest population of which `random.sample` makes a pool to draw `most` from."""
    size = 21
    if most > 5:
        size += 4 ** math.ceil(math.log(most * 3, 4))
    return size
