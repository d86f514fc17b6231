"""An ARFClassifier learned in arrays predicts and becomes, bit for bit, what River's does."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from river import drift, forest

from glasstream.models.river.live import take
from tests.support.equality import Event, check_same
from tests.support.examples import examples, some
from tests.support.forests import RESTLESS
from tests.support.learning_streams import data_set, made_streams, with_a_feature
from tests.support.trees import SETS

PARAMETERS: list[dict[str, Any]] = [
    {},
    {"leaf_prediction": "mc", "max_features": "log2"},
    {"leaf_prediction": "nb", "max_features": None},
    {"max_features": 0.6, "disable_weighted_vote": True},
    {"max_features": 7, "lambda_value": 1},
    {"split_criterion": "gini", "binary_split": True, "max_features": -1},
    {"warning_detector": drift.NoDrift()},
    {"warning_detector": drift.NoDrift(), "drift_detector": drift.NoDrift()},
    {"max_depth": 1},
    {"nominal_attributes": ["n0", "n1"], "max_features": None},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@given(events=made_streams(most=250))
@examples(20)
def test_made_streams(parameters: dict[str, Any], events: list[Event]) -> None:
    made = {**RESTLESS, **parameters}
    if made.get("max_features") == "log2":
        events = with_a_feature(events)
    check_same(take(forest.ARFClassifier(**made)), forest.ARFClassifier(**made), events)


@pytest.mark.parametrize("name", SETS[:4])
def test_a_part_of_a_data_set(data_dir: Path, name: str) -> None:
    events = data_set(data_dir, name, 400)
    check_same(take(forest.ARFClassifier(seed=3)), forest.ARFClassifier(seed=3), events)


def test_warnings_and_drifts(data_dir: Path) -> None:
    river = forest.ARFClassifier(**RESTLESS)
    check_same(take(forest.ARFClassifier(**RESTLESS)), river, data_set(data_dir, "elec2", 1_000))
    assert river.n_warnings_detected() > river.n_drifts_detected() > 0


WHOLE: dict[str, dict[str, Any]] = {"default": {"seed": 1}, "restless": {"seed": 2, **RESTLESS}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    some(
        [("elec2", "default"), ("adult", "restless")],
        product(SETS, WHOLE),
    ),
)
def test_a_data_set(data_dir: Path, name: str, parameters: str) -> None:
    made, events = WHOLE[parameters], data_set(data_dir, name, 5_000)
    check_same(take(forest.ARFClassifier(**made)), forest.ARFClassifier(**made), events)
