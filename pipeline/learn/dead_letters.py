"""What is written to `events.dead` for one message."""

import base64
from dataclasses import dataclass

import orjson

from pipeline.ingest.message import Rejections
from topics import events_dead
from topics.events_dead import Reason


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A rejected message with its origin and the reasons."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    def as_json(self) -> bytes:
        """One JSON object for people: the headers, and the original (base64 where it is not UTF-8)."""
        record: dict[str, object] = {name: text.decode() for name, text in self.headers}
        for name, original in (("key", self.key), ("value", self.value)):
            try:
                record[name] = None if original is None else original.decode()
            except UnicodeDecodeError:
                record[f"{name}_base64"] = base64.b64encode(original or b"").decode()
        return orjson.dumps(record)


def dead_letter(rejections: Rejections, limit: int) -> DeadLetter:
    """The dead letter of a message.

    Parameters
    ----------
    rejections
        What was found in it.
    limit
        Largest original in bytes that is carried along.
    """
    message = rejections.message
    first = rejections.found[0]
    elements = [(found.index, found.reason) for found in rejections.found if found.index is not None]
    detail = first.detail
    if len(rejections.found) > 1:
        detail = f"element {first.index}: {detail} (and {len(rejections.found) - 1} more)"
    value, omitted = events_dead.value(message.value, limit)
    headers = events_dead.headers(
        epoch=rejections.epoch,
        reason=Reason.REJECTED_ELEMENTS if len(elements) == len(rejections.found) and elements else first.reason,
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        time=message.timestamp or 0,
        detail=detail[:1_000],
        rejected=elements or None,
        omitted_bytes=omitted,
    )
    return DeadLetter(message.partition, message.key, value, tuple(headers))
