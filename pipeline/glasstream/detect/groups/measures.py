"""Rates, means and their intervals for each group, and the differences between groups.

The differences have the definitions of Fairlearn (Bird et al. 2020; module `fairlearn.metrics`). The
`demographic_parity_difference` is the largest selection rate minus the smallest. The `equalized_odds_difference` is the
larger one of the same difference of true positive rates and that of false positive rates. With more than two classes,
each class is the positive one in turn (one-vs-rest), and the largest difference counts. With two classes, both give the
same: the true positive rate of one class is 1 minus the false positive rate of the other.

Intervals of rates are those of Wilson (1927), and intervals of other means those of a normal distribution. Both take
the rows as independent of each other.
"""

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import NormalDist
from typing import Literal

from glasstream.base.form import Array
from glasstream.detect.groups.sums import FIRST, MISSING, OTHER, Sums
from glasstream_topics.groups import Differences, Group, Mean, Summary


class Measures:
    """Means, rates and differences.

    Parameters
    ----------
    level
        Confidence level of the intervals, in (0, 1).
    least
        Number of rows below which there is no mean and no rate.
    """

    def __init__(self, level: float, least: int) -> None:
        self._z = NormalDist().inv_cdf(0.5 + level / 2.0)
        self._least = least

    def rate(self, count: int, of: int) -> Mean:
        """Return the rate of an event that occurs in `count` of the rows.

        >>> rate = Measures(0.95, 1).rate(1, 10)
        >>> rate.value, round(rate.low, 6), round(rate.high, 6)
        (0.1, 0.017876, 0.40415)
        >>> Measures(0.95, 30).rate(1, 10)
        Mean(of=10, value=None, low=None, high=None)
        """
        if of < self._least or of == 0:
            return Mean(of)
        value, square = count / of, self._z * self._z
        middle = value + square / (2 * of)
        reach = self._z * sqrt(value * (1.0 - value) / of + square / (4 * of * of))
        low = 0.0 if count == 0 else (middle - reach) / (1.0 + square / of)
        high = 1.0 if count == of else (middle + reach) / (1.0 + square / of)
        return Mean(of, value, max(0.0, low), min(1.0, high))

    def mean(self, total: float, squares: float, of: int) -> Mean:
        """Return the mean of numbers from 0 on, of which the sum and the sum of squares are given.

        One number has no variance, so its interval has no ends.
        """
        if of < self._least or of == 0:
            return Mean(of)
        value = total / of
        if of == 1:
            return Mean(of, value)
        reach = self._z * sqrt(max(0.0, squares / of - value * value) / (of - 1))
        return Mean(of, value, max(0.0, value - reach), value + reach)

    def summary(self, sums: Sums, attribute: int, values: Sequence[str], classes: int | None) -> Summary:
        """Return the groups of an attribute.

        Parameters
        ----------
        sums
            Sums over the rows.
        attribute
            Number of the attribute.
        values
            Values of the attribute, by their codes from `FIRST` on.
        classes
            Number of classes; None for a regression.
        """
        of = {name: array[attribute] for name, array in sums.arrays.items()}
        names: list[tuple[int, str | None]] = [*enumerate(values, FIRST), (OTHER, None), (MISSING, None)]
        groups = [self._group(of, code, value, classes) for code, value in names if of["rows"][code]]
        compared = [group for group in groups if group.kind == "value"]
        differences = [
            Differences(
                _difference(group.selection_rate[one] for group in compared),
                _larger(
                    _difference(group.true_positive_rate[one] for group in compared),
                    _difference(group.false_positive_rate[one] for group in compared),
                ),
            )
            for one in range(classes or 0)
        ]
        return Summary(
            int(of["rows"].sum()),
            groups,
            differences,
            max((one.demographic_parity for one in differences if one.demographic_parity is not None), default=None),
            max((one.equalized_odds for one in differences if one.equalized_odds is not None), default=None),
            _difference(group.loss for group in compared),
        )

    def _group(self, of: dict[str, Array], code: int, value: str | None, classes: int | None) -> Group:
        rows = int(of["rows"][code])
        loss = self.mean(float(of["losses"][code]), float(of["losses_squared"][code]), rows)
        kind: Literal["value", "other", "missing"] = "missing" if code == MISSING else "other"
        kind = "value" if code >= FIRST else kind
        score = float(of["scores"][code])
        if classes is None:
            return Group(kind, loss, value, error=self.mean(score, float(of["scores_squared"][code]), rows))
        predicted, actual, hits = (of[name][code, :classes].tolist() for name in ("predicted", "actual", "hits"))
        return Group(
            kind,
            loss,
            value,
            self.rate(int(score), rows),
            None,
            [self.rate(one, rows) for one in predicted],
            [self.rate(hit, one) for hit, one in zip(hits, actual, strict=True)],
            [self.rate(chosen - hit, rows - one) for chosen, hit, one in zip(predicted, hits, actual, strict=True)],
        )


def _difference(means: Iterable[Mean]) -> float | None:
    """Return the largest mean minus the smallest; None if fewer than two groups have enough rows."""
    values = [mean.value for mean in means if mean.value is not None]
    return max(values) - min(values) if len(values) > 1 else None


def _larger(one: float | None, other: float | None) -> float | None:
    """Return the larger one of two differences; None if one of them is not known."""
    return None if one is None or other is None else max(one, other)
