"""Configuration: a TOML file, the environment, `--set`, in rising order of precedence.

A key is ``section.name`` (``explain.alpha``), or a name alone at the top level (``seed``). In a TOML file sections
are tables; in the environment the key is ``GLASSTREAM_SECTION_NAME`` (``GLASSTREAM_EXPLAIN_ALPHA``); on the command
line ``--set section.name=value``. Every error in all of them is reported at once.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from pipeline.errors import SettingsError
from pipeline.explain.losses import LOSSES
from pipeline.fold.settings import FoldSettings
from pipeline.ingest.admission import Task
from pipeline.ingest.features import FeatureLimits
from pipeline.learn.settings import LearnSettings
from pipeline.models.catalogue import model_factory

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
    loss: str | None = None


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

ENVIRONMENT = "GLASSTREAM_"
NOT_SETTINGS = frozenset({"HMAC_KEY", "HMAC_KEY_FILE", "CONFIG", "DATA", "PEERS", "TEST_KAFKA", "REQUIRE_KAFKA"})
"""Variables that begin like settings and are read elsewhere."""

_SECTIONS = {
    field.name: field.type
    for field in msgspec.structs.fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, Struct)
}


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


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings from all sources.

    Parameters
    ----------
    file
        A TOML file.
    environment
        Variables; those that begin with ``GLASSTREAM_`` are read.
    assignments
        ``KEY=VALUE``, as given to ``--set``.
    defaults
        Values by dotted key that yield to all of these.

    Raises
    ------
    SettingsError
        With a line for every error found, in all sources.
    """
    findings: list[str] = []
    values: dict[str, tuple[Any, str]] = {key: (value, "default") for key, value in (defaults or {}).items()}
    if file is not None:
        values.update(_from_file(file, findings))
    values.update(_from_environment(environment or {}, findings))
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            findings.append(f"--set: expected KEY=VALUE, got {assignment!r}")
            continue
        values[key.strip()] = (text, f"--set {assignment}")
    settings = _build(values, findings)
    if settings is not None and settings.explain.loss is not None and settings.explain.loss not in LOSSES:
        findings.append(f"explain.loss: expected one of {', '.join(LOSSES)}, got {settings.explain.loss!r}")
    if findings or settings is None:
        raise SettingsError(findings)
    return settings


def _from_file(file: Path, findings: list[str]) -> dict[str, tuple[Any, str]]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        findings.append(f"{file}: cannot be read: {error.strerror}")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        findings.append(f"{file}: expected TOML, got: {error}")
        return {}
    return {key: (value, str(file)) for key, value in flatten(content).items()}


def _from_environment(environment: Mapping[str, str], findings: list[str]) -> dict[str, tuple[Any, str]]:
    values: dict[str, tuple[Any, str]] = {}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT) or variable[len(ENVIRONMENT) :] in NOT_SETTINGS:
            continue
        name = variable[len(ENVIRONMENT) :].lower()
        section, _, rest = name.partition("_")
        key = f"{section}.{rest}" if section in _SECTIONS and rest else name
        if key == "kafka":
            findings.append(
                f"{variable}: expected one variable a setting, such as {ENVIRONMENT}KAFKA_SECURITY_PROTOCOL"
            )
        elif name.startswith("kafka_"):
            values["kafka." + name.removeprefix("kafka_").replace("_", ".")] = (environment[variable], variable)
        else:
            values[key] = (environment[variable], variable)
    return values


def _build(values: Mapping[str, tuple[Any, str]], findings: list[str]) -> Settings | None:
    """Each value is converted by itself, so that every error is found."""
    tables: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    kafka: dict[str, str] = {}
    known = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    for key, (value, source) in values.items():
        section, _, name = key.partition(".")
        if key == "kafka" and isinstance(value, Mapping):
            kafka.update({inner: str(setting) for inner, setting in value.items()})
        elif section == "kafka" and name:
            kafka[name] = str(value)
        elif section in _SECTIONS and name:
            inner = {field.name: field.type for field in msgspec.structs.fields(_SECTIONS[section])}
            if name in inner:
                _convert(key, value, inner[name], source, tables.setdefault(section, {}), name, findings)
            else:
                findings.append(f"{key}: expected one of {', '.join(sorted(inner))} in {section} ({source})")
        elif key in known and key not in _SECTIONS:
            _convert(key, value, known[key], source, top, key, findings)
        else:
            findings.append(f"{key}: expected a key of the configuration, got an unknown one ({source})")
    if findings:
        return None
    sections: dict[str, Any] = {section: _SECTIONS[section](**inner) for section, inner in tables.items()}
    return Settings(**top, **sections, kafka=kafka)


def _convert(
    key: str, value: Any, wanted: Any, source: str, target: dict[str, Any], name: str, findings: list[str]
) -> None:
    try:
        target[name] = msgspec.convert(value, wanted, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        findings.append(f"{key}: {str(error)[:1].lower()}{str(error)[1:]}, got {value!r} ({source})")


def to_environment(settings: Settings) -> dict[str, str]:
    """The settings as variables from which `load` makes the same settings again; defaults are left out."""
    values = flatten(msgspec.to_builtins(settings))
    defaults = flatten(msgspec.to_builtins(Settings()))
    variables = {}
    for key, value in values.items():
        if key == "kafka":
            variables.update(
                {f"{ENVIRONMENT}KAFKA_{name.replace('.', '_').upper()}": text for name, text in value.items()}
            )
        elif value != defaults[key] and value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            variables[ENVIRONMENT + key.replace(".", "_").upper()] = text
    return variables
