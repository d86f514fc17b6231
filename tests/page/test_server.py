"""Laws of the server, on records that a test puts in: what it answers, to whom, and with which headers."""

import asyncio
import importlib.resources
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import orjson
import pytest

from pipeline.errors import SettingsError
from pipeline.page import assets
from pipeline.page.access import HEADERS, Access
from pipeline.page.reading import Taken
from pipeline.page.server import PageServer, view_of
from pipeline.page.store import Store
from pipeline.page.viewer import View
from tests.page.records import importance_record
from topics import importance

TOKEN = "a-token-of-the-tests"


class FakeTopics:
    """Hands out what it is given."""

    def __init__(self) -> None:
        self.queue: list[list[Taken]] = []
        self.total = self.left = 0
        self.says: str | None = None

    def read(self) -> list[Taken]:
        return self.queue.pop(0) if self.queue else []

    def trouble(self) -> str | None:
        return self.says


@asynccontextmanager
async def serving(token: str | None = None) -> AsyncIterator[tuple[str, FakeTopics]]:
    topics = FakeTopics()
    server = PageServer(topics, Store(8, 100), Access("127.0.0.1", token), "127.0.0.1", 0)
    address = await server.start()
    end = asyncio.Event()
    task = asyncio.create_task(server.serve(end))
    try:
        yield address, topics
    finally:
        end.set()
        await task
        await server.stop()


def run(talk: Callable[[aiohttp.ClientSession, str, FakeTopics], Awaitable[None]], token: str | None = None) -> None:
    async def session() -> None:
        jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address, not a name
        async with serving(token) as (address, topics), aiohttp.ClientSession(cookie_jar=jar) as client:
            await asyncio.wait_for(talk(client, address, topics), 30)

    asyncio.run(session())


async def event(stream: aiohttp.StreamReader) -> dict[str, object]:
    """The next event of a stream."""
    while not (line := await stream.readline()).startswith(b"data: "):
        assert line
    return orjson.loads(line.removeprefix(b"data: "))


def test_page_and_files_with_the_policy() -> None:
    async def talk(client: aiohttp.ClientSession, address: str, topics: FakeTopics) -> None:
        async with client.get(address) as answer:
            text = await answer.text()
            assert answer.status == 200 and answer.content_type == "text/html"
            assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS)
        for path in re.findall(r'(?:src|href)="(static/[^"]+)"', text):
            async with client.get(address + path) as answer:
                assert answer.status == 200, path
                tag = answer.headers["ETag"]
            async with client.get(address + path, headers={"If-None-Match": tag}) as answer:
                assert answer.status == 304
        for path in ("static/none.js", "static/..%2f..%2fsettings.py", "static/vendor", "else"):
            async with client.get(address + path) as answer:
                assert answer.status == 404 and "Content-Security-Policy" in answer.headers, path
        async with client.get(address, headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403
        async with client.get(address + "healthz") as answer:
            assert answer.status == 200

    run(talk)


def test_events_are_pushed_as_records_come() -> None:
    async def talk(client: aiohttp.ClientSession, address: str, topics: FakeTopics) -> None:
        async with client.get(address + "events?top=2") as answer:
            assert answer.content_type == "text/event-stream" and answer.headers["Cache-Control"] == "no-store"
            first = await event(answer.content)
            assert (first["type"], first["epoch"]) == ("state", None)
            taken = Taken("importance", 5_000, importance.decode(importance_record(9, {"a": 0.5})))
            topics.queue.append([taken, Taken("events.dead", 0, None, "not_json"), Taken("drift", 0, None)])
            second = await event(answer.content)
            assert (second["type"], second["newest"]) == ("state", {"importance": 5_000})
            assert (second["rejected"], second["damaged"]) == ({"not_json": 1}, 1)
            topics.says = "no broker answers: gone"
            assert (await event(answer.content))["trouble"] == "no broker answers: gone"

    run(talk)


def test_a_view_that_cannot_be_is_refused() -> None:
    async def talk(client: aiohttp.ClientSession, address: str, topics: FakeTopics) -> None:
        for top in ("x", "-1", "41", "²"):
            async with client.get(address + "events", params={"top": top}) as answer:
                assert answer.status == 400 and "expected a number from 0 to 40" in await answer.text()

    run(talk)


def test_without_the_token_no_data_and_with_it_a_cookie(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def talk(client: aiohttp.ClientSession, address: str, topics: FakeTopics) -> None:
        async with client.get(address) as answer:
            assert answer.status == 401 and 'name="token"' in await answer.text()
        async with client.get(address + "events") as answer:
            assert answer.status == 401
        async with client.get(f"{address}events?token={TOKEN}") as answer:
            assert answer.status == 401  # addresses are logged by whoever stands between
        async with client.post(address + "login", data={"token": "a-token-of-nobody"}) as answer:
            assert answer.status == 401 and "not the token" in await answer.text() and not answer.cookies
        async with client.get(address + "events", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert answer.status == 200
        async with client.post(address + "login", data={"token": TOKEN}, allow_redirects=False) as answer:
            assert answer.status == 303
            (cookie,) = answer.cookies.values()
            assert cookie["httponly"] and cookie["samesite"] == "Strict" and TOKEN not in cookie.value
        async with client.get(address + "events") as answer:
            assert answer.status == 200

    run(talk, TOKEN)
    assert TOKEN not in caplog.text


def test_a_port_that_is_taken_is_said() -> None:
    async def twice() -> None:
        async with serving() as (address, _):
            port = int(address.rsplit(":", 1)[1].rstrip("/"))
            second = PageServer(FakeTopics(), Store(8, 100), Access("127.0.0.1", None), "127.0.0.1", port)
            with pytest.raises(SettingsError, match=f"page.port: cannot listen on 127.0.0.1:{port}"):
                await second.start()

    asyncio.run(twice())


def test_a_query_is_a_view() -> None:
    from multidict import MultiDict

    query = MultiDict([("stream", "s"), ("pin", "a"), ("pin", "b"), ("top", "3"), ("effect", "a")])
    assert view_of(query) == View(stream="s", top=3, pinned=("a", "b"), effect="a")


def test_nothing_of_the_page_comes_from_elsewhere() -> None:
    """No address of another host in what we wrote; the library's licence lies beside it."""
    for path, asset in assets.load().items():
        if not path.startswith("vendor/") and path != "icon.svg":
            assert b"//" not in re.sub(rb"^\s*//.*$|\s// .*$", b"", asset.body, flags=re.MULTILINE), path
    found = importlib.resources.files("pipeline.page") / "static" / "vendor" / "uplot"
    assert "MIT" in (found / "LICENSE").read_text() and "vendor/uplot/uPlot.esm.js" in assets.load()
