"""Settings of the learner. Each one changes numbers or limits input."""

from dataclasses import dataclass

from glasstream.background.settings import BackgroundSettings
from glasstream.ingest.admission import ClassLimits, Task
from glasstream.ingest.features import FeatureLimits
from glasstream.learn.schedule import Schedule
from glasstream.models.live.catalogue import ModelFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnSettings:
    """Settings of every stream learner of a stage. See `glasstream.settings` for meaning and defaults."""

    factory: ModelFactory
    model_name: str
    task: Task | None
    many_classes: bool
    seed: int
    epoch: int
    """Epoch of the partition; a stream that was reset has a later one."""
    loss: str | None
    background: BackgroundSettings
    corrected: bool
    """Whether iSAGE subtracts the bias that a finite number of background rows adds to the loss."""
    schedule: Schedule
    block_rows: int
    block_bytes: int
    labels_window: int
    """Number of recent events of a stream among which a label can find its event."""
    limits: FeatureLimits
    class_limits: ClassLimits
    message_bytes: int
    streams: int
    stream_bytes: int
    partitioner: str
    event_partitions: int
    """Number of partitions of `events`; with 0, the partition of a message is not checked."""

    @property
    def start(self) -> int:
        """The first explained row, t0."""
        return self.background.start
