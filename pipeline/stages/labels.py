"""The forwarder: messages of `labels` go, as they are, to the same partition of `events`.

The order that it gives them there is from then on the log's. What it has moved and how far it is become durable in one
transaction, so that each is moved once. It looks into none: what is no label is for the learner to reject.
"""

from collections.abc import Iterable, Iterator, Mapping

from pipeline.errors import LostInputError
from pipeline.health import catalogue
from pipeline.health.catalogue import Sample
from pipeline.settings import Settings
from pipeline.stages.names import known_state, topic
from pipeline.transport.records import Message, Outputs, Record
from topics import events, labels, progress_labels


class LabelsPartition:
    """What the stage keeps for one partition of `labels`.

    Parameters
    ----------
    partition
        Its number.
    settings
        The configuration.
    """

    def __init__(self, partition: int, settings: Settings) -> None:
        self.partition = partition
        self.settings = settings
        self.moved = 0
        """Messages, by this worker."""
        self._events = topic(settings, events.TOPIC.name)
        self._next_offset = self._sent_offset = 0
        self._records: list[Record] = []

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        """Go on where the predecessor committed.

        Raises
        ------
        StateError
            The state cannot be read, or what comes next is gone.
        """
        where = f"{topic(self.settings, progress_labels.TOPIC.name)}[{self.partition}]"
        with known_state(where):
            found = progress_labels.restore(records)
        start = low if found is None else found.offset
        if start < low:
            raise LostInputError(
                f"{where}: expected to go on at offset {start} of {topic(self.settings, labels.TOPIC.name)}"
                f"[{self.partition}], but the broker keeps it from {low} on: labels were lost before they were moved; "
                f"to go on without them delete {topic(self.settings, progress_labels.TOPIC.name)} and make it anew "
                "(`glasstream topics create`), and lengthen the retention of the topic"
            )
        self._next_offset = self._sent_offset = start
        return start

    async def feed(self, message: Message) -> None:
        """Move one message."""
        self._records.append(Record(self._events, message.key, message.value, self.partition, message.headers))
        self._next_offset = message.offset + 1
        self.moved += 1

    def pending(self) -> int:
        """Messages that wait to be sent."""
        return len(self._records)

    def collect(self) -> Outputs:
        """The messages since the last time, and the position as of them."""
        if self._next_offset == self._sent_offset:
            return Outputs()
        self._sent_offset = self._next_offset
        records, self._records = self._records, []
        key, value = progress_labels.encode(progress_labels.PartitionProgress(offset=self._sent_offset))
        return Outputs(records=records, progress=[Record("", key, value)])

    def committed(self) -> None:
        """Nothing to do: what was collected is durable."""

    def dropped(self) -> None:
        """Nothing is held."""


def samples(partitions: Iterable[LabelsPartition]) -> Iterator[Sample]:
    """Metrics of a worker."""
    for partition in partitions:
        yield Sample(catalogue.LABELS_MOVED, partition.moved, (str(partition.partition),))


def needed_topics(settings: Settings) -> dict[str, int | None]:
    """The topics that must exist before the start, with their partition counts."""
    count = settings.topics.events
    return {topic(settings, one.TOPIC.name): count for one in (labels, events, progress_labels)}
