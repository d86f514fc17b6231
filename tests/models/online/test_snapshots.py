"""Snapshots from the arena equal those that are compiled from the River model, bit for bit."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import tree

from glasstream.base.errors import NotCompilable
from glasstream.events.features import FeatureTable
from glasstream.models.river.compile import compile_model
from glasstream.models.river.live import take, to_river
from tests.models.online.conftest import every
from tests.support.adaptive_trees import adaptive_tree
from tests.support.equality import Event, learn_live
from tests.support.examples import examples
from tests.support.learning_streams import made_streams
from tests.support.live_models import MODELS
from tests.support.snapshot_bits import bits

EVERY = {
    **MODELS,
    "naive": lambda: tree.HoeffdingTreeClassifier(
        grace_period=10, delta=0.3, tau=0.2, leaf_prediction="nb", nb_threshold=5, binary_split=True, max_depth=3
    ),
    "majority": lambda: tree.HoeffdingTreeClassifier(grace_period=10, delta=0.3, tau=0.2, leaf_prediction="mc"),
}


@every(EVERY)
@given(events=made_streams(), hidden=st.integers(1, 7))
@examples(25)
def test_they_equal_what_is_compiled_of_the_river_model(
    make: Callable[[], Any], events: list[Event], hidden: int
) -> None:
    live, table, labels = take(make()), FeatureTable(), dict[Any, str]()
    third = max(1, len(events) // 3)
    for first in range(0, len(events), third):
        part = events[first : first + third]
        learn_live(live, part)
        for x, y in part:
            table.encode({name: float(value) if isinstance(value, int) else value for name, value in x.items()})
            labels.setdefault(y, str(y))
        for inputs in (None, [slot % hidden > 0 for slot in range(len(table))]):
            river = compile_model(to_river(live), table, labels, given=inputs)
            assert bits(live.compiled(table, labels, given=inputs)) == bits(river)


@pytest.mark.parametrize("counts", product((1, 3, 4), repeat=3))
def test_shares_of_a_leaf_are_added_as_in_river(counts: tuple[int, ...]) -> None:
    """From Python 3.12 on, `sum` of 1/6, 4/6 and 1/6 is 1, and adding them in order gives less."""
    live = take(adaptive_tree({"leaf_prediction": "mc", "bootstrap_sampling": False}))
    events: list[Event] = [({"a": 1.0}, str(label)) for label, count in enumerate(counts) for _ in range(count)]
    learn_live(live, events)
    table, labels = FeatureTable(), {str(label): str(label) for label in range(len(counts))}
    table.encode({"a": 1.0})
    assert bits(live.compiled(table, labels)) == bits(compile_model(to_river(live), table, labels))


def test_a_feature_of_another_kind_is_refused() -> None:
    live, table = take(tree.HoeffdingTreeClassifier()), FeatureTable()
    live.learn_one({"a": 1.0}, "x")
    table.encode({"a": "text"})
    with pytest.raises(NotCompilable, match="'a' is text"):
        live.compiled(table, {"x": "x"})
