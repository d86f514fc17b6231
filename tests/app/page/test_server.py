"""Laws of the server, on records that a test puts in: what it answers, to whom, and with which headers."""

import asyncio
import importlib.resources
import logging
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import orjson
import pytest
import trustme
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from glasstream.app.command.cli import cli
from glasstream.app.page import assets, viewer
from glasstream.app.page import server as page_server
from glasstream.app.page.access import HEADERS, Access
from glasstream.app.page.reading import Taken
from glasstream.app.page.server import PageServer, view_of
from glasstream.app.page.store import Store
from glasstream.app.page.tls import tls
from glasstream.app.page.viewer import View, Viewer
from glasstream.base.errors import SettingsError
from glasstream_topics import importance
from tests.support.page_records import importance_record
from tests.support.waiting import until

TOKEN = "a-token-of-the-tests"


class FakeTopics:
    """Hands out what it is given."""

    def __init__(self) -> None:
        self.queue: list[list[Taken]] = []
        self.total = self.left = 0
        self.says: str | None = None
        self.server: PageServer | None = None

    def read(self) -> list[Taken]:
        return self.queue.pop(0) if self.queue else []

    def trouble(self) -> str | None:
        return self.says

    def shown(self, stream: str) -> str:
        return stream


@asynccontextmanager
async def serving(
    token: str | None = None, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[str, FakeTopics]]:
    topics = FakeTopics()
    server = topics.server = PageServer(
        topics, Store(8, 100, 1_000), Access("127.0.0.1", token), "127.0.0.1", 0, context
    )
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


async def silent(address: str, request: str, count: int = 1) -> socket.socket:
    """A client that asks, a number of times at once, and never reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setblocking(False)
    host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
    await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
    text = f"GET /{request} HTTP/1.1\r\nHost: {host}\r\n\r\n"
    await asyncio.get_running_loop().sock_sendall(client, text.encode() * count)
    return client


def connections(topics: FakeTopics) -> int:
    return len(topics.server._runner.server.connections)  # type: ignore[union-attr]


def test_viewers_that_never_read_are_cut_off_and_the_bound_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count until their connections are closed, with all that waits for them."""
    monkeypatch.setattr(page_server, "_VIEWERS", 5)
    monkeypatch.setattr(page_server, "_TICK_SECONDS", 0.02)
    monkeypatch.setattr(page_server, "_STUCK_SECONDS", 1.0)
    monkeypatch.setattr(Viewer, "message", lambda self, now: bytes(2**20))  # more than sockets take at once
    monkeypatch.setattr(Viewer, "whole", lambda self: bytes(2**20))

    async def talk(client: aiohttp.ClientSession, address: str, topics: FakeTopics) -> None:
        clients = [await silent(address, f"events?top={top}") for top in range(8)]
        await until(lambda: topics.server._viewers == 5)  # type: ignore[union-attr]
        async with client.get(address + "events") as answer:
            assert answer.status == 503 and "at most 5 viewers" in await answer.text()
        # three of the eight were refused, and are still connected: they were told to be, and may ask again
        await until(lambda: connections(topics) <= 3 + 1)
        assert topics.server._viewers == 0  # type: ignore[union-attr]
        assert not topics.server._channels  # type: ignore[union-attr]
        async with client.get(address + "events") as answer:
            assert answer.status == 200
        for one in clients:
            one.close()

    run(talk)


def test_who_asks_for_files_and_never_reads_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "_STUCK_SECONDS", 0.5)

    async def talk(client: aiohttp.ClientSession, address: str, topics: FakeTopics) -> None:
        waiting = await silent(address, "static/vendor/uplot/uPlot.esm.js", 400)
        await until(lambda: connections(topics) == 1)
        await until(lambda: connections(topics) == 0)
        waiting.close()

    run(talk)


