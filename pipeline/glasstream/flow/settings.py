"""All settings, with their defaults and bounds. `glasstream.app.configuration` reads their values."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from glasstream.base.changes import Changes, ChangesBoth, ChangesExplanations, ChangesNothing, keys
from glasstream.detect.drift.settings import DriftSettings
from glasstream.detect.groups.settings import GroupSettings
from glasstream.detect.novelty.settings import NoveltySettings
from glasstream.events.limits import IngestLimits
from glasstream.events.mapping.settings import IntakeSettings, RegistryAddress
from glasstream.explain.settings import ExplainSettings, MethodSections
from glasstream.flow.notify_settings import NotifySettings
from glasstream.flow.schedule import Schedule
from glasstream.models.river.catalogue import ModelSettings
from glasstream_topics import ALL, Topic
from glasstream_topics.events_dead import MAX_LETTER_BYTES, ORIGIN_BYTES

BATCH_OVERHEAD = 12
"""Bytes that Kafka's default `max.message.bytes` allows beyond 1 MiB, for the header of a record batch."""

_NAME = "1 to 100 letters of A-Z, a-z, 0-9, '.', '_' and '-'"
"""Description of the pattern, for error messages."""

_PREFIX = r"[A-Za-z0-9._-]{1,100}"
_PREFIXES = Meta(pattern=rf"^({_PREFIX}(,{_PREFIX})*)?$", description=f"prefixes, separated by commas, each of {_NAME}")

_PUBLISHED = "|".join(topic.name.replace(".", "[.]") for topic in ALL if topic.published)
_COPIED = Meta(
    pattern=rf"^({_PUBLISHED})(,({_PUBLISHED}))*$", description="published topics without prefix, separated by commas"
)

Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]


