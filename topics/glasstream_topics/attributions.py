"""`attributions`: why one event was predicted as it was, labelled or not."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from glasstream_topics.contract import Natural, Positive, Topic, stream_key
from glasstream_topics.notebook import Shown, bar, table
from glasstream_topics.record import Json

Link = Literal["identity", "logit", "log", "softmax"]
LINKS: Final[Mapping[Link, str]] = {
    "identity": "the prediction",
    "logit": "the log odds of the prediction",
    "log": "the log of the prediction",
    "softmax": "the score of the class, before softmax",
}
"""What the explained number is, by link."""

_Error = Annotated[float, msgspec.Meta(ge=0)]


class Contribution(msgspec.Struct, frozen=True):
    """One feature's part in the prediction.

    Attributes
    ----------
    feature
        name of the feature.
    value
        value of the feature in the event; null if it is absent.
    contribution
        Shapley value: what the feature adds to the explained number, on average over all orders in which the features
        of a background row can be replaced by those of the event.
    error
        standard error of the contribution; 0 if it is exact.
    """

    feature: str
    value: float | bool | str | None
    contribution: float
    error: _Error


class Interaction(msgspec.Struct, frozen=True):
    """What two features add together beyond what each adds alone.

    Attributes
    ----------
    first, second
        names of the features.
    interaction
        Shapley interaction index: how much more the explained number rises if both features come from the event instead
        of a background row, compared with each of them alone, on average over the sets of other features that do. It
        is contained in the contributions, and where more than two features act together, in several pairs.
    """

    first: str
    second: str
    interaction: float


class Background(msgspec.Struct, frozen=True):
    """The rows with which an event is compared.

    Attributes
    ----------
    rows
        number of rows.
    event
        number of the event, among those of the stream, before which they were drawn from the sample of the stream.
    sampling
        distribution of the sample.
    """

    rows: Positive
    event: Natural
    sampling: str


class Step(NamedTuple):
    """One step of the sum of an event.

    Attributes
    ----------
    words
        what is added, such as `age = 19`; for the first and the last step what the number is.
    amount
        what it adds; for the first and the last step the number itself.
    begin, end
        sum before and after it.
    """

    words: str
    amount: float
    begin: float
    end: float


class Attribution(Shown, msgspec.Struct, frozen=True):
    """One event. `base`, all contributions and `others` add up to `explained`.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    seq
        number of the event among the accepted events of its stream in this epoch, as in `predictions`.
    model_version
        version of the model that is explained: a snapshot from before the event.
    output
        the class that was predicted, as in `predictions`; null for a regression.
    prediction
        the probability of `output` in the record on `predictions`; for a regression, the predicted number.
    link
        scale of `explained`: `identity` (that of predictions), `logit`, `log` or `softmax`.
    explained
        the number that is explained: the prediction of the model of `model_version` for this class, on the scale
        `link`. It differs from `prediction` because the model has learned since that version.
    base
        mean of this number over the background rows.
    background
        the background rows.
    exact
        whether the contributions are exact, up to rounding.
    contributions
        the largest contributions, by their absolute values.
    others
        sum of the contributions of all other features.
    pairs
        the largest interactions of two features, by their absolute values; they are exact. Absent if
        `attributions.pairs` is 0, if the model has no interactions, or if they cannot be computed for this event.
        Records of version 1 lack it.
    """

    schema_version: Literal[1, 2]
    epoch: Natural
    stream: str
    seq: Natural
    model_version: Natural
    output: str | None
    prediction: float
    link: Link
    explained: float
    base: float
    background: Background
    exact: bool
    contributions: list[Contribution]
    others: float
    pairs: list[Interaction] | None = None

    def sentence(self) -> str:
        """Return the sum in words.

        >>> one = Contribution("age", 19.0, 0.3, 0.0)
        >>> Attribution(1, 0, "loans", 7, 3, "bad", 0.81, "identity", 0.81, 0.32, None, True, [one], 0.19).sentence()
        '0.81 (probability of bad) = 0.32 for the average event, +0.3 because age = 19, +0.19 for all other features'
        >>> pairs = [Interaction("age", "debt", 0.12)]
        >>> why = Attribution(2, 0, "loans", 7, 3, "bad", 0.62, "identity", 0.62, 0.32, None, True, [one], 0.0, pairs)
        >>> why.sentence().partition("; ")[2]
        'interactions: +0.12 of age with debt'
        """
        what = {"identity": "prediction", "logit": "log odds", "log": "log", "softmax": "score"}[self.link]
        if self.output is not None:
            what = f"{'probability' if self.link == 'identity' else what} of {self.output}"
        if self._apart():
            what += f" by model version {self.model_version}"
        if self._apart() or self.link != "identity":
            kind = "" if self.link == "identity" or self.output is None else "a probability of "
            what += f"; {kind}{self.prediction:.3g} was predicted"
        parts = [f"{self.base:.3g} for the average event"]
        parts += [f"{one.contribution:+.3g} because {one.feature} {_is(one.value)}" for one in self._contributing()]
        if self.others:
            parts.append(f"{self.others:+.3g} for all other features")
        said = f"{self.explained:.3g} ({what}) = {', '.join(parts)}"
        together = ", ".join(f"{one.interaction:+.3g} of {one.first} with {one.second}" for one in self.pairs or ())
        return f"{said}; interactions: {together}" if together else said

    def origin(self) -> str:
        """Return the model and the background rows in words.

        >>> background = Background(100, 12_000, "geometric")
        >>> Attribution(1, 0, "loans", 7, 3, "bad", 0.8, "identity", 0.8, 0.3, background, True, [], 0.5).origin()
        'model version 3, exact; the average event is of 100 rows from before event 12,000'
        """
        background = f"{self.background.rows:,} rows from before event {self.background.event:,}"
        how = "exact" if self.exact else "estimated"
        return f"model version {self.model_version:,}, {how}; the average event is of {background}"

    def steps(self) -> list[Step]:
        """Return the sum step by step, from the average event to the explained number."""
        steps = [Step("average event", self.base, self.base, self.base)]
        parts = [(f"{one.feature} {_is(one.value)}", one.contribution) for one in self._contributing()]
        if self.others:
            parts.append(("all other features", self.others))
        for words, amount in parts:
            begin = steps[-1].end
            steps.append(Step(words, amount, begin, begin + amount))
        end = steps[-1].end
        return [*steps, Step(LINKS[self.link].removeprefix("the "), self.explained, end, end)]

    def waterfall(self, width: int = 40) -> list[str]:
        """Return the sum as lines of text, with bars of up to `width` characters, from the average event down."""
        steps = self.steps()
        low, high = min(step.end for step in steps), max(step.end for step in steps)
        scale = (width - 1) / (high - low) if high > low else 0.0
        pairs = [
            (f"interaction: {_short(one.first)} with {_short(one.second)}", one.interaction) for one in self.pairs or ()
        ]
        names = max(len(words) for words in (*(_short(step.words) for step in steps), *(words for words, _ in pairs)))
        lines = []
        for place, (words, amount, *ends) in enumerate(steps):
            first, end = (round((one - low) * scale) for one in sorted(ends))
            whole = place in (0, len(steps) - 1)
            drawn = "│" if whole else ("█" if amount >= 0.0 else "░") * max(1, end - first)
            lines.append(f"{_short(words):<{names}}  {amount:>{'' if whole else '+'}10.4g}  {' ' * first}{drawn}")
        return [*lines, *(f"{words:<{names}}  {amount:>+10.4g}" for words, amount in pairs)]

    def _apart(self) -> bool:
        """Return whether the explained model says something else than what was predicted, as far as this is known."""
        if self.link == "softmax":
            return False
        said = self.explained
        if self.link == "logit":
            said = 0.5 + 0.5 * math.tanh(said / 2.0)
        elif self.link == "log":
            said = math.exp(min(said, 700.0))
        return abs(said - self.prediction) >= 0.005 * max(1.0, abs(self.prediction))

    def _contributing(self) -> list[Contribution]:
        """Return the contributions other than 0: the features without influence explain nothing."""
        return [one for one in self.contributions if one.contribution]

    def _repr_html_(self) -> str:
        largest = max((abs(one.contribution) for one in self.contributions), default=0.0)
        rows: list[tuple[Any, ...]] = [("average event", None, self.base, "")]
        rows += [
            (one.feature, one.value, one.contribution, bar(one.contribution, largest)) for one in self.contributions
        ]
        rows += [("all other features", None, self.others, bar(self.others, largest))]
        rows += [(LINKS[self.link], None, self.explained, "")]
        shown = table(self.sentence(), ("feature", "value", "contribution", ""), rows)
        return shown + super()._repr_html_()


_NAME: Final = 40
"""Largest number of characters of a name in a waterfall."""


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _is(value: float | bool | str | None) -> str:
    if value is None:
        return "is absent"
    if isinstance(value, bool):
        return f"is {str(value).lower()}"
    if isinstance(value, str):
        return f"= {value}"
    return f"= {value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"= {value:.4g}"


JSON: Final = Json("attributions", Attribution)
encode: Final = JSON.encode
decode: Final = JSON.decode
key: Final = stream_key

TOPIC: Final = Topic(
    name="attributions",
    title="Contributions to a prediction",
    holds="what each feature contributed to the prediction of one event",
    written_by=("aggregator",),
    json=JSON,
)
