"""The explainer: a block and the model it names go in, contributions come out. No state, no order."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.explain import ipfi
from pipeline.ingest.admission import Task
from pipeline.models.generic import GenericPredictor
from pipeline.models.predictor import Predictor
from topics.contributions import Contributions
from topics.work import Work


def explain(block: Work, predictor: Predictor | None) -> list[Contributions]:
    """Explain a block with the model version that it names.

    Rows on which the model raises, or gives no finite contribution, become contributions of kind ``failed``, with the
    reason; they count as unexplained. Which rows those are does not depend on the rows beside them. A block without
    rows passes on its flush mark.

    Parameters
    ----------
    block
        See `topics.work.Work`.
    predictor
        The model of `block.version`; not read for a block without rows.

    Returns
    -------
    Usually one; more where some rows of the block failed.
    """
    if block.count == 0 or predictor is None:
        return [_answer(block, slice(0, 0), kind="flush")]
    if isinstance(predictor, GenericPredictor):
        predictor = predictor.extended(block.names, block.kinds, block.new_categories)
    targets = _targets(block, predictor)
    values = np.full((block.count, len(block.names)), np.nan)
    reason = ""
    try:
        values[:] = ipfi.contributions(predictor, block.loss, block.x, targets, block.draws["ipfi"])
    except Exception as error:  # noqa: BLE001 - a user's model may raise anything; the stream goes on
        reason = f"{type(error).__name__}: {error}"[:500]
        _row_by_row(block, predictor, targets, values)
    failed = ~np.isfinite(values).all(axis=1)
    if not failed.any():
        return [_answer(block, slice(0, block.count), kind="ok", values={"ipfi": values})]
    reason = reason or "a contribution is not a finite number"
    answers = []
    for rows in _runs(failed):
        if failed[rows.start]:
            answers.append(_answer(block, rows, kind="failed", reason=reason))
        else:
            answers.append(_answer(block, rows, kind="ok", values={"ipfi": values[rows]}))
    return answers


def _row_by_row(block: Work, predictor: Predictor, targets: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Fill in what can be explained, so that a row that fails takes no other with it."""
    for row in range(block.count):
        one = slice(row, row + 1)
        try:
            values[one] = ipfi.contributions(
                predictor, block.loss, block.x[one], targets[one], block.draws["ipfi"][one]
            )
        except Exception:  # noqa: BLE001 - as above; the reason is known
            continue


def _runs(failed: NDArray[np.bool_]) -> list[slice]:
    """Consecutive rows that all failed or all did not."""
    edges = [0, *(np.flatnonzero(failed[1:] != failed[:-1]) + 1).tolist(), len(failed)]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def _answer(
    block: Work,
    rows: slice,
    *,
    kind: str,
    values: Mapping[str, NDArray[np.float64]] | None = None,
    reason: str = "",
) -> Contributions:
    return Contributions(
        stream=block.stream,
        epoch=block.epoch,
        partition=block.partition,
        first_row=block.first_row + rows.start,
        version=block.version,
        seqs=block.seqs[rows],
        kind=kind,
        reason=reason,
        names=block.names,
        values=values or {},
        loss=block.loss,
        flush_before=block.flush_before and rows.start == 0,
    )


def _targets(block: Work, predictor: Predictor) -> NDArray[np.float64]:
    """The block's targets in the predictor's own numbering of classes; -1 for a class that it does not know."""
    if block.task == Task.REGRESSION:
        return block.y
    place = {name: index for index, name in enumerate(predictor.classes)}
    numbers = np.array([place.get(name, -1) for name in block.classes], dtype=np.float64)
    return numbers[block.y.astype(np.int64)]
