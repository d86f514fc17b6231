"""Rows as the kernels take them, and what is refused before."""

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.models.arrays import sealed

Floats = npt.NDArray[np.float64]


def as_matrix(rows: npt.ArrayLike, what: str, width: int | None = None) -> Floats:
    """`rows` as a sealed float64[n, p] of finite numbers.

    Raises
    ------
    InputError
        It is not a matrix of that, or not `width` wide.
    """
    array: Floats = sealed(rows, np.float64)
    if array.ndim != 2 or (width is not None and array.shape[1] != width):
        wanted = "p" if width is None else width
        raise InputError(f"gbmap: expected {what} as float64[n, {wanted}], got an array of shape {array.shape}")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise InputError(
            f"gbmap: expected finite numbers in {what}, got {array[row, column]} in row {row}, column {column}; "
            "encode missing values first (pipeline.gbmap.encoding), or leave the row out"
        )
    return array


def as_column(values: npt.ArrayLike, what: str, count: int) -> Floats:
    """`values` as a sealed float64[count] of finite numbers.

    Raises
    ------
    InputError
        It is not.
    """
    array: Floats = sealed(values, np.float64)
    if array.shape != (count,):
        raise InputError(f"gbmap: expected {what} as float64[{count}], one for each row, got shape {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"gbmap: expected finite {what}, got {array[row]} in row {row}; leave such rows out")
    return array
