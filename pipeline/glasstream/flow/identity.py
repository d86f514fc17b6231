"""Names of streams and events, by one rule for every reader of `events`."""

from functools import lru_cache

from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream_topics import clients
from glasstream_topics.events import partition as partition_of
from glasstream_topics.events_dead import Reason

_partition_of = lru_cache(maxsize=1_024)(partition_of)
"""It takes longer than the rest of `stream_name`; the keys are no longer than `limits.stream_bytes`."""


def stream_name(message: Message, settings: Settings) -> str | tuple[Reason, str]:
    """Return the stream of a message, or the reason why it belongs to none.

    A stream begins with its first message that contains an event or a label, accepted or not, if the partition has a
    place for it (`glasstream.events.places`).
    """
    key, limits, partitioner = message.key, settings.limits, settings.topics.partitioner
    if not key:
        return Reason.MISSING_STREAM, f"expected the stream's name as the message key, got no key; {clients.NO_KEY}"
    if len(key) > limits.stream_bytes:
        return (
            Reason.BAD_STREAM,
            f"expected a stream name (the message key) of at most {limits.stream_bytes} bytes, got {len(key)}",
        )
    try:
        name = key.decode("utf-8")
    except UnicodeDecodeError:
        return Reason.BAD_STREAM, "expected a stream name (the message key) in UTF-8"
    expected = _partition_of(key, settings.topics.events, partitioner)
    if expected != message.partition:
        return (
            Reason.WRONG_PARTITION,
            f"stream {name!r} belongs on partition {expected} ({partitioner} of its key), but this message is on "
            f"partition {message.partition}; {clients.WRONG_PARTITION[partitioner]}",
        )
    return name


def event_id(given: str | int | None, message: Message, index: int) -> str:
    """Return the event's own id as text, or its position as partition-offset-index."""
    if given is None:
        return f"{message.partition}-{message.offset}-{index}"
    return given if type(given) is str else str(given)
