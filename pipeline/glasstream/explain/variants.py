"""Evaluate a model on rows in which some features are replaced. Every method consists of such evaluations.

Two kinds of evaluation cover the papers:

*replaced*: one feature of a row at a time takes another value (iPFI: that of a background row; iPDP: a grid point);
*built up*: the features of a row are put into background rows one after the other (iSAGE: along a permutation).

A predictor that can evaluate variants faster than row by row has a method of the same name (see `SharesPaths`). Its
result equals that of `evaluate` on the written-out rows, to the last bit.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import kernel
from glasstream.models.predictors.predictor import Output, Predictor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_CHUNK_VALUES = 1 << 20
"""Numbers in one batch of written-out rows (8 MiB): many wide rows are evaluated in pieces."""


@runtime_checkable
class SharesPaths(Protocol):
    """A predictor whose variants of a row share work with the row. Methods return None if that would not pay."""

    def replaced(self, rows: Floats, values: Floats) -> tuple[Output, Output] | None:
        """Like the function `replaced`."""

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Output | None:
        """Like the function `built_up`."""


def replaced(predictor: Predictor, rows: Floats, values: Floats) -> tuple[Output, Output]:
    """Evaluate rows, and each row with one feature at a time replaced.

    Parameters
    ----------
    predictor
        The model.
    rows
        (n, d), NaN if a feature is absent.
    values
        (n, r, d): at [i, k, j] the k-th replacement of feature j in row i; NaN removes the feature.

    Returns
    -------
    The predictions for the n rows, and for the n·r·d variants in the order [i, k, j].
    """
    said = predictor.replaced(rows, values) if isinstance(predictor, SharesPaths) else None
    return written_out_replaced(predictor, rows, values) if said is None else said


def built_up(predictor: Predictor, rows: Floats, order: Integers, background: Floats) -> Output:
    """Evaluate background rows into which the features of a row are put one after the other.

    Parameters
    ----------
    predictor
        The model.
    rows
        (n, d), NaN if a feature is absent.
    order
        (n, d) a permutation of the d features for each row.
    background
        (n, s, m, d) with s = 1 or d - 1: m background rows for each row, or m for each step of it.

    Returns
    -------
    The predictions for the n·(d-1)·m variants in the order [i, step, k]. At step 0, 1, ... the first one, two, ...
    features of `order[i]` come from row i and the others from its k-th background row (of that step). The last step,
    with all features, is the row itself and is not included.
    """
    said = predictor.built_up(rows, order, background) if isinstance(predictor, SharesPaths) else None
    return written_out_built_up(predictor, rows, order, background) if said is None else said


def written_out_replaced(predictor: Predictor, rows: Floats, values: Floats) -> tuple[Output, Output]:
    """`replaced` with every variant written out as a row; variants that equal their row are not evaluated again."""
    count, n, width = values.shape
    step = max(1, _CHUNK_VALUES // max(1, width * (1 + n * width)))
    rows_said, variants_said = [], []
    for begin in range(0, max(count, 1), step):
        part = slice(begin, min(begin + step, count))
        batch, place = _write_replaced(rows[part], values[part])
        said = predictor.evaluate(batch)
        own = len(rows[part])
        rows_said.append(Output(said.values[:own], said.labels[:own]))
        variants_said.append(Output(said.values[place], said.labels[place]))
    return _joined(rows_said), _joined(variants_said)


def written_out_built_up(predictor: Predictor, rows: Floats, order: Integers, background: Floats) -> Output:
    """`built_up` with every variant written out as a row."""
    count, _, m, width = background.shape
    step = max(1, _CHUNK_VALUES // max(1, width * width * m))
    said = []
    for begin in range(0, max(count, 1), step):
        part = slice(begin, min(begin + step, count))
        said.append(predictor.evaluate(_write_built_up(rows[part], order[part], background[part])))
    return _joined(said)


def _joined(parts: list[Output]) -> Output:
    if len(parts) == 1:
        return parts[0]
    return Output(np.concatenate([part.values for part in parts]), np.concatenate([part.labels for part in parts]))


@kernel
def same(a, b):  # type: ignore[no-untyped-def]
    return a == b or (np.isnan(a) and np.isnan(b))


@kernel
def _write_replaced(rows, values):  # type: ignore[no-untyped-def]
    """Return the rows and the variants that differ from them, and for each variant the index of its prediction."""
    count, n, width = values.shape
    total = count
    for i in range(count):
        for k in range(n):
            for j in range(width):
                if not same(values[i, k, j], rows[i, j]):
                    total += 1
    batch = np.empty((total, width))
    place = np.empty(count * n * width, np.int64)
    at = count
    variant = 0
    for i in range(count):
        batch[i] = rows[i]
        for k in range(n):
            for j in range(width):
                if same(values[i, k, j], rows[i, j]):
                    place[variant] = i
                else:
                    batch[at] = rows[i]
                    batch[at, j] = values[i, k, j]
                    place[variant] = at
                    at += 1
                variant += 1
    return batch, place


@kernel
def _write_built_up(rows, order, background):  # type: ignore[no-untyped-def]
    count, steps, m, width = background.shape
    batch = np.empty((count * max(width - 1, 0) * m, width))
    at = 0
    for i in range(count):
        for step in range(width - 1):
            for k in range(m):
                batch[at] = background[i, step if steps > 1 else 0, k]
                for added in range(step + 1):
                    batch[at, order[i, added]] = rows[i, order[i, added]]
                at += 1
    return batch
