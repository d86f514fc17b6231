"""Try the intake on messages of a topic: propose settings, and show the events that it would make. Write nothing."""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import orjson
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from glasstream.app.operate.topic_reader import offsets, read_records
from glasstream.base.errors import BrokerError, InputError, TopicError
from glasstream.events.mapping.fields import ABSENT, parse_conditions, parse_path, path_text, value_at
from glasstream.events.mapping.formats import Format
from glasstream.events.mapping.mapper import Mapping as EventMapping
from glasstream.events.mapping.mapper import event_rules, make_kinds
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.proposal import FieldOfSample, doubts, fields_of, mixtures, proposal
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.events.mapping.unwrap import wrapping_of
from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.intake import Intake
from glasstream.kafka.stages.schemas import format_maker
from glasstream.kafka.transport.connection import Connection, connection
from glasstream.kafka.transport.topic_check import check_topics
from glasstream_topics import events, events_dead

_SHOWN = 5


@dataclass(slots=True)
class Trial:
    """Result of a trial.

    Attributes
    ----------
    messages, documents
        Number of messages that were read, and of the documents in them.
    fields
        Fields that the mapping uses.
    lacking
        Fields that a setting names and no document has, by the name of the setting.
    proposal
        Settings that are proposed, by name.
    left_out
        Why each field is left out of the features, as far as that is proposed.
    doubts
        What a person should look at in the proposal.
    events
        The first events with their streams, as JSON.
    made
        Number of events.
    labels
        The first labels with their streams, as JSON.
    labels_made
        Number of labels.
    belonging
        Number of labels that belong to one of the events.
    rejected
        Reason, position and detail of each rejected message.
    """

    messages: int = 0
    documents: int = 0
    fields: list[FieldOfSample] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)
    proposal: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    made: int = 0
    labels: list[tuple[str, str]] = field(default_factory=list)
    labels_made: int = 0
    belonging: int = 0
    rejected: list[tuple[str, str, str]] = field(default_factory=list)


def attempt(settings: Settings, count: int, file: Path | None = None) -> Trial:
    """Read up to `count` messages of each topic of the intake, and return what it would do with them.

    Parameters
    ----------
    file
        File with a message on each line, to read in place of the topics with events. No labels are read then.

    Raises
    ------
    InputError
        No topic is named, the topics or the file are empty, or the file cannot be read.
    BrokerError, TopicError
        A topic cannot be read.
    UnavailableError
        The schema registry cannot be reached.
    """
    intake = settings.intake
    if not intake.sources:
        raise InputError("--topic: expected the name of a topic, got none; or set intake.topics")
    intake.expect_usable(settings.prefix)
    if file is None:
        names = (*intake.sources, *intake.labels_sources)
        messages = [message for name in dict.fromkeys(names) for message in _sample(settings, name, count)]
    else:
        messages = _lines(file, intake.sources[0], count)
    if not any(message.topic in intake.sources for message in messages):
        raise InputError(
            f"expected messages on {file or ', '.join(intake.sources)}, found none; send some, and try again"
        )
    return judge(settings, messages, os.environ)


def judge(settings: Settings, messages: Sequence[Message], environment: Mapping[str, str]) -> Trial:
    """Return what the intake would do with messages.

    Parameters
    ----------
    environment
        Variables of the environment, with the login for the schema registry.
    """
    intake = settings.intake
    make = format_maker(intake, environment)
    with_events = [message for message in messages if message.topic in intake.sources]
    trial = Trial(messages=len(with_events))
    documents, _ = _documents(make(intake.format), with_events)
    where = parse_conditions(intake.where)
    documents = [one for one in documents if all(condition.holds(one) for condition in where)]
    if intake.format == "json" and intake.records is None and not documents:
        lines, wrong = _documents(make("json-lines"), with_events)
        if lines and not wrong:
            trial.proposal["format"], documents = "json-lines", lines
    trial.documents = len(documents)
    kinds = make_kinds(intake, labels=False)
    rules = event_rules(intake, settings.limits.stream_bytes)
    mapping = EventMapping(rules, kinds)
    values = [pair for document in documents for pair in mapping.values(document)]
    wrapping = None if intake.unwrap else wrapping_of({parse_path(name) for name, _ in values})
    if wrapping is not None:
        unwrapped = judge(_with(settings, unwrap=wrapping), messages, environment)
        unwrapped.proposal |= {**trial.proposal, "unwrap": wrapping}
        return unwrapped
    kinds.fix(kinds.inferred(values, settings.limits.features))
    trial.fields = fields_of(values, kinds.all)
    named = {"target": rules.target, "id": rules.id, "ts": rules.ts, "stream": rules.stream}
    for name, reference in named.items():
        path = None if reference is None else reference.path
        if path is not None and documents and all(value_at(one, path) is ABSENT for one in documents):
            trial.lacking[name] = path_text(path)
    proposed, trial.left_out = proposal(intake, trial.fields, len(documents))
    trial.proposal |= proposed
    tried = _with(settings, **trial.proposal)
    trial.doubts = [
        *([f"where: no message satisfies {intake.where}"] if intake.where and not documents else []),
        *mixtures(tried.intake, documents),
        *doubts(tried.intake, trial.fields, trial.left_out, len(documents)),
    ]
    stage = Intake(tried, make, lambda types: types)
    _show(trial, stage, messages, settings)
    return trial


