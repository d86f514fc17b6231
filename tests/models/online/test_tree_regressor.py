"""A HoeffdingTreeRegressor learned in arrays predicts and becomes, bit for bit, what River's does."""

import random
import struct
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import linear_model, optim, tree
from river.tree.splitter import EBSTSplitter, TEBSTSplitter

from glasstream.base.jit import kernel
from glasstream.models.online.observers import rounded
from glasstream.models.river.live import take
from tests.support.equality import Event, check_same
from tests.support.examples import examples, some
from tests.support.learning_streams import made_numbers, numbers_only, regression_set
from tests.support.tree_regressors import EAGER, SETS, UNSURE, takes_text

PARAMETERS: list[dict[str, Any]] = [
    EAGER,
    UNSURE,
    {**EAGER, "leaf_prediction": "model"},
    {**EAGER, "leaf_prediction": "mean"},
    {**UNSURE, "leaf_prediction": "mean", "merit_preprune": False},
    {**EAGER, "leaf_prediction": "mean", "binary_split": True},
    {**EAGER, "max_depth": 2, "model_selector_decay": 0.5},
    {**EAGER, "splitter": EBSTSplitter(), "min_samples_split": 1},
    {**EAGER, "splitter": TEBSTSplitter(digits=3), "merit_preprune": False},
    {**EAGER, "nominal_attributes": ["n0", "n1"]},
    {**EAGER, "leaf_model": linear_model.LinearRegression(optim.SGD(0.1), intercept_init=2.0, clip_gradient=5.0)},
    {**EAGER, "leaf_model": linear_model.LinearRegression(intercept_lr=0.3, clip_gradient=1e300)},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@given(data=st.data())
@examples(30)
def test_made_streams(parameters: dict[str, Any], data: st.DataObject) -> None:
    events = data.draw(made_numbers(texts=takes_text(parameters)))
    check_same(take(tree.HoeffdingTreeRegressor(**parameters)), tree.HoeffdingTreeRegressor(**parameters), events)


def test_an_error_whose_square_overflows_raises_where_river_does() -> None:
    parameters = {"leaf_model": linear_model.LinearRegression(clip_gradient=1e300)}
    source = random.Random(1)
    events: list[Event] = [({"a": source.choice((1e60, -1e59, 2.0))}, source.gauss(0, 1)) for _ in range(200)]
    live, river = take(tree.HoeffdingTreeRegressor(**parameters)), tree.HoeffdingTreeRegressor(**parameters)
    raised = 0
    for x, y in events:
        for model in (live, river):
            try:
                model.learn_one(x, y)
            except OverflowError as error:
                assert str(error) == "(34, 'Numerical result out of range')"
                raised += 1
    assert raised % 2 == 0 and 0 < raised < 2 * len(events)
    check_same(live, river, events)


@kernel
def _rounded(values: np.ndarray, digits: int, power: float) -> np.ndarray:
    made = np.empty_like(values)
    for place in range(values.size):
        made[place] = rounded(values[place], digits, power)
    return made


@pytest.mark.parametrize("digits", range(8))
def test_rounding_is_pythons(digits: int) -> None:
    source = random.Random(digits)
    values = [float(number) / 2**part for number in range(-300, 300) for part in range(6)]
    for _ in range(3_000):
        near = (source.randrange(10**9) + 0.5) / 10**digits
        values += [near, np.nextafter(near, 0), np.nextafter(near, 1e300), source.gauss(0, 1)]
        values.append(source.uniform(1, 2) * 2.0 ** source.randrange(-60, 80))
        values.append(struct.unpack("d", source.randbytes(8))[0])
        values.append(float(source.randrange(2**53)) / 2 ** source.randrange(8))
    values = [float(value) for value in values if abs(value) <= 1e100]  # numpy rounds its own floats otherwise
    wanted = [round(value, digits) for value in values]
    made = _rounded(np.array(values), digits, 10.0**digits)
    assert [value.hex() for value in made.tolist()] == [value.hex() for value in wanted]


@pytest.mark.parametrize("name", SETS)
def test_a_part_of_a_data_set(data_dir: Path, name: str) -> None:
    events = numbers_only(regression_set(data_dir, name, 1_000))
    check_same(take(tree.HoeffdingTreeRegressor()), tree.HoeffdingTreeRegressor(), events)


EVERY_SET = (
    *SETS,
    "air_quality",
    "auto_mpg",
    "communities_crime",
    "concrete",
    "cpu_act",
    "cpu_small",
    "qm9_10k",
    "superconductor_sample",
    "wine_red",
)
WHOLE: dict[str, dict[str, Any]] = {"default": {}, "eager": EAGER, "means": {**EAGER, "leaf_prediction": "mean"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    some(
        [("bike_hourly", "default"), ("communities_crime", "default"), ("wine_white", "eager"), ("abalone", "means")],
        product(EVERY_SET, WHOLE),
    ),
)
def test_a_data_set(data_dir: Path, name: str, parameters: str) -> None:
    """Numbers that repeat, 102 features, deep trees, and a text."""
    made, events = WHOLE[parameters], regression_set(data_dir, name, 10_000)
    events = events if takes_text(made) else numbers_only(events)
    check_same(take(tree.HoeffdingTreeRegressor(**made)), tree.HoeffdingTreeRegressor(**made), events)
