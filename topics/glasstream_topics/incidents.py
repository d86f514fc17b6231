"""`incidents`: what happened to a stream or its model, since when, how sure that is, and what it did to the loss."""

from typing import Final, Literal

import msgspec
from msgspec.structs import asdict

from glasstream_topics.contract import Natural, Positive, Share, Topic, stream_key
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json

VERDICTS: Final = {
    "feature_broken": "feature broken",
    "feature_alive": "feature came alive",
    "data_moved": "data moved",
    "concept_moved": "concept moved",
    "labels_shifted": "labels shifted",
    "reasoning_moved": "reasoning moved",
    "model_replaced": "model got worse, inputs as before",
    "segment_worse": "loss rose in a segment",
    "model_pushed": "model replaced",
    "unclear": "unclear",
}
"""Verdicts, and what people call them. `ops/docs/incidents.md` defines each by a decision table."""

UNLABELLED: Final = "unlabelled"
"""Rule of an incident in events without labels."""
STATUSES: Final = {
    "open": "is open",
    "over": "is over",
    "normal": "has lasted so long that it is the new normal",
}
"""Statuses, and what people say of an incident."""

ACTIONS: Final = {
    "fix_input": "repair the source of the inputs",
    "wait": "wait: the model is adapting, or labels are still to come",
    "retrain": "retrain or replace the model",
    "reset": "reset the stream, so that a new model learns it",
    "none": "nothing to do",
}
"""Actions that incidents advise, in words. `ops/docs/incidents.md` has the table by which one is chosen."""


class Onset(msgspec.Struct, frozen=True):
    """The first row of the change.

    Attributes
    ----------
    row
        the most likely row.
    earliest
        row from which on the change began, in nine of ten incidents.
    latest
        row up to which the change had begun, in nine of ten incidents.
    seq
        the event of that row. Records of earlier releases lack it.
    ts
        time of this event in milliseconds since 1970 (UTC); null if it has none. Records of earlier releases lack it.
    """

    row: Natural
    earliest: Natural
    latest: Natural
    seq: Natural | None = None
    ts: int | None = None


class Affected(msgspec.Struct, frozen=True, omit_defaults=True):
    """A feature whose values or whose role in the model changed.

    Attributes
    ----------
    feature
        name of the feature.
    fault
        `missing` (more values are missing), `constant` (one value only), `scaled` (all values are multiplied by
        `factor`), `swapped` (the values are those of the feature `other`), `shifted` (other values, for no reason that
        is known), `apart` (its values no longer go with those of `other`, which were almost the same), `alive` (it was
        constant or missing before), or null if the values did not change.
    other
        the feature that it changed places with, or no longer goes with.
    factor
        estimate of what the values are multiplied by.
    factor_low, factor_high
        interval of the factor (99 %). Records of version 1 lack it.
    """

    feature: str
    fault: str | None
    other: str | None = None
    factor: float | None = None
    factor_low: float | None = None
    factor_high: float | None = None


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """One watched series that changed.

    Attributes
    ----------
    side
        `input`, `pair` (the difference of two features that are almost the same), `label`, `loss` or `reasoning`; later
        releases may add sides.
    feature
        the feature of an input, of an importance, or of the loss in a segment; the first one of a pair; null for the
        label and for the loss of all rows.
    row
        first row of the change in this series.
    strength
        logarithm to base 10 of the evidence against "nothing has changed"; 0 where the model was replaced.
    before
        the series before the change: median of a number or difference; share of the former most frequent category or
        class; mean loss or importance.
    after
        the same of the series after the change.
    other
        the second feature of a pair.
    """

    side: str
    feature: str | None
    row: Natural
    strength: float
    before: float | None
    after: float | None
    other: str | None = None


class Alternative(msgspec.Struct, frozen=True):
    """Another verdict that explains some of the evidence.

    Attributes
    ----------
    verdict
        a key of `glasstream_topics.incidents.VERDICTS`.
    weight
        how well it explains the evidence, as a share of all verdicts together.
    """

    verdict: str
    weight: Share


class Condition(msgspec.Struct, frozen=True):
    """A condition on one feature of an event.

    Attributes
    ----------
    feature
        name of the feature.
    op
        `>=` or `<` the number in `values`; `in` or `not in` the categories or booleans in `values`; `missing` (null or
        absent) or `present`.
    values
        what the value is compared with.
    missing
        whether events without a value fulfil the condition, too.
    """

    feature: str
    op: str
    values: list[float | bool | str]
    missing: bool


class Segment(msgspec.Struct, frozen=True):
    """A part of the events that carries much of a change.

    Attributes
    ----------
    conditions
        an event belongs to the segment if it fulfils all of them.
    text
        the conditions for people, such as `region = north and hour >= 15`.
    share_before, share_since
        share of the rows before, and since the onset, that belong to it. With the verdict `segment_worse` and
        conditions on two features, the former is not known and repeats the latter.
    loss_before, loss_since
        mean loss of these rows; null if there are none, or where `of` is `events`.
    low, high
        95 % interval of the rise of their mean loss; of the rise of their share where `of` is `events`. Null if there
        are too few of them.
    carried
        part of the change that the segment carries. It exceeds 1 if the rest of the rows changed the other way. Null
        if the mean loss of all rows did not rise.
    """

    conditions: list[Condition]
    text: str
    share_before: Share
    share_since: Share
    loss_before: float | None
    loss_since: float | None
    low: float | None
    high: float | None
    carried: float | None


