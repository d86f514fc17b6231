"""Grids of effect curves: the feature values at which the model is evaluated (001, "Dynamically maintaining model
evaluation points").

Every row has its own grid, which depends on the rows before it. Numeric features have one of these grids:

==================  =====================================================================================
``extremes``        m points equidistant between minimum and maximum of the last `window` rows
``quantile_range``  m points equidistant between two quantiles of a frequency store
``quantiles``       m points at quantiles of the store, with equidistant levels between the two
==================  =====================================================================================

A text or boolean feature has one point for each category in use. A feature without a value in the last `window` rows
has no point.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import StateError
from glasstream.events.features import Kind
from glasstream.explain.sampling import knots as written
from glasstream.explain.sampling.categories import Categories
from glasstream.explain.sampling.extremes import Extremes
from glasstream.explain.sampling.frequency_store import FrequencyStore
from glasstream.explain.sampling.settings import GridSettings

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[np.generic]]


def categorical(kinds: Sequence[int]) -> NDArray[np.bool_]:
    """Return the (d,) mask of the features that have categories (text, boolean) instead of a range of numbers."""
    return np.array([kind != Kind.NUMBER for kind in kinds], np.bool_)


def points(knots: Floats, kinds: Sequence[int], settings: GridSettings) -> Floats:
    """Return the points, (count, max(points, categories), d), of knots from `Grids.pass_through`; NaN for no point."""
    return written.expand(knots, categorical(kinds), settings.points, equidistant=settings.equidistant)


@dataclass(slots=True)
class Grids:
    """Rows and values from which the grids of one stream follow.

    Examples
    --------
    >>> from glasstream.base.draws import stream_key
    >>> settings = GridSettings(grid="extremes", points=3, categories=2)
    >>> grids = Grids.empty(settings, stream_key(1, "s"))
    >>> rows = np.array([[1.0, 0.0], [5.0, 1.0], [2.0, 1.0]])
    >>> kinds = [Kind.NUMBER, Kind.TEXT]
    >>> points(grids.pass_through(rows, kinds, first_row=0, start=2), kinds, settings).tolist()
    [[[1.0, 0.0], [3.0, 1.0], [5.0, nan]]]
    """

    settings: GridSettings
    numbers: Extremes | FrequencyStore
    categories: Categories

    @classmethod
    def empty(cls, settings: GridSettings, key: NDArray[np.uint64]) -> "Grids":
        """Return an instance without features.

        Parameters
        ----------
        settings
            Settings of the grids.
        key
            Key words of the stream, from `glasstream.base.draws.stream_key`.
        """
        numbers: Extremes | FrequencyStore
        if settings.grid == "extremes":
            numbers = Extremes.empty(settings.window)
        else:
            numbers = FrequencyStore.empty(settings.store, settings.store / settings.window, key)
        return cls(settings, numbers, Categories.empty(settings.categories, settings.window))

    def pass_through(self, block: Floats, kinds: Sequence[int], first_row: int, start: int) -> Floats:
        """Return the grid of each row of a block, and let each row enter after its grid is made.

        Parameters
        ----------
        block
            (count, d) consecutive rows, NaN where a feature is absent. d may have grown since the last call.
        kinds
            Kinds of the d features, see `glasstream.events.features.Kind`.
        first_row
            Number of the block's first row.
        start
            First row that is explained. Earlier rows enter and get no grid.

        Returns
        -------
        The knots, (rows from `start` on, p, d), NaN where there is none. `points` converts them to points, and
        `glasstream.explain.sampling.knots.changes` converts them to a compact form for messages.
        """
        count, width = block.shape
        block = np.ascontiguousarray(block, np.float64)
        explained = min(count, max(0, first_row + count - start))
        out = np.full((explained, self.settings.knots, width), np.nan)
        has_categories = categorical(kinds)
        numeric, other = np.flatnonzero(~has_categories), np.flatnonzero(has_categories)
        self.numbers.widen(width)
        self.categories.widen(width)
        if isinstance(self.numbers, Extremes):
            self.numbers.pass_through(block, numeric, first_row, start, out)
        else:
            self.numbers.pass_through(block, numeric, first_row, start, self._levels(), out)
        self.categories.pass_through(block, other, first_row, start, out)
        return out

    @property
    def width(self) -> int:
        """Number of features."""
        return self.categories.width

    def state(self) -> Arrays:
        """Return the state for a successor with the same settings."""
        parts = {"numbers": self.numbers.state(), "categories": self.categories.state()}
        return {f"{part}/{name}": array.copy() for part, arrays in parts.items() for name, array in arrays.items()}

    @classmethod
    def restore(
        cls, settings: GridSettings, key: NDArray[np.uint64], state: Mapping[str, NDArray[np.generic]]
    ) -> "Grids":
        """Restore the grids from a saved state.

        Raises
        ------
        StateError
            The state does not belong to grids with these settings.
        """
        parts: dict[str, Arrays] = {"numbers": {}, "categories": {}}
        made = cls.empty(settings, key)
        try:
            for name, array in state.items():
                part, name = name.split("/")
                if array.dtype != (np.float64 if name in ("values", "codes") else np.int64):
                    raise ValueError(f"{name}: expected other numbers than {array.dtype}")
                parts[part][name] = array
            if isinstance(made.numbers, Extremes):
                made.numbers = Extremes.restore(settings.window, parts["numbers"])
            else:
                made.numbers = FrequencyStore.restore(settings.store, made.numbers.probability, key, parts["numbers"])
            made.categories = Categories.restore(settings.categories, settings.window, parts["categories"])
            if made.numbers.width != made.categories.width:
                raise ValueError(f"{made.numbers.width} and {made.categories.width} features")
        except (KeyError, ValueError) as error:
            raise StateError(
                f"grids: the state is not one of grids with {settings} ({error!r}); "
                "go on with the settings that it was written with, or start a new epoch"
            ) from error
        return made

    def _levels(self) -> Floats:
        settings = self.settings
        if settings.equidistant:
            return np.array([settings.low, settings.high])
        return np.linspace(settings.low, settings.high, settings.points)
