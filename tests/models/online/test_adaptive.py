"""A HoeffdingAdaptiveTreeClassifier learned in arrays predicts and becomes, bit for bit, what River's does."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from river import drift

from glasstream.models.river.live import take
from tests.support.adaptive_trees import RESTLESS, adaptive_tree
from tests.support.equality import Event, check_same
from tests.support.examples import examples, some
from tests.support.learning_streams import data_set, made_streams
from tests.support.trees import EAGER, SETS

PARAMETERS: list[dict[str, Any]] = [
    {},
    {"leaf_prediction": "mc"},
    {"leaf_prediction": "nb", "nb_threshold": 10},
    {"bootstrap_sampling": False},
    {"split_criterion": "gini", "binary_split": True},
    {"max_depth": 1},
    {"merit_preprune": False, "nominal_attributes": ["n0", "n1"]},
    {"drift_detector": drift.ADWIN(delta=0.8, clock=3, max_buckets=2, min_window_length=2, grace_period=0)},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@given(events=made_streams())
@examples(40)
def test_made_streams(parameters: dict[str, Any], events: list[Event]) -> None:
    made = {**RESTLESS, **parameters}
    check_same(take(adaptive_tree(made)), adaptive_tree(made), events)


@pytest.mark.parametrize("name", SETS[:3])
def test_a_part_of_a_data_set(data_dir: Path, name: str) -> None:
    check_same(take(adaptive_tree({"seed": 3})), adaptive_tree({"seed": 3}), data_set(data_dir, name, 1_200))


def test_many_alternates(data_dir: Path) -> None:
    events = data_set(data_dir, "elec2", 3_000)
    live, river = take(adaptive_tree(RESTLESS)), adaptive_tree(RESTLESS)
    check_same(live, river, events)
    assert min(river.n_alternate_trees, river.n_switch_alternate_trees, river.n_pruned_alternate_trees) > 0


WHOLE: dict[str, dict[str, Any]] = {"default": {"seed": 1}, "eager": {"seed": 2, **EAGER}, "restless": RESTLESS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    some(
        [("adult", "default"), ("elec2", "eager"), ("elec2", "restless"), ("keystroke", "restless")],
        product(SETS, WHOLE),
    ),
)
def test_a_data_set(data_dir: Path, name: str, parameters: str) -> None:
    made = WHOLE[parameters]
    check_same(take(adaptive_tree(made)), adaptive_tree(made), data_set(data_dir, name, 10_000))
