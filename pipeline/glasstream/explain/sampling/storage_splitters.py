"""Splitters for storage trees, with bounded memory and a deterministic order."""

from bisect import bisect_left
from typing import Any

from river.stats import Var
from river.tree.splitter import Splitter
from river.tree.splitter.nominal_splitter_classif import NominalSplitterClassif
from river.tree.utils import BranchFactory

from glasstream.models.river.catalogue import ClassesInOrder


class SlotSplitter(Splitter):
    """Find the cut point of a number that reduces the variance of a numeric target most.

    The splitter keeps the values as at most 2 · `slots` disjoint ranges, each with weight, mean and squared deviations
    of the target. When there is one range too many, it joins light neighbours. River's own splitter for regression
    rounds every value to one decimal, which leaves only eleven cut points for a feature between 0 and 1. It also keeps
    every distinct value, so a leaf that never splits, for example with a constant target, would grow with the stream.

    Parameters
    ----------
    slots
        Approximate number of ranges that remain after joining, at least 2.
    """

    def __init__(self, slots: int = 32) -> None:
        super().__init__()
        self.slots = slots
        self._low: list[float] = []
        self._high: list[float] = []
        self._moments: list[tuple[float, float, float]] = []
        """Weight, mean and sum of squared deviations of the target in each range."""

    def __len__(self) -> int:
        return len(self._high)

    @property
    def is_target_class(self) -> bool:
        return False

    def cond_proba(self, att_val: Any, target_val: Any) -> float:
        raise NotImplementedError("a splitter for regression knows no classes")

    def update(self, att_val: float, target_val: float, w: float) -> None:
        """Add one value of the feature, and the target that belongs to it, with weight `w`."""
        new = (w, target_val, 0.0)
        at = bisect_left(self._high, att_val)
        if at < len(self._high) and self._low[at] <= att_val:
            self._moments[at] = _together(self._moments[at], new)
            return
        self._low.insert(at, att_val)
        self._high.insert(at, att_val)
        self._moments.insert(at, new)
        if len(self._high) > 2 * self.slots:
            self._merge()

    def best_evaluated_split_suggestion(
        self, criterion: Any, pre_split_dist: Any, att_idx: Any, binary_only: bool = True
    ) -> BranchFactory:
        """Return the cut with the largest reduction of variance. As in River, rows without the feature count to the
        right.
        """
        weight, mean = pre_split_dist.mean.n, pre_split_dist.mean.get()
        variance = pre_split_dist.get()
        squares = variance * (weight - 1)
        best = None
        merit = float("-inf")
        left = (0.0, 0.0, 0.0)
        for high, moments in zip(self._high, self._moments, strict=True):
            left = _together(left, moments)
            rest = weight - left[0]
            if left[0] < criterion.min_samples_split or rest < criterion.min_samples_split:
                continue
            rest_mean = (weight * mean - left[0] * left[1]) / rest
            apart = left[1] - rest_mean
            rest_squares = max(0.0, squares - left[2] - apart * apart * left[0] * rest / weight)
            left_variance, rest_variance = left[2] / (left[0] - 1), rest_squares / (rest - 1)
            reduction = variance - (left[0] * left_variance + rest * rest_variance) / weight
            if reduction > merit:
                merit = reduction
                best = high, (left[0], left[1], left_variance), (rest, rest_mean, rest_variance)
        if best is None:
            return BranchFactory()
        cut, below, above = best
        return BranchFactory(merit, att_idx, cut, [Var._from_state(*below), Var._from_state(*above)])

    def _merge(self) -> None:
        """Join neighbours while they hold at most 2 / slots of the weight together, so that at most slots + 1 ranges
        remain.
        """
        most = 2 * sum(weight for weight, _, _ in self._moments) / self.slots
        low, high, moments = self._low[:1], self._high[:1], self._moments[:1]
        for at in range(1, len(self._high)):
            if moments[-1][0] + self._moments[at][0] <= most:
                high[-1] = self._high[at]
                moments[-1] = _together(moments[-1], self._moments[at])
            else:
                low.append(self._low[at])
                high.append(self._high[at])
                moments.append(self._moments[at])
        self._low, self._high, self._moments = low, high, moments


def _together(a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return weight, mean and squared deviations of two groups combined (Chan, Golub, LeVeque 1983)."""
    weight = a[0] + b[0]
    apart = b[1] - a[1]
    share = b[0] / weight
    return weight, a[1] + apart * share, a[2] + b[2] + apart * apart * a[0] * share


class CategoriesInOrder(NominalSplitterClassif):
    """Splitter by categories that tries them in order of first appearance.

    River's own splitter tries categories in the order of a set. If two are equally good, the tree would depend on the
    history of the set in the process that pickled it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._att_values = ClassesInOrder()
