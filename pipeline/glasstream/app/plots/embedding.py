"""Plot an embedding in its first two principal components (003, appendix F)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from glasstream.app.plots.canvas import COLOURS, PALE, drawing, named, plain
from glasstream.base.errors import InputError

if TYPE_CHECKING:
    from glasstream.app.plots.drawing import Drawing

_FEW = 300
"""Largest number of points for which large markers are used."""


def principal_components(points: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the points in their first two principal components, float64[n, 2], and each component's share of variance.

    If there is only one dimension, the second component is 0. The sign of a component makes its largest weight
    positive.

    >>> import numpy as np
    >>> placed, shares = principal_components(np.array([[0.0, 0.0], [2.0, 2.0], [1.0, 1.0]]))
    >>> [round(float(share), 6) for share in shares], [round(float(x), 6) for x in placed[:, 0]]
    ([1.0, 0.0], [-1.414214, 1.414214, 0.0])
    """
    matrix = np.asarray(points, np.float64)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise InputError(f"plots: expected an embedding as float64[n, m] of finite numbers, got shape {matrix.shape}")
    centred = matrix - matrix.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    placed, shares = np.zeros((len(matrix), 2)), np.zeros(2)
    total = float(np.square(sizes).sum())
    for k in range(min(2, len(sizes))):
        direction = directions[k] * np.sign(directions[k][np.abs(directions[k]).argmax()])
        placed[:, k] = (centred * direction).sum(axis=1)
        shares[k] = sizes[k] ** 2 / total if total > 0 else 0.0
    return placed, shares


def plot_embedding(
    points: npt.ArrayLike, targets: npt.ArrayLike, classes: Sequence[str] = (), target: str = "target"
) -> "Drawing":
    """Plot the points of an embedding, coloured by their targets.

    Parameters
    ----------
    points
        float64[n, m].
    targets
        float64[n]; for a class, its index in `classes`.
    classes
        Names of the classes; empty if the target is a number. All but the seven most frequent are grey.
    target
        Name of the target.

    Raises
    ------
    InputError
        The points are not finite numbers, or matplotlib is not installed.
    """
    figure = drawing(7.5, 6.0)
    placed, shares = principal_components(points)
    first, second = placed[:, 0], placed[:, 1]
    values = np.asarray(targets, np.float64)
    axes = figure.subplots()
    plain(axes)
    size = 18.0 if len(values) <= _FEW else 5.0
    if classes:
        counts = np.bincount(values.astype(np.int64), minlength=len(classes))
        named_classes = [int(place) for place in np.argsort(-counts, kind="stable")[: len(COLOURS)]]
        colours = np.array([PALE] * len(classes), dtype=object)
        for colour, place in zip(COLOURS, named_classes, strict=False):
            colours[place] = colour
            axes.scatter([], [], color=colour, s=18, label=f"class {place}")  # a name with a leading _ is left out
        axes.scatter(first, second, c=list(colours[values.astype(np.int64)]), s=size, alpha=0.7, linewidths=0)
        legend = axes.legend(title=named(target), frameon=False, loc="best")
        for text, place in zip(legend.get_texts(), named_classes, strict=True):
            text.set_text(named(classes[place]))
    else:
        drawn = axes.scatter(first, second, c=values, cmap="viridis", s=size, alpha=0.7, linewidths=0)
        figure.colorbar(drawn, ax=axes, label=named(target))
    axes.set_xlabel(f"first principal component ({shares[0]:.0%} of the variance)")
    axes.set_ylabel(f"second principal component ({shares[1]:.0%})")
    axes.set_title("Embedding", loc="left", fontsize=11, fontweight="bold")
    return figure
