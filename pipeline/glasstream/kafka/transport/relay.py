"""A worker that reads any topics as a member of a group, and writes results and offsets in one transaction.

Unlike the other stages, it reads several topics, with any number of partitions, and has no state of its own: the
offsets of its group are committed with the results (KIP-98, KIP-447). After every doubt, whether a rebalance, a failed
transaction or a message that cannot be processed yet, it reads again from the committed offsets. A partition whose
messages cannot be processed yet may wait while the others continue.

The metadata of each committed offset is the id of its topic, so that a topic that was deleted and created again is
noticed.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from glasstream.base.errors import BrokerError, TopicError, UnavailableError
from glasstream.events.message import Message
from glasstream.kafka.health.steps import Steps
from glasstream.kafka.transport.connection import Connection, close
from glasstream.kafka.transport.group import GroupWatch, Look, View
from glasstream.kafka.transport.input_topic import TopicIdentity
from glasstream.kafka.transport.merge import Merge, Place
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.records import ProducerRecord, received
from glasstream.kafka.transport.stage import WATCH_INTERVAL, Service
from glasstream.kafka.transport.topic_check import check_topics
from glasstream.kafka.transport.transactions import Consumed, LostMembershipError, ReplacedError, TransactionalProducer
from glasstream_topics.client_errors import heals

log = logging.getLogger(__name__)

#: Largest number of messages, and approximately of bytes, in one transaction.
BATCH_MESSAGES = 20_000
BATCH_BYTES = 16 * 1024 * 1024
#: Number of messages to take from the client at a time.
TAKE = 1_000
#: Kilobytes that the client reads ahead, and bytes of one partition in an answer of a broker.
QUEUE_KBYTES = 32 * 1024
FETCH_BYTES = 256 * 1024
#: Seconds for the coordinator or a leader to answer.
ANSWER = 5.0
#: Seconds between two attempts to process messages that cannot be processed yet.
TRY_AGAIN = 1.0
#: Seconds between two attempts to process the messages of partitions that wait while others continue.
HOLD = 2.0
#: Seconds within which a transaction must succeed, and after which the broker aborts that of a killed worker. Its
#: successor waits for as long.
DEADLINE = 15.0
#: Seconds that a stop waits for the transaction in progress.
STOP_SECONDS = 6.0


class Held(NamedTuple):
    """The first message of a partition that cannot be processed yet, and why."""

    offset: int
    reason: str


class Worker(Protocol):
    """What a relay does with messages."""

    def handle(self, messages: Sequence[Message]) -> Sequence[ProducerRecord]:
        """Return the results of messages, which are in the order of `glasstream.kafka.transport.merge`.

        Raises
        ------
        UnavailableError
            They cannot be processed now. The relay reads them again and asks again.
        """

    def held(self) -> Mapping[Place, Held]:
        """Return the partitions that `handle` processed only up to some message, while it processed all others.

        The relay commits what was processed, and reads these messages again later.
        """

    def committed(self) -> None:
        """Note that the results returned last are durable."""


class Relay:
    """Consume, transform, produce: each message counts once.

    Parameters
    ----------
    connection, options
        Connection to the brokers, and names of this worker.
    inputs
        Full names of the topics to read. Of messages with the same time in a backlog, those of the first topic come
        first.
    worker
        What to do with messages.
    topics
        Needed topics of our own, each with its number of partitions (None: any number).
    interval
        Seconds between two transactions.
    named_by
        The settings that name the topics to read, for errors.
    begun
        Function that returns the topics of which the group has committed offsets. If it has none any more, Kafka has
        forgotten them, and the messages would be processed twice.

    Attributes
    ----------
    ended, failure, services, beats, steps, view
        As of `glasstream.kafka.transport.stage.Stage`.
    settled
        Whether the partitions of the current generation have been taken over.
    waits
        Reason why the worker makes no progress, with the remedy; None while it does.
    holds
        Reasons why partitions wait while others continue. The worker tries again by itself.
    stalls
        Reasons why partitions cannot be continued.
    positions, ends
        Next offset to process, and the end of the log, of each owned partition.
    """

    def __init__(
        self,
        connection: Connection,
        options: StageOptions,
        inputs: Sequence[str],
        worker: Worker,
        topics: Mapping[str, int | None],
        interval: float,
        named_by: str,
        begun: Callable[[], Collection[str]] = lambda: (),
    ) -> None:
        self.connection = connection
        self.options = options
        self.inputs = tuple(inputs)
        self.worker = worker
        self.topics = dict(topics)
        self.ended = asyncio.Event()
        self.failure: Exception | None = None
        self.services: list[Service] = []
        self.beats: list[Callable[[], None]] = []
        self.steps = Steps()
        self.settled = False
        self.waits: str | None = None
        self.holds: dict[Place, str] = {}
        self.stalls: dict[Place, str] = {}
        self.positions: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        self.view = View(options.group, self.inputs[0])
        self._interval = interval
        self._named_by = named_by
        self._begun = begun
        self._patience = Patience(f"cannot read {', '.join(self.inputs)}")
        self._identities = {name: TopicIdentity(connection, name) for name in self.inputs}
        self._ids: dict[str, str] = {}
        #: What was fetched of the owned partitions and is not processed yet.
        self._merge = Merge()
        #: Seconds spent in asking the client for messages. Only this time counts as the silence of a partition.
        self._listened = 0.0
        #: When to read each partition that waits; until then, it is not assigned.
        self._due: dict[Place, float] = {}
        #: Assigned partitions whose positions are still to be read; None if there are none.
        self._fresh: list[Place] | None = None
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=f"{options.name}-relay", daemon=True)
        self._watch: asyncio.Task[None] | None = None
        self._brokers = GroupWatch(
            connection, options.group, self.inputs[0], self.inputs, self._see, options.look_interval
        )

    async def start(self) -> None:
        """Check the topics, then start.

        Raises
        ------
        TopicError, BrokerError
        """
        await asyncio.to_thread(self._check)
        for service in self.services:
            await service.start()
        self._loop = asyncio.get_running_loop()
        self._watch = asyncio.ensure_future(self._beat())
        await self._brokers.start()
        self._thread.start()

    def _check(self) -> None:
        check_topics(self.connection, self.topics, prefix=self.options.prefix)
        try:
            check_topics(self.connection, dict.fromkeys(self.inputs))
        except TopicError as error:
            raise TopicError(
                f"cannot find or read the topics {', '.join(self.inputs)} of {self._named_by}: "
                f"{str(error).partition('. Check')[0]}"
            ) from error

    async def stop(self, *, drain: bool = True) -> None:
        """Finish the transaction in progress, leave the group, and stop."""
        self._stopping.set()
        if self._watch is not None:
            self._watch.cancel()
        await self._brokers.stop()
        if self._patience.troubled or not drain or self.failure is not None:
            self._patience.give_up()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)
            self._patience.give_up()
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        for service in reversed(self.services):
            await service.stop()

    async def wait_crashed(self) -> None:
        """Wait until the stage has failed."""
        await self.ended.wait()

    def fail(self, error: Exception) -> None:
        """End the worker because of `error`. The first error counts."""
        if self.failure is None:
            self.failure = error
            self.ended.set()

    def unready(self) -> str | None:
        """Return why the worker makes no progress, or None if it does."""
        if self.view.silent is not None:
            return f"brokers do not answer: {self.view.silent}"
        reason = self._patience.reason or self.waits
        if reason is None and not self.settled:
            reason = self.view.unready or self.view.unsettled
        reasons = [reason] if reason is not None else []
        reasons += [
            f"{topic}[{partition}]: {why}" for (topic, partition), why in [*self.holds.items(), *self.stalls.items()]
        ]
        return "; ".join(reasons) or None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            for beat in self.beats:
                beat()

    def _see(self, look: Look) -> None:
        self.view.see(look)

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # noqa: BLE001 - it ends the worker, with a line and a code
            loop = self._loop
            if loop is not None and not (self._stopping.is_set() and isinstance(error, UnavailableError)):
                with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                    loop.call_soon_threadsafe(self.fail, error)

    def _serve(self) -> None:
        options = self.options
        settings = {
            "group.id": options.group,
            "auto.offset.reset": "error",
            "session.timeout.ms": int(options.session_timeout * 1000),
            "heartbeat.interval.ms": int(options.heartbeat_interval * 1000),
            "queued.max.messages.kbytes": QUEUE_KBYTES,
            "max.partition.fetch.bytes": FETCH_BYTES,
            "enable.partition.eof": True,
            "error_cb": lambda error: self._patience.note(error.str()),
        }
        if options.fixed:
            settings["group.instance.id"] = f"{options.group}.{options.instance}"
        consumer = Consumer({**self.connection.consumer(read_committed=True), **settings})
        producer = self._open()
        try:
            consumer.subscribe(
                list(self.inputs), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
            while not self._stopping.is_set():
                self._settle(consumer)
                with self.steps.time("read"):
                    messages = self._read(consumer)
                if messages:
                    producer = self._process(consumer, producer, messages)
                if self._due and min(self._due.values()) <= time.monotonic():
                    self._due.clear()
                    self._again(consumer)
        except KafkaException as error:
            raise BrokerError(f"cannot read {', '.join(self.inputs)}: {error.args[0].str()}") from error
        finally:
            producer.close()
            close(consumer)

    def _open(self) -> TransactionalProducer:
        producer = TransactionalProducer(
            self.connection,
            f"{self.options.group}.{self.options.instance}",
            DEADLINE,
            self._patience,
            timeout=DEADLINE,
        )
        producer.open(self.options.take_over_timeout)
        return producer

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        consumer.assign([])  # `_settle` assigns them when their positions are known
        self._fresh = [(one.topic, one.partition) for one in partitions]

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._merge.begin({}, 0.0)
        self._fresh = None
        self.settled = False
        self.view.release()
        self.holds = {}
        self.stalls = {}
        self._due.clear()
        consumer.unassign()

    def _settle(self, consumer: Consumer) -> None:
        """Read the positions of newly assigned partitions, and begin to read there."""
        fresh = self._fresh
        if fresh is None:
            return
        self._patience.begin()
        try:
            begin = self._beginning(consumer, fresh) if fresh else {}
        except KafkaException as error:
            cause = error.args[0]
            if not heals(cause) and cause.code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
                raise
            self._patience.wait(cause.str(), 0.2)
        except UnavailableError as error:
            self._patience.wait(str(error), 0.2)
        else:
            self._patience.done()
            places = sorted(begin.keys() - self._due.keys(), key=lambda one: (self.inputs.index(one[0]), one[1]))
            ready = {place: begin[place] for place in places}
            self._merge.begin(ready, self._listened)
            partitions = [TopicPartition(*place, offset) for place, offset in ready.items()]
            consumer.assign(partitions)
            consumer.resume(partitions)  # a pause outlives an assignment
            self._fresh = None
            self.positions = dict(begin)
            self.settled = True

    def _beginning(self, consumer: Consumer, places: Sequence[Place]) -> dict[Place, int]:
        committed = consumer.committed([TopicPartition(*place) for place in places], timeout=ANSWER)
        begin: dict[Place, int] = {}
        self.stalls = {}
        self._ids = {name: self._identities[name]() or "" for name in {topic for topic, _ in places}}
        forgotten = self._forgotten(consumer, {one.topic for one in committed if one.offset < 0})
        for one in committed:
            if one.error is not None:
                raise KafkaException(one.error)
            place = (one.topic, one.partition)
            if one.topic in forgotten:
                self._stall_forgotten(place)
                continue
            bounds = consumer.get_watermark_offsets(TopicPartition(*place), timeout=ANSWER, cached=False)
            if bounds is None:
                raise UnavailableError(f"no offsets of {one.topic}[{one.partition}]")
            low, high = bounds
            offset = low if one.offset < 0 else one.offset
            self.ends[place] = high
            now, before = self._ids[one.topic], one.metadata or ""
            if one.offset >= 0 and now and before and now != before:
                what = f"the topic was deleted and created again (its id was {before}, and is {now} now)"
                self._stall(place, f"{what}, so the messages that follow the committed offset {offset} are gone")
            elif offset < low:
                self._stall(place, f"the broker removed offsets {offset} to {low - 1} before they were read")
            elif offset > high:
                self._stall(place, f"everything before offset {offset} was read, but the log ends at {high}")
            else:
                begin[place] = offset
        return begin

    def _forgotten(self, consumer: Consumer, names: Set[str]) -> Set[str]:
        """Return which of these topics the group has read, although it has no offset of any of their partitions."""
        forgotten = set()
        for name in names & set(self._begun()) if names else ():
            count = len(consumer.list_topics(name, timeout=ANSWER).topics[name].partitions)
            places = [TopicPartition(name, number) for number in range(count)]
            if all(one.offset < 0 for one in consumer.committed(places, timeout=ANSWER)):
                forgotten.add(name)
        return forgotten

    def _stall_forgotten(self, place: Place) -> None:
        self._stop_reading(
            place,
            f"this group has read {place[0]} before, but Kafka has forgotten its offsets (no worker ran for "
            "offsets.retention.minutes), and all messages would be written to events again. Stop the workers of this "
            f"stage and set where to continue: {self._offsets_of(place[0])} --to-datetime YYYY-MM-DDTHH:mm:ss.sss "
            "--execute, with the time when the last worker stopped; or --to-earliest in its place, to write all "
            "messages again",
        )

    def _stall(self, place: Place, what: str) -> None:
        self._stop_reading(
            place,
            f"{what}. Lengthen the retention of the topic. To continue with the messages that the broker has, stop "
            f"the workers of this stage and run {self._offsets_of(f'{place[0]}:{place[1]}')} --to-earliest --execute",
        )

    def _offsets_of(self, what: str) -> str:
        """Return the beginning of the command that sets offsets of the group."""
        return (
            f"kafka-consumer-groups.sh --bootstrap-server {self.connection.bootstrap} --group {self.options.group} "
            f"--topic {what} --reset-offsets"
        )

    def _stop_reading(self, place: Place, reason: str) -> None:
        topic, partition = place
        if place not in self.stalls:
            log.error("%s[%d]: %s", topic, partition, reason)
        self.stalls[place] = reason

    def _read(self, consumer: Consumer) -> list[Message]:
        """Fetch for an interval, and return the messages whose turn has come."""
        until = time.monotonic() + self._interval
        count = size = 0
        while True:
            begun = time.monotonic()
            left = until - begun
            fetched = consumer.consume(TAKE, max(0.0, left))
            self._listened += time.monotonic() - begun
            for message in fetched:
                error = message.error()
                if error is not None:
                    self._note_error((message.topic(), message.partition()), error)
                    continue
                count += 1
                size += self._merge.add(received(message, message.value()), self._listened)
            if left <= 0 or count >= BATCH_MESSAGES or size >= BATCH_BYTES:
                break
        self._note_ends(consumer)
        messages = self._merge.take(self.ends, self._listened, BATCH_MESSAGES, BATCH_BYTES)
        pause, resume = self._merge.turn(self._listened)
        if pause:
            consumer.pause([TopicPartition(*place) for place in pause])
        if resume:
            consumer.resume([TopicPartition(*place) for place in resume])
        return messages

    def _note_error(self, place: Place, error: KafkaError) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._merge.reach_end(place)
            return
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            position = self._merge.reach_end(place)  # what was fetched before is processed
            if position is not None:
                self._stall(place, f"the broker does not have offset {position} any more")
            return
        if heals(error):
            return
        where = place[0] if place[0] else ", ".join(self.inputs)
        raise BrokerError(f"{where} cannot be read: {error.str()}")

    def _process(
        self, consumer: Consumer, producer: TransactionalProducer, messages: Sequence[Message]
    ) -> TransactionalProducer:
        """Write the results of messages and the offsets after them. Return the producer to continue with."""
        try:
            with self.steps.time("map"):
                records = self.worker.handle(messages)
        except UnavailableError as error:
            if self.waits is None:
                log.warning("%s; trying again until it succeeds", error)
            self.waits = str(error)
            self._again(consumer)
            consumer.poll(TRY_AGAIN)  # nothing is assigned: it only keeps the membership
            return producer
        if self.waits is not None:
            log.info("processing resumed")
            self.waits = None
        held = self.worker.held()
        after = {(message.topic, message.partition): message.offset + 1 for message in messages}
        following = {place: held[place].offset if place in held else after[place] for place in sorted(after)}
        used = {place: offset for place, offset in following.items() if offset > self.positions[place]}
        offsets = [TopicPartition(*place, offset, self._ids[place[0]]) for place, offset in used.items()]
        try:
            with self.steps.time("commit"):
                if offsets:
                    producer.commit(records, Consumed(offsets, consumer.consumer_group_metadata()))
        except LostMembershipError as error:
            log.warning("%s; re-reading from the committed offsets", error)
            self._again(consumer)
            return producer
        except ReplacedError as error:
            log.warning("%s; opening a new producer", error)
            producer.close()
            self._again(consumer)
            return self._open()
        self.worker.committed()
        self.positions.update(used)
        self._hold(consumer, held, after.keys())
        return producer

    def _hold(self, consumer: Consumer, held: Mapping[Place, Held], read: Set[Place]) -> None:
        """Continue without the partitions that wait, and log which begin to wait, and which no longer do."""
        for place in [place for place in self.holds if place in read and place not in held]:
            del self.holds[place]
            log.info("%s[%d]: processing resumed", *place)
        for place, (_, reason) in held.items():
            if place not in self.holds and reason not in self.holds.values():  # registries word a reason in many ways
                log.warning("%s[%d]: %s; trying again until it succeeds", *place, reason)
            self.holds[place] = reason
            self._due[place] = time.monotonic() + HOLD
        if held:
            self._again(consumer)

    def _again(self, consumer: Consumer) -> None:
        """Read again from the committed offsets."""
        if self._fresh is None:
            self._fresh = [*dict.fromkeys([*self._merge, *self.stalls, *self.holds])]
        self._merge.begin({}, 0.0)
        self.settled = False
        consumer.assign([])

    def _note_ends(self, consumer: Consumer) -> None:
        for place in self._merge:
            bounds: Any = consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
            if bounds is not None and bounds[1] >= 0:
                self.ends[place] = bounds[1]
