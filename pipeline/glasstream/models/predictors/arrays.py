"""Arrays in the one form that the kernels are compiled for, and checks of arrays from snapshots."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import FrameError, ModelError
from glasstream.models.predictors.predictor import Floats

Array = npt.NDArray[Any]

Bytes = Annotated[Array, "i1", 1]
Indices = Annotated[Array, "i4", 1]
Numbers = Annotated[Array, "f8", 1]
Flags = Annotated[Array, "b1", 1]
"""Arrays of one dimension in a tuple of arrays, with the dtype that they have in a snapshot."""
NumberMatrix = Annotated[Array, "f8", 2]
FlagMatrix = Annotated[Array, "b1", 2]
NumberCube = Annotated[Array, "f8", 3]
"""The same with more dimensions."""

Tuple = TypeVar("Tuple", bound=NamedTuple)

SNAPSHOT: Final = "model snapshot"
_PADDED: Final = 1 << 24
"""Largest number of values of rows that are padded with missing features (128 MiB)."""
_MISSING: Final = np.empty((0, 0))


def sealed(values: object, dtype: npt.DTypeLike) -> Array:
    """Return a read-only, contiguous, aligned array of `dtype` with the content of `values`.

    numba recompiles a kernel for every combination of these properties. Arrays of a snapshot are read-only views of
    its bytes, so every array that enters a kernel gets the same properties.
    """
    array = np.require(values, dtype, ("C", "A")).view()  # the view leaves the owner's flags unchanged
    array.flags.writeable = False
    return array


def as_rows(rows: Floats, width: int) -> Floats:
    """Return `rows` as a sealed float64[n, d] with d >= `width`; features that a shorter row lacks are NaN (absent).

    Raises
    ------
    ModelError
        `rows` is not a matrix, or would take more than 128 MiB with the features that it lacks.
    """
    array = sealed(rows, np.float64)
    if array.ndim != 2:
        raise ModelError(f"expected rows as float64[n, d], got an array of shape {array.shape}")
    if array.shape[1] < width:
        if array.shape[0] * width > _PADDED:
            raise ModelError(f"expected rows of about {width} features, got {array.shape[0]} rows of {array.shape[1]}")
        padded = np.full((array.shape[0], width), np.nan)
        padded[:, : array.shape[1]] = array
        array = sealed(padded, np.float64)
    return array


def require(fits: bool | np.bool_, what: str, of: str = SNAPSHOT) -> None:
    """Raise unless the content of a snapshot, or of `of`, `fits`.

    The kernels do not check bounds, so their indices are checked once, before the first evaluation.

    Raises
    ------
    FrameError
        The content does not fit; `what` says what was expected.
    """
    if not fits:
        raise FrameError(f"{of}: expected {what}; it is damaged or forged, and not used")


def require_range(values: Array, low: int, high: int, what: str) -> None:
    """Raise unless low <= value < high for each of `values`."""
    require(values.size == 0 or (values.min() >= low and values.max() < high), f"{what} in {low}..{high - 1}")


def require_starts(starts: Array, groups: int, total: int, what: str, of: str = SNAPSHOT) -> None:
    """Raise unless `starts` cuts `total` entries into `groups` consecutive groups."""
    require(starts.size == groups + 1, f"{what} for {groups} groups", of)
    require(starts[0] == 0 and starts[-1] == total and np.all(starts[1:] >= starts[:-1]), f"{what} to cut {total}", of)


@cache
def fields(kind: type[Any]) -> tuple[tuple[str, str, int], ...]:
    """Return name, dtype and number of dimensions of each array in a tuple of arrays."""
    return tuple((name, *hint.__metadata__) for name, hint in get_type_hints(kind, include_extras=True).items())


def sealed_tuple(kind: type[Tuple], arrays: Iterable[object]) -> Tuple:
    """Return a tuple of sealed arrays from their content, in the order of the fields."""
    return kind._make(sealed(array, dtype) for array, (_, dtype, _) in zip(arrays, fields(kind), strict=True))


def read_tuple(kind: type[Tuple], arrays: Mapping[str, Array]) -> Tuple:
    """Return a tuple of the arrays that have the names of its fields; errors are those of `read_matrices`."""
    return kind._make(read_matrices(arrays, fields(kind)))


def read_fields(arrays: Mapping[str, Array], fields: Sequence[tuple[str, str]], of: str = SNAPSHOT) -> list[Array]:
    """Return the one-dimensional arrays named in `fields` (name, dtype), sealed, in that order.

    Raises
    ------
    FrameError
        An array is missing, or has another dtype or more than one dimension.
    """
    return read_matrices(arrays, [(name, dtype, 1) for name, dtype in fields], of)


def read_matrices(
    arrays: Mapping[str, Array], fields: Sequence[tuple[str, str, int]], of: str = SNAPSHOT
) -> list[Array]:
    """Return the arrays named in `fields` (name, dtype, dimensions), sealed, in that order.

    Raises
    ------
    FrameError
        An array is missing, or has another dtype or another number of dimensions.
    """
    found = []
    for name, dtype, dimensions in fields:
        array = arrays.get(name, _MISSING)
        fits = name in arrays and array.dtype == np.dtype(dtype) and array.ndim == dimensions
        require(fits, f"an array {name!r} as {dtype} of {dimensions} dimensions", of)
        found.append(sealed(array, dtype))
    return found
