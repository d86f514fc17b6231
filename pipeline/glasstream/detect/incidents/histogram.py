"""The values of one series before an incident, in bins, and how values are compared with them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.detect.incidents import betting
from glasstream.detect.incidents.betting import BINS

_FEWEST = 300  # values by which bins are kept
_CROWDED = 3.0  # times the former share of a bin, or that of an equal one, from which on it tells too little


class Histogram(NamedTuple):
    """Values of a feature, or of the label, before an incident."""

    edges: NDArray[np.float64]
    """(m,)"""
    counts: NDArray[np.float64]
    """(BINS,)"""
    risk: NDArray[np.float64]
    """(BINS,) mean loss of the newest rows of each bin."""
    answer: NDArray[np.float64]
    """(BINS,) mean label of the rows of each bin."""
    block: int
    """Number of neighbouring rows that tell as much as one independent row."""

    @property
    def total(self) -> float:
        """Number of values."""
        return float(self.counts.sum())

    @property
    def shares(self) -> NDArray[np.float64]:
        """(BINS,) share of the values in each bin."""
        return np.asarray(self.counts / max(1.0, self.total))

    def bins(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the bin of each value, as `glasstream.detect.incidents.betting.bin_of` does."""
        if not len(self.edges):
            return np.where(np.isnan(values), 0, 1)
        low = np.searchsorted(self.edges, values)
        equal = (low < len(self.edges)) & (self.edges[np.minimum(low, len(self.edges) - 1)] == values)
        return np.where(np.isnan(values), 0, 2 * low + 1 + equal)

    def shares_of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (BINS,) the share of values in each bin."""
        return np.asarray(np.bincount(self.bins(values), minlength=BINS) / max(1, len(values)))

    def clipped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values within the range of the edges and once as much on each side, as for `answer`."""
        return np.asarray(np.clip(values, *betting.label_limits(self.edges, len(self.edges))))

    def distance(self, values: NDArray[np.float64]) -> float:
        """Return the Kolmogorov-Smirnov statistic of values, times the square root of the effective sample size."""
        return self.distance_of(np.bincount(self.bins(values), minlength=BINS).astype(np.float64))

    def distance_of(self, counts: NDArray[np.float64]) -> float:
        """Return the same of values with these numbers in the bins."""
        rows = float(counts.sum())
        effective = rows * self.total / max(1.0, rows + self.total)
        return self.gap(counts) * float(np.sqrt(effective / self.block))

    def gap(self, counts: NDArray[np.float64]) -> float:
        """Return the largest difference between the cumulative shares of two samples."""
        return float(np.abs(np.cumsum(self.shares - counts / max(1.0, float(counts.sum())))).max())

    @property
    def crowded(self) -> bool:
        """Whether so many values lie between two edges, or beyond them, that the bins hide how they are distributed."""
        return self.total >= _FEWEST and bool((self.shares[1::2] > _CROWDED / betting.EDGES).any())

    def fits(self, counts: NDArray[np.float64]) -> bool:
        """Return whether bins tell values apart that have these numbers in them, about as well as those before."""
        rows = float(counts.sum())
        return rows >= _FEWEST and bool((counts <= _CROWDED * rows * np.maximum(self.shares, 1.0 / BINS)).all())

    def beyond(self, values: NDArray[np.float64]) -> float:
        """Return the share of values below the lowest edge or above the highest, which the bins do not distinguish."""
        shares = self.shares_of(values)
        return float(shares[1] + shares[2 * len(self.edges) + 1]) if len(self.edges) else 1.0

    def quantile(self, share: float) -> float:
        """Return the edge nearest to a quantile of the values that are not missing; 0 if all are missing."""
        present = np.cumsum(self.counts[1:])
        if not len(self.edges) or not present[-1]:
            return 0.0
        place = int(np.searchsorted(present, share * present[-1]))
        return float(self.edges[min(place // 2, len(self.edges) - 1)])
