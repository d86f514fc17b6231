"""`segments`: the parts of a stream's events in which the loss is higher than elsewhere, again and again."""

from typing import Final, Literal

import msgspec

from glasstream_topics.contract import CURRENT, Natural, Positive, Share, Topic, stream_key
from glasstream_topics.incidents import Condition
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json


class WeakSegment(msgspec.Struct, frozen=True):
    """A part of the events in which the loss is higher than in the other rows.

    Attributes
    ----------
    conditions
        an event belongs to the segment if it fulfils all of them: one or two on a feature, for one or two features.
    text
        the conditions for people, such as `region = north and hour >= 15`.
    share
        share of the rows that belong to it.
    loss
        mean loss of these rows.
    outside
        mean loss of the other rows at the same times: each 1,000 rows count as often as rows of the segment are among
        them, so that a loss that rises or falls for all rows makes no difference.
    low, high
        interval of the difference of the two. The intervals of all segments that were tested hold together with
        probability 1 - `level`.
    since
        first of the rows of the earliest record since which the segment, or one that overlaps it with the same
        features, has been named without a break.
    """

    conditions: list[Condition]
    text: str
    share: Share
    loss: float
    outside: float
    low: float
    high: float
    since: Natural

    @property
    def sentence(self) -> str:
        """What the numbers say, for people.

        >>> WeakSegment([], "hour >= 15", 0.125, 0.5, 0.25, 0.1, 0.4, 3_000).sentence
        'hour >= 15: loss 0.5 instead of 0.25 (+0.1 to +0.4), 12 % of the rows, since row 3,000'
        """
        change = f"loss {self.loss:.3g} instead of {self.outside:.3g} (+{self.low:.3g} to +{self.high:.3g})"
        return f"{self.text}: {change}, {100 * self.share:.2g} % of the rows, since row {self.since:,}"


class Segments(Shown, msgspec.Struct, frozen=True):
    """The weak segments of a stream as of one row.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    row
        newest row.
    seq
        the event of this row.
    loss_name
        name of the loss.
    rows
        number of newest rows from which all numbers are computed. The segments were chosen by the rows before them.
    loss
        mean loss of these rows. In all means of this record, losses that are outliers for the watch for incidents count
        as the nearest loss that is none.
    level
        probability of naming any segment if the loss does not depend on the features.
    looked
        number of segments among which those to test were chosen.
    tested
        number of segments that were tested.
    segments
        the segments whose loss is surely higher, clearest first; at most five. If there is none, no segment stands out.
    """

    schema_version: Literal[1]
    epoch: Natural
    stream: str
    row: Natural
    seq: Natural
    loss_name: str
    rows: Positive
    loss: float
    level: Share
    looked: Natural
    tested: Natural
    segments: list[WeakSegment]

    @property
    def sentence(self) -> str:
        """What was found, for people.

        >>> Segments(1, 0, "s", 7_999, 8_012, "brier", 5_000, 0.28, 0.05, 18_845, 10, []).sentence
        'no segment stands out as of row 7,999: 10 of 18,845 were tested on 5,000 rows, mean brier loss 0.28'
        """
        count = len(self.segments)
        found = "no segment stands out" if not count else f"{count} weak segment{'s' if count > 1 else ''}"
        loss = f"mean {self.loss_name} loss {self.loss:.3g}"
        tested = f"{self.tested} of {self.looked:,} were tested on {self.rows:,} rows"
        return f"{found} as of row {self.row:,}: {tested}, {loss}"


JSON: Final = Json("segments", Segments)
encode: Final = JSON.encode
decode: Final = JSON.decode
key: Final = stream_key

TOPIC: Final = Topic(
    name="segments",
    title="Weak segments",
    holds="the segments of a stream in which the loss has been higher than elsewhere",
    written_by=("aggregator",),
    json=JSON,
    config=CURRENT,
)
