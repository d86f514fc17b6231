"""How good a model is compared with predictions without a model: the most frequent class, the mean, the previous label.

An accuracy of 0.96 says little where 0.97 of the labels are the same. Streams also have neighbouring events with equal
labels, so that the previous label is a strong prediction (Bifet, Read, Žliobaitė, Pfahringer, Holmes 2013). The kappa
statistics say how much of the way from a baseline to perfection the model has gone.
"""

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, log
from typing import Final, NamedTuple

import numpy as np

Label = str | float

ROLLING: Final = 1_000
"""Number of the newest events that the area under the ROC curve is computed from."""
_LEAST_PROBABILITY: Final = 1e-15
"""Smallest probability in a log loss, so that one event cannot make it infinite; as in River."""
_DIVERGED: Final = 100.0
"""Ratio of the mean absolute error to the largest label that is divergence. A model that predicts 0 has at most 1."""
_DIVERGED_EVENTS: Final = 100
"""Number of events before the first verdict, because the first predictions may be far off and recover."""


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
    balanced
        mean over the classes of the share of their events that the model predicts (balanced accuracy); None for
        numbers.
    log_loss, log_loss_events
        mean negative logarithm of the probability of the right class, and the number of events that it counts: those
        whose record gives this probability. A record names at most 100 classes.
    roc_auc
        area under the ROC curve over at most `ROLLING` of the newest of these events, if they have two classes.
    largest
        largest absolute value of all labels so far; None for classes.
    """

    events: int
    model: float
    constant: float
    no_change: float
    most_frequent: str | None
    balanced: float | None = None
    log_loss: float | None = None
    log_loss_events: int = 0
    roc_auc: float | None = None
    largest: float | None = None

    @property
    def of_classes(self) -> bool:
        """Whether the labels are classes, so that larger numbers are better."""
        return self.most_frequent is not None

    @property
    def beaten(self) -> bool:
        """Whether the model is better than both baselines."""
        best = max(self.constant, self.no_change) if self.of_classes else min(self.constant, self.no_change)
        return self.model > best if self.of_classes else self.model < best

    @property
    def diverged(self) -> bool:
        """Whether a regression model errs far beyond the scale of its labels, so that its explanations mean nothing.

        >>> Standing(100, 900.0, 2.0, 3.0, None, largest=8.0).diverged
        True
        >>> Standing(99, 900.0, 2.0, 3.0, None, largest=8.0).diverged
        False
        """
        return self.events >= _DIVERGED_EVENTS and self.model > _DIVERGED * (self.largest or inf)

    @property
    def kappa_m(self) -> float | None:
        """Kappa-M: 0 for a model like the most frequent class, 1 if all is right (Bifet et al. 2015). None for numbers,
        and if there is only one class.
        """
        return self._kappa(self.constant)

    @property
    def kappa_temporal(self) -> float | None:
        """Kappa-temporal: 0 for a model like the previous label, 1 if all is right (Žliobaitė et al. 2015). None for
        numbers, and if the label has never changed.
        """
        return self._kappa(self.no_change)

    def _kappa(self, baseline: float) -> float | None:
        return (self.model - baseline) / (1.0 - baseline) if self.of_classes and baseline < 1.0 else None


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
    >>> standing = baselines.standing()
    >>> standing.events, standing.model, standing.constant, standing.no_change, standing.most_frequent
    (4, 0.5, 0.75, 0.5, 'no')
    >>> standing.beaten, standing.kappa_m, standing.kappa_temporal
    (False, -1.0, 0.0)
    """

    def __init__(self, recent: int | None = None) -> None:
        self._recent: deque[_Row] | None = None if recent is None else deque(maxlen=recent)
        self._all = _Sums()
        self._scored: deque[_Scored | None] = deque(maxlen=ROLLING if recent is None else min(recent, ROLLING))
        self._labels = 0
        self._mean = 0.0
        self._largest: float | None = None
        self._before: Label | None = None

    def add(
        self,
        prediction: Label | None,
        target: Label | None,
        probabilities: Mapping[str, float] | None = None,
        *,
        cut: bool = False,
    ) -> None:
        """Add an event in the order of the stream. Events without a label or a prediction are not compared.

        Parameters
        ----------
        prediction, target
            Class or number.
        probabilities
            Probabilities of the classes.
        cut
            Whether there are more classes than `probabilities` names.
        """
        if target is None:
            return
        before, mean = self._before, self._mean
        self._before = target
        if isinstance(target, str):
            if isinstance(prediction, str) and before is not None:
                probability = None
                if probabilities and (target in probabilities or not cut):
                    probability = max(probabilities.get(target, 0.0), _LEAST_PROBABILITY)
                log_loss = None if probability is None else -log(probability)
                self._append(_Row(target, float(prediction == target), 0.0, float(before == target), log_loss))
                self._scored.append((target, probabilities) if probabilities and len(probabilities) <= 2 else None)
            return
        self._labels += 1
        self._mean += (target - mean) / self._labels
        self._largest = max(self._largest or 0.0, abs(target))
        if isinstance(prediction, float | int) and isinstance(before, float | int):
            self._append(_Row(None, abs(prediction - target), abs(mean - target), abs(before - target), None))

    def standing(self) -> Standing | None:
        """Return the comparison, or None before the first event that counts."""
        if self._recent is None:
            return self._all.standing(self._scored, self._largest)
        sums = _Sums()  # afresh: a difference of sums would keep the rounding of large numbers that have left
        for row in self._recent:
            sums.add(row)
        return sums.standing(self._scored, self._largest)

    def _append(self, row: "_Row") -> None:
        if self._recent is None:
            self._all.add(row)
        else:
            self._recent.append(row)


