"""Importance as shares of a whole (004, Table 1)."""

import numpy as np
from numpy.typing import NDArray


def normalised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(d,) values with negative ones set to 0, divided by their sum; all 0 where no value is above 0.

    >>> normalised(np.array([3.0, -1.0, 1.0])).tolist(), normalised(np.array([-1.0, 0.0])).tolist()
    ([0.75, 0.0, 0.25], [0.0, 0.0])
    """
    largest = values.max(initial=0.0)
    if largest <= 0.0:
        return np.zeros(len(values))
    clipped = np.maximum(values, 0.0) / largest  # so that the sum is at least 1
    return np.asarray(clipped / clipped.sum())