class Labels(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How labels that arrive after their events are matched.

    Attributes
    ----------
    window
        Number of recent events of a stream among which a label can find its event. Learner and novelty detector keep
        these events. With 0 they keep none, and every late label becomes a dead letter.
    estimate
        Number of events without a label whose accuracy and loss are estimated together, in records of `predictions`,
        for example 500. With 0 there are no estimates.
    """

    window: ChangesBoth[Natural] = 10_000
    estimate: ChangesExplanations[Natural] = 0


class Checkpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often the learner saves its state.

    Attributes
    ----------
    seconds
        Shortest time between two checkpoints of a stream. With 0 there are no checkpoints, and a restart learns all
        events again. After ten times as long, the learner and the novelty detector save each stream that has changed,
        so that a restart needs no older event.
    share
        Largest share of the learner's time that checkpoints may take.
    """

    seconds: ChangesNothing[Annotated[float, Meta(ge=0)]] = 30.0
    share: ChangesNothing[Annotated[float, Meta(gt=0, le=1)]] = 0.04

    @property
    def patience(self) -> float:
        """Seconds after which the state of a changed stream is saved in any case; 0 if never."""
        return 10 * self.seconds


class Publish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often records are published.

    Attributes
    ----------
    every
        Number of rows between two records of a stream: a record is published when (row + 1) mod `every` is 0.
    """

    every: ChangesNothing[Positive] = 100


class Block(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large a block may be, the unit of work of an explainer.

    Attributes
    ----------
    rows
        Largest number of rows in a block.
    bytes
        Largest number of bytes that the numbers of a block take.
    """

    rows: ChangesNothing[Positive] = 500
    bytes: ChangesNothing[Annotated[int, Meta(ge=65_536)]] = 512 * 1024


class Limits(IngestLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on messages, streams, features and the work in flight.

    Attributes
    ----------
    dead_bytes
        Largest dead letter, counting key, value and headers. A dead letter that would be larger, or that the broker
        refuses for its size, carries only the origin of the message.
    lag
        What the learner does when it reaches `rows_ahead`, `request_bytes` or `snapshot_bytes`. With ``wait`` it waits
        for the aggregator. With ``shed`` it continues, deletes old snapshots, and counts the rows that needed them as
        unexplained. The number of such rows depends on the speed of the workers. It keeps 16 bytes for each such row
        until the aggregator has passed it, and waits when these exceed `request_bytes`.
    rows_ahead
        Largest number of rows by which the learner may be ahead of the aggregator, per stream.
    request_bytes
        Largest size of the blocks that the aggregator has not passed yet, per partition of `events`. If the
        contributions to a block can be larger than the block, their size counts. The learner keeps these blocks to send
        them again if they are lost.
    snapshot_bytes
        Largest size of the snapshots that the aggregator has not passed yet, per partition of `events`. One snapshot
        of each stream is always admitted. Every explainer holds the snapshots of all partitions.
    snapshot_largest
        Largest snapshot that the learner sends.
    """

    dead_bytes: ChangesNothing[Annotated[int, Meta(ge=ORIGIN_BYTES, le=MAX_LETTER_BYTES)]] = 4 * 1024 * 1024
    lag: ChangesNothing[Literal["wait", "shed"]] = "wait"
    rows_ahead: ChangesNothing[Positive] = 20_000
    request_bytes: ChangesNothing[Positive] = 64 * 1024 * 1024
    snapshot_bytes: ChangesNothing[Positive] = 64 * 1024 * 1024
    snapshot_largest: ChangesNothing[Positive] = 64 * 1024 * 1024


class SegmentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The search for weak segments, in which the loss is higher than elsewhere. It needs incidents (`drift.budget`).

    Attributes
    ----------
    level
        Probability that a record names a segment if the loss does not depend on the features, such as 0.05. 0 turns the
        search off.
    """

    level: ChangesExplanations[Annotated[float, Meta(ge=0, le=0.5)]] = 0.0


class Transaction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often learner and aggregator commit while events wait. When none waits, they commit at once.

    Attributes
    ----------
    seconds
        Time after which a transaction is committed, if it does not reach `rows` before.
    rows
        Number of rows after which a transaction is committed, if it does not reach `seconds` before.
    """

    seconds: ChangesNothing[Annotated[float, Meta(gt=0, le=10)]] = 0.2
    rows: ChangesNothing[Positive] = 8_000


class Topics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number of partitions, replication, and the partitioner of `events`.

    Attributes
    ----------
    events
        Number of partitions of `events`.
    requests
        Number of partitions of `explain.requests`, and so the largest number of explainers that can work.
    replication
        Replication factor of new topics; -1 uses the broker's `default.replication.factor`.
    partitioner
        Hash function with which producers choose the partition of a key.
    """

    events: ChangesNothing[Positive] = 4
    requests: ChangesNothing[Positive] = 8
    replication: ChangesNothing[Annotated[int, Meta(ge=-1)]] = -1
    partitioner: ChangesBoth[Literal["murmur2", "crc32"]] = "murmur2"


class Worker(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Membership of a worker in its consumer group, and how it fetches, resumes and logs.

    Attributes
    ----------
    instance
        Fixed name of this worker within its stage. If unset, the worker takes a new name at every start.
    session_seconds
        Session timeout of the consumer group: after this time without a heartbeat, another worker takes over.
    heartbeat_seconds
        Heartbeat interval of the consumer group.
    fetch_wait_ms
        Longest time for which a broker may delay a fetch when there are no new messages.
    new_epoch
        Epoch to start where the saved state ends, if the settings differ from those of that state. It has no effect if
        nothing differs, and never discards state of this epoch or a later one: if the settings differ from those of
        such state, the worker fails.
    check_crcs
        Verify the checksums of fetched batches. Turn this off for librdkafka's mock cluster, which writes wrong
        checksums.
    debug
        Log everything, including what Faust and librdkafka report about connections, groups and transactions.
    """

    instance: ChangesNothing[str | None] = None
    session_seconds: ChangesNothing[Annotated[float, Meta(ge=1)]] = 20.0
    heartbeat_seconds: ChangesNothing[Annotated[float, Meta(gt=0)]] = 3.0
    fetch_wait_ms: ChangesNothing[Positive] = 100
    new_epoch: ChangesNothing[Positive | None] = None
    check_crcs: ChangesNothing[bool] = True
    debug: ChangesNothing[bool] = False


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

    host: ChangesNothing[str] = "127.0.0.1"
    port: ChangesNothing[Annotated[int, Meta(ge=1, le=65_535)] | None] = None
    stall_seconds: ChangesNothing[Annotated[float, Meta(ge=5)]] = 120.0


class Page(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The live page. Its access token is not a setting: set ``GLASSTREAM_PAGE_TOKEN`` or
    ``GLASSTREAM_PAGE_TOKEN_FILE``.

    Attributes
    ----------
    host
        Address to bind to. Any address beyond loopback requires a token.
    port
        Port to bind to. If unset, 8642, or any free port if 8642 is taken. With 0, any free port.
    tls_cert
        PEM file of the certificate, for https. It may also hold the private key.
    tls_key
        PEM file of the certificate's private key.
    history
        Largest number of records per partition that the page reads back at startup.
    listed
        Largest number of streams that the page lists.
    streams
        Largest number of streams whose history the page keeps. It reads the history of any other stream when a viewer
        opens the stream.
    features
        Largest number of features that the page keeps per stream.
    beside
        Prefixes of further deployments on the same brokers whose streams the page shows too, separated by commas.
        Streams are then shown as ``stream @ prefix``.
    """

    host: ChangesNothing[str] = "127.0.0.1"
    port: ChangesNothing[Annotated[int, Meta(ge=0, le=65_535)] | None] = None
    tls_cert: ChangesNothing[str | None] = None
    tls_key: ChangesNothing[str | None] = None
    history: ChangesNothing[Positive] = 200_000
    listed: ChangesNothing[Positive] = 1_000
    streams: ChangesNothing[Positive] = 32
    features: ChangesNothing[Positive] = 2_000
    beside: ChangesNothing[Annotated[str, _PREFIXES]] = ""

    @property
    def prefixes_beside(self) -> list[str]:
        """Prefixes of the further deployments."""
        return self.beside.split(",") if self.beside else []


class Avro(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which published records are also published in Avro, and the schema registry that has their schemas.

    The login for the registry is not a setting: set ``GLASSTREAM_REGISTRY_LOGIN`` (``user:password``) or
    ``GLASSTREAM_REGISTRY_LOGIN_FILE``.

    Attributes
    ----------
    registry
        Address of a schema registry with Confluent's API. If unset, nothing is published in Avro, and the deployment
        has no topics for it.
    registry_ca
        PEM file of the certificate authority of the schema registry. If unset, the system's authorities are used.
    topics
        The topics whose records are published in Avro, separated by commas. If unset, all published topics.
    register
        Register schemas that the registry lacks. Otherwise the Avro publisher waits until they are registered.
    """

    registry: ChangesNothing[RegistryAddress | None] = None
    registry_ca: ChangesNothing[str | None] = None
    topics: ChangesNothing[Annotated[str, _COPIED] | None] = None
    register: ChangesNothing[bool] = True


class Settings(MethodSections, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings.

    Attributes
    ----------
    prefix
        Prefix of every topic, consumer group and transactional id.
    broker
        Addresses of a running Kafka, as ``HOST:PORT,...``. `glasstream run` also takes ``embedded`` (a broker in its
        own process), ``local`` (a Kafka that it starts on this machine) and ``none`` (no Kafka).
    epoch
        Epoch in which all streams begin. Each reset of a stream starts its next epoch.
    seed
        Random seed of the model and of all draws.
    kafka
        Client settings of librdkafka, such as ``security.protocol``.
    """

    prefix: ChangesNothing[Annotated[str, Meta(pattern=f"^{_PREFIX}$", description=_NAME)]] = "glasstream."
    broker: ChangesNothing[str] = "embedded"
    epoch: ChangesNothing[Natural] = 0
    seed: ChangesBoth[Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]] = 1
    model: ModelSettings = ModelSettings()
    explain: ExplainSettings = ExplainSettings()
    labels: Labels = Labels()
    drift: DriftSettings = DriftSettings()
    novelty: NoveltySettings = NoveltySettings()
    groups: GroupSettings = GroupSettings()
    segments: SegmentSettings = SegmentSettings()
    snapshot: Schedule = Schedule()
    checkpoint: Checkpoint = Checkpoint()
    publish: Publish = Publish()
    block: Block = Block()
    limits: Limits = Limits()
    transaction: Transaction = Transaction()
    topics: Topics = Topics()
    worker: Worker = Worker()
    health: Health = Health()
    page: Page = Page()
    notify: NotifySettings = NotifySettings()
    intake: IntakeSettings = IntakeSettings()
    avro: Avro = Avro()
    kafka: ChangesNothing[dict[str, str]] = msgspec.field(default_factory=dict)

    @property
    def partitions(self) -> dict[str, int]:
        """Partition counts, keyed by `events` and `requests` as the contracts expect."""
        return {"events": self.topics.events, "requests": self.topics.requests}

    @property
    def in_avro(self) -> tuple[Topic, ...]:
        """The topics whose records are also published in Avro; none without `avro.registry`."""
        if self.avro.registry is None:
            return ()
        chosen = None if self.avro.topics is None else self.avro.topics.split(",")
        return tuple(topic for topic in ALL if topic.published and (chosen is None or topic.name in chosen))

    @property
    def all_topics(self) -> tuple[Topic, ...]:
        """All topics of this deployment."""
        return (*ALL, *(topic.in_avro() for topic in self.in_avro))

    @property
    def topic_overrides(self) -> dict[str, dict[str, str]]:
        """Topic configuration that replaces the contract's, to make room for larger messages."""
        if self.limits.message_bytes <= Limits().message_bytes:
            return {}
        return {"events": {"max.message.bytes": str(self.limits.message_bytes + BATCH_OVERHEAD)}}

    def novelty_fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """Return every setting that changes novelty scores, by key. They do not depend on the model."""
        return self._fingerprint(_CHANGES_NOVELTY)

    def fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """Return every setting that changes numbers of the explanations, by key.

        State that was saved under one fingerprint is not continued under another.
        """
        return self._fingerprint(_CHANGES_EXPLANATIONS)

    def _fingerprint(self, chosen: tuple[str, ...]) -> dict[str, str | int | float | bool | None]:
        values = flatten(msgspec.to_builtins(self))
        values["explain.start"] = self.explain.first_row
        values["explain.methods"] = ",".join(self.explain.names)
        return {key: values[key] for key in chosen}


_CHANGES_EXPLANATIONS = keys(Settings, Changes.EXPLANATIONS)
_CHANGES_NOVELTY = keys(Settings, Changes.NOVELTY)


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
