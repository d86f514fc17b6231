"""Messages to a viewer of the page: first the kept history of its view, then what is new.

A message is a JSON object with `type`: a `state` replaces the viewer's data, a `delta` is added to it. A viewer gets
another `state` if a delta would be too large or if its stream starts a new epoch. So it never holds more than the
server.

A viewer that names no stream gets the overview of all streams, as long as there are several: see `Overview`.

Viewers of the same view share each message: see `Channel`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from glasstream.app.page.overview import Overview, Rows
from glasstream.app.page.parts import (
    alarm_part,
    bins_part,
    comparison_part,
    curve_part,
    explained_part,
    groups_part,
    importance_part,
    incident_part,
    novelty_part,
    opened_part,
    outline_part,
    quality_part,
    segments_part,
)
from glasstream.app.page.stream import Curve, Point, StreamHistory
from glasstream_topics.methods import label_of

MOST_FEATURES = 40
"""Largest number of features drawn at once."""
_POINTS_A_MESSAGE = 60
_POINTS_A_STATE = 600
"""Number of points after which a viewer gets another state."""
_REGROUP_SECONDS = 2.0
"""Time between two checks of which features lead."""
_QUEUED_BYTES = 1024 * 1024
"""Queue size at which a state replaces the waiting messages of a client, once it accepts data again."""


@dataclass(frozen=True, slots=True)
class View:
    """Selection that a viewer looks at.

    Attributes
    ----------
    stream
        Name of the stream; None for all streams, or for the only one.
    method
        Name of the method; None for the first that exists.
    top
        Number of leading features to draw.
    pinned
        Features to draw in any case.
    effect
        Feature whose effect curves are drawn; None for the feature whose curve moves the prediction most.
    output
        Output of the effect curves; None for the default output of the feature.
    event
        Number of the event whose prediction is explained; None for the newest at the time of a state.
    """

    stream: str | None = None
    method: str | None = None
    top: int = 8
    pinned: tuple[str, ...] = ()
    effect: str | None = None
    output: str | None = None
    event: int | None = None


@dataclass(slots=True)
class _Sent:
    """Record of how much of a stream a viewer has received."""

    history: StreamHistory
    epoch: int
    method: str | None
    names: list[str]
    effect: tuple[str, str | None] | None
    regrouped: float
    points: int = 0
    points_since_state: int = 0
    curves: int = 0
    alarms: int = 0
    incidents: int = 0
    """Version of the incidents that were sent."""
    watching: dict[str, Any] | None = None
    """How the stream is watched, as it was sent."""
    segments: int = -1
    """Row of the weak segments that were sent."""
    quality: tuple[int, int] = (0, 0)
    """Width of the bins, and index of the newest bin that was sent."""
    novelty: tuple[int, int] = (0, 0)
    explained: int = 0
    """Version of the explained events that were sent."""
    groups: int = 0
    """Version of the groups that were sent."""
    comparisons: int = 0
    """Version of the comparisons that were sent."""
    opened: bool = False


class Viewer:
    """One view, and how much of it was sent.

    Parameters
    ----------
    rows
        Store of the page, with the rows of its overview.
    view
        View to follow.
    """

    def __init__(self, rows: Rows, view: View) -> None:
        self._rows = rows
        self._store = rows.store
        self._view = view
        self._overview: Overview | None = None
        self._streams = -1
        """Number of streams whose names were sent."""
        self._sent: _Sent | None = None
        self._seen: object = None
        self._opened: tuple[StreamHistory, int, dict[str, Any]] | None = None
        """History and epoch of the opened event, and its part. It stays when the history no longer keeps the event."""
        self._whole: bytes | None = None
        """Encoded state as of the newest message; None until `whole` is called."""

    def message(self, now: float) -> bytes | None:
        """Return a message with what is new since the last call; None if nothing is. `now`, in seconds, never
        decreases.
        """
        if self._view.stream is None and len(self._store.summaries) > 1:
            if self._overview is None:
                self._overview, self._sent, self._seen = Overview(self._rows), None, None
            return self._overview.message(now)
        history, outline = self._history(now), outline_part(self._store)
        seen = (outline, self._behind(history), len(self._store.summaries), history and (id(history), history.changes))
        if seen == self._seen:
            return None
        self._seen, self._whole = seen, None
        payload = self._delta(history, now) if history is not None else None
        if payload is None:
            self._begin(history, now)
            return self.whole()
        if len(self._store.summaries) != self._streams:
            payload |= self._names_of_streams()
        return orjson.dumps({**outline, **payload})

    def whole(self) -> bytes:
        """Return a state that is equivalent to all messages so far. Call this method right after `message`."""
        if self._overview is not None:
            return self._overview.whole()
        if self._whole is None:
            self._whole = orjson.dumps({**outline_part(self._store), **self._names_of_streams(), **self._state()})
        return self._whole

    def _history(self, now: float) -> StreamHistory | None:
        name = self._view.stream
        if name is None:
            name = next(iter(self._store.summaries), None)
        return None if name is None else self._store.look(name, now)

    def _behind(self, history: StreamHistory | None) -> str | None:
        """Return why there is no history of a known stream."""
        name = self._view.stream
        if history is not None or name not in self._store.summaries:
            return None
        return "crowded" if self._store.crowded(name) else "reading"

    def _names_of_streams(self) -> dict[str, Any]:
        names = sorted(self._store.summaries)
        self._streams = len(names)
        return {"streams": names}

    def _begin(self, history: StreamHistory | None, now: float) -> None:
        """Start again with a state of the kept history."""
        if history is None:
            self._sent = None
            return
        method, effect = self._method(history), self._effect(history)
        sent = self._sent = _Sent(history, history.epoch, method, self._names(history, method), effect, now)
        if method is not None:
            sent.points = history.methods[method].points.total
        if effect is not None:
            sent.curves = history.effects[effect].total
        _, sent.quality = bins_part(history.quality.bins, (0, 0))
        if history.novelty.last is not None:
            _, sent.novelty = bins_part(history.novelty.bins, (0, 0))
        sent.alarms = history.alarms_total
        sent.incidents = history.incidents.version
        sent.watching = history.watching
        sent.segments = -1 if history.segments is None else history.segments.row
        sent.explained = history.explained.version
        sent.groups = history.groups_version
        sent.comparisons = history.comparisons_version
        if self._view.event is None:
            self._opened = None
        sent.opened = self._open(history) is not None

    def _state(self) -> dict[str, Any]:
        """Return the kept history of the current selection."""
        sent = self._sent
        if sent is None:
            behind = self._behind(None)
            return {"type": "state", "stream": self._view.stream, "epoch": None, "behind": behind}
        history = sent.history
        points = list(history.methods[sent.method].points) if sent.method is not None else ()
        curves = list(history.effects[sent.effect]) if sent.effect is not None else ()
        fresh = replace(
            sent,
            alarms=0,
            incidents=0,
            watching=None,
            segments=-1,
            quality=(0, 0),
            novelty=(0, 0),
            explained=0,
            groups=0,
            comparisons=0,
            opened=False,
        )
        return {"type": "state", "stream": history.name, "epoch": history.epoch, **self._parts(fresh, points, curves)}

    def _delta(self, history: StreamHistory, now: float) -> dict[str, Any] | None:
        """Return what was added; None if a state must be sent instead."""
        sent = self._sent
        if sent is None or history is not sent.history or history.epoch != sent.epoch:
            return None
        if self._method(history) != sent.method or (sent.effect is None and history.effects):
            return None
        points: Sequence[Point] = ()
        if sent.method is not None:
            kept = history.methods[sent.method].points
            added = kept.since(sent.points)
            if added is None or len(added) > _POINTS_A_MESSAGE:
                return None
            points, sent.points = added, kept.total
            sent.points_since_state += len(points)
            if sent.points_since_state > _POINTS_A_STATE:
                return None
        if points and now - sent.regrouped >= _REGROUP_SECONDS:
            sent.regrouped = now
            if set(self._names(history, sent.method)) != set(sent.names):
                return None
        curves: Sequence[Curve] = ()
        if sent.effect is not None:
            drawn = history.effects[sent.effect]
            moved = drawn.since(sent.curves)
            if moved is None:
                return None
            curves, sent.curves = moved, drawn.total
        return {"type": "delta", **self._parts(sent, points, curves)}

    def _parts(self, sent: _Sent, points: Sequence[Point], curves: Sequence[Curve]) -> dict[str, Any]:
        history = sent.history
        parts: dict[str, Any] = {
            "newest": history.newest,
            "methods": {name: label_of(name) for name in sorted(history.methods)},
            "quality": quality_part(history),
            "alarms_total": history.alarms_total,
            "incidents_total": history.incidents.total,
            "incidents_kept": history.incidents.numbers(),
            "outputs": history.outputs(),
        }
        parts["quality"]["bins"], sent.quality = bins_part(history.quality.bins, sent.quality)
        if sent.method is not None:
            parts["importance"] = importance_part(history.methods[sent.method], sent.method, points, sent.names)
        new = history.alarms_total - sent.alarms
        sent.alarms = history.alarms_total
        if new:
            parts["alarms"] = [alarm_part(one) for one in list(history.alarms)[-new:]]
        incidents = history.incidents.since(sent.incidents)
        sent.incidents = history.incidents.version
        if incidents:
            parts["incidents"] = [incident_part(one) for one in incidents]
        if history.watching is not None and history.watching is not sent.watching:
            parts["watching"] = sent.watching = history.watching
        if history.segments is not None and history.segments.row != sent.segments:
            parts["segments"] = segments_part(history.segments)
            sent.segments = history.segments.row
        if sent.effect is not None and curves:
            feature, output = sent.effect
            parts["effect"] = {
                "feature": feature,
                "output": output,
                "kind": history.kinds[feature],
                "curves": [curve_part(one) for one in curves],
            }
        if history.novelty.last is not None:
            parts["novelty"] = novelty_part(history)
            parts["novelty"]["bins"], sent.novelty = bins_part(history.novelty.bins, sent.novelty)
        if history.explained.total and history.explained.version != sent.explained:
            parts["explained"] = explained_part(history.explained)
            sent.explained = history.explained.version
        if history.groups_version != sent.groups:
            parts["groups"] = [groups_part(one) for one in history.groups.values()]
            sent.groups = history.groups_version
        if history.comparisons_version != sent.comparisons:
            parts["comparisons"] = [comparison_part(one) for one in history.comparisons.values()]
            sent.comparisons = history.comparisons_version
        if not sent.opened and (opened := self._open(history)) is not None:
            parts["opened"], sent.opened = opened, True
        return parts

    def _open(self, history: StreamHistory) -> dict[str, Any] | None:
        """Return the part of the opened event; None if it is not known."""
        if self._opened is None or self._opened[:2] != (history, history.epoch):
            found = history.explained.row(self._view.event)
            self._opened = found and (history, history.epoch, opened_part(*found))
        return self._opened and self._opened[2]

    def _method(self, history: StreamHistory) -> str | None:
        if self._view.method in history.methods:
            return self._view.method
        if self._sent is not None and self._sent.history is history and self._sent.method in history.methods:
            return self._sent.method
        return next(iter(history.methods), None)

    def _names(self, history: StreamHistory, method: str | None) -> list[str]:
        """Return the features to draw: the leading ones, then the other pinned ones."""
        if method is None:
            return []
        known = history.methods[method]
        leading = known.leading(min(self._view.top, MOST_FEATURES))
        pinned = [name for name in self._view.pinned if name in known.features and name not in leading]
        return [*leading, *pinned][:MOST_FEATURES]

    def _effect(self, history: StreamHistory) -> tuple[str, str | None] | None:
        outputs = history.outputs()
        feature = self._view.effect if self._view.effect in outputs else history.strongest_effect()
        if feature is None:
            return None
        output = self._view.output if self._view.output in outputs[feature] else outputs[feature][-1]
        return feature, output


@dataclass(slots=True, eq=False)
class Seat:
    """Client of a channel.

    Attributes
    ----------
    wake
        Function to call when the queue has a message.
    queue
        Messages for the client, in order.
    behind
        Whether the client needs a state before other messages.
    """

    wake: Callable[[], None]
    queue: deque[bytes] = field(default_factory=deque)
    behind: bool = True


class Channel:
    """View and its clients, which share each message.

    A client that joins receives a state, and then the same messages as the others. A client that reads too slowly loses
    its waiting messages and receives another state.

    Parameters
    ----------
    rows, view
        Parameters of `Viewer`.
    """

    def __init__(self, rows: Rows, view: View) -> None:
        self._viewer = Viewer(rows, view)
        self._seats: set[Seat] = set()

    @property
    def empty(self) -> bool:
        """Whether no viewer is connected."""
        return not self._seats

    def join(self, wake: Callable[[], None], now: float) -> Seat:
        """Add a client. The first client gets its state at once, the others get theirs at the next turn."""
        seat = Seat(wake)
        first = self.empty
        self._seats.add(seat)
        if first:
            self.turn(now)
        return seat

    def leave(self, seat: Seat) -> None:
        """Remove a client."""
        self._seats.discard(seat)

    def wake(self) -> None:
        """Wake all clients, even if there are no messages for them."""
        for seat in self._seats:
            seat.wake()

    def turn(self, now: float) -> None:
        """Queue what is new since the last turn for all clients. `now`, in seconds, never decreases."""
        message = self._viewer.message(now)
        for seat in self._seats:
            if seat.behind:
                if seat.queue:
                    continue
                seat.queue.append(self._viewer.whole())
                seat.behind = False
            elif message is None:
                continue
            else:
                seat.queue.append(message)
                if len(seat.queue) > 1 and sum(map(len, seat.queue)) > _QUEUED_BYTES:
                    seat.queue.clear()
                    seat.behind = True
                    continue
            seat.wake()
