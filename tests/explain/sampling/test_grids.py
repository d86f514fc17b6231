"""The laws of grids: what points a row gets, and that nothing but the order of rows decides it."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from glasstream.base.draws import Purpose, stream_key, uniform
from glasstream.base.errors import FrameError, SettingsError, StateError
from glasstream.events.features import Kind
from glasstream.explain.sampling import knots
from glasstream.explain.sampling.grids import Grids, points
from glasstream.explain.sampling.settings import GRIDS, GridSettings

KEY = stream_key(3, "grids")
KINDS = [Kind.NUMBER, Kind.TEXT, Kind.NUMBER, Kind.BOOLEAN]


def mixed(count: int, seed: int = 1) -> np.ndarray:
    """A gaussian, a text, a rising number and a boolean, each absent at times."""
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = np.column_stack(
        (rng.normal(size=count), rng.integers(0, 6, count), np.arange(count) / 7.0, rng.random(count) < 0.5)
    ).astype(float)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


def laid(rows: np.ndarray, settings: GridSettings, start: int = 1, kinds: list[Kind] = KINDS) -> np.ndarray:
    kinds = kinds[: rows.shape[1]]
    return points(Grids.empty(settings, KEY).pass_through(rows, kinds, 0, start), kinds, settings)


def cut(rows: np.ndarray, settings: GridSettings, cuts: list[int], start: int) -> np.ndarray:
    """Return the same as `laid`, in blocks, with the state written and read between them."""
    grids = Grids.empty(settings, KEY)
    parts = []
    for begin, end in pairwise(cuts):
        grids = Grids.restore(settings, KEY, grids.state())
        parts.append(points(grids.pass_through(rows[begin:end], KINDS, begin, start), KINDS, settings))
    return np.concatenate(parts)


@pytest.mark.parametrize("grid", GRIDS)
def test_neither_cuts_nor_restarts_change_a_bit(grid: str) -> None:
    settings = GridSettings(grid=grid, points=5, categories=4, window=40, store=20)
    rows = mixed(400)
    whole = laid(rows, settings, start=7)
    assert cut(rows, settings, [0, 1, 5, 7, 8, 100, 101, 399, 400], start=7).tobytes() == whole.tobytes()


@pytest.mark.parametrize("grid", GRIDS)
def test_a_row_enters_after_its_grid_is_laid(grid: str) -> None:
    settings = GridSettings(grid=grid, window=40, store=20)
    rows = mixed(100)
    other = rows.copy()
    other[60:] = 1e6
    assert laid(rows, settings)[:60].tobytes() == laid(other, settings)[:60].tobytes()
    assert laid(rows, settings)[60:].tobytes() != laid(other, settings)[60:].tobytes()


def test_points_are_equidistant_and_end_on_the_extremes() -> None:
    settings = GridSettings(grid="extremes", points=4, window=3)
    made = laid(np.array([[0.1], [5.0], [2.0], [0.7], [9.0]]), settings)
    assert made[-1, [0, 3], 0].tolist() == [0.7, 5.0]
    assert np.diff(made[-1, :4, 0]) == pytest.approx(4.3 / 3)
    assert np.isnan(made[-1, 4:, 0]).all()  # there are places for 10 categories


def test_one_value_gives_equal_points_and_a_huge_range_finite_ones() -> None:
    settings = GridSettings(grid="extremes", points=7, window=2)
    made = laid(np.array([[0.1], [0.1], [0.1]]), settings)
    assert (made[-1, :7, 0] == 0.1).all()
    made = laid(np.array([[-1.7e308], [1.7e308], [0.0]]), settings)
    assert np.isfinite(made[-1, :7, 0]).all() and (np.diff(made[-1, :7, 0]) > 0).all()


@pytest.mark.parametrize("grid", GRIDS)
def test_a_feature_not_seen_for_a_window_has_no_points(grid: str) -> None:
    settings = GridSettings(grid=grid, points=3, window=10, store=10)
    rows = np.full((40, 1), np.nan)
    rows[5] = 1.0
    rows[30] = 2.0
    made = laid(rows, settings)
    there = np.flatnonzero(~np.isnan(made[:, 0, 0])) + 1
    assert there.tolist() == [*range(6, 16), *range(31, 40)]
    assert (made[30:, :3, 0] == 2.0).all()  # and what was is forgotten


def test_a_feature_that_comes_later_has_points_from_its_second_row_on() -> None:
    settings = GridSettings(grid="extremes", points=2)
    grids = Grids.empty(settings, KEY)
    grids.pass_through(np.ones((5, 1)), KINDS[:1], 0, 1)
    made = points(grids.pass_through(np.ones((2, 2)), KINDS[:2], 5, 1), KINDS[:2], settings)
    assert np.isnan(made[0, :, 1]).all()
    assert made[1, 0, 1] == 1.0 and np.isnan(made[1, 1:, 1]).all()


def categories(codes: list[float], settings: GridSettings) -> list[list[float]]:
    made = laid(np.array(codes).reshape(-1, 1), settings, kinds=[Kind.TEXT])[:, :, 0]
    return [row[~np.isnan(row)].tolist() for row in made]


def test_a_category_has_a_point_while_it_is_in_use() -> None:
    settings = GridSettings(grid="extremes", points=2, categories=3, window=3)
    used = categories([4, 7, 7, 7, 7, 4, 4], settings)
    assert used == [[4], [4, 7], [4, 7], [7], [7], [4, 7]]


def test_categories_beyond_the_bound_wait_for_a_place_and_are_counted() -> None:
    settings = GridSettings(grid="extremes", points=2, categories=2, window=3)
    grids = Grids.empty(settings, KEY)
    codes = np.array([[0.0], [1.0], [2.0], [1.0], [2.0], [2.0]])
    made = points(grids.pass_through(codes, [Kind.TEXT], 0, 1), [Kind.TEXT], settings)[:, :, 0]
    assert made[-2:].tolist()[0][1] == 1.0 and 2.0 not in made[:4]
    assert made[-1].tolist() == [2.0, 1.0]
    assert grids.categories.left_out.tolist() == [1]


def reference_store(values: np.ndarray, size: int, probability: float) -> list[list[float]]:
    """Algorithm 3 in plain words: the values held before each row."""
    held: list[float] = []
    before = []
    for row, value in enumerate(values):
        before.append(list(held))
        if np.isnan(value):
            continue
        if len(held) < size:
            held.append(value)
        elif uniform(KEY, row, int(Purpose.FREQUENCY_STORE), 0) < probability:
            held = [*held[1:], value]
    return before


@pytest.mark.parametrize("grid", ["quantile_range", "quantiles"])
def test_quantiles_are_those_of_the_frequency_store(grid: str) -> None:
    settings = GridSettings(grid=grid, points=5, window=80, store=20)
    rng = np.random.Generator(np.random.PCG64(2))
    values = np.where(rng.random(600) < 0.1, np.nan, rng.integers(0, 30, 600) / 10)
    made = laid(values.reshape(-1, 1), settings)[:, :5, 0]
    levels = [0.05, 0.95] if grid == "quantile_range" else np.linspace(0.05, 0.95, 5)
    for row, held in enumerate(reference_store(values, 20, 0.25)):
        if row > 0 and held:
            wanted = np.quantile(held, levels)
            if grid == "quantile_range":
                wanted = np.linspace(*wanted, 5)
            assert made[row - 1] == pytest.approx(wanted, abs=1e-12)


def test_the_frequency_store_covers_its_window() -> None:
    """L values of an entrance probability p cover L / p rows."""
    settings = GridSettings(grid="quantile_range", points=2, window=1_000, store=100, low=0.0, high=1.0)
    made = laid(np.arange(20_000.0).reshape(-1, 1), settings)[5_000:, :2, 0]
    now = np.arange(5_001, 20_000)
    assert np.mean(now - made[:, 0]) == pytest.approx(1_000, rel=0.03)


@pytest.mark.parametrize("grid", GRIDS)
def test_knots_written_as_changes_come_back_bit_by_bit(grid: str) -> None:
    settings = GridSettings(grid=grid, points=5, window=40, store=20)
    rows = mixed(500)
    made = Grids.empty(settings, KEY).pass_through(rows, KINDS, 0, 3)
    written = knots.changes(made)
    assert knots.unchanged(written, *made.shape).tobytes() == made.tobytes()
    assert knots.changes(made[:0]).row.size == 0
    numbers = made[:, :, [0]]
    if grid == "extremes":  # the range of a stationary stream seldom changes
        assert len(knots.changes(numbers).row) < len(made) / 2


def test_negative_zeros_survive_too() -> None:
    made = np.array([[[0.0]], [[-0.0]], [[np.nan]]])
    assert knots.unchanged(knots.changes(made), 3, 1, 1).tobytes() == made.tobytes()


@pytest.mark.parametrize(
    "wrong",
    [
        {"row": [1, 0]},
        {"row": [0, 3]},
        {"row": [-1, 0]},
        {"place": [0, 4]},
        {"place": [-1, 0]},
        {"row": [0]},
        {"value": [1.0]},
    ],
)
def test_changes_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    given = {"row": [0, 2], "place": [0, 3], "value": [1.0, 2.0]} | wrong
    row, place = (np.array(given[name], np.int32) for name in ("row", "place"))
    with pytest.raises(FrameError, match="changes of grids"):
        knots.unchanged(knots.Changes(row, place, np.array(given["value"])), 3, 2, 2)


def test_settings_out_of_range_are_all_said_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        GridSettings(grid="quantiles", points=1, categories=2_000, window=5, store=6, low=0.9, high=0.1)
    assert len(raised.value.findings) == 4


def test_a_state_of_other_grids_is_refused() -> None:
    grids = Grids.empty(GridSettings(grid="extremes"), KEY)
    grids.pass_through(mixed(5), KINDS, 0, 1)
    state = grids.state()
    with pytest.raises(StateError):
        Grids.restore(GridSettings(grid="quantiles"), KEY, state)
    with pytest.raises(StateError):
        Grids.restore(GridSettings(grid="extremes", categories=3), KEY, state)
