"""Find the events of a stream on the log, numbered as learner and novelty detector number them."""

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from glasstream.ingest.admission import Accepted, Admission
from glasstream.ingest.decode import decode
from glasstream.ingest.features import FeatureTable, Kind
from glasstream.ingest.identity import event_id
from glasstream.ingest.message import Message
from glasstream.ingest.waiting import Joined, Waiting
from glasstream.operate.starting_point import StartingPoint
from glasstream.settings import Settings
from glasstream_topics.labels import Label


@dataclass(frozen=True, slots=True)
class Placed:
    """Event with its position on the log.

    Attributes
    ----------
    offset, index
        Offset of the message in its partition of `events`, and index of the event in the message.
    id, x, target, ts
        Content of the event.
    """

    offset: int
    index: int
    id: str
    x: Mapping[str, float | str | bool | None]
    target: str | float | None
    ts: int | None


@dataclass(frozen=True, slots=True)
class Counted:
    """Result of counting the events of a stream.

    Attributes
    ----------
    events
        Requested events by seq.
    texts
        Categories of each text feature by their codes, as of the last requested event.
    """

    events: dict[int, Placed]
    texts: dict[str, tuple[str, ...]]


def place(settings: Settings, begin: StartingPoint, messages: Iterable[Message], seqs: Collection[int]) -> Counted:
    """Find events by their numbers.

    Parameters
    ----------
    begin
        Starting point of the messages.
    messages
        Messages of this one stream, in order.
    """
    last = max(seqs)
    admission, table = Admission(settings.model.chosen_task, limits=settings.limits), FeatureTable(settings.limits)
    waiting: Waiting[Any] = Waiting(settings.labels.window)
    if begin.state is not None:
        state = begin.state
        admission = Admission(state.task, begin.seq, state.target_kind, settings.limits, dict.fromkeys(state.classes))
        table = deepcopy(begin.state.features)
        waiting = deepcopy(begin.state.waiting)
    found: dict[int, Placed] = {}
    for message in messages:
        used = begin.at.used if message.offset == begin.at.offset else 0
        decoded = decode(message.value, settings.limits.message_bytes)
        if decoded.reset:
            break
        for index, event in decoded.events[used:]:
            if isinstance(event, Label):
                joined = waiting.join(event, admission)
                if isinstance(joined, Joined) and joined.seq in found:
                    found[joined.seq] = replace(found[joined.seq], target=joined.target)
            else:
                accepted = admission.admit(event)
                if isinstance(accepted, Accepted):
                    name = event_id(event.id, message, index)
                    _note(waiting, accepted, name)
                    if accepted.seq <= last:
                        table.encode(event.x)
                    if accepted.seq in seqs:
                        found[accepted.seq] = Placed(message.offset, index, name, event.x, accepted.target, event.ts)
            if admission.seq > last and not waiting.awaits(seqs):
                return Counted(found, _texts(table))
    return Counted(found, _texts(table))


def _note(waiting: Waiting[Any], accepted: Accepted, name: str) -> None:
    """Record an accepted event like a learner whose model raises on no event."""
    if accepted.event.id is None:
        return
    if accepted.target is None:
        waiting.add(name, accepted.seq, ())
    elif waiting.begun:
        waiting.labelled(name, accepted.seq)
    waiting.expire(accepted.seq + 1)


def _texts(table: FeatureTable) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(codes)
        for name, kind, codes in zip(table.names, table.kinds, table.categories, strict=True)
        if kind is Kind.TEXT
    }
