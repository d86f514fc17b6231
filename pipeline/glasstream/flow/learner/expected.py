"""Expected accuracy and loss of events whose labels have not come, and what their labels say once they come.

The probability of the predicted class says how likely the prediction is right, if it is calibrated. It is calibrated
here along the stream, as confidence-based performance estimation does in batches (CBPE of NannyML): labelled events
fall into cells by predicted class and probability. Each cell keeps the mean difference between what happened and what
the probability promised, for accuracy and for loss, and forgets old labels exponentially. What the probability p
promises of the loss is its mean if all other classes were one.

Events without a label fill windows, one after the other. A window is published when it is full, and once more when each
of its events has its label or waits no longer. The variance of its mean is the sum of two parts: the labels vary even
if the estimates are right, and the means of the cells have been estimated from few labels.

How far estimates lie from the truth is also measured, because the concept moves and the calibration of yesterday is not
that of today. As many labels as a window has events are a trial: they are held against what the cells promised one such
number of labels before. Each trial gives an error in units of its standard deviation. The interval reaches as far as 95
% of the newest errors (a conformal quantile; Vovk, Gammerman, Shafer 2005), and at least as far as for a normal
distribution. It holds what it claims if windows without labels are like these trials.

Estimates assume what CBPE assumes: the calibration of the labelled events holds for the others. They follow a change of
the features. They do not see a change of the concept before labels do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log, sqrt
from typing import Annotated, Final

import msgspec

from glasstream.explain.losses import CLIP, loss_one
from glasstream.models.predictors.arrays import require
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
_LEVEL: Final = 0.95
_KEPT: Final = 40
"""Number of newest errors that decide how far an interval reaches."""
_OF: Final = "expected performance"
_Moment = tuple[float, float]
"""Mean and variance."""


class Cells(msgspec.Struct, forbid_unknown_fields=True):
    """Calibration: observed labels compared with predicted probabilities."""

    sums: dict[str, list[float]] = {}
    """Sums of the cells of each predicted class."""
    weight: Annotated[float, msgspec.Meta(gt=0, le=_HEAVIEST * 2)] = 1.0
    """Weight of the next label."""

    def learn(self, label: str, p: float, beyond: float, more: float) -> None:
        """Add a label: what accuracy and loss were beyond what the probability promised."""
        sums = self.sums.get(label)
        if sums is None:
            sums = self.sums[label] = [0.0] * (_SUMS * (BINS + 1))
        at, weight = _SUMS * int(p * BINS), self.weight
        sums[at] += weight
        sums[at + 1] += weight * weight
        sums[at + 2] += weight * beyond
        sums[at + 3] += weight * beyond * beyond
        sums[at + 4] += weight * more
        sums[at + 5] += weight * more * more
        self.weight = weight * _GROWTH

    def moments(self, label: str, place: int, p: float, cost: float) -> tuple[_Moment, _Moment]:
        """Return mean and variance of the differences in a cell: of accuracy, and of loss.

        Parameters
        ----------
        cost
            By how much a wrong prediction costs more than a right one.
        """
        alike = p * (1.0 - p)
        sums = self.sums.get(label)
        if sums is None:
            return (0.0, alike), (0.0, cost * cost * alike)
        at = _SUMS * place
        known, _, beyond, beyond_squared, more, more_squared = sums[at : at + _SUMS]
        prior = _PRIOR * self.weight
        whole = known + prior
        right, loss = beyond / whole, more / whole
        spread, spread_of_loss = max(0.0, beyond_squared - right * beyond), max(0.0, more_squared - loss * more)
        return (
            (right, (spread + prior * alike) / whole),
            (loss, (spread_of_loss + prior * cost * cost * alike) / whole),
        )

    def expect(self, label: str, p: float, loss_name: str) -> tuple[float, float, float]:
        """Return the estimates of accuracy and loss of an event, and the variance of its loss."""
        promised, cost = _promised(loss_name, p)
        (beyond, _), (more, variance) = self.moments(label, int(p * BINS), p, cost)
        return min(max(p + beyond, 0.0), 1.0), max(0.0, promised + more), variance

    def labels(self, label: str, place: int) -> float:
        """Return how many labels of equal weight tell as much as those of a cell."""
        sums, at = self.sums.get(label), _SUMS * place
        return sums[at] ** 2 / sums[at + 1] if sums is not None and sums[at + 1] else 0.0

    def copy(self) -> "Cells":
        """Return the calibration as it is now."""
        return Cells({label: sums.copy() for label, sums in self.sums.items()}, self.weight)

    def scale(self, factor: float) -> None:
        """Multiply all weights."""
        for sums in self.sums.values():
            for at in range(len(sums)):
                sums[at] *= factor * factor if at % _SUMS == 1 else factor
        self.weight *= factor

    def expect_sound(self, classes: Sequence[str]) -> None:
        """Raise FrameError unless these can be cells of a stream with these classes."""
        require(set(self.sums) <= set(classes), "cells of the classes", _OF)
        require(all(len(sums) == _SUMS * (BINS + 1) for sums in self.sums.values()), "sums of all cells", _OF)
        positive = all(min(sums[at::_SUMS]) >= 0 for sums in self.sums.values() for at in (0, 1, 3, 5))
        require(positive, "variances from 0 on", _OF)


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
    reach: float = _Z
    """How many standard deviations the interval reaches; known when the window is full."""

    def add(self, estimate: float, variance: float) -> None:
        self.total += estimate
        self.variance += variance

    def label(self, estimate: float, variance: float, realised: float) -> None:
        self.labelled += estimate
        self.labelled_variance += variance
        self.realised += realised

    def error(self, labels: int) -> tuple[float, float]:
        """Return the difference of the mean of the labels from its estimate, and the standard deviation of that."""
        deviation = sqrt(self.labelled_variance / (labels * labels) + self.calibration)
        return (self.realised - self.labelled) / labels, deviation


class Window(msgspec.Struct, forbid_unknown_fields=True):
    """Events that are estimated together."""

    first: int
    last: int
    events: int = 0
    waiting: int = 0
    """Number of events whose labels may still come."""
    labels: int = 0
    accuracy: Moments = msgspec.field(default_factory=Moments)
    loss: Moments = msgspec.field(default_factory=Moments)
    inside: dict[str, list[int]] = {}
    """Number of events in the cells of each class, until the window is full."""

    def count(self, label: str, p: float) -> None:
        """Count an event in its cell."""
        self.events += 1
        counts = self.inside.get(label)
        if counts is None:
            counts = self.inside[label] = [0] * (BINS + 1)
        counts[int(p * BINS)] += 1

    def label(self, right: float, loss: float, variance: float, realised: tuple[float, float]) -> None:
        """Add what the label of an event says of the accuracy and loss that were estimated."""
        self.labels += 1
        self.accuracy.label(right, right * (1.0 - right), realised[0])
        self.loss.label(loss, variance, realised[1])

    def close(self, cells: Cells, loss_name: str) -> None:
        """Fix the variance of the mean estimates."""
        for label, counts in sorted(self.inside.items()):  # a checkpoint does not keep the order
            for place, count in enumerate(counts):
                if not count:
                    continue
                share, labels = count / self.events, cells.labels(label, place)
                p = min(1.0, (place + 0.5) / BINS)
                accuracy, loss = cells.moments(label, place, p, _promised(loss_name, p)[1])
                self.accuracy.calibration += share * share * accuracy[1] / (labels + _PRIOR)
                self.loss.calibration += share * share * loss[1] / (labels + _PRIOR)
        self.inside = {}

    def expect_sound(self, size: int) -> None:
        """Raise FrameError unless this can be a window, and an open one if it knows the cells of its events."""
        counts = [count for one in self.inside.values() for count in one]
        require(self.events > 0 and not (counts and self.events >= max(1, size)), "events of windows", _OF)
        require(
            all(len(one) == BINS + 1 for one in self.inside.values())
            and min(counts, default=0) >= 0
            and sum(counts) == (self.events if counts else 0),
            "the cells of the events of the open window", _OF,
        )  # fmt: skip
        moments = (self.accuracy, self.loss)
        positive = all(min(one.variance, one.labelled_variance, one.calibration) >= 0 for one in moments)
        require(positive and all(one.reach >= _Z for one in moments), "variances from 0 on", _OF)


class Pending(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What was expected of an event whose label may still come."""

    window: int
    right: float
    loss: float
    variance: float
    """Variance of its loss."""


