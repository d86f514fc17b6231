"""Everything that can be configured, with defaults and bounds. Where the values come from: `pipeline.configuration`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from pipeline.fold.settings import FoldSettings
from pipeline.ingest.admission import Task
from pipeline.ingest.features import FeatureLimits
from pipeline.learn.settings import LearnSettings
from pipeline.models.catalogue import model_factory

BATCH_OVERHEAD = 12
"""What Kafka's default for `max.message.bytes` allows beyond 1 MiB for the batch around a message."""

Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is learned.

    Attributes
    ----------
    name
        ``forest``, ``tree``, ``linear``, or ``PACKAGE.MODULE:FACTORY``, a callable that returns a River model.
    task
        ``classification`` or ``regression``; unset: a stream's first labelled event decides.
    many_classes
        More than two classes are to come, so that a binary model is put under one-vs-rest from the start.
    """

    name: str = "forest"
    task: Literal["classification", "regression"] | None = None
    many_classes: bool = False


class Explain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the model is explained.

    Attributes
    ----------
    alpha
        α of the exponential smoothing, in (0, 1]; a window of N rows corresponds to 2 / (N + 1).
    sampling
        Law of the background rows: ``geometric`` (recent ones) or ``uniform`` (all).
    reservoir
        L, background rows kept for a stream.
    start
        t0, the first row that is explained, from 1 on; unset: when the reservoir is full.
    draws
        Background rows drawn for each feature of each row.
    loss
        One of `pipeline.explain.losses.LOSSES`; unset: zero_one for classification, squared for regression.
    """

    alpha: Annotated[float, Meta(gt=0, le=1)] = 0.001
    sampling: Literal["geometric", "uniform"] = "geometric"
    reservoir: Positive = 100
    start: Positive | None = None
    draws: Positive = 1
    loss: Literal["zero_one", "cross_entropy", "brier", "absolute", "squared"] | None = None


