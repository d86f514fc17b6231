"""Partial dependence of a fixed model on a fixed data set (paper 001, equation 1; Friedman, 2001), with its ICE curves.

It is the reference for the incremental curves, which equal it on a stream that repeats a data set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.explain.pdp import contributions as ipdp
from glasstream.explain.pdp.curve_shape import importance_of
from glasstream.explain.sampling.grids import categorical
from glasstream.explain.sampling.knots import expand
from glasstream.explain.sampling.settings import GridSettings
from glasstream.models.predictors.predictor import Predictor

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class BatchPDP:
    """Partial dependence curves of a data set.

    Attributes
    ----------
    outputs
        Names of the k outputs, see `glasstream.explain.pdp.contributions.outputs`.
    grid
        (m, d) grid points; NaN where there is none.
    ice
        (n, d, m, k) ICE curves of all rows.
    curve
        (d, m, k) partial dependence, the mean of the ICE curves.
    importance
        (d, k) importances of the curves, see `glasstream.explain.pdp.curve_shape`; NaN for a feature without a point.
    """

    outputs: tuple[str | None, ...]
    grid: Floats
    ice: Floats
    curve: Floats
    importance: Floats


def batch_grid(rows: Floats, kinds: Sequence[int], settings: GridSettings | None = None) -> Floats:
    """Return a grid over a whole data set, (max(points, categories), d), NaN where there is no point.

    Parameters
    ----------
    rows
        (n, d), NaN where a feature is absent.
    kinds
        Kinds of the features, see `glasstream.events.features.Kind`.
    settings
        Settings as for `glasstream.explain.sampling.grids.Grids`. `window` and `store` are not used. If a feature has
        too many categories, the most frequent ones have a point.
    """
    settings = settings or GridSettings()
    has_categories = categorical(kinds)
    knots = np.full((1, settings.knots, len(kinds)), np.nan)
    for slot in range(len(kinds)):
        values = rows[np.isfinite(rows[:, slot]), slot]
        if len(values) == 0:
            continue
        if has_categories[slot]:
            codes, counts = np.unique(values, return_counts=True)
            found = np.sort(codes[np.argsort(-counts, kind="stable")[: settings.categories]])
        elif settings.grid == "extremes":
            found = np.array([values.min(), values.max()])
        else:
            many = 2 if settings.equidistant else settings.points
            found = np.quantile(values, np.linspace(settings.low, settings.high, many))
        knots[0, : len(found), slot] = found
    return np.asarray(expand(knots, has_categories, settings.points, equidistant=settings.equidistant)[0])


def batch_pdp(
    predictor: Predictor,
    rows: Floats,
    kinds: Sequence[int],
    *,
    grid: Floats | None = None,
    settings: GridSettings | None = None,
    output: str | None = None,
) -> BatchPDP:
    """Return partial dependence and ICE curves of every feature.

    Parameters
    ----------
    predictor
        Model to explain.
    rows
        (n, d), NaN where a feature is absent.
    kinds
        Kinds of the features.
    grid
        (m, d) grid points; None for the `batch_grid` of the rows with `settings`.
    settings
        Settings of the grid; not used if `grid` is given.
    output
        Only class to explain; None for the default outputs.

    Examples
    --------
    >>> from river import linear_model
    >>> from glasstream.explain.estimators.live_model import LiveModel
    >>> model = linear_model.LinearRegression()
    >>> for t in range(1_000):
    ...     model.learn_one({"a": t % 5, "b": t % 2}, 2.0 * (t % 5))
    >>> live = LiveModel(model)
    >>> rows = np.concatenate([live.row({"a": t % 5, "b": t % 2}) for t in range(10)])
    >>> effects = batch_pdp(live.predictor, rows, live.kinds, settings=GridSettings(points=3))
    >>> effects.grid[:3, 0].tolist(), effects.curve[0, :3, 0].round(2).tolist()
    ([0.0, 2.0, 4.0], [0.0, 4.0, 8.0])
    """
    grid = batch_grid(rows, kinds, settings) if grid is None else grid
    columns = ipdp.outputs(predictor, output)
    ice = ipdp.curves(predictor, rows, np.broadcast_to(grid, (len(rows), *grid.shape)), columns)
    curve = ice.mean(axis=0)
    importance = np.full((len(kinds), len(columns)), np.nan)
    for slot, has_categories in enumerate(categorical(kinds)):
        there = ~np.isnan(grid[:, slot])
        for c in range(len(columns)):
            if there.any():
                importance[slot, c], _ = importance_of(curve[slot, there, c], categorical=bool(has_categories))
    return BatchPDP(tuple(column.name for column in columns), grid, ice, curve, importance)


def batch_surface(
    predictor: Predictor, rows: Floats, grid: Floats, pair: tuple[int, int], *, output: str | None = None
) -> Floats:
    """Return the partial dependence on two features, (m, m, k), the mean over the rows.

    Parameters
    ----------
    predictor, rows, output
        Parameters of `batch_pdp`.
    grid
        (m, d) grid points. Only those of the pair are used.
    pair
        Slots of the two features.
    """
    points = np.broadcast_to(grid, (len(rows), *grid.shape))
    return np.asarray(ipdp.surfaces(predictor, rows, points, pair, ipdp.outputs(predictor, output)).mean(axis=0))