class Where(msgspec.Struct, frozen=True):
    """Where in the space of the inputs something changed.

    Attributes
    ----------
    of
        `loss`: where the mean loss rose; `events`: where more events fall than before.
    extent
        `segments`; `everywhere`: the loss rose in more than a few segments; or `unknown`.
    rows_before, rows_since
        number of rows from which the numbers are computed. Other rows chose the segments.
    change
        rise of the mean loss of these rows, or the share of the rows since that would have to move for the shares of
        all leaves of the tree to be as before.
    segments
        at most three, the one that carries most first. Empty unless `extent` is `segments`.
    """

    of: str
    extent: str
    rows_before: Natural
    rows_since: Natural
    change: float
    segments: list[Segment]


class Advice(msgspec.Struct, frozen=True):
    """What to do about an incident. It is a suggestion: nothing acts on it.

    Attributes
    ----------
    action
        a key of `glasstream_topics.incidents.ACTIONS`; later releases may add actions.
    features
        the inputs to repair, if that is the advice.
    recovered
        part of the rise of the loss that has been recovered, from 0 to 1; null if the loss did not rise, or if that is
        not known.
    """

    action: str
    features: list[str]
    recovered: Share | None

    @property
    def text(self) -> str:
        """The advice for people.

        >>> Advice("wait", [], 0.25).text
        'wait: the model is adapting, or labels are still to come (25 % of the rise of the loss is recovered)'
        >>> Advice("fix_input", ["age", "car"], None).text
        'repair the source of the inputs: age, car'
        """
        what = ACTIONS.get(self.action, self.action)
        features = f": {', '.join(self.features)}" if self.features else ""
        part = "" if self.recovered is None else f" ({100 * self.recovered:.0f} % of the rise of the loss is recovered)"
        return f"{what}{features}{part}"


class Incident(Shown, msgspec.Struct, frozen=True):
    """One incident: when it is opened, when its verdict changes, and when it is over.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    incident
        number of the incident in its stream and epoch: from 1 on; or, if rows with labels and events without are both
        watched, odd for the former and even for the latter.
    status
        `open`; `over`: the changed series are as before; or `normal`: the change has lasted so long that later rows
        are compared with it.
    row
        row at which this record was published. For an incident in events without labels (`rule` is `unlabelled`), rows
        are numbers of events, here, in the onset and in the evidence.
    seq
        the event of this row.
    onset
        when the change began.
    verdict
        what happened: a key of `glasstream_topics.incidents.VERDICTS`; later releases may add verdicts.
    weight
        how well the verdict explains the evidence, as a share of all verdicts together. It ranks the alternatives and
        is not a probability of being right.
    alternatives
        the other verdicts that explain some of the evidence, best first.
    features
        the features affected, most affected first; at most ten.
    loss_name
        name of the loss.
    loss_before
        mean loss of the rows before the onset, at most 2,000; null if it is not known.
    loss_after
        mean loss of the rows since the onset, at most 6,000; null if it is not known. Both means leave out up to 50
        rows around the onset. In version 1, it was that of at most 150 of the newest rows.
    summary
        one sentence for people.
    evidence
        the series that changed, strongest first; at most 20.
    rule
        whether labels at equal values of the inputs are as before: `same`, if enough rows show that they differ by less
        than 0.3 standard deviations; `other`; `unknown`; or `unlabelled` for an incident in events without labels.
        Records of version 1 and of replaced models lack it.
    muted
        features that have moved so often that further moves of theirs open no incident. Records of version 1 and of
        replaced models lack it.
    where
        in which part of the space of the inputs the loss rose, or more events fall. Absent if neither holds, if too few
        rows are known, and in records before version 3.
    advice
        what to do. Records before version 3 lack it.
    """

    schema_version: Literal[1, 2, 3]
    epoch: Natural
    stream: str
    incident: Positive
    status: str
    row: Natural
    seq: Natural
    onset: Onset
    verdict: str
    weight: Share
    alternatives: list[Alternative]
    features: list[Affected]
    loss_name: str
    loss_before: float | None
    loss_after: float | None
    summary: str
    evidence: list[Evidence]
    rule: str | None = None
    muted: list[str] | None = None
    where: Where | None = None
    advice: Advice | None = None

    @property
    def unit(self) -> str:
        """What its rows are: ``row``, or ``event`` if it is about events without labels."""
        return "event" if self.rule == UNLABELLED else "row"

    def with_suggestion(self) -> str:
        """Return the summary, followed by the suggestion if there is one."""
        return self.summary if self.advice is None else f"{self.summary} Suggestion: {self.advice.text}."


JSON: Final = Json("incidents", Incident)
decode: Final = JSON.decode
key: Final = stream_key

TOPIC: Final = Topic(
    name="incidents",
    title="Incident",
    holds="one incident of a stream: what changed, when it began, and how it affected the loss",
    written_by=("aggregator",),
    read_by=("anyone", "alerting", "notify"),
    json=JSON,
)


def encode(incident: Incident) -> bytes:
    """Return the bytes of a record.

    Raises
    ------
    RecordError
        NaN or an infinity.
    """
    return JSON.write({name: value for name, value in asdict(incident).items() if name != "schema_version"})
