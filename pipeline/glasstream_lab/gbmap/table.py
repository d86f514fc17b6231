"""A data set in memory: mixed features as numbers, and a target."""

from dataclasses import dataclass

from glasstream.detect.gbmap.rows import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows with a target each.

    Attributes
    ----------
    names
        Names of the columns.
    rows
        float64[n, d], NaN where a value is missing; texts as the codes of their categories.
    categorical
        Columns that hold codes.
    targets
        float64[n]; for a class, its index in `classes`.
    classes
        Names of the classes; empty if the target is a number.
    """

    names: tuple[str, ...]
    rows: Floats
    categorical: tuple[int, ...]
    targets: Floats
    classes: tuple[str, ...] = ()
