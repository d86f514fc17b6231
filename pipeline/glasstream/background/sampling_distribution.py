"""Probabilities p_{s,r} with which the incremental sampling strategies draw earlier rows (004, equation 5).

Rows are numbered from 0, and row s draws from rows 0 .. s-1. While fewer than `size` rows have come, all of them are
held and equally likely.
"""

import numpy as np
from numpy.typing import NDArray


def sampling_distribution(sampling: str, size: int, row: int) -> NDArray[np.float64]:
    """Return (row,) probabilities that row number `row` draws row r, for r = 0 .. row-1. They add up to 1.

    *geometric*: p (1-p)^(s-r-1), and p (1-p)^(s-L) for each of the first L rows, p = 1/L. *uniform*: 1/s. *window*: 1/w
    for the last w rows.

    >>> sampling_distribution("geometric", 2, 4).tolist()
    [0.125, 0.125, 0.25, 0.5]
    >>> sampling_distribution("window", 2, 4).tolist()
    [0.0, 0.0, 0.5, 0.5]
    """
    if sampling == "uniform" or row <= size:
        return np.full(row, 1 / row)
    if sampling == "window":
        return np.where(np.arange(row) < row - size, 0.0, 1 / size)
    p = 1 / size
    return p * (1 - p) ** (row - 1.0 - np.maximum(np.arange(row), size - 1))


def collision_probability(sampling: str, size: int, row: int) -> float:
    """Return the probability that two draws from `sampling_distribution` give the same row (004, Lemma 1, with t0 = L).

    It is 1/s for uniform sampling, p/(2-p) (1 + (1-p)^(2(s-L)+1)) for geometric sampling, and 1/w for a window.

    >>> collision_probability("geometric", 2, 4), float(sum(sampling_distribution("geometric", 2, 4) ** 2))
    (0.34375, 0.34375)
    """
    if sampling == "uniform" or row <= size:
        return 1 / row
    p = 1 / size
    if sampling == "window":
        return p
    return float(p / (2 - p) * (1 + (1 - p) ** (2 * (row - size) + 1)))
