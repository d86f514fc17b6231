"""Settings of the grids and of the storage trees."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesExplanations
from glasstream.base.errors import SettingsError

GridName = Literal["extremes", "quantile_range", "quantiles"]
GRIDS = get_args(GridName)

_MOST = 1_000
"""Largest number of points and of categories. It bounds the size of a block for a hostile configuration or record."""


class GridSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where effect curves are evaluated.

    Attributes
    ----------
    grid
        ``extremes`` uses equidistant points between the minimum and the maximum of the window, ``quantile_range``
        equidistant points between two quantiles, ``quantiles`` points at quantiles.
    points
        Number m of grid points of a numeric feature. The iPDP paper uses 10.
    categories
        Largest number of grid points of a text or boolean feature.
    window
        Number of recent rows from which the grid is computed.
    store
        Largest number of values that are kept per feature to estimate quantiles, at most `window`. Each value enters
        with probability store / window. The grid ``extremes`` does not use it.
    low
        Level of the lowest quantile, less than `high`.
    high
        Level of the highest quantile.

    Raises
    ------
    SettingsError
        A number is out of its range. The error lists all findings.
    """

    grid: ChangesExplanations[GridName] = "quantile_range"
    points: ChangesExplanations[Annotated[int, Meta(ge=2, le=_MOST)]] = 10
    categories: ChangesExplanations[Annotated[int, Meta(ge=2, le=_MOST)]] = 10
    window: ChangesExplanations[Annotated[int, Meta(ge=1)]] = 1_000
    store: ChangesExplanations[Annotated[int, Meta(ge=1)]] = 200
    low: ChangesExplanations[Annotated[float, Meta(ge=0, lt=1)]] = 0.05
    high: ChangesExplanations[Annotated[float, Meta(gt=0, le=1)]] = 0.95

    def __post_init__(self) -> None:
        findings = []
        if self.grid not in GRIDS:
            findings.append(f"grid: expected one of {', '.join(GRIDS)}, got {self.grid!r}")
        for name in ("points", "categories"):
            if not 2 <= getattr(self, name) <= _MOST:
                findings.append(f"{name}: expected 2 to {_MOST:,}, got {getattr(self, name)}")
        if self.window < 1:
            findings.append(f"window: expected a number from 1 on, got {self.window}")
        if self.grid != "extremes" and not 1 <= self.store <= self.window:
            findings.append(f"store: expected 1 to window = {self.window}, got {self.store}")
        if not 0.0 <= self.low < self.high <= 1.0:
            findings.append(f"low, high: expected 0 <= low < high <= 1, got {self.low}, {self.high}")
        if findings:
            raise SettingsError(findings)

    @property
    def equidistant(self) -> bool:
        """Whether a numeric feature's points follow from the two ends of the grid."""
        return self.grid != "quantiles"

    @property
    def knots(self) -> int:
        """Number p of knots per feature, from which the points follow."""
        return max(2 if self.equidistant else self.points, self.categories)


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Limits of the storage trees for conditional removal.

    Parameters
    ----------
    size
        Number of values that a full leaf holds.
    depth
        Largest number of branches from the root to a leaf, 1 to 20.
    values
        Largest number of values in all leaves of all trees. Leaves are allocated in units of `size`.
    marginal
        Number of rows in the marginal reservoir.
    categories
        Number of codes of a text feature that trees distinguish. The cost of a split grows with its cube.

    Raises
    ------
    SettingsError
        A setting is out of its range.
    """

    size: int = 100
    depth: int = 8
    values: int = 1_000_000
    marginal: int = 100
    categories: int = 32

    def __post_init__(self) -> None:
        bounds = {
            "size": (1, None),
            "depth": (1, 20),
            "values": (self.size, None),
            "marginal": (1, None),
            "categories": (1, None),
        }
        findings = []
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if value < low or (high is not None and value > high):
                upper = "" if high is None else f" and at most {high}"
                findings.append(f"conditional removal: expected {name} to be at least {low}{upper}, got {value}")
        if findings:
            raise SettingsError(findings)
