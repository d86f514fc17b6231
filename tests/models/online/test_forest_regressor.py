"""An ARFRegressor learned in arrays predicts and becomes, bit for bit, what River's does."""

import random
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, forest, linear_model, metrics
from river.tree.splitter import EBSTSplitter, TEBSTSplitter

from glasstream.base.errors import NotCompilable
from glasstream.models.river.live import take
from tests.support.equality import Event, check_same, learn_river
from tests.support.examples import examples, some
from tests.support.forest_regressors import RESTLESS, WEIGHTED
from tests.support.learning_streams import made_numbers, numbers_only, regression_set, with_a_feature
from tests.support.tree_regressors import SETS, UNSURE, takes_text

PARAMETERS: list[dict[str, Any]] = [
    {},
    {**UNSURE, "leaf_prediction": "mean", "max_features": "log2"},
    {"leaf_prediction": "model", "max_features": None, "aggregation_method": "mean"},
    {"leaf_prediction": "mean", "n_models": 4, "max_features": 0.6, **WEIGHTED},
    {"n_models": 10, "lambda_value": 1, **WEIGHTED},
    {"max_features": 7, "disable_weighted_vote": False},
    {"leaf_prediction": "mean", "binary_split": True, "max_features": -1, "merit_preprune": False},
    {"warning_detector": drift.NoDrift()},
    {"drift_detector": drift.NoDrift()},
    {"warning_detector": drift.NoDrift(), "drift_detector": drift.NoDrift(), **WEIGHTED},
    {"max_depth": 1, "min_samples_split": 50},
    {"splitter": EBSTSplitter(), "model_selector_decay": 0.5, "nominal_attributes": ["n0", "n1"], "max_features": None},
    {"splitter": TEBSTSplitter(digits=3), "leaf_model": linear_model.LinearRegression(intercept_lr=0.3)},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@given(data=st.data())
@examples(20)
def test_made_streams(parameters: dict[str, Any], data: st.DataObject) -> None:
    made = {**RESTLESS, **parameters}
    events = data.draw(made_numbers(most=250, texts=takes_text(made)))
    if made.get("max_features") == "log2":
        events = with_a_feature(events)
    check_same(take(forest.ARFRegressor(**made)), forest.ARFRegressor(**made), events)


@pytest.mark.parametrize("models", [1, 7, 8, 9, pytest.param(31, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "aggregation", [{}, {"aggregation_method": "mean"}, WEIGHTED], ids=("median", "mean", "weighted")
)
def test_any_number_of_trees_is_averaged_as_in_river(models: int, aggregation: dict[str, Any]) -> None:
    """numpy adds eight numbers at a time. A weighted mean of one tree is NaN in River: the weights add up to 0."""
    source = random.Random(models)
    events: list[Event] = [({"a": source.gauss(0, 1), "b": source.random()}, source.gauss(3, 1)) for _ in range(40)]
    made = {"n_models": models, "grace_period": 10, "seed": 5, **aggregation}
    check_same(take(forest.ARFRegressor(**made)), forest.ARFRegressor(**made), events)


def test_an_error_whose_square_overflows_ends_the_event_where_it_does_in_river() -> None:
    """The trees before have learned the event, and those after it have not."""
    made = {**RESTLESS, "n_models": 4, "leaf_model": linear_model.LinearRegression(clip_gradient=1e300)}
    source = random.Random(1)
    events: list[Event] = [({"a": source.choice((1e60, -1e59, 2.0))}, source.gauss(0, 1)) for _ in range(200)]
    errors = [error for _, error in learn_river(forest.ARFRegressor(**made), events)]
    assert len(set(errors)) == 2
    check_same(take(forest.ARFRegressor(**made)), forest.ARFRegressor(**made), events)


@pytest.mark.parametrize("name", SETS)
def test_a_part_of_a_data_set(data_dir: Path, name: str) -> None:
    events = numbers_only(regression_set(data_dir, name, 300))
    check_same(take(forest.ARFRegressor(seed=3)), forest.ARFRegressor(seed=3), events)


def test_warnings_and_drifts() -> None:
    """The target jumps every 80 events."""
    source = random.Random(1)
    inputs = [{"a": source.gauss(0, 1), "b": source.random()} for _ in range(1_000)]
    events: list[Event] = [
        (x, 3 * x["a"] + source.gauss(0, 0.5) + 100 * (number // 80 % 2)) for number, x in enumerate(inputs)
    ]
    river = forest.ARFRegressor(**RESTLESS)
    check_same(take(forest.ARFRegressor(**RESTLESS)), river, events)
    assert min(river.n_warnings_detected(), river.n_drifts_detected()) > 10


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (forest.ARFRegressor(metric=metrics.MAE()), "metric: expected MSE"),
        (forest.ARFRegressor(drift_detector=drift.KSWIN()), "drift_detector: expected ADWIN or NoDrift"),
        (forest.ARFRegressor(leaf_model=linear_model.PARegressor()), "leaf_model: expected an untrained"),
        (forest.ARFRegressor(max_size=1.0), "max_size"),
        (forest.ARFRegressor(n_models=129, aggregation_method="mean"), "n_models: expected at most 128 for a mean"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_supported_is_named(model: Any, reason: str) -> None:
    with pytest.raises(NotCompilable, match=reason):
        take(model)


WHOLE: dict[str, dict[str, Any]] = {
    "default": {"seed": 1}, "weighted": {"seed": 2, **WEIGHTED}, "restless": {**RESTLESS, "n_models": 5},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    some(
        [("wine_white", "default"), ("bike_hourly", "weighted"), ("abalone", "restless")],
        zip(
            (*SETS, "superconductor_sample", "cpu_act", "qm9_10k", "air_quality"),
            cycle(WHOLE),
            strict=False,
        ),
    ),
)
def test_a_data_set(data_dir: Path, name: str, parameters: str) -> None:
    """River takes most of the time, so each set has parameters of its own, by turns."""
    made, events = WHOLE[parameters], numbers_only(regression_set(data_dir, name, 2_500))
    check_same(take(forest.ARFRegressor(**made)), forest.ARFRegressor(**made), events)
