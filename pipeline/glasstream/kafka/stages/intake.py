"""The intake stage: maps messages of other topics to events and labels, and writes them to `events`, exactly once.

The messages of a transaction are mapped in the order in which `glasstream.kafka.transport.merge` hands them on, and the
events of each stream are packed into arrays in this order. Events of one stream therefore keep the order of their
source partition. The log of `events` fixes the order of those of several partitions.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import orjson

from glasstream.base.errors import BrokerError, FencedError, UnavailableError
from glasstream.base.sparse import logged
from glasstream.events.mapping.fields import Kind
from glasstream.events.mapping.formats import Documents, Format
from glasstream.events.mapping.mapper import Mapping as EventMapping
from glasstream.events.mapping.mapper import event_rules, label_rules, make_kinds
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.pack import Packer
from glasstream.events.message import Message, Rejections
from glasstream.flow.learner.dead_letters import DeadLetter, dead_letter, origin_only
from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.stages.names import known_state, topic
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.merge import Place
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.progress import read_to_end
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.relay import Held
from glasstream.kafka.transport.transactions import TransactionalProducer
from glasstream_topics import events, events_dead, progress_intake
from glasstream_topics.events_dead import Reason
from glasstream_topics.progress_intake import IntakeTypes

log = logging.getLogger(__name__)

Hold = Callable[[IntakeTypes], IntakeTypes]
"""Function that makes types durable, and returns those that are held: of two workers, the first one decides."""


@dataclass(slots=True, eq=False)
class _Source:
    """Source of events or of labels."""

    labels: bool
    format: Format
    mapping: EventMapping


@dataclass(slots=True)
class _Mapped:
    """What the messages of a transaction become."""

    streams: dict[str, Packer] = field(default_factory=dict)
    """Events and labels of each stream."""
    labels: int = 0
    """Number of labels among them."""
    skipped: int = 0
    """Number of documents that are neither by the conditions of the settings."""
    rejections: list[Rejections] = field(default_factory=list)
    """Rejections of each message in which something was rejected."""


class Intake:
    """Maps messages to records of `events` and `events.dead`.

    Parameters
    ----------
    settings
        Configuration.
    make_format
        Function that returns a format by its name.
    hold
        See `Hold`.
    """

    def __init__(self, settings: Settings, make_format: Callable[[str], Format], hold: Hold) -> None:
        self.settings = settings
        self.read: Counter[tuple[str, int]] = Counter()
        """Number of messages by topic and partition."""
        self.written: Counter[str] = Counter()
        """Number of events, of labels, and of skipped documents."""
        self.rejected: Counter[tuple[str, str, int]] = Counter()
        """Number of dead letters by reason, topic and partition."""
        self._hold = hold
        self._events = topic(settings, events.TOPIC.name)
        self._dead = topic(settings, events_dead.TOPIC.name)
        self._begun: set[str] = set()
        """Topics that are held as begun."""
        self._pending: tuple[Counter[tuple[str, int]], Counter[str], Counter[tuple[str, str, int]]] | None = None
        self._partitions: dict[str, int] = {}
        self._lines: list[str] = []
        intake, longest = settings.intake, settings.limits.stream_bytes
        self._sources: dict[str, list[_Source]] = {}
        """Sources of each topic, which have one format."""
        for labels, names in ((False, intake.sources), (True, intake.labels_sources)):
            if not names:
                continue
            kinds = make_kinds(intake, labels=labels)
            rules = label_rules(intake, longest) if labels else event_rules(intake, longest)
            name = intake.labels_format if labels and intake.labels_format is not None else intake.format
            source = _Source(labels, make_format(name), EventMapping(rules, kinds))
            for each in names:
                self._sources.setdefault(each, []).append(source)

    @property
    def kinds(self) -> Mapping[bool, Mapping[str, Kind]]:
        """Types of the fields of events (False) and labels (True) that are known."""
        return {source.labels: source.mapping.kinds.all for source in self._distinct()}

    def _distinct(self) -> list[_Source]:
        return [*{id(one): one for sources in self._sources.values() for one in sources}.values()]

    def handle(self, messages: Sequence[Message]) -> list[ProducerRecord]:
        """Return the records for messages: see `glasstream.kafka.transport.relay.Worker`."""
        self._lines = []
        for source in self._distinct():
            if not source.format.prepares:
                continue
            source.format.prepare(
                [
                    (message.topic, message.value)
                    for message in messages
                    if self._sources[message.topic][0] is source
                    and message.value is not None
                    and self._fits(message.value)
                ]
            )
        try:
            mapped = self._map(messages)
        except KeyError:
            self._infer(messages)
            mapped = self._map(messages)
        return self._records(messages, mapped)

    def held(self) -> Mapping[Place, Held]:
        """Return no partition: see `glasstream.kafka.transport.relay.Worker`."""
        return {}

    def committed(self) -> None:
        """Count the records that `handle` returned last, and log some of the rejections among them."""
        if self._pending is not None:
            read, written, rejected = self._pending
            self.read.update(read)
            self.written.update(written)
            self.rejected.update(rejected)
            self._pending = None
            for line in self._lines:
                log.warning("%s", line)
            self._note_begun({name for name, _ in read})

    def _note_begun(self, names: Set[str]) -> None:
        """Hold that these topics have been begun. A later commit tries again if brokers do not answer."""
        if names <= self._begun:
            return
        try:
            self._hold(IntakeTypes({}, {}, tuple(sorted(names))))
        except UnavailableError as error:
            log.warning("%s; trying again with the next messages", error)
        else:
            self._begun |= names

    def _fits(self, value: bytes) -> bool:
        return len(value) <= self.settings.limits.message_bytes

    def _documents(self, reader: Format, message: Message) -> tuple[Documents, bool]:
        value, limit = message.value, self.settings.limits.message_bytes
        if value is None:
            raise Misfit(Reason.NULL_MESSAGE, _NULL)
        if not self._fits(value):
            raise Misfit(Reason.TOO_LARGE, f"expected at most {limit} bytes (limits.message_bytes), got {len(value)}")
        return reader.read(message.topic, value)

    def _map(self, messages: Sequence[Message]) -> _Mapped:
        """Return the events of messages, and what is rejected. Raise KeyError for an unknown type.

        Each event is encoded and packed at once. If the events of a transaction were kept as objects, Python's garbage
        collector would visit them again and again, which takes as long as the mapping.
        """
        mapped = _Mapped()
        for message in messages:
            sources = self._sources[message.topic]
            try:
                documents, several = self._documents(sources[0].format, message)
            except Misfit as misfit:
                self._reject(mapped, message, None, misfit)
                continue
            for index, document in enumerate(documents):
                source = sources[0]
                if source.mapping.rules.where and not isinstance(document, Misfit):
                    found = [one for one in sources if one.mapping.selects(document)]
                    if not found:
                        mapped.skipped += 1
                        continue
                    if len(found) > 1:
                        self._reject(mapped, message, index if several else None, Misfit(Reason.BAD_TARGET, _BOTH))
                        continue
                    source = found[0]
                try:
                    stream, event = self._event(source, document, message, index if several else None)
                except Misfit as misfit:
                    self._reject(mapped, message, index if several else None, misfit)
                    continue
                packer = mapped.streams.get(stream)
                if packer is None:
                    packer = mapped.streams[stream] = Packer(
                        self.settings.limits.message_bytes, self.settings.intake.batch
                    )
                packer.add(event)
                mapped.labels += source.labels
        return mapped

    def _event(
        self, source: _Source, document: dict[str, Any] | Misfit, message: Message, index: int | None
    ) -> tuple[str, bytes]:
        """Return the stream and the encoded event of a document."""
        if isinstance(document, Misfit):
            raise document
        stream, event = source.mapping.map(document, message)
        if index is not None and source.mapping.by_place:
            event["id"] = f"{event['id']}#{index}"
        encoded, limit = orjson.dumps(event), self.settings.limits.message_bytes
        if len(encoded) > limit:
            raise Misfit(
                Reason.TOO_LARGE, f"expected an event of at most {limit} bytes (limits.message_bytes), got more"
            )
        return stream, encoded

    def _reject(self, mapped: _Mapped, message: Message, index: int | None, misfit: Misfit) -> None:
        if not mapped.rejections or mapped.rejections[-1].message is not message:
            mapped.rejections.append(Rejections(message, self.settings.epoch))
        mapped.rejections[-1].add(index, misfit.reason, misfit.detail)

    def _infer(self, messages: Sequence[Message]) -> None:
        """Infer the types of new fields, and hold them."""
        limit = self.settings.limits.features
        proposed: dict[bool, Mapping[str, Kind]] = {False: {}, True: {}}
        for source in self._distinct():
            values = (
                pair
                for message in messages
                if source in self._sources[message.topic]
                for document in self._readable(source, message)
                for pair in source.mapping.values(document)
            )
            proposed[source.labels] = source.mapping.kinds.inferred(values, limit)
        held = self._hold(IntakeTypes(_texts(proposed[False]), _texts(proposed[True])))
        for source in self._distinct():
            found = held.labels if source.labels else held.events
            new = [f"{field!r} {kind}" for field, kind in found.items() if field not in source.mapping.kinds.fixed]
            if new:
                more = f" and {len(new) - _NAMED:,} more" if len(new) > _NAMED else ""
                log.info(
                    "inferred types of fields: %s%s (to change them, set intake.types)",
                    ", ".join(new[:_NAMED]),
                    more,
                )
            source.mapping.kinds.fix({field: Kind(kind) for field, kind in found.items()})
            source.mapping.kinds.full = limit

    def _readable(self, source: _Source, message: Message) -> list[dict[str, Any]]:
        """Return the documents of a message that can be read and are of this source."""
        try:
            documents, _ = self._documents(source.format, message)
        except Misfit:
            return []
        return [one for one in documents if not isinstance(one, Misfit) and source.mapping.selects(one)]

    def _records(self, messages: Sequence[Message], mapped: _Mapped) -> list[ProducerRecord]:
        records: list[ProducerRecord] = []
        for stream, packer in mapped.streams.items():
            key = stream.encode("utf-8", "surrogatepass")
            where = self._partition(stream, key)
            records += [ProducerRecord(self._events, key, value, where) for value in packer.messages()]
        rejected: Counter[tuple[str, str, int]] = Counter()
        records += self._letters(mapped.rejections, rejected)
        read = Counter([(message.topic, message.partition) for message in messages])
        count = sum(packer.count for packer in mapped.streams.values())
        self._pending = (
            read,
            Counter(events=count - mapped.labels, labels=mapped.labels, skipped=mapped.skipped),
            rejected,
        )
        return records

    def _letters(
        self, rejections: Sequence[Rejections], counts: Counter[tuple[str, str, int]]
    ) -> Iterator[ProducerRecord]:
        """Yield one dead letter for each message of which something was rejected."""
        for one in rejections:
            letter, origin = dead_letter(one, self.settings.limits.dead_bytes), one.message
            first = one.found[0]
            counts[first.reason, origin.topic, origin.partition] += 1
            total = (
                counts[first.reason, origin.topic, origin.partition]
                + self.rejected[first.reason, origin.topic, origin.partition]
            )
            if logged(total):
                self._lines.append(
                    f"rejected {origin.topic}[{origin.partition}]@{origin.offset}, {first.reason} ({total} so far): "
                    f"{first.detail}"
                )
            where = origin.partition % self.settings.topics.events
            yield ProducerRecord(
                self._dead, letter.key, letter.value, where, letter.headers, partial(self._origin, letter, where)
            )

    def _origin(self, letter: DeadLetter, where: int) -> ProducerRecord:
        """Return a letter without the original message, for a broker that refuses the whole letter for its size."""
        short = origin_only(letter)
        return ProducerRecord(self._dead, short.key, short.value, where, short.headers)

    def _partition(self, stream: str, key: bytes) -> int:
        found = self._partitions.get(stream)
        if found is None:
            if len(self._partitions) >= _REMEMBERED:
                self._partitions.clear()
            found = events.partition(key, self.settings.topics.events, self.settings.topics.partitioner)
            self._partitions[stream] = found
        return found

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of this worker."""
        for (name, partition), count in list(self.read.items()):
            yield Sample(catalogue.INTAKE_MESSAGES, count, (name, str(partition)))
        for kind in ("events", "labels", "skipped"):
            yield Sample(catalogue.INTAKE_EVENTS, self.written[kind], (kind,))
        for (reason, name, partition), count in list(self.rejected.items()):
            yield Sample(catalogue.DEAD_LETTERS, count, (reason, f"{name}[{partition}]"))


