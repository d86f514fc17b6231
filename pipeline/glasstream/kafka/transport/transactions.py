"""The transactional producer of one input partition.

A request that ends a transaction (`EndTxn`) names the producer and its epoch, and not the transaction. If its
connection breaks, librdkafka sends it again, and the first one may still arrive: in the producer's next transaction,
which it then ends before that is complete (KIP-890 describes this; its remedy needs a client that asks for a new epoch
after each transaction). The same holds for the offsets of a group. A producer that cannot know that its requests have
been answered is therefore never used for another transaction. Its successor of the same name has a higher epoch, and
the broker refuses whatever arrives late.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from glasstream.base.errors import BrokerError, FencedError, UnavailableError
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.ends import TransactionEnds, watched
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.records import ProducerRecord
from glasstream_topics.client_errors import heals

#: Errors of a broker for a producer that another one of the same name has replaced.
_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

#: Errors of a coordinator for offsets of a consumer that its group has removed, or that has missed a rebalance.
_NOT_A_MEMBER = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)  # fmt: skip

#: Number of attempts to write the records of a transaction, and seconds between them. librdkafka itself retries
#: temporary errors, so further attempts seldom help.
ATTEMPTS = 3
ATTEMPT_PAUSE = 0.5

#: Largest number of seconds for a single call of a patient producer, and so until it notices that it is given up.
ATTEMPT_SECONDS = 2.0
#: Seconds that librdkafka waits before it sends the offsets of a group again. A faster answer answers the only request.
OFFSETS_AGAIN = 0.5
#: End of librdkafka's text of an operation that goes on. It is addressed to this module, not to readers of the log.
_TO_ITS_CALLER = ", retry call to resume"
#: Seconds for a broker to say whether a topic exists.
ASK_SECONDS = 5.0

_NOT_THERE = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_AUTHORIZATION_FAILED}
)

#: Seconds until the broker aborts a transaction whose producer is gone. They limit how long a killed worker without a
#: successor can hold readers back.
TRANSACTION_TIMEOUT = 60.0


#: Callback for the delivery report of a record: its error or None, and the message.
Report = Callable[[KafkaError | None, Any], None]


@dataclass(frozen=True)
class Consumed:
    """Offsets of a consumer group that become durable with a transaction.

    Attributes
    ----------
    offsets : sequence of TopicPartition
        Offset of the next message of each partition.
    member : object
        The consumer's `consumer_group_metadata`, by which the coordinator recognizes former members.
    """

    offsets: Sequence[TopicPartition]
    member: Any


class TransactionalProducer:
    """The only writer of a partition, which writes its outputs and state in one transaction.

    Every method blocks: call it in a thread. Not safe for use by two threads at once.

    Parameters
    ----------
    connection : Connection
    transactional_id : str
        Name of the producer. Opening a producer of this name fences the previous one, whose uncommitted records no
        read_committed reader ever sees.
    deadline : float
        Seconds within which a commit must succeed, retries included.
    patience : Patience, optional
        If given, wait without limit while brokers are down or too few. It reports the reason, and others can give it
        up.
    timeout : float
        Seconds after which the broker aborts a transaction; at least the deadline, and the time-out of a request.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        deadline: float = 30.0,
        patience: Patience | None = None,
        timeout: float = TRANSACTION_TIMEOUT,
    ) -> None:
        self._id = transactional_id
        self._deadline = deadline
        self._patience = patience
        asked = float(connection.client()["socket.timeout.ms"]) / 1000  # librdkafka refuses a longer one
        self._timeout = max(timeout, deadline, asked)
        self._begun = 0.0
        #: A topic of the newest records. A question about it shows whether brokers answer.
        self._topic: str | None = None
        self._opened = False
        self._failure: KafkaError | None = None
        self._ends = TransactionEnds()
        #: Why a request of an earlier transaction may still arrive; None while all have been answered.
        self._doubt: str | None = None
        settings = connection.producer(
            transactional_id=transactional_id,
            transaction_timeout_ms=int(self._timeout * 1000),
            delivery_timeout_ms=int(deadline * 1000),
            linger_ms=0,
            delivery_report_only_error=True,
        )
        self._producer = Producer(watched(settings, self._ends) | {"on_delivery": self._note_failure})

    def open(self, timeout: float) -> None:
        """Fence the previous owner and end its transaction. Do nothing if already open.

        Raises
        ------
        FencedError
            Another producer of this name was opened meanwhile.
        BrokerError
            The broker does not answer within `timeout` seconds, or with patience, the patience is given up.
        """
        if self._opened:
            return  # a repeated take-over; librdkafka refuses a second call
        self._begun = time.monotonic()
        try:
            self._attempt("init_transactions", lambda left: self._producer.init_transactions(left), timeout)
        except KafkaException as error:
            raise BrokerError(f"{self._id} cannot be opened: {self._reject(error).str()}") from error
        except ReplacedError as error:
            raise BrokerError(f"{self._id} cannot be opened: {error}") from error
        self._opened = True
        if self._patience is not None:
            self._patience.done()

    def commit(self, records: Iterable[ProducerRecord], consumed: Consumed | None = None) -> None:
        """Write `records`, and the offsets of a group, in one transaction: either all of them, in order, or none.

        1. Begin. 2. Produce. 3. Send the offsets. 4. Commit, which waits for every acknowledgement. Retry temporary
        errors. If the broker requires an abort, abort the transaction and write it again, within the deadline or, with
        patience, for as long as the cause can heal. Do the same if records were refused for their size and have
        replacements.

        Raises
        ------
        FencedError
            Another producer of this name was opened, so the partition is no longer ours.
        ReplacedError
            With patience only: this producer is unusable. The broker may have ended the transaction by itself, or a
            request that ends a transaction, this one or an earlier one, was not answered and may still arrive. It is
            unknown whether this transaction was committed.
        LostMembershipError
            The consumer of the offsets is no member of its group any more. The transaction is aborted.
        BrokerError
            The transaction cannot be written within the deadline, or at all, or patience is given up. It is aborted,
            unless the message says that its end is unknown.
        """
        self._expect_answered()
        batch = list(records)
        topics = sorted({record.topic for record in batch})
        self._topic = next(iter(topics), self._topic)
        until = self._until(self._deadline)
        attempts = 0
        if self._patience is not None:
            self._patience.what = f"cannot write to {', '.join(topics)}"
            self._patience.begin()
        while True:
            attempts += 1
            self._begun = time.monotonic()
            self._failure = None
            self._ends.begin()
            refused: set[int] = set()
            try:
                self._producer.begin_transaction()
                for place, record in enumerate(batch):
                    self._produce(record, None if record.instead is None else self._report(place, refused))
                if consumed is not None:
                    self._send_offsets(consumed, until - time.monotonic())
                self._attempt(
                    "commit_transaction", lambda left: self._producer.commit_transaction(left), until - time.monotonic()
                )
            except KafkaException as error:
                cause = self._reject(error)
                self._note_end()
                self._expect_answered(error)
                self.abort()
                if consumed is not None and cause.code() in _NOT_A_MEMBER:
                    raise LostMembershipError(f"{self._id}: {cause.str()}") from error
                if refused:
                    for place in refused:
                        instead = batch[place].instead
                        batch[place] = batch[place] if instead is None else instead()
                    attempts = 0
                    continue
                why = self._failure or cause  # the commit itself reports only that records were not delivered
                # A client whose transaction must be aborted takes no further record, and says only that.
                aborted = cause.txn_requires_abort() or cause.code() == KafkaError._STATE
                if self._patience is not None and aborted and heals(why):
                    self._expect_there(topics)
                    self._rest(self._patience, why)
                    attempts = 0
                    continue
                late = self._patience is None and time.monotonic() >= until
                if attempts == ATTEMPTS or late or not aborted:
                    raise BrokerError(
                        f"a transaction of {self._id} to {', '.join(topics)} failed, attempt {attempts} of {ATTEMPTS}: "
                        f"{why.str()}; check that these topics exist (`glasstream topics verify`)"
                    ) from error
                time.sleep(ATTEMPT_PAUSE)
            else:
                self._note_end(committed=True)
                if self._patience is not None:
                    self._patience.done()
                return

    def abort(self) -> None:
        """Abort an open transaction; without one, do nothing.

        Raises
        ------
        FencedError, ReplacedError, BrokerError
            As for `commit`. With patience, this producer is also unusable if the abort has not ended although brokers
            have answered for as long as a transaction may last: librdkafka sometimes never ends it.
        """
        answered: float | None = None

        def abort(seconds: float) -> None:
            nonlocal answered
            try:
                self._producer.abort_transaction(seconds)
            except KafkaException as error:
                if self._patience is not None and error.args[0].retriable():
                    answered = (answered or time.monotonic()) if self._is_answered() else None
                    if answered is not None and time.monotonic() - answered >= self._timeout:
                        what = "the abort of its transaction does not end, although brokers answer"
                        raise ReplacedError(f"{self._id}: {what}") from error
                raise

        try:
            self._attempt("abort_transaction", abort, self._deadline)
        except KafkaException as error:
            cause = self._reject(error)
            if cause.code() != KafkaError._STATE:  # no transaction was open
                raise BrokerError(f"transaction of {self._id} could not be aborted: {cause.str()}") from error
        self._note_end()
        self._expect_answered()

    def close(self) -> None:
        """Abort an open transaction if the broker answers at once, and close the connection."""
        # An error means that no transaction was open, that we are fenced, or that the broker is gone and will abort it.
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(1.0)
        self._producer.purge()
        with contextlib.suppress(KafkaException):  # polling raises the fatal error of a fenced producer
            self._producer.poll(0)

    def _produce(self, record: ProducerRecord, report: Report | None) -> None:
        """Produce a record. `report` receives its delivery report, also if its size is refused before it is sent."""
        topic, key, value, headers = record.topic, record.key, record.value, record.headers
        where = -1 if record.partition is None else record.partition
        until = self._until(self._deadline)
        options: dict[str, Any] = {"headers": list(headers)} if headers else {}
        if record.timestamp is not None:
            options["timestamp"] = record.timestamp
        if report is not None:
            options["on_delivery"] = report
        while True:
            try:
                self._producer.produce(topic, value, key, where, **options)
                return
            except KafkaException as error:
                if report is not None:
                    report(error.args[0], None)
                raise
            except BufferError:
                if self._patience is not None and self._patience.given_up:
                    raise UnavailableError(f"{self._patience.what}: given up") from None
                # Patience needs no limit: queued records are delivered, or time out and make room.
                if self._patience is None and time.monotonic() >= until:
                    raise BrokerError(f"the queue of {self._id} stayed full: the broker does not answer") from None
                self._producer.poll(0.05)

    def _send_offsets(self, consumed: Consumed, seconds: float) -> None:
        """Add the offsets of a group to the transaction."""
        began = time.monotonic()
        self._attempt(
            "send_offsets_to_transaction",
            lambda left: self._producer.send_offsets_to_transaction(list(consumed.offsets), consumed.member, left),
            seconds,
        )
        if time.monotonic() - began >= OFFSETS_AGAIN:
            self._doubt = "a repeated request with the offsets of an earlier transaction may still arrive"

    def _note_end(self, *, committed: bool = False) -> None:
        """Note whether all requests that end the transaction have been answered."""
        self._producer.poll(0)  # delivers the client's log
        if self._ends.unanswered or (committed and not self._ends.answered):
            self._doubt = "no answer came to a request that ends a transaction, and it may still arrive"

    def _expect_answered(self, error: KafkaException | None = None) -> None:
        """Raise ReplacedError, or BrokerError without patience, if a request of a transaction may still arrive."""
        if self._doubt is None:
            return
        if self._patience is not None:
            raise ReplacedError(f"{self._id}: {self._doubt}") from error
        raise BrokerError(
            f"{self._id}: {self._doubt}, so it is unknown whether all records were written; run the command again"
        ) from error

    def _attempt(self, what: str, call: Callable[[float], object], seconds: float) -> None:
        """Repeat `call` while the broker says that this helps: for `seconds`, or with patience without limit."""
        until = self._until(seconds)
        if self._patience is not None:
            self._patience.begin()
        while True:
            left = max(0.1, until - time.monotonic())
            try:
                call(left if self._patience is None else ATTEMPT_SECONDS)
                return
            except KafkaException as error:
                cause = self._reject(error)
                if not cause.retriable() or cause.txn_requires_abort():
                    raise
                if self._patience is not None:
                    self._rest(self._patience, cause)
                elif time.monotonic() >= until:
                    raise BrokerError(f"{what} of {self._id} did not succeed in time: {cause.str()}") from error

    def _rest(self, patience: Patience, cause: KafkaError) -> None:
        """Sleep before the next attempt. Raise UnavailableError if no caller waits for the result any more."""
        why = cause.str().removesuffix(_TO_ITS_CALLER)
        patience.wait(why, ATTEMPT_PAUSE)
        if patience.given_up:
            raise UnavailableError(f"{patience.what}: {why}; given up")

    def _note_failure(self, error: KafkaError | None, message: object) -> None:
        """Remember why the first record of a transaction was not delivered."""
        if error is not None and self._failure is None:
            self._failure = error

    def _report(self, place: int, refused: set[int]) -> Report:
        """Return a report that adds `place` to `refused` if its record was refused for its size."""

        def report(error: KafkaError | None, message: object) -> None:
            self._note_failure(error, message)
            if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                refused.add(place)

        return report

    def _is_answered(self) -> bool:
        """Return whether a broker answers the client."""
        try:
            self._producer.list_topics(self._topic, ATTEMPT_SECONDS)
        except KafkaException:
            return False
        return True

    def _expect_there(self, topics: Iterable[str]) -> None:
        """Raise BrokerError if a broker answers that one of the topics is missing or hidden."""
        for topic in topics:
            try:
                error = self._producer.list_topics(topic, ASK_SECONDS).topics[topic].error
            except KafkaException:
                return  # no answer; the caller waits for the broker
            if error is not None and error.code() in _NOT_THERE:
                raise BrokerError(
                    f"a transaction of {self._id} to {topic} failed: {error.str()}; check that the topic exists "
                    "(`glasstream topics verify`)"
                )

    def _reject(self, error: KafkaException) -> KafkaError:
        """Return the cause, or raise FencedError or ReplacedError when it is that."""
        cause: KafkaError = error.args[0]
        fenced = cause.code() in _FENCED
        if self._patience is not None and (
            (fenced and time.monotonic() - self._begun >= self._timeout) or (cause.fatal() and not fenced)
        ):
            raise ReplacedError(f"{self._id}: {cause.str()}") from error
        if fenced:
            raise FencedError(
                f"another worker has taken over {self._id}, so this worker no longer owns the partition. Either "
                "this worker paused for longer than worker.session_seconds, or two workers use the same --instance: "
                "give each its own"
            ) from error
        return cause

    @staticmethod
    def _until(seconds: float) -> float:
        return time.monotonic() + seconds


class ReplacedError(Exception):
    """A producer is unusable, although perhaps no other one has been opened under its name."""


class LostMembershipError(Exception):
    """A consumer whose offsets were to be committed is no member of its group any more."""
