"""The plain producer: every record confirmed by all replicas, or an error."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from pipeline.errors import BrokerError
from pipeline.transport.connection import Connection
from pipeline.transport.records import Record

#: Called once with None when all of a batch is acknowledged, or with the first error.
Done = Callable[[BrokerError | None], None]


class _Batch:
    """Counts acknowledgements; the reports arrive in the thread that polls."""

    def __init__(self, size: int, done: Done) -> None:
        self._left = size
        self._done = done
        self._error: BrokerError | None = None

    def report(self, error: KafkaError | None, message: Any) -> None:
        """Take the delivery report of one record."""
        if error is not None and self._error is None:
            self._error = BrokerError(
                f"a record for {message.topic()} was not accepted: {error.str()}; nothing after it is acknowledged"
            )
        self._left -= 1
        if self._left == 0:
            self._done(self._error)


class ConfirmedProducer:
    """An idempotent producer (`acks=all`) that tells when everything of a batch is safe.

    Records keep their order within a partition. A thread of its own polls for the acknowledgements. Usable from any
    thread and from the event loop.

    Parameters
    ----------
    connection : Connection
    linger_ms : float
        How long a record may wait for others to share a request.
    deadline : float
        Seconds after which a record that was not acknowledged is an error.
    """

    def __init__(self, connection: Connection, linger_ms: float = 2.0, deadline: float = 30.0) -> None:
        self._deadline = deadline
        self._producer = Producer(connection.producer(linger_ms=linger_ms, delivery_timeout_ms=int(deadline * 1000)))
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="delivery-reports", daemon=True)
        self._thread.start()

    async def produce_confirmed(self, records: Iterable[Record]) -> None:
        """Write `records` and wait until all of them are acknowledged; BrokerError if one is not."""
        await (await self.begin(records))

    async def begin(self, records: Iterable[Record]) -> "asyncio.Future[None]":
        """Hand `records` over, in order, and return a future that ends when all of them are acknowledged."""
        loop = asyncio.get_running_loop()
        confirmed: asyncio.Future[None] = loop.create_future()

        def settle(error: BrokerError | None) -> None:
            if confirmed.done():
                return
            if error is None:
                confirmed.set_result(None)
            else:
                confirmed.set_exception(error)

        def done(error: BrokerError | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, error)

        batch = list(records)
        if not batch:
            confirmed.set_result(None)
            return confirmed
        counter = _Batch(len(batch), done)
        until = time.monotonic() + self._deadline
        for record in batch:
            while not self._try(record, counter, until):
                await asyncio.sleep(_FULL_PAUSE)
        return confirmed

    def deliver(self, records: Iterable[Record]) -> None:
        """Write `records` and wait until all of them are acknowledged, blocking; BrokerError if one is not."""
        batch = list(records)
        if not batch:
            return
        finished = threading.Event()
        outcome: list[BrokerError] = []

        def done(error: BrokerError | None) -> None:
            if error is not None:
                outcome.append(error)
            finished.set()

        counter = _Batch(len(batch), done)
        until = time.monotonic() + self._deadline
        for record in batch:
            while not self._try(record, counter, until):
                time.sleep(_FULL_PAUSE)
        # librdkafka reports every record within the delivery time-out; the second is for the report to arrive.
        if not finished.wait(self._deadline + 1.0):
            raise BrokerError(f"no word about {len(batch)} records within {self._deadline:g} s")
        if outcome:
            raise outcome[0]

    def close(self, timeout: float = 5.0) -> None:
        """Wait up to `timeout` seconds for what is under way, then end."""
        with contextlib.suppress(KafkaException):
            self._producer.flush(timeout)
        self._closing.set()
        self._thread.join(timeout)
        self._producer.purge()

    def _try(self, record: Record, counter: _Batch, until: float) -> bool:
        try:
            self._producer.produce(
                record.topic,
                value=record.value,
                key=record.key,
                partition=-1 if record.partition is None else record.partition,
                headers=list(record.headers) or None,
                on_delivery=counter.report,
            )
        except BufferError:
            if time.monotonic() >= until:
                raise BrokerError("the queue of the producer stayed full: the broker does not answer") from None
            return False
        except KafkaException as error:
            raise BrokerError(f"a record for {record.topic} cannot be written: {error.args[0].str()}") from error
        return True

    def _poll(self) -> None:
        while not self._closing.is_set():
            # Polling raises what is fatal to the producer, once; the reports of its records say the same.
            with contextlib.suppress(KafkaException):
                self._producer.poll(0.2)


#: Seconds to wait for a full queue to drain before the next attempt.
_FULL_PAUSE = 0.005