class CompactBaselines(Baselines):
    """Compare predictions with baselines over the newest events, in 24 bytes per event.

    The standing has no balanced accuracy, log loss or area under the ROC curve. Leave out the probabilities in `add`.

    Parameters
    ----------
    recent
        Number of the newest events to compare.

    Examples
    --------
    >>> baselines = CompactBaselines(3)
    >>> for prediction, target in [("no", "no"), ("no", "no"), ("no", "yes"), ("yes", "no"), ("no", "no")]:
    ...     baselines.add(prediction, target)
    >>> standing = baselines.standing()
    >>> standing.events, round(standing.model, 3), round(standing.constant, 3), standing.beaten
    (3, 0.333, 0.667, False)
    """

    def __init__(self, recent: int) -> None:
        super().__init__(recent)
        self._scored = deque(maxlen=0)
        self._numbers = array("d")
        """Values of the model, of the constant and of the previous label of each event, one event after the other. Of a
        class, the value of the constant is the code of the class.
        """
        self._most = 3 * recent
        self._place = 0
        self._codes: dict[str, int] = {}
        self._names: dict[int, str] = {}
        """The classes of these events by code."""
        self._counts: Counter[int] = Counter()
        self._next_code = 0

    def standing(self) -> Standing | None:
        """Return the comparison, or None before the first event that counts."""
        if not self._numbers:
            return None
        values = np.frombuffer(self._numbers, dtype=np.float64).reshape(-1, 3)
        events = len(values)
        model, constant, no_change = (float(total) / events for total in values.sum(axis=0))
        if not self._counts:
            return Standing(events, model, constant, no_change, None, largest=self._largest)
        count, name = max((count, self._names[code]) for code, count in self._counts.items())
        return Standing(events, model, count / events, no_change, name)

    def _append(self, row: "_Row") -> None:
        constant = row.constant if row.name is None else float(self._code(row.name))
        values = (row.model, constant, row.no_change)
        if len(self._numbers) < self._most:
            self._numbers.extend(values)
            return
        if self._counts:
            self._forget(int(self._numbers[self._place + 1]))
        for at, value in enumerate(values, self._place):
            self._numbers[at] = value
        self._place = (self._place + 3) % self._most

    def _code(self, name: str) -> int:
        """Count one more event of a class, and return its code."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = self._next_code
            self._names[code] = name
            self._next_code += 1
        self._counts[code] += 1
        return code

    def _forget(self, code: int) -> None:
        """Count one event of a class less."""
        self._counts[code] -= 1
        if not self._counts[code]:
            del self._counts[code]
            del self._codes[self._names.pop(code)]


class _Row(NamedTuple):
    """Class, and the values of the model, of the constant and of the previous label; the constant class is known later.

    `log_loss` is None if the probability of the right class is not known.
    """

    name: str | None
    model: float
    constant: float
    no_change: float
    log_loss: float | None


_Scored = tuple[str, Mapping[str, float]]
"""Right class, and the probabilities of two classes at most."""


class _Sums:
    """Sums over events."""

    def __init__(self) -> None:
        self._events = 0
        self._sums = [0.0, 0.0, 0.0]
        self._classes: Counter[str] = Counter()
        self._right: Counter[str] = Counter()
        self._log_loss = 0.0
        self._log_loss_events = 0

    def add(self, row: _Row) -> None:
        self._events += 1
        for place, value in enumerate((row.model, row.constant, row.no_change)):
            self._sums[place] += value
        if row.name is not None:
            self._classes[row.name] += 1
            self._right[row.name] += int(row.model)
        if row.log_loss is not None:
            self._log_loss += row.log_loss
            self._log_loss_events += 1

    def standing(self, scored: Iterable[_Scored | None], largest: float | None) -> Standing | None:
        if not self._events:
            return None
        model, constant, no_change = (total / self._events for total in self._sums)
        if not self._classes:
            return Standing(self._events, model, constant, no_change, None, largest=largest)
        count, name = max((count, name) for name, count in self._classes.items())
        return Standing(
            self._events,
            model,
            count / self._events,
            no_change,
            name,
            balanced=sum(self._right[one] / self._classes[one] for one in self._classes) / len(self._classes),
            log_loss=self._log_loss / self._log_loss_events if self._log_loss_events else None,
            log_loss_events=self._log_loss_events,
            roc_auc=_roc_auc(list(scored)),
        )


def _roc_auc(events: list[_Scored | None]) -> float | None:
    """Return the area under the ROC curve: the probability that an event of one class has a larger score for it than an
    event of the other class, where equal scores count half. Return None unless there are events of exactly two classes.
    """
    scored = [one for one in events if one is not None]
    names = {name for target, probabilities in scored for name in (target, *probabilities)}
    if len(scored) < len(events) or len(names) != 2:
        return None
    positive = max(names)
    counts: dict[float, list[int]] = {}
    for target, probabilities in scored:
        counts.setdefault(probabilities.get(positive, 0.0), [0, 0])[target == positive] += 1
    below = twice = 0
    for _, (negatives, positives) in sorted(counts.items()):
        twice += positives * (2 * below + negatives)
        below += negatives
    pairs = below * (len(scored) - below)
    return twice / (2 * pairs) if pairs else None
