"""What the novelty detector must know, as values of the pure core."""

from dataclasses import dataclass

from glasstream.drift.detector import Parameters
from glasstream.gbmap.settings import GbmapSettings
from glasstream.ingest.admission import ClassLimits, Task
from glasstream.ingest.features import FeatureLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSettings:
    """How a map is fitted to a window; see `glasstream.novelty.options.NoveltyOptions`."""

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
    """Partitions of `events`; 0: do not check where a message lies."""
    labels_window: int
    """Events of a stream among which a label finds its own."""
    window: int
    stride: int
    delay: int
    """At most `stride`: of a stream one map at a time is waited for."""
    age: int
    attribution: bool
    fit: MapSettings
    detector: Parameters
    """Of ADWIN on the flags."""
