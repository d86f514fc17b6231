"""`novelty`: whether the model should be trusted with an event, labelled or not."""

from typing import Annotated, Final, Literal

import msgspec

from glasstream_topics.contract import Natural, Positive, Share, Topic, stream_key
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json

_Distance = Annotated[float, msgspec.Meta(ge=0)]


class Alarm(msgspec.Struct, frozen=True):
    """More or fewer events than before are novel.

    It is found with a threshold that follows the stream ten times more slowly than `threshold` does.

    Attributes
    ----------
    before
        share of events beyond that threshold before the change, as the detector sees it.
    after
        share of events beyond that threshold after the change.
    width
        number of events after the change, up to and including this one.
    """

    before: Share
    after: Share
    width: Positive


class Novelty(Shown, msgspec.Struct, frozen=True):
    """One event. Events before the stream's first map have no record.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    seq
        number of the event among the accepted events of its stream in this epoch.
    id
        id of the event, or partition-offset-index of its place in `events` if it has none.
    indicator
        distance between the map's prediction at the event and the mean of its nearest reference events (Patron et al.
        2024, section 4.5), in units of the target, or in log-odds for classes. With several classes, the largest of
        their distances.
    baseline
        Euclidean distance, in standardised features, to the k-th nearest reference event.
    threshold
        threshold of the indicator. It follows the stream, so that in the long run the configured share of the events
        exceeds it.
    flagged
        whether the indicator exceeds the threshold.
    map_version
        seq of the newest event in the map's window.
    attribution
        slope of the map in each feature, by name, for one standard deviation of a number, or for having the category.
        Only flagged events have it, if `novelty.attribution` is on.
    alarm
        present if the share of novel events has changed.
    held_threshold
        threshold for events like those of the map's window. The events of a stream that has moved away from the
        window exceed it more often. Records of version 1 lack it: their `threshold` is this one.
    """

    schema_version: Literal[1, 2]
    epoch: Natural
    stream: str
    seq: Natural
    id: str
    indicator: _Distance
    baseline: _Distance
    threshold: _Distance
    flagged: bool
    map_version: Natural
    attribution: dict[str, float] | None = None
    alarm: Alarm | None = None
    held_threshold: _Distance | None = None


JSON: Final = Json("novelty", Novelty)
encode: Final = JSON.encode
decode: Final = JSON.decode
key: Final = stream_key

TOPIC: Final = Topic(
    name="novelty",
    title="Novelty score",
    holds="one event's novelty score: the distance of the map's prediction from the value that its neighbours support",
    written_by=("novelty",),
    read_by=("anyone", "alerting"),
    json=JSON,
)
