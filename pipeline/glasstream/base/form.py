"""The form of saved state: what its arrays and its JSON values must be before anything indexes, sizes or sums by them.

A form declares each array of a state once: its dtype, its shape in terms of sizes that several arrays share, and the
range of its numbers. From a form follow the arrays of an empty state (`empty`) and the check of arrays that were read
(`read`). JSON values have their form in a msgspec type (`values`). Everything that is wrong is a `FrameError` that says
what was expected, and what came. The state of a stage that cannot be read becomes a `StateError` with a remedy.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import FrameError

Array = NDArray[Any]
T = TypeVar("T")

LARGEST: Final = 1e130
"""Largest absolute value of a number. It is above that of anything in contributions, and its square is finite."""
LARGEST_SUM: Final = 1e150
"""Largest absolute value of a sum of such numbers."""
LARGEST_SQUARE: Final = 1e275
"""Largest value of a square of such numbers, of a product of two, and of a sum of these."""
FINITE: Final = float(np.finfo(np.float64).max)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
MOST: Final = 2**53
"""Largest number of rows, events, or anything else that is counted."""

NEW_EPOCH: Final = (
    "start a new epoch (--set epoch=N on every stage, with N above the epoch that `glasstream state show` prints)"
)
"""Remedy for state that cannot be used."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
"""A number of things that are counted, or the number of one of them."""
Before = Annotated[int, msgspec.Meta(ge=-1, le=MOST)]
"""The same; -1 before the first."""


class Field(NamedTuple):
    """What one array must be."""

    dtype: str
    shape: tuple[int | str, ...]
    """Sizes; a name stands for a size that several arrays share."""
    low: float = -LARGEST
    high: float = LARGEST
    missing: bool = False
    """Whether NaN stands for no number."""
    whole: bool = False
    """Whether the numbers are whole although the dtype is not."""
    start: float = 0.0
    """Number of which the array of an empty state consists."""


Form = Mapping[str, Field]


def empty(form: Form, **sizes: int) -> dict[str, Array]:
    """Return the arrays of a state without content."""
    return {
        name: np.full(
            [sizes[size] if isinstance(size, str) else size for size in field.shape], field.start, field.dtype
        )
        for name, field in form.items()
    }


def read(form: Form, arrays: Mapping[str, Array], of: str, **sizes: int) -> dict[str, Array]:
    """Return copies of the arrays that a form declares.

    Parameters
    ----------
    of
        What the arrays are the state of, for errors.
    sizes
        Sizes that are known. The first array with any other size decides about it.

    Raises
    ------
    FrameError
        An array is missing, or has another dtype, another shape, or a number that is out of range.
    """
    found = {}
    for name, field in form.items():
        array = arrays.get(name)
        if array is None:
            raise FrameError(f"{of}: expected an array {name!r}, got {', '.join(sorted(arrays))[:200] or 'none'}")
        if array.ndim == len(field.shape):
            for size, own in zip(field.shape, array.shape, strict=True):
                if isinstance(size, str):
                    sizes.setdefault(size, own)
        shape = tuple(sizes.get(size, -1) if isinstance(size, str) else size for size in field.shape)
        if array.dtype != np.dtype(field.dtype) or array.shape != shape:
            wanted = ", ".join(
                str(size) if isinstance(size, int) else f"{size}={sizes.get(size)}" for size in field.shape
            )
            raise FrameError(
                f"{of}: expected {name!r} as {field.dtype}[{wanted}], got {array.dtype.str[1:]}{list(array.shape)}"
            )
        _check_range(field, array, f"{of}: expected {name!r}")
        found[name] = np.array(array, field.dtype, order="C")
    return found


def _check_range(field: Field, array: Array, expected: str) -> None:
    fits = (array >= field.low) & (array <= field.high)  # NaN is not
    if field.missing:
        fits |= np.isnan(array)
    if field.whole:
        fits &= array == np.floor(array)
    if not fits.all():
        at = tuple(np.argwhere(~fits)[0].tolist())
        kind = "whole numbers" if field.whole or array.dtype.kind in "iu" else "numbers"
        raise FrameError(f"{expected} of {kind} from {field.low:g} to {field.high:g}, got {array[at]} at {list(at)}")


def values(meta: object, kind: type[T], of: str) -> T:
    """Return JSON values as the type that declares their form.

    Raises
    ------
    FrameError
        A value is unknown, missing, of another type or out of range.
    """
    try:
        return msgspec.convert(meta, kind)
    except msgspec.ValidationError as error:
        raise FrameError(f"{of}: {error}, got {_shown(_at(meta, str(error)))}") from error


def _at(meta: object, error: str) -> object:
    """Return the value that an error of msgspec is about; the last one on the way to it that its path names."""
    for name, index in _STEP.findall(error.rpartition(" - at `$")[2]):
        if isinstance(meta, Mapping) and name in meta:
            meta = meta[name]
        elif isinstance(meta, list) and index and int(index) < len(meta):
            meta = meta[int(index)]
        else:
            break
    return meta


def _shown(value: object) -> str:
    return " ".join(str(value).split())[:200]


def expect(fits: bool | np.bool_, what: str, got: object, of: str) -> None:
    """Raise unless parts of a state fit each other.

    Raises
    ------
    FrameError
        They do not fit; `what` says what was expected, and `got` what came.
    """
    if not fits:
        raise FrameError(f"{of}: expected {what}, got {_shown(got)}")


def distinct(texts: Sequence[str], most: int, size: int, what: str, of: str) -> None:
    """Raise FrameError unless texts differ, and are at most `most`, with at most `size` bytes of JSON together."""
    written = sum(len(msgspec.json.encode(text)) for text in texts)
    expect(len(set(texts)) == len(texts), f"distinct {what}", texts, of)
    expect(
        len(texts) <= most and written <= size,
        f"at most {most} {what} of {size} bytes",
        f"{len(texts)} of {written}",
        of,
    )


def part(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