def test_viewers_of_one_view_cause_one_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are; each gets what one alone gets."""
    built: list[int] = []
    part = viewer.importance_part
    monkeypatch.setattr(viewer, "importance_part", lambda *given: built.append(1) or part(*given))

    async def talk(client: aiohttp.ClientSession, address: str, topics: FakeTopics) -> None:
        def put(row: int) -> None:
            record = importance.decode(importance_record(row, {f"f{at}": 0.1 * at for at in range(20)}))
            topics.queue.append([Taken("importance", row, record)])

        answers = [await client.get(address + "events?stream=s") for _ in range(20)]
        for answer in answers:
            await event(answer.content)  # nothing is known yet, the newest
        for row in (9, 19, 29):
            before = len(built)
            put(row)
            messages = [await event(answer.content) for answer in answers]
            assert messages.count(messages[0]) == 20 and messages[0]["importance"]["row"] == [row]
            assert len(built) - before == 1
        async with client.get(address + "events?stream=s") as late:
            state = await event(late.content)
            assert state["type"] == "state" and state["importance"]["row"] == [9, 19, 29]
        for answer in answers:
            answer.close()

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
            assert "not the token" not in await answer.text()
        async with client.get(address + "events") as answer:
            assert answer.status == 401
        async with client.get(f"{address}events?token={TOKEN}") as answer:
            assert answer.status == 401  # addresses are logged by whoever stands between
        async with client.post(address + "login", data={"token": "a-token-of-nobody"}) as answer:
            assert answer.status == 401 and "not the token" in await answer.text() and not answer.cookies
            assert 'name="token"' in await answer.text() and answer.content_type == "text/html"
        async with client.get(address + "events", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert answer.status == 200
        async with client.post(address + "login", data={"token": TOKEN}, allow_redirects=False) as answer:
            assert answer.status == 303
            (cookie,) = answer.cookies.values()
            assert cookie["httponly"] and cookie["samesite"] == "Strict" and TOKEN not in cookie.value
            assert not cookie["secure"], "a browser would keep it from a page without TLS"
        async with client.get(address + "events") as answer:
            assert answer.status == 200

    run(talk, TOKEN)
    assert TOKEN not in caplog.text


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[trustme.CA, Path, Path]:
    """An authority, and files of a certificate for 127.0.0.1 and of its key."""
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
    made.private_key_pem.write_to_path(str(key))
    return authority, chain, key


def test_with_a_certificate_it_speaks_tls_and_nothing_else(certificate: tuple[trustme.CA, Path, Path]) -> None:
    authority, chain, key = certificate
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def talk() -> None:
        async with serving(TOKEN, tls(str(chain), str(key))) as (address, _), aiohttp.ClientSession() as client:
            assert address.startswith("https://127.0.0.1:")
            data = {"token": TOKEN}
            async with client.post(address + "login", data=data, ssl=trusting, allow_redirects=False) as answer:
                (cookie,) = answer.cookies.values()
                assert answer.status == 303 and cookie["secure"]
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await client.get(address)
            with pytest.raises(aiohttp.ClientError):
                await client.get(address.replace("https", "http"))
            port = address.rsplit(":", 1)[1].rstrip("/")
            ask = ["health", "--port", port, "--tls"]
            asked = await asyncio.to_thread(CliRunner().invoke, cli, ask, standalone_mode=False)
            assert (asked.return_value, asked.stdout) == (0, "ok\n")

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_files_that_make_no_tls_are_refused(certificate: tuple[trustme.CA, Path, Path], tmp_path: Path) -> None:
    _, chain, key = certificate
    assert tls(None, None) is None
    whole = tmp_path / "whole.pem"
    whole.write_bytes(key.read_bytes() + chain.read_bytes())
    assert tls(str(whole), None) is not None
    with pytest.raises(SettingsError, match=r"page.tls_key: expected page.tls_cert as well"):
        tls(None, str(key))
    for cert, its in ((chain, None), (key, key), (tmp_path / "none.pem", key), (chain, tmp_path / "none.pem")):
        with pytest.raises(SettingsError, match=r"page.tls_cert: expected PEM files of a certificate and its key, got"):
            tls(str(cert), its and str(its))
    trustme.CA().issue_cert("127.0.0.1").private_key_pem.write_to_path(str(other := tmp_path / "other.pem"))
    with pytest.raises(SettingsError, match=f"{chain} and {other}: .*MISMATCH"):
        tls(str(chain), str(other))
    private = load_pem_private_key(key.read_bytes(), None)
    locked = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a password"))
    (tmp_path / "locked.pem").write_bytes(locked)
    with pytest.raises(SettingsError, match="expected a key without a password"):
        tls(str(chain), str(tmp_path / "locked.pem"))


def test_a_port_that_is_taken_is_said() -> None:
    async def twice() -> None:
        async with serving() as (address, _):
            port = int(address.rsplit(":", 1)[1].rstrip("/"))
            second = PageServer(FakeTopics(), Store(8, 100, 1_000), Access("127.0.0.1", None), "127.0.0.1", port)
            with pytest.raises(SettingsError, match=f"page.port: cannot listen on 127.0.0.1:{port}"):
                await second.start()

    asyncio.run(twice())


def test_a_query_is_a_view() -> None:
    from multidict import MultiDict

    query = MultiDict([("stream", "s"), ("pin", "a"), ("pin", "b"), ("top", "3"), ("effect", "a")])
    assert view_of(query) == View(stream="s", top=3, pinned=("a", "b"), effect="a")
    assert view_of(MultiDict(event="7")).event == 7
    for wrong in ("-1", "1e3", "9" * 16, ""):
        with pytest.raises(ValueError, match="event: expected the number of an event"):
            view_of(MultiDict(event=wrong))


def test_nothing_of_the_page_comes_from_elsewhere() -> None:
    """No address of another host in what we wrote; the library's licence lies beside it."""
    for path, asset in assets.load().items():
        if not path.startswith("vendor/") and path != "icon.svg":
            assert b"//" not in re.sub(rb"^\s*//.*$|\s// .*$", b"", asset.body, flags=re.MULTILINE), path
    found = importlib.resources.files("glasstream.app.page") / "static" / "vendor" / "uplot"
    assert "MIT" in (found / "LICENSE").read_text() and "vendor/uplot/uPlot.esm.js" in assets.load()
