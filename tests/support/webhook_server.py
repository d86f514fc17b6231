"""A webhook that answers as a test says: it fails, stalls, cuts connections, and is restarted."""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import orjson
from aiohttp import web

Act = int | str | tuple[int, dict[str, str]]
"""What the webhook does with a request: answers with a status (and headers), or `stall`, `cut`, `cut late`, `trickle`.

`cut late` accepts the request and cuts the connection before the answer; `trickle` answers 400 and never ends.
"""


@dataclass(slots=True)
class Request:
    """One request: its body, its headers, and whether it was accepted."""

    body: bytes
    headers: dict[str, str]
    accepted: bool

    @property
    def id(self) -> str:
        return self.headers["Idempotency-Key"]


@dataclass
class Receiver:
    """A real HTTP server on this machine.

    Attributes
    ----------
    acts
        What it does with the next requests; when none is left, it accepts.
    requests
        All that it has received.
    on_request
        Function that is called for each request, before it is answered.
    """

    acts: list[Act] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    on_request: Callable[[], None] = lambda: None
    tls: ssl.SSLContext | None = None
    port: int = 0
    _runner: web.AppRunner | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/hook/a-secret-path?token=s3cr3t"

    @property
    def accepted(self) -> list[str]:
        """Ids of the accepted requests, in order, each once."""
        return list(dict.fromkeys(request.id for request in self.requests if request.accepted))

    def then(self, *acts: Act) -> "Receiver":
        self.acts += acts
        return self

    async def start(self) -> None:
        """Listen, on the same port as before if it was stopped."""
        app = web.Application()
        app.router.add_post("/hook/a-secret-path", self._receive)
        app.router.add_route("*", "/elsewhere", self._elsewhere)
        self._over = asyncio.Event()
        self._runner = web.AppRunner(app, shutdown_timeout=0.0, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self.tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close every connection, and listen no more."""
        self._over.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> "Receiver":
        await self.start()
        return self

    async def __aexit__(self, *args: object) -> None:
        await self.stop()

    async def _elsewhere(self, request: web.Request) -> web.StreamResponse:
        raise AssertionError("a redirect was followed")

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        act = self.acts.pop(0) if self.acts else 200
        content = await request.read()
        status, headers = act if isinstance(act, tuple) else (act, {})
        accepted = act == "cut late" or (isinstance(status, int) and 200 <= status < 300)
        self.requests.append(Request(content, dict(request.headers), accepted))
        self.on_request()
        if act == "stall":
            await self._over.wait()
        if isinstance(status, int):
            return web.Response(status=status, headers=headers, text=f"the answer is {status}\r\nof many lines")
        if act == "trickle":
            response = web.StreamResponse(status=400)
            await response.prepare(request)
            with suppress(ConnectionError):
                while not self._over.is_set():
                    await response.write(b"no " * 1_000)
            return response
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


def bodies(requests: Iterable[Request]) -> list[str]:
    """Return the ids in the bodies."""
    return [orjson.loads(request.body)["id"] for request in requests]
