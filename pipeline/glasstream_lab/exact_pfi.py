"""Exact values that permutation importance estimates, from all pairs of rows (paper 004).

The cost is N² evaluations per feature. The functions are a reference for small data sets.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import SettingsError
from glasstream.explain.losses import Loss
from glasstream.explain.pfi import contributions
from glasstream.models.predictors.predictor import Predictor

Floats = NDArray[np.float64]

_PAIRS = 1 << 16
"""Number of pairs of rows evaluated at a time."""


def exact_pfi(predictor: Predictor, loss: Loss, rows: Floats, targets: Floats) -> Floats:
    """Return the expected PFI, e_switch - e_orig (004, Theorem 1; "model reliance" of Fisher, Rudin and Dominici 2019).

    e_switch is the mean loss over all ordered pairs of different rows, where one row takes the feature's value from the
    other. e_orig is the mean loss.

    Parameters
    ----------
    predictor, loss, rows, targets
        Parameters of `batch_pfi`; N is at least 2.

    Returns
    -------
    (d,) importances.

    Raises
    ------
    SettingsError
        There are fewer than 2 rows.
    """
    count = len(rows)
    if count < 2:
        raise SettingsError([f"exact PFI: expected 2 rows or more, got {count}"])
    own = np.arange(count)
    total = np.zeros(rows.shape[1])
    for row, pairs in enumerate(_pairs(predictor, loss, rows, targets, lambda row: np.flatnonzero(own != row))):
        total += (pairs.mean(axis=0) - total) / (row + 1)
    return total


def expected_ipfi(
    predictor: Predictor,
    loss: Loss,
    rows: Floats,
    targets: Floats,
    *,
    alpha: float,
    sampling: str = "geometric",
    reservoir: int = 100,
    start: int | None = None,
) -> Floats:
    """Return the expectation of iPFI after the last row, over the sampling and for given rows (004).

    Parameters
    ----------
    predictor, loss, rows, targets
        Parameters of `batch_pfi`, with one model for all rows.
    alpha, sampling, reservoir, start
        Parameters of `IncrementalPFI`.

    Returns
    -------
    (d,) expectations of the debiased values. For raw values, multiply by 1 - (1-α)^n, n the number of explained rows.

    Raises
    ------
    SettingsError
        No row is explained.
    """
    count, begin = len(rows), reservoir if start is None else start
    if not 1 <= begin < count:
        raise SettingsError([f"expected iPFI: expected a start from 1 to below the {count} rows, got {begin}"])
    raw, weight = np.zeros(rows.shape[1]), 0.0
    # the first `begin` rows serve as background only
    for row, pairs in enumerate(_pairs(predictor, loss, rows, targets, np.arange, begin), begin):
        distribution = sampling_distribution(sampling, reservoir, row)
        raw = (1 - alpha) * raw + alpha * (distribution[:, None] * pairs).sum(axis=0)
        weight = (1 - alpha) * weight + alpha
    return raw / weight


def _pairs(
    predictor: Predictor,
    loss: Loss,
    rows: Floats,
    targets: Floats,
    drawn: Callable[[int], NDArray[np.int64]],
    begin: int = 0,
) -> Iterator[Floats]:
    """For each row from `begin` on, return (n, d) contributions with each of the n rows that `drawn` selects."""
    for row in range(begin, len(rows)):
        others = drawn(row)
        yield np.concatenate(
            [
                contributions(
                    predictor,
                    loss,
                    np.repeat(rows[row : row + 1], len(part), axis=0),
                    np.repeat(targets[row : row + 1], len(part)),
                    rows[part][:, None, :],
                )
                for part in np.split(others, range(_PAIRS, len(others), _PAIRS))
            ]
        )


def sampling_distribution(sampling: str, size: int, row: int) -> NDArray[np.float64]:
    """Return (row,) probabilities that row number `row` draws row r, for r = 0 .. row-1 (004, equation 5).

    Rows are numbered from 0, and row s draws from rows 0 .. s-1. While fewer than `size` rows have come, all of them
    are held and equally likely. The probabilities add up to 1.

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
