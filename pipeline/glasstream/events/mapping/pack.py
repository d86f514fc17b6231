"""Packs events of one stream into messages of `events`."""

ELEMENTS = 128
"""Largest number of events in a message. The learner processes as many in one call."""
BYTES = 256 * 1024
"""Size of a message at which the next event begins another one."""


class Packer:
    """Packs the events of one stream into messages, in their order.

    Parameters
    ----------
    limit
        Largest size of a message in bytes.
    most
        Largest number of events in a message, up to `ELEMENTS`.

    Examples
    --------
    >>> packer = Packer(30)
    >>> for event in (b'{"x":{"a":1}}', b'{"x":{"a":2}}', b'{"x":{"a":3}}'):
    ...     packer.add(event)
    >>> packer.messages()
    [b'[{"x":{"a":1}},{"x":{"a":2}}]', b'{"x":{"a":3}}']
    """

    def __init__(self, limit: int, most: int = ELEMENTS) -> None:
        self.count = 0
        """Number of events."""
        self._bytes, self._most = min(BYTES, limit), most
        self._full: list[bytes] = []
        self._events: list[bytes] = []
        #: Size of an array with `_events`.
        self._size = 1

    def add(self, event: bytes) -> None:
        """Add an encoded event of at most `limit` bytes."""
        size = len(event) + 1
        if self._events and (len(self._events) == self._most or self._size + size > self._bytes):
            self._full.append(_message(self._events))
            self._events, self._size = [], 1
        self._events.append(event)
        self._size += size
        self.count += 1

    def messages(self) -> list[bytes]:
        """Return the messages with all events that were added."""
        return [*self._full, _message(self._events)] if self._events else self._full


def _message(events: list[bytes]) -> bytes:
    return events[0] if len(events) == 1 else b"[" + b",".join(events) + b"]"
