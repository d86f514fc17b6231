"""Queries about a stage's topics and group, independent of the stage's consumer."""

import asyncio
import contextlib
import logging
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from glasstream.kafka.transport.connection import Connection

log = logging.getLogger(__name__)

#: Seconds between two reports.
LOOK_INTERVAL = 10.0
#: Seconds to wait for an answer.
ANSWER = 8.0
#: Number of consecutive reports that must agree before the stage acts, because leaders and owners change.
AGREE = 2

#: Largest number of reports to keep for each partition, to know since when a message waits.
_LOOKS = 360

Place = tuple[str, int]


@dataclass(frozen=True)
class Unknown:
    """Reason why something is unknown, and whether the cause is that brokers are down."""

    reason: str
    away: bool = False


@dataclass(frozen=True)
class Look:
    """Report of the brokers: their answers to one round of queries.

    Attributes
    ----------
    owners : mapping or Unknown
        Member of the group that owns each partition of the input.
    topics : mapping
        Id and number of partitions of each topic; None if the topic is missing. Unknown topics are omitted.
    ends : mapping
        Offset after the last record of each known partition, open transactions included.
    """

    owners: Mapping[int, str] | Unknown
    topics: Mapping[str, tuple[str, int] | None] = field(default_factory=dict)
    ends: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """Partition whose log was truncated at its end."""

    topic: str
    partition: int
    was: int
    now: int


