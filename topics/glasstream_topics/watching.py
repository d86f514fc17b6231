"""`watching`: what a stream is watched for incidents with, and the smallest changes that would be noticed."""

from typing import Final, Literal

import msgspec

from glasstream_topics.contract import CURRENT, Natural, Positive, Share, Topic, stream_key
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json

STATES: Final = {
    "watched": "watched",
    "calibrating": "not watched yet: its first values make the bins",
    "pending": "has raised an alarm that further rows have to confirm",
    "incident": "part of the open incident",
    "silent": "raises no alarm while an alarm or an incident is under way",
    "muted": "muted: its values have moved for good twice",
}
"""States of a series, and what people say of them."""

SIZES: Final = (
    "The sizes are those of the smallest lasting changes that are noticed within so many rows, in about half of such "
    "cases or more, if one series changes while no incident is open: share of rows that lose their value or get one "
    "beyond all former values / share that get one former value, whichever but the most frequent / rise or fall of all "
    "values. A dash: no such change is noticed in time."
)
"""What the columns of sizes show."""


class Detectable(msgspec.Struct, frozen=True, omit_defaults=True):
    """The smallest lasting changes of the values that are noticed within a number of rows, in at least about half of
    such cases. A size is absent if no change of its kind is noticed in time.

    Attributes
    ----------
    rows
        number of rows.
    outside
        share of rows that lose their value, or get one beyond all former values (a new category).
    inside
        share of rows that get one former value, whichever it is, except the most frequent one.
    shift
        by how much all values rise or fall, in their own unit. Absent also for booleans and texts, and for numbers of
        which more than half are equal to an edge of the bins, such as numbers with few values.
    """

    rows: Positive
    outside: Share | None = None
    inside: Share | None = None
    shift: float | None = None

    @property
    def text(self) -> str:
        """The three sizes for people.

        >>> Detectable(1_000, 0.0625, None, 2.5).text
        '6.2 % / – / ±2.5'
        """
        shares = ("–" if share is None else f"{100 * share:.2g} %" for share in (self.outside, self.inside))
        return " / ".join([*shares, "–" if self.shift is None else f"±{self.shift:.3g}"])


class Watched(msgspec.Struct, frozen=True):
    """A watched series of values.

    Attributes
    ----------
    state
        a key of `glasstream_topics.watching.STATES`; later releases may add states.
    known
        number of values that later ones are compared with.
    bins
        number of bins that hold some of them.
    block
        number of consecutive rows that carry the information of one independent row.
    evidence
        its evidence of a change, as a share of the limit that raises an alarm.
    detectable
        the smallest changes that are noticed; empty while the series is muted or calibrating.
    """

    state: str
    known: Natural
    bins: Natural
    block: Positive
    evidence: float
    detectable: list[Detectable]


class Watching(Shown, msgspec.Struct, frozen=True):
    """How a stream is watched as of one row.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages. That of events without labels is followed by `/events`.
    row
        newest row. If `unlabelled`, rows are numbers of events.
    seq
        the event of this row.
    unlabelled
        whether these are events without labels, which are watched apart from rows.
    label
        the labels; null if `unlabelled`.
    features
        the values of each feature.
    """

    schema_version: Literal[1]
    epoch: Natural
    stream: str
    row: Natural
    seq: Natural
    unlabelled: bool
    label: Watched | None
    features: dict[str, Watched]

    @property
    def unit(self) -> str:
        """What its rows are: ``row``, or ``event`` for events without labels."""
        return "event" if self.unlabelled else "row"


JSON: Final = Json("watching", Watching)
encode: Final = JSON.encode
decode: Final = JSON.decode


def key(stream: str, *, unlabelled: bool) -> bytes:
    """Return the key of a record."""
    return stream_key(f"{stream}/events" if unlabelled else stream)


TOPIC: Final = Topic(
    name="watching",
    title="Watch for incidents",
    holds="how each feature of a stream is watched for incidents, and the smallest changes that would be noticed",
    key="stream; stream/events for events without labels",
    written_by=("aggregator",),
    json=JSON,
    config=CURRENT,
)
