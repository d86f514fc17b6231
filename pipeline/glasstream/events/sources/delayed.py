"""A source whose labels come later than its events."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glasstream.base.draws import Purpose, below, stream_key
from glasstream.base.errors import InputError
from glasstream.events.sources.source import Derived, Event

_LABEL_DELAY = int(Purpose.LABEL_DELAY)
_RANDOM = "random:"


@dataclass(frozen=True, slots=True)
class LabelDelay:
    """Delay of a label, in events: `most`, or if `drawn`, a uniform random number from 0 to `most` for each event."""

    most: int
    drawn: bool = False

    @classmethod
    def parse(cls, text: str, window: int) -> "LabelDelay":
        """Parse the value of `--label-delay`.

        Parameters
        ----------
        window
            Value of `labels.window`. A label that is delayed by more events than this no longer finds its event.

        Raises
        ------
        InputError
            The text is not a delay, or no label would arrive in time.
        """
        number = text.removeprefix(_RANDOM)
        if not (number.isascii() and number.isdigit()):
            raise InputError(f"--label-delay: expected N or random:N, a number of events, got {text!r}")
        if int(number) >= window:
            raise InputError(
                f"--label-delay: expected a delay shorter than labels.window = {window:,} events, got "
                f"{int(number):,}; raise it with --set labels.window={int(number) + 1}, on every stage"
            )
        return cls(int(number), number != text)


@dataclass(slots=True)
class Delayed(Derived):
    """Source whose events come without targets; each target follows later, as a label.

    Labels that are due after the last event follow it in the order in which they are due. If two labels are due at
    once, the label of the earlier event comes first.
    """

    delay: LabelDelay
    seed: int

    def events(self) -> Iterator[Event]:
        """Yield events and labels in order. Call `look` first."""
        key = stream_key(self.seed, self.stream)
        most = self.delay.most
        due: list[tuple[int, int, dict[str, Any]]] = []
        for number, event in enumerate(self.source.events()):
            if "y" in event:
                after = int(below(most + 1, key, number, _LABEL_DELAY, 0)) if self.delay.drawn else most
                heapq.heappush(due, (number + after, number, {"id": event["id"], "y": event.pop("y")}))
            yield event
            while due and due[0][0] <= number:
                yield heapq.heappop(due)[2]
        while due:
            yield heapq.heappop(due)[2]
