"""All settings, with their defaults and bounds. `glasstream.configuration` reads their values."""

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
from glasstream.models.live.catalogue import model_factory
from glasstream.novelty.options import NoveltyOptions
from glasstream.novelty.settings import NoveltySettings
from glasstream_topics.events_dead import MAX_LETTER_BYTES, ORIGIN_BYTES
from glasstream_topics.methods import METHODS

BATCH_OVERHEAD = 12
"""Bytes that Kafka's default `max.message.bytes` allows beyond 1 MiB, for the header of a record batch."""

NOVELTY = "novelty"
"""Value of `explain.methods` that starts the novelty detector. It is not an explanation method."""

_METHODS = rf"^({NOVELTY},)*({'|'.join(METHODS)})(,({'|'.join((*METHODS, NOVELTY))}))*$"
_SOME_METHODS = f"one or more of {', '.join(METHODS)}, with commas between them, and {NOVELTY} beside them if wanted"

_NAME = "1 to 100 letters of A-Z, a-z, 0-9, '.', '_' and '-'"
"""Description of the pattern, for error messages."""

Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that each stream learns.

    Attributes
    ----------
    name
        ``forest``, ``tree``, ``linear``, or ``PACKAGE.MODULE:FACTORY``, a callable that returns a River model.
    task
        ``classification`` or ``regression``. If unset, the first labelled event of a stream decides.
    many_classes
        Expect more than two classes: wrap a binary model in one-vs-rest from the start.
    """

    name: str = "forest"
    task: Literal["classification", "regression"] | None = None
    many_classes: bool = False


class Explain(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the model is explained.

    Attributes
    ----------
    methods
        Explanation methods, separated by commas: ``ipfi``, ``isage``, ``ipdp``. If the list also contains ``novelty``,
        `run` starts the novelty detector too.
    alpha
        Smoothing factor α of the exponential smoothing, in (0, 1]. A window of N rows corresponds to 2 / (N + 1).
    sampling
        Distribution of the background rows: ``geometric`` prefers recent rows, ``uniform`` weighs all earlier rows
        equally, ``window`` keeps the last L rows.
    reservoir
        Size L of each stream's reservoir, in rows.
    start
        First row t0 that is explained, at least 1. If unset, explanations begin when the reservoir is full.
    draws
        Number of background rows that iPFI draws for each feature of each row.
    loss
        Loss function, one of `glasstream.explain.losses.LOSSES`. If unset, zero_one for classification and squared
        for regression.
    level
        Confidence level of the intervals, below 1.
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
    """How iSAGE removes features.

    Attributes
    ----------
    inner_samples
        Number m of background rows. Their mean prediction replaces the prediction for a row without some of its
        features.
    removal
        ``marginal`` takes background rows from the reservoir. ``conditional`` draws the removed values given the
        remaining ones, from a tree that the learner keeps for each feature.
    fresh
        Draw new background rows for each step along the order of features. Conditional removal always does.
    corrected
        Subtract the bias that a finite m adds to the expected loss. This applies to the losses squared and brier and
        needs m of at least 2.
    """

    inner_samples: Positive = 5
    removal: Literal["marginal", "conditional"] = "marginal"
    fresh: bool = False
    corrected: bool = False


class Ipdp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where effect curves are evaluated, and how much of them is kept.

    Attributes
    ----------
    grid
        ``extremes`` uses equidistant points between the minimum and the maximum of the window, ``quantile_range``
        equidistant points between two quantiles, ``quantiles`` points at quantiles.
    points
        Number of grid points of a numeric feature.
    categories
        Largest number of grid points of a text or boolean feature.
    window
        Number of recent rows from which the grid is computed.
    store
        Largest number of values that are kept per feature to estimate quantiles, at most `window`.
    low, high
        Levels of the lowest and the highest quantile.
    ice
        Number of single-row curves (ICE curves) kept per feature for display.
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
    """How labels that arrive after their events are matched.

    Attributes
    ----------
    window
        Number of recent events of a stream among which a label can find its event. Learner and novelty detector keep
        these events. With 0 they keep none, and every late label becomes a dead letter.
    """

    window: Natural = 10_000


class SnapshotOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the learner publishes a snapshot of the model.

    Attributes
    ----------
    doubling
        The first snapshots are taken after 1, 2, 4, ... `doubling` learned rows.
    cadence
        Later snapshots are taken at multiples of this number of rows, as long as no change is measured: while `target`
        is 0, or fewer rows are learned, or the model is not compiled.
    target
        Otherwise the learner chooses intervals in which the model changes by about this much (see
        `glasstream.learn.staleness`).
    shortest, longest
        Smallest and largest interval, in rows, that `target` can lead to.
    """

    doubling: Positive = 256
    cadence: Positive = 500
    target: Annotated[float, Meta(ge=0)] = 0.15
    shortest: Positive = 200
    longest: Positive = 1_000


class Checkpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often the learner saves its state. These settings change no number.

    Attributes
    ----------
    seconds
        Shortest time between two checkpoints of a stream. With 0 there are no checkpoints, and a restart learns all
        events again. After ten times as long, the learner and the novelty detector save each stream that has changed,
        so that a restart needs no older event.
    share
        Largest share of the learner's time that checkpoints may take.
    """

    seconds: Annotated[float, Meta(ge=0)] = 30.0
    share: Annotated[float, Meta(gt=0, le=1)] = 0.04

    @property
    def patience(self) -> float:
        """Seconds after which the state of a changed stream is saved in any case; 0 if never."""
        return 10 * self.seconds


class Publish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often records are published: when (row + 1) mod `every` is 0. This changes no number."""

    every: Positive = 100


class Block(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Largest number of rows in a block, and largest number of bytes that its numbers take."""

    rows: Positive = 500
    bytes: Annotated[int, Meta(ge=65_536)] = 512 * 1024


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on messages, streams, features and the work in flight.

    Attributes
    ----------
    message_bytes
        Largest message on `events` that is read. Larger messages become dead letters.
    dead_bytes
        Largest dead letter, counting key, value and headers. A dead letter that would be larger, or that the broker
        refuses for its size, carries only the origin of the message.
    streams
        Largest number of streams per partition of `events`. Messages of further streams become dead letters.
    stream_bytes
        Longest stream name (the message key), in bytes.
    features
        Largest number of features per stream. All names together may take 256 KiB.
    categories
        Largest number of categories per feature.
    text
        Longest name or category, in characters.
    classes
        Largest number of classes per stream. All class names together may take 128 KiB. A label beyond this limit
        becomes a dead letter; most often the target is an id or free text.
    label_bytes
        Longest class name, in UTF-8 bytes.
    lag
        What the learner does when it reaches `rows_ahead`, `request_bytes` or `snapshot_bytes`. With ``wait`` it waits
        for the aggregator. With ``shed`` it continues, deletes old snapshots, and counts the rows that needed them as
        unexplained. The number of such rows depends on the speed of the workers.
    rows_ahead
        Largest number C of rows by which the learner may be ahead of the aggregator, per stream.
    request_bytes
        Largest size of the blocks that the aggregator has not passed yet, per partition of `events`. If the
        contributions to a block can be larger than the block, their size counts. The learner keeps these blocks to send
        them again if they are lost.
    snapshot_bytes
        Largest size S of the snapshots that the aggregator has not passed yet, per partition of `events`. One snapshot
        of each stream is always admitted. Every explainer holds the snapshots of all partitions.
    snapshot_largest
        Largest snapshot that the learner sends.
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
    """How often learner and aggregator commit: after `seconds` or after `rows`, whichever comes first."""

    seconds: Annotated[float, Meta(gt=0, le=10)] = 0.2
    rows: Positive = 2_000


class Topics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number of partitions, replication, and the partitioner of `events`.

    Attributes
    ----------
    events, requests
        Number of partitions of `events` and of `explain.requests`.
    replication
        Replication factor of new topics; -1 uses the broker's `default.replication.factor`.
    partitioner
        Hash function with which producers choose the partition of a key.
    """

    events: Positive = 4
    requests: Positive = 8
    replication: Annotated[int, Meta(ge=-1)] = -1
    partitioner: Literal["murmur2", "crc32"] = "murmur2"


class Worker(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Membership of a worker in its consumer group, and how it fetches, resumes and logs.

    Attributes
    ----------
    instance
        Fixed name of this worker within its stage. If unset, the worker takes a new name at every start.
    session_seconds, heartbeat_seconds
        Session timeout and heartbeat interval of the consumer group.
    fetch_wait_ms
        Longest time for which a broker may delay a fetch when there are no new messages.
    new_epoch
        If the settings differ from those of the saved state, start a new epoch where that state ends, instead of
        failing. If nothing differs, this has no effect.
    check_crcs
        Verify the checksums of fetched batches. Turn this off for librdkafka's mock cluster, which writes wrong
        checksums.
    debug
        Log everything, including what Faust, aiokafka and librdkafka report about connections, groups and transactions.
    """

    instance: str | None = None
    session_seconds: Annotated[float, Meta(ge=1)] = 20.0
    heartbeat_seconds: Annotated[float, Meta(gt=0)] = 3.0
    fetch_wait_ms: Positive = 100
    new_epoch: bool = False
    check_crcs: bool = True
    debug: bool = False


class Health(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a worker serves `/healthz`, `/readyz` and `/metrics`, and when it counts as stalled.

    Attributes
    ----------
    host
        Address to bind to. There is no authentication: bind to loopback or to a private network.
    port
        Port to bind to. If unset, any free port is used.
    stall_seconds
        A worker whose event loop is blocked for this long exits with code 7.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    stall_seconds: Annotated[float, Meta(ge=5)] = 120.0


class Page(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The live page. Its access token is not a setting: set ``GLASSTREAM_PAGE_TOKEN`` or
    ``GLASSTREAM_PAGE_TOKEN_FILE``.

    Attributes
    ----------
    host
        Address to bind to. Any address beyond loopback requires a token.
    port
        Port to bind to. If unset, 8642, or any free port if 8642 is taken. With 0, any free port.
    tls_cert, tls_key
        PEM files of the certificate and its private key, for https. The file of the certificate may also hold the key.
    history
        Largest number of records per partition that the page reads back at startup.
    streams
        Largest number of streams that the page keeps.
    features
        Largest number of features that the page keeps per stream.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    history: Positive = 200_000
    streams: Positive = 32
    features: Positive = 2_000


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings.

    Attributes
    ----------
    prefix
        Prefix of every topic, consumer group and transactional id.
    broker
        ``embedded``, ``local`` or ``HOST:PORT,...``. With ``none``, `run` uses no Kafka at all.
    epoch
        Smallest epoch of all streams. A reset stream has a later one.
    seed
        Random seed from which all draws are derived.
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
        """The first explained row, t0."""
        return self.explain.start or self.explain.reservoir

    @property
    def methods(self) -> tuple[str, ...]:
        """The explanation methods, in the order in which records are published."""
        asked = self.explain.methods.split(",")
        return tuple(method for method in METHODS if method in asked)

    @property
    def detects_novelty(self) -> bool:
        """Whether `run` starts the novelty detector."""
        return NOVELTY in self.explain.methods.split(",")

    @property
    def partitions(self) -> dict[str, int]:
        """Partition counts, keyed by `events` and `requests` as the contracts expect."""
        return {"events": self.topics.events, "requests": self.topics.requests}

    @property
    def topic_overrides(self) -> dict[str, dict[str, str]]:
        """Topic configuration that replaces the contract's, to make room for larger messages."""
        if self.limits.message_bytes <= Limits().message_bytes:
            return {}
        return {"events": {"max.message.bytes": str(self.limits.message_bytes + BATCH_OVERHEAD)}}

    def learn(self) -> LearnSettings:
        """Return the settings of the learner.

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
        """Return the settings for what the learner keeps of earlier rows and draws from them.

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
        """Return the settings of the aggregator.

        Raises
        ------
        SettingsError
            Settings of the drift detector contradict each other.
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
        """Return the settings of the novelty detector.

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
        """Return every setting that changes novelty scores, by key. They do not depend on the model."""
        values = flatten(msgspec.to_builtins(self))
        return {key: values[key] for key in (*_CHANGES_NOVELTY, *_CHANGES_SEQ)}

    def fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """Return every setting that changes numbers, by key.

        State that was saved under one fingerprint is not continued under another.
        """
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
"""Settings that decide which messages are accepted, and what is kept of them."""

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
    """Return nested tables as one mapping with dotted keys.

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
