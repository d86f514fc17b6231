"""Compare the models of two streams on the same events: rows and records that are functions of the log.

The predictions of two streams lie in two partitions, perhaps of two deployments, and labels that come late are in a
third one. They become readable in any order, but the rows must have one order. So the join is a process network (Kahn
1974): which partition is read next depends only on what was read before, and reading waits until the record is there.

- The next record is read from the stream that is less far ahead of its newest event that both have; from the first
  stream if both are equally far. If the streams have the same events in the same order, they are read in turn. If one
  of them lacks events, the other one is read on until they meet again.
- From the first event without a label on, the first stream is read in the order of the topic `events`: its labels, and
  its events, each of which is the next prediction unless the learner rejected it.
- An event is a row when both predictions and a label have been read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import log, nan
from typing import Final, Literal, NamedTuple

import numpy as np
from msgspec.structs import replace

from glasstream.base.errors import InputError, LostInputError
from glasstream.detect.comparison import Comparison, Standing
from glasstream.events.admission import label
from glasstream.explain.losses import loss_one
from glasstream_topics import comparisons
from glasstream_topics.events import Event
from glasstream_topics.labels import Label
from glasstream_topics.predictions import Prediction

ALPHA: Final = 0.05
"""Probability with which any statement of a comparison may be wrong, at any row."""
MOST_APART: Final = 100_000
"""Largest number of consecutive events that one of the streams may lack."""
MOST_WAITING: Final = 100_000
"""Largest number of events that wait for a label; the oldest are left out."""
OFTEN: Final = 100
"""Number of rows after which records follow each other at first."""
EVERY: Final = 1_000
"""Number of rows after which records follow each other from here on."""
LARGEST: Final = {"brier": 2.0, "zero_one": 1.0}
"""Largest value of a loss of classification."""

Loss = Literal["brier", "zero_one", "absolute"]
Target = str | float
Element = tuple[str, Event | Label] | None
"""An event or a label on `events` with its id; None where the end is reached, as far as it was known at the time."""


class Row(NamedTuple):
    """An event of both streams with its label.

    Attributes
    ----------
    seq
        Number of the event in the first stream.
    first, second
        Loss of the prediction of each stream, as a share of the largest possible loss.
    """

    seq: int
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Measure:
    """How predictions are compared.

    Attributes
    ----------
    loss
        Loss of a prediction.
    scale
        Largest value of the loss. Larger absolute errors count as this one.
    """

    loss: Loss
    scale: float

    def share(self, answer: Prediction, target: Target) -> float:
        """Return the loss of a prediction as a share of the largest one.

        Raises
        ------
        InputError
            The prediction does not have this loss.
        """
        return min(1.0, self._loss(answer, target) / self.scale)

    def _loss(self, answer: Prediction, target: Target) -> float:
        prediction = answer.prediction
        if isinstance(prediction, float) != (self.loss == "absolute") or isinstance(target, float) != (
            self.loss == "absolute"
        ):
            what = "the number" if isinstance(prediction, float) else "the class"
            raise InputError(
                f"stream {answer.stream!r}, event {answer.id!r}: expected two "
                f"{'regressions' if self.loss == 'absolute' else 'classifications'}, got {what} {prediction!r} and the "
                f"label {target!r}; compare regressions, and only these, with --scale, the largest absolute error that "
                "counts"
            )
        if isinstance(prediction, float) and isinstance(target, float):
            return abs(prediction - target)
        if answer.target is not None and answer.loss is not None and answer.loss_name == self.loss:
            return answer.loss
        if self.loss == "brier" and answer.others is not None:
            raise InputError(
                f"stream {answer.stream!r}, event {answer.id!r}: expected the probabilities of all classes, got the "
                "most probable ones; compare the share of wrong labels with --loss zero_one"
            )
        return loss_one(self.loss, str(prediction), answer.probabilities, nan, target)


@dataclass(slots=True)
class _Side:
    """One of the streams, as far as it has been read."""

    answers: Iterator[Prediction]
    unmatched: dict[str, tuple[int, Prediction]] = field(default_factory=dict)
    """Predictions that the other stream lacks so far, each with its number, in the order in which they were read."""
    read: int = 0
    matched: int = 0
    """Number of the newest prediction that both streams have."""

    @property
    def ahead(self) -> int:
        return self.read - self.matched

    def forget(self) -> int:
        """Remove predictions for which the other one comes no more, and return their number."""
        left = 0
        while self.unmatched:
            name = next(iter(self.unmatched))
            if self.unmatched[name][0] >= self.matched - MOST_APART:
                break
            del self.unmatched[name]
            left += 1
        return left


class Pairs:
    """The rows of two streams, in an order that is a function of their records. Iterate over it once.

    Parameters
    ----------
    first, second
        Predictions of one epoch of each stream, in their order. An iterator waits for the next one; where it ends, the
        rows end.
    log
        Return events and labels of the first stream on `events`, in their order. It is called if an event comes without
        a label.
    measure
        Loss to compare.

    Attributes
    ----------
    left_out
        Number of events so far that were no row.
    """

    def __init__(
        self,
        first: Iterator[Prediction],
        second: Iterator[Prediction],
        log: Callable[[], Iterator[Element]],
        measure: Measure,
    ) -> None:
        self._sides = _Side(first), _Side(second)
        self._open, self._measure = log, measure
        self._log: Iterator[Element] | None = None
        self._next: Prediction | None = None
        """The next prediction of the first stream, if it was read before its event."""
        self._waiting: dict[str, tuple[Prediction, Prediction]] = {}
        """Pairs of predictions without a label, in the order in which they met."""
        self.left_out = 0

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows.

        Raises
        ------
        InputError
            The streams are too far apart, have other labels for an event, or predictions without this loss.
        LostInputError
            The topic `events` no longer has the first event without a label.
        """
        first, second = self._sides
        while True:
            try:
                row = self._read_first() if first.ahead <= second.ahead else self._meet(1, next(second.answers))
            except StopIteration:
                return
            if row is not None:
                yield row

    def _read_first(self) -> Row | None:
        answers = self._sides[0].answers
        if self._log is None:
            answer = next(answers)
            if answer.target is None:
                self._log = self._opened(answer)
            return self._meet(0, answer)
        element = next(self._log)
        if element is None:
            return None
        name, content = element
        if isinstance(content, Label):
            return self._label(name, content)
        if self._next is None:
            self._next = next(answers)
        if self._next.id != name:
            return None  # the learner rejected the event
        answer, self._next = self._next, None
        return self._meet(0, answer)

    def _opened(self, answer: Prediction) -> Iterator[Element]:
        """Return what follows on `events` behind an event."""
        log = self._open()
        for element in log:
            if element is None:
                break
            if element[0] == answer.id and isinstance(element[1], Event):
                return log
        raise LostInputError(
            f"stream {answer.stream!r}: expected event {answer.id!r} on the topic `events`, because its label may come "
            "late, found none; lengthen the retention of the topic; begin a new comparison with --new --start latest"
        )

    def _meet(self, side: int, answer: Prediction) -> Row | None:
        """Take in a prediction."""
        own, other = self._sides[side], self._sides[1 - side]
        own.read += 1
        found = other.unmatched.pop(answer.id, None)
        if found is not None:
            own.matched, other.matched = own.read, max(other.matched, found[0])
            self.left_out += own.forget() + other.forget()
            return self._pair(found[1], answer) if side else self._pair(answer, found[1])
        if answer.id in own.unmatched:
            self.left_out += 1  # the first one counts
        else:
            own.unmatched[answer.id] = own.read, answer
        if own.ahead > MOST_APART:
            raise InputError(
                f"stream {answer.stream!r}, event {answer.seq:,}: expected an event that both streams have, got none "
                f"among the last {MOST_APART:,}; begin a new comparison with --new --start latest"
            )
        return None

    def _pair(self, first: Prediction, second: Prediction) -> Row | None:
        """Take in the predictions of both streams for an event."""
        if None not in (first.target, second.target) and first.target != second.target:
            raise InputError(
                f"expected the same label for event {first.id!r} in both streams, got {first.target!r} and "
                f"{second.target!r}: the ids name different events; give each event an `id` of its own"
            )
        if first.prediction is None or second.prediction is None:
            self.left_out += 1
            return None
        target = second.target if first.target is None else first.target
        if target is not None:
            return self._row(first, second, target)
        if first.id in self._waiting:
            self.left_out += 1
            return None
        self._waiting[first.id] = first, second
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self.left_out += 1
        return None

    def _label(self, name: str, found: Label) -> Row | None:
        """Take in a label that came after its event. The first one counts."""
        pair, unmatched = self._waiting.get(name), self._sides[0].unmatched
        if pair is not None:
            target = target_of(found.y, pair[0].prediction)
            if target is None:
                return None
            del self._waiting[name]
            return self._row(*pair, target)
        if name in unmatched and unmatched[name][1].target is None:
            number, answer = unmatched[name]
            unmatched[name] = number, replace(answer, target=target_of(found.y, answer.prediction))
        return None

    def _row(self, first: Prediction, second: Prediction, target: Target) -> Row:
        return Row(first.seq, self._measure.share(first, target), self._measure.share(second, target))


