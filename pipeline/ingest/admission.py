"""Which events a stream accepts, and the number each one gets.

`seq` counts accepted events, labelled or not, in the order of the log. Whatever else reads `events` admits with this
same class and so gives an event the same number.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from topics.events import LARGEST, Event
from topics.events_dead import Reason


class Task(StrEnum):
    """What a stream's model predicts."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """An accepted event. `target` is a class label (text), a number, or None without a label."""

    seq: int
    event: Event
    target: str | float | None


def label(value: str | bool | int | float) -> str | None:
    """The name of a class: text as it is, `true`/`false`, whole numbers without a decimal point; None for others.

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


@dataclass(slots=True)
class Admission:
    """Numbers the events of one stream.

    Parameters
    ----------
    task
        Classification or regression; None: the first labelled event decides (text or boolean is classification).
    """

    task: Task | None = None
    seq: int = 0
    """The number that the next accepted event gets."""
    target_kind: type | None = None
    """The kind of the first target; others are rejected after it."""

    def admit(self, event: Event) -> Accepted | tuple[Reason, str]:
        """Accept an event and number it, or say why not; a rejected event leaves no trace here."""
        y = event.y
        if y is None or (type(y) is str and self.target_kind is str and self.task is Task.CLASSIFICATION):
            target: str | float | None = y  # what most events are needs no further look
        else:
            outcome = self.target(y)
            if isinstance(outcome, tuple):
                return outcome
            target = outcome
        accepted = Accepted(self.seq, event, target)
        self.seq += 1
        return accepted

    def target(self, y: str | bool | int | float) -> str | float | tuple[Reason, str]:
        """What a label stands for, or why it is refused; the first that is not decides for those after it."""
        kind: type = float if type(y) is int else type(y)
        if self.target_kind is not None and kind is not self.target_kind:
            return (
                Reason.TARGET_KIND,
                f"expected `y` to be {_NAME[self.target_kind]} as before in this stream, got {_NAME[kind]}",
            )
        task = self.task or (Task.REGRESSION if kind is float else Task.CLASSIFICATION)
        target = label(y) if task is Task.CLASSIFICATION else _number(y)
        if target is None:
            wanted = (
                "text, a boolean or a whole number" if task is Task.CLASSIFICATION else f"a number within ±{LARGEST:g}"
            )
            return Reason.BAD_TARGET, f"expected `y` to be {wanted} ({task.value}), got {y!r:.40}"
        self.task, self.target_kind = task, kind
        return target


_NAME = {float: "a number", bool: "a boolean", str: "text"}


def _number(y: str | bool | int | float) -> float | None:
    if isinstance(y, (str, bool)):
        return None
    try:
        number = float(y)
    except OverflowError:
        return None
    return number if abs(number) <= LARGEST else None
