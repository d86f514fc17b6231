"""The thread that reads the input as a member of a consumer group, in batches, with librdkafka.

All messages of a partition that one call of the client returns are one `Batch`. The thread has at most `IN_FLIGHT`
batches under way to the event loop, and librdkafka reads ahead a limited number of bytes of each partition, so memory
stays bounded while the loop is busy.

An assignment of the group brings no messages until `place` says where each partition begins. Every later seek assigns
all partitions again, each at its next offset: librdkafka then delivers nothing that was fetched before.

Only this thread calls the client: a lock of the client keeps other threads waiting while one reads.

A client that has lost its session cannot rejoin under a static name: requests which it had begun go on without its
member id, and the group takes them for those of a replaced worker. Therefore a new client joins in its place, even if
the former one has not closed yet.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as Fetched
from faust.types import TP

from glasstream.base.errors import BrokerError, FencedError, UnavailableError
from glasstream.events.message import Message
from glasstream.kafka.transport.connection import Connection, close
from glasstream.kafka.transport.input_topic import LIMIT
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.records import received
from glasstream.kafka.transport.unreadable import end_of_batch, stand_in, unread
from glasstream_topics.client_errors import heals

log = logging.getLogger(__name__)

Result = TypeVar("Result")

MOST: Final = 2_000
"""Largest number of messages that one call returns."""
IN_FLIGHT: Final = 2
"""Number of calls whose messages may be on their way to the event loop."""
IDLE: Final = 0.1
"""Seconds that a call waits for a first message. Commands wait for as long."""
GATHER: Final = 0.005
"""Seconds that a call waits for more messages after the first, unless `MOST` have come. One by one, messages that come
every millisecond cost twice as much. See decision 21."""
GRACE: Final = 0.2
"""Seconds for which the thread waits for a partition that is held. Pausing it would discard what was read ahead."""
READ_AHEAD_KBYTES: Final = 4 * 1024
"""Kilobytes of each partition that librdkafka reads ahead. It fetches once more while it has less."""
_BACKOFF_MS: Final = 10
"""Milliseconds until librdkafka looks again whether it has less. In its 1,000 a learner uses up what was read ahead."""
_PAUSED_POLL: Final = 0.01
"""Seconds until a released partition is noticed."""
_LEFT: Final = "the worker has left its group"
_MOST_UNCLOSED: Final = 20
"""Most clients that may be closing. One that hangs keeps threads and memory until the worker ends."""
_LEAVING: Final = 1.0
"""Seconds that a stop waits until the group has let the worker go."""
_NEVER_MS: Final = 86_400_000
"""The largest `max.poll.interval.ms`. A stage that holds back reads nothing; the watchdog notices a loop that hangs."""
_LOOK: Final = 0.5
"""Seconds between two looks whether to stop waiting."""


class Batch(NamedTuple):
    """Messages of a partition that one call returned, in order.

    Attributes
    ----------
    follows : int or None
        The offset after the previous message of the partition, or the offset of the last seek; None after a seek to
        the beginning of the log. A stage that has used everything below `follows` has missed nothing, however large the
        gap to the first message is: the client found only markers, and aborted or compacted records.
    generation : int
        Number of the assignment of the group in which the messages were read.
    """

    tp: TP
    follows: int | None
    generation: int
    records: list[Message]


class Listener(Protocol):
    """Receiver of what the reader's thread reports. The thread waits only for the future that `revoked` returns."""

    def assigned(self, partitions: set[TP], generation: int) -> None:
        """Take over partitions, and `place` them."""

    def revoked(self) -> "Future[None]":
        """Release all partitions. The future is done when nothing uses them any more. Commands wait until then."""

    def arrived(self, batches: Sequence[Batch], taken: Callable[[], None]) -> None:
        """Accept batches, and call `taken` when they have left the queue."""

    def out_of_range(self, tp: TP, position: int) -> None:
        """Decide how to continue a partition whose log does not have the next offset. It is not read meanwhile."""

    def failed(self, error: Exception) -> None:
        """End the worker."""


