"""Settings of the novelty detector."""

from dataclasses import dataclass

from glasstream.drift.detector import Parameters
from glasstream.gbmap.settings import GbmapSettings
from glasstream.ingest.admission import ClassLimits, Task
from glasstream.ingest.features import FeatureLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSettings:
    """Settings of the fit of a map to a window; see `glasstream.novelty.options.NoveltyOptions`."""

    map: GbmapSettings
    """Loss, seed and stream are the fit's own."""
    seed: int
    held: float
    neighbours: int
    rate: float
    categories: int
    classes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoveltySettings:
    """Settings of every stream of a novelty detector. See `glasstream.settings` for meaning and defaults."""

    epoch: int
    task: Task | None
    limits: FeatureLimits
    class_limits: ClassLimits
    message_bytes: int
    streams: int
    stream_bytes: int
    partitioner: str
    event_partitions: int
    """Number of partitions of `events`; with 0, the partition of a message is not checked."""
    labels_window: int
    """Number of recent events of a stream among which a label can find its event."""
    window: int
    stride: int
    delay: int
    """At most `stride`, so that a stream waits for one map at a time."""
    age: int
    attribution: bool
    fit: MapSettings
    detector: Parameters
    """Parameters of ADWIN on the flags."""
