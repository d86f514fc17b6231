"""Write a mark to `events`, and wait until the stages have passed it."""

import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException, Message, Producer

from glasstream.app.operate.state import Place, State, Stream, state
from glasstream.app.operate.topic_reader import STANDSTILL_SECONDS
from glasstream.base.errors import BrokerError, InputError, StalledError
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection, drain
from glasstream_topics import events

LONG_SECONDS: Final = 10.0
"""Seconds after which the likely cause of a wait is printed."""
STILL_SECONDS: Final = 240.0
"""Seconds without progress of the stages after which a command gives up. Compiling takes less."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Position of a mark."""

    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> str:
        """Return the position as `topic[partition]@offset`."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


def known(found: State, stream: str) -> tuple[Stream, int]:
    """Return what the stages know of a stream, and how many messages the learner is behind on its partition.

    Raises
    ------
    InputError
        The learner has not seen the stream.
    """
    left = {place.partition: place.behind for place in found.partitions if place.stage == "learner"}
    for one in found.streams:
        if one.stream == stream:
            return one, sum(behind for partition, behind in left.items() if partition == one.partition)
    there = ", ".join(repr(one.stream) for one in found.streams) or "no stream"
    waiting = f"; it is {sum(left.values()):,} messages behind" if any(left.values()) else ""
    raise InputError(f"the learner has not seen a stream {stream!r}; it has seen {there}{waiting}")


def send_mark(settings: Settings, stream: str, mark: bytes, what: str, partition: int | None = None) -> Mark:
    """Write a mark to the stream's partition, and wait until all replicas have it.

    Parameters
    ----------
    mark
        Value of the message.
    what
        What people call it.
    partition
        Partition on which the stages have the stream; None for that of its key.

    Raises
    ------
    BrokerError
        The broker refuses the mark, or does not answer.
    """
    name, key = topic(settings, events.TOPIC.name), events.key(stream)
    if partition is None:
        partition = events.partition(key, settings.topics.events, settings.topics.partitioner)
    answers: list[Mark | str] = []

    def delivered(error: object, message: Message) -> None:
        offset = message.offset()
        answers.append(str(error) if error is not None or offset is None else Mark(name, partition, offset))

    seconds = STANDSTILL_SECONDS
    producer = Producer(connection(settings).producer(delivery_timeout_ms=int(seconds * 1_000), linger_ms=0))
    try:
        producer.produce(name, key=key, value=mark, partition=partition, on_delivery=delivered)
        drain(producer, seconds + 1.0)
    except KafkaException as error:
        raise BrokerError(f"{name}: {what} was not written: {error.args[0].str()}") from error
    answer = answers[0] if answers else f"no acknowledgement within {seconds:g} s, but the mark may have been written"
    if isinstance(answer, str):
        raise BrokerError(f"{name}: {what} was not written: {answer}")
    return answer


def before(mark: Mark, found: State) -> list[str]:
    """Return the stages that have not passed the mark, among those that have started on its partition.

    The learner passes the mark after the aggregator, so the aggregator need not be checked.
    """
    return [place.stage for place in found.partitions if _is_before(mark, place)]


def _is_before(mark: Mark, place: Place) -> bool:
    if (place.topic, place.partition) != (mark.topic, mark.partition):
        return False
    return place.offset is None or place.offset <= mark.offset


def wait_until_passed(
    mark: Mark,
    settings: Settings,
    say: Callable[[str], None],
    stages: Container[str] = ("learner", "aggregator", "novelty"),
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until stages have passed a mark, and say which have not.

    Raises
    ------
    StalledError
        None of them has moved for `STILL_SECONDS`. They still use the mark when they come to it.
    """
    told: list[str] = []
    place, begun = None, clock()
    moved, warned = begun, False
    while True:
        found = state(settings)
        left = [stage for stage in before(mark, found) if stage in stages]
        if not left:
            return
        if left != told:
            say(f"still before the mark: {', '.join(left)}")
            told = left
        now, at = clock(), [(one.stage, one.offset) for one in found.partitions if one.partition == mark.partition]
        if at != place:
            place, moved = at, now
        elif now - moved >= STILL_SECONDS:
            raise StalledError(
                f"{', '.join(left)}: no progress for {STILL_SECONDS:g} s before the mark {mark.place}; `glasstream "
                "doctor` shows whether a stage has no worker. The mark has been written, and takes effect when they "
                "reach it; do not write it again"
            )
        if not warned and now - begun >= LONG_SECONDS:
            warned = True
            say(
                "the learner continues when the explainers and the aggregator have processed everything before the "
                "mark; `glasstream doctor` shows whether a stage has no worker"
            )
        pause()


def pause() -> None:
    """Wait between two looks."""
    time.sleep(0.5)
