"""Validate rows and convert them for the kernels."""

from numbers import Integral, Real
from typing import Final

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import InputError
from glasstream.models.predictors.arrays import sealed

Floats = npt.NDArray[np.float64]

LARGEST: Final = 1e100
"""Largest absolute value of a usable number: squares of such numbers and their sums do not overflow. Numbers from a
stream stay far below it: ±1e60.
"""


def is_whole(value: object) -> bool:
    """Return whether a value is a whole number, also one of numpy's; booleans do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether a value is a real number, also one of numpy's; booleans do not count."""
    return isinstance(value, Real) and not isinstance(value, bool)


def as_matrix(rows: npt.ArrayLike, what: str, width: int | None = None) -> Floats:
    """Return `rows` as a sealed float64[n, p] of finite numbers within ±`LARGEST`.

    Raises
    ------
    InputError
        `rows` is not such a matrix, or does not have `width` columns.
    """
    array: Floats = sealed(rows, np.float64)
    if array.ndim != 2 or (width is not None and array.shape[1] != width):
        wanted = "p" if width is None else width
        raise InputError(f"gbmap: expected {what} as float64[n, {wanted}], got an array of shape {array.shape}")
    usable = np.abs(array) <= LARGEST  # NaN is not
    if not usable.all():
        row, column = np.argwhere(~usable)[0]
        value, where = array[row, column], f"in row {row}, column {column}"
        if np.isfinite(value):
            raise InputError(
                f"gbmap: expected numbers within ±{LARGEST:g} in {what}, got {value:g} {where}; scale the column"
            )
        raise InputError(
            f"gbmap: expected finite numbers in {what}, got {value} {where}; "
            "encode missing values first (glasstream.detect.gbmap.encoding), or leave the row out"
        )
    return array


def as_column(values: npt.ArrayLike, what: str, count: int) -> Floats:
    """Return `values` as a sealed float64[count] of finite numbers within ±`LARGEST`.

    Raises
    ------
    InputError
        `values` does not have that form.
    """
    array: Floats = sealed(values, np.float64)
    if array.shape != (count,):
        raise InputError(f"gbmap: expected {what} as float64[{count}], one for each row, got shape {array.shape}")
    usable = np.abs(array) <= LARGEST
    if not usable.all():
        row = int(np.flatnonzero(~usable)[0])
        if np.isfinite(array[row]):
            raise InputError(f"gbmap: expected {what} within ±{LARGEST:g}, got {array[row]:g} in row {row}; scale them")
        raise InputError(f"gbmap: expected finite {what}, got {array[row]} in row {row}; leave such rows out")
    return array
