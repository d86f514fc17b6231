"""ICE curves of a block: what the model says with one feature at a time on its points."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glasstream.base.errors import ModelError
from glasstream.explain.pdp import contributions as ipdp
from glasstream.models.predictors.predictor import Output

RNG = np.random.Generator(np.random.PCG64(4))


class Formula:
    """A model that is a function of rows, (n, d) to (n, k)."""

    compiled = True

    def __init__(self, formula: Callable[[np.ndarray], np.ndarray], classes: tuple[str, ...] = ()) -> None:
        self.formula, self.classes = formula, classes
        self.task: Any = "classification" if classes else "regression"
        self.features = ("a", "b", "c")
        self.asked = 0

    def evaluate(self, rows: np.ndarray) -> Output:
        self.asked += len(rows)
        values = self.formula(rows).reshape(len(rows), -1)
        return Output(values, np.full(len(rows), -1))


def three_classes(rows: np.ndarray) -> np.ndarray:
    """Predictor of the classes z, x, y that treats absent features differently."""
    given = np.nan_to_num(rows, nan=50.0)
    return np.column_stack((given[:, 0], given[:, 1] * given[:, 2], given.sum(axis=1)))


def some_points(count: int, m: int = 4) -> np.ndarray:
    points = RNG.normal(size=(count, m, 3))
    points[RNG.random(points.shape) < 0.2] = np.nan
    return points


def test_a_curve_has_the_predictions_at_its_points_and_nothing_elsewhere() -> None:
    model = Formula(three_classes, ("z", "x", "y"))
    rows = RNG.normal(size=(20, 3))
    rows[RNG.random(rows.shape) < 0.2] = np.nan
    points = some_points(20)
    columns = ipdp.outputs(model)
    ice = ipdp.curves(model, rows, points, columns)
    assert ice.shape == (20, 3, 4, 3)
    for (i, j, k, c), answer in np.ndenumerate(ice):
        row = rows[i].copy()
        row[j] = points[i, k, j]
        wanted = three_classes(row[np.newaxis])[0, columns[c].column]
        assert answer == wanted if not np.isnan(points[i, k, j]) else np.isnan(answer)


def test_places_without_a_point_cost_no_evaluation() -> None:
    model = Formula(three_classes, ("z", "x", "y"))
    points = np.full((5, 10, 3), np.nan)
    points[:, :2, 0] = RNG.normal(size=(5, 2))
    ipdp.curves(model, RNG.normal(size=(5, 3)), points, ipdp.outputs(model))
    assert model.asked == 5 + 5 * 2


def test_how_rows_are_cut_changes_no_bit() -> None:
    model = Formula(three_classes, ("z", "x", "y"))
    rows, points, columns = RNG.normal(size=(30, 3)), some_points(30), ipdp.outputs(model)
    whole = ipdp.curves(model, rows, points, columns)
    parts = [ipdp.curves(model, rows[a:b], points[a:b], columns) for a, b in ((0, 1), (1, 17), (17, 30))]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    ("classes", "named", "columns"),
    [
        ((), [None], [0]),
        (("only",), [], []),
        (("yes", "no"), ["yes"], [0]),
        (("no", "yes"), ["yes"], [1]),
        (("z", "x", "y"), ["x", "y", "z"], [1, 2, 0]),
    ],
)
def test_outputs_are_the_value_or_the_second_class_or_every_class_by_name(
    classes: tuple[str, ...], named: list[str | None], columns: list[int]
) -> None:
    found = ipdp.outputs(Formula(three_classes, classes))
    assert [output.name for output in found] == named
    assert [output.column for output in found] == columns


def test_one_class_can_be_chosen_and_their_number_is_bounded() -> None:
    model = Formula(three_classes, ("z", "x", "y"))
    assert ipdp.outputs(model, "z") == (ipdp.OutputOf("z", 0),)
    assert ipdp.outputs(model, "not yet") == ()
    assert [output.name for output in ipdp.outputs(model, most=2)] == ["x", "z"]
    with pytest.raises(ModelError, match="regression"):
        ipdp.outputs(Formula(three_classes), "z")


def test_a_block_without_rows_features_or_outputs_has_an_empty_answer() -> None:
    model = Formula(three_classes, ("only",))
    assert ipdp.curves(model, np.ones((2, 3)), np.ones((2, 4, 3)), ()).shape == (2, 3, 4, 0)
    columns = (ipdp.OutputOf("only", 0),)
    assert ipdp.curves(model, np.ones((0, 3)), np.ones((0, 4, 3)), columns).shape == (0, 3, 4, 1)
    assert ipdp.curves(model, np.ones((2, 0)), np.ones((2, 4, 0)), columns).shape == (2, 0, 4, 1)
    assert model.asked == 0


def test_a_row_is_unanswered_if_the_model_gave_no_number_at_one_of_its_points() -> None:
    model = Formula(lambda rows: np.where(rows[:, 0] > 2.0, np.nan, rows[:, 1]))
    points = np.full((3, 2, 3), np.nan)
    points[:, 0, 0] = [1.0, 3.0, 1.0]
    ice = ipdp.curves(model, np.zeros((3, 3)), points, ipdp.outputs(model))
    assert ipdp.unanswered(points, ice).tolist() == [False, True, False]


def test_a_surface_holds_the_answers_along_two_features() -> None:
    model = Formula(lambda rows: rows[:, 0] * 100 + rows[:, 2] * 10 + rows[:, 1])
    rows, points = RNG.normal(size=(6, 3)), some_points(6)
    surface = ipdp.surfaces(model, rows, points, (0, 2), ipdp.outputs(model))
    wanted = points[:, :, np.newaxis, 0] * 100 + points[:, np.newaxis, :, 2] * 10 + rows[:, 1].reshape(-1, 1, 1)
    np.testing.assert_array_equal(surface[..., 0], wanted)
