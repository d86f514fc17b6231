"""Translate a River model's own names and category values to slots and codes of a row."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from numbers import Real
from typing import Any, Final, NamedTuple, Self

import numpy as np

from glasstream.base.errors import NotCompilable
from glasstream.events.features import FeatureTable, Kind
from glasstream.models.predictors.arrays import Array

ABSENT: Final = -1
"""Slot of a feature that no row has."""


class Given(NamedTuple):
    """A feature among a model's inputs."""

    name: str
    slot: int
    kind: Kind
    categories: Mapping[str, int]
    """Mapping from text to code, if the kind is TEXT."""


class Slots:
    """The features of a row as the inputs of one model.

    Parameters
    ----------
    names
        Names of all features of a row, by slot.
    features
        Those that are inputs of the model. Other features are absent from every row, as from every dict that the River
        model sees.
    """

    def __init__(self, names: Iterable[str], features: Iterable[Given]) -> None:
        self.names = tuple(names)
        self._given = {feature.name: feature for feature in features}

    @classmethod
    def of(cls, table: FeatureTable, given: Sequence[bool] | None) -> Self:
        """Return the slots of a stream's features as of now; see `compile_model`."""
        features = map(Given, table.names, count(), table.kinds, table.categories)
        return cls(table.names, (one for one in features if given is None or given[one.slot]))

    def __iter__(self) -> Iterator[Given]:
        return iter(self._given.values())

    def only(self, names: Collection[object]) -> "Slots":
        """Return the slots of the same row for a model whose inputs are limited to `names`."""
        return Slots(self.names, (feature for feature in self if feature.name in names))

    def slot(self, name: object) -> int:
        """Return the slot of feature `name`, or ABSENT."""
        found = self._given.get(name)  # type: ignore[call-overload]  # River's names are any hashable
        return ABSENT if found is None else int(found.slot)

    def kind(self, name: str) -> Kind:
        """Return the kind of a feature that has a slot."""
        return self._given[name].kind

    def numeric(self, name: object, where: str) -> int:
        """Return the slot of a feature with which the model calculates, or ABSENT.

        Raises
        ------
        NotCompilable
            The feature is text: River itself fails where `where` calculates with it.
        """
        found = self._given.get(name)  # type: ignore[call-overload]
        if found is None:
            return ABSENT
        if found.kind is Kind.TEXT:
            raise NotCompilable(f"{where} calculates with {name!r}, which is a text feature")
        return int(found.slot)

    def all_numeric(self, where: str) -> None:
        """Check that every input is a number or boolean.

        Raises
        ------
        NotCompilable
            An input is text: River's linear models fail on it.
        """
        for name in self._given:
            self.numeric(name, where)

    def matrix(self, forms: Sequence[Mapping[Any, float]]) -> tuple[Array, Array]:
        """Return float64[m, d], bool[m, d]: the weights of m linear forms by slot, and whether each of them exists."""
        weight = np.zeros((len(forms), len(self.names)))
        known = np.zeros(weight.shape, np.bool_)
        for row, weights in enumerate(forms):
            for name, factor in weights.items():
                slot = self.slot(name)
                if slot != ABSENT:
                    weight[row, slot], known[row, slot] = factor, True
        return weight, known

    def value(self, slot: int, key: object) -> float | None:
        """Return the number that represents the category `key` in a row; None if no row can hold it."""
        if slot == ABSENT:
            return None
        return value_of(self._given[self.names[slot]], key)


def value_of(feature: Given, key: object) -> float | None:
    """Return the number that represents the category `key` of `feature`; None if no row can hold it."""
    if feature.kind is Kind.TEXT:
        code = feature.categories.get(key) if isinstance(key, str) else None
        return None if code is None else float(code)
    if not isinstance(key, Real):
        return None
    try:
        number = float(key)
    except OverflowError:
        return None
    return number if number == key else None  # not every integer beyond 2**53 is a float
