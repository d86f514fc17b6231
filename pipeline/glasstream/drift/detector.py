"""What watches series of numbers and says when one has changed."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Parameters = dict[str, float | int | str]


class Alarm(NamedTuple):
    """One series has changed."""

    row: int
    """Place in the block of the number that raised it."""
    series: int
    before: float
    """Mean of the numbers on the older side of the change, as the detector sees it."""
    after: float
    """Mean of those on the newer side, up to the one that raised the alarm."""
    width: int
    """How many there are on the newer side."""


class Detectors(Protocol):
    """One detector for each of several series.

    Contract:

    - A series' alarms are a function of the parameters, of its place, and of its own numbers so far: not of how rows
      are cut into calls, nor of the series beside it. The parameters may change from call to call.
    - NaN is no number: the series is not fed in that row.
    - `state` and `restore` lose nothing: one that goes on from its state raises the same alarms.
    """

    name: ClassVar[str]

    @classmethod
    def empty(cls) -> Self:
        """No series yet."""

    def update(self, values: Floats, parameters: Parameters) -> list[Alarm]:
        """Feed rows in order.

        Parameters
        ----------
        values
            (rows, s), a column a series. Columns that were not there before are new series.
        parameters
            Of every detector.

        Returns
        -------
        By row, then by series.
        """

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a successor needs: JSON values, and arrays."""

    @classmethod
    def restore(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The detectors as they were when `state` was taken.

        Raises
        ------
        KeyError, TypeError, ValueError
            The state lacks something, or its arrays do not fit each other.
        """
