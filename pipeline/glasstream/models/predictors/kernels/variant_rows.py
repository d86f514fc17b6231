"""Rows and variants in the form that kernels take: sealed, and at least as wide as the model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import Array, as_rows, sealed
from glasstream.models.predictors.kernels.leaf_sets import LeafSets, places
from glasstream.models.predictors.predictor import Floats, Integers

CHUNK = 1 << 12
"""Number of variants whose scores are added up tree by tree before the next ones: they fit into a first-level cache."""


class ReplacedRows(NamedTuple):
    """The arguments of `glasstream.explain.variants.replaced`, and their places in the sets of trees.

    Attributes
    ----------
    rows, values
        float64[n, w], float64[n, r, w]
    row_places, places
        uint32[n, known], uint32[n r, known]: the places of the rows and of the values.
    """

    rows: Floats
    values: Floats
    row_places: Array
    places: Array


class BuiltUpRows(NamedTuple):
    """The arguments of `glasstream.explain.variants.built_up`, and their places in the sets of trees.

    Attributes
    ----------
    rows, order, background
        float64[n, w], int64[n, d], float64[n, s, m, w]: w > d if the model knows features that no row has.
    row_places, places
        uint32[n, known], uint32[n s m, known]: the places of the rows and of the background rows.
    """

    rows: Floats
    order: Integers
    background: Floats
    row_places: Array
    places: Array


@kernel
def replaced_part(given: ReplacedRows, begin: int, end: int) -> ReplacedRows:
    """Return the rows `begin` to `end`, and their variants."""
    rows, values, row_places, places = given
    times = values.shape[1]
    part = slice(begin, end)
    return ReplacedRows(rows[part], values[part], row_places[part], places[begin * times : end * times])


@kernel
def built_up_part(given: BuiltUpRows, begin: int, end: int) -> BuiltUpRows:
    """Return the rows `begin` to `end`, and their variants."""
    rows, order, background, row_places, places = given
    each = background.shape[1] * background.shape[2]
    background_places = places[begin * each : end * each]
    return BuiltUpRows(
        rows[begin:end], order[begin:end], background[begin:end], row_places[begin:end], background_places
    )


def sealed_variants(rows: Floats, values: Floats, known: int) -> tuple[Floats, Floats, Floats]:
    """Return rows and values (or background rows) for a model of `known` features, and the values as a matrix."""
    *counts, width = values.shape
    flat = as_rows(np.reshape(values, (int(np.prod(counts)), width)), known)
    return as_rows(rows, known), flat.reshape(*counts, flat.shape[1]), flat


def requested(scores: Floats, width: int) -> Floats:
    """Return the scores of the first `width` features from float64[n, r, w, c], as float64[n r width, c].

    The model knows the features beyond them, which are absent.
    """
    n, times, _, classes = scores.shape
    return scores[:, :, :width].reshape(n * times * width, classes)


@dataclass(frozen=True, slots=True, eq=False)
class TreeVariants:
    """The tables of a predictor of trees, which give the scores of its variants.

    Attributes
    ----------
    sets, tables
        The trees.
    fill_replaced, fill_built_up
        Kernels that take both, ReplacedRows or BuiltUpRows, and the scores to fill: those of the rows, if replaced, and
        those of the variants, float64[., c], zero before.
    classes
        Number c of scores of a row.
    """

    sets: LeafSets
    tables: tuple[Any, ...]
    fill_replaced: Callable[..., None]
    fill_built_up: Callable[..., None]
    classes: int

    def _places(self, rows: Floats) -> Array:
        return np.asarray(places(self.sets.cut_start, self.sets.cut, rows))

    def replaced(self, rows: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Return the scores of rows and variants, float64[n, c] and float64[n r d, c]; see `variants.replaced`."""
        known, width = self.sets.cut_start.size - 1, values.shape[2]
        rows, values, flat = sealed_variants(rows, values, known)
        given = ReplacedRows(rows, values, self._places(rows), self._places(flat))
        row_scores, scores = np.zeros((len(rows), self.classes)), np.zeros((*values.shape, self.classes))
        self.fill_replaced(self.sets, *self.tables, given, row_scores, scores.reshape(values.size, self.classes))
        scores[:, :, known:] = row_scores[:, np.newaxis, np.newaxis]
        return row_scores, requested(scores, width)

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Floats:
        """Return the scores of variants, float64[n (d - 1) m, c]; see `variants.built_up`."""
        rows, background, flat = sealed_variants(rows, background, self.sets.cut_start.size - 1)
        order = sealed(order, np.int64)
        given = BuiltUpRows(rows, order, background, self._places(rows), self._places(flat))
        scores = np.zeros((built_up_count(order, background), self.classes))
        self.fill_built_up(self.sets, *self.tables, given, scores)
        return scores


def built_up_count(order: Integers, background: Floats) -> int:
    """Return the number of variants, n (d - 1) m."""
    n, width = order.shape
    return int(n * max(width - 1, 0) * background.shape[2])
