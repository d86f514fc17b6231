"""Interface of the drift detectors, which watch series of numbers."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Parameters = dict[str, float | int | str]

ANY_NUMBER: Final = 2**20
"""Largest number of series of which a state may be if nothing else bounds it."""


class Alarm(NamedTuple):
    """Alarm for a change in one series."""

    row: int
    """Index in the block of the number that raised the alarm."""
    series: int
    before: float
    """Mean of the numbers before the change, as the detector sees it."""
    after: float
    """Mean of the numbers after the change, up to the one that raised the alarm."""
    width: int
    """Number of values after the change."""


class Detectors(Protocol):
    """One detector for each of several series.

    Contract:

    - The alarms of a series depend only on the parameters, on its place, and on its own numbers so far. They do not
      depend on how rows are cut into calls, nor on other series. The parameters may change from call to call.
    - NaN means that the series has no number in that row.
    - `state` and `restore` lose nothing. A restored detector raises the same alarms.
    """

    name: ClassVar[str]
    settings: ClassVar[Mapping[str, str]]
    """Setting of `drift` that each parameter takes its value from; ``seed`` is the random seed."""
    level: ClassVar[str | None]
    """Parameter that bounds false alarms, if there is one. The Bonferroni correction divides it."""

    @classmethod
    def empty(cls) -> Self:
        """Return detectors for no series yet."""

    def update(self, values: Floats, parameters: Parameters) -> list[Alarm]:
        """Feed rows in order.

        Parameters
        ----------
        values
            (rows, s), one column per series. New columns are new series.
        parameters
            Parameters of every detector.

        Returns
        -------
        Alarms, ordered by row and then by series.
        """

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""

    @classmethod
    def restore(
        cls,
        meta: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        parameters: Parameters | None = None,
        series: int = ANY_NUMBER,
    ) -> Self:
        """Restore the detectors from a saved state.

        Parameters
        ----------
        parameters
            Parameters of every detector, if they are known. The state must fit them.
        series
            Largest number of series.

        Raises
        ------
        FrameError
            The state is damaged or forged: no detectors can have it.
        """
