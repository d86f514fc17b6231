"""Compare the predictions that two streams published for the same events, and say which model is better."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, nan
from typing import Final, NamedTuple

import msgspec
import numpy as np

from glasstream.app.operate.topic_reader import read_records
from glasstream.base.errors import InputError
from glasstream.detect.comparison import Comparison
from glasstream.events.admission import label
from glasstream.events.decode import decode
from glasstream.events.features import Value
from glasstream.events.message import Message
from glasstream.explain.losses import loss_one
from glasstream.flow.comparisons import ALPHA, LARGEST, target_of
from glasstream.flow.identity import event_id
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.topic_check import partition_count
from glasstream_topics import comparisons, consume, events, predictions
from glasstream_topics.comparisons import number
from glasstream_topics.labels import Label
from glasstream_topics.predictions import Prediction

FIRST_ROWS: Final = 1_000
"""Number of the first rows whose values fix the segments."""
MOST_SEGMENTS: Final = 20
"""Most categories that are segments of their own."""
_STRONGEST: Final = 10.0**comparisons.STRONGEST
"""Stronger evidence counts as this number."""
_LARGEST_EXPONENT: Final = 700.0
"""Largest exponent whose exponential is a finite number."""
DEFAULT: Final = "brier"

_POSITION: Final = re.compile(r"[0-9]+-[0-9]+-[0-9]+")
"""Id of an event that came without one (`glasstream.flow.identity.event_id`)."""

Target = str | float


class Side(NamedTuple):
    """A stream of a deployment."""

    prefix: str
    stream: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """Streams to compare, and the way of the comparison.

    Attributes
    ----------
    first, second
        The two streams.
    loss
        ``brier``, the default, or ``zero_one``; classification only.
    scale
        Largest absolute error of a regression: larger errors count as this one.
    by
        Feature whose values divide the events into segments.
    """

    first: Side
    second: Side
    loss: str | None = None
    scale: float | None = None
    by: str | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Names of the streams, with their prefixes if these differ."""
        return names_of(self.first, self.second)


