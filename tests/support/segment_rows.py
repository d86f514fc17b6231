"""Rows of five made-up features, and which of them fulfil conditions."""

import numpy as np
from numpy.typing import NDArray

from glasstream_topics.incidents import Condition

Floats = NDArray[np.float64]
NAMES, KINDS = ["a", "b", "text", "flag", "noise"], [0, 0, 2, 1, 0]
TEXTS = {2: {code: f"t{code}" for code in range(9)}}


def inputs_of(draws: np.random.Generator, rows: int) -> Floats:
    columns = [draws.normal(size=rows), draws.uniform(size=rows), (draws.geometric(0.4, rows) - 1) % 9]
    columns += [draws.random(rows) < 0.4, draws.integers(0, 5, rows)]
    inputs = np.column_stack(columns).astype(np.float64)
    inputs[draws.random((rows, 5)) < 0.03] = np.nan
    return inputs


def holds(conditions: list[Condition], inputs: Floats) -> NDArray[np.bool_]:
    """Return which rows fulfil conditions, as a consumer would evaluate them."""
    mask = np.ones(len(inputs), np.bool_)
    for one in conditions:
        column = inputs[:, NAMES.index(one.feature)]
        if one.op == "missing":
            mask &= np.isnan(column)
        elif one.op == "in":
            codes = [float(str(value)[1:]) if isinstance(value, str) else float(value) for value in one.values]
            mask &= np.isin(column, codes)
        else:
            (value,) = one.values
            mask &= column >= value if one.op == ">=" else column < value  # type: ignore[operator]
    return mask
