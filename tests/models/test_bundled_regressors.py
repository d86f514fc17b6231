"""The bundled regressors are useful with their defaults: raw units, many features, texts, and rows that are absurd."""

from pathlib import Path

import pytest

from glasstream.models.river.catalogue import BUNDLED
from tests.support.bundled_regressors import EVENTS, SETS, compared, incomes
from tests.support.examples import some
from tests.support.learning_streams import regression_set

every_model = pytest.mark.parametrize("model", BUNDLED)


@pytest.mark.parametrize(
    ("data", "model"),
    some(
        [("superconductor_sample", "linear"), ("wine_white", "tree"), ("california_housing", "forest")],
        [(data, model) for data in SETS for model in BUNDLED],
    ),
)
def test_a_model_beats_the_mean_of_the_past_by_row_1000(data_dir: Path, data: str, model: str) -> None:
    standing, largest = compared(model, regression_set(data_dir, data, EVENTS))
    assert standing.model < 0.97 * standing.constant
    assert largest < 10.0, "a prediction is far outside of the targets so far"


@every_model
def test_raw_units_and_texts(model: str) -> None:
    standing, _ = compared(model, list(incomes(EVENTS)))
    assert standing.model < 0.95 * standing.constant


def test_trees_use_texts() -> None:
    """The trade and the state tell most of an income."""
    events = list(incomes(3_000))
    without = [({name: value for name, value in x.items() if not isinstance(value, str)}, y) for x, y in events]
    for model in ("tree", "forest"):
        assert compared(model, events)[0].model < 0.8 * compared(model, without)[0].model


@every_model
@pytest.mark.parametrize("row", [0, 1, 2, 500])
def test_an_absurd_row_does_not_ruin_what_follows(model: str, row: int) -> None:
    events = list(incomes(EVENTS))
    events[row][0].update(savings=1e15, time=-1e12, days=1e9)
    standing, _ = compared(model, events, since=row + 1)
    assert standing.model < 0.97 * standing.constant


@every_model
def test_a_feature_that_was_constant_may_change(model: str) -> None:
    """The scaler has divided by almost nothing until then."""
    events = list(incomes(3_000))
    for number, (x, _) in enumerate(events):
        x["constant"] = float(number >= 2_500)
    standing, largest = compared(model, events)
    assert standing.model < 0.95 * standing.constant
    assert largest < 3.0
