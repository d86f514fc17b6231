"""The plain producer: all replicas confirm every record, or it raises an error."""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from glasstream.base.errors import BrokerError, UnavailableError
from glasstream.kafka.transport.connection import POLL_SECONDS, Connection, drain
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.records import ProducerRecord

log = logging.getLogger(__name__)

#: Errors after which librdkafka writes nothing more with an idempotent producer. The log of a partition was truncated
#: (an unclean election), or the topic was created again, so that the broker does not know the newest records.
_ENDS_CLIENT = frozenset(
    {
        KafkaError._FATAL, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT,
    }
)  # fmt: skip

#: Callback that receives None when a whole batch is acknowledged, or the first error.
Done = Callable[[BrokerError | None], None]


class _ClientEndedError(BrokerError):
    """The client of a producer writes nothing more. Another client may write the records."""


class _Batch:
    """Counter of acknowledgements. The reports arrive in the thread that polls."""

    def __init__(self, size: int, done: Done) -> None:
        self._left = size
        self._done = done
        self._error: BrokerError | None = None

    def report(self, error: KafkaError | None, message: Any) -> None:
        """Process the delivery report of one record."""
        if error is not None and self._error is None:
            kind = _ClientEndedError if error.code() in _ENDS_CLIENT else BrokerError
            self._error = kind(
                f"a record for {message.topic()} was not accepted: {error.str()}; nothing after it is acknowledged"
            )
        self._left -= 1
        if self._left == 0:
            self._done(self._error)