def _with(settings: Settings, **intake: Any) -> Settings:
    return msgspec.structs.replace(settings, intake=msgspec.structs.replace(settings.intake, **intake))


def _documents(reader: Format, messages: Sequence[Message]) -> tuple[list[dict[str, Any]], int]:
    """Return the documents of messages, and the number of what cannot be read."""
    documents: list[dict[str, Any]] = []
    bad = 0
    reader.prepare([(message.topic, message.value or b"") for message in messages])
    for message in messages:
        try:
            found, _ = reader.read(message.topic, message.value or b"")
        except Misfit:
            bad += 1
            continue
        documents += [one for one in found if not isinstance(one, Misfit)]
        bad += sum(isinstance(one, Misfit) for one in found)
    return documents, bad


def _lines(file: Path, name: str, count: int) -> list[Message]:
    try:
        with file.open("rb") as lines:
            values = [line.rstrip(b"\r\n") for line in islice(lines, count)]
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    return [Message(name, 0, place, None, value, None) for place, value in enumerate(values) if value]


def _sample(settings: Settings, name: str, count: int) -> list[Message]:
    """Return the newest messages of a topic by their timestamps, the oldest of them first."""
    link = connection(settings)
    try:
        partitions = check_topics(link, {name: None})[name]
    except TopicError as error:
        raise TopicError(_no_topic(link, settings.intake, name)) from error
    ends = offsets(link, [(name, number) for number in range(partitions)])
    each = max(1, -(-count // max(1, sum(end > first for first, end in ends.values()))))
    begin = {place: max(first, end - 2 * each) for place, (first, end) in ends.items()}  # markers take offsets, too
    newest = {place: deque[Message](maxlen=each) for place in begin}
    for one in read_records(link, begin, read_committed=True):
        value = one.value if isinstance(one.value, bytes) else None
        newest[one.topic, one.partition].append(
            Message(one.topic, one.partition, one.offset, one.key, value, one.timestamp)
        )
    found = (message for messages in newest.values() for message in messages)
    return sorted(found, key=lambda message: message.timestamp or 0)[-count:]


def _no_topic(link: Connection, intake: IntakeSettings, name: str) -> str:
    """Return what is wrong with the name of a topic, with the topics of similar names."""
    setting = "topics" if name in intake.sources else "labels_topics"
    try:
        similar = get_close_matches(name, AdminClient(link.client()).list_topics(timeout=10).topics)
    except KafkaException as error:
        raise BrokerError(f"{name} cannot be read: {error.args[0].str()}") from error
    also = f" (there is {', '.join(similar)})" if similar else ""
    return f"intake.{setting}: expected a topic that exists and that this client may see, got {name}{also}"


def _show(trial: Trial, stage: Intake, messages: Sequence[Message], settings: Settings) -> None:
    name = settings.prefix + events.TOPIC.name
    ids: set[tuple[str, Any]] = set()
    labelled: list[tuple[str, Any]] = []
    for record in stage.handle(messages):
        if record.topic != name:
            said = events_dead.decode(record.headers)
            trial.rejected.append((said.reason, f"{said.topic}[{said.partition}]@{said.offset}", said.detail))
            continue
        stream, content = (record.key or b"").decode(), orjson.loads(record.value or b"")
        for element in content if isinstance(content, list) else [content]:
            is_event = "x" in element
            shown = trial.events if is_event else trial.labels
            if len(shown) < _SHOWN:
                shown.append((stream, orjson.dumps(element).decode()))
            if is_event:
                ids.add((stream, element["id"]))
            else:
                labelled.append((stream, element["id"]))
            trial.made += is_event
    trial.labels_made, trial.belonging = len(labelled), sum(one in ids for one in labelled)
