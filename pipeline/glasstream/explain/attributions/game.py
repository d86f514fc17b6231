"""Shapley values of a model's predictions: by the model's own game if it has one, else from mixtures of rows."""

from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.explain.attributions.mixtures import from_mixtures, pairs_from_mixtures
from glasstream.models.predictors.kernels.games import CACHE_BYTES, IDENTITY, Game, HasGame, Shares
from glasstream.models.predictors.predictor import Floats, Integers, Predictor
from glasstream_topics.attributions import Link

Scale = Literal["additive", "prediction"]
ADDITIVE: Final = "additive"
_ROUNDING: Final = 1e-12
MOST_WIDE: Final = 1_000
"""Largest number of features of a row whose interactions are computed: there is a number for each pair."""


class Attributed(NamedTuple):
    """Why n rows were predicted as they were.

    Attributes
    ----------
    values
        float64[n, d]: the contribution of each feature.
    error
        float64[n, d]: standard errors; 0 where a value is exact.
    base
        float64[n]: the mean answer for the background rows.
    total
        float64[n]: the answer for the row, which `base` and the values add up to.
    link
        What `total` is to the prediction: one of `glasstream_topics.attributions.LINKS`.
    """

    values: Floats
    error: Floats
    base: Floats
    total: Floats
    link: Link

    @property
    def residual(self) -> Floats:
        """float64[n]: see the function `residual`."""
        return residual(self.values, self.base, self.total)


def residual(values: Floats, base: Floats, total: Floats) -> Floats:
    """Return by how much `base` and the sum of `values` miss `total` in each row, relative to what is added."""
    size = np.abs(base) + np.abs(total) + np.abs(values).sum(axis=1)
    return np.asarray(np.abs(base + values.sum(axis=1) - total) / np.maximum(1.0, size))


class Attributor:
    """A model with background rows, which explains predictions.

    Parameters
    ----------
    predictor
        The model.
    background
        float64[R, d] rows, R >= 1.
    scale
        ``prediction`` explains probabilities and values as they are. ``additive`` explains the scale on which the model
        adds, if it has one: log odds for a logistic regression.
    key
        Key of the draws.
    cache_bytes
        Memory for weights of trees.
    """

    def __init__(
        self,
        predictor: Predictor,
        background: Floats,
        scale: Scale = ADDITIVE,
        *,
        key: NDArray[np.uint64],
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._predictor, self._background, self._key = predictor, background, key
        game: Game | None = predictor.game(background, cache_bytes) if isinstance(predictor, HasGame) else None
        self._least: float | None = None
        """The size of an interaction that rounding alone can cause; None until one is needed."""
        self._game = None if game is not None and scale != ADDITIVE and game.link != IDENTITY else game

    @property
    def link(self) -> Link:
        """The relation of the explained scale to the prediction: one of `glasstream_topics.attributions.LINKS`."""
        return IDENTITY if self._game is None else self._game.link

    def pairs(self, row: Floats, output: int) -> Floats | None:
        """Return the Shapley interaction index of each pair of features.

        Parameters
        ----------
        row
            float64[d]
        output
            See `explain`.

        Returns
        -------
        float64[d, d], each pair once, at [j, k] with j < k; all others are 0. None if they cannot be computed exactly,
        or d is larger than `MOST_WIDE`.
        """
        if row.size > MOST_WIDE:
            return None
        if self._game is not None:
            made = self._game.pairs(row[np.newaxis], np.array([output]))
            if made.exact[0]:
                return np.asarray(made.values[0])
        return pairs_from_mixtures(self._predictor, row, self._background, output)

    def largest_pairs(self, row: Floats, output: int, most: int) -> list[tuple[int, int, float]]:
        """Return the pairs with the largest interactions, at most `most`: two features and the index of each.

        Interactions within the rounding error count as 0. Pairs without an interaction are left out.
        """
        pairs = self.pairs(row, output)
        if pairs is None:
            return []
        if self._least is None:
            answers = self._predictor.evaluate(self._background).values
            self._least = _ROUNDING * float(np.abs(answers).max(initial=0.0))
        sizes = np.abs(pairs)
        order = np.argsort(-sizes, axis=None, kind="stable")[:most]
        places = np.column_stack(np.unravel_index(order, pairs.shape)).tolist()
        least = max(self._least, _ROUNDING * float(sizes.max(initial=0.0)))
        return [(one, other, float(pairs[one, other])) for one, other in places if sizes[one, other] > least]

    def explain(self, rows: Floats, outputs: Integers, numbers: Integers) -> Attributed:
        """Explain predictions.

        Parameters
        ----------
        rows
            float64[n, d], NaN if a feature is absent.
        outputs
            int64[n]: for each row the class whose probability is explained, as its index; 0 for a regression.
        numbers
            int64[n]: the number of each row in the stream, which keys its draws.
        """
        count = len(rows)
        error = np.zeros(rows.shape)
        if self._game is not None:
            shares = self._game.play(rows, outputs)
            open_rows = np.flatnonzero(~shares.exact)
        else:
            base = self._predictor.evaluate(self._background).values.mean(axis=0)[outputs]
            total = self._predictor.evaluate(rows).values[np.arange(count), outputs]
            shares = Shares(np.zeros(rows.shape), base, total, np.zeros(count, np.bool_))
            open_rows = np.arange(count)
        for row in open_rows.tolist():
            made = from_mixtures(
                self._predictor, rows[row], self._background, int(outputs[row]), self._key, int(numbers[row])
            )
            shares.values[row] = made.values
            if made.error is not None:
                error[row] = made.error
        return Attributed(shares.values, error, shares.base, shares.total, self.link)
