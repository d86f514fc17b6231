"""Checkpoints of the streams of one partition: when to take them, which to keep, and from which to resume."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import perf_counter

from glasstream.base.errors import FrameError, StateError
from glasstream.events.message import Position
from glasstream.flow.learner.checkpoint import newly_sealed, opened, saved
from glasstream.flow.learner.learner import StreamLearner
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.learner.pushed import PushedModels
from glasstream.flow.learner.stream_state import StreamState
from glasstream.flow.settings import Settings
from glasstream.kafka.health.catalogue import CHECKPOINT_AGE, CHECKPOINT_BYTES, CHECKPOINTS, Sample
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.names import differences, fingerprint, topic
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.models.codec.authentication import Key
from glasstream_topics import checkpoints
from glasstream_topics.checkpoints import Checkpoint, Identity
from glasstream_topics.chunks import room_for

log = logging.getLogger(__name__)

Read = Callable[[str, int], Mapping[bytes, bytes]]
"""Function that reads a partition of one of our topics to its end."""

KEPT = 2
"""Number of checkpoints to keep per stream once the aggregator has passed them: one may turn out to be damaged."""


class Checkpoints:
    """Takes and keeps the checkpoints of a partition's streams.

    A checkpoint is due when `checkpoint.seconds` have passed since the last one, and when the time spent on checkpoints
    is less than `checkpoint.share` of the total. It is taken right after a snapshot. A stream that gets no snapshot,
    because it is slow or has ended, gets a checkpoint of its current state: a restart must not ask for events that
    retention has removed.

    Parameters
    ----------
    partition
        Partition of `events`.
    settings
        Configuration.
    key
        HMAC key; None if there is none, which is enough for models that learn in compiled code.
    progress
        Progress of the aggregator.
    models
        The models that marks name.
    """

    def __init__(
        self,
        partition: int,
        settings: Settings,
        key: Key | None,
        progress: AggregatorProgress,
        models: PushedModels | None = None,
    ) -> None:
        self._models = models
        self._partition = partition
        self._settings = settings
        self._key = key
        self._progress = progress
        self._topic = topic(settings, checkpoints.TOPIC.name)
        self._fingerprint = fingerprint(settings)
        self._records: list[ProducerRecord] = []
        self._kept: dict[str, dict[int, int]] = {}
        """Rows and chunk counts of the checkpoints on the topic, per stream."""
        self._superseded: list[ProducerRecord] = []
        """Tombstones for checkpoints of earlier epochs, written with the next checkpoint of this epoch."""
        self._as_of: dict[str, int] = {}
        """Offset of the newest checkpoint, per stream."""
        self._changed: dict[str, float] = {}
        """Time at which a change since the newest checkpoint was noticed, per stream that has changed, oldest first."""
        self._rested = -math.inf
        """Time from which a checkpoint of a stream at rest is allowed."""
        self._begun: dict[str, float] = {}
        """Time of the newest checkpoint, or of the first look at the stream, per stream."""
        self._cost: dict[str, float] = {}
        self._bytes: dict[str, int] = {}
        self._made: dict[str, int] = {}

    def consider(self, core: PartitionLearner, learner: StreamLearner) -> None:
        """Take a checkpoint of a stream if one is due and its learner is at a snapshot.

        Raises
        ------
        ModelError
            The model cannot be pickled.
        """
        limits = self._settings.checkpoint
        if not limits.seconds or core.silent or not learner.at_snapshot:
            return
        stream, begun = learner.stream, perf_counter()
        pause = max(limits.seconds, self._cost.get(stream, 0.0) / limits.share)
        if begun - self._begun.setdefault(stream, begun) < pause:
            return
        self._make(core, learner, begun)

    def note_changes(self, core: PartitionLearner, names: Iterable[str]) -> None:
        """Note which streams may have changed since their newest checkpoint."""
        now = perf_counter()
        for name in names:
            stream = core.streams[name]
            if stream.after > self._as_of.get(name, stream.first_offset):
                self._changed.setdefault(name, now)

    def consider_rest(self, core: PartitionLearner) -> None:
        """Take a checkpoint of one stream that has changed and has had none for long. Call this after a `cut`.

        Raises
        ------
        ModelError
            The model cannot be pickled.
        """
        limits, now = self._settings.checkpoint, perf_counter()
        if not limits.seconds or core.silent:
            return
        if now < self._rested:
            return
        for name, since in self._changed.items():
            if now - since < limits.patience:
                return
            if not core.streams[name].learner.ended:
                self._make(core, core.streams[name].learner, now, at_rest=True)
                self._rested = now + (perf_counter() - now) / limits.share
                return

    def _make(self, core: PartitionLearner, learner: StreamLearner, begun: float, *, at_rest: bool = False) -> None:
        stream, (offset, used) = learner.stream, core.position
        state = core.state(stream, at_rest=at_rest)
        place = Checkpoint(
            stream=stream,
            epoch=learner.epoch,
            rows=learner.state.next_entry,
            seqs=learner.state.seqs,
            offset=offset,
            used=used,
            fingerprint=self._fingerprint,
            form=checkpoints.PLAIN,
            state=b"",
        )
        checkpoint = saved(state, place, key=self._key)
        pairs = checkpoints.split(checkpoint)
        self._records += [ProducerRecord(self._topic, key, value, self._partition) for key, value in pairs]
        self._records += self._superseded
        self._superseded = []
        kept, row = self._kept.setdefault(stream, {}), learner.state.next_entry
        kept[row] = max(len(pairs), kept.get(row, 0))  # the new one may replace a longer one
        self._end_old(stream, learner.epoch)
        self._as_of[stream] = offset
        self._changed.pop(stream, None)
        self._begun[stream] = perf_counter()
        self._cost[stream] = self._begun[stream] - begun
        self._bytes[stream] = len(checkpoint.state)
        self._made[stream] = self._made.get(stream, 0) + 1

    def take_records(self) -> list[ProducerRecord]:
        """Return the records to write that were added since the last call."""
        taken, self._records = self._records, []
        return taken

    def supersede(self, records: Mapping[bytes, bytes]) -> None:
        """Mark all existing checkpoints as superseded: the first checkpoint of this epoch ends them."""
        self._superseded = [ProducerRecord(self._topic, key, None, self._partition) for key in records]

    def end(self, stream: str, epoch: int) -> None:
        """End the checkpoints of a stream's epoch whose end is committed, because no learner resumes from them."""
        for of in (self._as_of, self._changed, self._begun, self._cost, self._bytes, self._made):
            of.pop(stream, None)
        for rows, chunks in self._kept.pop(stream, {}).items():
            keys = checkpoints.tombstones(stream, epoch, rows, chunks)
            self._records += [ProducerRecord(self._topic, key, None, self._partition) for key in keys]

    def restore(
        self, records: dict[bytes, bytes], epochs: Mapping[str, int], aggregated: Mapping[str, int], sent: Position
    ) -> dict[str, tuple[Checkpoint, StreamState]]:
        """Return the newest checkpoint of each stream from which the learner can resume, without its sealed state.

        Parameters
        ----------
        records
            Content of the partition of `checkpoints`, read to its end. This empties it, so that checkpoints of hundreds
            of megabytes are in memory once.
        epochs
            Epoch of each stream. Checkpoints of earlier epochs are ended, and those of other streams, which have given
            up their places.
        aggregated
            Per stream: the next row that the aggregator will aggregate. Rows from there on may need a snapshot again.
        sent
            Position up to which records have been sent. Later checkpoints are of no use.

        Raises
        ------
        StateError
            A checkpoint is not authentic, or belongs to another version of the record or to other settings.
        """
        parts: dict[Identity, dict[bytes, bytes]] = {}
        known: dict[Identity, int] = {}
        for key in list(records):
            value = records.pop(key)
            try:
                parsed = checkpoints.Key.decode(key)
            except FrameError as error:
                log.warning("Skipping unreadable record on %s[%d]: %s", self._topic, self._partition, error)
                continue
            parts.setdefault(parsed.identity, {})[key] = value
            known[parsed.identity] = max(known.get(parsed.identity, 0), parsed.chunk + 1)
        found: dict[str, tuple[Checkpoint, StreamState]] = {}
        for identity in sorted(known, key=lambda one: (one.epoch, one.version), reverse=True):
            mine = parts.pop(identity)
            epoch = epochs.get(identity.stream, identity.epoch + 1)
            if identity.epoch < epoch:
                keys = checkpoints.tombstones(*identity, known[identity])
                self._superseded += [ProducerRecord(self._topic, key, None, self._partition) for key in keys]
            elif identity.epoch == epoch:
                self._kept.setdefault(identity.stream, {})[identity.version] = known[identity]
            if identity.stream in found or identity.epoch != epoch:
                continue
            data = _whole(identity, mine)
            if data is None:
                log.warning(
                    "%s[%d]: the checkpoint of stream %r at row %d is damaged; using an older one if there is one",
                    self._topic, self._partition, identity.stream, identity.version,
                )  # fmt: skip
                continue
            checkpoint = self._decoded(identity, data)
            passed = aggregated.get(checkpoint.stream, self._settings.explain.first_row) >= checkpoint.rows
            if passed and Position(checkpoint.offset, checkpoint.used) <= sent:
                state = opened(checkpoint, self._settings, key=self._key, models=self._models)
                found[checkpoint.stream] = replace(checkpoint, state=b""), state
                if newly_sealed(checkpoint, key=self._key):  # otherwise it would be taken again without a change
                    self._as_of[checkpoint.stream] = checkpoint.offset
        return found

    def _decoded(self, identity: Identity, data: bytes) -> Checkpoint:
        where = f"{self._topic}[{self._partition}]"
        try:
            checkpoint = checkpoints.decode(data)
        except FrameError as error:
            raise StateError(
                f"{where}: the checkpoint of stream {identity.stream!r} at row {identity.version} is intact, but this "
                f"version cannot read it: {error}; go back to the version of Glasstream that wrote it, or start a new "
                "epoch"
            ) from error
        if Identity(checkpoint.stream, checkpoint.epoch, checkpoint.rows) != identity:
            raise StateError(
                f"{where}: expected a checkpoint of {identity} under its key, got another one; start a new epoch"
            )
        if changed := differences(checkpoint.fingerprint, self._fingerprint):
            raise StateError(
                f"{where}: the checkpoint of stream {checkpoint.stream!r} was made under other settings: {changed}"
            )
        return checkpoint

    def _end_old(self, stream: str, epoch: int) -> None:
        """Write tombstones for the checkpoints from which no learner will resume."""
        aggregated = self._progress.aggregated(stream, epoch) or 0
        passed = sorted(rows for rows in self._kept[stream] if rows <= aggregated)
        for rows in passed[:-KEPT]:
            keys = checkpoints.tombstones(stream, epoch, rows, self._kept[stream].pop(rows))
            self._records += [ProducerRecord(self._topic, key, None, self._partition) for key in keys]

    def samples(self, streams: Iterable[str]) -> list[Sample]:
        """Return age, size and number of the checkpoints of some streams."""
        now = perf_counter()
        return [
            sample
            for stream in streams
            if (begun := self._begun.get(stream)) is not None
            for sample in (
                Sample(CHECKPOINT_AGE, now - begun, (stream,)),
                Sample(CHECKPOINT_BYTES, self._bytes.get(stream, 0), (stream,)),
                Sample(CHECKPOINTS, self._made.get(stream, 0), (stream,)),
            )
        ]


def _whole(identity: Identity, parts: Mapping[bytes, bytes]) -> bytes | None:
    """Return the bytes of a checkpoint, or None if some are missing or damaged. Hold no other checkpoint meanwhile."""
    assembler = checkpoints.Assembler(room_for(parts.values()))
    for key, value in parts.items():
        assembler.add(key, value)
    return assembler.get(*identity)
