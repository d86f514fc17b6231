"""Write a mark to `events`, and check whether the stages have passed it."""

import time
from dataclasses import dataclass

from confluent_kafka import KafkaException, Message, Producer

from glasstream.errors import BrokerError, InputError
from glasstream.operate.state import Place, State, Stream
from glasstream.operate.topic_reader import STANDSTILL_SECONDS
from glasstream.settings import Settings
from glasstream.stages.names import topic
from glasstream.transport.connection import connection
from glasstream_topics import events


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


def send_mark(settings: Settings, stream: str, mark: bytes, what: str) -> Mark:
    """Write a mark to the stream's partition, and wait until all replicas have it.

    Parameters
    ----------
    mark
        Value of the message.
    what
        What people call it.

    Raises
    ------
    BrokerError
        The broker refuses the mark, or does not answer.
    """
    name, key = topic(settings, events.TOPIC.name), events.key(stream)
    partition = events.partition(key, settings.topics.events, settings.topics.partitioner)
    answers: list[Mark | str] = []

    def delivered(error: object, message: Message) -> None:
        offset = message.offset()
        answers.append(str(error) if error is not None or offset is None else Mark(name, partition, offset))

    seconds = STANDSTILL_SECONDS
    producer = Producer(connection(settings).producer(delivery_timeout_ms=int(seconds * 1_000), linger_ms=0))
    try:
        producer.produce(name, key=key, value=mark, partition=partition, on_delivery=delivered)
        producer.flush(seconds + 1.0)
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


def pause() -> None:
    """Wait between two looks."""
    time.sleep(0.5)
