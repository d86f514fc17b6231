"""The settings of explanations: the section `explain`, and one section for each method that has settings of its own."""

import math
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesBoth, ChangesExplanations, ChangesNothing
from glasstream.base.errors import SettingsError
from glasstream.explain.sampling.settings import GridSettings
from glasstream_topics.methods import EFFECTS, METHODS, MOST_CACHE, MOST_PAIRS, MOST_ROWS

if TYPE_CHECKING:  # it imports River, which explainers do not need
    from glasstream.models.river.catalogue import ModelSettings

NOVELTY = "novelty"
"""Value of `explain.methods` that starts the novelty detector. It is not an explanation method."""

_METHODS = rf"^({NOVELTY},)*({'|'.join(METHODS)})(,({'|'.join((*METHODS, NOVELTY))}))*$"
_SOME_METHODS = f"one or more of {', '.join(METHODS)}, separated by commas, optionally with {NOVELTY}"

_Positive = Annotated[int, Meta(ge=1)]


class ExplainSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the model is explained.

    Attributes
    ----------
    methods
        Methods that explain the model. If the list also contains ``novelty``, `glasstream run` starts the novelty
        detector too.
    alpha
        Factor α of the exponential smoothing. A window of N rows corresponds to 2 / (N + 1).
    sampling
        Distribution of the background rows: ``geometric`` prefers recent rows, ``uniform`` weighs all earlier rows
        equally, ``window`` keeps the last rows.
    reservoir
        Number of background rows that a stream keeps.
    start
        First row t0 that is explained. If unset, explanations begin when the reservoir is full. A stream with fewer
        events may give up its place to a new one: see `limits.streams`.
    draws
        Number of background rows that iPFI draws for each feature of each row. The cost of iPFI is proportional to it.
        Ten draws have the error of the ten realisations that the iPFI paper averages.
    loss
        Loss function. If unset, ``brier`` for classification and ``squared`` for regression.
    level
        Confidence level of the intervals.
    unlabelled
        Compute effects, their importance and their alarms on every event when it arrives, whether it has a label or
        not. It needs the method ``ipdp``. The method ``attributions`` explains every event in any case, and so does
        ``ipdp`` if both are chosen. Everything else is computed on labelled rows only.
    """

    methods: ChangesExplanations[Annotated[str, Meta(pattern=_METHODS, description=_SOME_METHODS)]] = "ipfi"
    alpha: ChangesExplanations[Annotated[float, Meta(gt=0, le=1)]] = 0.001
    sampling: ChangesExplanations[Literal["geometric", "uniform", "window"]] = "geometric"
    reservoir: ChangesBoth[_Positive] = 100
    start: ChangesBoth[_Positive | None] = None
    draws: ChangesExplanations[_Positive] = 1
    loss: ChangesExplanations[Literal["zero_one", "cross_entropy", "brier", "absolute", "squared"] | None] = None
    level: ChangesExplanations[Annotated[float, Meta(gt=0, lt=1)]] = 0.95
    unlabelled: ChangesExplanations[bool] = False

    def __post_init__(self) -> None:
        if self.unlabelled and not any(METHODS[name].part == EFFECTS for name in self.names):
            raise SettingsError(
                [
                    "explain.unlabelled: expected the method ipdp or attributions in explain.methods, because the "
                    f"others need labels, got {self.methods!r}"
                ]
            )

    @property
    def every_event(self) -> bool:
        """Whether methods that need no label explain every event when it arrives."""
        return self.unlabelled or "attributions" in self.names

    @property
    def names(self) -> tuple[str, ...]:
        """The explanation methods, in the order in which records are published."""
        asked = self.methods.split(",")
        return tuple(method for method in METHODS if method in asked)

    @property
    def detects_novelty(self) -> bool:
        """Whether `run` starts the novelty detector."""
        return NOVELTY in self.methods.split(",")

    @property
    def first_row(self) -> int:
        """The first explained row, t0."""
        return self.start or self.reservoir


class IsageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How iSAGE removes features.

    Attributes
    ----------
    inner_samples
        Number m of background rows whose mean prediction stands for the prediction without some of the features.
    removal
        ``marginal`` takes background rows from the reservoir. ``conditional`` draws the removed values given the
        remaining ones, from a tree that the learner keeps for each feature.
    fresh
        Draw new background rows for each feature that is removed, instead of using the same rows for a whole event.
        Conditional removal always does this.
    corrected
        Subtract the bias that a finite `inner_samples` adds to the expected loss, where there is a correction: for the
        losses `squared` and `brier` with at least 2 samples, and for `cross_entropy` with at least 3. Without a
        correction, the values are biased, and records contain no intervals.
    """

    inner_samples: ChangesExplanations[Annotated[int, Meta(ge=1)]] = 5
    removal: ChangesExplanations[Literal["marginal", "conditional"]] = "marginal"
    fresh: ChangesExplanations[bool] = False
    corrected: ChangesExplanations[bool] = True


