"""Admission of events: which events a stream accepts, and the number that each one gets.

`seq` counts accepted events, labelled or not, in the order of the log. Every reader of `events` admits with this class
and therefore gives an event the same number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from glasstream.base import form
from glasstream.events.limits import IngestLimits
from glasstream_topics.events import LARGEST, Event
from glasstream_topics.events_dead import Reason


class Task(StrEnum):
    """What a stream's model predicts."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """Accepted event. `target` is a class label (text), a number, or None without a label."""

    seq: int
    event: Event
    target: str | float | None


def label(value: str | bool | int | float) -> str | None:
    """Return the name of a class: text as it is, `true`/`false`, or a whole number without decimal point. Else None.

    >>> label("UP"), label(True), label(3.0), label(2.5)
    ('UP', 'true', '3', None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not value.is_integer():
        return None
    return str(int(value))


CLASSES_BYTES: Final = 128 * 1024
"""Largest size in bytes of all class names of a stream together, as JSON, because every block of rows carries them."""


def check_saved(
    task: Task | None, kind: type | None, classes: Sequence[str], chosen: Task | None, limits: IngestLimits, of: str
) -> None:
    """Check what a saved state says of the labels of its stream.

    Parameters
    ----------
    task, kind, classes
        Task, kind of the labels, and classes of the state.
    chosen
        Task of the settings.
    of
        Name of the state, for errors.

    Raises
    ------
    FrameError
        No stream can have them under these settings.
    """
    form.expect(task is not None or (chosen is None and kind is None), "a task where there is a label", task, of)
    form.expect(chosen in (None, task), f"the task {chosen}", task, of)
    regression = task is not Task.CLASSIFICATION
    form.expect(not regression or kind in (None, float), "numbers as labels of a regression", kind, of)
    form.expect(not (regression and classes), "no classes of a regression", classes, of)
    form.distinct(classes, limits.classes, CLASSES_BYTES, "classes", of)


@dataclass(slots=True)
class Admission:
    """Numbers the events of one stream.

    Parameters
    ----------
    task
        Classification or regression. With None the first labelled event decides: text or boolean means classification.
    limits
        Limits on classes; see `IngestLimits`.
    classes
        Classes of the accepted labels, in order of first appearance.
    """

    task: Task | None = None
    seq: int = 0
    """Number of the next accepted event."""
    target_kind: type | None = None
    """Kind of the first target. Targets of other kinds are rejected after it."""
    limits: IngestLimits = field(default_factory=IngestLimits)
    classes: dict[str, None] = field(default_factory=dict)
    _classes_bytes: int = 0

    def __post_init__(self) -> None:
        self._classes_bytes = sum(map(_json_bytes, self.classes))

    def admit(self, event: Event) -> Accepted | tuple[Reason, str]:
        """Accept an event and number it, or return the reason for its rejection. A rejected event changes nothing."""
        y = event.y
        if y is None or (type(y) is str and self.target_kind is str and y in self.classes):
            target: str | float | None = y  # most events need no further check
        else:
            outcome = self.target(y)
            if isinstance(outcome, tuple):
                return outcome
            target = outcome
        accepted = Accepted(self.seq, event, target)
        self.seq += 1
        return accepted

    def known(self, y: str | bool | int | float) -> str | float | None:
        """Return the target that a label means if neither its kind nor its class is new; else None."""
        kind = type(y)
        if (float if kind is int else kind) is not self.target_kind or (isinstance(y, int) and y.bit_length() > 64):
            return None
        if self.task is Task.REGRESSION:
            return _number(y)
        name = label(y)
        return name if name in self.classes else None

    def target(self, y: str | bool | int | float) -> str | float | tuple[Reason, str]:
        """Return the target that a label means, or the reason for its rejection. The first one fixes the kind."""
        kind: type = float if type(y) is int else type(y)
        if self.target_kind is not None and kind is not self.target_kind:
            return (
                Reason.TARGET_KIND,
                f"expected `y` to be {_NAME[self.target_kind]} like the earlier labels of this stream, got "
                f"{_NAME[kind]}; send labels of one kind, or, to change the kind, reset the stream",
            )
        task = self.task or (Task.REGRESSION if kind is float else Task.CLASSIFICATION)
        target: str | float | None
        if task is Task.CLASSIFICATION:
            if isinstance(y, int) and y.bit_length() > 64 and abs(y) >= 10**self.limits.label_bytes:
                return self._too_long(f"an integer of more than {self.limits.label_bytes} digits")
            target = label(y)
        else:
            target = _number(y)
        if target is None:
            shown = "an integer beyond it" if isinstance(y, int) and abs(y) > LARGEST else f"{y!r:.40}"
            wanted, todo = f"a number within ±{LARGEST:g}", ""
            if task is Task.CLASSIFICATION:
                wanted = "text, a boolean or a whole number"
                todo = "; to predict a number, set model.task=regression (--task regression)"
            return Reason.BAD_TARGET, f"expected `y` to be {wanted} ({task.value}), got {shown}{todo}"
        if isinstance(target, str) and target not in self.classes:
            refused = self._new_class(target)
            if refused is not None:
                return refused
        self.task, self.target_kind = task, kind
        return target

    def _new_class(self, name: str) -> tuple[Reason, str] | None:
        """Add a class, or return the reason why the stream may not have it."""
        length = len(name.encode())
        if length > self.limits.label_bytes:
            return self._too_long(f"{length} bytes, {name!r:.40}...")
        size = self._classes_bytes + _json_bytes(name)
        if len(self.classes) >= self.limits.classes or size > CLASSES_BYTES:
            most = (
                f"at most {self.limits.classes} classes (limits.classes)"
                if len(self.classes) >= self.limits.classes
                else f"class names of at most {CLASSES_BYTES} bytes together"
            )
            return (
                Reason.TOO_MANY_CLASSES,
                f"expected {most} in this stream, got one more, {name!r:.60}; if `y` is an id or free text, send "
                "the class instead and start the stream over with `glasstream reset`; if it is a number to predict, "
                "set model.task=regression (--task regression); if there are that many classes, raise limits.classes",
            )
        self.classes[name] = None
        self._classes_bytes = size
        return None

    def _too_long(self, found: str) -> tuple[Reason, str]:
        return (
            Reason.LABEL_TOO_LONG,
            f"expected a class name (`y`) of at most {self.limits.label_bytes} bytes (limits.label_bytes), got "
            f"{found}; send a short name for the class",
        )


def _json_bytes(name: str) -> int:
    return len(msgspec.json.encode(name))


_NAME = {float: "a number", bool: "a boolean", str: "text"}


def _number(y: str | bool | int | float) -> float | None:
    if isinstance(y, (str, bool)):
        return None
    try:
        number = float(y)
    except OverflowError:
        return None
    return number if abs(number) <= LARGEST else None
