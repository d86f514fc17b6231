"""Entries that have only some parts of an explanation (`explain.unlabelled`): each is explained as if it were alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glasstream.app.configuration import load
from glasstream.explain import sizes
from glasstream.explain.explainer import explain
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.models.predictors.predictor import Output, Predictor
from glasstream_topics import contributions, requests
from glasstream_topics.blocks import EFFECTS, LABELLED
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest
from tests.support.late_labels import apart
from tests.support.learner import message
from tests.support.logs import event

SETTINGS = load(
    assignments=[
        "model.name=tree", "model.task=classification", "explain.reservoir=5",
        "explain.methods=ipfi,isage,ipdp,attributions",
        "attributions.refresh=20", "snapshot.target=0", "block.rows=64", "topics.events=1",
    ]
)  # fmt: skip
PARTS = (
    (EFFECTS, ("ipdp", "ipdp.points", "attributions", "attributions.inputs", "attributions.event")),
    (LABELLED, ("loss", "ipfi", "isage", "target")),
)
"""Arrays that the answers have for each part of an entry."""
COUNT = 60
MADE = [{name: it for name, it in event(n).items() if name != "y" or n % 4} for n in range(COUNT)]
LOG = apart(MADE, [0, 7, 3] * (COUNT // 3))


def learned() -> tuple[list[ExplainRequest], dict[int, Predictor]]:
    learner = PartitionLearner(0, SETTINGS)
    models: dict[int, Predictor] = {}
    for number, one in enumerate(LOG):
        for _ in learner.consume(message(number, one)):
            pass
        models |= {made.version: made.predictor for made in learner.outbox.snapshots}
    learner.cut()
    return learner.outbox.requests, models


def entries(answers: Sequence[Contributions]) -> dict[int, tuple[Any, ...]]:
    """Return what the answers say of each entry, by its number."""
    found: dict[int, tuple[Any, ...]] = {}
    for answer in answers:
        answer = contributions.decode(contributions.encode(answer))
        for at in range(answer.count):
            own = slice(at, at + 1)
            values = {}
            for part, names in PARTS:
                places = answer.within(part, own)
                if answer.kind == "ok" and places.start < places.stop:
                    values |= {name: answer.values[name][places].tobytes() for name in names}
            number = answer.numbering(own)
            row = number["row"] if number["parts"][0] & LABELLED else None
            found[number["first_row"]] = (number["parts"], row, int(answer.seqs[at]), answer.kind, values)
    return found


class Failing:
    """A model that raises an error at rows whose first feature has one of some values."""

    def __init__(self, model: Predictor, values: Sequence[float]) -> None:
        self._model, self._values = model, values
        self.task, self.features, self.classes, self.compiled = model.task, model.features, model.classes, True

    def evaluate(self, rows: np.ndarray) -> Output:
        if np.isin(rows[:, 1], self._values).any():
            raise ValueError("these I do not take")
        return self._model.evaluate(rows)


def test_entries_have_the_parts_and_numbers_of_their_events() -> None:
    blocks, _ = learned()
    seqs = np.concatenate([block.seqs for block in blocks])
    parts = np.array([part for block in blocks for part in block.parts])
    rows = np.concatenate([block.row + np.cumsum(block.has(LABELLED)) - 1 for block in blocks])
    assert [block.first_row for block in blocks[1:]] == [b.first_row + b.count for b in blocks[:-1]]
    assert blocks[0].first_row == blocks[0].row == 5
    with_label = rows[parts & LABELLED != 0]
    assert with_label.tolist() == list(range(5, 5 + len(with_label)))
    assert 5 + len(with_label) == sum("y" in one for one in MADE)
    with_effects = seqs[parts & EFFECTS != 0].tolist()
    assert with_effects == list(range(with_effects[0], COUNT))
    assert set(parts.tolist()) == {EFFECTS, LABELLED}
    for block in blocks:
        assert np.isnan(block.y).tolist() == (~block.has(LABELLED)).tolist()


@pytest.mark.parametrize("values", [(), "some", "all"])
def test_an_entry_is_explained_alone_as_among_others(values: Sequence[float] | str) -> None:
    blocks, models = learned()
    inputs = np.concatenate([block.x[:, 1] for block in blocks])
    fails = {"some": inputs[::9], "all": inputs}.get(values, np.empty(0)) if isinstance(values, str) else np.empty(0)
    for block in blocks:
        model = Failing(models[block.version], fails.tolist())
        alone = [sizes._part(block, slice(at, at + 1)) for at in range(block.count)]
        together = entries(explain(block, model))
        assert together == entries([answer for one in alone for answer in explain(one, model)])
        assert together.keys() == set(range(block.first_row, block.first_row + block.count))
        kinds = {one[3] for one in together.values()}
        assert kinds == {"ok"} if values == () else kinds == {"failed"} if values == "all" else "failed" in kinds


def test_blocks_are_cut_to_fit_and_the_entries_get_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, models = learned()
    whole = [entries(explain(block, models[block.version])) for block in blocks]
    monkeypatch.setattr(sizes, "LARGEST", 9_000)
    for block, expected in zip(blocks, whole, strict=True):
        pieces = [requests.decode(requests.encode(piece)) for piece in sizes.pieces(block)]
        assert not any(piece.refused for piece in pieces)
        assert entries([answer for one in pieces for answer in explain(one, models[one.version])]) == expected
    assert sum(len(list(sizes.pieces(block))) for block in blocks) > 2 * len(blocks)


def test_refused_entries_keep_their_parts_and_numbers() -> None:
    block = learned()[0][-1]
    (answer,) = explain(requests.decode(requests.encode(requests.refused(block, "too large"))), None)
    assert answer.kind == "failed"
    assert (answer.first_row, answer.row, answer.parts) == (block.first_row, block.row, block.parts)
    assert replace(block, parts=[]).numbering(slice(1, 2)) == {"first_row": block.first_row + 1, "row": 0, "parts": []}
