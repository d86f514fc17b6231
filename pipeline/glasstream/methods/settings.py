"""The sections of the settings that belong to one explanation method each."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from glasstream.background.grids import GridSettings
from glasstream.changes import ChangesExplanations


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


class MethodSections(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One section for each method that has settings of its own."""

    isage: IsageSettings = IsageSettings()
    ipdp: IpdpSettings = IpdpSettings()