class Snapshot(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the model is snapshotted: at 1, 2, 4, ... `doubling` learned rows, then every `cadence`."""

    doubling: Positive = 256
    cadence: Positive = 500


class Publish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a record is published: when (row + 1) mod `every` is 0. Changes no number."""

    every: Positive = 100


class Block(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of one stream that travel together, at most: so many, and so many bytes of numbers."""

    rows: Positive = 500
    bytes: Annotated[int, Meta(ge=65_536)] = 512 * 1024


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds.

    Attributes
    ----------
    message_bytes
        Largest message on `events` that is read; larger ones are dead letters.
    dead_bytes
        Largest original that a dead letter carries; of a larger one only the origin is kept.
    stream_bytes
        Longest stream name (the message key).
    features, categories, text
        Of one stream: features; categories of one feature; characters of a name or category.
    rows_ahead
        C: rows that the learner may be ahead of the fold, per stream.
    work_bytes
        Bytes of blocks beyond the fold's progress, per partition of `events`.
    snapshot_bytes
        S: bytes of snapshots beyond the fold's progress, per partition of `events`; one snapshot is always admitted.
    snapshot_largest
        Largest snapshot that is sent at all.
    """

    message_bytes: Positive = 1024 * 1024
    dead_bytes: Positive = 4 * 1024 * 1024
    stream_bytes: Annotated[int, Meta(ge=1, le=1024)] = 249
    features: Positive = 2_000
    categories: Positive = 10_000
    text: Positive = 1_024
    rows_ahead: Positive = 20_000
    work_bytes: Positive = 64 * 1024 * 1024
    snapshot_bytes: Positive = 64 * 1024 * 1024
    snapshot_largest: Positive = 64 * 1024 * 1024


class Transaction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often learner and fold commit: after `seconds`, or `rows`."""

    seconds: Annotated[float, Meta(gt=0, le=10)] = 0.2
    rows: Positive = 2_000


class Topics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Partition counts, replication, and how a key finds its partition of `events`."""

    events: Positive = 4
    work: Positive = 8
    replication: Positive = 1
    partitioner: Literal["murmur2", "crc32"] = "murmur2"


class Worker(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One worker's place in its group.

    Attributes
    ----------
    instance
        Fixed name of this worker within its stage; unset: a name of its own at every start.
    session_seconds, heartbeat_seconds
        Of the group membership.
    fetch_wait_ms
        How long a broker may hold a fetch back when there is nothing new.
    check_crcs
        Whether what is fetched is checked against its checksum; librdkafka's mock cluster writes wrong ones.
    """

    instance: str | None = None
    session_seconds: Annotated[float, Meta(ge=1)] = 20.0
    heartbeat_seconds: Annotated[float, Meta(gt=0)] = 3.0
    fetch_wait_ms: Positive = 100
    check_crcs: bool = True


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured.

    Attributes
    ----------
    prefix
        Begins every topic, group and transactional id.
    broker
        ``embedded``, ``local``, ``HOST:PORT,...``; ``none`` in `run`: no Kafka at all.
    epoch, seed
        Which life of a stream this is; what all randomness is derived from.
    kafka
        Further librdkafka client settings (``security.protocol``, ...).
    """

    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")] = "glasstream."
    broker: str = "embedded"
    epoch: Natural = 0
    seed: int = 1
    model: Model = Model()
    explain: Explain = Explain()
    snapshot: Snapshot = Snapshot()
    publish: Publish = Publish()
    block: Block = Block()
    limits: Limits = Limits()
    transaction: Transaction = Transaction()
    topics: Topics = Topics()
    worker: Worker = Worker()
    kafka: dict[str, str] = {}

    @property
    def start(self) -> int:
        """t0: the first row that is explained."""
        return self.explain.start or self.explain.reservoir

    @property
    def partitions(self) -> dict[str, int]:
        """Partition counts by what they count, as the contracts take them."""
        return {"events": self.topics.events, "work": self.topics.work}

    @property
    def topic_overrides(self) -> dict[str, dict[str, str]]:
        """Topic configuration that these settings put in place of the contract's: room for larger messages."""
        if self.limits.message_bytes <= Limits().message_bytes:
            return {}
        return {"events": {"max.message.bytes": str(self.limits.message_bytes + BATCH_OVERHEAD)}}

    def learn(self) -> LearnSettings:
        """What the learner must know.

        Raises
        ------
        ModelError
            The model cannot be made.
        """
        return LearnSettings(
            factory=model_factory(self.model.name, self.seed),
            model_name=self.model.name,
            task=Task(self.model.task) if self.model.task else None,
            many_classes=self.model.many_classes,
            seed=self.seed,
            epoch=self.epoch,
            loss=self.explain.loss,
            sampling=self.explain.sampling,
            reservoir=self.explain.reservoir,
            start=self.start,
            draws=self.explain.draws,
            doubling=self.snapshot.doubling,
            cadence=self.snapshot.cadence,
            block_rows=self.block.rows,
            block_bytes=self.block.bytes,
            limits=FeatureLimits(self.limits.features, self.limits.categories, self.limits.text),
            message_bytes=self.limits.message_bytes,
            stream_bytes=self.limits.stream_bytes,
            partitioner=self.topics.partitioner,
            event_partitions=self.topics.events,
        )

    def fold(self) -> FoldSettings:
        """What the fold must know."""
        return FoldSettings(
            epoch=self.epoch,
            alpha=self.explain.alpha,
            sampling=self.explain.sampling,
            start=self.start,
            every=self.publish.every,
        )

    def fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """Every setting that changes numbers, by key. Work begun under one fingerprint goes on under no other."""
        values = flatten(msgspec.to_builtins(self))
        values["explain.start"] = self.start
        return {key: values[key] for key in _CHANGES_NUMBERS}


_CHANGES_NUMBERS = (
    "seed",
    "model.name",
    "model.task",
    "model.many_classes",
    "explain.alpha",
    "explain.sampling",
    "explain.reservoir",
    "explain.start",
    "explain.draws",
    "explain.loss",
    "snapshot.doubling",
    "snapshot.cadence",
    "limits.message_bytes",
    "limits.stream_bytes",
    "limits.features",
    "limits.categories",
    "limits.text",
    "topics.partitioner",
)


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables as one mapping with dotted keys.

    >>> flatten({"seed": 1, "explain": {"alpha": 0.1}})
    {'seed': 1, 'explain.alpha': 0.1}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and key != "kafka":
            flat.update({f"{key}.{name}": inner for name, inner in value.items()})
        else:
            flat[key] = value
    return flat
