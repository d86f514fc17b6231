"""`groups`: how good the model is for each group of a stream's rows, and what it predicts for them."""

from typing import Final, Literal

import msgspec

from glasstream_topics.contract import Natural, Share, Topic, stream_key
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json


class Mean(msgspec.Struct, frozen=True, omit_defaults=True):
    """Mean, or rate, over some rows of a group. If they are fewer than `least`, only their number is given.

    Attributes
    ----------
    of
        number of rows.
    value
        mean over these rows.
    low, high
        ends of the interval.
    """

    of: Natural
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows with one value of the attribute.

    Attributes
    ----------
    kind
        `value`; `other` for the rows of all values beyond the limits together; `missing` for rows without the
        attribute. Only groups of the kind `value` are compared.
    loss
        mean loss.
    value
        the value as text; absent for `other` and `missing`.
    accuracy
        share of right predictions; absent for regression.
    error
        mean absolute error; absent for classification.
    selection_rate
        for each class, the share of rows for which it is predicted.
    true_positive_rate
        for each class, the share of its rows for which it is predicted.
    false_positive_rate
        for each class, the share of the rows of other classes for which it is predicted.
    """

    kind: Literal["value", "other", "missing"]
    loss: Mean
    value: str | None = None
    accuracy: Mean | None = None
    error: Mean | None = None
    selection_rate: list[Mean] = []
    true_positive_rate: list[Mean] = []
    false_positive_rate: list[Mean] = []


class Differences(msgspec.Struct, frozen=True, omit_defaults=True):
    """Differences between groups, with the names and signs of Fairlearn. Each is absent if fewer than two groups have
    enough rows.

    Attributes
    ----------
    demographic_parity
        largest selection rate of a group minus the smallest.
    equalized_odds
        the larger one of two differences: the largest true positive rate of a group minus the smallest, and the
        largest false positive rate minus the smallest.
    """

    demographic_parity: Share | None = None
    equalized_odds: Share | None = None


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """Groups over some rows.

    Attributes
    ----------
    rows
        number of rows.
    groups
        the groups that have rows: values in the order of their first appearance, then `other`, then `missing`.
    differences
        for each class, the differences if this class is the positive one.
    demographic_parity_difference, equalized_odds_difference
        the largest of these differences. With two classes, both classes have the same.
    loss_difference
        largest mean loss of a group minus the smallest.
    """

    rows: Natural
    groups: list[Group]
    differences: list[Differences] = []
    demographic_parity_difference: Share | None = None
    equalized_odds_difference: Share | None = None
    loss_difference: float | None = None


Measure = Literal["accuracy", "large_errors", "demographic_parity_difference", "equalized_odds_difference"]
Rate = Literal["selection_rate", "true_positive_rate", "false_positive_rate"]


class Alarm(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim about the rows since some row: a group is worse off than before, or the groups differ more. All marks
    with false claims, in 100,000 rows of a stream, are expected to be at most `groups.budget`.

    Attributes
    ----------
    measure
        `accuracy` of a group fell, or the share of its `large_errors` rose (regression: absolute errors beyond about
        the 80 % quantile of those of the first 1,000 rows), or one of the two differences rose.
    groups
        the group; for a difference, the group with the highest rate and that with the lowest.
    row
        number of rows before the change.
    seq
        the newest event among these rows.
    before
        the measure over the rows before, at most 25,600 and without the first 1,000 of the epoch.
    after
        the measure over the rows since.
    evidence
        logarithm to base 10 of the evidence: without such a change, it ever reaches k with a probability of at most
        10^-k.
    text
        the claim as a sentence.
    positive
        the class that is predicted; only for a difference.
    rate
        the rate that differs; only for a difference.
    """

    measure: Measure
    groups: list[str]
    row: Natural
    seq: Natural
    before: float
    after: float
    evidence: float
    text: str
    positive: str | None = None
    rate: Rate | None = None


class Groups(Shown, msgspec.Struct, frozen=True):
    """The groups of one attribute. A row is an event with its label, in the order in which the labels come.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    seq
        the newest event among the rows.
    attribute
        the column of `meta`, or the feature, by which rows are grouped.
    loss
        name of the loss.
    classes
        names of the classes of the rates and differences, in the order of their first appearance; empty for
        regression.
    more_classes
        whether the stream has further classes, which have no rates.
    least
        number of rows below which there is no mean and no rate.
    level
        confidence level of the intervals, which hold for rows that are independent of each other.
    left_out
        number of labelled predictions that are no row, because their loss is not a number or too large for sums.
    window
        the newest rows, at most `groups.window`.
    total
        all rows of the epoch.
    alarms
        what can be claimed now: the groups that are worse off than before, then the differences that are larger; absent
        if there is none. An alarm stays until the change is undone or long past.
    """

    schema_version: Literal[1, 2]
    epoch: Natural
    stream: str
    seq: Natural
    attribute: str
    loss: str
    classes: list[str]
    more_classes: bool
    least: Natural
    level: Share
    left_out: Natural
    window: Summary
    total: Summary
    alarms: list[Alarm] = []


JSON: Final = Json("groups", Groups)
encode: Final = JSON.encode
decode: Final = JSON.decode
key: Final = stream_key

TOPIC: Final = Topic(
    name="groups",
    title="Groups of rows",
    holds="accuracy, loss and rates of predicted classes for each group of rows, and the differences between groups",
    written_by=("learner",),
    json=JSON,
)
