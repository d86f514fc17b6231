"""The drift indicator: the difference between a row's prediction and the value that its neighbours support (003, 4.5).

Within the distribution that a map was fitted to, f and the mean over the nearest reference rows agree. Outside of it,
f continues along its slope and the neighbours do not. Neither needs the row's label.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.map import BoostedMap, start_values, sum_learners
from glasstream.detect.gbmap.neighbours import Neighbours
from glasstream.detect.gbmap.rows import Floats, as_column, as_matrix, is_whole
from glasstream.detect.gbmap.settings import SENSITIVE, GbmapSettings, least_held

NEIGHBOURS: Final = 5
"""Number of neighbours k in the paper's experiments (003, 4.5)."""


@dataclass(frozen=True, slots=True, eq=False)
class DriftIndicator:
    """A map, and the labelled rows with which its predictions are compared.

    Attributes
    ----------
    map
        The map.
    values
        float64[n], value of each reference row: its target with the quadratic loss, its f with the logistic loss, as in
        the paper.
    k
        Number of neighbours.
    """

    map: BoostedMap
    values: Floats
    k: int
    _embedded: Neighbours
    _plain: Neighbours

    @classmethod
    def of(
        cls,
        map: BoostedMap,
        rows: npt.ArrayLike,
        targets: npt.ArrayLike | None = None,
        *,
        k: int = NEIGHBOURS,
        index: bool | None = None,
        plain: Neighbours | None = None,
    ) -> "DriftIndicator":
        """Return an indicator with `rows` as its reference.

        Parameters
        ----------
        map
            A fitted map.
        rows
            float64[n, p], rows that the map was fitted to.
        targets
            float64[n], targets of the rows; ignored with the logistic loss.
        k
            Number of neighbours, at most n.
        index
            Whether to find neighbours with a tree; see `Neighbours.of`. The result is the same.
        plain
            `Neighbours` of the same rows with the metric ``"euclidean"``, if another indicator has already built them.

        Raises
        ------
        InputError
            The rows or targets do not have that form, targets are missing, or there are fewer than k rows.
        ModelError
            The map's f_0 fails; see `BoostedMap.predict`.
        """
        reference = as_matrix(rows, "reference rows", map.features)
        if not is_whole(k) or not 1 <= k <= len(reference):
            raise InputError(
                f"gbmap: expected k from 1 to the {len(reference)} reference rows, got {k!r}; take more rows or a "
                "smaller k"
            )
        if map.loss == "logistic":
            values = map.predict(reference)
        elif targets is None:
            raise InputError("gbmap: expected the targets of the reference rows for a map of the quadratic loss")
        else:
            values = as_column(targets, "reference targets", len(reference))
        embedded = Neighbours.of(map.embed(reference), "manhattan", index=index)
        return cls(map, values, k, embedded, plain or Neighbours.of(reference, "euclidean", index=index))

    @classmethod
    def fit(
        cls,
        rows: npt.ArrayLike,
        targets: npt.ArrayLike,
        settings: GbmapSettings = SENSITIVE,
        *,
        k: int = NEIGHBOURS,
        index: bool | None = None,
    ) -> "DriftIndicator":
        """Return an indicator with a map of its own, fitted to the rows that are its reference.

        With the default settings, the indicator notices rows that leave the reference in directions in which it hardly
        varies. To find the losses of a model, use `of` with the map of that model, which finds them better (measured).
        Parameters and errors are those of `of` and of `fit_map`.
        """
        return cls.of(fit_map(rows, targets, settings).map, rows, targets, k=k, index=index)

    def indicator(self, rows: npt.ArrayLike) -> Floats:
        """Return |f(x) - f_kNN(x)| of each row, float64[n], in units of f.

        The neighbours are the nearest by the embedding distance.

        Raises
        ------
        InputError
            `rows` is not float64[n, p] of finite numbers.
        ModelError
            The map's f_0 fails; see `BoostedMap.predict`.
        """
        matrix = as_matrix(rows, "rows", self.map.features)
        embedded = self.map.embed(matrix)
        predicted = start_values(self.map.initial, matrix) + sum_learners(embedded)
        return np.abs(predicted - self._supported(embedded))

    def supported(self, rows: npt.ArrayLike) -> Floats:
        """Return f_kNN of each row, float64[n]: the mean of its neighbours' `values`.

        Errors are those of `indicator`.
        """
        return self._supported(self.map.embed(rows))

    def baseline(self, rows: npt.ArrayLike) -> Floats:
        """Return the Euclidean distance of each row to the k-th nearest reference row, float64[n].

        This baseline indicator does not use the target. Errors are those of `indicator`.
        """
        _, distances = self._plain.nearest(as_matrix(rows, "rows", self.map.features), self.k)
        return distances[:, -1].copy()

    def _supported(self, embedded: Floats) -> Floats:
        found, _ = self._embedded.nearest(embedded, self.k)
        total = np.zeros(len(embedded))
        for place in range(self.k):
            total += self.values[found[:, place]]
        return total / self.k


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold above which a row is flagged.

    Attributes
    ----------
    value
        Threshold in units of the indicator.
    rate
        Expected share of flagged rows among rows of the calibration's distribution. It is at most the requested rate,
        and exact if the indicator has no ties.
    spread
        Standard deviation of that share over calibrations: the rate of a single calibration deviates from `rate` by
        this.
    """

    value: float
    rate: float
    spread: float

    def flags(self, indicators: Floats) -> npt.NDArray[np.bool_]:
        """Return whether each indicator exceeds the threshold, bool[n]."""
        return indicators > self.value


def calibrate(indicators: npt.ArrayLike, rate: float) -> Threshold:
    """Return a threshold that an expected share `rate` of in-distribution rows exceeds.

    The threshold is the r-th smallest of n indicators, r = ⌈(n + 1)(1 - rate)⌉. A further row of the same distribution
    exceeds it with probability 1 - r/(n + 1), whatever the distribution (the quantile of conformal prediction). Given
    the calibration, that probability is a Beta(n + 1 - r, r) variable. The paper has no such quantile: it judges
    indicators by AUC.

    Parameters
    ----------
    indicators
        float64[n] of rows that the map was not fitted to and that the reference does not hold. Rows of the reference
        are their own neighbours and look nearer than later rows.
    rate
        Expected share, above 0 and below 1.

    Raises
    ------
    InputError
        The indicators are not finite numbers, or there are fewer than 1/rate - 1.

    Examples
    --------
    >>> calibrate(list(range(99)), 0.1)
    Threshold(value=89.0, rate=0.1, spread=0.029851115706299673)
    """
    values = as_column(indicators, "indicators", np.size(indicators))
    n = len(values)
    if not 0.0 < rate < 1.0:
        raise InputError(f"gbmap: expected an alarm rate above 0 and below 1, got {rate}")
    place = ceil((n + 1) * (1.0 - rate) - 1e-9)  # 100 · (1 - 0.1) counts as exactly 90
    if place > n:
        raise InputError(
            f"gbmap: expected at least {least_held(rate)} held-out rows for an alarm rate of {rate}, got {n}; "
            "hold more rows out or allow a higher rate"
        )
    stated = 1.0 - place / (n + 1)
    return Threshold(float(np.sort(values)[place - 1]), round(stated, 12), (stated * (1.0 - stated) / (n + 2)) ** 0.5)
