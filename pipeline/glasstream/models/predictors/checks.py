"""Checks that any predictor must pass, also a user's own."""

import numpy as np

from glasstream.base.errors import ModelError
from glasstream.models.predictors.predictor import NO_LABEL, REGRESSION, Floats, Output, Predictor


def check_splits(predictor: Predictor, rows: Floats, *, splits: int = 8, seed: int = 0) -> Output:
    """Check that the results of `predictor` for a row do not depend on the other rows, to the last bit.

    The rows are evaluated together, in reverse, and in `splits` random divisions, the first of them into single rows. A
    matrix product fails this check: BLAS adds in a different order for another number of rows.

    Parameters
    ----------
    predictor
        Any predictor.
    rows
        float64[n, d].
    splits, seed
        Number of divisions, and the random seed of their cuts.

    Returns
    -------
    Output of the predictor for `rows`.

    Raises
    ------
    ModelError
        A row's result changed, or the output does not have the promised form.
    """
    rows = np.asarray(rows, np.float64)
    before = rows.copy()
    whole = predictor.evaluate(rows)
    _check_form(predictor, whole, len(rows))
    random = np.random.Generator(np.random.PCG64(seed))
    _compare(predictor, whole, [predictor.evaluate(rows[::-1])], np.arange(len(rows))[::-1], "in reverse order")
    for split in range(splits):
        if split == 0:
            cuts = np.arange(1, len(rows))
        else:
            cuts = np.unique(random.integers(0, len(rows) + 1, size=random.integers(1, 8)))
        parts = [predictor.evaluate(part) for part in np.split(rows, cuts)]
        _compare(predictor, whole, parts, np.arange(len(rows)), f"cut at {_some(cuts)}")
    if before.tobytes() != rows.tobytes():
        raise ModelError(f"{type(predictor).__name__}: evaluate changed the rows that it was given")
    return whole


def _check_form(predictor: Predictor, output: Output, n: int) -> None:
    regression = predictor.task == REGRESSION
    columns = 1 if regression else len(predictor.classes)
    labels_end = 0 if regression else columns
    fits = (
        output.values.shape == (n, columns)
        and output.values.dtype == np.float64
        and output.labels.shape == (n,)
        and output.labels.dtype == np.int64
        and bool(np.all((output.labels >= NO_LABEL) & (output.labels < max(labels_end, 0))))
    )
    if not fits:
        raise ModelError(
            f"{type(predictor).__name__}: expected values float64[{n}, {columns}] and labels int64[{n}] below "
            f"{labels_end}, got {output.values.dtype}{list(output.values.shape)} and "
            f"{output.labels.dtype}{list(output.labels.shape)}"
        )


def _compare(predictor: Predictor, whole: Output, parts: list[Output], order: np.ndarray, how: str) -> None:
    values = np.concatenate([part.values for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    same = (values.view(np.int64) == whole.values[order].view(np.int64)).all(axis=1) & (labels == whole.labels[order])
    if not same.all():
        at = int(np.flatnonzero(~same)[0])
        raise ModelError(
            f"{type(predictor).__name__}: the result of a row depends on the other rows of a call: row {order[at]} of "
            f"{len(order)} gives {whole.values[order[at]]} together and {values[at]} {how} ({int((~same).sum())} rows "
            "differ); evaluate row by row, without matrix products"
        )


def _some(cuts: np.ndarray) -> str:
    return ", ".join(map(str, cuts[:5])) + (", ..." if len(cuts) > 5 else "")
