"""Linear forms of rows, and of rows with replaced features, whose terms are computed once.

`outer` float64[2, d] holds what all m forms first subtract from a feature and then divide it by. `inner` float64[m, 2,
d] holds the same for each form. A divisor of 0 makes the value 0. `weight`, `known` [m, d]: a form ignores a feature
that it does not know, like an absent one: its term is 0, which changes no sum. Terms are added in slot order, as River
adds those of a dict in its order, and then the intercept. `link` is one of the numbers below.
"""

import math
from typing import Final, NamedTuple

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.predictors.arrays import FlagMatrix, NumberCube, NumberMatrix, Numbers
from glasstream.models.predictors.predictor import Floats, Integers

IDENTITY: Final = 0
EXPONENTIAL: Final = 1
SIGMOID: Final = 2

_SIGMOID_END: Final = 30.0  # river.utils.math.sigmoid is 0 or 1 beyond


class Forms(NamedTuple):
    """The arrays of m linear forms over d slots."""

    outer: NumberMatrix
    inner: NumberCube
    weight: NumberMatrix
    known: FlagMatrix
    intercept: Numbers


@inlined
def _term(forms: Forms, m: int, j: int, x: float) -> float:
    outer, inner, weight, known, _ = forms
    if x != x or not known[m, j]:
        return 0.0
    x = (x - outer[0, j]) / outer[1, j] if outer[1, j] != 0.0 else 0.0
    x = (x - inner[m, 0, j]) / inner[m, 1, j] if inner[m, 1, j] != 0.0 else 0.0
    return float(x * weight[m, j])


@inlined
def linked(score: float, link: int) -> float:
    """Apply a link to a score."""
    if link == EXPONENTIAL:
        return math.exp(score)
    if link == SIGMOID:
        if score < -_SIGMOID_END:
            return 0.0
        if score > _SIGMOID_END:
            return 1.0
        return 1.0 / (1.0 + math.exp(-score))
    return score


@bare_kernel
def evaluate(forms: Forms, rows: Floats, link: int, scores: Floats) -> None:
    """Fill `scores` float64[n, m] with the values of the forms for `rows` float64[n, >= d]."""
    intercept = forms.intercept
    count, width = forms.weight.shape
    for i in range(rows.shape[0]):
        for m in range(count):
            dot = 0.0
            for j in range(width):
                dot += _term(forms, m, j, rows[i, j])
            scores[i, m] = linked(dot + intercept[m], link)


@bare_kernel
def terms(forms: Forms, rows: Floats, out: Floats) -> None:
    """Fill `out` float64[n, d, m] with what each feature adds to the forms for `rows` float64[n, >= d]."""
    count, width = forms.weight.shape
    for i in range(rows.shape[0]):
        for j in range(width):
            for m in range(count):
                out[i, j, m] = _term(forms, m, j, rows[i, j])


@bare_kernel
def evaluate_replaced(
    forms: Forms, rows: Floats, values: Floats, link: int, terms: Floats, row_scores: Floats, scores: Floats
) -> None:
    """Fill `row_scores` float64[n, m] and `scores` float64[n, r, w, m] for rows and variants of w >= d features.

    See `glasstream.explain.variants.replaced`. `terms` float64[d] is scratch space.
    """
    intercept = forms.intercept
    count, width = forms.weight.shape
    n, times, slots = values.shape
    for i in range(n):
        for m in range(count):
            dot = 0.0
            for j in range(width):
                terms[j] = _term(forms, m, j, rows[i, j])
                dot += terms[j]
            row_scores[i, m] = linked(dot + intercept[m], link)
            before = 0.0
            for j in range(width):
                for k in range(times):
                    dot = before + _term(forms, m, j, values[i, k, j])
                    for later in range(j + 1, width):
                        dot += terms[later]
                    scores[i, k, j, m] = linked(dot + intercept[m], link)
                before += terms[j]
            for k in range(times):
                for j in range(width, slots):
                    scores[i, k, j, m] = row_scores[i, m]


@bare_kernel
def evaluate_built_up(
    forms: Forms, rows: Floats, order: Integers, background: Floats, link: int, scratch: Floats, scores: Floats
) -> None:
    """Fill `scores` float64[n (d - 1) m, forms] for background rows that are built up, w >= d features wide.

    See `glasstream.explain.variants.built_up`. `scratch` is float64[2, d].
    """
    intercept = forms.intercept
    count, width = forms.weight.shape
    n, backgrounds, many, _ = background.shape
    steps = order.shape[1] - 1
    for i in range(n):
        for m in range(count):
            for j in range(width):
                scratch[0, j] = _term(forms, m, j, rows[i, j])
            for k in range(many):
                for step in range(steps):
                    if step == 0 or backgrounds > 1:
                        for j in range(width):
                            scratch[1, j] = _term(forms, m, j, background[i, step, k, j])
                        for added in range(step):
                            if order[i, added] < width:
                                scratch[1, order[i, added]] = scratch[0, order[i, added]]
                    if order[i, step] < width:
                        scratch[1, order[i, step]] = scratch[0, order[i, step]]
                    dot = 0.0
                    for j in range(width):
                        dot += scratch[1, j]
                    scores[(i * steps + step) * many + k, m] = linked(dot + intercept[m], link)
