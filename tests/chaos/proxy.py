"""A TCP proxy between clients and brokers that cuts, delays and half-opens connections when it is told to."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from typing import TypeVar

_CHUNK = 64 * 1024

T = TypeVar("T")


class Proxy:
    """Listens on a port of 127.0.0.1 for each target and hands on what it gets, in a thread of its own.

    Parameters
    ----------
    targets
        Ports of 127.0.0.1.

    Attributes
    ----------
    ports : dict of int to int
        Where it listens, by target.
    """

    def __init__(self, targets: Iterable[int]) -> None:
        self.ports: dict[int, int] = {}
        self._listening: dict[int, socket.socket] = {}
        for target in targets:
            listener = socket.create_server(("127.0.0.1", 0))
            self._listening[target] = listener
            self.ports[target] = listener.getsockname()[1]
        self._delay = 0.0
        self._refusing = False
        self._silent = False
        self._open: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result()

    def cut(self) -> int:
        """Reset every connection and refuse new ones until `heal`; return how many there were."""
        return self._do(self._cut)

    def half_open(self) -> int:
        """Lose the brokers' end of every connection without telling the clients; return how many there were.

        What clients send there goes nowhere, for as long as they keep the connection, also after `heal`: as if the
        machine of the broker, or a firewall, had lost its state. New connections are silent until `heal`.
        """
        return self._do(self._half_open)

    def slow(self, seconds: float) -> None:
        """Hold every piece of data back for so long, in both directions, until `heal`."""

        def slow() -> None:
            self._delay = seconds

        self._do(slow)

    def heal(self) -> None:
        """Serve new connections, and those that are left, as a network should."""

        def heal() -> None:
            self._delay, self._refusing, self._silent = 0.0, False, False

        self._do(heal)

    def close(self) -> None:
        """Reset every connection and end."""
        self._do(self._cut)
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for listener in self._listening.values():
            listener.close()

    def _do(self, action: Callable[[], T]) -> T:
        done: Future[T] = Future()
        self._loop.call_soon_threadsafe(lambda: done.set_result(action()))
        return done.result()

    async def _serve(self) -> None:
        for target, listener in self._listening.items():
            await asyncio.start_server(lambda r, w, target=target: self._connect(r, w, target), sock=listener)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cut(self) -> int:
        self._refusing = True
        count = len(self._open)
        for pair in self._open:
            for writer in pair:
                writer.transport.abort()
        self._open.clear()
        return count

    def _half_open(self) -> int:
        self._silent = True
        count = len(self._open)
        for _, broker in self._open:
            broker.transport.abort()
        self._open.clear()
        return count

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        if self._silent:
            await swallow(reader)
            writer.transport.abort()
            return
        try:
            answers, broker = await asyncio.open_connection("127.0.0.1", target)
        except OSError:  # the broker is away: a client of it would be refused
            writer.transport.abort()
            return
        pair = (writer, broker)
        self._open.add(pair)
        forward = asyncio.create_task(self._forward(reader, writer, broker, target))
        back = asyncio.create_task(self._hand_on(answers, writer))
        await asyncio.wait((forward, back), return_when=asyncio.FIRST_COMPLETED)
        if pair in self._open:  # one end has closed it
            self._open.discard(pair)
        elif not writer.transport.is_closing():  # the broker's end is lost, and the client has not noticed
            forward.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await forward
            await swallow(reader)
        for task in (forward, back):
            task.cancel()
        for end in pair:
            end.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, broker: asyncio.StreamWriter, target: int
    ) -> None:
        """Hand on what a client sends."""
        await self._hand_on(reader, broker)

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                writer.write(data)
                await writer.drain()


async def requests(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, bytes]]:
    """Yield each request of a client, with its kind, until the connection ends."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            size = await reader.readexactly(4)
            request = size + await reader.readexactly(int.from_bytes(size))
            yield int.from_bytes(request[4:6]), request


async def swallow(reader: asyncio.StreamReader) -> None:
    """Read until the client gives up."""
    with contextlib.suppress(OSError):
        while await reader.read(_CHUNK):
            pass
