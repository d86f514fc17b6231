"""Explain a block with the model that it names and return contributions. Explainers have no state and need no order."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.explain import ipdp
from glasstream.explain.losses import losses, with_classes
from glasstream.explain.sizes import REASON
from glasstream.ingest.admission import Task
from glasstream.methods.registry import REGISTRY
from glasstream.models.contract.predictor import Predictor
from glasstream.models.fixed.runtime import OnnxPredictor
from glasstream.models.live.generic import GenericPredictor
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import LARGEST, methods_of
from glasstream_topics.requests import ExplainRequest

Given = dict[str, NDArray[Any]]
"""Results of the methods for a block, under the names of `glasstream_topics.methods.GIVEN`."""


def explain(block: ExplainRequest, predictor: Predictor | None) -> list[Contributions]:
    """Explain a block with the model version that it names.

    Rows on which the model raises an error, or with a contribution that is not finite or is beyond ±1e125, become
    contributions of kind ``failed``, with the reason. They count as unexplained for every method. Which rows fail does
    not depend on the rows beside them. All rows of a refused block become ``failed``, too. A block without rows passes
    on its mark.

    Parameters
    ----------
    block
        See `glasstream_topics.requests.ExplainRequest`.
    predictor
        The model of `block.version`; not read if the block was refused or has no rows.

    Returns
    -------
    Usually one record; more if some rows of the block failed.
    """
    if block.refused:
        return [unexplained(block, block.refused)]
    if block.count == 0 or predictor is None:
        return [_answer(block, slice(0, 0), kind="flush")]
    if isinstance(predictor, GenericPredictor | OnnxPredictor):
        predictor = predictor.extended(block.names, block.kinds, block.new_categories)
    request = _Request(block, predictor)
    reason = ""
    try:
        given = request.explain(slice(0, block.count))
        failed = ~_finite(given)
    except Exception as error:  # noqa: BLE001 - a user's model may raise anything; the stream goes on
        reason = f"{type(error).__name__}: {error}"[:REASON]
        given, failed = request.row_by_row()
    if not failed.any():
        return [request.answer(slice(0, block.count), given)]
    reason = reason or f"a contribution is not a number within ±{LARGEST:g}"
    return [
        _answer(block, rows, kind="failed", reason=reason) if failed[rows.start] else request.answer(rows, given)
        for rows in _runs(failed)
    ]


def unexplained(block: ExplainRequest, reason: str) -> Contributions:
    """Return the contributions of kind ``failed`` for a block that cannot be explained."""
    return _answer(block, slice(0, block.count), kind="failed", reason=reason)


class _Request:
    """A block and its model, to be explained for any part of the rows."""

    def __init__(self, block: ExplainRequest, predictor: Predictor) -> None:
        self.block = block
        self.predictor = predictor
        self.outputs = ipdp.outputs(predictor) if block.grid is not None else ()
        self.targets = _targets(block, predictor)
        methods = methods_of(block.draws)
        self._explainers = [REGISTRY[method.name].explainer(block, predictor, self.targets) for method in methods]

    def explain(self, rows: slice) -> Given:
        """Return the results for a part of the rows."""
        given: Given = {"loss": self._loss(self.block.x[rows], self.targets[rows])}
        for explainer in self._explainers:
            given |= explainer(rows)
        return given

    def _loss(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        said = self.predictor.evaluate(x)
        return losses(with_classes(self.block.loss, self.predictor.classes), said.values, said.labels, y)

    def _watched(self) -> Given:
        """Return the rows as the answer repeats them. The model's classes are the first of the block's."""
        return {"inputs": self.block.x, "target": self.block.y} if self.block.watched else {}

    def row_by_row(self) -> tuple[Given, NDArray[np.bool_]]:
        """Explain each row alone, so that a failing row affects no other. Return the results and which rows failed."""
        answers: list[Given | None] = []
        for row in range(self.block.count):
            try:
                answers.append(self.explain(slice(row, row + 1)))
            except Exception:  # noqa: BLE001 - as above; the reason is known
                answers.append(None)
        whole = next((answer for answer in answers if answer is not None), None)
        if whole is None:
            return {}, np.ones(len(answers), np.bool_)
        given = {name: np.concatenate([(answer or whole)[name] for answer in answers]) for name in whole}
        return given, ~_finite(given) | np.array([answer is None for answer in answers])

    def answer(self, rows: slice, given: Given) -> Contributions:
        """Return the record for rows that were all explained."""
        return _answer(
            self.block,
            rows,
            kind="ok",
            values={name: array[rows] for name, array in {**given, **self._watched()}.items()},
            classes=list(self.predictor.classes),
            new_classes=self.block.classes[len(self.predictor.classes) :] if self.block.watched else [],
            outputs=[output.name or "" for output in self.outputs],
        )


def _finite(given: Given) -> NDArray[np.bool_]:
    """Return (count,) whether all numbers of a row are finite and small enough to be squared."""
    checks = [np.abs(given["loss"]) <= LARGEST, *(REGISTRY[method.name].finite(given) for method in methods_of(given))]
    return np.asarray(np.logical_and.reduce(checks))


def _runs(failed: NDArray[np.bool_]) -> list[slice]:
    """Return runs of consecutive rows that all failed or all succeeded."""
    edges = [0, *(np.flatnonzero(failed[1:] != failed[:-1]) + 1).tolist(), len(failed)]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def _answer(
    block: ExplainRequest,
    rows: slice,
    *,
    kind: str,
    values: Given | None = None,
    classes: list[str] | None = None,
    outputs: list[str] | None = None,
    new_classes: list[str] | None = None,
    reason: str = "",
) -> Contributions:
    return Contributions(
        stream=block.stream,
        epoch=block.epoch,
        partition=block.partition,
        first_row=block.first_row + rows.start,
        version=block.version,
        seqs=block.seqs[rows],
        times=block.times[rows],
        kind=kind,
        reason=reason,
        names=block.names,
        kinds=block.kinds,
        classes=classes or [],
        outputs=outputs or [],
        new_classes=new_classes or [],
        texts=block.texts,
        staleness=block.staleness,
        values=values or {},
        loss=block.loss,
        flush_before=block.flush_before and rows.start == 0,
        ends=block.ends,
    )


def _targets(block: ExplainRequest, predictor: Predictor) -> NDArray[np.float64]:
    """Return the block's targets in the predictor's own numbering of classes; -1 for a class that it does not know."""
    if block.task == Task.REGRESSION:
        return block.y
    place = {name: index for index, name in enumerate(predictor.classes)}
    numbers = np.array([place.get(name, -1) for name in block.classes], dtype=np.float64)
    return numbers[block.y.astype(np.int64)]
