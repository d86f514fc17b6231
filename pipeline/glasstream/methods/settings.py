"""The sections of the settings that belong to one explanation method each."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from glasstream.background.grids import GridName, GridSettings
from glasstream.changes import ChangesExplanations


class IsageSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How iSAGE removes features.

    Attributes
    ----------
    inner_samples
        Number m of background rows. Their mean prediction replaces the prediction for a row without some of its
        features.
    removal
        ``marginal`` takes background rows from the reservoir. ``conditional`` draws the removed values given the
        remaining ones, from a tree that the learner keeps for each feature.
    fresh
        Draw new background rows for each step along the order of features. Conditional removal always does.
    corrected
        Subtract the bias that a finite m adds to the expected loss. This applies to the losses squared and brier and
        needs m of at least 2.
    """

    inner_samples: ChangesExplanations[Annotated[int, Meta(ge=1)]] = 5
    removal: ChangesExplanations[Literal["marginal", "conditional"]] = "marginal"
    fresh: ChangesExplanations[bool] = False
    corrected: ChangesExplanations[bool] = False


class IpdpSettings(GridSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where effect curves are evaluated, and how much of them is kept.

    Attributes
    ----------
    grid, points, categories, window, store, low, high
        See `glasstream.background.grids.GridSettings`.
    ice
        Number of single-row curves (ICE curves) kept per feature for display.
    """

    grid: ChangesExplanations[GridName] = "quantile_range"
    ice: ChangesExplanations[Annotated[int, Meta(ge=0, le=100)]] = 5


class MethodSections(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One section for each method that has settings of its own."""

    isage: IsageSettings = IsageSettings()
    ipdp: IpdpSettings = IpdpSettings()
