"""Expected accuracy and loss of events whose labels have not come, and what their labels say once they come.

The probability of the predicted class says how likely the prediction is right, if it is calibrated. It is calibrated
here along the stream, as confidence-based performance estimation does in batches (CBPE of NannyML): labelled events
fall into cells by predicted class and probability. Each cell keeps the mean difference between what happened and what
the probability promised, for accuracy and for loss, and forgets old labels exponentially. What the probability p
promises of the loss is its mean if all other classes were one.

Events without a label fill windows, one after the other. A window is published when it is full, and once more when each
of its events has its label or waits no longer. The variance of its mean is the sum of two parts: the labels vary even
if the estimates are right, and the means of the cells have been estimated from few labels. The interval is widened
while labels that come late lie further from their estimates than these variances say.

Estimates assume what CBPE assumes: the calibration of the labelled events holds for the others. They follow a change of
the features. They do not see a change of the concept before labels do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Annotated, Final

import msgspec

from glasstream.explain.losses import CLIP, loss_one
from glasstream.models.contract.arrays import require
from glasstream_topics.predictions import Estimate, Expected

BINS: Final = 20
"""Number of intervals of the probability, of equal length. One more bin holds the probability 1."""
_SUMS: Final = 6
"""Sums of a cell: weights, squared weights, and the differences of accuracy and of loss with their squares."""
_GROWTH: Final = 1 + 1 / 2000
"""Each label weighs so many times as much as the one before it: their mean age is 2,000 labels."""
_HEAVIEST: Final = 1e12
_PRIOR: Final = 2.0
"""Number of labels for which a cell's probability itself counts."""
LEAST: Final = 30
"""Number of labels before the first estimate."""
_Z: Final = 1.959963984540054
"""Quantile of the normal distribution for an interval of 95 %."""
_RECENT: Final = 0.05
"""Weight of the newest settled window in the mean of the squared standardised errors."""
_OF: Final = "expected performance"
_Moment = tuple[float, float]
"""Mean and variance."""


class Moments(msgspec.Struct, forbid_unknown_fields=True):
    """Sums over events of one window, for accuracy or for loss."""

    total: float = 0.0
    """Sum of the estimates of all events."""
    variance: float = 0.0
    """Sum of the variances of their labels' contributions."""
    labelled: float = 0.0
    """Sum of the estimates of the events that have been labelled."""
    labelled_variance: float = 0.0
    realised: float = 0.0
    """Sum of what the labels said."""
    calibration: float = 0.0
    """Variance of the mean estimate, because cells were estimated; known when the window is full."""
    widened: float = 1.0
    """Factor of the variance when the window was full."""

    def add(self, estimate: float, variance: float) -> None:
        self.total += estimate
        self.variance += variance

    def label(self, estimate: float, variance: float, realised: float) -> None:
        self.labelled += estimate
        self.labelled_variance += variance
        self.realised += realised


class Window(msgspec.Struct, forbid_unknown_fields=True):
    """Events without a label that are estimated together."""

    first: int
    last: int
    events: int = 0
    waiting: int = 0
    """Number of events whose labels may still come."""
    labels: int = 0
    accuracy: Moments = msgspec.field(default_factory=Moments)
    loss: Moments = msgspec.field(default_factory=Moments)


