"""Translate a River model's own names and category values to slots and codes of a row."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Real
from typing import Final, NamedTuple, Self

from glasstream.errors import NotCompilable
from glasstream.ingest.features import FeatureTable, Kind

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
    table
        Names, kinds and categories of the stream's features as of now.
    given
        For each slot, whether the feature is an input of the model; None makes all of them inputs. Other features are
        absent from every row, as from every dict that the River model sees.
    """

    def __init__(self, table: FeatureTable, given: Sequence[bool] | None) -> None:
        features = enumerate(zip(table.names, table.kinds, table.categories, strict=True))
        self.names = tuple(table.names)
        self._given = {
            name: Given(name, slot, kind, categories)
            for slot, (name, kind, categories) in features
            if given is None or given[slot]
        }

    @classmethod
    def of(cls, features: Sequence[Given]) -> Self:
        """Return the slots of a row that holds `features`, each at the slot of its position."""
        made = cls(FeatureTable(), None)
        made.names = tuple(feature.name for feature in features)
        made._given = {feature.name: feature for feature in features}
        return made

    def __iter__(self) -> Iterator[Given]:
        return iter(self._given.values())

    def only(self, names: Collection[object]) -> "Slots":
        """Return the slots of the same row for a model whose inputs are limited to `names`."""
        made = Slots(FeatureTable(), None)
        made.names = self.names
        made._given = {name: feature for name, feature in self._given.items() if name in names}
        return made

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
