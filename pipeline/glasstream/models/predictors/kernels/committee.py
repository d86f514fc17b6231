"""Predictors that combine the answers of several other predictors."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import (
    Array,
    Indices,
    Numbers,
    as_rows,
    read_fields,
    require,
    require_range,
    require_starts,
    sealed,
)
from glasstream.models.predictors.compiled import Compiled, choice, texts
from glasstream.models.predictors.kernels import average, normalise
from glasstream.models.predictors.kernels.tables import TablePredictor
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION, Floats, Output, Task

_SMALL: Final = 2.0**-10
"""Factor by which numbers are scaled down before they are added. Without it the sum of very large numbers could
overflow although their mean does not; the scaling loses no bit.
"""


@kernel
def count_votes(votes: Floats, place: Array, weight: float, scores: Floats) -> None:
    """Add to `scores` float64[n, c] a member's `votes` float64[n, k] times its `weight`.

    `place` int32[k] is the place of each of the member's classes, or -1 for a class that does not count.
    """
    for i in range(votes.shape[0]):
        for j in range(place.size):
            if place[j] >= 0:
                scores[i, place[j]] += votes[i, j] * weight


class Places(NamedTuple):
    """The places of all members' classes, where those of each member start, and float64[M], the members' weights."""

    start: Indices
    place: Indices
    weights: Numbers


class VotingCommittee(TablePredictor):
    """Classifiers whose weighted probabilities are added.

    Parameters
    ----------
    features, classes
        Features and classes; see `Predictor`.
    column
        int32[c]: the class of each key of River's dict, in the dict's order, or -1 for a key that is not reported.
    members
        The classifiers.
    places
        For each member, int32[k]: the place of each of its classes in River's dict, or -1 for one that does not count.
    weights
        float64[M]: weights of the members.
    rule
        One of `normalise.RULES`.
    """

    form: ClassVar[str] = "voting committee"
    Tables = Places

    def __init__(
        self,
        features: tuple[str, ...],
        classes: tuple[str, ...],
        column: object,
        members: tuple[Compiled, ...],
        places: list[Any],
        weights: object,
        rule: str,
    ) -> None:
        starts = np.cumsum([0, *map(len, places)])
        super().__init__(features, classes, column, (starts, np.concatenate([np.empty(0), *places]), weights))
        self.parts: tuple[Compiled, ...] = members
        self._places = [self._tables.place[begin:end] for begin, end in pairwise(starts)]
        self._rule = rule

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.zeros((len(rows), self._column.size))
        for member, place, weight in zip(self.parts, self._places, self._tables.weights.tolist(), strict=True):
            count_votes(sealed(member.evaluate(rows).values, np.float64), place, weight, scores)
        return self._classified(scores, self._rule)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta, arrays = super().pack()
        return meta | {"rule": self._rule}, arrays

    @classmethod
    def assemble(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array], parts: tuple[Compiled, ...]) -> Self:
        features, classes, column, (start, place, weights) = cls._read(meta, arrays)
        _require_members(parts, CLASSIFICATION, features, weights)
        require_range(place, -1, column.size, "places of classes")
        require_starts(start, len(parts), place.size, "starts of places")
        places = [place[begin:end] for begin, end in pairwise(start)]
        fits = all(own.size == len(part.classes) for own, part in zip(places, parts, strict=True))
        require(fits, "a place for each class of each member")
        return cls(features, classes, column, parts, places, weights, choice(meta, "rule", tuple(normalise.RULES)))


class AveragingCommittee:
    """Regressors whose weighted answers are averaged.

    Parameters
    ----------
    features
        Features; see `Predictor`.
    members
        The regressors.
    weights
        float64[M]: weights of the members.
    rule
        One of `average.RULES`.
    """

    form: ClassVar[str] = "averaging committee"
    task: Task = REGRESSION
    compiled = True
    classes: tuple[str, ...] = ()

    def __init__(self, features: tuple[str, ...], members: tuple[Compiled, ...], weights: object, rule: str) -> None:
        self.features = features
        self.parts: tuple[Compiled, ...] = members
        self._weights = sealed(weights, np.float64)
        self._rule = rule

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        answers = np.empty((len(rows), len(self.parts)))
        for number, (member, weight) in enumerate(zip(self.parts, self._weights.tolist(), strict=True)):
            answers[:, number] = member.evaluate(rows).values[:, 0] * _SMALL * weight
        values = np.zeros((len(rows), 1))
        average.average(answers, average.RULES[self._rule], values)
        return Output.of_numbers(values / _SMALL)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        return {"features": self.features, "rule": self._rule}, {"weights": self._weights}

    @classmethod
    def assemble(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array], parts: tuple[Compiled, ...]) -> Self:
        features = texts(meta, "features")
        (weights,) = read_fields(arrays, (("weights", "f8"),))
        _require_members(parts, REGRESSION, features, weights)
        return cls(features, parts, weights, choice(meta, "rule", tuple(average.RULES)))


def _require_members(parts: tuple[Compiled, ...], task: Task, features: tuple[str, ...], weights: Array) -> None:
    fits = all(part.task == task and part.features == features for part in parts)
    require(fits, f"members for {task} over the committee's features")
    require(weights.size == len(parts), "a weight for each member")