class Reader:
    """Member of a consumer group that reads batches. See the module."""

    def __init__(self, connection: Connection, options: StageOptions, listener: Listener) -> None:
        self._settings = settings_of(connection, options)
        self._listener = listener
        self._generation = 0
        #: Name under which the group knows this worker; empty while it is no member.
        self.member = ""
        self._shared: frozenset[TP] = frozenset()
        #: Next offset to hand over of each partition that is read. None: the first that the broker keeps.
        self._next: dict[TP, int | None] = {}
        #: The current client. Callbacks of former clients are ignored. None while there is no client.
        self._client: Any = None
        #: Threads in which former clients still close.
        self._unclosed: list[threading.Thread] = []
        self._commands: deque[tuple[Callable[[Consumer], None], Future[Any]]] = deque()
        self._ended = False
        self._commits: deque[Future[bool]] = deque()
        self._ends: dict[TP, int] = {}
        self._looked = 0.0
        self._changed = threading.Condition()
        self._held: set[TP] = set()
        self._paused: set[TP] = set()
        self._room = threading.Semaphore(IN_FLIGHT)
        self._stopping = threading.Event()
        #: Whether a batch that cannot be read was replaced in this round.
        self._unread = False
        #: Whether the session of the current client has ended without an answer of the group.
        self._lost = False
        #: What brokers have refused last since partitions were assigned; None if nothing.
        self.refusal: str | None = None
        #: Topics and codes of all that they have refused since then. Each is logged once.
        self._refused: set[tuple[str, int]] = set()
        self._topics: list[str] = []
        self._followed: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, name=f"{options.name}-reader", daemon=True)

    def start(self, topics: Iterable[str], followed: Iterable[str] = ()) -> None:
        """Join the group to share `topics`, and follow other topics as a whole, outside the group."""
        self._topics, self._followed = sorted(topics), frozenset(followed)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Leave the group, and end the thread; return after `seconds` at the latest."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def place(self, offsets: Mapping[TP, int | None], generation: int) -> "Future[None]":
        """Read partitions from these offsets on, and count everything before as handed over.

        The future is done when nothing that was fetched before can arrive any more. An assignment of another
        generation is left as it is.
        """
        placed: Future[None] = Future()

        def run(consumer: Consumer) -> None:
            if generation == self._generation:
                ours = {tp for tp in offsets if tp in self._shared or tp.topic in self._followed}
                self._next.update({tp: offsets[tp] for tp in ours})
                self._assign(consumer)
            _give(placed, None)

        return self._command(run, placed)

    def commit(self, offsets: Mapping[TP, int]) -> "Future[bool]":
        """Commit offsets to the group. The result is whether that succeeded; outside the group nothing succeeds."""
        committed: Future[bool] = Future()

        def run(consumer: Consumer) -> None:
            if not self.member:  # the offsets are those of a former assignment
                _give(committed, False)
                return
            self._commits.append(committed)
            try:
                consumer.commit(
                    offsets=[TopicPartition(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]
                )
            except KafkaException as error:
                log.debug("offsets were not committed: %s", error)
                self._commits.pop()
                _give(committed, False)

        return self._command(run, committed)

    def _command(self, run: Callable[[Consumer], None], done: "Future[Result]") -> "Future[Result]":
        """Let the thread run something that ends with a result. A thread that has ended gives UnavailableError."""
        with self._changed:
            if self._ended:
                done.set_exception(UnavailableError(_LEFT))
            else:
                self._commands.append((run, done))
                self._changed.notify_all()
        return done

    def _refuse_commands(self) -> None:
        with self._changed:
            self._ended = True
            waiting = [done for _, done in self._commands] + [*self._commits]
        for done in waiting:
            if done.set_running_or_notify_cancel():
                done.set_exception(UnavailableError(_LEFT))

    def hold(self, tp: TP) -> None:
        """Read nothing of a partition until `release`. What has been read is handed over all the same."""
        with self._changed:
            self._held.add(tp)

    def release(self, tp: TP) -> None:
        """Read a partition again."""
        with self._changed:
            self._held.discard(tp)
            self._changed.notify_all()

    def handed(self, tp: TP) -> int | None:
        """Return the offset after the last message of a partition that left the thread, or of the last seek."""
        return self._next.get(tp)

    def end(self, tp: TP) -> int | None:
        """Return the end of a partition as of the last fetch; None while that is not known."""
        return self._ends.get(tp)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._be_member()
        except Exception as error:  # noqa: BLE001 - it ends the worker, with a line and a code
            if not self._stopping.is_set():
                self._listener.failed(_of_ours(error, self._topics))
        finally:
            self._refuse_commands()

    def _be_member(self) -> None:
        """Read with one client, until the worker stops or the client has lost its session."""
        self._lost = left = False
        self._commits = deque()
        consumer = self._client = Consumer({**self._settings, "on_commit": partial(_on_commit, self._commits)})
        try:
            consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            while not (self._stopping.is_set() or self._lost):
                self._serve(consumer)
            if not self._lost:
                self._leave(consumer)
                left = True
        except KafkaException as error:
            if self.member or error.args[0].code() not in _AFTER_A_LOSS:
                raise
            self._note_refusal(", ".join(self._topics), error.args[0])
        finally:
            if left:
                consumer.close()
            else:
                self._client = None
            while self._commits:
                _give(self._commits.popleft(), False)
            if not left:
                self._give_up(consumer)

    def _give_up(self, consumer: Consumer) -> None:
        """Close a client of which no callback counts any more."""
        thread = close(consumer)
        self._unclosed = [one for one in (*self._unclosed, thread) if one.is_alive()]
        if thread.is_alive():
            log.info("%s: the former client has not closed yet; going on with another", ", ".join(self._topics))
        if len(self._unclosed) > _MOST_UNCLOSED:
            raise BrokerError(
                f"{len(self._unclosed)} former clients of this worker do not close; start the worker again"
            )

    def _leave(self, consumer: Consumer) -> None:
        """Leave the group, so that others need not wait for the session. To close alone keeps a static member."""
        consumer.unsubscribe()
        until = time.monotonic() + _LEAVING
        while consumer.memberid() and time.monotonic() < until:
            consumer.poll(_PAUSED_POLL)

    def _serve(self, consumer: Consumer) -> None:
        while self._commands:
            run, _ = self._commands.popleft()
            run(consumer)
        self._settle_holds(consumer)
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            self._note_ends(consumer)
        if not self._room.acquire(timeout=IDLE):
            return
        batches: list[Batch] = []
        try:
            batches = self._read(consumer)
        finally:  # also if the client is refused: the next one needs the room
            if not batches:
                self._room.release()
        if batches:
            self._listener.arrived(batches, self._room.release)

    def _note_ends(self, consumer: Consumer) -> None:
        for tp in self._next:
            bounds: Any = consumer.get_watermark_offsets(TopicPartition(tp.topic, tp.partition), cached=True)
            if bounds is not None and bounds[1] >= 0:
                self._ends[tp] = bounds[1]

    def _settle_holds(self, consumer: Consumer) -> None:
        """Resume released partitions. Wait a moment for held ones, then pause them, so that the others are read."""
        with self._changed:
            released = self._paused - self._held
            if released:
                consumer.resume([TopicPartition(tp.topic, tp.partition) for tp in released])
                self._paused -= released
            if not self._held - self._paused:
                return
            self._changed.wait_for(
                lambda: not self._held - self._paused or self._commands or self._stopping.is_set(), GRACE
            )
            fresh = (self._held - self._paused) & self._next.keys()
            if fresh:
                consumer.pause([TopicPartition(tp.topic, tp.partition) for tp in fresh])
                self._paused |= fresh

    def _assign(self, consumer: Consumer) -> None:
        with self._changed:
            if self._paused:
                consumer.resume([TopicPartition(tp.topic, tp.partition) for tp in self._paused])
                self._paused.clear()
            consumer.assign(
                [
                    TopicPartition(tp.topic, tp.partition, OFFSET_BEGINNING if offset is None else offset)
                    for tp, offset in self._next.items()
                ]
            )

    def _read(self, consumer: Consumer) -> list[Batch]:
        first = consumer.poll(_PAUSED_POLL if self._paused else IDLE)
        if first is None:
            return []
        found: dict[TP, list[Message]] = {}
        following, beginning = self._next, dict(self._next)
        for message in [first, *consumer.consume(MOST - 1, GATHER)]:
            if message.error() is None:
                oversized = stand_in(message)
                record: Message | None = received(message, message.value() if oversized is None else oversized)
            else:
                record = self._on_error(consumer, message)
            if record is None:
                continue
            place = TP(record.topic, record.partition)
            expected = following.get(place, -1)
            if expected is None or 0 <= expected <= record.offset:
                following[place] = record.offset + 1
                if place in found:
                    found[place].append(record)
                else:
                    found[place] = [record]
        if self._unread:
            self._unread = False
            self._assign(consumer)
        return [Batch(place, beginning[place], self._generation, records) for place, records in found.items()]

    def _is_former(self, consumer: Consumer) -> bool:
        """Return whether a client was given up. If so, give back its partitions: the caller ignores its callback."""
        if consumer is self._client:
            return False
        consumer.unassign()
        return True

    def _on_assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self._is_former(consumer):
            return
        self._forget()
        if partitions:
            self.refusal = None
            self._refused.clear()
        self._generation += 1
        self._shared = frozenset(TP(one.topic, one.partition) for one in partitions)
        self.member = str(consumer.memberid() or "")
        consumer.assign([])
        self._listener.assigned(set(self._shared), self._generation)

    def _on_revoke(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self._is_former(consumer):
            return
        self._forget()
        self.member = ""
        if not self._stopping.is_set():
            released = self._listener.revoked()
            while not (released.done() or self._stopping.is_set()):
                _wait(released, _LOOK)
        consumer.unassign()

    def _on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self._is_former(consumer):
            return
        self._lost = True
        log.info(
            "%s: no answer from the coordinator of the group within a session; joining it again",
            ", ".join(self._topics),
        )
        consumer.unsubscribe()  # or this client, too, joins again, as soon as its partitions are given back
        self._on_revoke(consumer, partitions)

    def _forget(self) -> None:
        with self._changed:
            self._next.clear()
            self._held.clear()
            self._paused.clear()
            self._ends.clear()
            self._shared = frozenset()

    def _on_error(self, consumer: Consumer, message: Fetched) -> Message | None:
        """Handle an error, and return the record that replaces what cannot be read, if any."""
        found: Any = message.error()
        code, topic = found.code(), message.topic()
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError._BAD_COMPRESSION) and topic is not None:
            tp = TP(topic, message.partition())
            position = self._next.get(tp)
            if position is None or self._unread:
                return None  # it was revoked meanwhile, or is reported again
            if code == KafkaError._AUTO_OFFSET_RESET:
                del self._next[tp]
                self._listener.out_of_range(tp, position)
                return None
            try:
                after = end_of_batch(self._settings, tp, message.offset())
            except UnavailableError as error:
                log.debug("%s", error)
                return None  # the client reports the batch again
            self._unread = True  # reading continues behind it
            return Message(topic, tp.partition, after - 1, None, unread(message.offset(), after))
        if code == KafkaError._FATAL or code in _ENDS:
            raise KafkaException(found)
        self._note_refusal(topic or ", ".join(self._topics), found)
        return None

    def _note_refusal(self, topics: str, error: KafkaError) -> None:
        """Log an error after which the client tries again."""
        self.refusal = f"cannot read {topics}: {error.str()}; trying again"
        log.log(logging.DEBUG if (topics, error.code()) in self._refused else logging.WARNING, "%s", self.refusal)
        self._refused.add((topics, error.code()))


_ENDS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION, KafkaError.FENCED_INSTANCE_ID, KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_SESSION_TIMEOUT, KafkaError.GROUP_MAX_SIZE_REACHED,
    }
)  # fmt: skip
"""Errors of a consumer that stay until rights or settings change."""
_AFTER_A_LOSS: Final = (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
"""Errors with which a group answers requests of a client that has lost its session."""
_FENCED: Final = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
"""Part of the text of a fatal error; its code does not tell the cause."""


def settings_of(connection: Connection, options: StageOptions) -> dict[str, Any]:
    """Return the configuration of the client."""
    own: dict[str, Any] = {
        "group.id": options.group,
        "client.id": f"{options.group}.{options.instance}",
        "group.instance.id": f"{options.group}.{options.instance}",
        "auto.offset.reset": "error",  # the stage decides: see `Listener.out_of_range`
        "partition.assignment.strategy": "roundrobin",
        "session.timeout.ms": int(options.session_timeout * 1000),
        "heartbeat.interval.ms": int(options.heartbeat_interval * 1000),
        "max.poll.interval.ms": _NEVER_MS,
        "fetch.message.max.bytes": options.max_fetch_bytes,
        "queued.max.messages.kbytes": READ_AHEAD_KBYTES,
        "fetch.queue.backoff.ms": _BACKOFF_MS,
        "receive.message.max.bytes": LIMIT + options.max_fetch_bytes,
        "check.crcs": connection.check_crcs,
    }
    return {**connection.consumer(read_committed=options.read_committed), **own}


def _of_ours(error: Exception, topics: Sequence[str]) -> Exception:
    if not isinstance(error, KafkaException):
        return error
    cause = error.args[0]
    if cause.code() == KafkaError.FENCED_INSTANCE_ID or _FENCED in cause.str():
        return FencedError(f"another worker has joined the group under the name of this one: {cause.str()}")
    if heals(cause):
        return UnavailableError(f"cannot read {', '.join(topics)}: {cause.str()}")
    return BrokerError(f"cannot read {', '.join(topics)}: {cause.str()}")


def _on_commit(commits: deque["Future[bool]"], error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
    """Give the oldest commit of a client its result."""
    if error is not None:
        log.debug("offsets were not committed: %s", error.str())
    if commits:
        _give(commits.popleft(), error is None and all(one.error is None for one in partitions))


def _give(future: "Future[Result]", result: Result) -> None:
    """Give a future its result, unless its waiting was cancelled."""
    if future.set_running_or_notify_cancel():
        future.set_result(result)


def _wait(future: "Future[None]", seconds: float) -> None:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait(seconds)