def names_of(first: Side, second: Side) -> tuple[str, str]:
    """Return the names of two streams, with their prefixes if these differ."""
    if first.prefix == second.prefix:
        return first.stream, second.stream
    return f"{first.stream} @ {first.prefix}", f"{second.stream} @ {second.prefix}"


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Which of two models is better on the rows of a segment, in the units of the loss.

    Rows are the compared events of the segment in the order of their labels, from 1 on.

    Attributes
    ----------
    segment
        What the rows have in common; None for all rows.
    loss
        Name of the loss in words.
    first_loss, second_loss
        Mean losses.
    difference, low, high
        Mean loss of the first stream minus that of the second, and its interval.
    level
        Probability with which the interval holds at all rows together. The intervals of all segments together hold with
        95 %.
    better
        Name of the stream whose model is better; None if this is not known yet.
    since_row, since_seq
        Row since which this has been known without interruption, and number of its event in the first stream.
    evidence
        Evidence k that the model with the smaller loss is better, at most 1e9: at equal models, it ever reaches k in at
        most 1 of k streams.
    visible
        Difference that would be known now.
    """

    first: str
    second: str
    segment: str | None
    rows: int
    loss: str
    first_loss: float
    second_loss: float
    difference: float
    low: float
    high: float
    level: float
    better: str | None
    since_row: int | None
    since_seq: int | None
    evidence: float
    visible: float

    def sentence(self) -> str:
        """Return the result as a sentence."""
        return comparisons.in_words(self, self.first, self.second, self.better, self.loss, self.evidence)


class Result(NamedTuple):
    """Result of a comparison."""

    compared: list[Compared]
    """The segments in their order, or one entry for all rows."""
    left_out: dict[str, int]
    """Number of events that were not compared, by reason."""
    by_position: int = 0
    """Number of events in two deployments whose ids look like those of events without one: positions on the topics."""

    def lines(self) -> Iterator[str]:
        """Yield the result as lines of text."""
        left_out = "".join(f"; left out: {count:,} {why}" for why, count in self.left_out.items())
        yield f"{sum(one.rows for one in self.compared):,} events compared{left_out}"
        if self.by_position:
            yield (
                f"{self.by_position:,} of them have positions on the topics `events` as ids, as events without an `id` "
                "get: they are the same events only if both topics have the same records"
            )
        for one in self.compared:
            if one.segment is not None:
                yield f"{one.segment}: {one.sentence()}"
                continue
            yield f"{one.loss}: {number(one.first_loss)} of {one.first}, {number(one.second_loss)} of {one.second}"
            yield one.sentence()


class _Answer(NamedTuple):
    """Prediction of a stream for an event, with what is known of its loss."""

    seq: int
    prediction: Target | None
    target: Target | None
    loss: float | None
    """Loss of the prediction; None without a label or without a prediction."""
    probabilities: dict[str, float] | None = None
    """Probabilities of the classes, kept for an event whose label is not known yet."""
    cut: bool = False
    """Whether the record leaves out classes."""


@dataclass(slots=True)
class _Log:
    """Labels and feature values that the topic `events` has of some events, by the ids of the events."""

    places: dict[str, int] = field(default_factory=dict)
    """Order of the labels."""
    targets: dict[str, Target] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    features: dict[str, None] = field(default_factory=dict)


class _Row(NamedTuple):
    """The losses of both streams on an event, and its value of the feature that divides the events."""

    id: str
    seq: int
    first: float
    second: float
    value: Value


def compare(settings: Settings, chosen: Chosen) -> Result:
    """Compare the predictions of two streams in their newest epochs, on the events with the same ids.

    Predictions carry the labels that came with the events. The labels that came later, and the values of features, are
    read from the topic `events` of the first stream's deployment.

    Raises
    ------
    InputError
        A stream has no predictions, the streams have no labelled event in common, or their losses cannot be compared.
    TopicError
        The broker does not have a topic.
    BrokerError, VersionError
        A topic cannot be read.
    """
    (first, damaged, again), (second, more, too) = (
        _answers(settings, side, chosen) for side in (chosen.first, chosen.second)
    )
    both = " and ".join(chosen.names)
    shared = {one: (answer, second[one]) for one, answer in first.items() if one in second}
    # A model that learns has learned the event before it answers it again.
    common = {one: answers for one, answers in shared.items() if one not in again and one not in too}
    if not common:
        raise InputError(
            f"expected events with the same ids in {both}, found none among {len(first):,} and {len(second):,} events; "
            "send the same events to both, each with its `id`"
        )
    left_out = Counter({"only in one of the streams": len(first) + len(second) - 2 * len(shared)})
    left_out["whose id came more than once"] = len(shared) - len(common)
    left_out["that cannot be read"] = damaged + more
    words, scale = _measure(chosen, common.values())
    known = _Log()
    if chosen.by is not None or any(a.target is None and b.target is None for a, b in common.values()):
        known = _log(settings, chosen, common)
    if chosen.by is not None and chosen.by not in known.features:
        found = ", ".join(map(repr, known.features))[:300] or "no message that is kept"
        raise InputError(
            f"--by: expected a feature of the events of {chosen.names[0]}, got {chosen.by!r}; found {found}"
        )
    rows = _rows(chosen, common, known, left_out)
    if not rows:
        reasons = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
        raise InputError(f"expected events of {both} with a label and both predictions, found none: {reasons}")
    apart = chosen.first.prefix != chosen.second.prefix
    by_position = sum(_POSITION.fullmatch(one.id) is not None for one in rows) if apart else 0
    compared = _compared(chosen, words, scale, rows)
    return Result(compared, {why: count for why, count in left_out.items() if count}, by_position)


def segments_of(values: Sequence[Value]) -> tuple[list[int], list[str]]:
    """Return the place of the segment of each value, and the names of all segments.

    The first `FIRST_ROWS` values fix the segments: quartiles of numbers, or the most frequent categories. The segments
    therefore do not depend on later values.

    >>> segments_of([1.0, 2.0, 3.0, 4.0, None])
    ([0, 1, 2, 3, 4], ['below 1.75', '1.75 to 2.5', '2.5 to 3.25', 'from 3.25 on', 'missing'])
    >>> segments_of(["red", "blue", None, "red"])
    ([0, 1, 3, 0], ['red', 'blue', 'other values', 'missing'])
    """
    early = [one for one in values[:FIRST_ROWS] if one is not None]
    if early and all(isinstance(one, float) for one in early):
        edges = np.unique(np.quantile(np.array(early, np.float64), [0.25, 0.5, 0.75])).tolist()
        texts = [f"{edge:.6g}" for edge in edges]
        names = [f"below {texts[0]}", *map("{} to {}".format, texts, texts[1:]), f"from {texts[-1]} on", "missing"]
        places = [bisect_right(edges, one) if isinstance(one, float) else len(edges) + 1 for one in values]
        return places, names
    counts = Counter(map(_category, early))
    named = [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_SEGMENTS]]
    places_of, missing = {name: place for place, name in enumerate(named)}, len(named) + 1
    places = [missing if one is None else places_of.get(_category(one), missing - 1) for one in values]
    return places, [*named, "other values", "missing"]


def _category(value: str | float | bool) -> str:
    return label(value) or str(value)


def _answers(settings: Settings, side: Side, chosen: Chosen) -> tuple[dict[str, _Answer], int, set[str]]:
    """Return the predictions in the newest epoch of a stream by id, the number of unreadable records, and repeated ids.

    Raises
    ------
    InputError
        The stream has no predictions.
    """
    epoch, found, again = -1, dict[str, _Answer](), set[str]()
    with consume.predictions(
        settings.broker,
        prefix=side.prefix,
        streams=side.stream,
        follow=False,
        damaged="skip",
        kafka=settings.kafka,
    ) as records:
        for record in records:
            if record.epoch > epoch:
                epoch, found, again = record.epoch, {}, set()
            if record.epoch == epoch and record.id in found:
                again.add(record.id)
            elif record.epoch == epoch:
                found[record.id] = _answer(record, chosen.loss or DEFAULT)
    if not found:
        raise InputError(
            f"expected a stream with predictions on {side.prefix}{predictions.TOPIC.name}, got {side.stream!r}; "
            f"`glasstream state show --prefix {side.prefix}` lists the streams"
        )
    return found, records.damaged, again


def _answer(record: Prediction, loss: str) -> _Answer:
    cut = record.others is not None
    answer = _Answer(record.seq, record.prediction, record.target, record.loss, record.probabilities, cut)
    if record.target is None or record.prediction is None:
        return answer
    if record.loss is None or record.loss_name != loss:
        # Whether this event is compared is not known yet: what leaves out classes is refused then.
        known = None if loss == "brier" and cut else _loss(record.id, answer, record.target, loss)
        answer = answer._replace(loss=known)
    return answer._replace(probabilities=None)


def _loss(event: str, answer: _Answer, target: Target, loss: str) -> float:
    """Return the loss of a prediction.

    Raises
    ------
    InputError
        The record leaves out classes, so that it has no Brier loss.
    """
    if isinstance(answer.prediction, float) and isinstance(target, float):
        return abs(answer.prediction - target)
    if loss == "brier" and answer.cut:
        raise InputError(
            f"event {event!r}: expected the probabilities of all classes, got the most probable ones; compare the "
            "share of wrong labels with --loss zero_one"
        )
    return loss_one(loss, str(answer.prediction), answer.probabilities, nan, target)


def _measure(chosen: Chosen, common: Iterable[tuple[_Answer, _Answer]]) -> tuple[str, float]:
    """Return words for the loss of these predictions, and its largest value.

    Raises
    ------
    InputError
        There is no such loss, or none with a bound.
    """
    pairs = ((a.prediction, b.prediction) for a, b in common)
    first, second = next((one for one in pairs if None not in one), (None, None))
    numbers = isinstance(first, float)
    if numbers != isinstance(second, float):
        raise InputError(
            f"expected two classifications or two regressions, got predictions such as {first!r} and {second!r}"
        )
    if not numbers:
        if chosen.scale is not None:
            raise InputError("--scale: expected it for a regression, got it for a classification")
        name = chosen.loss or DEFAULT
        return comparisons.in_units(name, None), LARGEST[name]
    if chosen.loss is not None:
        raise InputError(
            f"--loss: expected none for a regression, whose absolute errors are compared, got {chosen.loss}"
        )
    if chosen.scale is None:
        raise InputError(
            "--scale: expected the largest absolute error that counts for this regression, such as the range of its "
            "labels, got none: without a bound, one error could outweigh all others, and no statement would hold at "
            "every row; larger errors count as this one"
        )
    return comparisons.in_units("absolute", chosen.scale), chosen.scale


def _log(settings: Settings, chosen: Chosen, common: Mapping[str, tuple[_Answer, _Answer]]) -> _Log:
    """Return targets, places and values of some events from the topic `events` of the first stream."""
    known = _Log()
    log = log_of(settings, chosen.first)
    of_stream = (one for message in log for one in elements_of(settings, chosen.first, message))
    for place, (name, element) in enumerate(of_stream):
        answers = common.get(name)
        if answers is None:
            continue
        if isinstance(element, Label):
            if name in known.targets:
                continue  # the first label counts
        else:
            known.features.update(dict.fromkeys(element.x))
            known.targets.pop(name, None)  # an id that is used again
            known.values[name] = element.x.get(chosen.by) if chosen.by is not None else None
        target = target_of(element.y, answers[0].prediction)
        if target is not None:
            known.targets[name], known.places[name] = target, place
    return known


def log_of(settings: Settings, side: Side, begin: int = 0) -> Iterator[Message]:
    """Yield the messages of a stream's partition of `events`, also those of other streams, up to its end.

    Parameters
    ----------
    begin
        Offset of the first message.
    """
    settings = msgspec.structs.replace(settings, prefix=side.prefix)
    name, link = topic(settings, events.TOPIC.name), connection(settings)
    partition = events.partition(events.key(side.stream), partition_count(link, name), settings.topics.partitioner)
    yield from read_records(link, {(name, partition): begin}, read_committed=True)


def elements_of(settings: Settings, side: Side, message: Message) -> Iterator[tuple[str, events.Event | Label]]:
    """Yield the events and labels of a message with their ids; none if it belongs to another stream."""
    if message.key == events.key(side.stream):
        for index, element in decode(message.value, settings.limits.message_bytes).events:
            yield event_id(element.id, message, index), element


def _rows(
    chosen: Chosen, common: Mapping[str, tuple[_Answer, _Answer]], known: _Log, left_out: Counter[str]
) -> list[_Row]:
    """Return the rows of the events that have a label and both predictions, in the order of their labels.

    Raises
    ------
    InputError
        The streams have other labels for an event.
    """
    rows = []
    for name, (a, b) in sorted(common.items(), key=lambda item: (known.places.get(item[0], -1), item[1][0].seq)):
        if None not in (a.target, b.target) and a.target != b.target:
            raise InputError(
                f"expected the same label for event {name!r} in {' and '.join(chosen.names)}, got {a.target!r} and "
                f"{b.target!r}: the ids name different events; give each event an `id` of its own"
            )
        target = next((one for one in (a.target, b.target, known.targets.get(name)) if one is not None), None)
        if target is None:
            left_out["without a label"] += 1
        elif a.prediction is None or b.prediction is None:
            left_out["without a prediction"] += 1
        elif chosen.by is not None and name not in known.values:
            left_out["whose messages have expired"] += 1
        else:
            losses = [
                _loss(name, one, target, chosen.loss or DEFAULT) if one.target is None or one.loss is None else one.loss
                for one in (a, b)
            ]
            rows.append(_Row(name, a.seq, losses[0], losses[1], known.values.get(name)))
    return rows


def _compared(chosen: Chosen, words: str, scale: float, rows: Sequence[_Row]) -> list[Compared]:
    """Return the statement about each segment that has rows, or the one about all rows."""
    losses = np.array([(one.first, one.second) for one in rows]) / scale
    places, names = segments_of([one.value for one in rows]) if chosen.by is not None else ([0] * len(rows), [None])
    found = []
    for segment, name in enumerate(names):
        within = np.flatnonzero(np.array(places) == segment)
        if not within.size:
            continue
        comparison = Comparison(ALPHA / len(names))
        comparison.add(*np.minimum(losses[within], 1.0).T)
        standing = comparison.standing()
        found.append(
            Compared(
                first=chosen.names[0],
                second=chosen.names[1],
                segment=None if name is None else f"{chosen.by} ({name})",
                rows=standing.rows,
                loss=words,
                first_loss=standing.first * scale,
                second_loss=standing.second * scale,
                difference=standing.difference * scale,
                low=standing.low * scale,
                high=standing.high * scale,
                level=1.0 - comparison.alpha,
                better=chosen.names[standing.better - 1] if standing.better else None,
                since_row=standing.since,
                since_seq=None if standing.since is None else rows[within[standing.since - 1]].seq,
                evidence=min(exp(min(standing.log_evidence, _LARGEST_EXPONENT)), _STRONGEST),
                visible=standing.visible * scale,
            )
        )
    return found