class View:
    """Conclusions from the reports for a stage that reads one topic.

    Parameters
    ----------
    group, topic : str
        Consumer group, and its input.
    clock : callable
        Clock in seconds.
    """

    def __init__(self, group: str, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._group = group
        self._topic = topic
        self._clock = clock
        self._began = clock()
        self._looks: dict[int, deque[tuple[float, int]]] = {}
        """Times of the reports, and the ends of each partition of the input, oldest first."""
        self._most: dict[Place, int] = {}
        self._below: dict[Place, int] = {}
        self._id: str | None = None
        self._unready = 0
        self.ends: dict[int, int] = {}
        """End of each partition of the input."""
        self.unready: str | None = None
        """Reason why a partition of the input is not read; None while all partitions are read."""
        self.away: str | None = None
        """Reason why the group cannot be queried, because brokers are down; None while it can."""
        self.silent: str | None = None
        """Reason why nothing can be queried (neither the coordinator nor a leader answers); None while one answers."""
        self.remade: str | None = None
        """Message that the input was deleted and created again; None while it is the same topic."""
        self._released: str | None = None

    def release(self) -> None:
        """Note that the group takes back the partitions of this worker."""
        self._released = time.strftime("%H:%M:%S")

    @property
    def unsettled(self) -> str:
        """Reason why a worker without partitions is not ready."""
        if self._released is None:
            return "the worker has not taken over its partitions yet"
        return (
            f"the group took back the partitions of this worker at {self._released}, because another worker came or "
            "went, or because no broker answered for a session; the worker takes over partitions again by itself"
        )

    def see(self, look: Look) -> list[Cut]:
        """Process a report, and return the partitions whose log was truncated."""
        owners = look.owners
        self.away = owners.reason if isinstance(owners, Unknown) and owners.away else None
        silent, self.silent = self.silent, None if look.ends else self.away
        if self.silent is not None and silent is None:
            log.warning("brokers do not answer: %s; this worker waits and then continues by itself", self.silent)
        elif self.silent is None and silent is not None:
            log.info("connection to brokers restored")
        self._see_input(look)
        cuts = [cut for place, end in look.ends.items() if (cut := self._see_end(place, end)) is not None]
        ends = {partition: end for (topic, partition), end in look.ends.items() if topic == self._topic}
        self.ends.update(ends)
        for partition, end in ends.items():
            self._looks.setdefault(partition, deque(maxlen=_LOOKS)).append((self._clock(), end))
        return cuts

    def longest_wait(self, partition: int, offset: int) -> float:
        """Return how many seconds the next message to process can have waited, by the reports of the brokers.

        That is the time since the last report in which the message was not there, or since the first report. While the
        brokers report nothing, it is the time since this worker began.
        """
        looks = self._looks.get(partition)
        if not looks:
            return self._clock() - self._began
        while len(looks) > 1 and looks[1][1] <= offset:
            looks.popleft()
        return self._clock() - looks[0][0]

    def _see_input(self, look: Look) -> None:
        reason = None
        if self._topic in look.topics:
            described = look.topics[self._topic]
            if described is None:
                reason = f"the topic {self._topic} is missing: create it again (`glasstream topics create`)"
            else:
                found, count = described
                if self._id is not None and found != self._id:
                    self.remade = f"the topic was deleted and created again (its id was {self._id}, and is {found} now)"
                self._id = found
                if not isinstance(look.owners, Unknown):
                    unowned = sorted(set(range(count)) - look.owners.keys())
                    if unowned:
                        reason = (
                            f"partition {', '.join(map(str, unowned))} of {self._topic} has no owner in the group "
                            f"{self._group}: start a worker of this stage, or wait until a running one takes it over"
                        )
        self._unready = 0 if reason is None else self._unready + 1
        self.unready = reason if self._unready >= AGREE else None

    def _see_end(self, place: Place, end: int) -> Cut | None:
        most = self._most.get(place, end)
        if end >= most:
            self._most[place] = end
            self._below.pop(place, None)
            return None
        self._below[place] = self._below.get(place, 0) + 1
        if self._below[place] < AGREE:
            return None
        self._most[place] = end
        del self._below[place]
        return Cut(*place, most, end)


class GroupWatch:
    """Thread that queries topics, owners and ends, and passes each report to the stage.

    It sends three queries every `LOOK_INTERVAL` seconds, however much the stage reads, and waits at most `ANSWER`
    seconds for each answer.

    Parameters
    ----------
    connection : Connection
    group, topic : str
        Consumer group, and its input.
    topics : collection of str
        Topics whose ends are queried.
    on_look : callable
        Function that is called with every report, on the event loop that awaited `start`.
    interval : float
        Seconds between two reports.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        topic: str,
        topics: Collection[str],
        on_look: Callable[[Look], None],
        interval: float = LOOK_INTERVAL,
    ) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._topics = sorted(topics)
        self._on_look = on_look
        self._interval = interval
        self._counts: dict[str, int] = {}
        self._ending = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start the queries."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="group-watch", daemon=True).start()

    async def stop(self) -> None:
        """Stop the queries, without waiting for a running one."""
        self._ending.set()

    def _run(self) -> None:
        admin = AdminClient(self._connection.client())
        while not self._ending.wait(self._interval):
            look = self.look(admin)
            if isinstance(look.owners, Unknown) and look.owners.away:
                admin = AdminClient(self._connection.client())  # the old client may still ask a broker that is gone
            loop = self._loop
            if loop is None or loop.is_closed() or self._ending.is_set():
                return
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(self._on_look, look)

    def look(self, admin: AdminClient) -> Look:
        """Query the brokers once, blocking."""
        owners = owners_of(admin, self._group, self._topic)
        topics = topics_of(admin, self._topics)
        self._counts.update({name: found[1] for name, found in topics.items() if found is not None})
        places = [(name, number) for name, count in self._counts.items() for number in range(count)]
        return Look(owners, topics, ends_of(admin, places))


def owners_of(admin: AdminClient, group: str, topic: str) -> dict[int, str] | Unknown:
    """Return the member that owns each partition of a topic.

    Return `Unknown` while the group rebalances, or while its coordinator does not answer.

    This uses the older request. librdkafka's newer `describe_consumer_groups` ends the process by a failed assertion
    when a coordinator answers after the request has timed out (librdkafka issue 4605).
    """
    found = _described(admin, group)
    if isinstance(found, Unknown):
        return found
    if not found:
        return Unknown(f"no broker that answered knows the group {group}")
    members = [member for one in found for member in one.members]
    return {number: member.id for member in members for number in _assigned(member.assignment or b"", topic)}


def members_of(admin: AdminClient, group: str) -> int | Unknown:
    """Return the number of members of a group; 0 if no broker knows it, or if this client may not see it."""
    found = _described(admin, group)
    return found if isinstance(found, Unknown) else sum(len(one.members) for one in found)


def _described(admin: AdminClient, group: str) -> list[Any] | Unknown:
    """Return what the brokers say of a group; nothing if none of those that answer knows it."""
    try:
        found = list(admin.list_groups(group, ANSWER))
    except KafkaException as error:
        cause = error.args[0]
        # If one of several brokers is down, the client has the answers of the others but does not return them.
        # The embedded broker answers, but lists no groups.
        away = cause.code() not in (KafkaError._PARTIAL, KafkaError._UNSUPPORTED_FEATURE)
        return Unknown(f"the group {group} is unknown: {cause.str() or cause.name()}", away=away)
    return found if all(one.state in _SETTLED for one in found) else Unknown(f"the group {group} is rebalancing")


#: States of a group in which the owners are known. A former coordinator may report the group as dead, or omit it, and
#: librdkafka asks only the brokers that it knows.
_SETTLED = ("Stable", "Empty")
_COUNT = struct.Struct(">i")
_LENGTH = struct.Struct(">h")


def _assigned(assignment: bytes, topic: str) -> list[int]:
    """Return the partitions of a topic in a member's assignment.

    The format is `ConsumerProtocolAssignment` of the consumer protocol, in all its versions. It starts with the version
    (int16). A list of topics follows, each with its name (length as int16) and a list of partitions (int32). The length
    (int32) precedes each list.
    """
    found: list[int] = []
    if not assignment:
        return found
    at = _LENGTH.size
    (topics,) = _COUNT.unpack_from(assignment, at)
    at += _COUNT.size
    for _ in range(topics):
        (length,) = _LENGTH.unpack_from(assignment, at)
        name = assignment[at + _LENGTH.size : at + _LENGTH.size + length].decode()
        at += _LENGTH.size + length
        (count,) = _COUNT.unpack_from(assignment, at)
        at += _COUNT.size
        if name == topic:
            found += struct.unpack_from(f">{count}i", assignment, at)
        at += count * _COUNT.size
    return found


def topics_of(admin: AdminClient, topics: Iterable[str]) -> dict[str, tuple[str, int] | None]:
    """Return id and number of partitions of each topic, or None if it is missing. Omit unknown topics."""
    found: dict[str, tuple[str, int] | None] = {}
    for topic, future in admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER).items():
        try:
            described = future.result(ANSWER + 1.0)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                found[topic] = None
        except TimeoutError:
            continue
        else:
            found[topic] = str(described.topic_id), len(described.partitions)
    return found


def ends_of(admin: AdminClient, places: Iterable[Place]) -> dict[Place, int]:
    """Return the end of each partition with a single request. Omit unknown ends."""
    wanted = {TopicPartition(*place): OffsetSpec.latest() for place in places}
    if not wanted:
        return {}
    found = {}
    asked = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=ANSWER)
    for place, future in asked.items():
        try:
            end = int(future.result(ANSWER + 1.0).offset)
        except (KafkaException, TimeoutError):
            continue
        if end >= 0:  # without an answer from its leader a partition has -1001, not an error
            found[place.topic, place.partition] = end
    return found
