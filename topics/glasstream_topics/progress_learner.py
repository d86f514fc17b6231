"""`progress.learner`: the learner's progress, committed in one transaction with its output.

The partition's record says where to resume in `events`. A record per stream says what had been accepted, learned and
sent by then.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from glasstream_topics import progress
from glasstream_topics.contract import COMPACTED, Natural, Topic
from glasstream_topics.progress import Setting

VERSION: Final = 1

TOPIC: Final = Topic(
    name="progress.learner",
    holds="how far the learner is on a partition, and with each stream of it",
    key="stream, or the key of the partition's record",
    partitioning="the partition of events that it is about, set explicitly",
    written_by=("learner",),
    read_by=("learner", "glasstream run"),
    public=False,
    version=VERSION,
    config=COMPACTED,
)


class LearnerPartitionProgress(msgspec.Struct, frozen=True):
    """Where to resume.

    Attributes
    ----------
    epoch
        epoch of the partition's streams.
    first_offset
        the first offset of `events` in this epoch: learning everything again starts here.
    offset
        offset of the message to resume with.
    used
        number of rows of that message that are already used.
    fingerprint
        the settings and versions that change numbers, by name.
    topic_id
        id of the topic `events` that the offsets belong to; None if the brokers give no ids.
    begins_in
        epoch in which a new stream begins, once a stream has given up its place; None before that.
    """

    epoch: Natural
    first_offset: Natural
    offset: Natural
    used: Natural
    fingerprint: dict[str, Setting]
    topic_id: str | None = None
    begins_in: Natural | None = None
    schema_version: Literal[1] = VERSION


class LearnerStreamProgress(msgspec.Struct, frozen=True):
    """What was done with a stream before the partition's offset.

    Attributes
    ----------
    stream, epoch
        the stream and its epoch.
    seqs
        number of events accepted: the next one gets this seq.
    rows
        number of rows learned: the next one gets this number.
    first_offset
        the offset of `events` at which the stream began: without a checkpoint it is learned again from there.
    after
        the offset after the newest message that may have changed the stream. State saved at this offset or later is
        still valid at the partition's offset.
    snapshots
        versions of the model that are published and not deleted, with the number of records of each.
    counts
        running counters by name, such as events without a label.
    stalled
        why the aggregator is stuck on the stream, what was done and what to check; empty while it makes progress.
    entries
        number of the next entry, with `explain.unlabelled`; None without, as it is then `rows`.
    model
        SHA-256 of the model that a mark has brought; empty while it is that of the settings.
    refused
        offsets of marks whose models were refused for a reason that need not be on the log.
    newest
        offset of the newest message with an event or a label of this stream; None in records of older releases.
    """

    stream: str
    epoch: Natural
    seqs: Natural
    rows: Natural
    first_offset: Natural
    after: Natural
    snapshots: dict[str, Natural] = {}
    counts: dict[str, int] = {}
    stalled: str = ""
    entries: Natural | None = None
    model: str = ""
    refused: list[Natural] = []
    newest: Natural | None = None
    schema_version: Literal[1] = VERSION

    @property
    def next_entry(self) -> int:
        """Number of the next entry that the aggregator will get."""
        return self.rows if self.entries is None else self.entries


class Restored(progress.Restored[LearnerPartitionProgress, LearnerStreamProgress]):
    """What a successor restores."""


_RECORDS: Final = progress.ProgressRecords(TOPIC.name, LearnerPartitionProgress, LearnerStreamProgress)
decode: Final = _RECORDS.decode


def key(stream: str) -> bytes:
    """Return the key of a stream's record."""
    return stream.encode()


def encode(record: LearnerPartitionProgress | LearnerStreamProgress) -> tuple[bytes, bytes]:
    """Return key and value of a record.

    Raises
    ------
    RecordError
        JSON cannot hold a value.
    """
    if isinstance(record, LearnerPartitionProgress):
        return _RECORDS.encode(record)
    snapshots = dict(sorted(record.snapshots.items(), key=lambda item: int(item[0])))
    return _RECORDS.encode(
        record,
        snapshots=snapshots,
        stalled=record.stalled or None,
        model=record.model or None,
        refused=list(record.refused) or None,
    )


def restore(latest: Mapping[bytes, bytes]) -> Restored:
    """Restore everything on a partition of the topic; see `glasstream_topics.progress.ProgressRecords.restore`."""
    return _RECORDS.restore(latest, Restored)
