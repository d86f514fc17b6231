"""Predictions that are scored as columns have the records and the metric of those that are scored one by one."""

from array import array
from typing import Any

import numpy as np
import pytest

from glasstream.events.features import KeptFeatures
from glasstream.flow.learner.scoring import ScoredBlock, Scoring
from glasstream.flow.learner.state import LearnerState
from glasstream.flow.learner.unlabelled import Unlabelled
from glasstream.models.stream_model import Predictions
from tests.support.learner import settings

COUNT = 40


def block_of(draws: np.random.Generator, classes: int, *, same_order: bool) -> ScoredBlock:
    """Return a block with late labels and with events without a label; 0 classes give numbers."""
    names = [f"c{number}" for number in draws.permutation(classes)]
    late_places = [place for place in range(COUNT) if draws.random() < 0.3]
    unlabelled = [place for place in range(COUNT) if place not in late_places and draws.random() < 0.3]
    sequence = None
    labels = np.full(COUNT, -1)
    numbers: Any
    if classes:
        values = draws.dirichlet(np.ones(classes), COUNT)
        labels, numbers = values.argmax(1), draws.integers(0, classes, COUNT)
        orders = np.tile(np.arange(classes), (COUNT, 1))
        sequence = orders if same_order else draws.permuted(orders, axis=1)
        labels[late_places], sequence[late_places], numbers[unlabelled] = -1, -1, -1
        targets = [None if one < 0 else names[one] for one in numbers.tolist()]
    else:
        values, numbers = draws.normal(0, 100, COUNT), draws.normal(0, 100, COUNT)
        numbers[unlabelled] = np.nan
        targets = [None if np.isnan(one) else one for one in numbers.tolist()]
    kept = Unlabelled(
        KeptFeatures(None, array("d")), "c0" if classes else None, None, None, None if classes else 7.5, None
    )
    late = dict.fromkeys(late_places, kept)
    ids = [None if place in late else f"e{place}" for place in range(COUNT)]
    found = Predictions(names, values, labels, numbers, sequence, {})
    return ScoredBlock(range(9, 9 + COUNT), ids, found, targets, range(COUNT), [None, 5] * (COUNT // 2), late)


@pytest.mark.parametrize(
    ("classes", "loss"),
    [
        *((classes, loss) for classes in (2, 5) for loss in ("brier", "zero_one", "cross_entropy")),
        *((0, loss) for loss in ("squared", "absolute")),
    ],
)
@pytest.mark.parametrize("same_order", [True, False])
def test_columns_are_scored_like_rows(classes: int, loss: str, same_order: bool) -> None:
    """A loss and a sum of errors have the bits of the order in which River's dict and the stream have them."""
    draws = np.random.Generator(np.random.PCG64([classes, same_order]))
    together, apart = LearnerState.new(settings(), "s"), LearnerState.new(settings(), "s")
    columns, rows = Scoring(settings(), "s", together), Scoring(settings(), "s", apart)
    for _ in range(5):
        block = block_of(draws, classes, same_order=same_order)
        for one in block.one_by_one():
            rows.add(one)
        written = columns._together(block, loss)
        assert written is not None, "the block needs no other way"
        assert written == rows.publish(loss)
        assert (together.scored, together.score) == (apart.scored, apart.score)
