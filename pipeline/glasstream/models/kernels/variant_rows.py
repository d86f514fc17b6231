"""Rows and variants in the form that kernels take: sealed, and at least as wide as the model."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from glasstream.models.contract.arrays import Array, as_rows, sealed
from glasstream.models.contract.predictor import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class ReplacedRows:
    """The arguments of `glasstream.explain.variants.replaced`."""

    rows: Floats
    """float64[n, w]"""
    values: Floats
    """float64[n, r, w]"""
    flat: Floats
    """float64[n r, w]: the values as rows."""
    width: int
    """Number of requested features among the w. The model knows the features beyond them, which are absent."""

    @classmethod
    def of(cls, rows: Floats, values: Floats, known: int) -> Self:
        """Return the arguments for a model of `known` features."""
        n, times, width = values.shape
        flat = as_rows(np.reshape(values, (n * times, width)), known)
        return cls(as_rows(rows, known), flat.reshape(n, times, flat.shape[1]), flat, width)

    def asked(self, scores: Floats) -> Floats:
        """Return the requested ones of the scores float64[n, r, w, c] of all variants, as float64[n r d, c]."""
        n, times, _, classes = scores.shape
        return scores[:, :, : self.width].reshape(n * times * self.width, classes)


@dataclass(frozen=True, slots=True, eq=False)
class BuiltUpRows:
    """The arguments of `glasstream.explain.variants.built_up`."""

    rows: Floats
    """float64[n, w]"""
    order: Array
    """int64[n, d]: w > d if the model knows features that no row has."""
    background: Floats
    """float64[n, s, m, w]"""
    flat: Floats
    """float64[n s m, w]: the background as rows."""

    @classmethod
    def of(cls, rows: Floats, order: Integers, background: Floats, known: int) -> Self:
        """Return the arguments for a model of `known` features."""
        *counts, width = background.shape
        flat = as_rows(np.reshape(background, (int(np.prod(counts)), width)), known)
        return cls(as_rows(rows, known), sealed(order, np.int64), flat.reshape(*counts, flat.shape[1]), flat)

    @property
    def variants(self) -> int:
        """Number of variants, n (d - 1) m."""
        n, width = self.order.shape
        return int(n * max(width - 1, 0) * self.background.shape[2])
