"""Shapley values of any model, from its answers for mixtures of a row and background rows.

Up to ten features in which a row differs from a background row, all mixtures are evaluated, and the values are exact.
Beyond that, features are put into each background row in random orders (Castro, Gómez, Tejada, "Polynomial calculation
of the Shapley value based on sampling", Computers & Operations Research 36, 2009), each followed by its reverse
(Mitchell, Cooper, Frank, Holmes, "Sampling permutations for Shapley value estimation", JMLR 23, 2022). Each background
row gets two such pairs. The values add up as the exact ones do, and the differences of the two pairs give the error.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, below
from glasstream.base.jit import kernel
from glasstream.models.predictors.kernels.leaf_games import MOST_FREE, coalitions
from glasstream.models.predictors.kernels.leaf_pairs import couples
from glasstream.models.predictors.predictor import Floats, Integers, Predictor

_ORDERS = 4
"""Number of orders for each background row: two, and their reverses."""
_CHUNK_VALUES = 1 << 20
"""Numbers in one batch of mixtures (8 MiB)."""
_PURPOSE = int(Purpose.ATTRIBUTIONS)


class Estimated(NamedTuple):
    """The Shapley values of a row.

    Attributes
    ----------
    values
        float64[d]
    error
        float64[d]: standard errors; None if the values are exact.
    """

    values: Floats
    error: Floats | None


def from_mixtures(
    predictor: Predictor, row: Floats, background: Floats, output: int, key: NDArray[np.uint64], number: int
) -> Estimated:
    """Return the Shapley values of a row.

    Parameters
    ----------
    predictor
        The model.
    row, background
        float64[d], float64[R, d]
    output
        Index of the class whose probability is explained; 0 for a regression.
    key, number
        Key of the stream's draws, and the number of the row in it.
    """
    differs = ~((row == background) | (np.isnan(row) & np.isnan(background)))
    many = differs.sum(axis=1)
    if many.max(initial=0) <= MOST_FREE:
        return Estimated(_enumerated(predictor, row, background, output, differs, many), None)
    return _sampled(predictor, row, background, output, key, number)


def pairs_from_mixtures(predictor: Predictor, row: Floats, background: Floats, output: int) -> Floats | None:
    """Return float64[d, d] the interactions of pairs, each once, at [j, k] with j < k; None if they are too many.

    Parameters are those of `from_mixtures`. All mixtures are evaluated.
    """
    differs = ~((row == background) | (np.isnan(row) & np.isnan(background)))
    many = differs.sum(axis=1)
    if many.max(initial=0) > MOST_FREE:
        return None
    pairs = np.zeros((row.size, row.size))
    for part, answers in _answers(predictor, row, background, output, differs, many):
        _add_pairs(answers, differs[part], many[part], couples(), pairs)
    return pairs / len(background)


def _answers(
    predictor: Predictor, row: Floats, background: Floats, output: int, differs: NDArray[np.bool_], many: Integers
) -> Iterator[tuple[slice, Floats]]:
    """Yield the answers for all mixtures of the row with some background rows at a time."""
    step = max(1, _CHUNK_VALUES // max(1, row.size << int(many.max(initial=0))))
    for begin in range(0, len(background), step):
        part = slice(begin, begin + step)
        mixtures = _mix(row, background[part], differs[part], many[part])
        yield part, np.ascontiguousarray(predictor.evaluate(mixtures).values[:, output])


def _enumerated(
    predictor: Predictor, row: Floats, background: Floats, output: int, differs: NDArray[np.bool_], many: Integers
) -> Floats:
    values = np.zeros(row.size)
    for part, answers in _answers(predictor, row, background, output, differs, many):
        _add_enumerated(answers, differs[part], many[part], coalitions(), values)
    return values / len(background)


@kernel
def _mix(row, background, differs, many):  # type: ignore[no-untyped-def]
    """Return all mixtures: for each background row, by the subset of the differing features that come from the row."""
    total = 0
    for b in range(many.size):
        total += 1 << many[b]
    mixtures = np.empty((total, row.size))
    at = 0
    for b in range(many.size):
        for subset in range(1 << many[b]):
            bit = 0
            for j in range(row.size):
                mixtures[at, j] = background[b, j]
                if differs[b, j]:
                    if subset >> bit & 1:
                        mixtures[at, j] = row[j]
                    bit += 1
            at += 1
    return mixtures


@kernel
def _add_enumerated(answers, differs, many, coalition, values):  # type: ignore[no-untyped-def]
    first = 0
    for b in range(many.size):
        m = many[b]
        bit = 0
        for j in range(values.size):
            if not differs[b, j]:
                continue
            own = 1 << bit
            bit += 1
            for subset in range(1 << m):
                if subset & own:
                    continue
                size = 0
                for other in range(m):
                    size += subset >> other & 1
                values[j] += (answers[first + (subset | own)] - answers[first + subset]) * coalition[m, size + 1]
        first += 1 << m


@kernel
def _add_pairs(answers, differs, many, couple, pairs):  # type: ignore[no-untyped-def]
    first = 0
    slots = np.empty(MOST_FREE, np.int64)
    for b in range(many.size):
        m = 0
        for j in range(pairs.shape[0]):
            if differs[b, j]:
                slots[m] = j
                m += 1
        for subset in range(1 << m):
            size = 0
            for one in range(m):
                size += subset >> one & 1
            for one in range(m):
                for other in range(one):
                    has = (subset >> one & 1) + (subset >> other & 1)
                    weight = -couple[m, size + 1] if has == 1 else couple[m, size + 2 - has]
                    pairs[slots[other], slots[one]] += answers[first + subset] * weight
        first += 1 << m


def _sampled(
    predictor: Predictor, row: Floats, background: Floats, output: int, key: NDArray[np.uint64], number: int
) -> Estimated:
    width, rows = row.size, len(background)
    values, error = np.zeros(width), np.zeros(width)
    step = max(1, _CHUNK_VALUES // (_ORDERS * (width + 1) * width))
    for begin in range(0, rows, step):
        part = background[begin : begin + step]
        orders = _orders(key, number, begin, len(part), width)
        answers = np.ascontiguousarray(predictor.evaluate(_walks(row, part, orders)).values[:, output])
        _add_walks(answers, orders, values, error)
    return Estimated(values / rows, np.sqrt(error) / rows)


@kernel
def _orders(key, number, first, rows, width):  # type: ignore[no-untyped-def]
    """Return int64[rows, 4, d]: orders of the features for background rows from `first` on, and their reverses."""
    orders = np.empty((rows, _ORDERS, width), np.int64)
    for b in range(rows):
        for k in range(0, _ORDERS, 2):
            own = orders[b, k]
            for i in range(width):
                own[i] = i
            for i in range(width - 1, 0, -1):
                j = below(i + 1, key, number, _PURPOSE, ((first + b) * _ORDERS + k) * width + i)
                own[i], own[j] = own[j], own[i]
            for i in range(width):
                orders[b, k + 1, i] = own[width - 1 - i]
    return orders


@kernel
def _walks(row, background, orders):  # type: ignore[no-untyped-def]
    """Return the mixtures on the way from each background row to the row, for all of its orders."""
    rows, many, width = orders.shape
    mixtures = np.empty((rows * many * (width + 1), width))
    at = 0
    for b in range(rows):
        for k in range(many):
            mixtures[at] = background[b]
            for i in range(width):
                mixtures[at + 1] = mixtures[at]
                mixtures[at + 1, orders[b, k, i]] = row[orders[b, k, i]]
                at += 1
            at += 1
    return mixtures


@kernel
def _add_walks(answers, orders, values, error):  # type: ignore[no-untyped-def]
    """Add the mean of each background row's orders to `values`, and its squared standard error to `error`."""
    rows, many, width = orders.shape
    pairs = np.empty((many // 2, width))
    at = 0
    for b in range(rows):
        pairs[:] = 0.0
        for k in range(many):
            for i in range(width):
                pairs[k // 2, orders[b, k, i]] += (answers[at + 1] - answers[at]) / 2.0
                at += 1
            at += 1
        for j in range(width):
            one, two = pairs[0, j], pairs[1, j]
            values[j] += (one + two) / 2.0
            error[j] += (one - two) * (one - two) / 4.0


def warm_up() -> None:
    """Compile the kernels of estimates, or load them: made-up rows are too narrow to need any."""
    orders = _orders(np.zeros(2, np.uint64), 0, 0, 1, 2)
    walks = _walks(np.ones(2), np.zeros((1, 2)), orders)
    _add_walks(walks[:, 0].copy(), orders, np.zeros(2), np.zeros(2))
