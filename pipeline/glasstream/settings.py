"""Everything that can be configured, with defaults and bounds. Where values come from: `glasstream.configuration`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from glasstream.aggregator.settings import AggregatorSettings
from glasstream.background.grids import GridSettings
from glasstream.background.settings import BackgroundSettings, StorageSettings
from glasstream.drift.options import DriftOptions
from glasstream.ingest.admission import ClassLimits, Task
from glasstream.ingest.features import FeatureLimits
from glasstream.learn.schedule import Schedule
from glasstream.learn.settings import LearnSettings
from glasstream.models.catalogue import model_factory
from glasstream.novelty.options import NoveltyOptions
from glasstream.novelty.settings import NoveltySettings
from glasstream_topics.events_dead import MAX_LETTER_BYTES, ORIGIN_BYTES
from glasstream_topics.methods import METHODS

BATCH_OVERHEAD = 12
"""What Kafka's default for `max.message.bytes` allows beyond 1 MiB for the batch around a message."""

NOVELTY = "novelty"
"""Stands among the methods and is none: it explains no row, and the novelty detector tells it, not the explainers."""

_METHODS = rf"^({NOVELTY},)*({'|'.join(METHODS)})(,({'|'.join((*METHODS, NOVELTY))}))*$"
_SOME_METHODS = f"one or more of {', '.join(METHODS)}, with commas between them, and {NOVELTY} beside them if wanted"

_NAME = "1 to 100 letters of A-Z, a-z, 0-9, '.', '_' and '-'"
"""What the patterns mean, for messages."""

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
    methods
        Of ``ipfi``, ``isage`` and ``ipdp``, separated by commas; beside them ``novelty``, for which `run` starts a
        novelty detector as well.
    alpha
        α of the exponential smoothing, in (0, 1]; a window of N rows corresponds to 2 / (N + 1).
    sampling
        Law of the background rows: ``geometric`` (recent ones), ``uniform`` (all) or ``window`` (the last L).
    reservoir
        L, background rows kept for a stream.
    start
        t0, the first row that is explained, from 1 on; unset: when the reservoir is full.
    draws
        iPFI: background rows drawn for each feature of each row.
    loss
        One of `glasstream.explain.losses.LOSSES`; unset: zero_one for classification, squared for regression.
    level
        Of the intervals, below 1.
    """

    methods: Annotated[str, Meta(pattern=_METHODS, description=_SOME_METHODS)] = "ipfi"
    alpha: Annotated[float, Meta(gt=0, le=1)] = 0.001
    sampling: Literal["geometric", "uniform", "window"] = "geometric"
    reservoir: Positive = 100
    start: Positive | None = None
    draws: Positive = 1
    loss: Literal["zero_one", "cross_entropy", "brier", "absolute", "squared"] | None = None
    level: Annotated[float, Meta(gt=0, lt=1)] = 0.95


class Isage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How iSAGE takes features away.

    Attributes
    ----------
    inner_samples
        m, background rows whose mean prediction stands for a row without some of its features.
    removal
        ``marginal``: background rows come from the reservoir; ``conditional``: what is taken away is drawn given what
        stays, by a tree a feature that the learner keeps.
    fresh
        Draw background rows anew for each step along the order of features; conditional removal always does.
    corrected
        Subtract what the expected loss exceeds for a finite m; for the losses squared and brier, m from 2 on.
    """

    inner_samples: Positive = 5
    removal: Literal["marginal", "conditional"] = "marginal"
    fresh: bool = False
    corrected: bool = False


class Ipdp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where effect curves are evaluated, and what is kept of them.

    Attributes
    ----------
    grid
        ``extremes``: equidistant points between the window's minimum and maximum; ``quantile_range``: between two
        quantiles; ``quantiles``: at quantiles.
    points, categories
        Points of a numeric feature; most points of a text or boolean one.
    window
        Rows that the grid looks back on.
    store
        Values of a feature from which quantiles are taken, at most `window`.
    low, high
        Levels of the outer quantiles.
    ice
        Curves of single rows kept for display, of each feature.
    """

    grid: Literal["extremes", "quantile_range", "quantiles"] = "quantile_range"
    points: Annotated[int, Meta(ge=2, le=1_000)] = 10
    categories: Annotated[int, Meta(ge=2, le=1_000)] = 10
    window: Positive = 1_000
    store: Positive = 200
    low: Annotated[float, Meta(ge=0, lt=1)] = 0.05
    high: Annotated[float, Meta(gt=0, le=1)] = 0.95
    ice: Annotated[int, Meta(ge=0, le=100)] = 5


class Labels(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Labels that come after their events.

    Attributes
    ----------
    window
        A label finds its event among the newest so many of the stream, which learner and novelty detector keep; 0: none
        is kept, and late labels are dead letters.
    """

    window: Natural = 10_000


class SnapshotOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the model is snapshotted.

    Attributes
    ----------
    doubling, cadence
        At 1, 2, 4, ... `doubling` learned rows, then at the multiples of `cadence`, or
    target, shortest, longest
        when the model has changed by `target` (see `glasstream.learn.staleness`), after so many rows at least and at
        most; 0: at the multiples of `cadence` only. Models that are not compiled are not measured.
    """

    doubling: Positive = 256
    cadence: Positive = 500
    target: Annotated[float, Meta(ge=0)] = 0.15
    shortest: Positive = 200
    longest: Positive = 1_000


class Checkpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often the learner's state is kept, from which it goes on after a restart. Changes no number.

    Attributes
    ----------
    seconds
        Between two checkpoints of a stream, at least; 0: none, after a restart everything is learned again. After ten
        times as long the state of a stream that has changed is kept in any case, the novelty detector's too, so that a
        restart asks for no older event.
    share
        Of the learner's time that checkpoints may take.
    """

    seconds: Annotated[float, Meta(ge=0)] = 30.0
    share: Annotated[float, Meta(gt=0, le=1)] = 0.04

    @property
    def patience(self) -> float:
        """Seconds after which a stream that has changed is kept as it is; 0: none is."""
        return 10 * self.seconds


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
        Largest dead letter: key, value and headers. Of a message that does not fit only the origin is kept; so too
        where the broker refuses a letter for its size.
    streams
        Streams of one partition of `events`; messages of further ones are dead letters.
    stream_bytes
        Longest stream name (the message key).
    features, categories, text
        Of one stream: features, whose names together may take 256 KiB; categories of one feature; characters of a name
        or category.
    classes, label_bytes
        Of one stream: classes, whose names together may take 128 KiB; UTF-8 bytes of a class name. A label beyond
        them is a dead letter: most often an id or a free text was taken for the target.
    lag
        What the learner does at the next three bounds: ``wait`` for the aggregator, or ``shed``: it goes on, old
        snapshots are ended, and rows that needed one count as unexplained (how many then depends on the speed of the
        workers).
    rows_ahead
        C: rows that the learner may be ahead of the aggregator, per stream.
    request_bytes
        Bytes of blocks beyond the aggregator's progress, or of the contributions to them where these can be more, per
        partition of `events`. The learner keeps these blocks, to send them again if they are lost.
    snapshot_bytes
        S: bytes of snapshots beyond the aggregator's progress, per partition of `events`; one snapshot of each stream
        is always admitted. Every explainer holds the snapshots of all partitions.
    snapshot_largest
        Largest snapshot that is sent at all.
    """

    message_bytes: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] = 1024 * 1024
    dead_bytes: Annotated[int, Meta(ge=ORIGIN_BYTES, le=MAX_LETTER_BYTES)] = 4 * 1024 * 1024
    streams: Positive = 1_000
    stream_bytes: Annotated[int, Meta(ge=1, le=1024)] = 249
    features: Positive = 2_000
    categories: Positive = 10_000
    text: Positive = 1_024
    classes: Annotated[int, Meta(ge=2, le=10_000)] = 256
    label_bytes: Annotated[int, Meta(ge=1, le=1_024)] = 256
    lag: Literal["wait", "shed"] = "wait"
    rows_ahead: Positive = 20_000
    request_bytes: Positive = 64 * 1024 * 1024
    snapshot_bytes: Positive = 64 * 1024 * 1024
    snapshot_largest: Positive = 64 * 1024 * 1024


class Transaction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often learner and aggregator commit: after `seconds`, or `rows`."""

    seconds: Annotated[float, Meta(gt=0, le=10)] = 0.2
    rows: Positive = 2_000


