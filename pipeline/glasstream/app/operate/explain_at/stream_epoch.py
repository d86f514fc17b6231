"""Committed progress of a stream, with the settings under which it was learned."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from glasstream.app.operate.topic_reader import latest
from glasstream.base.errors import InputError, SettingsError
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import differences, fingerprint, known_state, topic
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.topic_check import check_topics
from glasstream_topics import events, progress_learner
from glasstream_topics.progress import Setting
from glasstream_topics.progress_learner import LearnerStreamProgress

_VERSION = "version."
_INCLUDED = ("forest", "tree", "linear")
"""Models that a record may name. They need no import by name, so that no topic can make a process import code."""


@dataclass(frozen=True, slots=True)
class StreamEpoch:
    """One epoch of a stream.

    Attributes
    ----------
    stream, partition
        Name of the stream, and its partition of `events`.
    progress
        Progress that the learner has committed.
    settings
        Settings of this process, but with the stream's epoch and the learner's values where they change numbers.
    differing
        Package versions, and a model, that differ from the learner's. Numbers may differ too.
    """

    stream: str
    partition: int
    progress: LearnerStreamProgress
    settings: Settings
    differing: tuple[str, ...]


def load_stream_epoch(settings: Settings, stream: str) -> StreamEpoch:
    """Return the newest epoch of a stream.

    Raises
    ------
    InputError
        The stream does not exist.
    TopicError, BrokerError, StateError
        The learner's committed state cannot be read.
    """
    link, name = connection(settings), topic(settings, progress_learner.TOPIC.name)
    check_topics(link, {name: settings.topics.events, topic(settings, events.TOPIC.name): settings.topics.events})
    partition = events.partition(events.key(stream), settings.topics.events, settings.topics.partitioner)
    with known_state(f"{name}[{partition}]"):
        found = progress_learner.restore(latest(link, [(name, partition)])[name, partition])
    progress = found.streams.get(stream)
    if found.partition is None or progress is None:
        there = ", ".join(map(repr, sorted(found.streams))) or "no stream"
        raise InputError(
            f"the learner has not seen a stream {stream!r}; on its partition {partition} of {settings.prefix}events, "
            f"it has seen {there}; `glasstream state show` lists all streams"
        )
    if progress.epoch < found.partition.epoch:
        raise InputError(
            f"stream {stream!r}: expected a stream with events in epoch {found.partition.epoch} of partition "
            f"{partition}; its last event came in epoch {progress.epoch}, whose settings are not kept"
        )
    theirs = found.partition.fingerprint
    adopted = adopt(settings, theirs)
    adopted = msgspec.structs.replace(adopted, epoch=progress.epoch)
    return StreamEpoch(stream, partition, progress, adopted, tuple(differences(theirs, fingerprint(adopted))))


def adopt(settings: Settings, theirs: Mapping[str, Setting]) -> Settings:
    """Return our settings with the values of a fingerprint where these change numbers.

    Raises
    ------
    SettingsError
        The fingerprint has a setting that this release does not know, or a value that it does not accept.
    """
    values = msgspec.to_builtins(settings)
    findings: list[str] = []
    for key, value in adopted(theirs).items():
        *section, name = key.split(".")
        table = values.get(section[0]) if section else values
        if not isinstance(table, dict) or name not in table:
            findings.append(f"{key}: the stream was learned under {value!r}, but this release has no such setting")
        else:
            table[name] = value
    if findings:
        raise SettingsError(findings)
    try:
        return msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError([f"the settings under which the stream was learned cannot be used: {error}"]) from error


def adopted(theirs: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of a fingerprint that others may adopt.

    Versions of packages are not settings, and a model that is named PACKAGE.MODULE:FACTORY or is a file is not adopted.
    """
    return {
        key: value
        for key, value in theirs.items()
        if not key.startswith(_VERSION) and (key != "model.name" or value in _INCLUDED)
    }
