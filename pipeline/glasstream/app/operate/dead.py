"""Read dead letters and send them to `events` again, each only once unless forced."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from glasstream.app.operate.repair import Letter, Repaired, RepairFunction, Unrepaired, repair
from glasstream.app.operate.topic_reader import STANDSTILL_SECONDS, Partition, offsets, read_records
from glasstream.base.errors import RecordError
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import Connection, connection
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.topic_check import partition_count
from glasstream.kafka.transport.transactions import TransactionalProducer
from glasstream_topics import events, events_dead

_BATCH = 200
"""Number of messages per transaction."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of dead letters by stream, by reason (of the message or of one of its elements), and by place."""

    stream: str | None = None
    reason: str | None = None
    places: Sequence[tuple[int, int]] = ()

    def fits(self, letter: Letter) -> bool:
        """Return whether the selection includes a letter."""
        reasons = {letter.headers.reason, *(why for _, why in letter.headers.rejected or ())}
        return (
            (self.stream is None or letter.stream == self.stream)
            and (self.reason is None or self.reason in reasons)
            and (not self.places or (letter.partition, letter.offset) in self.places)
        )


def letters(settings: Settings, wanted: Wanted, foreign: Callable[[str], None]) -> Generator[Letter, None, None]:
    """Yield the dead letters on the topic, partition by partition.

    Parameters
    ----------
    foreign
        Called with a message for each record that is not a dead letter.
    """
    name = topic(settings, events_dead.TOPIC.name)
    link = connection(settings)
    ends = offsets(link, _partitions(link, name))
    for one, (_, end) in sorted(ends.items()):
        for message in read_records(link, {one: 0}, read_committed=True):
            if message.offset >= end:
                break  # sent again in the meantime
            try:
                said = events_dead.decode(message.headers)
            except RecordError as error:
                foreign(f"skipping {message.place}: {error}")
                continue
            letter = Letter(name, message.partition, message.offset, message.key, message.value, said)
            if wanted.fits(letter):
                yield letter


def _partitions(link: Connection, name: str) -> list[Partition]:
    """Return the partitions of a topic, however many the settings say."""
    return [(name, partition) for partition in range(partition_count(link, name))]


@dataclass(slots=True)
class Replayed:
    """Result of a replay.

    Attributes
    ----------
    letters, events
        Number of letters that were sent, and of the events in them.
    before
        Number of letters that had been sent again earlier.
    left
        Number of letters of which nothing was sent, by reason.
    lines
        One line for each letter of which nothing was sent.
    """

    letters: int = 0
    events: int = 0
    before: int = 0
    left: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)


def replay(
    settings: Settings,
    chosen: Iterable[Letter],
    function: RepairFunction | None,
    *,
    to: str | None = None,
    force: bool = False,
    dry: bool = False,
) -> Replayed:
    """Send dead letters to `events` again.

    1. Fence every other replay under this prefix, so that it can send nothing more. 2. Skip the letters whose position
    appears in the header of a record on `events`: they have been sent before. 3. Repair the other letters and send them
    in transactions, each with its position in the header. A later replay therefore completes one that was interrupted.

    Parameters
    ----------
    chosen
        The dead letters.
    function, to
        See `glasstream.app.operate.repair.repair`.
    force
        Whether to send letters again that have been sent before.
    dry
        Whether to count only, and send nothing.

    Raises
    ------
    InputError
        The filter raised an error. Letters that were sent before stay sent.
    BrokerError, FencedError
        The letters cannot be sent.
    """
    link, name, count = connection(settings), topic(settings, events.TOPIC.name), settings.topics.events
    done = Replayed()
    producer = TransactionalProducer(link, f"{settings.prefix}dead.replay")
    try:
        if not dry:
            producer.open(STANDSTILL_SECONDS)
        sent = set() if force else _sent(settings)
        rest = iter(chosen)
        while batch := list(islice(rest, _BATCH)):
            records: list[ProducerRecord] = []
            held = 0
            for letter in batch:
                if letter.place in sent:
                    done.before += 1
                    continue
                outcome = repair(letter, function, settings, to)
                if isinstance(outcome, Unrepaired):
                    done.left[outcome.reason] += 1
                    done.lines.append(f"{letter.place}: {outcome.reason}: {outcome.detail}")
                    continue
                held += outcome.count
                records.append(_record(name, count, settings.topics.partitioner, letter, outcome))
            if records and not dry:
                producer.commit(records)
            done.letters += len(records)
            done.events += held
    finally:
        producer.close()
    return done


def _record(name: str, partitions: int, partitioner: str, letter: Letter, outcome: Repaired) -> ProducerRecord:
    partition = events.partition(outcome.key, partitions, partitioner)
    header = (events_dead.REPLAYED, letter.place.encode())
    return ProducerRecord(name, outcome.key, outcome.value, partition, (header,))


def _sent(settings: Settings) -> set[str]:
    """Return the places of the dead letters that have been sent again according to `events`."""
    name = topic(settings, events.TOPIC.name)
    link = connection(settings)
    return {
        text.decode("utf-8", "backslashreplace")
        for message in read_records(link, dict.fromkeys(_partitions(link, name), 0), read_committed=True)
        for header, text in message.headers
        if header == events_dead.REPLAYED
    }
