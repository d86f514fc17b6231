"""Checkpoints: a model as bytes, and back without executing anything."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

import numpy as np

from glasstream.models.online.linear import kernels as K
from glasstream.models.online.linear.state import PARAMETERS, State
from glasstream.models.predictors.arrays import Array, read_matrices, require
from glasstream_topics import frames

KIND: Final = "live-linear"
VERSION: Final = 2
_OF: Final = "checkpoint of a linear model"
_ARRAYS: Final = (("features", "f8", 3), ("numbers", "f8", 2), ("order", "i8", 1))
_META: Final = {"kind", "parameters", "steps", "names", "labels"}


def encode(state: State) -> bytes:
    """Return the checkpoint of a model."""
    members = state.members
    meta = {
        "kind": state.kind,
        "parameters": dict(state.parameters),
        "steps": list(state.steps),
        "names": list(state.slots),
        "labels": list(state.labels) if state.kind == K.ONE_VS_REST else [],
    }
    arrays = {
        "features": np.ascontiguousarray(state.features[:members, : len(state.slots)]),
        "numbers": np.ascontiguousarray(state.numbers[:members, [K.INTERCEPT, K.STEPS]]),
        "order": state.order[: state.born[0]].copy(),
    }
    return frames.encode(KIND, VERSION, meta, arrays)


def decode(data: bytes | memoryview) -> State:
    """Return what `LiveLinear` is made of.

    Raises
    ------
    FrameError
        The bytes are damaged, forged or of another release.
    """
    frame = frames.decode(data, KIND, VERSION)
    state = _state(frame.meta)
    features, numbers, order = read_matrices(frame.arrays, _ARRAYS, _OF)
    members, slots = state.members, len(state.slots)
    require(features.shape == (members, slots, K.FIELDS), f"{members} members and {slots} features", _OF)
    require(numbers.shape == (members, 2), "an intercept and a number of steps of each member", _OF)
    born = order.size
    distinct = np.array_equal(np.sort(order), np.unique(order)) and bool(np.all((order >= 0) & (order < members)))
    require(distinct and (state.kind == K.ONE_VS_REST or born == 1), "each member in the order once at most", _OF)
    _check_features(features)
    require(_are_counts(numbers[:, 1]), "a number of steps", _OF)
    unborn = np.setdiff1d(np.arange(members), order)
    untouched = not features[unborn].any() and not numbers[unborn, 1].any()
    require(untouched and bool(np.all(numbers[unborn, 0] == state.parameters["intercept"])), "new members", _OF)
    state.make_room()
    state.features[:members, :slots] = features
    state.numbers[:members, [K.INTERCEPT, K.STEPS]] = numbers
    state.order[:born], state.born[0] = order, born
    return state


def _check_features(features: Array) -> None:
    counts, met = features[:, :, K.COUNT], features[:, :, K.MET]
    require(_are_counts(counts), "counts of features", _OF)
    require(
        bool(np.all((met == 0.0) | (met == 1.0)) and np.all(met[counts > 0.0] == 1.0)), "features that were met", _OF
    )
    require(not bool(np.any(features[:, :, K.VARIANCE] < 0.0)), "variances from 0 on", _OF)
    require(
        not features[:, :, K.COUNT : K.WEIGHT + 1][counts == 0.0].any(), "nothing known of features never learned", _OF
    )


def _are_counts(values: Array) -> bool:
    return bool(np.all((values >= 0.0) & (values <= 2.0**53))) and bool(np.all(values == np.floor(values)))


def _state(meta: Mapping[str, Any]) -> State:
    require(set(meta) == _META, f"the entries {', '.join(sorted(_META))}", _OF)
    kind, parameters, steps, names, labels = (meta[name] for name in ("kind", "parameters", "steps", "names", "labels"))
    require(type(kind) is int and kind in (K.REGRESSION, K.BINARY, K.ONE_VS_REST), "a known kind", _OF)
    require(isinstance(parameters, dict) and set(parameters) == set(PARAMETERS), "parameters", _OF)
    finite = (type(value) is float and isfinite(value) for value in parameters.values())
    require(all(finite), "numbers as parameters", _OF)
    require(0.0 <= parameters["intercept_power"] <= 1.0, "a power from 0 to 1", _OF)
    implicit = parameters["implicit"]
    require(implicit == 0.0 or (implicit == 1.0 and kind == K.REGRESSION), "implicit steps of a regression only", _OF)
    require(_are_names(steps) and len(steps) == 2, "names of two steps", _OF)
    require(_are_names(names), "names of features", _OF)
    require(isinstance(labels, list) and (kind == K.ONE_VS_REST or not labels), "classes", _OF)
    require(all(type(label) in (str, int, bool) for label in labels) and len(set(labels)) == len(labels), "labels", _OF)
    state = State(kind, parameters, (steps[0], steps[1]))
    state.slots = {name: slot for slot, name in enumerate(names)}
    if kind == K.ONE_VS_REST:
        state.labels = {label: number for number, label in enumerate(labels)}
    return state


def _are_names(names: Any) -> bool:
    return isinstance(names, list) and all(type(name) is str for name in names) and len(set(names)) == len(names)
