"""What one viewer of the page is sent: first all that is kept of what it looks at, then what is new.

A message is a JSON object with `type`: `state` replaces what the viewer has, `delta` is added to it. A viewer that
would have to be sent too much, or whose stream began anew, gets another `state`; so it holds no more than the server.

A message is built once for all who look at the same: see `Channel`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from glasstream.page.parts import alarm_part, bins_part, curve_part, importance_part, novelty_part, quality_part
from glasstream.page.store import Store
from glasstream.page.stream import Curve, Point, StreamHistory

MOST_FEATURES = 40
"""Drawn at once."""
_POINTS_A_MESSAGE = 60
_POINTS_A_STATE = 600
"""A viewer that has been sent so many points since its last state gets a state."""
_REGROUP_SECONDS = 2.0
"""Between two looks at which features lead."""
_QUEUED_BYTES = 1024 * 1024
"""A client for which so much waits gets a state in place of it, once it takes something again."""


@dataclass(frozen=True, slots=True)
class View:
    """What is looked at.

    Attributes
    ----------
    stream, method
        None: the first that there is.
    top
        So many features that lead, and
    pinned
        these.
    effect, output
        Whose effect curves; None: the feature whose curve moves the prediction most, and its first output.
    """

    stream: str | None = None
    method: str | None = None
    top: int = 8
    pinned: tuple[str, ...] = ()
    effect: str | None = None
    output: str | None = None


@dataclass(slots=True)
class _Sent:
    """How much of a stream a viewer has."""

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
    quality: tuple[int, int] = (0, 0)
    """Width of the bins, and index of the newest one sent."""
    novelty: tuple[int, int] = (0, 0)
    novelty_alarms: int = 0


class Viewer:
    """One view, and how much of it was sent.

    Parameters
    ----------
    store
        What is known.
    view
        What is looked at.
    """

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view
        self._sent: _Sent | None = None
        self._seen: object = None
        self._whole: bytes | None = None
        """The state as of the newest message, once somebody has asked for it."""

    def message(self, now: float) -> bytes | None:
        """What is new since the last call; None: nothing. `now` is in seconds and does not go back."""
        history = self._history()
        seen = (self._outline(), history and (id(history), history.changes))
        if seen == self._seen:
            return None
        self._seen, self._whole = seen, None
        payload = self._delta(history, now) if history is not None else None
        if payload is None:
            self._begin(history, now)
            return self.whole()
        return orjson.dumps({**self._outline(), **payload})

    def whole(self) -> bytes:
        """Return a state that comes to the same as all messages up to now; call it right after `message`."""
        if self._whole is None:
            self._whole = orjson.dumps({**self._outline(), **self._state()})
        return self._whole

    def _history(self) -> StreamHistory | None:
        streams = self._store.streams
        if self._view.stream is not None:
            return streams.get(self._view.stream)
        if self._sent is not None:
            return self._sent.history
        return next(iter(streams.values()), None)

    def _outline(self) -> dict[str, Any]:
        """What concerns all streams."""
        store = self._store
        reading = store.reading
        return {
            "streams": sorted(store.streams),
            "left_out": store.left_out,
            "rejected": dict(sorted(store.rejected.items())),
            "damaged": store.damaged,
            "trouble": store.trouble,
            "reading": None if reading.done else {"read": reading.read, "total": reading.total},
        }

    def _begin(self, history: StreamHistory | None, now: float) -> None:
        """Begin with a state of all that is kept."""
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

    def _state(self) -> dict[str, Any]:
        """All that is kept, of what was chosen when this began."""
        sent = self._sent
        if sent is None:
            return {"type": "state", "stream": self._view.stream, "epoch": None}
        history = sent.history
        points = list(history.methods[sent.method].points) if sent.method is not None else ()
        curves = list(history.effects[sent.effect]) if sent.effect is not None else ()
        fresh = replace(sent, alarms=0, quality=(0, 0), novelty=(0, 0))
        return {"type": "state", "stream": history.name, "epoch": history.epoch, **self._parts(fresh, points, curves)}

    def _delta(self, history: StreamHistory, now: float) -> dict[str, Any] | None:
        """What was added; None where a state says it better."""
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
            "methods": sorted(history.methods),
            "quality": quality_part(history),
            "alarms_total": history.alarms_total,
            "outputs": history.outputs(),
        }
        parts["quality"]["bins"], sent.quality = bins_part(history.quality.bins, sent.quality)
        if sent.method is not None:
            parts["importance"] = importance_part(history.methods[sent.method], sent.method, points, sent.names)
        new = history.alarms_total - sent.alarms
        sent.alarms = history.alarms_total
        if new:
            parts["alarms"] = [alarm_part(one) for one in list(history.alarms)[-new:]]
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
        return parts

    def _method(self, history: StreamHistory) -> str | None:
        if self._view.method in history.methods:
            return self._view.method
        if self._sent is not None and self._sent.history is history and self._sent.method in history.methods:
            return self._sent.method
        return next(iter(history.methods), None)

    def _names(self, history: StreamHistory, method: str | None) -> list[str]:
        """The features that are drawn: those that lead, then the pinned ones that do not."""
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
    """One client of a channel.

    Attributes
    ----------
    wake
        Called when something is in the queue.
    queue
        Messages that the client is to be sent, in order.
    behind
        Whether the client needs a state before anything else.
    """

    wake: Callable[[], None]
    queue: deque[bytes] = field(default_factory=deque)
    behind: bool = True


class Channel:
    """One view and the clients that look at it: what they are sent is built once for all of them.

    A client that joins gets a state, and then what the others get. One that takes too little loses what waits for it,
    and gets another state.

    Parameters
    ----------
    store, view
        As of `Viewer`.
    """

    def __init__(self, store: Store, view: View) -> None:
        self._viewer = Viewer(store, view)
        self._seats: set[Seat] = set()

    @property
    def empty(self) -> bool:
        """Whether no viewer is connected."""
        return not self._seats

    def join(self, wake: Callable[[], None], now: float) -> Seat:
        """Add a client; the first one gets its state at once, the others with the next turn."""
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
        """Wake all clients, though there may be nothing for them."""
        for seat in self._seats:
            seat.wake()

    def turn(self, now: float) -> None:
        """Hand out what is new since the last turn; `now` is in seconds and does not go back."""
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
