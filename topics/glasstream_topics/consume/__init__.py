"""Read what Glasstream publishes from a program of your own: committed records only, as typed objects.

The package needs only confluent-kafka. It imports neither Faust nor the models. With the extra `tables`, a reader
returns tables: `importance(..., follow=False).to_pandas()`.

>>> from glasstream_topics.consume import importance
>>> with importance("kafka:9092", streams="loans") as records:  # doctest: +SKIP
...     for record in records:
...         print(record.row, record.features["age"].value)
"""

from collections.abc import Collection, Mapping
from typing import Literal, TypedDict, Unpack

from glasstream_topics import attributions as attributions_topic
from glasstream_topics import comparisons as comparisons_topic
from glasstream_topics import drift as drift_topic
from glasstream_topics import effects as effects_topic
from glasstream_topics import groups as groups_topic
from glasstream_topics import importance as importance_topic
from glasstream_topics import incidents as incidents_topic
from glasstream_topics import novelty as novelty_topic
from glasstream_topics import predictions as predictions_topic
from glasstream_topics import segments as segments_topic
from glasstream_topics import watching as watching_topic
from glasstream_topics.attributions import Attribution
from glasstream_topics.comparisons import Comparison
from glasstream_topics.consume.reader import Origin, Reader
from glasstream_topics.consume.records import Records
from glasstream_topics.drift import Drift
from glasstream_topics.effects import Effect
from glasstream_topics.groups import Groups
from glasstream_topics.importance import Importance
from glasstream_topics.incidents import Incident
from glasstream_topics.novelty import Novelty
from glasstream_topics.predictions import Prediction
from glasstream_topics.segments import Segments
from glasstream_topics.watching import Watching

__all__ = [
    "Options",
    "Origin",
    "Reader",
    "attributions",
    "comparisons",
    "drift",
    "effects",
    "groups",
    "importance",
    "incidents",
    "novelty",
    "predictions",
    "segments",
    "watching",
]


class Options(TypedDict, total=False):
    """Options of a reader. Every option has a default.

    Attributes
    ----------
    prefix
        Prefix of the deployment's topic names; `glasstream.` by default.
    streams
        Name of a stream, or several names: the reader returns only their records. By default it returns the records of
        every stream.
    start
        `earliest` (default) begins with the oldest record that is kept. `latest` begins with records that arrive after
        the call, or after the group was joined. A group that has committed offsets continues from them. Without a
        group, a mapping from partitions to offsets, such as `Reader.positions` of an earlier reader, begins each
        partition at its offset, or at the oldest record that is kept, if that comes later.
    group
        Name under which Kafka stores the reader's position, and under which several readers share the partitions. A
        record counts as read when the caller asks for the next one, or leaves the `with` block without an error. After
        a crash the last record comes again (at-least-once delivery). By default no position is stored.
    follow
        True (default) waits for new records; False ends at the current end of the topic. False cannot be combined with
        a group.
    idle, timeout
        Seconds without a record of these streams, and seconds in all, after which the reader ends.
    damaged
        What the reader does with a record that it cannot read. `raise` (default) raises a RecordError, after which the
        iteration can continue. `skip` skips the record and counts it in `Reader.damaged`. A record whose schema version
        this release does not know always raises a VersionError.
    kafka
        Further settings of librdkafka: `security.protocol`, `sasl.username`, ...
    """

    prefix: str
    streams: str | Collection[str] | None
    start: Literal["earliest", "latest"] | Mapping[int, int]
    group: str | None
    follow: bool
    idle: float | None
    timeout: float | None
    damaged: Literal["raise", "skip"]
    kafka: Mapping[str, str] | None


def importance(bootstrap: str, **options: Unpack[Options]) -> Reader[Importance]:
    """Read feature importances: the records of `importance`, in the order of each stream.

    Parameters
    ----------
    bootstrap
        `HOST:PORT,...` of the Kafka brokers.
    options
        See `Options`.

    Raises
    ------
    InputError
        Options contradict each other or are invalid.
    BrokerError
        No Kafka answers at `bootstrap`.
    TopicError
        The topic does not exist.
    """
    return Reader(Records(importance_topic.JSON), bootstrap, **options)


def effects(bootstrap: str, **options: Unpack[Options]) -> Reader[Effect]:
    """Read effect curves: the records of `effects`. Parameters and errors are those of `importance`.

    An effect curve shows how predictions change with a feature. Kafka keeps the newest curve of each stream, feature
    and output for ever, and older ones for a day or more. With `follow=False`, a mapping in which later curves
    overwrite earlier ones therefore ends with the current curves::

        curves = {(one.feature, one.output): one for one in effects("kafka:9092", streams="loans", follow=False)}
    """
    return Reader(Records(effects_topic.JSON), bootstrap, **options)


def attributions(bootstrap: str, **options: Unpack[Options]) -> Reader[Attribution]:
    """Read why events were predicted as they were: the records of `attributions`, in the order of each stream.

    Parameters and errors are those of `importance`.
    """
    return Reader(Records(attributions_topic.JSON), bootstrap, **options)


def comparisons(bootstrap: str, **options: Unpack[Options]) -> Reader[Comparison]:
    """Read which of two models is better: the records of `comparisons`.

    Parameters and errors are those of `importance`. A record about two streams is read by the name of the first one.
    """
    return Reader(Records(comparisons_topic.JSON), bootstrap, **options)


def drift(bootstrap: str, **options: Unpack[Options]) -> Reader[Drift]:
    """Read drift alarms: the records of `drift`. Parameters and errors are those of `importance`."""
    return Reader(Records(drift_topic.JSON), bootstrap, **options)


def groups(bootstrap: str, **options: Unpack[Options]) -> Reader[Groups]:
    """Read how good the model is for groups of rows: the records of `groups`.

    Parameters and errors are those of `importance`.
    """
    return Reader(Records(groups_topic.JSON), bootstrap, **options)


def incidents(bootstrap: str, **options: Unpack[Options]) -> Reader[Incident]:
    """Read incidents: the records of `incidents`. Parameters and errors are those of `importance`.

    An incident has a record when it is opened, when its verdict changes, and when it is over. With `follow=False`, a
    mapping in which later records overwrite earlier ones ends with the current state of each incident::

        records = incidents("kafka:9092", streams="loans", follow=False)
        now = {(one.epoch, one.incident): one for one in records}
    """
    return Reader(Records(incidents_topic.JSON), bootstrap, **options)


def novelty(bootstrap: str, **options: Unpack[Options]) -> Reader[Novelty]:
    """Read novelty scores: the records of `novelty`. Parameters and errors are those of `importance`."""
    return Reader(Records(novelty_topic.JSON), bootstrap, **options)


def predictions(bootstrap: str, **options: Unpack[Options]) -> Reader[Prediction]:
    """Read predictions: the records of `predictions`. Parameters and errors are those of `importance`."""
    return Reader(Records(predictions_topic.JSON), bootstrap, **options)


def segments(bootstrap: str, **options: Unpack[Options]) -> Reader[Segments]:
    """Read the weak segments of streams: the records of `segments`.

    Parameters and errors are those of `importance`. Kafka keeps the newest record of each stream for ever.
    """
    return Reader(Records(segments_topic.JSON), bootstrap, **options)


def watching(bootstrap: str, **options: Unpack[Options]) -> Reader[Watching]:
    """Read how streams are watched for incidents: the records of `watching`.

    Parameters and errors are those of `importance`. Kafka keeps the newest record of each stream for ever.
    """
    return Reader(Records(watching_topic.JSON), bootstrap, **options)
