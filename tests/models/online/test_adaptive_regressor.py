"""A HoeffdingAdaptiveTreeRegressor learned in arrays predicts and becomes, bit for bit, what River's does."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, linear_model, optim, tree

from glasstream.models.river.live import take
from tests.support.adaptive_regressors import RESTLESS
from tests.support.equality import Event, check_same, learn_river
from tests.support.examples import examples, some
from tests.support.learning_streams import made_numbers, numbers_only, regression_set
from tests.support.tree_regressors import EAGER, SETS, UNSURE, takes_text

PARAMETERS: list[dict[str, Any]] = [
    {},
    UNSURE,
    {"leaf_prediction": "mean"},
    {"leaf_prediction": "model", "bootstrap_sampling": False},
    {"leaf_prediction": "mean", "binary_split": True},
    {"max_depth": 1},
    {"merit_preprune": False, "nominal_attributes": ["n0", "n1"]},
    {"drift_detector": drift.ADWIN(delta=0.8, clock=3, max_buckets=2, min_window_length=2, grace_period=0)},
]


def adaptive_tree(parameters: dict[str, Any]) -> tree.HoeffdingAdaptiveTreeRegressor:
    return tree.HoeffdingAdaptiveTreeRegressor(**parameters)


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@given(data=st.data())
@examples(40)
def test_made_streams(parameters: dict[str, Any], data: st.DataObject) -> None:
    made = {**RESTLESS, **parameters}
    events = data.draw(made_numbers(texts=takes_text(made)))
    check_same(take(adaptive_tree(made)), adaptive_tree(made), events)


@pytest.mark.parametrize("name", SETS[:3])
def test_a_part_of_a_data_set(data_dir: Path, name: str) -> None:
    events = numbers_only(regression_set(data_dir, name, 1_000))
    check_same(take(adaptive_tree({"seed": 3})), adaptive_tree({"seed": 3}), events)


def test_many_alternates(data_dir: Path) -> None:
    events = numbers_only(regression_set(data_dir, "bike_hourly", 3_000))
    live, river = take(adaptive_tree(RESTLESS)), adaptive_tree(RESTLESS)
    check_same(live, river, events)
    assert min(river.n_alternate_trees, river.n_switch_alternate_trees, river.n_pruned_alternate_trees) > 0


def test_constant_errors_divide_by_zero_as_in_river() -> None:
    """Leaves that predict 0 whatever they learn have errors of 5 where the targets are 5."""
    constant = linear_model.LinearRegression(optim.SGD(0.0), intercept_lr=0.0)
    made = {**RESTLESS, "leaf_prediction": "model", "leaf_model": constant}
    source = random.Random(3)
    events: list[Event] = [({"a": float(n % 2)}, 0.5 * (n % 2) + source.gauss(0, 0.1)) for n in range(60)]
    events += [({"a": float(n % 2)}, 5.0) for n in range(200)]
    river = adaptive_tree(made)
    assert any("ZeroDivisionError" in error for _, error in learn_river(river, events))
    check_same(take(adaptive_tree(made)), adaptive_tree(made), events)


WHOLE: dict[str, dict[str, Any]] = {"default": {"seed": 1}, "eager": {"seed": 2, **EAGER}, "restless": RESTLESS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    some(
        [("abalone", "default"), ("wine_white", "eager"), ("bike_hourly", "restless"), ("concrete", "restless")],
        product((*SETS, "air_quality", "concrete", "cpu_act", "qm9_10k"), WHOLE),
    ),
)
def test_a_data_set(data_dir: Path, name: str, parameters: str) -> None:
    made, events = WHOLE[parameters], numbers_only(regression_set(data_dir, name, 10_000))
    check_same(take(adaptive_tree(made)), adaptive_tree(made), events)
