"""Knots: the few numbers per row from which the grid points of all features follow.

Grids move slowly: the window's minimum is the same for many rows. So messages contain only the changes of the knots in
a block, and the receiver computes the points. All functions here are pure. Their results are bit-identical before and
after transfer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import FrameError
from glasstream.base.jit import kernel

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Knots as changes from row to row. There are no knots before the first row.

    Attributes
    ----------
    row
        int32[e] row of the block from which on a knot has a new value, in non-decreasing order.
    place
        int32[e] index of the knot: k·d + j for the k-th knot of feature j.
    value
        float64[e] new value; NaN if the knot is gone.
    """

    row: NDArray[np.int32]
    place: NDArray[np.int32]
    value: Floats


def changes(knots: Floats) -> Changes:
    """Convert knots, (count, p, d), to changes.

    >>> knots = np.array([[[1.0]], [[1.0]], [[2.0]]])
    >>> written = changes(knots)
    >>> written.row.tolist(), written.place.tolist(), written.value.tolist()
    ([0, 2], [0, 0], [1.0, 2.0])
    >>> unchanged(written, *knots.shape).tolist() == knots.tolist()
    True
    """
    count = len(knots)
    flat = np.ascontiguousarray(knots).reshape(count, knots.shape[1] * knots.shape[2])
    bits = flat.view(np.int64)
    before = np.float64(np.nan).view(np.int64)
    many = _count_changes(bits, before)
    written = Changes(np.empty(many, np.int32), np.empty(many, np.int32), np.empty(many))
    _write_changes(bits, before, flat, written.row, written.place, written.value)
    return written


def unchanged(written: Changes, count: int, p: int, d: int) -> Floats:
    """Return the knots, (count, p, d), that the changes encode.

    Raises
    ------
    FrameError
        The changes do not encode knots of this shape.
    """
    row, place, value = written.row, written.place, written.value
    whole = row.ndim == place.ndim == value.ndim == 1 and len(row) == len(place) == len(value)
    if not whole or (
        len(row)
        and (
            row[0] < 0
            or row[-1] >= count
            or bool((row[1:] < row[:-1]).any())
            or place.min() < 0
            or place.max() >= p * d
        )
    ):
        raise FrameError(
            f"changes of grids: expected equally many rows, in order and below {count}, places below {p * d} and "
            f"values, got shapes {row.shape}, {place.shape}, {value.shape} or numbers beyond these"
        )
    flat = np.empty((count, p * d))
    _replay(row, place, value, flat)
    return flat.reshape(count, p, d)


def expand(knots: Floats, categorical: NDArray[np.bool_], points: int, *, equidistant: bool) -> Floats:
    """Return the grid points that knots stand for.

    Parameters
    ----------
    knots
        (count, p, d) knots. For a categorical feature they are its points. For a numeric feature they are the lower and
        upper end (`equidistant`, 001 section 3.2), or its points.
    categorical
        (d,) mask of the categorical features.
    points
        Number m of points of a numeric feature.
    equidistant
        Whether the points of a numeric feature lie at equal distances between two ends.

    Returns
    -------
    (count, max(m, p), d) points, NaN where there is none.
    """
    count, p, d = knots.shape
    out = np.full((count, max(points, p), d), np.nan)
    _expand(knots, categorical, points, equidistant, out)
    return out


@kernel
def between(low, high, share):  # type: ignore[no-untyped-def]
    """Interpolate: exactly `low` at share 0 and `high` at share 1, exact for equal ends, and without overflow."""
    if low == high:
        return low
    return (1.0 - share) * low + share * high


@kernel
def _expand(knots, categorical, points, equidistant, out):  # type: ignore[no-untyped-def]
    count, p, d = knots.shape
    for i in range(count):
        for j in range(d):
            if equidistant and not categorical[j]:
                low, high = knots[i, 0, j], knots[i, 1, j]
                if not np.isnan(low):
                    for k in range(points):
                        out[i, k, j] = between(low, high, k / (points - 1))
            else:
                for k in range(p):
                    out[i, k, j] = knots[i, k, j]


@kernel
def _count_changes(bits, before):  # type: ignore[no-untyped-def]
    many = 0
    for i in range(bits.shape[0]):
        for place in range(bits.shape[1]):
            if bits[i, place] != (bits[i - 1, place] if i > 0 else before):
                many += 1
    return many


@kernel
def _write_changes(bits, before, values, row, place, value):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(bits.shape[0]):
        for here in range(bits.shape[1]):
            if bits[i, here] != (bits[i - 1, here] if i > 0 else before):
                row[at], place[at], value[at] = i, here, values[i, here]
                at += 1


@kernel
def _replay(row, place, value, out):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(out.shape[0]):
        for here in range(out.shape[1]):
            out[i, here] = out[i - 1, here] if i > 0 else np.nan
        while at < len(row) and row[at] == i:
            out[i, place[at]] = value[at]
            at += 1
