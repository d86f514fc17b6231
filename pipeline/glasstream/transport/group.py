"""Questions to the brokers about a stage's topics and group, asked independently of its reading."""

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from glasstream.transport.connection import Connection

#: Seconds between two reports.
LOOK_INTERVAL = 10.0
#: Seconds for an answer.
ANSWER = 8.0
#: Reports that must agree before the stage acts on them: leaders and owners change.
AGREE = 2

Place = tuple[str, int]


@dataclass(frozen=True)
class Unknown:
    """Why something is not known, and whether that is because brokers are away."""

    reason: str
    away: bool = False


@dataclass(frozen=True)
class Look:
    """A report of the brokers: their answers to one round of questions.

    Attributes
    ----------
    owners : mapping or Unknown
        The member of the group that owns each partition of the input.
    topics : mapping
        Id and number of partitions of each topic; None for one that is missing. Topics not known are left out.
    ends : mapping
        The offset after the last record of each partition that is known, open transactions included.
    """

    owners: Mapping[int, str] | Unknown
    topics: Mapping[str, tuple[str, int] | None] = field(default_factory=dict)
    ends: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """A partition whose log has lost its end."""

    topic: str
    partition: int
    was: int
    now: int


class View:
    """What the reports mean for a stage that reads one topic.

    Parameters
    ----------
    group, topic : str
        The consumer group and its input.
    """

    def __init__(self, group: str, topic: str) -> None:
        self._group = group
        self._topic = topic
        self._most: dict[Place, int] = {}
        self._below: dict[Place, int] = {}
        self._id: str | None = None
        self._unready = 0
        self.ends: dict[int, int] = {}
        """The end of each partition of the input."""
        self.unready: str | None = None
        """Why a partition of the input is read by nobody; None while all of them are read."""
        self.away: str | None = None
        """Why the group cannot be asked, because brokers are away; None while it can."""
        self.silent: str | None = None
        """Why nothing can be asked: neither the group's coordinator nor a leader answers; None while one does."""
        self.remade: str | None = None
        """Says that the input was deleted and made anew; None while it is still the same topic."""

    def see(self, look: Look) -> list[Cut]:
        """Take in a report, and return the partitions whose log has lost its end."""
        owners = look.owners
        self.away = owners.reason if isinstance(owners, Unknown) and owners.away else None
        self.silent = None if look.ends else self.away
        self._see_input(look)
        cuts = [cut for place, end in look.ends.items() if (cut := self._see_end(place, end)) is not None]
        self.ends.update({partition: end for (topic, partition), end in look.ends.items() if topic == self._topic})
        return cuts

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
    """A thread that asks about topics, owners and ends, and hands each report to the stage.

    It asks three things every `LOOK_INTERVAL` seconds, however much the stage reads, and waits at most `ANSWER`
    seconds for an answer.

    Parameters
    ----------
    connection : Connection
    group, topic : str
        The consumer group, and its input.
    topics : collection of str
        The topics whose ends are asked for.
    on_look : callable
        Called with every look, on the event loop that `start` was awaited on.
    interval : float
        Seconds between two looks.
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
        """Begin to ask."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="group-watch", daemon=True).start()

    async def stop(self) -> None:
        """Ask no more; a request under way is not waited for."""
        self._ending.set()

    def _run(self) -> None:
        admin = AdminClient(self._connection.client())
        while not self._ending.wait(self._interval):
            look = self.look(admin)
            if isinstance(look.owners, Unknown) and look.owners.away:
                admin = AdminClient(self._connection.client())  # the old one may go on asking who is gone
            loop = self._loop
            if loop is None or loop.is_closed() or self._ending.is_set():
                return
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                loop.call_soon_threadsafe(self._on_look, look)

    def look(self, admin: AdminClient) -> Look:
        """Ask the brokers once, blocking."""
        owners = owners_of(admin, self._group, self._topic)
        topics = topics_of(admin, self._topics)
        self._counts.update({name: found[1] for name, found in topics.items() if found is not None})
        places = [(name, number) for name, count in self._counts.items() for number in range(count)]
        return Look(owners, topics, ends_of(admin, places))


def owners_of(admin: AdminClient, group: str, topic: str) -> dict[int, str] | Unknown:
    """Return the member that owns each partition of a topic.

    That is not known while the group rebalances, or while no broker that answers is its coordinator.

    librdkafka's newer `describe_consumer_groups` ends the process by a failed assertion when a coordinator answers
    after its request has timed out (librdkafka issue 4605), so this asks by the older request.
    """
    try:
        found = admin.list_groups(group, ANSWER)
    except KafkaException as error:
        cause = error.args[0]
        # With one of several brokers away the others' answer is there, and not handed out.
        return Unknown(f"the group {group} is unknown: {cause.str()}", away=cause.code() != KafkaError._PARTIAL)
    if not found:
        return Unknown(f"no broker that answered knows the group {group}")
    members = [member for one in found for member in one.members]
    if any(one.state not in _SETTLED for one in found):
        return Unknown(f"the group {group} is rebalancing")
    return {number: member.id for member in members for number in _assigned(member.assignment or b"", topic)}


#: States of a group in which it is known who owns what. A broker that does not coordinate a group any more may call it
#: dead, or not list it at all, and librdkafka asks only the brokers that it knows.
_SETTLED = ("Stable", "Empty")
_COUNT = struct.Struct(">i")
_LENGTH = struct.Struct(">h")


def _assigned(assignment: bytes, topic: str) -> list[int]:
    """Return the partitions of a topic in a member's assignment.

    The consumer protocol's `ConsumerProtocolAssignment`, all versions: version (int16), then for each topic its name
    (length as int16) and its partitions (int32), both lists with their length (int32) before them.
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
    """Return id and number of partitions of each topic, None where it is missing; leave out what is not known."""
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
    """Return the end of each partition, all by one request; leave out what is not known."""
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
        if end >= 0:  # a leader that did not answer is no error here: its partitions have -1001
            found[place.topic, place.partition] = end
    return found