_BOTH = "expected an event or a label, got a document that satisfies both intake.where and intake.labels_where"
_NULL = (
    "expected a message with content, got a null message, which marks a deleted key; on a compacted topic, such dead "
    "letters are normal"
)
_NAMED = 50
"""Largest number of new fields in a line of the log."""
_REMEMBERED = 10_000
"""Largest number of streams whose partitions are remembered."""


def _texts(kinds: Mapping[str, Kind]) -> dict[str, progress_intake.Kind]:
    return {field: cast("progress_intake.Kind", kind.value) for field, kind in kinds.items()}


class HeldTypes:
    """Types on the topic `progress.intake`, which all workers of the stage share.

    Parameters
    ----------
    connection, options
        Connection to the brokers, and names of this worker.
    name
        Full name of the topic.
    """

    def __init__(self, connection: Connection, options: StageOptions, name: str) -> None:
        self._connection = connection
        self._options = options
        self._name = name

    def topics(self) -> Collection[str]:
        """Return the topics that the group has begun to read.

        Raises
        ------
        UnavailableError
            Brokers do not answer.
        """
        with known_state(f"{self._name}[0]"):
            return progress_intake.restore(read_to_end(self._connection, self._name, 0, _LOCK_SECONDS)).topics

    def __call__(self, proposed: IntakeTypes) -> IntakeTypes:
        """Hold the proposed types of all fields that have none yet, and return the types of all fields.

        A producer of one name for all workers is the lock: opening it fences every other worker that is about to
        write, which then begins again.

        Raises
        ------
        UnavailableError
            Brokers do not answer, or other workers always come first.
        BrokerError
            The broker refuses.
        """
        for _ in range(_ROUNDS):
            producer = TransactionalProducer(
                self._connection, f"{self._options.group}.types", _LOCK_SECONDS, timeout=_LOCK_SECONDS
            )
            try:
                producer.open(_LOCK_SECONDS)
                with known_state(f"{self._name}[0]"):
                    found = progress_intake.restore(read_to_end(self._connection, self._name, 0, _LOCK_SECONDS))
                wanted = IntakeTypes(
                    {**proposed.events, **found.events},
                    {**proposed.labels, **found.labels},
                    tuple(sorted({*proposed.topics, *found.topics})),
                )
                if wanted != found:
                    key, value = progress_intake.encode(wanted)
                    producer.commit([ProducerRecord(self._name, key, value, 0)])
            except FencedError:
                continue
            except BrokerError as error:
                raise UnavailableError(f"cannot store the types of fields on {self._name}: {error}") from error
            else:
                return wanted
            finally:
                producer.close()
        raise UnavailableError(f"cannot store the types of fields on {self._name}: other workers keep writing there")


_ROUNDS = 20
_LOCK_SECONDS = 15.0
