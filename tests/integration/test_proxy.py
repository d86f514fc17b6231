"""The proxy of the soak does to connections what it says; without a broker."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.chaos.proxy import Proxy

PATIENCE = 20.0


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1024):
                connection.sendall(data)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # the test is over
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    proxy = Proxy([echo])
    yield proxy
    proxy.close()


def connect(proxy: Proxy) -> socket.socket:
    (port,) = proxy.ports.values()
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def answers(connection: socket.socket, text: bytes) -> bool:
    connection.sendall(text)
    return connection.recv(1024) == text


def ends(connection: socket.socket) -> bool:
    """Whether the other side ends the connection, in order or by a reset."""
    try:
        return connection.recv(1024) == b""
    except ConnectionResetError:
        return True


def test_a_cut_resets_connections_and_refuses_new_ones_until_it_is_healed(proxy: Proxy) -> None:
    with connect(proxy) as old:
        assert answers(old, b"before")
        assert proxy.cut() == 1
        assert ends(old)
    with connect(proxy) as refused:
        assert ends(refused)
    proxy.heal()
    with connect(proxy) as new:
        assert answers(new, b"after")


def test_a_half_open_connection_stays_silent_after_the_network_is_healed(proxy: Proxy) -> None:
    with connect(proxy) as old:
        assert answers(old, b"before")
        assert proxy.half_open() == 1
        proxy.heal()
        old.sendall(b"into the void")
        with connect(proxy) as new:
            assert answers(new, b"after")
            old.setblocking(False)
            with pytest.raises(BlockingIOError):
                old.recv(1024)


def test_a_slow_network_loses_nothing(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        proxy.slow(0.01)
        assert all(answers(connection, b"%d" % number) for number in range(3))
