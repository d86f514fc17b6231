"""What the learner must know, as one value that changes numbers or bounds nothing else."""

from dataclasses import dataclass

from glasstream.background.settings import BackgroundSettings
from glasstream.ingest.admission import ClassLimits, Task
from glasstream.ingest.features import FeatureLimits
from glasstream.learn.schedule import Schedule
from glasstream.models.catalogue import ModelFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnSettings:
    """Settings of every stream learner of a stage. See `glasstream.settings` for meaning and defaults."""

    factory: ModelFactory
    model_name: str
    task: Task | None
    many_classes: bool
    seed: int
    epoch: int
    """Of the partition; of a stream after a reset mark a later one."""
    loss: str | None
    background: BackgroundSettings
    corrected: bool
    """iSAGE subtracts the excess of a finite number of background rows."""
    schedule: Schedule
    block_rows: int
    block_bytes: int
    labels_window: int
    """Events of a stream among which a label finds its own."""
    limits: FeatureLimits
    class_limits: ClassLimits
    message_bytes: int
    streams: int
    stream_bytes: int
    partitioner: str
    event_partitions: int
    """Partitions of `events`; 0: do not check where a message lies."""

    @property
    def start(self) -> int:
        """t0: the first row that is explained."""
        return self.background.start
