"""How good a model is beside predictions that need none: the most frequent class, the mean, the previous label.

An accuracy of 0.96 says little where 0.97 of the labels are the same. Streams also have neighbouring events with equal
labels, so that the previous label is a strong prediction (Bifet, Read, Žliobaitė, Pfahringer, Holmes 2013).
"""

from collections import Counter, deque
from dataclasses import dataclass

Label = str | float


@dataclass(frozen=True, slots=True)
class Standing:
    """Quality of the model and of the baselines over the same events: shares of right predictions for classes, mean
    absolute errors for numbers.

    Attributes
    ----------
    events
        number of events that count: labelled, predicted, and not the first of the stream.
    model
        quality of the model.
    constant
        quality of the most frequent class of these events, or of the mean of all earlier numbers.
    no_change
        quality of the previous label.
    most_frequent
        the most frequent class; None for numbers.
    """

    events: int
    model: float
    constant: float
    no_change: float
    most_frequent: str | None

    @property
    def of_classes(self) -> bool:
        """Whether the labels are classes, so that larger numbers are better."""
        return self.most_frequent is not None

    @property
    def beaten(self) -> bool:
        """Whether the model is better than both baselines."""
        best = max(self.constant, self.no_change) if self.of_classes else min(self.constant, self.no_change)
        return self.model > best if self.of_classes else self.model < best


class Baselines:
    """Compare predictions with baselines over the newest events, or over all.

    Late labels do not count: no record of `predictions` has them.

    Parameters
    ----------
    recent
        Number of the newest events to compare; None compares all.

    Examples
    --------
    >>> baselines = Baselines()
    >>> for prediction, target in [("no", "no"), ("no", "no"), ("no", "yes"), ("yes", "no"), ("no", "no")]:
    ...     baselines.add(prediction, target)
    >>> baselines.standing()
    Standing(events=4, model=0.5, constant=0.75, no_change=0.5, most_frequent='no')
    >>> baselines.standing().beaten
    False
    """

    def __init__(self, recent: int | None = None) -> None:
        self._recent: deque[_Row] | None = None if recent is None else deque(maxlen=recent)
        self._all = _Sums()
        self._labels = 0
        self._mean = 0.0
        self._before: Label | None = None

    def add(self, prediction: Label | None, target: Label | None) -> None:
        """Add an event in the order of the stream. Events without a label or a prediction are not compared."""
        if target is None:
            return
        before, mean = self._before, self._mean
        self._before = target
        if isinstance(target, str):
            if isinstance(prediction, str) and before is not None:
                self._append((target, float(prediction == target), 0.0, float(before == target)))
            return
        self._labels += 1
        self._mean += (target - mean) / self._labels
        if isinstance(prediction, float | int) and isinstance(before, float | int):
            self._append((None, abs(prediction - target), abs(mean - target), abs(before - target)))

    def standing(self) -> Standing | None:
        """Return the comparison, or None before the first event that counts."""
        if self._recent is None:
            return self._all.standing()
        sums = _Sums()  # afresh: a difference of sums would keep the rounding of large numbers that have left
        for row in self._recent:
            sums.add(row)
        return sums.standing()

    def _append(self, row: "_Row") -> None:
        if self._recent is None:
            self._all.add(row)
        else:
            self._recent.append(row)


_Row = tuple[str | None, float, float, float]
"""Class, and the values of the model, of the constant and of the previous label; the constant class is known later."""


class _Sums:
    """Sums over events."""

    def __init__(self) -> None:
        self._events = 0
        self._sums = [0.0, 0.0, 0.0]
        self._classes: Counter[str] = Counter()

    def add(self, row: _Row) -> None:
        name, *values = row
        self._events += 1
        for place, value in enumerate(values):
            self._sums[place] += value
        if name is not None:
            self._classes[name] += 1

    def standing(self) -> Standing | None:
        if not self._events:
            return None
        model, constant, no_change = (total / self._events for total in self._sums)
        if not self._classes:
            return Standing(self._events, model, constant, no_change, None)
        count, name = max((count, name) for name, count in self._classes.items())
        return Standing(self._events, model, count / self._events, no_change, name)
