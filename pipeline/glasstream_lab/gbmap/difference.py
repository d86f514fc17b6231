"""Find where two models differ: a map whose f_0 is the first model and whose target is the second (003, 5.1)."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import InputError, SettingsError
from glasstream.detect.gbmap.encoding import Encoding
from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.map import BoostedMap, Model, start_values
from glasstream.detect.gbmap.rows import Floats, as_matrix
from glasstream.detect.gbmap.settings import GbmapSettings

CLIP: Final = 1e-6
"""Probabilities are clipped to [CLIP, 1 - CLIP], so that a model that is certain has a score of ±13.8 and not infinity.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The difference between two models, as a sequence of half-spaces.

    Attributes
    ----------
    map
        f_0 is the model before; f approximates the model after; f - f_0 approximates their difference. If rows are
        encoded for the map, f_0 is 0 and f itself is the difference.
    gap
        Mean square of the difference on the rows, in units of the models' values (squared scores for probabilities).
    left
        float64[m + 1], mean square of the difference that the first 0, 1, ..., m learners leave unexplained; left[0] is
        gap.
    active
        float64[m], share of the rows in the half-space w_j·x + v_j > 0 of each learner. A learner changes these rows
        most.
    """

    map: BoostedMap
    gap: float
    left: Floats
    active: Floats


def fit_difference(
    before: Model,
    after: Model,
    rows: npt.ArrayLike,
    settings: GbmapSettings | None = None,
    *,
    probabilities: bool = False,
    encoding: Encoding | None = None,
) -> Difference:
    """Map where `after` differs from `before`, two models or two snapshots of one model.

    The models are alike where no learner is active; the first learners show the largest differences (003, 5.1). No
    labels are needed: the rows may be any for which the comparison matters.

    Parameters
    ----------
    before, after
        Functions from rows float64[n, p] to one finite number for each row.
    rows
        float64[n, p], standardised if the weights are to be compared. With `encoding`, raw rows, such as those that a
        predictor takes, with NaN and codes.
    settings
        Settings of the fit; None selects the defaults. The loss is quadratic for all models.
    encoding
        Encoding of the rows for the map; None uses the rows as they are.
    probabilities
        Whether the models return probabilities. If so, the difference is that of their logits, clipped by `CLIP`.

    Raises
    ------
    InputError
        The encoded rows are not finite, or a probability is not from 0 to 1.
    ModelError
        A model does not return one finite number for each row.
    SettingsError
        The settings ask for another loss than the quadratic.
    """
    chosen = GbmapSettings() if settings is None else settings
    if chosen.loss != "quadratic":
        raise SettingsError([f"gbmap: expected the quadratic loss for a difference of two models, got {chosen.loss!r}"])
    table = as_matrix(rows, "rows") if encoding is None else np.asarray(rows, np.float64)
    matrix = table if encoding is None else encoding.encode(table)
    start, end = (logits(model) if probabilities else model for model in (before, after))
    initial = start if encoding is None else start_values(start, table, "the model before")
    fit = fit_map(matrix, start_values(end, table, "the model after"), replace(chosen, held_out=0.0), initial=initial)
    return Difference(fit.map, float(fit.losses[0]), fit.losses, fit.map.active(matrix).mean(axis=0))


def logits(model: Model) -> Model:
    """Return a model that gives log(p / (1 - p)) for the probability p of `model`, with p clipped by `CLIP`.

    Raises
    ------
    InputError
        The returned model raises it if a probability is not from 0 to 1.
    """

    def score(rows: Floats) -> Floats:
        p = np.asarray(model(rows), np.float64)
        if not ((p >= 0.0) & (p <= 1.0)).all():
            raise InputError("gbmap: expected probabilities from 0 to 1 of a model, got others; is it a regressor?")
        p = np.clip(p, CLIP, 1.0 - CLIP)
        return np.asarray(np.log(p) - np.log1p(-p))

    return score
