"""Maps of where two models part (003, 5.1)."""

from dataclasses import replace

import numpy as np
import pytest

from glasstream.base.errors import InputError, ModelError, SettingsError
from glasstream.detect.gbmap.encoding import Encoding
from glasstream.detect.gbmap.settings import GbmapSettings
from glasstream_lab.gbmap.difference import CLIP, fit_difference, logits
from tests.support.gbmap_examples import generator

ROWS = generator(1).normal(size=(500, 3))
SETTINGS = GbmapSettings(learners=4, beta=10.0, ridge=1e-6)


def before(rows: np.ndarray) -> np.ndarray:
    return np.asarray(3 * rows[:, 1] ** 2)


def test_the_map_goes_from_the_one_model_to_the_other() -> None:
    found = fit_difference(before, lambda rows: before(rows) + 2 * np.maximum(rows[:, 0] - 0.5, 0), ROWS, SETTINGS)
    assert found.gap == pytest.approx(np.square(2 * np.maximum(ROWS[:, 0] - 0.5, 0)).mean())
    assert found.left[0] == found.gap
    assert found.left[-1] < 0.01 * found.gap
    fresh = generator(2).normal(size=(100, 3))
    after = before(fresh) + 2 * np.maximum(fresh[:, 0] - 0.5, 0)
    assert np.square(found.map.predict(fresh) - after).mean() < 0.02 * found.gap


def test_the_first_half_space_is_where_the_models_part() -> None:
    found = fit_difference(before, lambda rows: before(rows) + 2 * np.maximum(rows[:, 0] - 0.5, 0), ROWS, SETTINGS)
    part = ROWS[:, 0] > 0.5
    assert (found.map.active(ROWS)[:, 0] == part).mean() > 0.9
    assert found.active[0] == pytest.approx(part.mean(), abs=0.1)
    assert np.abs(found.map.weights[0]).argmax() == 0


def test_equal_models_leave_nothing_to_map() -> None:
    found = fit_difference(before, before, ROWS, SETTINGS)
    assert found.gap == 0
    assert not found.map.embed(ROWS).any()


def test_probabilities_enter_as_clipped_logits() -> None:
    found = fit_difference(
        lambda rows: np.full(len(rows), 0.5), lambda rows: np.ones(len(rows)), ROWS, SETTINGS, probabilities=True
    )
    assert found.gap == pytest.approx(np.log((1 - CLIP) / CLIP) ** 2)
    assert found.map.predict(ROWS) == pytest.approx(np.full(500, 13.8155), abs=1e-2)
    p = np.array([0.0, 0.2, 1.0])
    assert logits(lambda rows: p)(ROWS) == pytest.approx([-13.8155, np.log(0.25), 13.8155], abs=1e-4)


def test_models_of_rows_with_gaps_are_compared_on_encoded_rows() -> None:
    table = np.column_stack((ROWS, generator(3).integers(0, 3, size=500)))
    table[::4, 1] = np.nan
    encoding = Encoding.learn(table, [3])

    def first(rows: np.ndarray) -> np.ndarray:
        return np.nan_to_num(rows[:, 1])

    found = fit_difference(first, lambda rows: first(rows) + 2 * (rows[:, 3] == 1), table, SETTINGS, encoding=encoding)
    assert found.map.initial == 0.0
    assert found.left[-1] < 0.01 * found.gap
    assert encoding.columns[np.abs(found.map.weights[0]).argmax()] == 3
    assert found.map.predict(encoding.encode(table)) == pytest.approx(2.0 * (table[:, 3] == 1), abs=0.3)


def test_probabilities_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="is it a regressor"):
        fit_difference(before, before, ROWS, SETTINGS, probabilities=True)


def test_a_model_that_gives_no_number_is_refused() -> None:
    with pytest.raises(ModelError, match="expected the model after to give 500 finite numbers"):
        fit_difference(before, lambda rows: before(rows)[:-1], ROWS, SETTINGS)


def test_another_loss_is_refused() -> None:
    with pytest.raises(SettingsError, match="expected the quadratic loss"):
        fit_difference(before, before, ROWS, replace(SETTINGS, loss="logistic"))