def target_of(y: str | bool | int | float | None, prediction: Target | None) -> Target | None:
    """Return a label as predictions carry it, a number or the name of a class; None if it is no label of this kind."""
    if isinstance(prediction, float):
        return None if y is None or isinstance(y, (str, bool)) else float(y)
    return None if y is None else label(y)


class Records:
    """The records of `comparisons` about two streams, one after the other.

    Parameters
    ----------
    pairs
        Rows of the streams.
    measure
        Loss of these rows.
    epoch, stream, start
        Epoch and name of the first stream, and its first event that counts.
    other
        The second stream.
    """

    def __init__(
        self, pairs: Pairs, measure: Measure, epoch: int, stream: str, start: int, other: comparisons.Other
    ) -> None:
        self._pairs, self._measure = pairs, measure
        self._scale = measure.scale if measure.loss == "absolute" else None
        self._of = (epoch, stream, start, other)
        self._comparison = Comparison(ALPHA)
        self._rows, self._seq = 0, 0
        self._since: tuple[int, int] | None = None
        """Row since which the better model has been known, and its event."""

    def __iter__(self) -> Iterator[comparisons.Comparison]:
        """Yield a record after each `OFTEN` rows, and from `EVERY` rows on after each `EVERY`; errors are those of
        `Pairs`.
        """
        rows = iter(self._pairs)
        while True:
            due = OFTEN if self._rows < EVERY else EVERY
            new = list(islice(rows, due))
            if len(new) < due:
                return
            yield self._record(new)

    def _record(self, new: Sequence[Row]) -> comparisons.Comparison:
        self._comparison.add(np.array([one.first for one in new]), np.array([one.second for one in new]))
        standing = self._comparison.standing()
        if standing.since is None:
            self._since = None
        elif standing.since > self._rows:
            self._since = standing.since, new[standing.since - self._rows - 1].seq
        self._rows = standing.rows
        self._seq = max(self._seq, *(one.seq for one in new))
        return self._described(standing)

    def _described(self, standing: Standing) -> comparisons.Comparison:
        epoch, stream, start, other = self._of
        scale, since = self._measure.scale, self._since
        return comparisons.Comparison(
            schema_version=1,
            epoch=epoch,
            stream=stream,
            seq=self._seq,
            other=other,
            loss=self._measure.loss,
            scale=self._scale,
            start=start,
            rows=standing.rows,
            left_out=self._pairs.left_out,
            own_loss=standing.first * scale,
            other_loss=standing.second * scale,
            difference=standing.difference * scale,
            low=standing.low * scale,
            high=standing.high * scale,
            level=1.0 - ALPHA,
            better=(None, "stream", "other")[standing.better],
            since_row=None if since is None else since[0],
            since_seq=None if since is None else since[1],
            evidence=min(comparisons.STRONGEST, standing.log_evidence / log(10.0)),
            visible=standing.visible * scale,
        )
