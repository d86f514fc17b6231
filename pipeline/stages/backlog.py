"""What the learner has sent and the fold has not finished: the snapshots that must live on, and how much there is."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from pipeline.errors import BrokerError
from pipeline.learn.learner import Snapshot
from pipeline.models import snapshot as codec
from pipeline.settings import Settings
from pipeline.stages.fold_progress import FoldProgress
from pipeline.stages.names import topic
from pipeline.transport.records import Record
from topics import snapshots
from topics.progress_learner import StreamProgress
from topics.work import Work


@dataclass(slots=True)
class _Live:
    """A published snapshot that some unfolded row may need."""

    records: list[Record]
    size: int
    until: int
    """The first row that is explained with a later version."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A block that is under way."""

    stream: str
    epoch: int
    end_row: int
    size: int


class Backlog:
    """Bounds how far the learner of one partition runs ahead, and ends the life of snapshots.

    Parameters
    ----------
    settings
        For the limits: rows ahead, bytes of snapshots (one is always admitted) and of work.
    key
        The HMAC key.
    progress
        Where the fold is.
    """

    def __init__(self, settings: Settings, key: bytes | None, progress: FoldProgress) -> None:
        self._settings = settings
        self._key = key
        self._progress = progress
        self._epochs: dict[str, int] = {}
        """Per stream: its epoch, where that is not the partition's."""
        self._superseded: dict[str, tuple[int, dict[int, int]]] = {}
        """Per stream: an earlier epoch, and versions and chunks of its snapshots."""
        self._live: dict[str, dict[int, _Live]] = {}
        self._live_bytes = 0
        self._inherited: dict[str, dict[int, int]] = {}
        self._work: deque[_Sent] = deque()
        self._work_bytes = 0
        self._records: list[Record] = []
        self._seen = -1

    def inherit(self, streams: Mapping[str, StreamProgress]) -> None:
        """Snapshots that the predecessor has published: those that learning again does not need are ended."""
        for name, stream in streams.items():
            self._epochs[name] = stream.epoch
            self._inherited[name] = {int(version): chunks for version, chunks in stream.snapshots.items()}

    def supersede(self, streams: Mapping[str, StreamProgress]) -> None:
        """Snapshots of an earlier epoch: they are ended when the fold has left it."""
        for name, stream in streams.items():
            chunks = {int(version): chunks for version, chunks in stream.snapshots.items()}
            self._superseded[name] = stream.epoch, chunks

    def end(self, stream: str) -> None:
        """A stream has gone on to its next epoch, and nobody needs the snapshots of the one before any more."""
        for live in self._live.pop(stream, {}).values():
            self._forget(live)
        for version, chunks in self._inherited.pop(stream, {}).items():
            self._end(stream, version, chunks)
        self._epochs[stream] = self._epoch(stream) + 1

    def _epoch(self, stream: str) -> int:
        return self._epochs.get(stream, self._settings.epoch)

    def _folded(self, stream: str, unknown: int = 0) -> int:
        """The next row of a stream that the fold will fold; `unknown` where it has not begun."""
        found = self._progress.folded(stream, self._epoch(stream))
        return unknown if found is None else found

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Publish a snapshot, unless all rows that could need it are folded.

        Raises
        ------
        BrokerError
            It is larger than the broker can hold.
        """
        stream, epoch, version = snapshot.stream, snapshot.epoch, snapshot.version
        inherited = self._inherited.get(stream, {}).pop(version, None)
        if snapshot.until <= self._folded(stream):
            if inherited is not None:
                self._end(stream, version, inherited)
            return
        data = codec.encode(snapshot.predictor, stream=stream, epoch=epoch, version=version, key=self._key)
        if len(data) > self._settings.limits.snapshot_largest:
            raise BrokerError(
                f"stream {stream!r}: a snapshot of {len(data):,} bytes is more than the "
                f"{self._settings.limits.snapshot_largest:,} that this broker can hold; use --broker local, "
                "or a smaller model"
            )
        name = topic(self._settings, "snapshots")
        records = [Record(name, key, value, 0) for key, value in snapshots.split(stream, epoch, version, data)]
        self._live.setdefault(stream, {})[version] = _Live(records, len(data), snapshot.until)
        self._live_bytes += len(data)
        self._records += records

    def sent_work(self, block: Work, size: int) -> None:
        """A block of so many bytes is on its way."""
        self._work.append(_Sent(block.stream, block.epoch, block.first_row + block.count, size))
        self._work_bytes += size

    def full(self, stream: str, rows: int) -> bool:
        """Whether the learner of `stream`, at row `rows`, must wait."""
        if self._progress.changes != self._seen:
            self._advance()
        limits = self._settings.limits
        folded = self._folded(stream, self._settings.start)
        return (
            rows - folded > limits.rows_ahead
            or self._work_bytes > limits.work_bytes
            or (self._live_bytes > limits.snapshot_bytes and self._several_live())
        )

    @property
    def live_bytes(self) -> int:
        """Bytes of snapshots that unfolded rows may need."""
        return self._live_bytes

    @property
    def work_bytes(self) -> int:
        """Bytes of blocks that are under way."""
        return self._work_bytes

    def shed(self) -> int:
        """Get below the bounds without the fold: end the oldest snapshots, forget the oldest blocks; how many ended."""
        limits, ended = self._settings.limits, 0
        while self._work and self._work_bytes > limits.work_bytes:
            self._work_bytes -= self._work.popleft().size
        for versions in self._live.values():
            for version in sorted(versions)[:-1]:
                if self._live_bytes <= limits.snapshot_bytes:
                    return ended
                self._forget(versions.pop(version))
                ended += 1
        return ended

    def live(self, stream: str) -> dict[str, int]:
        """Version and number of chunks of the snapshots of a stream that are to be ended one day."""
        mine = {str(version): len(live.records) for version, live in self._live.get(stream, {}).items()}
        theirs = {str(version): chunks for version, chunks in self._inherited.get(stream, {}).items()}
        return {**theirs, **mine}

    def publish_again(self) -> None:
        """Send every live snapshot once more."""
        for versions in self._live.values():
            for live in versions.values():
                self._records += live.records

    def take_records(self) -> list[Record]:
        """Snapshots to be published and tombstones, since the last call."""
        if self._progress.changes != self._seen:
            self._advance()
        taken, self._records = self._records, []
        return taken

    def _several_live(self) -> bool:
        return sum(len(versions) for versions in self._live.values()) > 1

    def _advance(self) -> None:
        """The fold has moved: forget what it has finished."""
        self._seen = self._progress.changes
        while self._work and self._work[0].end_row <= (
            self._progress.folded(self._work[0].stream, self._work[0].epoch) or 0
        ):
            self._work_bytes -= self._work.popleft().size
        for stream, (epoch, chunks) in list(self._superseded.items()):
            if self._progress.left(stream, epoch):
                del self._superseded[stream]
                for version, count in chunks.items():
                    self._end(stream, version, count, epoch)
        for stream in {**self._inherited, **self._live}:
            folded = self._folded(stream)
            known = sorted({*self._inherited.get(stream, {}), *self._live.get(stream, {})})
            for version, later in pairwise(known):
                if later <= folded and version in self._inherited.get(stream, {}):
                    self._end(stream, version, self._inherited[stream].pop(version))
            for version in [version for version, live in self._live.get(stream, {}).items() if live.until <= folded]:
                self._forget(self._live[stream].pop(version))

    def _forget(self, live: _Live) -> None:
        """End a snapshot of ours."""
        self._live_bytes -= live.size
        self._records += [Record(record.topic, record.key, None, 0) for record in live.records]

    def _end(self, stream: str, version: int, chunks: int, epoch: int | None = None) -> None:
        """Take back a snapshot of the predecessor."""
        name = topic(self._settings, "snapshots")
        keys = snapshots.tombstones(stream, self._epoch(stream) if epoch is None else epoch, version, chunks)
        self._records += [Record(name, key, None, 0) for key in keys]
