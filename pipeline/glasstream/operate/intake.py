"""Try the intake on messages of a topic: propose settings, and show the events that it would make. Write nothing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from glasstream.errors import BrokerError, InputError, TopicError
from glasstream.ingest.message import Message
from glasstream.intake.fields import ABSENT, Kind, path_text, value_at
from glasstream.intake.mapping import Mapping as EventMapping
from glasstream.intake.mapping import event_rules, make_kinds
from glasstream.intake.misfit import Misfit
from glasstream.operate.topic_reader import offsets, read_records
from glasstream.settings import Settings
from glasstream.stages.confined import format_maker
from glasstream.stages.intake import Intake
from glasstream.transport.connection import connection
from glasstream.transport.topic_check import check_topics
from glasstream_topics import events, events_dead

_TARGETS = ("target", "label", "y", "class", "outcome", "approved", "churn", "churned", "fraud", "is_fraud", "default")
"""Names of fields that are proposed as target, most likely first."""
_SHOWN = 5


@dataclass(slots=True)
class FieldOfSample:
    """Field of the messages that were read.

    Attributes
    ----------
    name
        Text of its path.
    kind
        Type that most of its values have.
    present
        Number of documents with a value.
    values
        Number of different values, up to `_DISTINCT`.
    example
        Its first value, as JSON.
    """

    name: str
    kind: str
    present: int
    values: int
    example: str


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
    events
        The first events with their streams, as JSON.
    made
        Number of events.
    rejected
        Reason, position and detail of each rejected message.
    """

    messages: int = 0
    documents: int = 0
    fields: list[FieldOfSample] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)
    proposal: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    made: int = 0
    rejected: list[tuple[str, str, str]] = field(default_factory=list)


def attempt(settings: Settings, count: int) -> Trial:
    """Read up to `count` messages of each topic of `intake.topics`, and return what the intake would do with them.

    Raises
    ------
    InputError
        No topic is named, or the topics are empty.
    BrokerError, TopicError
        A topic cannot be read.
    UnavailableError
        The schema registry cannot be reached.
    """
    intake = settings.intake
    if not intake.sources:
        raise InputError("--topic: expected the name of a topic, got none; or set intake.topics")
    intake.expect_usable(settings.prefix)
    messages = [message for name in intake.sources for message in _sample(settings, name, count)]
    if not messages:
        raise InputError(f"expected messages on {', '.join(intake.sources)}, found none; send some, and try again")
    make = format_maker(intake, os.environ)
    trial = Trial(messages=len(messages))
    documents: list[dict[str, Any]] = []
    reader = make(intake.format)
    for message in messages:
        try:
            found, _ = reader.read(message.topic, message.value or b"")
        except Misfit:
            continue
        documents += [one for one in found if not isinstance(one, Misfit)]
    trial.documents = len(documents)
    kinds = make_kinds(intake, labels=False)
    rules = event_rules(intake, settings.limits.stream_bytes)
    mapping = EventMapping(rules, kinds)
    values = [pair for document in documents for pair in mapping.values(document)]
    kinds.hold(kinds.inferred(values, settings.limits.features))
    trial.fields = _fields(values, kinds.all)
    named = {"target": rules.target, "id": rules.id, "ts": rules.ts, "stream": rules.stream}
    for name, reference in named.items():
        path = None if reference is None else reference.path
        if path is not None and documents and all(value_at(one, path) is ABSENT for one in documents):
            trial.lacking[name] = path_text(path)
    trial.proposal = _proposal(settings, trial.fields)
    tried = msgspec.structs.replace(
        settings,
        intake=msgspec.structs.replace(
            intake, **{name: trial.proposal.get(name, getattr(intake, name)) for name in _MAY}
        ),
    )
    stage = Intake(tried, make, lambda types: types)
    _show(trial, stage, messages, settings)
    return trial


_MAY = ("target", "features")
"""Settings that a trial proposes."""
_DISTINCT = 1_000


def _sample(settings: Settings, name: str, count: int) -> list[Message]:
    link = connection(settings)
    try:
        check_topics(link, {name: None})
    except TopicError as error:
        raise TopicError(f"expected to find and read the topic {name}: {str(error).partition('. Check')[0]}") from error
    try:
        partitions = AdminClient(link.client()).list_topics(name, timeout=10).topics[name].partitions
    except KafkaException as error:
        raise BrokerError(f"{name} cannot be read: {error.args[0].str()}") from error
    ends = offsets(link, [(name, number) for number in partitions])
    each = max(1, -(-count // max(1, sum(end > first for first, end in ends.values()))))
    begin = {place: max(first, end - 2 * each) for place, (first, end) in ends.items()}
    found: list[Message] = []
    taken = dict.fromkeys(begin, 0)
    for one in read_records(link, begin, read_committed=True):
        place = (one.topic, one.partition)
        if taken[place] < each and len(found) < count:
            taken[place] += 1
            value = one.value if isinstance(one.value, bytes) else None
            found.append(Message(*place, one.offset, one.key, value, one.timestamp))
    return found


def _fields(values: Sequence[tuple[str, Any]], kinds: Mapping[str, Kind]) -> list[FieldOfSample]:
    fields: dict[str, FieldOfSample] = {}
    seen: dict[str, set[str]] = {}
    for name, value in values:
        if value is None or value == []:
            continue
        text = orjson.dumps(value, default=str).decode()
        one = fields.get(name)
        if one is None:
            kind = kinds[name].value if name in kinds else "no type: leave it out, or name the fields inside"
            one = fields[name] = FieldOfSample(name, kind, 0, 0, text)
        one.present += 1
        if len(distinct := seen.setdefault(name, set())) < _DISTINCT:
            distinct.add(text)
    for name, one in fields.items():
        one.values = len(seen[name])
    return list(fields.values())


def _proposal(settings: Settings, fields: Sequence[FieldOfSample]) -> dict[str, str]:
    """Return settings for what is not set: a target, and features without fields that say nothing about it."""
    intake = settings.intake
    proposal: dict[str, str] = {}
    names = {one.name for one in fields}
    if intake.target is None:
        found = next((name for name in _TARGETS if name in names), None)
        if found is not None:
            proposal["target"] = found
    if intake.features == "*":
        target = proposal.get("target", intake.target)
        left_out = [
            one.name
            for one in fields
            if one.name != target
            and "," not in one.name
            and (one.kind not in tuple(Kind) or (one.kind == Kind.TEXT and one.values == one.present >= 20))
        ]
        if left_out:
            proposal["features"] = ",".join(["*", *(f"-{name}" for name in left_out)])
    return proposal


def _show(trial: Trial, stage: Intake, messages: Sequence[Message], settings: Settings) -> None:
    name = settings.prefix + events.TOPIC.name
    for record in stage.handle(messages):
        if record.topic == name:
            content = orjson.loads(record.value or b"")
            elements = content if isinstance(content, list) else [content]
            trial.made += len(elements)
            for element in elements[: _SHOWN - len(trial.events)]:
                trial.events.append(((record.key or b"").decode(), orjson.dumps(element).decode()))
        else:
            said = events_dead.decode(record.headers)
            trial.rejected.append((said.reason, f"{said.topic}[{said.partition}]@{said.offset}", said.detail))
