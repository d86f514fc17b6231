"""Aggregator of one stream: put contributions in the order of their rows, smooth them, and publish estimates.

Blocks may arrive in any order, twice, and cut differently each time. Only the row numbers count. Rows that are already
aggregated are dropped, a block that contains some of them is trimmed, and a block that is ahead waits. A reset mark is
the last block of an epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from glasstream.aggregator.alarms import EVERY, Alarms
from glasstream.aggregator.incidents import Incidents
from glasstream.errors import StateError
from glasstream.methods.method import HasCurves, MethodAggregator, Moment, OutputRecord
from glasstream.methods.registry import REGISTRY
from glasstream.settings import Settings
from glasstream_topics.contributions import Contributions
from glasstream_topics.errors import FrameError


@dataclass(slots=True)
class _Waiting:
    """A block that is ahead, and the offset of its message."""

    block: Contributions
    offset: int


@dataclass(slots=True)
class StreamAggregator:
    """Aggregator of one stream.

    Parameters
    ----------
    stream
        Name of the stream.
    settings
        All settings, with the stream's own epoch.
    """

    stream: str
    settings: Settings
    next_row: int
    methods: list[MethodAggregator]
    alarms: Alarms | None = None
    """Drift detectors; None if no signal is watched."""
    incidents: Incidents | None = None
    """Incidents; None if the stream is not watched for any."""
    explained: int = 0
    published_row: int = -1
    """Row at which records were last due. Records exist only if a row had been explained by then."""
    seq: int = 0
    """`seq` of the newest aggregated row."""
    version: int = 0
    """Version of the model that explained the newest aggregated row."""
    loss: str = ""
    staleness: float | None = None
    """Staleness of that model."""
    names: list[str] = field(default_factory=list)
    """Names of the features as of the newest aggregated row."""
    failed: int = 0
    ended: bool = False
    """Whether all rows before a reset mark are aggregated, so that the epoch has no more rows."""
    _features: list[tuple[str, int]] = field(default_factory=list)
    """Name and kind of every feature that occurred in a block."""
    _waiting: dict[int, _Waiting] = field(default_factory=dict)
    records: list[OutputRecord] = field(default_factory=list)
    """Published records that the caller has not taken yet."""

    @classmethod
    def empty(cls, stream: str, settings: Settings) -> "StreamAggregator":
        """Return the aggregator of a new stream. Its first row is t0."""
        methods = [REGISTRY[name].aggregator(settings) for name in settings.explain.names]
        first_row = settings.explain.first_row
        return cls(stream, settings, first_row, methods, Alarms.empty(settings), Incidents.empty(stream, settings))

    @property
    def coverage(self) -> float:
        """Explained rows divided by the rows that could have been explained; 1 before the first."""
        explainable = self.next_row - self.settings.explain.first_row
        return self.explained / explainable if explainable else 1.0

    @property
    def waiting(self) -> int:
        """Number of blocks that are ahead."""
        return len(self._waiting)

    @property
    def oldest_waiting(self) -> int | None:
        """Lowest offset of a waiting block; None if no block waits."""
        return min((waiting.offset for waiting in self._waiting.values()), default=None)

    def offer(self, block: Contributions, offset: int) -> None:
        """Accept a block: aggregate the rows that are next, and keep rows that are ahead.

        Raises
        ------
        FrameError
            The block's features contradict those of earlier blocks, so it does not belong to this stream.
        """
        self._features = _longer(self._features, list(zip(block.names, block.kinds, strict=True)))
        if block.first_row > self.next_row:
            held = self._waiting.get(block.first_row)
            if held is None or block.count > held.block.count or block.ends:
                # Of two blocks with the same first row, keep the longer one. The committed position must not pass
                # the lower of their offsets.
                first = offset if held is None else min(offset, held.offset)
                self._waiting[block.first_row] = _Waiting(block, first)
            return
        self._aggregate(block)
        while self._waiting:
            ready = [row for row in self._waiting if row <= self.next_row]
            if not ready:
                return
            self._aggregate(self._waiting.pop(min(ready)).block)

    def _aggregate(self, block: Contributions) -> None:
        if block.flush_before and block.first_row == self.next_row:
            self._publish_if_new()
        if block.ends:
            self._publish_if_new()
            self.ended = True
            return
        skip = self.next_row - block.first_row
        if skip >= block.count:
            return
        seqs = block.seqs[skip:]
        if len(block.names) > len(self.names):
            self.names = list(block.names)
        self.version = block.version
        self.loss = block.loss
        self.staleness = block.staleness
        done = 0
        while done < len(seqs):
            due = self.settings.publish.every - self.next_row % self.settings.publish.every
            due = min(due, EVERY - self.next_row % EVERY)
            step = min(due, len(seqs) - done)
            if block.kind == "ok":
                self._enter(block, slice(skip + done, skip + done + step))
                self.explained += step
            else:
                self.failed += step
            done += step
            self.next_row += step
            self.seq = int(seqs[done - 1])
            if self.alarms is not None:
                self.alarms.keep(self.methods, self.next_row - 1)
            if self.next_row % self.settings.publish.every == 0:
                self._publish()

    def _enter(self, block: Contributions, rows: slice) -> None:
        """Add the next rows to every method, and watch them."""
        first, explained = self.next_row, self.explained
        curves = None
        if self.alarms is not None:
            curves = next((method.copy() for method in self.methods if isinstance(method, HasCurves)), None)
        signals = {method.name: method.update(block, rows) for method in self.methods}

        def moment(place: int) -> Moment:
            return self._moment(first + place, int(block.seqs[rows.start + place]), explained + place + 1)

        if self.alarms is not None:
            self.records.extend(self.alarms.update(block, rows, signals, curves, moment))
        if self.incidents is not None:
            self.records.extend(self.incidents.update(block, rows, first, signals))

    def _moment(self, row: int, seq: int, explained: int) -> Moment:
        return Moment(
            stream=self.stream,
            row=row,
            seq=seq,
            version=self.version,
            coverage=explained / (row + 1 - self.settings.explain.first_row),
            loss=self.loss,
            staleness=self.staleness,
            names=self.names,
        )

    def _publish_if_new(self) -> None:
        if self.published_row != self.next_row - 1 and self.next_row > self.settings.explain.first_row:
            self._publish()

    def _publish(self) -> None:
        """Publish the records of every method as of the newest aggregated row, unless no row has been explained yet."""
        row = self.published_row = self.next_row - 1
        moment = self._moment(row, self.seq, self.explained)
        for method in self.methods:
            if method.count:
                self.records.extend(method.records(moment))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor, without waiting blocks: the successor reads them again."""
        meta: dict[str, Any] = {
            "next_row": self.next_row,
            "published_row": self.published_row,
            "explained": self.explained,
            "failed": self.failed,
            "seq": self.seq,
            "version": self.version,
            "loss": self.loss,
            "staleness": self.staleness,
            "names": self.names,
            "kinds": [int(kind) for _, kind in self._features[: len(self.names)]],
            "methods": {},
        }
        arrays: dict[str, NDArray[Any]] = {}
        for method in self.methods:
            meta["methods"][method.name], own = method.state()
            arrays |= {f"{method.name}/{name}": array for name, array in own.items()}
        if self.alarms is not None:
            meta["drift"], own = self.alarms.state()
            arrays |= {f"drift/{name}": array for name, array in own.items()}
        if self.incidents is not None:
            meta["incidents"], own = self.incidents.state()
            arrays |= {f"incidents/{name}": array for name, array in own.items()}
        return meta, arrays

    @classmethod
    def restore(
        cls, stream: str, settings: Settings, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "StreamAggregator":
        """Restore the aggregator from a saved state.

        Raises
        ------
        StateError
            The state is incomplete.
        """
        try:
            restored = cls.empty(stream, settings)
            for method in restored.methods:
                method.restore(meta["methods"][method.name], _of(method.name, arrays))
            if restored.alarms is not None:
                restored.alarms.restore(meta, _of("drift", arrays))
            if restored.incidents is not None:
                restored.incidents.restore(meta, _of("incidents", arrays))
            restored.next_row = int(meta["next_row"])
            restored.explained = int(meta["explained"])
            restored.published_row = int(meta["published_row"])
            restored.seq = int(meta["seq"])
            restored.version = int(meta["version"])
            restored.loss = str(meta["loss"])
            restored.staleness = None if meta["staleness"] is None else float(meta["staleness"])
            restored.names = [str(name) for name in meta["names"]]
            restored.failed = int(meta["failed"])
            restored._features = [(name, int(kind)) for name, kind in zip(restored.names, meta["kinds"], strict=True)]
            return restored
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"progress.aggregator: the state of stream {stream!r} is not one that this version wrote ({error!r}); "
                "upgrade the aggregator, or start a new epoch"
            ) from error


def _longer(known: list[tuple[str, int]], given: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the longer of two lists of features, of which one begins with the other."""
    for slot, (before, now) in enumerate(zip(known, given, strict=False)):
        if before != now:
            raise FrameError(
                f"expected feature {before[0]!r} of kind {before[1]} at {slot}, got {now[0]!r} of {now[1]}"
            )
    return max(known, given, key=len)


def _of(method: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a method's arrays under their own names."""
    return {name.removeprefix(f"{method}/"): array for name, array in arrays.items() if name.startswith(f"{method}/")}
