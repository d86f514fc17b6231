"""A model's pool around its arena: the tables that depend on the stream's features and classes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from glasstream.base.errors import ModelError, NotCompilable
from glasstream.models.online import layout as L
from glasstream.models.online import parameters as supported
from glasstream.models.online.copying import copy_trees
from glasstream.models.online.layout import Array, Pool, empty_arena, zeroed

Label = Any
"""A class as River has it: a text, a whole number or a boolean."""

_FIRST_WORDS: Final = 4_096


@dataclass(slots=True)
class State:
    """Everything of a model: what its pool is made of."""

    family: int
    parameters: supported.Parameters
    max_depth: int
    """Of trees; River derives the default from the recursion limit."""
    subset_most: int = 0
    """Features that a leaf of a forest may watch; 0 before the first event, or if that had none."""
    features: dict[str, int] = field(default_factory=dict)
    kinds: list[int] = field(default_factory=list)
    categories: list[dict[str, int]] = field(default_factory=list)
    """Per feature: text to number, in order of appearance."""
    labels: dict[Label, int] = field(default_factory=dict)

    @property
    def shape(self) -> int:
        """The family of classifiers with the same form."""
        return supported.shape(self.family)

    @property
    def is_regression(self) -> bool:
        """Whether the model predicts numbers."""
        return self.family >= L.TREE_REGRESSOR

    @property
    def score_words(self) -> int:
        """Words in which a forest keeps how well a tree has predicted."""
        return L.TARGET_SCORES if self.family == L.FOREST_REGRESSOR else L.CLASS_SCORES

    def check_kind(self, name: str, is_text: bool) -> None:
        """Refuse a feature that comes as a text and was a number, or the reverse.

        Raises
        ------
        ModelError
            It does.
        """
        kind = self.kinds[self.features[name]] if name in self.features else L.IS_UNKNOWN
        if kind != L.IS_UNKNOWN and (kind == L.IS_TEXT) != is_text:
            raise ModelError(f"feature {name!r}: expected {'numbers' if is_text else 'texts'}, as before")

    def feature(self, name: str, is_text: bool) -> int:
        """Return the number of a feature, a new one if it is not known."""
        number = self.features.get(name)
        if number is None:
            number = self.features[name] = len(self.features)
            self.kinds.append(self._kind(name, is_text))
            self.categories.append({})
        elif self.kinds[number] == L.IS_UNKNOWN:
            self.kinds[number] = self._kind(name, is_text)
        return number

    def unknown_feature(self, name: str) -> int:
        """Return the number of a feature of which no value is known."""
        if name not in self.features:
            self.feature(name, False)
            self.kinds[self.features[name]] = L.IS_UNKNOWN
        return self.features[name]

    def _kind(self, name: str, is_text: bool) -> int:
        if is_text:
            return L.IS_TEXT
        return L.IS_NOMINAL_NUMBER if name in (self.parameters["nominal_attributes"] or ()) else L.IS_NUMBER

    def rows(self) -> int:
        """Return how many trees there may be."""
        models = int(self.parameters.get("n_models", 1))
        return 2 * models if self.shape == L.FOREST_FAMILY else models

    def pool(self, words: int = _FIRST_WORDS) -> Pool:
        """Return a pool without trees."""
        F, I = empty_arena(words)
        control = np.zeros(L.CONTROL, np.int64)
        control[L.USED], control[L.MOST_CLASSES], control[L.MOST_SLOTS], control[L.MOST_CATEGORIES] = L.FIRST, 2, 1, 4
        trees = self.rows()
        of_trees = supported.of_trees(self.family, self.parameters)
        empty = np.zeros(0, np.int64)
        made = Pool(
            F=F,
            I=I,
            control=control,
            number=supported.numbers(of_trees),
            option=supported.options(self.family, of_trees, self.max_depth),
            detector=supported.detectors(self.parameters),
            kind=empty,
            rank_start=empty,
            rank=empty,
            by_name=empty,
            by_label=empty,
            label_rank=empty,
            tree=np.zeros((trees, L.TREE), np.int64),
            seen=np.zeros((trees, 0), np.int8),
            confusion=np.zeros((0, 0, 0)),
            scores=np.zeros((trees, self.score_words)),
            twister=np.zeros(624, np.uint32),
            position=np.zeros(1, np.int64),
            best=np.zeros(L.BEST),
            room=np.zeros((8, 1)),
            marks=np.zeros((8, 1), np.int64),
            asked=np.zeros((trees, 4), np.int64),
            path=zeroed(3 * (L.DEEPEST + 2)).view(np.int64).reshape(3, -1),
            sums=zeroed(2 * (L.DEEPEST + 2)).reshape(2, -1),
        )
        return self.fitted(made)

    def fitted(self, pool: Pool) -> Pool:
        """Return the pool with tables that fit the features, categories and classes as of now."""
        features, classes = len(self.features), len(self.labels)
        kind = np.array([max(kind, L.IS_NUMBER) for kind in self.kinds], np.int64)
        start = np.zeros(features + 1, np.int64)
        np.cumsum([len(texts) for texts in self.categories], out=start[1:]) if features else None
        rank = np.zeros(start[-1], np.int64)
        for number, texts in enumerate(self.categories):
            rank[start[number] + _ordered(texts)] = np.arange(len(texts))
        by_label = _ordered(self.labels)
        label_rank = np.empty(classes, np.int64)
        label_rank[by_label] = np.arange(classes)
        pool.control[L.NOMINAL_FEATURES] = np.count_nonzero(kind != L.IS_NUMBER)
        pool.option[L.LABEL_ONE], pool.option[L.LABEL_ZERO] = self.labels.get(1, -1), self.labels.get(0, -1)
        pool.option[L.SUBSET_MOST] = self.subset_most
        pool.option[L.POOL_MOST] = supported.pool_most(self.subset_most)
        models = self.parameters["n_models"] if self.shape == L.FOREST_FAMILY else 0
        return pool._replace(
            kind=kind,
            rank_start=start,
            rank=rank,
            by_name=_ordered(self.features),
            by_label=by_label,
            label_rank=label_rank,
            seen=_larger(pool.seen, (self.rows(), classes)),
            confusion=_confusion(pool.confusion, models, classes),
            room=np.zeros((8, max(classes, models, 2))),
            marks=np.zeros((8, max(classes, features, 2)), np.int64),
        )


def _ordered(numbers: Mapping[Any, int]) -> Array:
    """Return the numbers in the order of their sorted keys."""
    return np.array([numbers[key] for key in sorted(numbers)], np.int64)


def _larger(before: Array, shape: Sequence[int]) -> Array:
    if before.shape == tuple(shape):
        return before
    made = np.zeros(shape, before.dtype)
    made[tuple(slice(size) for size in before.shape)] = before
    return made


def _confusion(before: Array, models: int, classes: int) -> Array:
    """Return room for one more class as truth and as prediction; the last column, of no prediction, stays the last."""
    if before.shape == (models, classes, classes + 1):
        return before
    made = np.zeros((models, classes, classes + 1))
    if before.size:
        known = before.shape[1]
        made[:, :known, :known] = before[:, :, :known]
        made[:, :known, classes] = before[:, :, known]
    return made


def check_labels(labels: Iterable[Label]) -> None:
    """Refuse classes that are not all texts, all whole numbers or all booleans.

    Raises
    ------
    NotCompilable
        They are not.
    """
    kinds = {type(label) for label in labels}
    if len(kinds) > 1 or not kinds <= {str, int, bool}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise NotCompilable(f"expected the classes to be all texts, all whole numbers or all booleans, got {names}")


def is_too_wide(pool: Pool) -> bool:
    """Return whether the next event may need more than `MOST_DEMAND`: many categories, classes and features."""
    return int(pool.control[L.DEMAND]) > L.MOST_DEMAND


def too_wide() -> ModelError:
    """Return the error of an event that may need more than `MOST_DEMAND`."""
    return ModelError(
        f"expected a model of which an event changes at most {8 * L.MOST_DEMAND:,} bytes, got one with more "
        "categories, classes and features; lower limits.categories or limits.classes, or choose model.name=linear"
    )


def moved(pool: Pool) -> Pool:
    """Return the pool in an arena of twice what is reachable, and what the next event needs.

    Raises
    ------
    ModelError
        The next event is too wide, or the arena is damaged: this is an error of the kernels.
    """
    used, demand = int(pool.control[L.USED]), int(pool.control[L.DEMAND])
    if is_too_wide(pool):
        raise too_wide()
    F, I = empty_arena(2 * used + _FIRST_WORDS + demand)
    target = pool._replace(F=F, I=I, tree=pool.tree.copy())
    if not copy_trees(pool.F, pool.I, used, target):
        raise ModelError("the arena of a live model is damaged")
    words = 2 * int(target.control[L.USED]) + _FIRST_WORDS + demand
    return target._replace(F=F[:words], I=I[:words])
