"""Report a broken law: what was expected, what came, and what to do."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import CheckFailed


def expect(holds: bool | np.bool_, subject: object, expected: str, got: object, cure: str) -> None:
    """Raise unless a law `holds`.

    Raises
    ------
    CheckFailed
        The law does not hold; the message names the type of `subject`.
    """
    if not holds:
        raise CheckFailed(f"{type(subject).__name__}: expected {expected}, got {got}; {cure}")


def expect_same_bits(subject: object, actual: Any, wanted: Any, expected: str, cure: str) -> None:
    """Raise unless two arrays agree in shape and in every bit; all NaN values are equal.

    Raises
    ------
    CheckFailed
        The arrays differ; the message shows the first difference.
    """
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    alike = actual.shape == wanted.shape and actual.dtype == wanted.dtype
    expect(alike, subject, expected, f"{_form(actual)} instead of {_form(wanted)}", cure)
    different = np.flatnonzero(_bits(actual) != _bits(wanted))
    if len(different):
        place = tuple(int(at) for at in np.unravel_index(different[0], actual.shape))
        count = f"{len(different)} of {actual.size} differ"
        got = f"{actual[place]!r} instead of {wanted[place]!r} at {list(place)} ({count})"
        expect(False, subject, expected, got, cure)


def _form(array: NDArray[Any]) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype != np.float64:
        return array.ravel()
    return np.where(np.isnan(array), np.nan, array).ravel().view(np.int64)
