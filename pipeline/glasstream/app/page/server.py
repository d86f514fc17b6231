"""HTTP server of the page: its files, and new data as server-sent events.

    /                   the page, or a login form if a token is required
    /static/...         the files of the page
    /events?...         server-sent events of one view; see `glasstream.app.page.viewer`
    /login              receives the token from the form
    /healthz, /readyz   health checks

Everything runs on one event loop, except that a thread waits for the broker.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus

from aiohttp import web
from multidict import MultiMapping

from glasstream.app.page.access import COOKIE, HEADERS, Access
from glasstream.app.page.assets import load
from glasstream.app.page.overview import Rows
from glasstream.app.page.reading import StreamBack, Topics, put
from glasstream.app.page.store import Store
from glasstream.app.page.viewer import MOST_FEATURES, Channel, View
from glasstream.base.errors import BrokerError, SettingsError

log = logging.getLogger(__name__)

DEFAULT_PORT = 8642
"""Port that the server tries first if none is configured."""
_TICK_SECONDS = 0.5
"""Time between two messages to a viewer."""
_SILENCE_SECONDS = 10.0
"""Time without messages after which a viewer receives a comment, so that both ends detect a dead connection."""
_STUCK_SECONDS = 30.0
"""Time after which the server disconnects a client that accepts no data."""
_VIEWERS = 100
_DIGITS = 15
"""Largest length of the number of an event in a query."""
_APPLY = 100
"""Number of records to apply before other tasks of the event loop run."""

_FORM, _SAID = "login.html", b"<!-- what is said of a token -->"
"""Login form, and the placeholder in it for the message about a wrong token."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """Read the topics and serve the page.

    Parameters
    ----------
    topics
        Topics to read.
    store
        Store for the records.
    access
        Access rules.
    host
        Host to listen on.
    port
        Port to listen on. If None, the server tries `DEFAULT_PORT` and then any free port.
    tls
        TLS context; None for plain HTTP.
    """

    def __init__(
        self,
        topics: Topics,
        store: Store,
        access: Access,
        host: str,
        port: int | None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._topics = topics
        self._store = store
        self._rows = Rows(store)
        self._back: StreamBack | None = None
        self._access = access
        self._host, self._wanted, self._tls = host, port, tls
        self._assets = load()
        self._ending = asyncio.Event()
        self._viewers = 0
        """Number of open connections of viewers."""
        self._channels: dict[View, Channel] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Start to listen, and return the page's address.

        Raises
        ------
        SettingsError
            The server cannot listen on the host or port.
        """
        app = web.Application(middlewares=[self._guard], client_max_size=4_096)
        app.router.add_get("/", self._page)
        app.router.add_get("/static/{path:.+}", self._static)
        app.router.add_get("/events", self._events)
        app.router.add_post("/login", self._login)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._health)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0, handle_signals=False)
        await self._runner.setup()
        ports = [DEFAULT_PORT, 0] if self._wanted is None else [self._wanted]
        for port in ports:
            try:
                await web.TCPSite(self._runner, self._host, port, ssl_context=self._tls).start()
            except OSError as error:
                if port == ports[-1]:
                    await self._runner.cleanup()
                    raise SettingsError(
                        [f"page.port: cannot listen on {self._host}:{port}: {error.strerror}; set another page.port"]
                    ) from error
            else:
                break
        self._tasks = [asyncio.create_task(self._deal()), asyncio.create_task(self._cut_off())]
        shown = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{shown}:{self._runner.addresses[0][1]}/"

    async def serve(self, until: asyncio.Event) -> None:
        """Read records until the event is set.

        Raises
        ------
        BrokerError
            The broker refuses to be read.
        """
        reading = self._store.reading
        reading.total = self._topics.total
        reading.done = not self._topics.left
        while not until.is_set():
            for task in self._tasks:
                if task.done():
                    task.result()  # raises the exception that ended the task
            taken = await asyncio.to_thread(self._topics.read)
            for start in range(0, len(taken), _APPLY):
                put(taken[start : start + _APPLY], self._store)
                await asyncio.sleep(0)
            if not reading.done:
                left = self._topics.left
                reading.read, reading.done = reading.total - left, not left
            self._store.trouble = None if taken else await asyncio.to_thread(self._topics.trouble)
            await self._read_back()

    async def _read_back(self) -> None:
        """Read further records of a viewed stream that has no history yet."""
        store = self._store
        try:
            if self._back is None:
                name = store.wanted(time.monotonic())
                if name is None:
                    return
                partition = store.summaries[name].partition
                self._back = await asyncio.to_thread(self._topics.back, name, partition, store.most_features)
            if not await asyncio.to_thread(self._back.read):
                return
            store.admit(self._back.history)
        except BrokerError as error:  # tried again as long as the stream is viewed
            store.trouble = str(error)
        if self._back is not None:
            await asyncio.to_thread(self._back.close)
            self._back = None

    async def stop(self) -> None:
        """Close all connections and stop listening."""
        self._ending.set()
        for channel in self._channels.values():
            channel.wake()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._back is not None:
            await asyncio.to_thread(self._back.close)
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject requests for an unknown host, and add the security headers to every answer."""
        if not self._access.knows_host(request.headers.get("Host", "")):
            answer: web.StreamResponse = _text(
                HTTPStatus.FORBIDDEN, "expected to be asked for by a name of this machine, such as localhost"
            )
        else:
            try:
                answer = await handler(request)
            except web.HTTPException as error:
                answer = _text(HTTPStatus(error.status), error.reason)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    def _may(self, request: web.Request) -> bool:
        return self._access.lets_in(request.cookies.get(COOKIE), request.headers.get("Authorization"))

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if self._may(request):
            return self._file(request, "index.html")
        return self._form("")

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return self._file(request, request.match_info["path"])

    def _file(self, request: web.Request, path: str) -> web.Response:
        asset = self._assets.get(path)
        if asset is None:
            return _text(HTTPStatus.NOT_FOUND, "there is no such file")
        headers = {"ETag": asset.tag, "Cache-Control": "no-cache", "Content-Type": asset.kind}
        if request.headers.get("If-None-Match") == asset.tag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return web.Response(body=asset.body, headers=headers)

    async def _login(self, request: web.Request) -> web.StreamResponse:
        given = (await request.post()).get("token", "")
        if not isinstance(given, str) or not self._access.is_token(given.strip()):
            return self._form('<p role="alert">That is not the token.</p>')
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "./"})
        secure = self._tls is not None
        answer.set_cookie(COOKIE, self._access.cookie, httponly=True, samesite="Strict", path="/", secure=secure)
        return answer

    def _form(self, said: str) -> web.Response:
        """Return the login form with a message."""
        asset = self._assets[_FORM]
        body = asset.body.replace(_SAID, said.encode())
        return web.Response(body=body, status=HTTPStatus.UNAUTHORIZED, headers={"Content-Type": asset.kind})

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return _text(HTTPStatus.OK, "ok")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if not self._may(request):
            return _text(HTTPStatus.UNAUTHORIZED, "expected the token, as a bearer or in the form of the page")
        if self._viewers >= _VIEWERS:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, f"expected at most {_VIEWERS} viewers at a time")
        try:
            view = view_of(request.query)
            if view.stream is not None:
                view = replace(view, stream=self._topics.shown(view.stream))
        except ValueError as error:
            return _text(HTTPStatus.BAD_REQUEST, str(error))
        answer = web.StreamResponse(
            headers={**HEADERS, "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store"}
        )
        self._viewers += 1  # before the first await, so that simultaneous requests cannot exceed the limit
        try:
            await answer.prepare(request)
            # These errors mean that the viewer has gone or no longer accepts data.
            with suppress(ConnectionError, TimeoutError):
                await self._follow(view, answer)
        finally:
            if not self._ending.is_set() and request.transport is not None:
                request.transport.abort()  # close() could wait forever for the client to take the remaining data
            self._viewers -= 1
        return answer

    async def _follow(self, view: View, answer: web.StreamResponse) -> None:
        """Send a viewer the data of its view until the viewer or the server ends."""
        channel = self._channels.setdefault(view, Channel(self._rows, view))
        there = asyncio.Event()
        seat = channel.join(there.set, time.monotonic())
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(there.wait(), _SILENCE_SECONDS)
                if self._ending.is_set():
                    return
                there.clear()
                message = seat.queue.popleft() if seat.queue else None
                if seat.queue:
                    there.set()
                data = b": still here\n\n" if message is None else b"data: %b\n\n" % message
                await asyncio.wait_for(answer.write(data), _STUCK_SECONDS)
        finally:
            channel.leave(seat)
            if channel.empty:
                self._channels.pop(view, None)

    async def _deal(self) -> None:
        """Send new data to all viewers, twice a second."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            for channel in list(self._channels.values()):
                channel.turn(time.monotonic())
                await asyncio.sleep(0)

    async def _cut_off(self) -> None:
        """Abort each connection on which data waits and the client accepts none."""
        waiting: dict[asyncio.Transport, tuple[int, float]] = {}
        while True:
            await asyncio.sleep(_STUCK_SECONDS / 10)
            now = time.monotonic()
            server = self._runner.server if self._runner is not None else None
            transports = [one.transport for one in server.connections if one.transport is not None] if server else []
            sizes = {transport: transport.get_write_buffer_size() for transport in transports}
            waiting = {
                transport: waiting[transport] if waiting.get(transport, (0, 0.0))[0] == size else (size, now)
                for transport, size in sizes.items()
                if size
            }
            for transport, (_, since) in waiting.items():
                if now - since >= _STUCK_SECONDS:
                    transport.abort()


def view_of(query: MultiMapping[str]) -> View:
    """Return the view that a query string asks for: `stream`, `method`, `top`, `pin` (repeatable), `effect`, `output`,
    `event`.

    Raises
    ------
    ValueError
        `top` is not a number from 0 to `MOST_FEATURES`, or `event` is not the number of an event.
    """
    top = query.get("top", str(View().top))
    if not (top.isascii() and top.isdigit() and int(top) <= MOST_FEATURES):
        raise ValueError(f"top: expected a number from 0 to {MOST_FEATURES}, got {top!r}")
    event = query.get("event")
    if event is not None and not (event.isascii() and event.isdigit() and len(event) <= _DIGITS):
        raise ValueError(f"event: expected the number of an event, got {event!r}")
    return View(
        stream=query.get("stream"),
        method=query.get("method"),
        top=int(top),
        pinned=tuple(query.getall("pin", []))[:MOST_FEATURES],
        effect=query.get("effect"),
        output=query.get("output"),
        event=None if event is None else int(event),
    )


def _text(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")
