"""A reader for each topic of explanations."""

from collections.abc import Collection, Mapping
from typing import Literal, TypedDict, Unpack

from glasstream.consume.reader import Reader
from glasstream.consume.records import Records
from glasstream_topics import drift as drift_topic
from glasstream_topics import effects as effects_topic
from glasstream_topics import importance as importance_topic
from glasstream_topics import novelty as novelty_topic
from glasstream_topics.drift import Drift
from glasstream_topics.effects import Effect
from glasstream_topics.importance import Importance
from glasstream_topics.novelty import Novelty


class Options(TypedDict, total=False):
    """How a topic is read. Each may be left out.

    Attributes
    ----------
    prefix
        Of the deployment's topics; `glasstream.` by default.
    streams
        The name of a stream, or several: only their records. By default those of every stream.
    start
        `earliest` (default): with the first record kept; `latest`: with what comes after the call (in a group: after it
        was joined). A group that has been here before goes on where it stopped.
    group
        A name under which Kafka remembers how far the reading is, and under which several readers share the
        partitions. A record counts as read when the next one is asked for, or the `with` block is left without an
        error: after a crash the last one comes again (at least once). By default nothing is remembered.
    follow
        True (default): wait for what is to come; False: end with what is there now. Not with a group.
    idle, timeout
        End when so many seconds brought no record of these streams, or after so many seconds in all.
    damaged
        What becomes of a record that cannot be read: `raise` (default) a RecordError, after which the iteration can
        be gone on with; or `skip` it and count it in `Reader.damaged`. One of a schema version that this release does
        not know raises a VersionError in any case.
    kafka
        Further settings of librdkafka: `security.protocol`, `sasl.username`, ...
    """

    prefix: str
    streams: str | Collection[str] | None
    start: Literal["earliest", "latest"]
    group: str | None
    follow: bool
    idle: float | None
    timeout: float | None
    damaged: Literal["raise", "skip"]
    kafka: Mapping[str, str] | None


def importance(bootstrap: str, **options: Unpack[Options]) -> Reader[Importance]:
    """What the models rely on: records of `importance`, in the order of each stream.

    Parameters
    ----------
    bootstrap
        `HOST:PORT,...` of the Kafka.
    options
        See `Options`.

    Raises
    ------
    InputError
        Options that contradict each other or cannot be used.
    BrokerError
        No Kafka answers there.
    TopicError
        It has no such topic.
    """
    return Reader(Records(importance_topic.TOPIC, importance_topic.decode, Importance), bootstrap, **options)


def effects(bootstrap: str, **options: Unpack[Options]) -> Reader[Effect]:
    """How predictions move with each feature: records of `effects`. Parameters and errors as for `importance`.

    Kafka keeps the newest curve of each stream, feature and output for ever, and older ones for a day or more. So with
    `follow=False` a mapping that is overwritten ends with the curves of now::

        curves = {(one.feature, one.output): one for one in effects("kafka:9092", streams="loans", follow=False)}
    """
    return Reader(Records(effects_topic.TOPIC, effects_topic.decode, Effect), bootstrap, **options)


def drift(bootstrap: str, **options: Unpack[Options]) -> Reader[Drift]:
    """What changed: alarms, records of `drift`. Parameters and errors as for `importance`."""
    return Reader(Records(drift_topic.TOPIC, drift_topic.decode, Drift), bootstrap, **options)


def novelty(bootstrap: str, **options: Unpack[Options]) -> Reader[Novelty]:
    """Which events should not be trusted: records of `novelty`. Parameters and errors as for `importance`."""
    return Reader(Records(novelty_topic.TOPIC, novelty_topic.decode, Novelty), bootstrap, **options)
