"""Which parameters of River's models are supported, and how kernels are told of them."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from river import drift, forest, metrics, tree
from river.tree.splitter import GaussianSplitter

from glasstream.errors import ModelError, NotCompilable
from glasstream.learning.layout import (
    ADAPTIVE_FAMILY,
    BAYES,
    BAYES_ADAPTIVE,
    BAYES_WEIGHT,
    BINARY_ONLY,
    BOOTSTRAP,
    BRANCH_FRACTION,
    CANDIDATES,
    CRITERION,
    DEEPEST,
    FAMILY,
    FOREST_FAMILY,
    GINI,
    GRACE,
    HALF,
    HALF_LOG_TAU,
    HELLINGER,
    INFO_GAIN,
    LOG_DELTA,
    MAJORITY,
    MAX_DEPTH,
    MODELS,
    NUMBERS,
    OPTIONS,
    POISSON_LIMIT,
    PREDICTION,
    PREPRUNE,
    ROOT_TWO,
    SHARE,
    SWITCH_LOG,
    SWITCH_WINDOW,
    TAU,
    TREE_FAMILY,
    TWO,
    WEIGHTED,
    Array,
)

Parameters = dict[str, Any]
"""Names and values of River's parameters, as JSON has them."""

FAMILIES: Final[Mapping[type, int]] = {
    tree.HoeffdingTreeClassifier: TREE_FAMILY,
    tree.HoeffdingAdaptiveTreeClassifier: ADAPTIVE_FAMILY,
    forest.ARFClassifier: FOREST_FAMILY,
}
_CRITERIA: Final = {"gini": GINI, "info_gain": INFO_GAIN, "hellinger": HELLINGER}
_PREDICTIONS: Final = {"mc": MAJORITY, "nb": BAYES, "nba": BAYES_ADAPTIVE}
ADWIN: Final = ("delta", "clock", "max_buckets", "min_window_length", "grace_period")
_MANY: Final = 10_000


def _number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and low <= value <= high


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _one_of(*values: object) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(one) and value == one for one in values)


def _names(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def _adwin(value: Any) -> bool:
    limits = (_number(1e-300, 1.0), _whole(1, 2**31), _whole(2, 64), _whole(1, 2**31 - 1), _whole(0, 2**31 - 1))
    return isinstance(value, list) and len(value) == len(limits) and all(map(_holds, limits, value))


def _holds(check: Callable[[Any], bool], value: Any) -> bool:
    return check(value)


_SWITCH: Final = _one_of(False, True)
OF_TREES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "grace_period": (_number(0, 2**53), "a number from 0 on"),
    "max_depth": (_whole(0, DEEPEST - 2), f"at most {DEEPEST - 2}"),
    "split_criterion": (_one_of(*_CRITERIA), "one of " + ", ".join(_CRITERIA)),
    "delta": (_number(1e-300, 1.0), "in (0, 1]"),
    "tau": (_number(-1e300, 1e300), "a number"),
    "leaf_prediction": (_one_of(*_PREDICTIONS), "one of " + ", ".join(_PREDICTIONS)),
    "nb_threshold": (_number(-1e300, 1e300), "a number"),
    "nominal_attributes": (_names, "names as text"),
    "splitter": (lambda value: value is None or _whole(0, _MANY)(value), "GaussianSplitter"),
    "binary_split": (_SWITCH, "a boolean"),
    "min_branch_fraction": (_number(0.0, 1.0), "in [0, 1]"),
    "max_share_to_split": (_number(-1e300, 1e300), "a number"),
    "max_size": (_number(100.0, 1e300), "at least 100, River's default: smaller limits count bytes of Python objects"),
    "memory_estimate_period": (_whole(1, 2**53), "a whole number"),
    "stop_mem_management": (_one_of(False), "False"),
    "remove_poor_attrs": (_one_of(False), "False"),
    "merit_preprune": (_SWITCH, "a boolean"),
}
_OF: Final[Mapping[int, Mapping[str, tuple[Callable[[Any], bool], str]]]] = {
    TREE_FAMILY: OF_TREES,
    ADAPTIVE_FAMILY: {
        **OF_TREES,
        "bootstrap_sampling": (_SWITCH, "a boolean"),
        "drift_window_threshold": (_number(-1e300, 1e300), "a number"),
        "drift_detector": (_adwin, "ADWIN"),
        "switch_significance": (_number(1e-300, 2.0), "in (0, 2]"),
        "seed": (lambda value: value is None or type(value) is int, "a whole number"),
    },
    FOREST_FAMILY: {
        **OF_TREES,
        "max_depth": (lambda value: value is None or _whole(0, DEEPEST - 2)(value), f"at most {DEEPEST - 2}"),
        "n_models": (_whole(1, _MANY), "a whole number"),
        "max_features": (
            lambda value: value is None or value in ("sqrt", "log2") or type(value) in (int, float),
            "one of sqrt, log2, None or a number",
        ),
        "lambda_value": (_number(0, 700), "a number from 0 to 700"),
        "metric": (_one_of("Accuracy"), "Accuracy"),
        "disable_weighted_vote": (_SWITCH, "a boolean"),
        "drift_detector": (lambda value: value is None or _adwin(value), "ADWIN or NoDrift"),
        "warning_detector": (lambda value: value is None or _adwin(value), "ADWIN or NoDrift"),
        "seed": (lambda value: value is None or type(value) is int, "a whole number"),
    },
}


