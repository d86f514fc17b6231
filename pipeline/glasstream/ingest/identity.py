"""Names of streams and events, by one rule for every reader of `events`."""

from collections.abc import Collection
from typing import Protocol

from glasstream.ingest.message import Message
from glasstream_topics.events import partition as partition_of
from glasstream_topics.events_dead import Reason


class StreamRules(Protocol):
    """Settings that assign a message to a stream; see `glasstream.settings`."""

    @property
    def streams(self) -> int:
        """Return the largest number of streams of one partition."""

    @property
    def stream_bytes(self) -> int:
        """Return the length of the longest allowed name in bytes."""

    @property
    def partitioner(self) -> str:
        """Return the name of the partitioner that assigns keys to partitions."""

    @property
    def event_partitions(self) -> int:
        """Return the number of partitions of `events`; 0 disables the check of a message's partition."""


def stream_name(message: Message, rules: StreamRules, known: Collection[str]) -> str | tuple[Reason, str]:
    """Return the stream of a message, or the reason why it belongs to none.

    Parameters
    ----------
    known
        Streams of the partition that have begun. A stream begins with its first message that contains an event or a
        label, accepted or not.
    """
    key = message.key
    if not key:
        return Reason.MISSING_STREAM, "expected the stream's name as the message key, got no key"
    if len(key) > rules.stream_bytes:
        return (
            Reason.BAD_STREAM,
            f"expected a stream name (the message key) of at most {rules.stream_bytes} bytes, got {len(key)}",
        )
    try:
        name = key.decode("utf-8")
    except UnicodeDecodeError:
        return Reason.BAD_STREAM, "expected a stream name (the message key) in UTF-8"
    if rules.event_partitions:
        expected = partition_of(key, rules.event_partitions, rules.partitioner)
        if expected != message.partition:
            return (
                Reason.WRONG_PARTITION,
                f"stream {name!r} belongs on partition {expected} ({rules.partitioner} of its key), but this message "
                f"is on partition {message.partition}; set partitioner=murmur2_random in a librdkafka producer (its "
                "default is CRC32), or set topics.partitioner=crc32 in Glasstream if all producers use CRC32",
            )
    if name not in known and len(known) >= rules.streams:
        return (
            Reason.TOO_MANY_STREAMS,
            f"expected at most {rules.streams} streams on a partition (limits.streams), got {name!r} "
            "beyond them; allow more, or spread them over more partitions",
        )
    return name


def event_id(given: str | int | None, message: Message, index: int) -> str:
    """Return the event's own id as text, or its position as partition-offset-index."""
    if given is None:
        return f"{message.partition}-{message.offset}-{index}"
    return given if type(given) is str else str(given)