class Saved(msgspec.Struct, forbid_unknown_fields=True):
    """The state as plain data."""

    cells: Cells
    frozen: list[Cells]
    labels: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    window: int
    windows: list[tuple[int, Window]]
    pending: list[tuple[int, Pending]]
    errors: list[tuple[float, float]]
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
    _cells: Cells = field(default_factory=Cells)
    _frozen: list[Cells] = field(default_factory=list)
    """The cells as they were at the newest two multiples of `size` labels."""
    _labels: int = 0
    _window: int = 0
    """Number of the open window."""
    _windows: dict[int, Window] = field(default_factory=dict)
    _pending: dict[int, Pending] = field(default_factory=dict)
    """Events whose labels may still come, by their `seq`, in this order."""
    _errors: list[tuple[float, float]] = field(default_factory=list)
    """Absolute errors of the newest trials, in standard deviations: of accuracy, and of loss."""
    _settled: tuple[int, int, int] = (0, 0, 0)
    """Number of settled windows, and of those whose accuracy and loss lay inside the interval."""

    def learn(self, label: str, probabilities: Mapping[str, float], right: bool, loss: float, loss_name: str) -> None:
        """Calibrate on an event that has a label."""
        p = probabilities.get(label, 0.0)
        if not 0.0 <= p <= 1.0:
            p = min(max(p, 0.0), 1.0)
        more = loss - (2.0 * p * (1.0 - p) if loss_name == "brier" else _promised(loss_name, p)[0])
        self._cells.learn(label, p, right - p, more)
        self._labels += 1
        if self.size and self._labels % self.size == 0:
            self._try(loss_name)
        if self._cells.weight > _HEAVIEST:
            for cells in (self._cells, *self._frozen):
                cells.scale(1.0 / self._cells.weight)

    def _try(self, loss_name: str) -> None:
        """Hold the newest `size` labels against the cells of one such number before, and keep the cells as they are."""
        now = self._cells
        if len(self._frozen) == 2:
            then, before = self._frozen
            error, variance, total = [0.0, 0.0], [0.0, 0.0], 0.0
            for label, place, weight, squared, *beyond in _added(before, now):
                p = min(1.0, (place + 0.5) / BINS)
                told = 1.0 / (then.labels(label, place) + _PRIOR)
                total += weight
                moments = then.moments(label, place, p, _promised(loss_name, p)[1])
                for one, ((mean, spread), more) in enumerate(zip(moments, beyond, strict=True)):
                    error[one] += more - weight * mean
                    variance[one] += spread * (squared + weight * weight * told)
            errors = [abs(one) / sqrt(of) if of > 0.0 else 0.0 for one, of in zip(error, variance, strict=True)]
            self._errors = [*self._errors[1 - _KEPT :], (errors[0], errors[1])]
        self._frozen = [*self._frozen[-1:], now.copy()]

    def arrive(self, seq: int, label: str, probabilities: Mapping[str, float], loss_name: str) -> None:
        """Estimate an event that came without a label."""
        self._expire(seq)
        if self._labels < LEAST:
            return
        window = self._windows.setdefault(self._window, Window(seq, seq))
        p = min(max(probabilities.get(label, 0.0), 0.0), 1.0)
        right, loss, variance = self._cells.expect(label, p, loss_name)
        window.last = seq
        window.count(label, p)
        window.accuracy.add(right, right * (1.0 - right))
        window.loss.add(loss, variance)
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
            self._windows[expected.window].label(expected.right, expected.loss, expected.variance, (float(right), loss))
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
            self._cells,
            self._frozen,
            self._labels,
            self._window,
            [*self._windows.items()],
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
        require(len(saved.frozen) <= 2 and len(saved.errors) <= _KEPT, "a bounded state", _OF)
        for cells in (saved.cells, *saved.frozen):
            cells.expect_sound(classes)
        windows = dict(saved.windows)
        for window in windows.values():
            window.expect_sound(self.size)
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
            all(one.waiting == held[number] for number, one in windows.items()),
            "the number of events that wait in each window", _OF,
        )  # fmt: skip
        require(all(0 <= number <= saved.window for number in windows), "windows up to the open one", _OF)
        is_open = {number: bool(one.inside) for number, one in windows.items()}
        require(is_open == {number: number == saved.window for number in windows}, "an open window", _OF)
        positive = all(min(error) >= 0 for error in saved.errors) and all(one.variance >= 0 for _, one in saved.pending)
        require(positive, "variances from 0 on", _OF)
        self._cells, self._frozen, self._labels = saved.cells, saved.frozen, saved.labels
        self._window, self._windows = saved.window, windows
        self._pending = dict(saved.pending)
        self._errors, self._settled, self.told, self.since = saved.errors, saved.settled, saved.told, saved.since

    def _close(self, window: Window, loss_name: str) -> None:
        """Fix the interval of a full window, and publish it."""
        window.close(self._cells, loss_name)
        for place, moments in enumerate((window.accuracy, window.loss)):
            moments.reach = _reach([errors[place] for errors in self._errors])
        self._window += 1
        self.told.append(self._estimate(window))
        if not window.waiting:
            self._settle(self._window - 1)

    def _estimate(self, window: Window, held: tuple[bool, bool] | None = None, *, settled: bool = False) -> Estimate:
        """Return the record of a window."""
        ranges = []
        for place, (moments, highest) in enumerate(((window.accuracy, 1.0), (window.loss, None))):
            value = moments.total / window.events
            half = moments.reach * sqrt(moments.variance / (window.events * window.events) + moments.calibration)
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
            inside = []
            for moments in (window.accuracy, window.loss):
                error, deviation = moments.error(window.labels)
                inside.append(abs(error) <= moments.reach * deviation + 1e-12)
            held = inside[0], inside[1]
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


def _added(before: Cells, now: Cells) -> Iterator[tuple[str, int, float, float, float, float]]:
    """Yield class, place, and what was added to a cell: weights, squared weights, differences of accuracy and loss."""
    for label, sums in now.sums.items():
        old = before.sums.get(label) or [0.0] * len(sums)
        for place in range(BINS + 1):
            at = _SUMS * place
            if sums[at] > old[at]:
                weight, squared, beyond, _, more, _ = (sums[at + one] - old[at + one] for one in range(_SUMS))
                yield label, place, weight, squared, beyond, more


def _reach(errors: Sequence[float]) -> float:
    """Return the conformal quantile of absolute errors, at least that of a normal distribution."""
    place = min(len(errors), ceil((len(errors) + 1) * _LEVEL))
    return max([_Z, *sorted(errors)[:place]])


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
