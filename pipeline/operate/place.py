"""Where the events of a stream stand on the log: counted as learner and sentinel count them."""

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass

from pipeline.ingest.admission import Accepted, Admission
from pipeline.ingest.decode import decode
from pipeline.ingest.features import FeatureTable, Kind
from pipeline.ingest.identity import event_id
from pipeline.ingest.message import Message
from pipeline.operate.beginning import Beginning
from pipeline.sentinel.settings import SentinelSettings


@dataclass(frozen=True, slots=True)
class Placed:
    """An event where it stands on the log.

    Attributes
    ----------
    offset, index
        Of the message in its partition of `events`, and of the event in the message.
    id, x, target, ts
        The event.
    """

    offset: int
    index: int
    id: str
    x: Mapping[str, float | str | bool | None]
    target: str | float | None
    ts: int | None


@dataclass(frozen=True, slots=True)
class Counted:
    """What counting has found.

    Attributes
    ----------
    events
        By seq.
    texts
        Of each text feature: its categories by their codes, as of the last event that was asked for.
    """

    events: dict[int, Placed]
    texts: dict[str, tuple[str, ...]]


def place(settings: SentinelSettings, begin: Beginning, messages: Iterable[Message], seqs: Collection[int]) -> Counted:
    """Find events by their numbers.

    Parameters
    ----------
    begin
        Where the messages begin.
    messages
        Of the one stream, in order.
    """
    last = max(seqs)
    admission, table = Admission(settings.task), FeatureTable(settings.limits)
    if begin.state is not None:
        admission = Admission(begin.state.task, begin.seq, begin.state.target_kind)
        table = deepcopy(begin.state.features)
    found: dict[int, Placed] = {}
    for message in messages:
        used = begin.at.used if message.offset == begin.at.offset else 0
        for index, event in decode(message.value, settings.message_bytes).events[used:]:
            accepted = admission.admit(event)
            if not isinstance(accepted, Accepted):
                continue
            table.encode(event.x)
            if accepted.seq in seqs:
                found[accepted.seq] = Placed(
                    message.offset, index, event_id(event.id, message, index), event.x, accepted.target, event.ts
                )
            if accepted.seq == last:
                return Counted(found, _texts(table))
    return Counted(found, _texts(table))


def _texts(table: FeatureTable) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(codes)
        for name, kind, codes in zip(table.names, table.kinds, table.categories, strict=True)
        if kind is Kind.TEXT
    }
