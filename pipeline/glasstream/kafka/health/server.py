"""HTTP endpoints of a worker: `/healthz`, `/readyz`, and `/metrics` for Prometheus.

Answers come from the worker's event loop, so that any answer proves that the loop turns. The text of the metrics is
written by a thread of the server.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from glasstream.base.errors import SettingsError
from glasstream.kafka.health.catalogue import Sample

log = logging.getLogger(__name__)

ANSWER_SECONDS = 3.0
"""Seconds without an answer after which an event loop counts as unhealthy."""
_CLIENT_SECONDS = 5.0
"""Seconds after which the server drops a slow client."""
_NOTES = 10
"""Largest number of notes in an answer; the others are only counted."""


class Note(NamedTuple):
    """Observation that `/readyz` reports.

    Attributes
    ----------
    text
        One sentence.
    unready
        Whether the worker is not ready because of it.
    """

    text: str
    unready: bool = False


class Worker(Protocol):
    """Source of the answers. The server calls its methods on the worker's event loop only."""

    def trouble(self) -> str | None:
        """Return why the worker cannot continue, or None if it can."""

    def unready(self) -> str | None:
        """Return why the worker is not ready, or None if it is."""

    def notes(self) -> Iterable[Note]:
        """Return what an operator should know, whether the worker is ready or not."""

    def samples(self) -> Iterable[Sample]:
        """Return the current metrics."""


class Answer(NamedTuple):
    """An HTTP answer."""

    status: HTTPStatus
    kind: str
    body: bytes


class HealthServer:
    """HTTP server on a thread of its own.

    Parameters
    ----------
    host, port
        Address to listen on; port 0 is any free port.
    stage, instance
        Names of the stage and the worker, for labels and answers.
    worker
        Source of the answers.
    """

    def __init__(self, host: str, port: int, stage: str, instance: str, worker: Worker) -> None:
        self._host, self._port = host, port
        self._labels = {"stage": stage, "instance": instance}
        self._worker = worker
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: ThreadingHTTPServer | None = None

    async def start(self) -> None:
        """Start listening.

        Raises
        ------
        SettingsError
            The port cannot be opened.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._server = ThreadingHTTPServer((self._host, self._port), _handler(self._answer))
        except OSError as error:
            raise SettingsError(
                [
                    f"health.port: cannot listen on {self._host}:{self._port}: {error.strerror}; set another port, or "
                    "leave it out to use a free one"
                ]
            ) from error
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        log.info("serving health and metrics on http://%s:%d", self._host, self.port)

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()

    @property
    def port(self) -> int:
        """Return the port that the server listens on; 0 before it listens."""
        return self._server.server_address[1] if self._server is not None else 0

    def _answer(self, path: str) -> Answer:
        """Answer a request. Called on a thread of the server."""
        asks: dict[str, Callable[[], Answer | list[Sample]]] = {
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
        }
        ask = asks.get(path.split("?")[0])
        if ask is None:
            return _text(HTTPStatus.NOT_FOUND, "not found; use /healthz, /readyz or /metrics")
        loop = self._loop
        if loop is None or loop.is_closed():
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, "the worker is stopping")
        try:
            found = asyncio.run_coroutine_threadsafe(_on_loop(ask), loop).result(ANSWER_SECONDS)
        except TimeoutError:
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, f"the worker has not answered within {ANSWER_SECONDS:g} s")
        return found if isinstance(found, Answer) else self._text_of(found)

    def _health(self) -> Answer:
        return _verdict(self._labels, self._worker.trouble())

    def _readiness(self) -> Answer:
        notes = [note.text for note in self._worker.notes()]
        return _verdict(self._labels, self._worker.trouble() or self._worker.unready(), notes)

    def _metrics(self) -> list[Sample]:
        return list(self._worker.samples())

    def _text_of(self, samples: list[Sample]) -> Answer:
        """Return the metrics as text. Called on a thread of the server, because it takes longer than collecting."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(self._labels, samples))
        return Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))


class _Collected(Collector):
    """Samples in the form that Prometheus wants: grouped by metric, with labels that identify this worker."""

    def __init__(self, labels: dict[str, str], samples: list[Sample]) -> None:
        self._labels = labels
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for metric, value, labels in self._samples:
            family = families.get(metric.name)
            if family is None:
                make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                family = families[metric.name] = make(metric.name, metric.help, labels=[*self._labels, *metric.labels])
            family.add_metric([*self._labels.values(), *labels], value)
        yield from families.values()


async def _on_loop(ask: Callable[[], Answer | list[Sample]]) -> Answer | list[Sample]:
    return ask()


def _verdict(labels: dict[str, str], reason: str | None, notes: Sequence[str] = ()) -> Answer:
    status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
    body: dict[str, object] = {**labels, "status": "ok" if reason is None else "unavailable", "reason": reason}
    if notes:
        more = [f"and {len(notes) - _NOTES:,} more"] if len(notes) > _NOTES else []
        body["notes"] = [*notes[:_NOTES], *more]
    return Answer(status, "application/json", json.dumps(body).encode() + b"\n")


def _text(status: HTTPStatus, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", text.encode() + b"\n")


def _handler(answer: Callable[[str], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _CLIENT_SECONDS
        server_version = "glasstream"
        sys_version = ""

        def do_GET(self) -> None:
            status, kind, body = answer(self.path)
            with suppress(ConnectionError):  # a probe that timed out
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log no requests: probes come every few seconds."""

    return Handler
