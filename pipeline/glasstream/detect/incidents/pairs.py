"""Pairs of features that are almost the same, and their differences.

Two neighbouring thermometers have the same distribution, so neither shows that they have changed places, or that
one of them drifts within the range of the other. Their difference shows both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LIKENESS = 0.9
"""Smallest absolute rank correlation of the first rows of two features that are watched as a pair."""

_SAME_UNIT = 2.0  # largest ratio of the spreads of features that are taken to have the same unit
_LARGEST = np.finfo(np.float64).max

Floats = NDArray[np.float64]


class Pair(NamedTuple):
    """Two features that are almost the same, by their slots."""

    first: int
    second: int
    ratio: float
    """Factor that makes the second feature like the first; negative if one falls where the other rises."""


def differences(values: Floats, pairs: Sequence[Pair]) -> Floats:
    """Return (n, p) the differences of p pairs: finite, or NaN where a value is missing.

    Parameters
    ----------
    values
        (n, d) values of the features.
    """
    if not pairs:
        return np.empty((len(values), 0))
    first, second, ratio = zip(*pairs, strict=True)
    with np.errstate(over="ignore", invalid="ignore"):
        between = values[:, first] - values[:, second] * np.array(ratio)
    return np.asarray(np.clip(between, -_LARGEST, _LARGEST))


def ranks(values: Floats) -> Floats:
    """Return the ranks of values between -1 and 1. Equal values share one, and missing values have the lowest."""
    known = np.where(np.isnan(values), -np.inf, values)
    order = np.sort(known)
    both = np.searchsorted(order, known) + np.searchsorted(order, known, "right")
    return np.asarray((both - len(known)) / len(known))


def find_pairs(values: Floats, slots: Sequence[int]) -> list[Pair]:
    """Return the pairs among some features, those that are most alike first. No feature is in two pairs.

    Parameters
    ----------
    values
        (n, m) values of m features.
    slots
        m slots of the features.
    """
    if values.shape[1] < 2:
        return []
    present = ~np.isnan(values)
    ranked = np.where(present, np.column_stack([ranks(column) for column in values.T]), 0.0)
    ranked -= np.where(present, ranked.sum(axis=0) / np.maximum(1, present.sum(axis=0)), 0.0)
    size = np.sqrt((ranked**2).sum(axis=0))
    ranked /= np.where(size > 0.0, size, 1.0)
    likeness = np.array([(ranked * column[:, np.newaxis]).sum(axis=0) for column in ranked.T])
    left, right = np.nonzero(np.triu(np.abs(likeness) >= LIKENESS, 1))
    found: list[Pair] = []
    taken: set[int] = set()
    for place in np.argsort(-np.abs(likeness[left, right]), kind="stable"):
        a, b = int(left[place]), int(right[place])
        if taken.isdisjoint((a, b)):
            taken |= {a, b}
            ratio = _ratio(values[:, a], values[:, b])
            found.append(Pair(slots[a], slots[b], float(np.copysign(ratio, likeness[a, b]))))
    return found


def _ratio(first: Floats, second: Floats) -> float:
    """Return the ratio of the spreads of two features, or 1 if they seem to have the same unit."""
    upper, lower = (
        np.nanpercentile([first, second], share, axis=1, method="nearest") / 2.0 for share in (75.0, 25.0)
    )  # halves: their difference is finite
    spread, other = upper - lower
    ratio = float(spread / other) if spread > 0.0 and other > 0.0 else 1.0
    return ratio if 0.0 < ratio < 1.0 / _SAME_UNIT or _SAME_UNIT < ratio < np.inf else 1.0
