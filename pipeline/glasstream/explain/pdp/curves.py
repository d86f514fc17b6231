"""Effect curves: ICE curves and their grids, smoothed in row order (001, Algorithm 1).

Each point has a weight W, the smoothing of the constant 1 over the rows in which the point was evaluated:

    W     = (1-α) W + α
    grid  = grid + α/W (x̃ - grid)
    curve = curve + α/W (ŷ - curve)

These steps combine lines 5, 7 and the division in line 10 of Algorithm 1. Grid and curve are debiased at every row,
and the curve of a constant equals the constant exactly. Grid and curve are smoothed alike, so for a model that is
linear in the feature, curve - slope · grid is the same at every point however the grid moves. The variance of the
predictions at a point is computed as in `glasstream.explain.smoothing`.

A point is dropped when a row lacks it, because the feature or the category has fallen out of use. It starts over when
it returns. The same holds for a place that another category takes over, and for an output that the model no longer has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST, LARGEST_SQUARE, MOST, Count, Field
from glasstream.base.jit import bare_kernel
from glasstream.explain.intervals import margin
from glasstream.explain.pdp.curve_shape import importance_of, shape_distance, spread_of

Floats = NDArray[np.float64]
_PER_POINT = ("grid", "curve", "weight", "spread")
_OF: Final = "effect curves"
_POINTS: Final = ("d", "points", "outputs")
_FORM: Final = {
    "grid": Field("f8", _POINTS),
    "curve": Field("f8", _POINTS),
    "weight": Field("f8", _POINTS, 0.0, 2.0),
    "spread": Field("f8", _POINTS, 0.0, LARGEST_SQUARE),
    "rows": Field("i8", ("d", "outputs"), 0, MOST),
    "ice_points": Field("f8", ("kept", "points", "d"), missing=True),
    "ice": Field("f8", ("kept", "d", "points", "outputs"), missing=True),
    "categorical": Field("i1", ("d",), 0, 1),
}


class CurvesMeta(msgspec.Struct):
    """JSON values of the state of `Curves`."""

    count: Count
    outputs: list[str | None]


class PerRow(NamedTuple):
    """Series that drift detectors can watch: for each row (count, d, k) values, NaN where there is no curve.

    `glasstream.explain.pdp.curve_shape` defines importance, deviation and distance.
    """

    importance: Floats
    """Importance of the row's own ICE curve."""
    deviation: Floats
    """Deviation of the row's own ICE curve."""
    smoothed_importance: Floats
    """Importance of the smoothed curve after the row has entered."""
    smoothed_deviation: Floats
    """Deviation of the smoothed curve after the row has entered."""
    distance: Floats
    """Distance between the row's ICE curve and the smoothed curve before the row enters."""


class IceCurve(NamedTuple):
    """Predictions for one row along a feature, sorted by grid value."""

    grid: list[float]
    curve: list[float]


