"""iPDP: the predictions of a model along each feature (paper 001).

The m predictions for row i with feature j at its grid points are the ICE curve of the row (lines 4 to 6 of
Algorithm 1),

    ŷ_ijk = f(x_i with x_ij at the k-th point).

Their mean over rows is the partial dependence. The aggregator smooths the curves together with their grids.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import ModelError
from glasstream.base.jit import kernel
from glasstream.explain.variants import replaced
from glasstream.models.predictors.predictor import REGRESSION, Predictor
from glasstream_topics.methods import LARGEST, MOST_OUTPUTS

Floats = NDArray[np.float64]


class OutputOf(NamedTuple):
    """Output of a model that has curves."""

    name: str | None
    """Class; None for regression."""
    column: int
    """Column of the predictor's values."""


def outputs(predictor: Predictor, chosen: str | None = None, most: int = MOST_OUTPUTS) -> tuple[OutputOf, ...]:
    """Return the outputs that have curves, sorted by name.

    Regression has one output, the value. With two classes it is the probability of the second by name, which determines
    the other. With more classes there is one output per class, for the first `most` classes that appeared. With one
    class or none there is no output, because there is no effect.

    Parameters
    ----------
    predictor
        The model.
    chosen
        Only this class; no output while the model does not know it.
    most
        Largest number of outputs.

    Raises
    ------
    ModelError
        A class is chosen and the model has none.
    """
    if predictor.task == REGRESSION:
        if chosen is not None:
            raise ModelError(f"curves: expected no class for regression, got {chosen!r}; leave it out")
        return (OutputOf(None, 0),)
    known = [OutputOf(name, column) for column, name in enumerate(predictor.classes)]
    if chosen is not None:
        return tuple(output for output in known if output.name == chosen)
    if len(known) <= 2:
        return tuple(sorted(known)[1:])
    return tuple(sorted(known[:most]))


def curves(predictor: Predictor, rows: Floats, points: Floats, columns: tuple[OutputOf, ...]) -> Floats:
    """Return the ICE curves of a block.

    Parameters
    ----------
    predictor
        The model.
    rows
        (count, d), NaN if a feature is absent.
    points
        (count, m, d): at [i, k, j] the k-th point of feature j for row i; NaN if there is none.
    columns
        The k outputs from `outputs`.

    Returns
    -------
    (count, d, m, k), NaN where there is no point. The model is never evaluated with the feature absent.
    """
    count, m, width = points.shape
    out = np.full((count, width, m, len(columns)), np.nan)
    if out.size == 0:
        return out
    asked = np.where(np.isnan(points), rows[:, np.newaxis, :], points)  # a row's own value costs no evaluation
    _, said = replaced(predictor, rows, asked)
    _arrange(said.values, points, np.array([output.column for output in columns]), out)
    return out


def surfaces(
    predictor: Predictor, rows: Floats, points: Floats, pair: tuple[int, int], columns: tuple[OutputOf, ...]
) -> Floats:
    """Return the predictions of a block along two features at once.

    Parameters
    ----------
    predictor, rows, points, columns
        As for `curves`.
    pair
        The slots of the two features, a and b.

    Returns
    -------
    (count, m, m, k): at [i, k, l] the prediction for row i with a at its k-th and b at its l-th point; NaN if one of
    the two has no point.
    """
    count, m, _ = points.shape
    a, b = pair
    out = np.full((count, m, m, len(columns)), np.nan)
    chosen = [output.column for output in columns]
    for i in range(count):  # m² rows at once are enough to keep a predictor busy
        places = np.argwhere(~np.isnan(points[i, :, a])[:, np.newaxis] & ~np.isnan(points[i, :, b]))
        asked = np.repeat(rows[i : i + 1], len(places), axis=0)
        asked[:, a], asked[:, b] = points[i, places[:, 0], a], points[i, places[:, 1], b]
        if len(places):
            out[i, places[:, 0], places[:, 1]] = predictor.evaluate(asked).values[:, chosen]
    return out


def unanswered(points: Floats, ice: Floats) -> NDArray[np.bool_]:
    """Return (count,) the rows that cannot be aggregated: a prediction is not finite, or is beyond ±1e125.

    Parameters
    ----------
    points
        (count, m, d)
    ice
        (count, d, m, k) from `curves`.
    """
    asked = ~np.isnan(points).transpose(0, 2, 1)[:, :, :, np.newaxis]
    return np.asarray((asked & ~(np.abs(ice) <= LARGEST)).any(axis=(1, 2, 3)))


@kernel
def _arrange(values, points, columns, out):  # type: ignore[no-untyped-def]
    count, m, width = points.shape
    at = 0
    for i in range(count):
        for k in range(m):
            for j in range(width):
                if not np.isnan(points[i, k, j]):
                    for c in range(len(columns)):
                        out[i, j, k, c] = values[at, columns[c]]
                at += 1
