"""The explainer: a block and the model it names go in, contributions come out. No state, no order."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.explain import ipfi
from pipeline.ingest.admission import Task
from pipeline.models.predictor import Predictor
from topics.contributions import Contributions
from topics.work import Work


def explain(block: Work, predictor: Predictor | None) -> Contributions:
    """Explain a block with the model version that it names.

    A block on which the model raises becomes a contribution of kind ``failed``, with the reason; its rows count as
    unexplained. A block without rows passes on its flush mark.

    Parameters
    ----------
    block
        See `topics.work.Work`.
    predictor
        The model of `block.version`; not read for a block without rows.
    """
    answer = Contributions(
        stream=block.stream,
        epoch=block.epoch,
        partition=block.partition,
        first_row=block.first_row,
        version=block.version,
        seqs=block.seqs,
        kind="flush",
        names=block.names,
        loss=block.loss,
        flush_before=block.flush_before,
    )
    if block.count == 0 or predictor is None:
        return answer
    try:
        predictor = predictor.with_categories(block.new_categories, block.names, block.kinds)
        values = ipfi.contributions(
            predictor, block.loss, block.x, _targets(block, predictor), block.draws["ipfi"]
        )
    except Exception as error:  # noqa: BLE001 - a user's model may raise anything; the stream goes on without it
        return replace(answer, kind="failed", reason=f"{type(error).__name__}: {error}"[:500])
    return replace(answer, kind="ok", values={"ipfi": values})


def _targets(block: Work, predictor: Predictor) -> NDArray[np.float64]:
    """The block's targets in the predictor's own numbering of classes; -1 for a class that it does not know."""
    if block.task == Task.REGRESSION:
        return block.y
    place = {name: index for index, name in enumerate(predictor.classes)}
    numbers = np.array([place.get(name, -1) for name in block.classes], dtype=np.float64)
    return numbers[block.y.astype(np.int64)]
