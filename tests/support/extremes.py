"""Saved states with an extreme number somewhere."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_EXTREMES: Final = {
    "f": [0.0, -1.0, 1e-300, 2.0**52, -1e100, 1e130, 1e200, np.nan],
    "i": [0, -1, 1, 16, 50, 2**52, -(2**53)],
}


def forged(arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Yield the arrays with an extreme number at either end of one of them, or everywhere in it, and what was done."""
    for name, array in arrays.items():
        ends = [(0,) * array.ndim, (-1,) * array.ndim, *([(..., -1)] if array.ndim > 1 else ())] if array.size else []
        for place, number in product([(...,), *ends], _EXTREMES[array.dtype.kind]):
            changed = array.copy()
            changed[place] = number
            yield f"{name}[{place}] = {number}", {**arrays, name: changed}
