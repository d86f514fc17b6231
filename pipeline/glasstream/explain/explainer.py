"""Explain a block with the model that it names and return contributions. Explainers have no state and need no order."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.events.admission import Task
from glasstream.explain.losses import losses, with_classes
from glasstream.explain.pdp import contributions as ipdp
from glasstream.explain.registry import REGISTRY
from glasstream.explain.sizes import REASON
from glasstream.models.onnx.runtime import OnnxPredictor
from glasstream.models.predictors.predictor import Predictor
from glasstream.models.river.generic import GenericPredictor
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import LABELLED, LARGEST, LOSS, METHODS, WATCHED, method_of, methods_of
from glasstream_topics.requests import ExplainRequest, only

Given = dict[str, NDArray[Any]]
"""Results of the methods for a block, under the names of `glasstream_topics.methods.GIVEN`."""


def explain(block: ExplainRequest, predictor: Predictor | None) -> list[Contributions]:
    """Explain a block with the model version that it names.

    Rows on which the model raises an error, or with a contribution that is not finite or is beyond ±1e125, become
    contributions of kind ``failed``, with the reason. They count as unexplained for every method. Which rows fail does
    not depend on other rows. All rows of a refused block become ``failed``, too. A block without rows passes
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
        failed = ~_finite(block, given, slice(0, block.count))
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
        self._explainers = [
            (
                method.part,
                REGISTRY[method.name].explainer(
                    only(block, method.part), predictor, self.targets[block.has(method.part)]
                ),
            )
            for method in methods
        ]

    def explain(self, rows: slice) -> Given:
        """Return the results for some entries, without those of the methods for which none of them has its part."""
        block, given = self.block, Given()
        labelled = block.has(LABELLED)[rows]
        given["loss"] = np.empty(0)
        if labelled.any():
            given["loss"] = self._loss(block.x[rows][labelled], self.targets[rows][labelled])
        for part, explainer in self._explainers:
            own = block.within(part, rows)
            if own.start < own.stop:
                given |= explainer(own)
        return given

    def _loss(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        said = self.predictor.evaluate(x)
        return losses(with_classes(self.block.loss, self.predictor.classes), said.values, said.labels, y)

    def _watched(self) -> Given:
        """Return the rows as the answer repeats them. The model's classes are the first of the block's."""
        labelled = self.block.has(LABELLED)
        return {"inputs": self.block.x[labelled], "target": self.block.y[labelled]} if self.block.watched else {}

    def row_by_row(self) -> tuple[Given, NDArray[np.bool_]]:
        """Explain each entry alone, so that a failing one affects no other. Return the results and which failed.

        The results of an entry that failed are those of another one.
        """
        block = self.block
        answers: list[Given | None] = []
        for entry in range(block.count):
            rows = slice(entry, entry + 1)
            try:
                answer = self.explain(rows)
                answers.append(answer if _finite(block, answer, rows).all() else None)
            except Exception:  # noqa: BLE001 - as above; the reason is known
                answers.append(None)
        given: Given = {}
        for name in dict.fromkeys(name for answer in answers if answer is not None for name in answer):
            has = block.has(_part_of(name)).tolist()
            own = [
                None if answer is None else answer[name] for answer, there in zip(answers, has, strict=True) if there
            ]
            some = next((array for array in own if array is not None), np.empty(0))
            given[name] = np.concatenate([some[:0], *(some if array is None else array for array in own)])
        return given, np.array([answer is None for answer in answers])

    def _values(self, rows: slice, given: Given) -> Given:
        """Return the results for some entries, without those of a method for which none of them has its part."""
        values: Given = {}
        for name, array in given.items():
            own = self.block.within(_part_of(name), rows)
            if own.start < own.stop or name in LOSS or name in WATCHED:
                values[name] = array[own]
        return values

    def answer(self, rows: slice, given: Given) -> Contributions:
        """Return the record for rows that were all explained."""
        return _answer(
            self.block,
            rows,
            kind="ok",
            values=self._values(rows, {**given, **self._watched()}),
            classes=list(self.predictor.classes),
            new_classes=self.block.classes[len(self.predictor.classes) :] if self.block.watched else [],
            outputs=[output.name or "" for output in self.outputs],
        )


def _part_of(name: str) -> int:
    """Return the part of an entry's explanation that an array of the results belongs to."""
    method = METHODS.get(method_of(name))
    return LABELLED if method is None else method.part


def _finite(block: ExplainRequest, given: Given, rows: slice) -> NDArray[np.bool_]:
    """Return for each of some entries whether all its numbers are finite and small enough to be squared."""
    finite = np.ones(rows.stop - rows.start, np.bool_)
    finite[block.has(LABELLED)[rows]] &= np.abs(given["loss"]) <= LARGEST
    for method in methods_of(given):
        finite[block.has(method.part)[rows]] &= REGISTRY[method.name].finite(given)
    return finite


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
        **block.numbering(rows),
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
    targets, labelled = np.full(block.count, np.nan), block.has(LABELLED)
    targets[labelled] = numbers[block.y[labelled].astype(np.int64)]
    return targets