class IpdpSettings(GridSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where effect curves are evaluated, and how much of them is kept.

    Attributes
    ----------
    ice
        Number of single-row curves (ICE curves) kept per feature for display.
    """

    ice: ChangesExplanations[Annotated[int, Meta(ge=0, le=100)]] = 5


class AttributionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which predictions are attributed to the features, and how.

    Attributes
    ----------
    share
        Share of the events that are explained. Which ones is a function of the seed, the stream and the event's number.
    output
        If set, only events with this predicted class are explained.
    low, high
        Only events with a prediction within these bounds are explained: the probability of the predicted class, or the
        predicted number.
    rows
        Number of background rows with which an event is compared: a sample of earlier events, labelled or not, by
        `explain.sampling`.
    refresh
        Number of events after which the background rows are drawn again.
    scale
        ``additive`` explains the scale on which the model adds, if it has one: log odds for a logistic regression.
        ``prediction`` always explains probabilities or numbers. The two differ for linear models of classes and for
        boosting only.
    largest
        Number of contributions in a record. The other ones are summed up.
    pairs
        Number of pairs of features in a record, those with the largest interactions. They are computed exactly or not
        at all, for each event anew, which takes many times as long as the contributions.
    cache
        MiB of memory, at most, in which an explainer keeps weights of a stream's trees. Less makes it slower, and
        changes no value.
    """

    share: ChangesExplanations[Annotated[float, Meta(gt=0, le=1)]] = 1.0
    output: ChangesExplanations[str | None] = None
    low: ChangesExplanations[float | None] = None
    high: ChangesExplanations[float | None] = None
    rows: ChangesExplanations[Annotated[int, Meta(ge=1, le=MOST_ROWS)]] = 100
    refresh: ChangesExplanations[_Positive] = 1_000
    scale: ChangesExplanations[Literal["additive", "prediction"]] = "additive"
    largest: ChangesExplanations[_Positive] = 10
    pairs: ChangesExplanations[Annotated[int, Meta(ge=0, le=MOST_PAIRS)]] = 0
    cache: ChangesNothing[Annotated[int, Meta(ge=1, le=MOST_CACHE)]] = 64

    def __post_init__(self) -> None:
        findings = [
            f"attributions.{key}: expected a number, got {bound}"
            for key, bound in (("low", self.low), ("high", self.high))
            if bound is not None and math.isnan(bound)
        ]
        if self.low is not None and self.high is not None and self.low > self.high:
            findings.append(
                f"attributions.low: expected at most attributions.high = {self.high:g}, got {self.low:g}, so that no "
                "prediction lies between them"
            )
        if findings:
            raise SettingsError(findings)


class MethodSections(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One section for each method that has settings of its own."""

    isage: IsageSettings = IsageSettings()
    ipdp: IpdpSettings = IpdpSettings()
    attributions: AttributionSettings = AttributionSettings()


class Watching(Protocol):
    """What a method asks of the section `drift`."""

    @property
    def values(self) -> Literal["rows", "smoothed"]: ...

    @property
    def pd(self) -> Literal["usual", "squares"]: ...

    @property
    def finds_incidents(self) -> bool: ...


class MethodSettings(Protocol):
    """What a method asks of all settings (`glasstream.flow.settings.Settings`)."""

    @property
    def epoch(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def model(self) -> "ModelSettings": ...

    @property
    def explain(self) -> ExplainSettings: ...

    @property
    def isage(self) -> IsageSettings: ...

    @property
    def ipdp(self) -> IpdpSettings: ...

    @property
    def attributions(self) -> AttributionSettings: ...

    @property
    def drift(self) -> Watching: ...
