"""From a River model's own names and category values to slots and codes of a row."""

from collections.abc import Sequence
from numbers import Real
from typing import Final

from pipeline.errors import NotCompilable
from pipeline.ingest.features import FeatureTable, Kind

ABSENT: Final = -1
"""The slot of a feature that no row has."""


class Slots:
    """The feature table as one model is given it.

    Parameters
    ----------
    table
        Names, kinds and categories of the stream's features as of now.
    given
        Per slot, whether the model is given the feature at all; None means all. A feature that is not given is absent
        from every row, as it is from every dict that the River model sees.
    """

    def __init__(self, table: FeatureTable, given: Sequence[bool] | None) -> None:
        self.names = tuple(table.names)
        self._kinds = list(table.kinds)
        self._categories = table.categories
        self._slots: dict[object, int] = {
            name: slot for slot, name in enumerate(self.names) if given is None or given[slot]
        }

    def slot(self, name: object) -> int:
        """The slot of feature `name`, or ABSENT."""
        return self._slots.get(name, ABSENT)

    def numeric(self, name: object, where: str) -> int:
        """The slot of a feature with which the model calculates, or ABSENT.

        Raises
        ------
        NotCompilable
            The feature is text: River itself fails where `where` calculates with it.
        """
        slot = self.slot(name)
        if slot != ABSENT and self._kinds[slot] is Kind.TEXT:
            raise NotCompilable(f"{where} calculates with {name!r}, which is a text feature")
        return slot

    def all_numeric(self, where: str) -> None:
        """Check that every given feature is a number or boolean.

        Raises
        ------
        NotCompilable
            One is text: River's linear models fail on it.
        """
        for name in self._slots:
            self.numeric(name, where)

    def value(self, slot: int, key: object) -> float | None:
        """The number that stands in a row for the category `key`; None when no row can hold it."""
        if slot == ABSENT:
            return None
        if self._kinds[slot] is Kind.TEXT:
            code = self._categories[slot].get(key) if isinstance(key, str) else None
            return None if code is None else float(code)
        if not isinstance(key, Real):
            return None
        try:
            number = float(key)
        except OverflowError:
            return None
        return number if number == key else None  # beyond 2**53 an integer may be no float
