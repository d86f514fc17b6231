"""The transactional producer of one input partition."""

import contextlib
import time
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, KafkaException, Producer

from pipeline.errors import BrokerError, FencedError
from pipeline.transport.connection import Connection
from pipeline.transport.records import Record

#: What a broker answers to a producer that another one with the same name has replaced.
_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

#: How often the records of a transaction are written before the broker's refusal counts as final, and the seconds in
#: between: librdkafka itself tries again what a moment can heal, what it gives up is seldom healed by another one.
ATTEMPTS = 3
ATTEMPT_PAUSE = 0.5

#: Seconds until the broker aborts a transaction whose producer is gone. It bounds how long a killed worker may hold
#: readers back that come before its successor does.
TRANSACTION_TIMEOUT = 60.0


class TransactionalProducer:
    """Writes outputs and state of a partition together, as its only writer.

    Every method blocks: call it in a thread. Not safe for use by two threads at once.

    Parameters
    ----------
    connection : Connection
    transactional_id : str
        Whoever opens a producer of this name fences the one before: nothing it has not committed is ever seen by a
        read_committed reader.
    deadline : float
        Seconds within which a commit must succeed, retries included.
    """

    def __init__(self, connection: Connection, transactional_id: str, deadline: float = 30.0) -> None:
        self._id = transactional_id
        self._deadline = deadline
        self._producer = Producer(
            connection.producer(
                transactional_id=transactional_id,
                transaction_timeout_ms=int(max(TRANSACTION_TIMEOUT, deadline) * 1000),
                delivery_timeout_ms=int(deadline * 1000),
                linger_ms=0,
            )
        )

    def open(self, timeout: float) -> None:
        """Fence the owner before, and end its transaction.

        Raises
        ------
        FencedError
            When yet another producer of this name opened meanwhile.
        BrokerError
            When the broker does not answer within `timeout` seconds.
        """
        self._attempt("init_transactions", lambda left: self._producer.init_transactions(left), self._until(timeout))

    def commit(self, records: Iterable[Record]) -> None:
        """Write `records` in one transaction: all are there, in order, or none.

        1. begin; 2. produce; 3. commit, which waits for every acknowledgement. What can be tried again is; a
        transaction that the broker wants aborted is aborted and written anew, within the deadline.

        Raises
        ------
        FencedError
            When another producer of this name has opened: the partition is not ours any more.
        BrokerError
            When it cannot be written within the deadline; what was begun is aborted.
        """
        batch = list(records)
        until = self._until(self._deadline)
        attempts = 0
        while True:
            attempts += 1
            try:
                self._producer.begin_transaction()
                for record in batch:
                    self._produce(record, until)
                self._attempt("commit_transaction", lambda left: self._producer.commit_transaction(left), until)
            except KafkaException as error:
                cause = self._reject(error)
                self.abort()
                if attempts == ATTEMPTS or time.monotonic() >= until or not cause.txn_requires_abort():
                    topics = ", ".join(sorted({record.topic for record in batch}))
                    raise BrokerError(
                        f"a transaction of {self._id} to {topics} failed, attempt {attempts} of {ATTEMPTS}: "
                        f"{cause.str()}; see that these topics are there (`glasstream topics verify`)"
                    ) from error
                time.sleep(ATTEMPT_PAUSE)
            else:
                return

    def abort(self) -> None:
        """Leave nothing of an open transaction; without one, do nothing. Raises FencedError and BrokerError."""
        try:
            self._attempt(
                "abort_transaction", lambda left: self._producer.abort_transaction(left), self._until(self._deadline)
            )
        except KafkaException as error:
            cause = self._reject(error)
            if cause.code() != KafkaError._STATE:  # there was none
                raise BrokerError(f"transaction of {self._id} could not be aborted: {cause.str()}") from error

    def close(self) -> None:
        """Abort what is open, as far as the broker answers at once, and give the connection up."""
        # An error means that nothing was open, or we are fenced, or the broker is gone and aborts what is left.
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(1.0)
        self._producer.purge()
        with contextlib.suppress(KafkaException):  # polling raises what was fatal to the producer: it was fenced
            self._producer.poll(0)

    def _produce(self, record: Record, until: float) -> None:
        topic, key, value, headers = record.topic, record.key, record.value, record.headers
        where = -1 if record.partition is None else record.partition
        while True:
            try:
                if headers:
                    self._producer.produce(topic, value, key, where, headers=list(headers))
                else:
                    self._producer.produce(topic, value, key, where)
                return
            except BufferError:
                if time.monotonic() >= until:
                    raise BrokerError(f"the queue of {self._id} stayed full: the broker does not answer") from None
                self._producer.poll(0.05)

    def _attempt(self, what: str, call: Callable[[float], object], until: float) -> None:
        """Repeat `call` while the broker says that this helps."""
        while True:
            left = max(0.1, until - time.monotonic())
            try:
                call(left)
                return
            except KafkaException as error:
                cause = self._reject(error)
                if not cause.retriable() or cause.txn_requires_abort():
                    raise
                if time.monotonic() >= until:
                    raise BrokerError(f"{what} of {self._id} did not succeed in time: {cause.str()}") from error

    def _reject(self, error: KafkaException) -> KafkaError:
        """Return the cause, or raise FencedError when it is that."""
        cause: KafkaError = error.args[0]
        if cause.code() in _FENCED:
            raise FencedError(
                f"another worker has opened {self._id}: this one does not own its partition any more. "
                "It was paused longer than its session, or two workers run under one name"
            ) from error
        return cause

    @staticmethod
    def _until(seconds: float) -> float:
        return time.monotonic() + seconds
