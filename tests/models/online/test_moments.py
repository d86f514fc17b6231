"""A live model goes to River and back at many moments of a long stream, and what goes on is the same each time."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from river import forest, tree

from glasstream.models.river.live import take, to_river
from tests.support.adaptive_trees import adaptive_tree
from tests.support.equality import Event, check_equal, learn_live, learn_river
from tests.support.examples import some
from tests.support.learning_streams import data_set, regression_set

ROWS, MOMENTS, MORE = 9_000, 50, 1_000
MODELS: dict[str, Callable[[], Any]] = {
    "tree": tree.HoeffdingTreeClassifier,
    "adaptive": lambda: adaptive_tree({"seed": 3}),
    "forest": lambda: forest.ARFClassifier(seed=3),
    "regression tree": tree.HoeffdingTreeRegressor,
    "adaptive regression tree": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=3),
    "regression forest": lambda: forest.ARFRegressor(seed=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", some(["tree", "adaptive"], MODELS))
def test_to_river_and_back_at_random_moments(data_dir: Path, name: str) -> None:
    """At each moment, the model given back and the one taken over again learn 1,000 more events, and stay equal."""
    read, data = (regression_set, "bike_hourly") if "regression" in name else (data_set, "elec2")
    events: list[Event] = read(data_dir, data, ROWS + MORE)
    live, learned = take(MODELS[name]()), 0
    for moment in sorted(random.Random(5).sample(range(ROWS), MOMENTS)):
        learn_live(live, events[learned:moment])
        learned, more = moment, events[moment : moment + MORE]
        river = to_river(live)
        successor = take(to_river(live))
        assert learn_live(successor, more) == learn_river(river, more), moment
        check_equal(to_river(successor), river)
