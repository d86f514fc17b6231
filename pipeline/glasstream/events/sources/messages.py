"""Events packed into messages of the `events` topic."""

from collections.abc import Generator, Iterable
from itertools import islice

from glasstream.base.errors import InputError
from glasstream.events.sources.source import Event
from glasstream_topics import events


def pack(source: Iterable[Event], rows_per_message: int, limit: int) -> Generator[tuple[bytes, int]]:
    """Yield message values with the number of events in each, not counting labels.

    Parameters
    ----------
    source
        Events and labels in order.
    rows_per_message
        Number of events and labels per message: 1 gives single objects, more gives arrays.
    limit
        Largest message in bytes.

    Raises
    ------
    InputError
        A message would be larger than the limit.
    """
    rest = iter(source)
    number = 0
    while batch := list(islice(rest, rows_per_message)):
        value = events.encode(batch[0] if rows_per_message == 1 else batch)
        count = sum("x" in event for event in batch)
        if len(value) > limit:
            raise InputError(
                f"events {number} to {number + count - 1}: expected a message of at most {limit:,} bytes, "
                f"got {len(value):,}; lower --rows-per-message"
            )
        number += count
        yield value, count