def read(model: Any) -> Parameters:
    """Return the parameters of a River model.

    Raises
    ------
    NotCompilable
        The model is of no family of ours, or a parameter has a value that is not supported.
    """
    family = FAMILIES.get(type(model))
    if family is None:
        names = ", ".join(one.__name__ for one in FAMILIES)
        raise NotCompilable(f"expected one of {names}, got {type(model).__name__}")
    parameters = {name: plain(getattr(model, name)) for name in _OF[family]}
    check(family, parameters)
    return parameters


def check(family: int, parameters: Mapping[str, Any]) -> None:
    """Refuse what is not supported.

    Raises
    ------
    NotCompilable
        A parameter is missing, unknown or has a value that is not supported.
    """
    expected = _OF[family]
    if parameters.keys() != expected.keys():
        raise NotCompilable(f"expected the parameters {', '.join(expected)}, got {', '.join(parameters)}")
    for name, (fits, what) in expected.items():
        if not fits(parameters[name]):
            raise NotCompilable(f"{name}: expected {what}, got {parameters[name]!r:.100}")


def plain(value: Any) -> Any:
    """Return the value of a parameter as JSON has it; what is not supported comes back as it is."""
    if type(value) is drift.ADWIN:
        return [getattr(value, name) for name in ADWIN]
    if type(value) is drift.NoDrift:
        return None
    if type(value) is GaussianSplitter:
        return value.n_splits
    if type(value) is metrics.Accuracy and value.cm.n_samples == 0:
        return "Accuracy"
    if isinstance(value, list | tuple | set | frozenset):
        return list(value) if isinstance(value, list) else sorted(value, key=repr)
    return value


def river_arguments(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what River's constructor is called with."""
    arguments = dict(parameters)
    if arguments["splitter"] is not None:
        arguments["splitter"] = GaussianSplitter(arguments["splitter"])
    for name in ("drift_detector", "warning_detector"):
        if name in arguments:
            arguments[name] = adwin(arguments[name])
    if "metric" in arguments:
        arguments["metric"] = metrics.Accuracy()
    return arguments


def adwin(values: list[Any] | None) -> Any:
    """Return a new detector with these parameters."""
    return drift.NoDrift() if values is None else drift.ADWIN(**dict(zip(ADWIN, values, strict=True)))


def options(family: int, parameters: Mapping[str, Any], max_depth: int) -> Array:
    """Return the options of kernels; those that depend on the stream are 0."""
    made = np.zeros(OPTIONS, np.int64)
    made[FAMILY], made[MAX_DEPTH] = family, max_depth
    made[CRITERION] = _CRITERIA[parameters["split_criterion"]]
    made[PREDICTION] = _PREDICTIONS[parameters["leaf_prediction"]]
    made[CANDIDATES] = GaussianSplitter().n_splits if parameters["splitter"] is None else parameters["splitter"]
    made[BINARY_ONLY], made[PREPRUNE] = parameters["binary_split"], parameters["merit_preprune"]
    made[BOOTSTRAP] = parameters.get("bootstrap_sampling", False)
    made[MODELS] = parameters.get("n_models", 1)
    made[WEIGHTED] = not parameters.get("disable_weighted_vote", False)
    return made


def numbers(parameters: Mapping[str, Any]) -> Array:
    """Return the numbers of kernels."""
    made = np.zeros(NUMBERS)
    made[GRACE], made[TAU] = parameters["grace_period"], parameters["tau"]
    made[LOG_DELTA] = math.log(1.0 / parameters["delta"])
    made[BRANCH_FRACTION], made[SHARE] = parameters["min_branch_fraction"], parameters["max_share_to_split"]
    made[BAYES_WEIGHT] = parameters["nb_threshold"]
    made[TWO], made[HALF], made[ROOT_TWO] = 2.0, 0.5, math.sqrt(2.0)
    made[HALF_LOG_TAU] = 0.5 * math.log(math.tau)
    made[SWITCH_LOG] = math.log(2.0 / parameters.get("switch_significance", 2.0))
    made[SWITCH_WINDOW] = parameters.get("drift_window_threshold", 0)
    made[POISSON_LIMIT] = math.exp(-parameters.get("lambda_value", 1))
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
