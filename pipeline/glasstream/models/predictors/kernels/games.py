"""Games: the exact Shapley values of a model's predictions against background rows.

The value of a coalition of features is the mean answer of the model over the background rows, with the coalition's
features from the row (interventional values; Janzing, Minorics, Blöbaum, "Feature relevance quantification in
explainable AI: a causal problem", AISTATS 2020, equation 5). The Shapley values of a row add up to its answer minus the
mean answer for the background rows. A model whose answer is no sum over trees or features has none of these games.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from glasstream.models.predictors.arrays import Array, as_rows
from glasstream.models.predictors.kernels import bayes_games, leaf_games, leaf_pairs
from glasstream.models.predictors.kernels.bit_votes import BitVotes
from glasstream.models.predictors.kernels.leaf_sets import LeafSets, places
from glasstream.models.predictors.kernels.walk import Means
from glasstream.models.predictors.predictor import Floats, Integers
from glasstream_topics.attributions import Link
from glasstream_topics.methods import MOST_ROWS

IDENTITY: Final = "identity"
LOGIT: Final = "logit"
LOG: Final = "log"
SOFTMAX: Final = "softmax"
"""Relations of the scale on which Shapley values add up to the prediction: the prediction itself, its log odds, its
log, or scores whose softmax the probabilities are."""
CACHE_BYTES: Final = 64 << 20
"""Memory for weights that a game keeps, by default."""


class Shares(NamedTuple):
    """The Shapley values of n rows.

    Attributes
    ----------
    values
        float64[n, d]
    base
        float64[n]: the mean answer for the background rows.
    total
        float64[n]: the answer for the row; `base` and the sum of `values`, but for rounding.
    exact
        bool[n]: False for a row whose game is too large; its values mean nothing.
    """

    values: Floats
    base: Floats
    total: Floats
    exact: Array


class Couples(NamedTuple):
    """The interactions of pairs of features in n rows: their Shapley interaction indices.

    Attributes
    ----------
    values
        float64[n, d, d], each once: at [i, j, k] with j < k; all others are 0.
    exact
        bool[n]: False for a row whose game is too large; its values mean nothing.
    """

    values: Floats
    exact: Array


class Game(Protocol):
    """The game of a model and background rows."""

    link: Link
    """The relation of the values to the prediction."""

    def play(self, rows: Floats, outputs: Integers) -> Shares:
        """Return the Shapley values of `rows` float64[n, d].

        `outputs` int64[n] are indices of the predictor's classes, or 0 for a regression.
        """

    def pairs(self, rows: Floats, outputs: Integers) -> Couples:
        """Return the interactions of pairs in the same games."""


@runtime_checkable
class HasGame(Protocol):
    """A predictor with a game of its own."""

    def game(self, background: Floats, cache_bytes: int = CACHE_BYTES) -> Game | None:
        """Return the game with background rows float64[R, d]; None if it would not be additive, or is too large."""


class Answers(NamedTuple):
    """What the leaves of trees answer, on the scale on which the answers of all trees are added.

    Attributes
    ----------
    constant
        float64[B, c]: the answer of each bit of `LeafSets`; 0 for leaves whose answer depends on the row.
    varies
        bool[B]: whether it depends on the row.
    factor
        float64[B]: what the answer of such a leaf is multiplied with.
    tables
        Those of such leaves; None if there is none.
    """

    constant: Floats
    varies: Array
    factor: Floats
    tables: BitVotes | Means | None


class TreeGame:
    """The game of a model that adds the answers of trees.

    Parameters
    ----------
    sets, answers
        The trees.
    column, sign
        int64[k], float64[k]: each output of the model is a column of the answers, times 1 or -1, plus a constant. -1 is
        the column of an output that is always the same.
    link
        See `Game`.
    answer
        The outputs float64[n, k] for rows of at least the model's features.
    background
        float64[R, d], at least as wide as the model.
    cache_bytes
        Memory for weights.
    paths
        Those of the trees, for the background rows.
    """

    def __init__(
        self,
        sets: LeafSets,
        answers: Answers,
        column: Integers,
        sign: Floats,
        link: Link,
        answer: Callable[[Floats], Floats],
        background: Floats,
        cache_bytes: int,
        paths: leaf_games.Paths,
    ) -> None:
        self.link = link
        self._sets, self._answers = sets, answers
        self._column, self._sign = column, sign
        self._answer = answer
        self._background = background
        self._base = answer(background).mean(axis=0)
        self._paths = paths
        real = np.zeros(sets.leaf.size, np.bool_)
        for begin, leaves in zip(sets.bit_start.tolist(), sets.leaves.tolist(), strict=False):
            real[begin : begin + leaves] = True
        self._constant = _bits(real & ~answers.varies & (answers.constant.T != 0.0))
        self._varying = _bits((real & answers.varies)[np.newaxis])
        self._bayes = (
            bayes_games.bayes_rows(sets, paths, answers.tables, background)
            if isinstance(answers.tables, BitVotes)
            else None
        )
        self._cache_bytes = cache_bytes
        self._couple: Floats | None = None
        """The weights of interactions; None before the first."""
        self._idle: list[leaf_games.Weights] = []  # at most one; it is not here while a block is explained with it

    @classmethod
    def of(
        cls,
        sets: LeafSets | None,
        answers: Callable[[LeafSets], "Answers | None"],
        columns: tuple[Integers, Floats],
        link: Link,
        answer: Callable[[Floats], Floats],
        background: Floats,
        cache_bytes: int,
    ) -> Self | None:
        """Return the game; None if the answers of the trees are not added, or the game would be too large."""
        made = None if sets is None or not 1 <= len(background) <= MOST_ROWS else answers(sets)
        if sets is None or made is None:
            return None
        background = as_rows(background, sets.cut_start.size - 1)
        paths = leaf_games.paths(sets, _places(sets, background))
        if paths is None:
            return None
        return cls(sets, made, *columns, link, answer, background, cache_bytes, paths)

    def play(self, rows: Floats, outputs: Integers) -> Shares:
        """Return the Shapley values; see `Game`."""
        width = rows.shape[1]
        rows = as_rows(rows, self._sets.cut_start.size - 1)
        row_places, column = _places(self._sets, rows), self._column[outputs]
        values, exact = np.zeros(rows.shape), np.ones(len(rows), np.bool_)
        weights = self._weights()
        found = leaf_games.reached(self._sets)
        leaf_games.add_constant(
            self._sets,
            self._paths,
            weights,
            self._constant,
            self._answers.constant,
            column,
            row_places,
            found,
            values,
        )
        self._idle[:] = [weights]
        if self._answers.tables is not None:
            self._add_varying(rows, column, row_places, found, values, exact)
        values *= self._sign[outputs, np.newaxis]
        total = self._answer(rows)[np.arange(len(rows)), outputs]
        return Shares(values[:, :width], self._base[outputs], total, exact)

    def _weights(self) -> leaf_games.Weights:
        try:
            return self._idle.pop()
        except IndexError:  # none yet, or another block is explained with them
            return leaf_games.weights(self._paths, self._cache_bytes)

    def pairs(self, rows: Floats, outputs: Integers) -> Couples:
        """Return the interactions of pairs; see `Game`."""
        width = rows.shape[1]
        if self._couple is None:
            self._couple = leaf_pairs.couples()
        sets, paths, couple = self._sets, self._paths, self._couple
        rows = as_rows(rows, sets.cut_start.size - 1)
        row_places, column = _places(sets, rows), self._column[outputs]
        values, exact = np.zeros((*rows.shape, rows.shape[1])), np.ones(len(rows), np.bool_)
        found, (constant, _, factor, tables) = leaf_games.reached(sets), self._answers
        leaf_pairs.add_constant_pairs(sets, paths, self._constant, constant, column, row_places, couple, found, values)
        if isinstance(tables, BitVotes):
            if self._bayes is None:
                exact[:] = False
            else:
                room, known, of = bayes_games.free_room(tables), self._bayes, self._varying
                leaf_pairs.add_bayes_pairs(
                    sets, paths, of, tables, known, factor, rows, column, row_places, couple, room, found, values, exact
                )
        elif tables is not None:
            given, side, of = (rows, self._background), np.zeros(rows.shape[1], np.int8), self._varying
            leaf_pairs.add_linear_pairs(sets, paths, of, tables, factor, given, row_places, couple, side, found, values)
        values *= self._sign[outputs, np.newaxis, np.newaxis]
        return Couples(_widened_pairs(values, width), exact)

    def _add_varying(
        self,
        rows: Floats,
        column: Integers,
        row_places: Array,
        found: leaf_games.Reached,
        values: Floats,
        exact: Array,
    ) -> None:
        sets, paths, of, coalition = self._sets, self._paths, self._varying, leaf_games.coalitions()
        _, _, factor, tables = self._answers
        if isinstance(tables, BitVotes):
            if self._bayes is None:
                exact[:] = False
                return
            room, known = bayes_games.free_room(tables), self._bayes
            bayes_games.add_bayes(
                sets, paths, of, tables, known, factor, rows, column, row_places, coalition, room, found, values, exact
            )
        elif tables is not None:
            given, side = (rows, self._background), np.zeros(rows.shape[1], np.int8)
            leaf_games.add_linear(sets, paths, of, tables, factor, given, row_places, coalition, side, found, values)


def _places(sets: LeafSets, rows: Floats) -> Array:
    return np.asarray(places(sets.cut_start, sets.cut, rows))


def _bits(leaves: Array) -> Array:
    """Return flags bool[c, B] as words uint64[c, B / 64]."""
    return np.packbits(np.ascontiguousarray(leaves), axis=1, bitorder="little").view("<u8").astype(np.uint64)


class AdditiveGame:
    """The game of a model whose scores are sums over features, each of a function of the feature alone.

    Parameters
    ----------
    terms
        float64[n, d, k] for rows: what each feature adds to each score.
    intercept
        float64[k]: what is added to each score.
    link
        See `Game`.
    background
        float64[R, d], at least as wide as the model.
    """

    def __init__(self, terms: Callable[[Floats], Floats], intercept: Floats, link: Link, background: Floats) -> None:
        self.link = link
        self._terms, self._intercept = terms, intercept
        self._mean = terms(background).mean(axis=0)
        self._base = intercept + self._mean.sum(axis=0)

    def play(self, rows: Floats, outputs: Integers) -> Shares:
        """Return the Shapley values; see `Game`."""
        terms = self._terms(rows)[np.arange(len(rows)), :, outputs]
        total = self._intercept[outputs] + terms.sum(axis=1)
        values = terms - self._mean.T[outputs]
        return Shares(_widened(values, rows.shape[1]), self._base[outputs], total, np.ones(len(rows), np.bool_))

    def pairs(self, rows: Floats, outputs: Integers) -> Couples:
        """Return the interactions of pairs: features of a sum have none."""
        return Couples(np.zeros((*rows.shape, rows.shape[1])), np.ones(len(rows), np.bool_))


class MappedGame:
    """The game of a model behind transformations of single features.

    Parameters
    ----------
    inner
        The game of the transformed rows.
    transform
        The columns float64[n, w] of rows.
    source
        int64[w]: the feature that each column is made of; -1 for a constant.
    features
        Number of features of the original rows.
    """

    def __init__(self, inner: Game, transform: Callable[[Floats], Floats], source: Integers, features: int) -> None:
        self.link = inner.link
        self._inner, self._transform, self._source, self._features = inner, transform, source, features

    def play(self, rows: Floats, outputs: Integers) -> Shares:
        """Return the Shapley values; see `Game`."""
        made = self._inner.play(self._transform(rows), outputs)
        values = np.zeros((len(rows), self._features))
        for column, feature in enumerate(self._source.tolist()):
            if feature >= 0:
                values[:, feature] += made.values[:, column]
        return made._replace(values=_widened(values, rows.shape[1]))

    def pairs(self, rows: Floats, outputs: Integers) -> Couples:
        """Return the interactions of pairs; see `Game`. Trees have one column for each feature."""
        values = np.zeros((len(rows), self._features, self._features))
        if isinstance(self._inner, AdditiveGame):  # which can have very many columns
            return Couples(_widened_pairs(values, rows.shape[1]), np.ones(len(rows), np.bool_))
        made = self._inner.pairs(self._transform(rows), outputs)
        for one, first in enumerate(self._source.tolist()):
            for other, second in enumerate(self._source.tolist()[:one]):
                if first >= 0 and second >= 0 and first != second:
                    low, high = min(first, second), max(first, second)
                    values[:, low, high] += made.values[:, other, one]
        return made._replace(values=_widened_pairs(values, rows.shape[1]))


def _widened(values: Floats, width: int) -> Floats:
    """Return Shapley values for rows of `width` features: those that the model does not know get 0."""
    known = values.shape[1]
    if known >= width:
        return values[:, :width]
    return np.pad(values, ((0, 0), (0, width - known)))


def _widened_pairs(values: Floats, width: int) -> Floats:
    """Return interactions for rows of `width` features in the same way."""
    known, more = min(values.shape[1], width), max(0, width - values.shape[1])
    return np.pad(values[:, :known, :known], ((0, 0), (0, more), (0, more)))
