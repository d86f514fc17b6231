"""A data set in memory: mixed features as numbers, and a target."""

from dataclasses import dataclass

from glasstream.gbmap.rows import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows with a target each.

    Attributes
    ----------
    names
        Of the columns.
    rows
        float64[n, d], NaN where a value is missing; texts as their categories' codes.
    categorical
        Columns that hold codes.
    targets
        float64[n]; of a class its place in `classes`.
    classes
        Names of the classes; empty where the target is a number.
    """

    names: tuple[str, ...]
    rows: Floats
    categorical: tuple[int, ...]
    targets: Floats
    classes: tuple[str, ...] = ()
