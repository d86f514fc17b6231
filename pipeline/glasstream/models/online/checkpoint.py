"""Checkpoints: a model as bytes, and back without executing anything."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from glasstream.base.errors import FrameError, NotCompilable
from glasstream.models.online import layout as L
from glasstream.models.online import parameters as supported
from glasstream.models.online.copying import copy_trees
from glasstream.models.online.layout import Array, Pool, empty_arena
from glasstream.models.online.state import State, check_labels
from glasstream.models.online.twister import is_stuck
from glasstream.models.predictors.arrays import read_matrices, require
from glasstream_topics import frames

KIND: Final = "live-model"
VERSION: Final = 3
_OF: Final = "checkpoint of a model"
_ARRAYS: Final = (
    ("arena", "i8", 1),
    ("tree", "i8", 2),
    ("seen", "i1", 2),
    ("confusion", "f8", 3),
    ("scores", "f8", 2),
    ("twister", "u4", 1),
    ("position", "i8", 1),
)
_META: Final = {"family", "parameters", "max_depth", "subset_most", "features", "kinds", "categories", "labels"}


def encode(state: State, pool: Pool) -> bytes:
    """Return the checkpoint of a model."""
    used = int(pool.control[L.USED])
    F, I = empty_arena(2 * used)
    copy = pool._replace(F=F, I=I, tree=pool.tree.copy(), control=pool.control.copy())
    if not copy_trees(pool.F, pool.I, used, copy):
        raise FrameError(f"{_OF}: the arena of a live model is damaged")
    arrays = {name: getattr(copy, name) for name, _, _ in _ARRAYS[1:]}
    meta = {
        "family": state.family,
        "parameters": state.parameters,
        "max_depth": state.max_depth,
        "subset_most": state.subset_most,
        "features": list(state.features),
        "kinds": state.kinds,
        "categories": [list(texts) for texts in state.categories],
        "labels": list(state.labels),
    }
    return frames.encode(KIND, VERSION, meta, {"arena": I[: int(copy.control[L.USED])], **arrays})


def decode(data: bytes | memoryview) -> tuple[State, Pool]:
    """Return what `LiveModel` is made of.

    Raises
    ------
    FrameError
        The bytes are damaged, forged or of another release.
    """
    frame = frames.decode(data, KIND, VERSION)
    state = _state(frame.meta)
    arena, tree, seen, confusion, scores, twister, position = read_matrices(frame.arrays, _ARRAYS, _OF)
    trees, classes = state.rows(), len(state.labels)
    require(tree.shape == (trees, L.TREE), f"{trees} trees", _OF)
    require(seen.shape == (trees, classes) and np.all((seen == 0) | (seen == 1)), "the classes of each tree", _OF)
    models = state.parameters["n_models"] if state.shape == L.FOREST_FAMILY else 0
    require(confusion.shape == (models, classes, classes + 1), "a confusion matrix for each tree", _OF)
    require(bool(np.all((confusion >= 0) & (confusion <= 2.0**53))), "counts in the confusion matrices", _OF)
    require(scores.shape == (trees, state.score_words), "scores of each tree", _OF)
    counts = scores[:, [L.SCORED, L.NORM]] if state.score_words == L.TARGET_SCORES else scores
    require(bool(np.all((counts >= 0) & (counts <= 2.0**53))), "counts of a tree", _OF)
    require(twister.shape == (624,) and position.shape == (1,), "the state of a random generator", _OF)
    require(0 <= position[0] <= 624, "its position", _OF)
    require(state.shape == L.TREE_FAMILY or not is_stuck(twister), "a random generator that is not stuck at zero", _OF)
    _check_trees(state, tree)
    words = np.ascontiguousarray(arena)
    pool = state.pool(words.size + L.FIRST + 4_096)
    pool = pool._replace(
        tree=tree.copy(),
        seen=seen.copy(),
        confusion=confusion.copy(),
        scores=scores.copy(),
        twister=twister.copy(),
        position=position.copy(),
    )
    sound = copy_trees(words.view(np.float64), words, words.size, pool)
    require(sound and pool.control[L.USED] == max(words.size, L.FIRST), "trees that fill the arena", _OF)
    return state, pool


def _check_trees(state: State, tree: Array) -> None:
    exists = tree[:, L.EXISTS]
    require(bool(np.all((exists == 0) | (exists == 1))), "trees that exist or do not", _OF)
    require(bool(np.all(tree[exists == 0, L.ROOT] == 0)), "no nodes of trees that do not exist", _OF)
    if state.shape != L.FOREST_FAMILY:
        require(bool(exists[0] == 1) and not tree[:, [L.WARNING, L.DRIFT]].any(), "one tree", _OF)
        return
    models = state.parameters["n_models"]
    require(bool(np.all(exists[:models] == exists[0])), "as many trees as models", _OF)
    for field, name in ((L.WARNING, "warning_detector"), (L.DRIFT, "drift_detector")):
        wanted = state.parameters[name] is not None
        require(bool(np.all((tree[:models, field] != 0) == wanted)), f"a {name} for each tree", _OF)
    require(state.parameters["warning_detector"] is not None or not exists[models:].any(), "no background trees", _OF)


def _state(meta: Mapping[str, Any]) -> State:
    require(set(meta) == _META, f"the entries {', '.join(sorted(_META))}", _OF)
    family, parameters = meta["family"], meta["parameters"]
    require(type(family) is int and family in supported.OF, "a known family", _OF)
    require(isinstance(parameters, dict), "parameters", _OF)
    try:
        supported.check(family, parameters)
    except NotCompilable as error:
        raise FrameError(f"{_OF}: {error}") from error
    state = State(family, parameters, _whole(meta, "max_depth", L.DEEPEST - 2), _whole(meta, "subset_most", 10_000))
    features, kinds, categories, labels = (meta[name] for name in ("features", "kinds", "categories", "labels"))
    lists = all(isinstance(one, list) for one in (features, kinds, categories, labels))
    require(lists and len(features) == len(kinds) == len(categories), "a kind and categories for each feature", _OF)
    require(all(type(name) is str for name in features) and len(set(features)) == len(features), "names", _OF)
    require(all(type(kind) is int and L.IS_UNKNOWN <= kind <= L.IS_TEXT for kind in kinds), "kinds of features", _OF)
    for kind, texts in zip(kinds, categories, strict=True):
        require(isinstance(texts, list) and (kind == L.IS_TEXT or not texts), "texts of categories", _OF)
        require(all(type(text) is str for text in texts) and len(set(texts)) == len(texts), "distinct texts", _OF)
    require(not (labels and state.is_regression), "no labels of a regressor", _OF)
    require(all(type(label) in (str, int, bool) for label in labels) and len(set(labels)) == len(labels), "labels", _OF)
    try:
        check_labels(labels)
    except NotCompilable as error:
        raise FrameError(f"{_OF}: {error}") from error
    state.features = {name: number for number, name in enumerate(features)}
    state.kinds = list(kinds)
    state.categories = [{text: number for number, text in enumerate(texts)} for texts in categories]
    state.labels = {label: number for number, label in enumerate(labels)}
    return state


def _whole(meta: Mapping[str, Any], key: str, most: int) -> int:
    value = meta[key]
    require(type(value) is int and 0 <= value <= most, f"{key!r} in 0..{most}", _OF)
    return int(value)