class ConfirmedProducer:
    """Idempotent producer (`acks=all`) that reports when a whole batch is safe.

    Records keep their order within a partition. A thread of its own polls for the acknowledgements. Any thread and the
    event loop may use it.

    With patience, a producer outlives its client: when librdkafka ends the client because the broker has lost records,
    the producer opens another client and writes unacknowledged batches again. Some of their records are then written
    twice, perhaps after later ones.

    Parameters
    ----------
    connection : Connection
    linger_ms : float
        Milliseconds for which a record may wait for others to share a request.
    deadline : float
        Seconds after which a record that was not acknowledged is an error.
    patience : Patience, optional
        If given, wait for a record without limit while brokers are down or too few, and report the wait here.
    """

    def __init__(
        self,
        connection: Connection,
        linger_ms: float = 2.0,
        deadline: float = 30.0,
        patience: Patience | None = None,
    ) -> None:
        self._deadline = math.inf if patience is not None else deadline
        self._patience = patience
        self._under_way = 0
        self._counting = threading.Lock()
        limit = 0 if patience is not None else int(deadline * 1000)  # no limit
        self._settings = connection.producer(linger_ms=linger_ms, delivery_timeout_ms=limit)
        if patience is not None:
            self._settings["error_cb"] = lambda error: patience.note(error.str())
        self._producer = Producer(self._settings)
        #: Held while a record is handed to the client, and while the client is replaced.
        self._handing = threading.Lock()
        #: Whether the client writes nothing more.
        self._ended = False
        self._again: set[asyncio.Task[None]] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="delivery-reports", daemon=True)
        self._thread.start()

    @property
    def waits_for(self) -> str | None:
        """Return why records are not acknowledged, if that has lasted; None while they are."""
        return None if self._patience is None else self._patience.reason

    async def produce_confirmed(self, records: Iterable[ProducerRecord]) -> None:
        """Write `records` and wait until all are acknowledged. Raise BrokerError if one is not."""
        await (await self.begin(records))

    async def begin(self, records: Iterable[ProducerRecord]) -> "asyncio.Future[None]":
        """Send `records` in order, and return a future that completes when all of them are acknowledged."""
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch = list(records)
        if not batch:
            confirmed.set_result(None)
            return confirmed
        with self._begun(batch):
            await self._send(batch, confirmed)
        return confirmed

    async def _send(self, batch: Sequence[ProducerRecord], confirmed: "asyncio.Future[None]") -> None:
        """Hand a batch that is under way to the client."""
        loop = asyncio.get_running_loop()

        def settle(error: BrokerError | None) -> None:
            if error is not None and self._goes_on(error) and not confirmed.cancelled():
                task = loop.create_task(self._send_again(batch, confirmed))
                self._again.add(task)
                task.add_done_callback(self._again.discard)
                return
            self._settled()
            if confirmed.done():
                return
            if error is None:
                confirmed.set_result(None)
            else:
                confirmed.set_exception(error)

        def done(error: BrokerError | None) -> None:
            if loop.is_closed():
                self._settled()
            else:
                loop.call_soon_threadsafe(settle, error)

        counter = _Batch(len(batch), done)
        until = time.monotonic() + self._deadline
        for record in batch:
            while not self._try(record, counter, until):
                await asyncio.sleep(_FULL_PAUSE)

    async def _send_again(self, batch: Sequence[ProducerRecord], confirmed: "asyncio.Future[None]") -> None:
        await asyncio.sleep(_AGAIN_PAUSE)
        try:
            await self._send(batch, confirmed)
        except BrokerError as error:
            self._settled()
            if not confirmed.done():
                confirmed.set_exception(error)

    def deliver(self, records: Iterable[ProducerRecord], patience: Patience | None = None) -> None:
        """Write `records` and wait until all of them are acknowledged, blocking.

        Parameters
        ----------
        records : iterable of ProducerRecord
        patience : Patience, optional
            Patience of the caller. When it is given up, this method raises UnavailableError.

        Raises
        ------
        BrokerError
            A record was not accepted, or not within the deadline.
        """
        batch = list(records)
        if not batch:
            return
        with self._begun(batch):
            while True:
                error = self._deliver(batch, patience)
                if error is None:
                    break
                if not self._goes_on(error):
                    raise error
                _expect_patience(patience)
                time.sleep(_AGAIN_PAUSE)
        self._settled()

    def _deliver(self, batch: Sequence[ProducerRecord], patience: Patience | None) -> BrokerError | None:
        """Hand a batch to the client, and return the first error when all its records are reported."""
        finished = threading.Event()
        outcome: list[BrokerError | None] = []

        def done(error: BrokerError | None) -> None:
            outcome.append(error)
            finished.set()

        counter = _Batch(len(batch), done)
        until = time.monotonic() + self._deadline
        for record in batch:
            while not self._try(record, counter, until):
                _expect_patience(patience)
                time.sleep(_FULL_PAUSE)
        # librdkafka reports every record within the delivery time-out. The extra second lets the report arrive.
        while not finished.wait(min(_LOOK, self._deadline)):
            _expect_patience(patience)
            if time.monotonic() > until + 1.0:
                raise BrokerError(f"no acknowledgement of {len(batch)} records within {self._deadline:g} s")
        return outcome[0]

    def _goes_on(self, error: BrokerError) -> bool:
        """Return whether another client writes the records that this error prevented."""
        return isinstance(error, _ClientEndedError) and self._patience is not None and not self._closing.is_set()

    @contextlib.contextmanager
    def _begun(self, batch: Sequence[ProducerRecord]) -> Iterator[None]:
        """Count a batch as under way from the moment it is handed over until its records are reported."""
        with self._counting:
            self._under_way += 1
            if self._patience is not None:
                self._patience.what = f"cannot write to {', '.join(sorted({record.topic for record in batch}))}"
                self._patience.begin(_UNSAID)
        try:
            yield
        except BaseException:  # refused, or given up by a released lane
            self._settled()
            raise

    def _settled(self) -> None:
        """Record that a batch has ended. The wait now counts for the other batches."""
        with self._counting:
            self._under_way -= 1
            if self._patience is not None:
                self._patience.done()
                if self._under_way:
                    self._patience.begin(_UNSAID)

    def close(self, timeout: float = 5.0) -> None:
        """Wait up to `timeout` seconds for batches under way, then close."""
        drain(self._producer, timeout)
        self._closing.set()
        self._thread.join(timeout)
        self._producer.purge()

    def _try(self, record: ProducerRecord, counter: _Batch, until: float) -> bool:
        """Hand a record to the client. Return False if its queue is full, or if it is about to be replaced."""
        try:
            with self._handing:
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
            cause = error.args[0]
            if cause.code() == KafkaError._FATAL and self._patience is not None and not self._closing.is_set():
                self._ended = True
                return False
            raise BrokerError(f"a record for {record.topic} cannot be written: {cause.str()}") from error
        return True

    def _poll(self) -> None:
        while not self._closing.is_set():
            # Polling raises an error that is fatal to the producer once. The reports of its records say the same.
            with contextlib.suppress(KafkaException):
                self._producer.poll(POLL_SECONDS)
            if self._ended:
                self._replace()

    def _replace(self) -> None:
        """Replace the client, which writes nothing more. Its unacknowledged records are reported as errors."""
        log.warning(
            "the Kafka client of this producer cannot continue, because the broker lost records that were written "
            "before; opening another client and writing the unacknowledged records again"
        )
        with self._handing:
            ended, self._producer = self._producer, Producer(self._settings)
            self._ended = False
        ended.purge()
        drain(ended, _REPORTS)


def _expect_patience(patience: Patience | None) -> None:
    if patience is not None and patience.given_up:
        raise UnavailableError(f"{patience.what}: given up")


#: Reason to report while records are not acknowledged and the client names no cause. It retries by itself.
_UNSAID = (
    "the broker does not acknowledge the records (brokers are down, or fewer replicas in sync than min.insync.replicas)"
)

#: Seconds between two checks whether a caller still waits.
_LOOK = 0.5

#: Seconds to wait for a full queue to drain before the next attempt.
_FULL_PAUSE = 0.005

#: Seconds before a batch is written again with another client.
_AGAIN_PAUSE = 0.5

#: Seconds within which a replaced client reports its records as failed. It needs no broker for that.
_REPORTS = 5.0