class Topics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Partition counts, replication, and how a key finds its partition of `events`.

    Attributes
    ----------
    events, requests
        Number of partitions of `events` and of `explain.requests`.
    replication
        Copies of each partition of a new topic; -1 for the broker's `default.replication.factor`.
    partitioner
        How a producer finds the partition of a key.
    """

    events: Positive = 4
    requests: Positive = 8
    replication: Annotated[int, Meta(ge=-1)] = -1
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
    new_epoch
        State of other settings is not gone on from and not refused: a new epoch begins where it ends. Where nothing
        differs it has no effect.
    check_crcs
        Whether what is fetched is checked against its checksum; librdkafka's mock cluster writes wrong ones.
    debug
        Say everything: what Faust, aiokafka and librdkafka tell of connections, groups and transactions too.
    """

    instance: str | None = None
    session_seconds: Annotated[float, Meta(ge=1)] = 20.0
    heartbeat_seconds: Annotated[float, Meta(gt=0)] = 3.0
    fetch_wait_ms: Positive = 100
    new_epoch: bool = False
    check_crcs: bool = True
    debug: bool = False


class Health(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a worker answers `/healthz`, `/readyz` and `/metrics`, and when it counts as stalled.

    Attributes
    ----------
    host, port
        Nobody is asked who they are: keep it to this machine, or to a network of your own. Port unset: any free one.
    stall_seconds
        A worker whose event loop has not turned for so long ends with exit code 7.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    stall_seconds: Annotated[float, Meta(ge=5)] = 120.0


class Page(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The live page. Its token stands in no setting: ``GLASSTREAM_PAGE_TOKEN`` or ``GLASSTREAM_PAGE_TOKEN_FILE``.

    Attributes
    ----------
    host, port
        Where it listens; other hosts than this machine's own need a token. Port unset: 8642, or any free one; 0: any.
    tls_cert, tls_key
        PEM files of its certificate and the key to that, for https; the key may stand in the file of the certificate.
    history
        Records of a partition that are read back at its start, at most.
    streams, features
        What is kept, at most; of each stream so many features.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    history: Positive = 200_000
    streams: Positive = 32
    features: Positive = 2_000


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured.

    Attributes
    ----------
    prefix
        Begins every topic, group and transactional id.
    broker
        ``embedded``, ``local``, ``HOST:PORT,...``; ``none`` in `run`: no Kafka at all.
    epoch, seed
        Which life of a stream this is, at least (a new epoch counts on); what all randomness is derived from.
    kafka
        Further librdkafka client settings (``security.protocol``, ...).
    """

    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$", description=_NAME)] = "glasstream."
    broker: str = "embedded"
    epoch: Natural = 0
    seed: int = 1
    model: Model = Model()
    explain: Explain = Explain()
    isage: Isage = Isage()
    ipdp: Ipdp = Ipdp()
    labels: Labels = Labels()
    drift: DriftOptions = DriftOptions()
    novelty: NoveltyOptions = NoveltyOptions()
    snapshot: SnapshotOptions = SnapshotOptions()
    checkpoint: Checkpoint = Checkpoint()
    publish: Publish = Publish()
    block: Block = Block()
    limits: Limits = Limits()
    transaction: Transaction = Transaction()
    topics: Topics = Topics()
    worker: Worker = Worker()
    health: Health = Health()
    page: Page = Page()
    kafka: dict[str, str] = {}

    @property
    def start(self) -> int:
        """t0: the first row that is explained."""
        return self.explain.start or self.explain.reservoir

    @property
    def methods(self) -> tuple[str, ...]:
        """How the model is explained, in the order in which records are published."""
        asked = self.explain.methods.split(",")
        return tuple(method for method in METHODS if method in asked)

    @property
    def detects_novelty(self) -> bool:
        """Whether `run` is asked for novelty."""
        return NOVELTY in self.explain.methods.split(",")

    @property
    def partitions(self) -> dict[str, int]:
        """Partition counts by what they count, as the contracts take them."""
        return {"events": self.topics.events, "requests": self.topics.requests}

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
            background=self.background(),
            corrected=self.isage.corrected,
            labels_window=self.labels.window,
            schedule=Schedule(**msgspec.structs.asdict(self.snapshot)),
            block_rows=self.block.rows,
            block_bytes=self.block.bytes,
            limits=FeatureLimits(self.limits.features, self.limits.categories, self.limits.text),
            class_limits=ClassLimits(self.limits.classes, self.limits.label_bytes),
            message_bytes=self.limits.message_bytes,
            streams=self.limits.streams,
            stream_bytes=self.limits.stream_bytes,
            partitioner=self.topics.partitioner,
            event_partitions=self.topics.events,
        )

    def background(self) -> BackgroundSettings:
        """What the learner must keep and draw of earlier rows.

        Raises
        ------
        SettingsError
            Settings of the grids contradict each other.
        """
        return BackgroundSettings(
            methods=self.methods,
            sampling=self.explain.sampling,
            reservoir=self.explain.reservoir,
            start=self.start,
            draws=self.explain.draws,
            inner=self.isage.inner_samples,
            fresh=self.isage.fresh,
            storage=StorageSettings() if self.isage.removal == "conditional" else None,
            grid=GridSettings(
                grid=self.ipdp.grid,
                points=self.ipdp.points,
                categories=self.ipdp.categories,
                window=self.ipdp.window,
                store=self.ipdp.store,
                low=self.ipdp.low,
                high=self.ipdp.high,
            ),
        )

    def aggregator(self) -> AggregatorSettings:
        """What the aggregator must know.

        Raises
        ------
        SettingsError
            Settings of the detector contradict each other.
        """
        return AggregatorSettings(
            epoch=self.epoch,
            methods=self.methods,
            alpha=self.explain.alpha,
            sampling=self.explain.sampling,
            reservoir=self.explain.reservoir,
            draws=self.explain.draws,
            inner=self.isage.inner_samples * (2 if self.isage.fresh else 1),
            level=self.explain.level,
            start=self.start,
            every=self.publish.every,
            ice=self.ipdp.ice,
            drift=self.drift.watched(self.seed, self.explain.alpha),
        )

    def novelty_detector(self) -> NoveltySettings:
        """What the novelty detector must know.

        Raises
        ------
        SettingsError
            Settings of the novelty detector contradict each other.
        """
        return NoveltySettings(
            epoch=self.epoch,
            task=Task(self.model.task) if self.model.task else None,
            limits=FeatureLimits(self.limits.features, self.limits.categories, self.limits.text),
            class_limits=ClassLimits(self.limits.classes, self.limits.label_bytes),
            message_bytes=self.limits.message_bytes,
            streams=self.limits.streams,
            stream_bytes=self.limits.stream_bytes,
            partitioner=self.topics.partitioner,
            event_partitions=self.topics.events,
            labels_window=self.labels.window,
            window=self.novelty.window,
            stride=self.novelty.stride,
            delay=self.novelty.delay,
            age=self.novelty.age,
            attribution=self.novelty.attribution,
            fit=self.novelty.fit(self.seed),
            detector=self.novelty.detector,
        )

    def novelty_fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """As `fingerprint`, for what the novelty detector says: that depends on no model."""
        values = flatten(msgspec.to_builtins(self))
        return {key: values[key] for key in (*_CHANGES_NOVELTY, *_CHANGES_SEQ)}

    def fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """Every setting that changes numbers, by key. Work begun under one fingerprint goes on under no other."""
        values = flatten(msgspec.to_builtins(self))
        values["explain.start"] = self.start
        values["explain.methods"] = ",".join(self.methods)
        return {key: values[key] for key in _CHANGES_NUMBERS}


_CHANGES_SEQ = (
    "labels.window",
    "limits.message_bytes",
    "limits.streams",
    "limits.stream_bytes",
    "limits.features",
    "limits.categories",
    "limits.text",
    "limits.classes",
    "limits.label_bytes",
    "topics.partitioner",
)
"""What is accepted, and what of it is kept."""

_CHANGES_NOVELTY = (
    "seed",
    "model.task",
    *(f"novelty.{name}" for name in NoveltyOptions.__struct_fields__ if name != "anchor"),
)

_CHANGES_NUMBERS = (
    "seed",
    "model.name",
    "model.task",
    "model.many_classes",
    "explain.methods",
    "explain.alpha",
    "explain.sampling",
    "explain.reservoir",
    "explain.start",
    "explain.draws",
    "explain.loss",
    "explain.level",
    "isage.inner_samples",
    "isage.removal",
    "isage.fresh",
    "isage.corrected",
    "ipdp.grid",
    "ipdp.points",
    "ipdp.categories",
    "ipdp.window",
    "ipdp.store",
    "ipdp.low",
    "ipdp.high",
    "ipdp.ice",
    "drift.watch",
    "drift.values",
    "drift.pd",
    "drift.min_change",
    "drift.detector",
    "drift.bonferroni",
    "drift.grace",
    "drift.delta",
    "drift.test_interval",
    "drift.buckets",
    "drift.shortest",
    "drift.threshold",
    "drift.tolerance",
    "drift.forgetting_factor",
    "drift.alpha",
    "drift.window",
    "drift.stat_size",
    "snapshot.doubling",
    "snapshot.cadence",
    "snapshot.target",
    "snapshot.shortest",
    "snapshot.longest",
    *_CHANGES_SEQ,
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
