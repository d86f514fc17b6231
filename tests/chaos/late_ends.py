"""A proxy in front of Kafka that delivers requests late: in the next transaction of the producer that sent them."""

import asyncio
import contextlib
import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.proxy import Proxy, requests, swallow

PRODUCE: Final = 0
ADD_PARTITIONS: Final = 24
END_TXN: Final = 26
_HEADER: Final = struct.Struct(">ihhi")
"""Size of the request, its kind, its version, and its number; then come the client's name and the request itself."""
_LENGTH: Final = struct.Struct(">h")
_ANSWER: Final = struct.Struct(">iiih")
"""Answer to the request that ends a transaction: size, number, throttling, error."""


@dataclass
class Late:
    """A request that ends a transaction, which is held back and delivered in the next transaction.

    Attributes
    ----------
    silent : bool
        Whether the client is left without an answer until its patience ends. Otherwise, its connection is reset.
    after : int
        Number of requests with records in the next transaction after which the request is delivered. It is delivered
        before that transaction ends in any case.
    answer : int
        Error code in the broker's answer; 0 if the broker has ended a transaction.
    delivered : threading.Event
    """

    silent: bool
    after: int
    answer: int = -1
    delivered: threading.Event = field(default_factory=threading.Event)
    _frame: bytes = b""
    _name: bytes = b""
    _target: int = 0
    _next: bool = False


class LateEnds(Proxy):
    """Proxy that can hold back the next request that ends a transaction; see `Proxy`."""

    def __init__(self, targets: Iterable[int]) -> None:
        self._late: Late | None = None
        super().__init__(targets)

    def hold(self, *, silent: bool, after: int) -> Late:
        """Hold back the next request that ends a transaction."""
        late = Late(silent, after)

        def hold() -> None:
            self._late = late

        self._do(hold)
        return late

    async def _forward(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, broker: asyncio.StreamWriter, target: int
    ) -> None:
        with contextlib.suppress(OSError):
            async for kind, frame in requests(reader):
                if self._delay:
                    await asyncio.sleep(self._delay)
                late = self._late
                if late is not None and not late._frame and kind == END_TXN:
                    late._frame, late._target, late._name = frame, target, _first_text(frame)
                    if late.silent:
                        await swallow(reader)
                    client.transport.abort()
                    return
                if late is not None and late._frame:
                    await self._deliver_if_due(late, kind, frame)
                broker.write(frame)
                await broker.drain()

    async def _deliver_if_due(self, late: Late, kind: int, frame: bytes) -> None:
        """Deliver the late request before a request of the next transaction, if it is time."""
        if kind == ADD_PARTITIONS and _first_text(frame) == late._name:
            late._next = True
        elif late._next and kind == PRODUCE and late._name in frame[:_LOOK]:
            late.after -= 1
            if late.after < 0:
                await self._deliver(late)
        elif late._next and kind == END_TXN and _first_text(frame) == late._name:
            await self._deliver(late)

    async def _deliver(self, late: Late) -> None:
        self._late = None
        reader, writer = await asyncio.open_connection("127.0.0.1", late._target)
        try:
            writer.write(late._frame)
            answer = await reader.readexactly(_ANSWER.size)
        finally:
            writer.close()
        late.answer = _ANSWER.unpack(answer)[-1]
        late.delivered.set()


_LOOK: Final = 400
"""Number of bytes of a request with records that hold the name of its producer."""


def _first_text(frame: bytes) -> bytes:
    """Return the first field of a request without tagged fields: the name of the producer."""
    at = _HEADER.size
    (client,) = _LENGTH.unpack_from(frame, at)
    at += _LENGTH.size + max(0, client)
    (length,) = _LENGTH.unpack_from(frame, at)
    return frame[at + _LENGTH.size : at + _LENGTH.size + length]