class Shape(NamedTuple):
    """Smoothed curve of one feature on one output as of the newest row; see `Effect`."""

    slot: int
    column: int
    """Place of the output among those of the newest row."""
    output: str | None
    there: NDArray[np.int64]
    """Places of the points, in the order of `grid`."""
    grid: list[float]
    curve: list[float]
    importance: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one feature on one output as of the newest row.

    Attributes
    ----------
    slot
        Slot of the feature.
    output
        Class; None for regression.
    kind
        ``numeric`` or ``categorical``.
    grid
        Feature value at each point, in ascending order; for a categorical feature, the code of the category.
    curve
        Smoothed prediction at each point.
    variance
        Variance of the predictions at each point.
    margin
        Half the width of the interval of `curve` at each point; None where there are too few rows. See
        `Curves.effects`.
    importance, deviation
        Importance and deviation of the curve, see `glasstream.explain.pdp.curve_shape`.
    ice
        ICE curves of the last rows, oldest first.
    n
        Number of consecutive rows in the curve, up to the newest.
    """

    slot: int
    output: str | None
    kind: Literal["numeric", "categorical"]
    grid: list[float]
    curve: list[float]
    variance: list[float]
    margin: list[float | None]
    importance: float
    deviation: float
    ice: list[IceCurve]
    n: int


@dataclass(slots=True)
class Curves:
    """Effect curves of one stream.

    Parameters
    ----------
    alpha
        Smoothing factor α.
    keep
        Number of ICE curves that are kept for display.
    """

    alpha: float
    keep: int
    count: int = 0
    """Number of rows that have entered."""
    outputs: tuple[str | None, ...] = ()
    """Names of the k outputs of the newest row."""
    categorical: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """(d,) mask of the categorical features."""
    grid: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(d, m, k) smoothed grid values."""
    curve: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(d, m, k) smoothed predictions."""
    weight: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(d, m, k) weights W; 0 where there is no point."""
    spread: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(d, m, k) products of W and the variance."""
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """(d, k) numbers n of rows in each curve since the feature last had no point."""
    ice_points: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(up to `keep`, m, d) grids of the last rows."""
    ice: Floats = field(default_factory=lambda: np.zeros((0, 0, 0, 0)))
    """(up to `keep`, d, m, k) predictions for the last rows."""

    def update(
        self, points: Floats, ice: Floats, categorical: NDArray[np.bool_], outputs: Sequence[str | None]
    ) -> PerRow:
        """Add rows in order.

        Parameters
        ----------
        points
            (count, m, d) evaluated points, NaN where there is no point.
        ice
            (count, d, m, k) predictions, finite wherever there is a point.
        categorical
            (d,) mask of the features whose points are categories.
        outputs
            Names of the k outputs; None for the output of a regression.
        """
        count, _, width = points.shape
        if count == 0:
            nothing = np.empty((0, width, len(outputs)))
            return PerRow(nothing, nothing, nothing, nothing, nothing)
        points, ice = self._fit(points, ice, tuple(outputs))
        self.categorical = np.array(categorical, np.bool_)
        per_row = PerRow(*(np.full((count, width, len(outputs)), np.nan) for _ in PerRow._fields))
        _smooth(
            self.alpha, points, ice, self.categorical, self.grid, self.curve, self.weight, self.spread, self.rows,
            *per_row,
        )  # fmt: skip
        self.count += count
        self.ice_points = _last(self.keep, self.ice_points, points)
        self.ice = _last(self.keep, self.ice, ice)
        return per_row

    @property
    def importance(self) -> Floats:
        """(d, k) importances of the smoothed curves, see `glasstream.explain.pdp.curve_shape`; NaN where there is no
        curve.
        """
        found = np.full(self.rows.shape, np.nan)
        _importances(self.curve, self.weight, self.rows, self.categorical, found)
        return found

    def effects(self, level: float = 0.95) -> Iterator[Effect]:
        """Yield the effect of every feature that has a curve on every output, ordered by slot and output.

        The intervals, of the given level, are about the expectation of the curve, given the grids of the rows: the mean
        over the rows, by their weight, of the partial dependence at the row's own point. If the grid stands still or
        the partial dependence is linear, this is the partial dependence at the published point. They assume independent
        events and a model that stays the same, as `glasstream.explain.intervals` does.
        """
        ice = self._ice_curves()
        variances = np.divide(self.spread, self.weight, out=np.zeros_like(self.spread), where=self.weight > 0.0)
        margins = margin(variances, self.weight, self.alpha, level)
        for shape in self.shapes():
            slot, c, there = shape.slot, shape.column, shape.there
            yield Effect(
                slot=slot,
                output=shape.output,
                kind="categorical" if self.categorical[slot] else "numeric",
                grid=shape.grid,
                curve=shape.curve,
                variance=variances[slot, there, c].tolist(),
                margin=[None if isnan(one) else one for one in margins[slot, there, c].tolist()],
                importance=shape.importance,
                deviation=shape.deviation,
                ice=ice[slot][c],
                n=int(self.rows[slot, c]),
            )

    def shapes(self) -> Iterator[Shape]:
        """Yield the curve of every feature that has one on every output, ordered by slot and output."""
        for slot, c in np.argwhere(self.rows > 0).tolist():
            there = np.flatnonzero(self.weight[slot, :, c] > 0.0)
            grid = self.grid[slot, there, c]
            order = np.argsort(grid, kind="stable")
            there = there[order]
            curve = self.curve[slot, there, c]
            importance, deviation = importance_of(curve, categorical=bool(self.categorical[slot]))
            yield Shape(slot, c, self.outputs[c], there, grid[order].tolist(), curve.tolist(), importance, deviation)

    def copy(self) -> "Curves":
        """Return a copy that can be updated independently."""
        changed = {name: getattr(self, name).copy() for name in (*_PER_POINT, "rows")}
        return replace(self, **changed)  # the other arrays are never written to

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as JSON values and arrays."""
        meta = {"count": self.count, "outputs": list(self.outputs)}
        names = (*_PER_POINT, "rows", "ice_points", "ice")
        arrays = {name: getattr(self, name).copy() for name in names}
        return meta, {**arrays, "categorical": self.categorical.astype(np.int8)}

    @classmethod
    def restore(cls, alpha: float, keep: int, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Curves":
        """Restore the curves from a saved state.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        saved = form.values(meta, CurvesMeta, _OF)
        found = form.read(_FORM, arrays, _OF, outputs=len(saved.outputs))
        weight, there = found["weight"], found["weight"] > 0.0
        fits = np.where(there, weight >= 0.5 * alpha, True) & (found["spread"] <= LARGEST**2 * weight)
        form.expect(fits.all(), f"weights of 0 or from {alpha:g} on, and their variances", weight[~fits][:1], _OF)
        fits = (found["rows"] > 0) == there.any(axis=1)
        form.expect(fits.all(), "points where a curve has rows, and no others", np.argwhere(~fits)[:1], _OF)
        form.expect(len(found["ice"]) <= keep, f"at most {keep} ICE curves", len(found["ice"]), _OF)
        found["categorical"] = found["categorical"].astype(np.bool_)
        return cls(alpha, keep, saved.count, tuple(saved.outputs), **found)

    def _ice_curves(self) -> list[list[list[IceCurve]]]:
        """Return the ICE curves by slot, output and row, oldest first. Rows without a point are left out."""
        order = np.argsort(self.ice_points, axis=1, kind="stable")  # (keep, m, d); NaN comes last
        points = np.take_along_axis(self.ice_points, order, 1).transpose(2, 0, 1).tolist()
        by_slot = order.transpose(0, 2, 1)[:, :, :, np.newaxis]
        answers = np.take_along_axis(self.ice, by_slot, 2).transpose(1, 3, 0, 2).tolist()
        return [
            [[curve for curve in map(_ice_curve, rows, own) if curve.grid] for own in outputs]
            for rows, outputs in zip(points, answers, strict=True)
        ]

    def _fit(self, points: Floats, ice: Floats, outputs: tuple[str | None, ...]) -> tuple[Floats, Floats]:
        """Widen the state and the block to common dimensions."""
        if outputs != self.outputs:
            self._choose(outputs)
        known_d, known_m, k = self.grid.shape
        count, m, d = points.shape
        m, d = max(known_m, m), max(known_d, d)
        if (d, m) != (known_d, known_m):
            for name in _PER_POINT:
                setattr(self, name, _padded(getattr(self, name), (d, m, k), 0.0))
            self.rows = _padded(self.rows, (d, k), 0)
            self.ice_points = _padded(self.ice_points, (len(self.ice), m, d), np.nan)
            self.ice = _padded(self.ice, (len(self.ice), d, m, k), np.nan)
        return _padded(points, (count, m, d), np.nan), _padded(ice, (count, d, m, k), np.nan)

    def _choose(self, outputs: tuple[str | None, ...]) -> None:
        """Keep the curves of the given outputs, start the curves of new outputs, and drop all others."""
        known = {name: c for c, name in enumerate(self.outputs)}
        for name in (*_PER_POINT, "rows", "ice"):
            array = getattr(self, name)
            chosen = np.full((*array.shape[:-1], len(outputs)), np.nan if name == "ice" else 0, array.dtype)
            for c, output in enumerate(outputs):
                if output in known:
                    chosen[..., c] = array[..., known[output]]
            setattr(self, name, chosen)
        self.outputs = outputs


