"""Requests and snapshots that the learner has sent and the aggregator still needs."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

from glasstream.base.errors import BrokerError
from glasstream.explain.sizes import pieces, sizes
from glasstream.flow.learner.outbox import ModelVersion
from glasstream.flow.learner.state import NEVER
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.models.codec import snapshot as codec
from glasstream.models.codec.authentication import Key
from glasstream_topics import requests, snapshots
from glasstream_topics.progress_learner import LearnerStreamProgress
from glasstream_topics.requests import ExplainRequest


@dataclass(slots=True)
class _Live:
    """Published snapshot that rows which are not aggregated yet may need."""

    records: list[ProducerRecord]
    size: int
    until: int
    """First entry that is explained with a later version; `NEVER` while the learner has not made that one."""


@dataclass(slots=True)
class _Sent:
    """Block that has been sent and is not aggregated yet."""

    block: ExplainRequest
    """Refused block of the rows that were sent. After `shed` has forgotten the record, of adjacent blocks together."""
    record: ProducerRecord | None
    """Record of the block; None if its bytes are forgotten."""
    size: int
    """Bytes that count against the limit: the block's own, or those of all its contributions at most, if larger. After
    the record is forgotten, what the refused block takes in memory."""


@dataclass(slots=True)
class _Stream:
    """Blocks of a stream that are not aggregated yet, oldest first."""

    blocks: deque[_Sent] = field(default_factory=deque)
    forgotten: int = 0
    """Number of blocks at the front whose bytes are forgotten."""
    request_bytes: int = 0


_SHED: Final = (
    "the learner ran too far ahead of the aggregator and forgot the block before it was explained (limits.lag is shed)"
)

_FORGOTTEN_BYTES: Final = 2 * 1024
"""Memory of a forgotten block without its arrays."""
_FORGOTTEN_ROWS: Final = 32 * 1024
"""Largest number of rows of forgotten blocks that are joined. Their record has 16 bytes a row: a broker takes it."""


class Backlog:
    """Bounds how far the learner of one partition runs ahead, and ends snapshots that are no longer needed.

    Parameters
    ----------
    settings
        Configuration. It limits the rows ahead, the bytes of snapshots (one of each stream is always admitted), and the
        bytes of requests or of the resulting contributions, whichever are more.
    key
        HMAC key.
    progress
        Progress of the aggregator.
    """

    def __init__(self, settings: Settings, key: Key | None, progress: AggregatorProgress) -> None:
        self._settings = settings
        self._key = key
        self._progress = progress
        self._epochs: dict[str, int] = {}
        """Epoch per stream, where it differs from the partition's."""
        self._superseded: dict[str, tuple[int, dict[int, int]]] = {}
        """Per stream: an earlier epoch, and the versions and chunk counts of its snapshots."""
        self._live: dict[str, dict[int, _Live]] = {}
        self._live_bytes = 0
        self._inherited: dict[str, dict[int, int]] = {}
        self._since: dict[str, dict[int, int]] = {}
        """The first entry of each version that the learner has made, per stream with snapshots of the predecessor.
        Needed if a version is not the number of its first entry."""
        self._version_is_entry = settings.model.learns and not settings.explain.every_event
        self._requests: dict[str, _Stream] = {}
        self._request_bytes = 0
        self._turn = 0
        """Number of blocks that were given a partition. They take turns."""
        self.finished = 0
        """Number of blocks that the aggregator has finished."""
        self._records: list[ProducerRecord] = []
        self._request_records: list[ProducerRecord] = []
        self._seen = 0
        """Number of moves of the aggregator that were looked at."""
        self._touched: set[str] = set()
        """Streams that have got a block or a snapshot since the last look."""
        self._changed: set[str] = set()
        """Streams whose snapshots have changed since the last call of `take_changed`."""

    def inherit(self, streams: Mapping[str, LearnerStreamProgress]) -> None:
        """Take over the predecessor's snapshots, and end those that learning again does not need."""
        for name, stream in streams.items():
            self._epochs[name] = stream.epoch
            self._inherited[name] = {int(version): chunks for version, chunks in stream.snapshots.items()}
            self._touched.add(name)

    def supersede(self, streams: Mapping[str, LearnerStreamProgress]) -> None:
        """Take over snapshots of an earlier epoch, and end them when the aggregator has left that epoch."""
        for name, stream in streams.items():
            chunks = {int(version): chunks for version, chunks in stream.snapshots.items()}
            self._superseded[name] = stream.epoch, chunks
            self._touched.add(name)

    def end(self, stream: str) -> None:
        """End a stream's snapshots of the epoch before, which are not needed once the next epoch begins."""
        self._drop(stream)
        self._epochs[stream] = self._epoch(stream) + 1

    def forget(self, stream: str) -> None:
        """End the snapshots of a stream that has given up its place."""
        self._drop(stream)
        self._epochs.pop(stream, None)
        self._changed.discard(stream)

    def _drop(self, stream: str) -> None:
        for live in self._live.pop(stream, {}).values():
            self._forget(live)
        for version, chunks in self._inherited.pop(stream, {}).items():
            self._end(stream, version, chunks)
        self._since.pop(stream, None)
        sending = self._requests.pop(stream, _Stream())
        self._request_bytes -= sending.request_bytes
        self.finished += len(sending.blocks)
        self._changed.add(stream)

    def _epoch(self, stream: str) -> int:
        return self._epochs.get(stream, self._settings.epoch)

    def _aggregated(self, stream: str, unknown: int = 0) -> int:
        """Return the next row of a stream that the aggregator will aggregate, or `unknown` if it has not begun."""
        found = self._progress.aggregated(stream, self._epoch(stream))
        return unknown if found is None else found

    def add_snapshot(self, snapshot: ModelVersion) -> None:
        """Publish a snapshot, unless all rows that could need it are aggregated.

        Raises
        ------
        BrokerError
            The snapshot is larger than the broker can hold.
        """
        stream, epoch, version = snapshot.stream, snapshot.epoch, snapshot.version
        self._epochs.setdefault(stream, epoch)
        self._touched.add(stream)
        self._changed.add(stream)
        inherited = self._inherited.get(stream, {}).pop(version, None)
        for earlier, live in self._live.get(stream, {}).items():
            if live.until == NEVER and earlier < version:
                live.until = snapshot.since
        if not self._version_is_entry and self._inherited.get(stream):
            self._since.setdefault(stream, {})[version] = snapshot.since
        if snapshot.until <= self._aggregated(stream):
            if inherited is not None:
                self._end(stream, version, inherited)
            return
        data = codec.encode(snapshot.predictor, stream=stream, epoch=epoch, version=version, key=self._key)
        if len(data) > self._settings.limits.snapshot_largest:
            raise BrokerError(
                f"stream {stream!r}: expected a snapshot of the model of at most "
                f"{self._settings.limits.snapshot_largest:,} bytes (limits.snapshot_largest), got {len(data):,}; raise "
                "the limit (on the embedded broker: use --broker local), or use a smaller model"
            )
        name = topic(self._settings, "snapshots")
        records = [ProducerRecord(name, key, value, 0) for key, value in snapshots.split(stream, epoch, version, data)]
        self._live.setdefault(stream, {})[version] = _Live(records, len(data), snapshot.until)
        self._live_bytes += len(data)
        self._records += records

    def add_request(self, block: ExplainRequest, *, again: bool = False) -> None:
        """Send a block, in pieces that a broker takes, and keep it until the aggregator has finished it.

        Parameters
        ----------
        again
            Whether a predecessor has sent the block already. It is then only kept in case it is lost.
        """
        if (again or not block.count) and self._settled(block):
            return  # the aggregator will not answer a flush mark after which it has nothing to publish
        stream = self._requests.setdefault(block.stream, _Stream())
        self._epochs.setdefault(block.stream, block.epoch)
        self._touched.add(block.stream)
        for piece in pieces(block):
            record = self._record(piece)
            bounds = sizes(piece)
            size = max(len(record.value or b""), bounds.answers)
            brief = requests.refused(piece, _SHED) if piece.count else piece
            stream.blocks.append(_Sent(brief, record, size))
            stream.request_bytes += size
            self._request_bytes += size
            if not again:
                self._request_records.append(record)

    def _record(self, block: ExplainRequest) -> ProducerRecord:
        key = requests.key(block.stream, block.first_row)
        partition = self._turn % self._settings.topics.requests
        self._turn += 1
        return ProducerRecord(topic(self._settings, requests.TOPIC.name), key, requests.encode(block), partition)

    def _settled(self, block: ExplainRequest) -> bool:
        """Return whether the aggregator has finished a block. A mark has no rows that would show it."""
        progress, end = self._progress, block.first_row + block.count
        if block.count:
            return (progress.aggregated(block.stream, block.epoch) or 0) >= end
        if block.ends:
            return progress.left(block.stream, block.epoch)
        return progress.published(block.stream, block.epoch, end)

    def take_requests(self) -> list[ProducerRecord]:
        """Return the blocks to send that were added since the last call."""
        taken, self._request_records = self._request_records, []
        return taken

    def outstanding(self) -> dict[str, int]:
        """Return, per stream, the number of blocks that the aggregator has not finished."""
        self._advance()
        return {name: len(stream.blocks) for name, stream in self._requests.items() if stream.blocks}

    def repair(self, stream: str) -> int:
        """Send again what the aggregator may lack of a stream, snapshots before requests, and count the blocks.

        Blocks whose bytes are forgotten are sent as refused blocks: their rows count as unexplained.
        """
        for live in self._live.get(stream, {}).values():
            self._records += live.records
        mine = self._requests.get(stream, _Stream()).blocks
        self._request_records += [sent.record or self._record(sent.block) for sent in mine]
        return len(mine)

    def full(self, stream: str, rows: int) -> bool:
        """Whether the learner of `stream`, at row `rows`, must wait."""
        self._advance()
        limits = self._settings.limits
        aggregated = self._aggregated(stream, self._settings.explain.first_row)
        return (
            rows - aggregated > limits.rows_ahead
            or self._request_bytes > limits.request_bytes
            or (self._live_bytes > limits.snapshot_bytes and self._some_to_end())
        )

    @property
    def live_bytes(self) -> int:
        """Return the bytes of snapshots that rows which are not aggregated yet may need."""
        return self._live_bytes

    @property
    def request_bytes(self) -> int:
        """Return the bytes of blocks that are not aggregated yet, or of their contributions, whichever are more."""
        return self._request_bytes

    def shed(self) -> int:
        """Get below the bounds without waiting for the aggregator, and return the number of snapshots that were ended.

        Forget the oldest blocks and end the oldest snapshots. The rows' numbers remain, so that `repair` can send them
        as unexplained. When these numbers alone exceed the bound, the backlog is `exhausted`.
        """
        limits, ended = self._settings.limits, 0
        while self._request_bytes > limits.request_bytes and self._forget_block():
            pass
        for versions in self._live.values():
            for version in sorted(versions)[:-1]:
                if self._live_bytes <= limits.snapshot_bytes:
                    return ended
                self._forget(versions.pop(version))
                ended += 1
        return ended

    @property
    def exhausted(self) -> bool:
        """Return whether there are too many bytes of requests, and `shed` can forget nothing more."""
        return self._request_bytes > self._settings.limits.request_bytes and not self._some_to_forget()

    def _some_to_forget(self) -> list[_Stream]:
        return [stream for stream in self._requests.values() if len(stream.blocks) > stream.forgotten]

    def _forget_block(self) -> bool:
        """Forget the bytes of the oldest block of the stream that has most, and return whether there was one."""
        streams = self._some_to_forget()
        if not streams:
            return False
        stream = max(streams, key=lambda one: one.request_bytes)
        sent = stream.blocks[stream.forgotten]
        before = sent.size
        if stream.forgotten and (joined := _joined(stream.blocks[stream.forgotten - 1].block, sent.block)):
            del stream.blocks[stream.forgotten]
            sent = stream.blocks[stream.forgotten - 1]
            before += sent.size
            sent.block = joined
        else:
            stream.forgotten += 1
        sent.record, sent.size = None, _FORGOTTEN_BYTES + sent.block.seqs.nbytes + sent.block.y.nbytes
        stream.request_bytes += sent.size - before
        self._request_bytes += sent.size - before
        return True

    def live(self, stream: str) -> dict[str, int]:
        """Return versions and chunk counts of the snapshots of a stream that have not been ended."""
        mine = {str(version): len(live.records) for version, live in self._live.get(stream, {}).items()}
        theirs = {str(version): chunks for version, chunks in self._inherited.get(stream, {}).items()}
        return {**theirs, **mine}

    def take_changed(self) -> set[str]:
        """Return the streams whose `live` snapshots have changed since the last call."""
        taken, self._changed = self._changed, set()
        return taken

    def take_records(self) -> list[ProducerRecord]:
        """Return the snapshots and tombstones to publish that were added since the last call."""
        self._advance()
        taken, self._records = self._records, []
        return taken

    def _some_to_end(self) -> bool:
        """Return whether progress can end a snapshot. The newest one stays until more of its rows are aggregated."""
        return any(len(versions) > 1 for versions in self._live.values())

    def _advance(self) -> None:
        """Forget what the aggregator has finished of the streams that have moved since the last look."""
        if self._progress.changes == self._seen and not self._touched:
            return
        moved = {*self._progress.moved_since(self._seen), *self._touched}
        self._seen = self._progress.changes
        self._touched.clear()
        for stream in moved & self._requests.keys():
            sending = self._requests[stream]
            while sending.blocks and self._settled(sending.blocks[0].block):
                size = sending.blocks.popleft().size
                self.finished += 1
                sending.forgotten = max(0, sending.forgotten - 1)
                sending.request_bytes -= size
                self._request_bytes -= size
            if not sending.blocks:
                del self._requests[stream]
        for stream in moved & self._superseded.keys():
            epoch, chunks = self._superseded[stream]
            if self._progress.left(stream, epoch):
                del self._superseded[stream]
                for version, count in chunks.items():
                    self._end(stream, version, count, epoch)
        for stream in sorted(moved & (self._inherited.keys() | self._live.keys())):
            aggregated = self._aggregated(stream)
            known = sorted({*self._inherited.get(stream, {}), *self._live.get(stream, {})})
            for version, later in pairwise(known):
                if self._begins(stream, later) <= aggregated and version in self._inherited.get(stream, {}):
                    self._end(stream, version, self._inherited[stream].pop(version))
            if not self._inherited.get(stream):
                self._since.pop(stream, None)
            for version in [
                version for version, live in self._live.get(stream, {}).items() if live.until <= aggregated
            ]:
                self._forget(self._live[stream].pop(version))
            self._changed.add(stream)

    def _begins(self, stream: str, version: int) -> int:
        """Return the first entry that is explained with a version or a later one; `NEVER` if this is not known yet."""
        if self._version_is_entry:
            return version
        return min((since for made, since in self._since.get(stream, {}).items() if made >= version), default=NEVER)

    def _forget(self, live: _Live) -> None:
        """End one of our own snapshots."""
        self._live_bytes -= live.size
        self._records += [ProducerRecord(record.topic, record.key, None, 0) for record in live.records]

    def _end(self, stream: str, version: int, chunks: int, epoch: int | None = None) -> None:
        """End a snapshot of the predecessor."""
        name = topic(self._settings, "snapshots")
        keys = snapshots.tombstones(stream, self._epoch(stream) if epoch is None else epoch, version, chunks)
        self._records += [ProducerRecord(name, key, None, 0) for key in keys]


def _joined(block: ExplainRequest, following: ExplainRequest) -> ExplainRequest | None:
    """Return two refused blocks as one that names the model of the first; None if they must stay apart."""
    count = block.count + following.count
    adjacent = block.epoch == following.epoch and block.first_row + block.count == following.first_row
    if not (adjacent and block.count and following.count) or following.flush_before or count > _FORGOTTEN_ROWS:
        return None
    seqs = np.concatenate([block.seqs, following.seqs])
    parts = [*block.parts, *following.parts]
    return replace(block, seqs=seqs, parts=parts, x=np.empty((count, 0)), y=np.zeros(count))
