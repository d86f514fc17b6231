"""The label forwarder stage: moves messages of `labels`, unchanged, to the same partition of `events`.

The forwarder fixes the order of the labels on `events`. It commits the moved messages and its position in one
transaction, so that each message is moved once. It does not decode messages: the learner rejects those that are not
labels. If `events` refuses a message for its size, because the message was compressed, the forwarder writes a dead
letter that names the message's position.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from glasstream.base.errors import LostInputError
from glasstream.base.sparse import logged
from glasstream.events.message import Message, Oversized, Rejections
from glasstream.flow.learner.dead_letters import dead_letter, origin_only
from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.stages.names import Identify, expect_same_topic, known_state, no_identity, topic
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream_topics import events, events_dead, labels, progress_labels
from glasstream_topics.events_dead import Reason

log = logging.getLogger(__name__)

#: Remedy when labels are lost before they were moved.
LOST_LABELS = (
    "lengthen the retention of the topic; to continue with the labels that the broker still has, stop the label "
    f"forwarders, delete the topic <prefix>{progress_labels.TOPIC.name}, create it again (`glasstream topics create`), "
    "and start the label forwarders again"
)


class LabelsTask:
    """State of the forwarder for one partition of `labels`.

    Parameters
    ----------
    partition
        Number of the partition.
    settings
        Configuration.
    identify
        Function that returns the id of the topic `labels`.
    """

    def __init__(self, partition: int, settings: Settings, identify: Identify = no_identity) -> None:
        self.partition = partition
        self._identify = identify
        self._topic_id: str | None = None
        self.settings = settings
        self.moved = 0
        """Number of messages that this worker moved, including those that `events` refused."""
        self.refused = 0
        """Number of messages that became dead letters."""
        self._events = topic(settings, events.TOPIC.name)
        self._next_offset = self._sent_offset = 0
        self._records: list[ProducerRecord] = []

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        """Resume where the predecessor committed.

        Raises
        ------
        StateError
            The state cannot be read, or Kafka no longer has the next message.
        """
        where = f"{topic(self.settings, progress_labels.TOPIC.name)}[{self.partition}]"
        with known_state(where):
            found = progress_labels.restore(records)
        self._topic_id = self._identify()
        if found is not None:
            name = topic(self.settings, labels.TOPIC.name)
            expect_same_topic(where, name, found.topic_id, self._topic_id, LOST_LABELS)
            self._topic_id = self._topic_id or found.topic_id
        start = low if found is None else found.offset
        if start < low:
            raise LostInputError(
                f"{where}: expected to continue at offset {start} of {topic(self.settings, labels.TOPIC.name)}"
                f"[{self.partition}], but the broker keeps it from {low} on: labels were lost before they were moved; "
                f"{LOST_LABELS}"
            )
        self._next_offset = self._sent_offset = start
        return start

    async def feed(self, run: Sequence[Message]) -> None:
        """Move messages, all of the run in one go."""
        topic_name, partition, dead = self._events, self.partition, self._dead_record
        self._records += [
            dead(one)
            if isinstance(one.value, Oversized)
            else ProducerRecord(topic_name, one.key, one.value, partition, one.headers, partial(dead, one))
            for one in run
        ]
        self.moved += len(run)
        self._next_offset = run[-1].offset + 1

    def used(self) -> int:
        """Return the offset of the next message."""
        return self._next_offset

    def _dead_record(self, message: Message) -> ProducerRecord:
        """Return the dead letter of a message that `events` refuses for its size. It names only the origin."""
        self.refused += 1
        rejections = Rejections(message, self.settings.epoch)
        if isinstance(message.value, Oversized):
            detail = message.value.detail
        else:
            key, value = len(message.key or b""), len(message.value or b"")
            headers = sum(len(name.encode()) + len(data or b"") for name, data in message.headers)
            detail = (
                f"expected a message that {self._events} accepts, got one of {value} bytes with a key of {key} and "
                f"headers of {headers}, uncompressed; send fewer labels in a message"
            )
        rejections.add(None, Reason.TOO_LARGE, detail)
        if logged(self.refused):
            log.warning("rejected %s, too_large (%d so far): %s", message.place, self.refused, detail)
        letter = origin_only(dead_letter(rejections, self.settings.limits.dead_bytes))
        dead = topic(self.settings, events_dead.TOPIC.name)
        return ProducerRecord(dead, letter.key, letter.value, letter.partition, letter.headers)

    def stalled(self) -> str | None:
        """Return None: this stage waits for nothing that can be lost."""
        return None

    def pending(self) -> int:
        """Return the number of messages that wait to be sent."""
        return len(self._records)

    def collect(self) -> Outputs:
        """Return the messages since the last call, and the position as of them."""
        if self._next_offset == self._sent_offset:
            return Outputs()
        self._sent_offset = self._next_offset
        records, self._records = self._records, []
        key, value = progress_labels.encode(progress_labels.LabelsPartitionProgress(self._sent_offset, self._topic_id))
        return Outputs(records=records, progress=[ProducerRecord("", key, value)])

    def committed(self) -> None:
        """Do nothing: the collected messages are durable."""

    def dropped(self) -> None:
        """Do nothing: the stage holds nothing."""


def samples(partitions: Iterable[LabelsTask]) -> Iterator[Sample]:
    """Yield metrics of a worker."""
    for partition in partitions:
        place = (str(partition.partition),)
        yield Sample(catalogue.LABELS_MOVED, partition.moved, place)
        yield Sample(catalogue.DEAD_LETTERS, partition.refused, (Reason.TOO_LARGE, *place))
