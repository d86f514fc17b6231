"""The intake stage: maps messages of other topics to events and labels, and writes them to `events`, exactly once.

The messages of a transaction are mapped in the order of their arrival, and the events of each stream are packed into
arrays in this order. Events of one stream therefore keep the order of their source partition. Events of several
partitions follow each other as they arrive, and the log of `events` fixes that order.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from glasstream.errors import BrokerError, FencedError, UnavailableError
from glasstream.health import catalogue
from glasstream.health.catalogue import Sample
from glasstream.ingest.message import Message, Rejections
from glasstream.intake.fields import Kind
from glasstream.intake.formats import Documents, Format
from glasstream.intake.mapping import Mapping as EventMapping
from glasstream.intake.mapping import Origin, event_rules, label_rules, make_kinds
from glasstream.intake.misfit import Misfit
from glasstream.intake.pack import pack
from glasstream.learn.dead_letters import DeadLetter, dead_letter, origin_only
from glasstream.settings import Settings
from glasstream.stages.names import known_state, topic
from glasstream.transport.connection import Connection
from glasstream.transport.options import StageOptions
from glasstream.transport.progress import read_to_end
from glasstream.transport.records import ProducerRecord
from glasstream.transport.relay import SourceMessage
from glasstream.transport.transactions import TransactionalProducer
from glasstream_topics import events, events_dead, progress_intake
from glasstream_topics.events_dead import Reason
from glasstream_topics.progress_intake import IntakeTypes

log = logging.getLogger(__name__)

Hold = Callable[[IntakeTypes], IntakeTypes]
"""Function that makes types durable, and returns those that are held: of two workers, the first one decides."""


@dataclass(slots=True)
class _Source:
    """Source of events or of labels."""

    labels: bool
    format: Format
    mapping: EventMapping


@dataclass(slots=True)
class _Item:
    """One document of a message, or the reason why it is none."""

    message: SourceMessage
    index: int | None
    source: _Source
    document: dict[str, object] | Misfit


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
        """Number of events and of labels."""
        self.rejected: Counter[tuple[str, str, int]] = Counter()
        """Number of dead letters by reason, topic and partition."""
        self._hold = hold
        self._events = topic(settings, events.TOPIC.name)
        self._dead = topic(settings, events_dead.TOPIC.name)
        self._pending: tuple[Counter[tuple[str, int]], Counter[str], Counter[tuple[str, str, int]]] | None = None
        self._partitions: dict[str, int] = {}
        self._lines: list[str] = []
        intake, longest = settings.intake, settings.limits.stream_bytes
        self._sources: dict[str, _Source] = {}
        for labels, names in ((False, intake.sources), (True, intake.labels_sources)):
            if not names:
                continue
            kinds = make_kinds(intake, labels=labels)
            rules = label_rules(intake, longest) if labels else event_rules(intake, longest)
            name = intake.labels_format if labels and intake.labels_format is not None else intake.format
            source = _Source(labels, make_format(name), EventMapping(rules, kinds))
            self._sources.update(dict.fromkeys(names, source))

    @property
    def kinds(self) -> Mapping[bool, Mapping[str, Kind]]:
        """Types of the fields of events (False) and labels (True) that are known."""
        return {source.labels: source.mapping.kinds.all for source in self._sources.values()}

    def handle(self, messages: Sequence[SourceMessage]) -> list[ProducerRecord]:
        """Return the records for messages: see `glasstream.transport.relay.Worker`."""
        items = [item for message in messages for item in self._items(message)]
        self._lines = []
        try:
            mapped = self._map(items)
        except KeyError:
            self._infer(items)
            mapped = self._map(items)
        return self._records(messages, items, mapped)

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

    def _items(self, message: SourceMessage) -> Iterator[_Item]:
        source = self._sources[message.topic]
        try:
            documents, several = self._documents(source, message)
        except Misfit as misfit:
            yield _Item(message, None, source, misfit)
            return
        for index, document in enumerate(documents):
            yield _Item(message, index if several else None, source, document)

    def _documents(self, source: _Source, message: SourceMessage) -> tuple[Documents, bool]:
        value, limit = message.value, self.settings.limits.message_bytes
        if value is None:
            raise Misfit(Reason.NULL_MESSAGE, "expected a message with content, got a null message")
        if len(value) > limit:
            raise Misfit(Reason.TOO_LARGE, f"expected at most {limit} bytes (limits.message_bytes), got {len(value)}")
        return source.format.read(message.topic, value)

    def _map(self, items: Sequence[_Item]) -> list[tuple[str, dict[str, object]] | Misfit]:
        """Return the stream and the event of each item, or why it has none. Raise KeyError for an unknown type."""
        mapped: list[tuple[str, dict[str, object]] | Misfit] = []
        origin, last = None, None
        for item in items:
            document, message = item.document, item.message
            if isinstance(document, Misfit):
                mapped.append(document)
                continue
            if message is not last:
                last = message
                origin = Origin(message.topic, message.partition, message.offset, message.key, message.timestamp)
            assert origin is not None
            try:
                stream, event = item.source.mapping.map(document, origin)
            except Misfit as misfit:
                mapped.append(misfit)
                continue
            if item.index is not None and type(event.get("id")) is str and item.source.mapping.by_place:
                event["id"] = f"{event['id']}#{item.index}"
            mapped.append((stream, event))
        return mapped

    def _infer(self, items: Sequence[_Item]) -> None:
        """Infer the types of new fields, and hold them."""
        limit = self.settings.limits.features
        proposed: dict[bool, Mapping[str, Kind]] = {False: {}, True: {}}
        for source in {id(one): one for one in self._sources.values()}.values():
            values = (
                pair
                for item in items
                if item.source is source and not isinstance(item.document, Misfit)
                for pair in source.mapping.values(item.document)
            )
            proposed[source.labels] = source.mapping.kinds.inferred(values, limit)
        held = self._hold(IntakeTypes(_texts(proposed[False]), _texts(proposed[True])))
        for source in self._sources.values():
            found = held.labels if source.labels else held.events
            source.mapping.kinds.hold({field: Kind(kind) for field, kind in found.items()})
            source.mapping.kinds.full = limit

    def _records(
        self,
        messages: Sequence[SourceMessage],
        items: Sequence[_Item],
        mapped: Sequence[tuple[str, dict[str, object]] | Misfit],
    ) -> list[ProducerRecord]:
        streams: dict[str, list[tuple[int, dict[str, object]]]] = {}
        misfits: dict[int, Misfit] = {}
        for number, found in enumerate(mapped):
            if isinstance(found, Misfit):
                misfits[number] = found
            else:
                streams.setdefault(found[0], []).append((number, found[1]))
        records: list[ProducerRecord] = []
        limit = self.settings.limits.message_bytes
        for stream, content in streams.items():
            key = stream.encode("utf-8", "surrogatepass")
            for packed in pack(content, limit):
                if isinstance(packed, int):
                    misfits[packed] = Misfit(
                        Reason.TOO_LARGE, f"expected an event of at most {limit} bytes (limits.message_bytes), got more"
                    )
                else:
                    records.append(ProducerRecord(self._events, key, packed.value, self._partition(stream, key)))
        rejected: Counter[tuple[str, str, int]] = Counter()
        records += self._letters(items, misfits, rejected)
        read = Counter([message[:2] for message in messages])
        made = Counter(events=len(items) - len(misfits))
        if self.settings.intake.labels_sources:
            labels = sum(item.source.labels and number not in misfits for number, item in enumerate(items))
            made.update(events=-labels, labels=labels)
        self._pending = read, made, rejected
        return records

    def _letters(
        self, items: Sequence[_Item], misfits: Mapping[int, Misfit], counts: Counter[tuple[str, str, int]]
    ) -> Iterator[ProducerRecord]:
        """Yield one dead letter for each message of which something was rejected."""
        together: dict[int, Rejections] = {}
        for number in sorted(misfits):
            item, misfit = items[number], misfits[number]
            message = item.message
            rejections = together.get(id(message))
            if rejections is None:
                origin = Message(
                    message.topic, message.partition, message.offset, message.key, message.value, message.timestamp
                )
                rejections = together[id(message)] = Rejections(origin, self.settings.epoch)
            rejections.add(item.index, misfit.reason, misfit.detail)
        for rejections in together.values():
            letter, origin = dead_letter(rejections, self.settings.limits.dead_bytes), rejections.message
            first = rejections.found[0]
            counts[first.reason, origin.topic, origin.partition] += 1
            total = (
                counts[first.reason, origin.topic, origin.partition]
                + self.rejected[first.reason, origin.topic, origin.partition]
            )
            if str(total).strip("0") == "1":
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
        for kind in ("events", "labels"):
            yield Sample(catalogue.INTAKE_EVENTS, self.written[kind], (kind,))
        for (reason, name, partition), count in list(self.rejected.items()):
            yield Sample(catalogue.DEAD_LETTERS, count, (reason, f"{name}[{partition}]"))


_REMEMBERED = 10_000
"""Largest number of streams whose partitions are remembered."""


def _texts(kinds: Mapping[str, Kind]) -> dict[str, progress_intake.Kind]:
    return {field: kind.value for field, kind in kinds.items()}


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
                wanted = IntakeTypes({**proposed.events, **found.events}, {**proposed.labels, **found.labels})
                if wanted != found:
                    key, value = progress_intake.encode(wanted)
                    producer.commit([ProducerRecord(self._name, key, value, 0)])
            except FencedError:
                continue
            except BrokerError as error:
                raise UnavailableError(f"cannot hold the types of fields on {self._name}: {error}") from error
            else:
                return wanted
            finally:
                producer.close()
        raise UnavailableError(
            f"cannot hold the types of fields on {self._name}: other workers write there all the time"
        )


_ROUNDS = 20
_LOCK_SECONDS = 15.0
