"""A HoeffdingTreeClassifier learned in arrays predicts and becomes, bit for bit, what River's does."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import tree
from river.tree.splitter import GaussianSplitter

from glasstream.models.river.live import take
from tests.support.equality import Event, check_same
from tests.support.examples import examples, some
from tests.support.learning_streams import data_set, made_streams
from tests.support.trees import EAGER, SETS

PARAMETERS: list[dict[str, Any]] = [
    {},
    {"leaf_prediction": "mc"},
    {"leaf_prediction": "nb", "nb_threshold": 10},
    {"split_criterion": "gini"},
    {"split_criterion": "hellinger"},
    {"binary_split": True},
    {"merit_preprune": False},
    {"max_depth": 2},
    {"splitter": GaussianSplitter(n_splits=3), "min_branch_fraction": 0.0},
    {"nominal_attributes": ["n0", "n1", "t3"]},
    {"max_share_to_split": 0.6},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@given(events=made_streams())
@examples(30)
def test_made_streams(parameters: dict[str, Any], events: list[Event]) -> None:
    made = {**EAGER, **parameters}
    check_same(take(tree.HoeffdingTreeClassifier(**made)), tree.HoeffdingTreeClassifier(**made), events)


@given(events=made_streams(most=200), labels=st.sampled_from([(0, 1), (False, True)]))
@examples(30)
def test_the_hellinger_distance_of_the_classes_that_it_knows(events: list[Event], labels: tuple[Any, Any]) -> None:
    made = {**EAGER, "split_criterion": "hellinger"}
    stream = [(x, labels[y == "y0"]) for x, y in events]
    check_same(take(tree.HoeffdingTreeClassifier(**made)), tree.HoeffdingTreeClassifier(**made), stream)


@pytest.mark.parametrize("name", SETS[:4])
def test_a_part_of_a_data_set(data_dir: Path, name: str) -> None:
    events = data_set(data_dir, name, 1_200)
    check_same(take(tree.HoeffdingTreeClassifier()), tree.HoeffdingTreeClassifier(), events)


EVERY_SET = (
    *SETS,
    "bank_marketing",
    "breast_cancer_wdbc",
    "chess_online",
    "eeg_eye_state",
    "german_credit",
    "higgs_10k",
    "luxembourg",
    "ozone_eighthr",
    "pima_diabetes",
    "spam_assassin_top500",
    "usenet1",
    "usenet2",
)
WHOLE: dict[str, dict[str, Any]] = {"default": {}, "eager": EAGER}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    some(
        [
            ("elec2", "default"),
            ("adult", "default"),
            ("ozone_eighthr", "default"),
            ("elec2", "eager"),
            ("outdoor", "eager"),
            ("german_credit", "eager"),
        ],
        product(EVERY_SET, WHOLE),
    ),
)
def test_a_data_set(data_dir: Path, name: str, parameters: str) -> None:
    """Numbers, texts, missing values, 40 classes, and a concept that drifts."""
    events = data_set(data_dir, name, 10_000)
    live = take(tree.HoeffdingTreeClassifier(**WHOLE[parameters]))
    check_same(live, tree.HoeffdingTreeClassifier(**WHOLE[parameters]), events)