class Pending(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What was expected of an event whose label may still come."""

    window: int
    right: float
    loss: float
    variance: float
    """Variance of its loss."""


class Saved(msgspec.Struct, forbid_unknown_fields=True):
    """The state as plain data."""

    cells: list[tuple[str, list[float]]]
    weight: Annotated[float, msgspec.Meta(ge=1, le=_HEAVIEST * 2)]
    labels: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    window: int
    windows: list[tuple[int, Window]]
    inside: list[tuple[str, int, int]]
    pending: list[tuple[int, Pending]]
    errors: tuple[float, float]
    settled: tuple[int, int, int]
    told: list[Estimate]
    since: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@dataclass(slots=True)
class ExpectedPerformance:
    """Expected performance on the events of one stream that have no label.

    Parameters
    ----------
    size
        Number of events in a window; 0 for no estimates.
    reach
        Number of newest events among which an event can wait for its label.
    """

    size: int
    reach: int
    told: list[Estimate] = field(default_factory=list)
    """Estimates that no record holds yet."""
    since: int = 0
    """First `seq` that the current model has predicted; labels of earlier events say nothing about it."""
    _cells: dict[str, list[float]] = field(default_factory=dict)
    """Sums of the cells of each predicted class."""
    _weight: float = 1.0
    """Weight of the next label."""
    _labels: int = 0
    _window: int = 0
    """Number of the open window."""
    _windows: dict[int, Window] = field(default_factory=dict)
    _inside: dict[tuple[str, int], int] = field(default_factory=dict)
    """Number of events of the open window in each cell."""
    _pending: dict[int, Pending] = field(default_factory=dict)
    """Events whose labels may still come, by their `seq`, in this order."""
    _errors: tuple[float, float] = (1.0, 1.0)
    """Recent mean of the squared standardised errors of settled windows: accuracy, loss."""
    _settled: tuple[int, int, int] = (0, 0, 0)
    """Number of settled windows, and of those whose accuracy and loss lay inside the interval."""

    def learn(self, label: str, probabilities: Mapping[str, float], right: bool, loss: float, loss_name: str) -> None:
        """Calibrate on an event that has a label."""
        p = probabilities.get(label, 0.0)
        if not 0.0 <= p <= 1.0:
            p = min(max(p, 0.0), 1.0)
        sums = self._cells.get(label)
        if sums is None:
            sums = self._cells[label] = [0.0] * (_SUMS * (BINS + 1))
        at, weight = _SUMS * int(p * BINS), self._weight
        beyond = right - p
        more = loss - (2.0 * p * (1.0 - p) if loss_name == "brier" else _promised(loss_name, p)[0])
        sums[at] += weight
        sums[at + 1] += weight * weight
        sums[at + 2] += weight * beyond
        sums[at + 3] += weight * beyond * beyond
        sums[at + 4] += weight * more
        sums[at + 5] += weight * more * more
        self._labels += 1
        self._weight = weight = weight * _GROWTH
        if weight > _HEAVIEST:
            self._lighten()

    def arrive(self, seq: int, label: str, probabilities: Mapping[str, float], loss_name: str) -> None:
        """Estimate an event that came without a label."""
        self._expire(seq)
        if self._labels < LEAST:
            return
        p = min(max(probabilities.get(label, 0.0), 0.0), 1.0)
        cell = (label, int(p * BINS))
        (beyond, _), (more, variance) = self._cell(*cell, p, loss_name)
        right = min(max(p + beyond, 0.0), 1.0)
        loss = max(0.0, _promised(loss_name, p)[0] + more)
        window = self._windows.setdefault(self._window, Window(seq, seq))
        window.last = seq
        window.events += 1
        window.accuracy.add(right, right * (1.0 - right))
        window.loss.add(loss, variance)
        self._inside[cell] = self._inside.get(cell, 0) + 1
        if self.reach:
            window.waiting += 1
            self._pending[seq] = Pending(self._window, right, loss, variance)
        if window.events >= self.size:
            self._close(window, loss_name)

    def join(
        self, seq: int, label: str, probabilities: Mapping[str, float], target: str | float | None, loss_name: str
    ) -> None:
        """Hold the label of an event that came without one against what was expected, and calibrate on it."""
        if seq < self.since:
            return
        right = label == target
        loss = loss_one(loss_name, label, probabilities, 0.0, target)  # type: ignore[arg-type]  # it has a target
        expected = self._pending.pop(seq, None)
        if expected is not None:
            window = self._windows[expected.window]
            window.labels += 1
            window.accuracy.label(expected.right, expected.right * (1.0 - expected.right), float(right))
            window.loss.label(expected.loss, expected.variance, loss)
            self._leave(expected.window)
        self.learn(label, probabilities, right, loss, loss_name)

    def begin(self, seq: int) -> "ExpectedPerformance":
        """Return what follows with another model, which predicts from the event `seq` on."""
        return ExpectedPerformance(self.size, self.reach, self.told, seq)

    def take(self) -> list[Estimate]:
        """Return the estimates that no record holds yet."""
        told, self.told = self.told, []
        return told

    def saved(self) -> Saved:
        """Return the state as plain data."""
        return Saved(
            [*self._cells.items()],
            self._weight,
            self._labels,
            self._window,
            [*self._windows.items()],
            [(label, place, count) for (label, place), count in self._inside.items()],
            [*self._pending.items()],
            self._errors,
            self._settled,
            self.told,
            self.since,
        )

    def restore(self, saved: Saved, seqs: int, classes: Sequence[str]) -> None:
        """Continue from a saved state.

        Raises
        ------
        FrameError
            It is not a state of a stream with so many events and these classes.
        """
        labels = [label for label, _ in saved.cells]
        require(set(labels) <= set(classes) and len(set(labels)) == len(labels), "cells of the classes", _OF)
        require(all(len(sums) == _SUMS * (BINS + 1) for _, sums in saved.cells), "sums of all cells", _OF)
        windows = dict(saved.windows)
        require(len(windows) == len(saved.windows) <= self.reach + 1, "distinct windows that wait", _OF)
        held = dict.fromkeys(windows, 0)
        for _, expected in saved.pending:
            require(expected.window in held, "events of windows that wait", _OF)
            held[expected.window] += 1
        require(saved.since <= seqs, "a model that has predicted events", _OF)
        seqs_waiting = [seq for seq, _ in saved.pending]
        require(seqs_waiting == sorted(set(seqs_waiting)), "events in their order", _OF)
        require(not seqs_waiting or 0 <= seqs_waiting[0] <= seqs_waiting[-1] < seqs, "events of the stream", _OF)
        require(
            all(one.events > 0 and one.waiting == held[number] for number, one in windows.items()),
            "the number of events that wait in each window", _OF,
        )  # fmt: skip
        require(all(0 <= number <= saved.window for number in windows), "windows up to the open one", _OF)
        opened = windows[saved.window].events if saved.window in windows else 0
        require(opened < max(1, self.size), "an open window", _OF)
        require(
            all(0 <= place <= BINS and count > 0 for _, place, count in saved.inside)
            and sum(count for _, _, count in saved.inside) == opened,
            "the cells of the events of the open window", _OF,
        )  # fmt: skip
        positive = all(min(sums[at::_SUMS]) >= 0 for _, sums in saved.cells for at in (0, 1, 3, 5))
        moments = [part for one in windows.values() for part in (one.accuracy, one.loss)]
        positive &= all(min(one.variance, one.labelled_variance, one.calibration) >= 0 for one in moments)
        positive &= all(one.widened >= 1 for one in moments) and min(saved.errors) >= 0
        positive &= all(one.variance >= 0 for _, one in saved.pending)
        require(positive, "variances from 0 on", _OF)
        self._cells = dict(saved.cells)
        self._weight, self._labels, self._window, self._windows = saved.weight, saved.labels, saved.window, windows
        self._inside = {(label, place): count for label, place, count in saved.inside}
        self._pending = dict(saved.pending)
        self._errors, self._settled, self.told, self.since = saved.errors, saved.settled, saved.told, saved.since

    def _cell(self, label: str, place: int, p: float, loss_name: str) -> tuple[_Moment, _Moment]:
        """Return mean and variance of the differences in a cell: of accuracy, and of loss."""
        sums, at = self._cells.get(label), _SUMS * place
        prior = _PRIOR * self._weight
        known = sums[at] if sums is not None else 0.0
        whole = known + prior
        alike = p * (1.0 - p)
        found = []
        for first, variance in ((2, alike), (4, _promised(loss_name, p)[1] ** 2 * alike)):
            one, squared = (sums[at + first], sums[at + first + 1]) if sums is not None else (0.0, 0.0)
            mean = one / whole
            spread = max(0.0, squared - mean * one) if known else 0.0
            found.append((mean, (spread + prior * variance) / whole))
        return found[0], found[1]

    def _close(self, window: Window, loss_name: str) -> None:
        """Fix the interval of a full window, and publish it."""
        for (label, place), count in self._inside.items():
            share = count / window.events
            sums, at = self._cells.get(label), _SUMS * place
            labels = sums[at] ** 2 / sums[at + 1] if sums is not None and sums[at + 1] else 0.0
            accuracy, loss = self._cell(label, place, min(1.0, (place + 0.5) / BINS), loss_name)
            window.accuracy.calibration += share * share * accuracy[1] / (labels + _PRIOR)
            window.loss.calibration += share * share * loss[1] / (labels + _PRIOR)
        window.accuracy.widened, window.loss.widened = (max(1.0, error) for error in self._errors)
        self._inside.clear()
        self._window += 1
        self.told.append(self._estimate(window))
        if not window.waiting:
            self._settle(self._window - 1)

    def _estimate(self, window: Window, held: tuple[bool, bool] | None = None, *, settled: bool = False) -> Estimate:
        """Return the record of a window."""
        ranges = []
        for place, (moments, highest) in enumerate(((window.accuracy, 1.0), (window.loss, None))):
            value = moments.total / window.events
            half = _Z * sqrt(_variance(moments, moments.variance, window.events))
            high = value + half if highest is None else min(highest, value + half)
            realised = moments.realised / window.labels if settled and window.labels else None
            ranges.append(Expected(value, max(0.0, value - half), high, realised, held[place] if held else None))
        labels = window.labels if settled else None
        return Estimate(window.first, window.last, window.events, ranges[0], ranges[1], labels, *self._settled)

    def _leave(self, number: int) -> None:
        """Take an event out of those that wait."""
        window = self._windows[number]
        window.waiting -= 1
        if not window.waiting and number < self._window:
            self._settle(number)

    def _settle(self, number: int) -> None:
        """Publish what the labels of a window said. The interval is checked if at least half came."""
        window = self._windows.pop(number)
        if not window.labels:
            return
        held: tuple[bool, bool] | None = None
        if 2 * window.labels >= window.events:
            errors, inside = [], []
            for moments, mean in zip((window.accuracy, window.loss), self._errors, strict=True):
                variance = _variance(moments, moments.labelled_variance, window.labels)
                error = (moments.realised - moments.labelled) / window.labels
                inside.append(abs(error) <= _Z * sqrt(variance) + 1e-12)
                ratio = error * error * moments.widened / variance if variance else 1.0
                errors.append(mean + _RECENT * (ratio - mean))
            held = inside[0], inside[1]
            self._errors = errors[0], errors[1]
            settled, accuracy, loss = self._settled
            self._settled = settled + 1, accuracy + held[0], loss + held[1]
        self.told.append(self._estimate(window, held, settled=True))

    def _expire(self, seq: int) -> None:
        """Forget the events that wait no longer once the event `seq` has arrived."""
        oldest = seq + 1 - self.reach
        while self._pending:
            first = next(iter(self._pending))
            if first >= oldest:
                return
            self._leave(self._pending.pop(first).window)

    def _lighten(self) -> None:
        """Divide all weights by the newest one, before they become too large."""
        scale = 1.0 / self._weight
        for sums in self._cells.values():
            for at in range(len(sums)):
                sums[at] *= scale * scale if at % _SUMS == 1 else scale
        self._weight = 1.0


def _variance(moments: Moments, labels: float, count: int) -> float:
    """Return the variance of the difference between realised and expected mean."""
    return moments.widened * (labels / (count * count) + moments.calibration)


def _promised(loss_name: str, p: float) -> tuple[float, float]:
    """Return the mean loss that the probability of the predicted class promises, and by how much a wrong prediction
    costs more than a right one.

    >>> _promised("brier", 0.75), _promised("zero_one", 0.75)
    ((0.375, 1.0), (0.25, 1.0))
    """
    if loss_name == "brier":
        return 2.0 * p * (1.0 - p), 4.0 * p - 2.0
    if loss_name == "cross_entropy":
        right, wrong = -log(max(p, CLIP)), -log(max(1.0 - p, CLIP))
        return p * right + (1.0 - p) * wrong, wrong - right
    return 1.0 - p, 1.0
