"""Publish which of the models of two streams is better on the topic `comparisons`, exactly once.

The records are a function of the predictions and labels from the first event that counts
(`glasstream.flow.comparisons`). So nothing needs to be saved: a process that starts again computes the comparison from
this event on, checks that it comes to the numbers of the newest published record, and publishes what follows.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

from glasstream.app.operate.compare import Side, elements_of, log_of
from glasstream.app.operate.topic_reader import STANDSTILL_SECONDS
from glasstream.base.errors import InputError, LostInputError, StateError
from glasstream.flow.comparisons import LARGEST, MOST_APART, Element, Measure, Pairs, Records
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.topic_check import check_topics
from glasstream.kafka.transport.transactions import TransactionalProducer
from glasstream_topics import comparisons, consume, events
from glasstream_topics.comparisons import Comparison, Other
from glasstream_topics.predictions import Prediction

_TOGETHER: Final = 500
"""Number of records per transaction while the past is read."""
_PAUSE_SECONDS: Final = 1.0
"""Seconds between two looks at `events`."""
_SUMS: Final = ("rows", "seq", "left_out", "own_loss", "other_loss", "difference")
"""Numbers of a record whose bits do not depend on the processor."""
_AGAIN: Final = "begin a new comparison with --new --start latest"


@dataclass(frozen=True, slots=True)
class Order:
    """Comparison to publish.

    Attributes
    ----------
    first, second
        The two streams. Records are published with those of the first one.
    measure
        Loss to compare.
    start
        Where a comparison begins that has no records yet: with the `earliest` event that both streams still have, or
        with the `latest` ones, those that come from now on.
    new
        Whether to begin a new comparison even if there are records.
    follow
        Whether to wait for further events.
    """

    first: Side
    second: Side
    measure: Measure
    start: Literal["earliest", "latest"] = "earliest"
    new: bool = False
    follow: bool = False

    @property
    def name(self) -> str:
        """Name under which it is published by one process at a time."""
        return f"compare.{self.first.stream}/{self.second.prefix}{self.second.stream}/{self.measure.loss}"


@dataclass(slots=True)
class _Known:
    """Predictions that a stream has now, in its newest epoch.

    Attributes
    ----------
    epoch, last
        The epoch, and number of its newest event.
    begin
        Number of each of the first `MOST_APART` events, by id.
    """

    epoch: int = -1
    last: int = -1
    begin: dict[str, int] = field(default_factory=dict)


def measure_of(loss: str | None, scale: float | None) -> Measure:
    """Return how predictions are compared.

    Parameters
    ----------
    loss
        ``brier``, the default, or ``zero_one``; classification only.
    scale
        Largest absolute error of a regression.

    Raises
    ------
    InputError
        Both are given.
    """
    if scale is None:
        name: Literal["brier", "zero_one"] = "zero_one" if loss == "zero_one" else "brier"
        return Measure(name, LARGEST[name])
    if loss is not None:
        raise InputError(f"--scale: expected it for a regression, which has no --loss, got --loss {loss}")
    return Measure("absolute", scale)


def publish(settings: Settings, order: Order) -> Iterator[Comparison]:
    """Publish the records of a comparison that are not on the topic yet, and yield each of them when it is.

    1. Fence every other process that publishes this comparison, so that it can write nothing more. 2. Read its newest
    record. 3. Compute the records from the first event on, and check the newest record. 4. Write those that follow, in
    transactions.

    Without `follow`, this ends at the current ends of the topics. It also ends when one of the streams begins an epoch.

    Raises
    ------
    InputError
        A stream has no predictions, the streams have no event in common, or their losses cannot be compared.
    StateError, LostInputError
        Predictions or labels have expired since the comparison began.
    FencedError
        Another process publishes this comparison now.
    TopicError, BrokerError
        A topic is missing, or cannot be read or written.
    """
    name, link = topic(settings, comparisons.TOPIC.name), connection(settings)
    check_topics(link, {name: None})
    producer = TransactionalProducer(link, settings.prefix + order.name)
    try:
        producer.open(STANDSTILL_SECONDS)
        known = _known(settings, order.first), _known(settings, order.second)
        newest = None if order.new else _newest(settings, order, known)
        start = _start(settings, order, known) if newest is None else (newest.start, newest.other.start)
        records = iter(_records(settings, order, known, start))
        if newest is not None:
            _pass(records, newest)
        while batch := list(islice(records, 1 if order.follow else _TOGETHER)):
            key = comparisons.key(order.first.stream)
            producer.commit([ProducerRecord(name, key, comparisons.encode(one)) for one in batch])
            yield from batch
    finally:
        producer.close()


def _known(settings: Settings, side: Side) -> _Known:
    """Return what a stream has now.

    Raises
    ------
    InputError
        It has no predictions.
    """
    known = _Known()
    with _reader(settings, side, follow=False) as records:
        for record in records:
            if record.epoch > known.epoch:
                known = _Known(record.epoch)
            if record.epoch < known.epoch:
                continue
            known.last = record.seq
            if len(known.begin) < MOST_APART:
                known.begin.setdefault(record.id, record.seq)
    if known.epoch < 0:
        raise InputError(
            f"expected a stream with predictions on {side.prefix}predictions, got {side.stream!r}; `glasstream state "
            f"show --prefix {side.prefix}` lists the streams"
        )
    return known


def _reader(settings: Settings, side: Side, *, follow: bool) -> consume.Reader[Prediction]:
    return consume.predictions(
        settings.broker, prefix=side.prefix, streams=side.stream, follow=follow, damaged="skip", kafka=settings.kafka
    )


def _newest(settings: Settings, order: Order, known: tuple[_Known, _Known]) -> Comparison | None:
    """Return the newest record of the comparison in the newest epochs; None if there is none."""
    scale = order.measure.scale if order.measure.loss == "absolute" else None
    of = (order.measure.loss, scale, known[0].epoch, known[1].epoch, *order.second)
    newest = None
    with consume.comparisons(
        settings.broker,
        prefix=order.first.prefix,
        streams=order.first.stream,
        follow=False,
        damaged="skip",
        kafka=settings.kafka,
    ) as records:
        for one in records:
            other = one.other
            if (one.loss, one.scale, one.epoch, other.epoch, other.prefix, other.stream) == of:
                newest = one
    return newest


def _start(settings: Settings, order: Order, known: tuple[_Known, _Known]) -> tuple[int, int]:
    """Return the numbers of the first event that counts, in both streams.

    Raises
    ------
    InputError
        The streams have no event in common.
    """
    if order.start == "latest":
        return known[0].last + 1, known[1].last + 1
    first, second = (one.begin for one in known)
    for name, seq in second.items():
        if name in first:
            return first[name], seq
    # One of the streams began much later than the other one.
    for record in _answers(settings, order.first, known[0].epoch, follow=False):
        if record.id in second:
            return record.seq, second[record.id]
    for record in _answers(settings, order.second, known[1].epoch, follow=False):
        if record.id in first:
            return first[record.id], record.seq
    raise InputError(
        f"expected events with the same ids in the streams {order.first.stream!r} and {order.second.stream!r}, found "
        "none; send the same events to both, each with its `id`"
    )


def _records(settings: Settings, order: Order, known: tuple[_Known, _Known], start: tuple[int, int]) -> Records:
    first, second = (
        _from(_answers(settings, side, of.epoch, follow=order.follow), begin, of, side)
        for side, of, begin in zip((order.first, order.second), known, start, strict=True)
    )
    pairs = Pairs(first, second, lambda: _elements(settings, order.first, follow=order.follow), order.measure)
    other = Other(order.second.prefix, order.second.stream, known[1].epoch, start[1])
    return Records(pairs, order.measure, known[0].epoch, order.first.stream, start[0], other)


def _answers(settings: Settings, side: Side, epoch: int, *, follow: bool) -> Iterator[Prediction]:
    """Yield the predictions of an epoch of a stream, until the next epoch begins."""
    with _reader(settings, side, follow=follow) as records:
        for record in records:
            if record.epoch > epoch:
                return
            if record.epoch == epoch:
                yield record


def _from(answers: Iterator[Prediction], start: int, known: _Known, side: Side) -> Iterator[Prediction]:
    """Yield the predictions from the event `start` on.

    Raises
    ------
    StateError
        This event is gone.
    """
    begun = False
    for answer in answers:
        if answer.seq < start:
            continue
        if not begun and answer.seq > start and start <= known.last:
            raise StateError(
                f"stream {side.stream!r}: expected its predictions from event {start:,} on, with which the comparison "
                f"began, got them from event {answer.seq:,} on, because older ones have expired; lengthen the "
                f"retention of {side.prefix}predictions; {_AGAIN}"
            )
        begun = True
        yield answer


def _elements(settings: Settings, side: Side, *, follow: bool) -> Iterator[Element]:
    """Yield events and labels of a stream behind its last reset mark; None wherever the end is reached."""
    begin, key = 0, events.key(side.stream)
    for message in log_of(settings, side):
        if message.key == key and message.value is not None and events.is_reset(message.value):
            begin = message.offset + 1
    while True:
        for message in log_of(settings, side, begin):
            begin = message.offset + 1
            yield from elements_of(settings, side, message)
        yield None
        if not follow:
            return
        time.sleep(_PAUSE_SECONDS)


def _pass(records: Iterator[Comparison], newest: Comparison) -> None:
    """Take the records up to the newest published one, and check that it is among them.

    Raises
    ------
    StateError, LostInputError
        It is not.
    """
    for one in records:
        if one.rows < newest.rows:
            continue
        differing = [name for name in _SUMS if getattr(one, name) != getattr(newest, name)]
        if one.rows > newest.rows:
            differing = ["rows"]
        if differing:
            raise StateError(
                f"comparison of {newest.stream!r} and {newest.other.stream!r}: expected the numbers of the newest "
                f"record, of {newest.rows:,} rows, got others ({', '.join(differing)}): predictions or labels have "
                f"expired or changed since; {_AGAIN}"
            )
        return
    raise LostInputError(
        f"comparison of {newest.stream!r} and {newest.other.stream!r}: expected {newest.rows:,} rows, as its newest "
        f"record has, found fewer: predictions or labels have expired; {_AGAIN}"
    )
