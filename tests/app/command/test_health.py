"""`glasstream health` against a server that answers as a worker does."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner, Result

from glasstream.app.brokers.local.node import free_ports
from glasstream.app.command.cli import cli


@pytest.fixture
def answering() -> Iterator[Callable[[int, bytes], int]]:
    """`answering(status, body)`: the port of a server that says so on /readyz and 404 elsewhere."""
    with ExitStack() as stack:

        def start(status: int, body: bytes) -> int:
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response(status if self.path == "/readyz" else 404)
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *arguments: object) -> None:
                    return None

            server = stack.enter_context(HTTPServer(("127.0.0.1", 0), Handler))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return server.server_port

        yield start


def ask(port: int, **variables: str) -> tuple[int, str, str]:
    """Return the exit code, the output and the error output of the command."""
    result: Result = CliRunner().invoke(cli, ["health", "--port", str(port)], env=variables, standalone_mode=False)
    return result.return_value, result.stdout, result.stderr


def test_a_ready_worker_is_0(answering: Callable[[int, bytes], int]) -> None:
    assert ask(answering(200, b"ready\n")) == (0, "ready\n", "")


def test_a_worker_that_is_not_ready_is_1_and_says_why(answering: Callable[[int, bytes], int]) -> None:
    port = answering(503, b"not ready: reading progress")
    assert ask(port) == (1, "", f"http://127.0.0.1:{port}/readyz: 503 not ready: reading progress\n")


def test_no_worker_is_1() -> None:
    port, _ = free_ports()
    code, said, complained = ask(port)
    assert (code, said) == (1, "")
    assert complained.startswith(f"http://127.0.0.1:{port}/readyz: no answer: ")


def test_a_proxy_is_not_asked(answering: Callable[[int, bytes], int]) -> None:
    assert ask(answering(200, b"ready"), http_proxy="http://127.0.0.1:1")[0] == 0


def test_the_environment_names_the_port(answering: Callable[[int, bytes], int]) -> None:
    port = answering(200, b"ready")
    result = CliRunner().invoke(cli, ["health"], env={"GLASSTREAM_HEALTH_PORT": str(port)}, standalone_mode=False)
    assert result.return_value == 0
