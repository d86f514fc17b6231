"""`comparisons`: which of two models is better on the same events, with a statement that holds at every row."""

from typing import Final, Literal, Protocol

import msgspec
from msgspec.structs import asdict

from glasstream_topics.contract import Natural, Positive, Share, Topic, stream_key
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json

STRONGEST: Final = 9.0
"""Logarithm to base 10 of the strongest evidence. Stronger evidence counts as this."""
LOSSES: Final = {"brier": "Brier loss", "zero_one": "error rate", "absolute": "absolute error"}
"""Losses that are compared, and their names for people."""


class Other(msgspec.Struct, frozen=True):
    """The stream with which the stream of a record is compared.

    Attributes
    ----------
    prefix
        prefix of the topics of its deployment.
    stream
        its name.
    epoch
        its epoch.
    start
        number (`seq`) of its first event that counts.
    """

    prefix: str
    stream: str
    epoch: Natural
    start: Natural


class Comparison(Shown, msgspec.Struct, frozen=True):
    """Which of the models of two streams is better so far. A row is an event with both predictions and a label, in the
    order of the labels.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    seq
        the newest event among the rows, by its number in the stream.
    other
        the stream that it is compared with.
    loss
        `brier`, `zero_one` (whether the label is wrong) or `absolute` (regression).
    scale
        largest absolute error: larger errors count as this one; null for a classification.
    start
        number (`seq`) of the first event of the stream that counts.
    rows
        number of rows.
    left_out
        number of events so far that were no row, because one of the streams lacks them or predicted nothing, because
        their id came again, or because no label came in time.
    own_loss, other_loss
        mean loss of the stream, and of the other one.
    difference
        mean loss of the stream minus that of the other one. The mean of its expectations is estimated, each given the
        rows before.
    low, high
        interval of the difference.
    level
        probability with which the intervals hold at all rows together.
    better
        `stream` or `other`, whose model is better; null if this is not known yet.
    since_row, since_seq
        row, counted from 1, since which `better` has been the same without interruption, and its event; null if it is
        null.
    evidence
        logarithm to base 10 of the evidence that the model with the smaller mean loss is better, at most 9. If it is
        not, this ever reaches k with a probability of at most 10^-k.
    visible
        the difference that would be known by now.
    """

    schema_version: Literal[1]
    epoch: Natural
    stream: str
    seq: Natural
    other: Other
    loss: Literal["brier", "zero_one", "absolute"]
    scale: float | None
    start: Natural
    rows: Positive
    left_out: Natural
    own_loss: float
    other_loss: float
    difference: float
    low: float
    high: float
    level: Share
    better: Literal["stream", "other"] | None
    since_row: Positive | None
    since_seq: Natural | None
    evidence: float
    visible: float

    def sentence(self, own: str | None = None, other: str | None = None) -> str:
        """Return the statement in words.

        Parameters
        ----------
        own, other
            Names for the two streams; by default, their own names.

        >>> other = Other("glasstream.", "challenger", 0, 7)
        >>> means = {"own_loss": 0.25, "other_loss": 0.229, "difference": 0.021, "low": 0.003, "high": 0.039}
        >>> one = Comparison(
        ...     1, 0, "live", 19_999, other, "brier", None, 7, 19_000, 0, **means, level=0.95, better="other",
        ...     since_row=12_340, since_seq=12_400, evidence=2.6, visible=0.018,
        ... )
        >>> one.sentence().partition(": ")[0]
        'challenger is better since row 12,340 of 19,000'
        >>> one.sentence().partition(": ")[2]
        'Brier loss lower by 0.0210, 95 % interval 0.0030 to 0.0390, evidence 1 : 398'
        """
        names = own or self.stream, other or self.other.stream
        better = None if self.better is None else names[self.better == "other"]
        return in_words(self, *names, better, in_units(self.loss, self.scale), 10.0**self.evidence)


class Statement(Protocol):
    """What is known of two models, in the units of the loss; `Comparison` describes the fields."""

    @property
    def rows(self) -> int: ...
    @property
    def difference(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def level(self) -> float: ...
    @property
    def since_row(self) -> int | None: ...
    @property
    def visible(self) -> float: ...


def in_units(loss: str, scale: float | None) -> str:
    """Return words for a loss of `LOSSES`, with the largest error that counts."""
    return LOSSES[loss] if scale is None else f"{LOSSES[loss]} (at most {scale:g})"


def in_words(statement: Statement, own: str, other: str, better: str | None, loss: str, evidence: float) -> str:
    """Return a statement as a sentence.

    Parameters
    ----------
    own, other, better
        Names of the two streams, and of the one whose model is better, if this is known.
    loss
        Words for the loss.
    evidence
        Evidence k for the better model; 10 to the power of `STRONGEST` stands for more, too.
    """
    behind = statement.difference < 0.0
    low, high = (-statement.high, -statement.low) if behind else (statement.low, statement.high)
    interval = f"{100 * statement.level:.4g} % interval {number(low)} to {number(high)}"
    by = f"lower by {number(abs(statement.difference))}, {interval}"
    if better is not None:
        beyond = "beyond " if evidence >= 10.0**STRONGEST else ""
        since = f"since row {statement.since_row:,} of {statement.rows:,}"
        return f"{better} is better {since}: {loss} {by}, evidence {beyond}1 : {evidence:,.0f}"
    return (
        f"not known yet after {statement.rows:,} rows: {loss} of {own if behind else other} {by}; a difference of "
        f"{number(statement.visible)} would have been seen by now"
    )


def number(value: float) -> str:
    """Return a loss for people: four decimals, or an exponent if that would give many digits.

    >>> number(-0.00001), number(0.25), number(-1234567.0)
    ('0.0000', '0.2500', '-1.235e+06')
    """
    return f"{value:z.4f}" if abs(value) < 100_000 else f"{value:.3e}"


JSON: Final = Json("comparisons", Comparison)
decode: Final = JSON.decode
key: Final = stream_key


def encode(record: Comparison) -> bytes:
    """Return the bytes of a record.

    Raises
    ------
    RecordError
        NaN or an infinity.
    """
    return JSON.write({name: value for name, value in asdict(record).items() if name != "schema_version"})


TOPIC: Final = Topic(
    name="comparisons",
    title="Comparison of two models",
    holds="which of the models of two streams is better on the same events, since which row, and with what evidence",
    written_by=("compare",),
    json=JSON,
)