def _ice_curve(points: list[float], answers: list[float]) -> IceCurve:
    if not any(map(isnan, points)) and not any(map(isnan, answers)):
        return IceCurve(points, answers)
    known = [place for place, point in enumerate(points) if point == point and answers[place] == answers[place]]
    return IceCurve([points[place] for place in known], [answers[place] for place in known])


def _last(many: int, before: Floats, now: Floats) -> Floats:
    now = now[max(0, len(now) - many) :]
    return np.concatenate([before[max(0, len(before) + len(now) - many) :], now])


def _padded(array: Any, shape: tuple[int, ...], value: float) -> Any:
    if array.shape == shape:
        return array
    wide = np.full(shape, value, array.dtype)
    wide[tuple(slice(0, n) for n in array.shape)] = array
    return wide


@bare_kernel
def _smooth(  # type: ignore[no-untyped-def]
    alpha, points, ice, categorical, grid, curve, weight, spread, rows,
    importance, deviation, smoothed_importance, smoothed_deviation, distance,
):  # fmt: skip
    for i in range(points.shape[0]):
        for j in range(points.shape[2]):
            for c in range(ice.shape[3]):
                own, now = points[i, :, j], ice[i, j, :, c]
                x, y, w = grid[j, :, c], curve[j, :, c], weight[j, :, c]
                distance[i, j, c] = shape_distance(own, now, x, y, w, categorical[j])
                if _enter(alpha, own, now, categorical[j], x, y, w, spread[j, :, c]):
                    rows[j, c] += 1
                    importance[i, j, c], deviation[i, j, c] = spread_of(own, now, False, categorical[j])
                    smoothed_importance[i, j, c], smoothed_deviation[i, j, c] = spread_of(w, y, True, categorical[j])
                else:
                    rows[j, c] = 0


@bare_kernel
def _importances(curve, weight, rows, categorical, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        for c in range(out.shape[1]):
            if rows[j, c] > 0:
                out[j, c] = spread_of(weight[j, :, c], curve[j, :, c], True, categorical[j])[0]


@bare_kernel
def _enter(alpha, points, answers, categorical, grid, curve, weight, spread):  # type: ignore[no-untyped-def]
    """Add one row's curve to one smoothed curve, and return whether the row has any point."""
    keep = 1.0 - alpha
    some = False
    before = after = step = part = 0.0
    for k in range(len(points)):
        x = points[k]
        if np.isnan(x):
            grid[k] = curve[k] = weight[k] = spread[k] = 0.0
            continue
        some = True
        if weight[k] == 0.0 or (categorical and grid[k] != x):
            weight[k] = alpha
            grid[k], curve[k], spread[k] = x, answers[k], 0.0
            continue
        if weight[k] != before:  # points added together share one weight, and divisions dominate the cost
            before = weight[k]
            after = keep * before + alpha
            step = alpha / after
            part = step * keep * before
        weight[k] = after
        distance = answers[k] - curve[k]
        spread[k] = keep * spread[k] + part * distance * distance
        grid[k] += step * (x - grid[k])
        curve[k] += step * distance
    return some
