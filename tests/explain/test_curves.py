"""Smoothed curves against their definition, and what anyone can check (row 9)."""

from itertools import pairwise

import numpy as np
import pytest

from glasstream.base.errors import FrameError
from glasstream.explain.intervals import normal
from glasstream.explain.pdp.curves import Curves, PerRow
from glasstream.explain.pdp.surfaces import Surface
from glasstream.explain.smoothing import Smoothing

NUMERIC = np.array([False])
CATEGORICAL = np.array([True])


def rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def moving_grid(count: int, m: int = 6) -> np.ndarray:
    """(count, m, 1) equidistant points of a range that drifts and widens."""
    low = np.cumsum(rng(1).normal(size=count))
    high = low + 1.0 + np.abs(np.cumsum(rng(2).normal(size=count)))
    return np.linspace(low, high, m, axis=1)[:, :, np.newaxis]


@pytest.mark.parametrize("alpha", [0.001, 0.05, 1.0])
def test_row_9_a_constant_model_gives_the_constant_from_the_first_row_on(alpha: float) -> None:
    curves = Curves(alpha, keep=0)
    points = moving_grid(3_000)
    for row in range(0, 3_000, 100):
        curves.update(points[row : row + 1], np.full((1, 1, 6, 1), 0.1), NUMERIC, [None])
        curves.update(points[row + 1 : row + 100], np.full((99, 1, 6, 1), 0.1), NUMERIC, [None])
        assert np.abs(curves.curve - 0.1).max() <= 1e-12
    (effect,) = curves.effects()
    assert effect.importance <= 1e-12 and effect.variance == pytest.approx([0.0] * 6, abs=1e-24)


def test_row_9_a_linear_model_with_a_moving_grid_leaves_no_trace_of_the_movement() -> None:
    """Curve minus slope times grid is the same number at every point."""
    curves = Curves(0.01, keep=0)
    points = moving_grid(3_000)
    others = rng(3).normal(size=(3_000, 1, 1))
    ice = (2.5 * points + others).transpose(0, 2, 1)[:, :, :, np.newaxis]
    for row in range(3_000):
        curves.update(points[row : row + 1], ice[row : row + 1], NUMERIC, [None])
        rest = curves.curve[0, :, 0] - 2.5 * curves.grid[0, :, 0]
        assert np.ptp(rest) <= 1e-12 * (1 + np.abs(rest).max())


def random_block(count: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """A numeric feature that vanishes for a while and a categorical one whose categories come and go; two outputs."""
    draw = rng(seed)
    points = np.full((count, 4, 2), np.nan)
    points[:, :, 0] = np.sort(draw.normal(size=(count, 4)), axis=1)
    points[count // 3 : count // 2, :, 0] = np.nan
    codes = np.array([0.0, 1.0, 2.0, np.nan])
    for row in range(count):
        if row % 23 == 0:
            codes[draw.integers(4)] = draw.choice([np.nan, *(code for code in range(9) if code not in codes)])
        points[row, :, 1] = codes
    ice = draw.normal(size=(count, 2, 4, 2))
    ice[np.isnan(points).transpose(0, 2, 1)] = np.nan
    return points, ice


def test_equals_its_definition_keyed_by_category() -> None:
    """Weighted means over the rows since the point last came, a category being a point wherever it stands."""
    alpha, (points, ice) = 0.05, random_block(300)
    curves = Curves(alpha, keep=0)
    since: list[dict[float, list[tuple[float, np.ndarray]]]] = [{}, {}]
    for row in range(300):
        curves.update(points[row : row + 1], ice[row : row + 1], np.array([False, True]), ["a", "b"])
        for j in (0, 1):
            own = points[row, :, j]
            keys = {(own[k] if j else k): k for k in range(4) if not np.isnan(own[k])}
            since[j] = {key: [*since[j].get(key, []), (own[k], ice[row, j, k])] for key, k in keys.items()}
        shown = {(effect.slot, effect.output): effect for effect in curves.effects()}
        assert len(shown) == 2 * sum(map(bool, since))
        for (j, output), effect in shown.items():
            wanted = []
            for seen in since[j].values():
                weights = (1 - alpha) ** np.arange(len(seen) - 1, -1, -1.0)
                weights /= weights.sum()
                grid = sum(w * x for w, (x, _) in zip(weights, seen, strict=True))
                answers = np.array([y["ab".index(str(output))] for _, y in seen])
                mean = (weights * answers).sum()
                wanted.append((grid, mean, (weights * (answers - mean) ** 2).sum()))
            wanted.sort()
            found = list(zip(effect.grid, effect.curve, effect.variance, strict=True))
            assert np.array(found) == pytest.approx(np.array(wanted), abs=1e-9)


def test_how_rows_are_cut_and_restarts_change_no_bit() -> None:
    points, ice = random_block(300)
    categorical = np.array([False, True])
    whole, parts = Curves(0.02, keep=7), Curves(0.02, keep=7)
    once = whole.update(points, ice, categorical, ["a", "b"])
    found = []
    for begin, end in pairwise([0, 1, 4, 100, 290, 299, 300]):
        parts = Curves.restore(0.02, 7, *parts.state())
        found.append(parts.update(points[begin:end], ice[begin:end], categorical, ["a", "b"]))
    for name in PerRow._fields:
        assert np.concatenate([getattr(one, name) for one in found]).tobytes() == getattr(once, name).tobytes(), name
    assert parts.state()[0] == whole.state()[0]
    for name, array in whole.state()[1].items():
        assert array.tobytes() == parts.state()[1][name].tobytes(), name


def test_what_a_detector_watches_is_as_defined() -> None:
    points, ice = random_block(120)
    curves = Curves(0.1, keep=0)
    for row in range(120):
        before = {(effect.slot, effect.output): effect for effect in curves.effects()}
        seen = curves.update(points[row : row + 1], ice[row : row + 1], np.array([False, True]), ["a", "b"])
        after = {(effect.slot, effect.output): effect for effect in curves.effects()}
        for j in (0, 1):
            there = ~np.isnan(points[row, :, j])
            for c, output in enumerate("ab"):
                own = ice[row, j, there, c]
                if not there.any():
                    assert all(np.isnan(one[0, j, c]) for one in seen)
                    continue
                assert seen.deviation[0, j, c] == pytest.approx(((own - own.mean()) ** 2).sum())
                spread = np.ptp(own) / 4 if j else own.std(ddof=1)
                assert seen.importance[0, j, c] == pytest.approx(spread)
                smoothed = np.array(after[j, output].curve)
                assert seen.smoothed_importance[0, j, c] == after[j, output].importance == curves.importance[j, c]
                assert seen.smoothed_deviation[0, j, c] == pytest.approx(((smoothed - smoothed.mean()) ** 2).sum())
                was = before.get((j, output))
                if j == 0 and was is not None:
                    difference = own - was.curve
                    wanted = np.sqrt(((difference - difference.mean()) ** 2).mean())
                    assert seen.distance[0, j, c] == pytest.approx(wanted)
                elif was is None:
                    assert np.isnan(seen.distance[0, j, c])


def test_a_curve_that_is_only_higher_has_the_same_shape() -> None:
    curves = Curves(0.1, keep=0)
    points = np.arange(5.0).reshape(1, 5, 1)
    shape = np.array([0.0, 2.0, 1.0, 1.0, 5.0])
    for level in (0.0, 10.0):
        seen = curves.update(points, (shape + level).reshape(1, 1, 5, 1), NUMERIC, [None])
    assert seen.distance[0, 0, 0] == pytest.approx(0.0, abs=1e-12)


def test_a_new_category_in_a_place_begins_anew() -> None:
    curves = Curves(0.1, keep=0)
    for code, answer in ((3.0, 1.0), (3.0, 1.0), (5.0, 9.0)):
        curves.update(np.array([[[code]]]), np.array([[[[answer]]]]), CATEGORICAL, [None])
    (effect,) = curves.effects()
    assert (effect.grid, effect.curve, effect.n) == ([5.0], [9.0], 3)


def test_a_feature_that_vanishes_is_forgotten_and_counts_anew() -> None:
    curves = Curves(0.1, keep=3)
    there, gone = np.ones((4, 2, 1)), np.full((1, 2, 1), np.nan)
    answers = np.ones((4, 1, 2, 1))
    curves.update(there, answers, NUMERIC, [None])
    curves.update(gone, np.full((1, 1, 2, 1), np.nan), NUMERIC, [None])
    assert list(curves.effects()) == []
    curves.update(there[:1], 7.0 * answers[:1], NUMERIC, [None])
    (effect,) = curves.effects()
    assert (effect.curve, effect.n, curves.count) == ([7.0, 7.0], 1, 6)
    assert len(effect.ice) == 2  # of the last three rows one had no point


def test_features_points_and_outputs_that_come_later_begin_where_they_come() -> None:
    curves = Curves(0.5, keep=4)
    curves.update(np.ones((2, 2, 1)), np.full((2, 1, 2, 1), 3.0), NUMERIC, ["b"])
    both = np.array([False, False])
    curves.update(np.ones((1, 3, 2)), np.full((1, 2, 3, 2), 5.0), both, ["a", "b"])
    shown = {(effect.slot, effect.output): effect for effect in curves.effects()}
    assert {key: effect.n for key, effect in shown.items()} == {(0, "a"): 1, (0, "b"): 3, (1, "a"): 1, (1, "b"): 1}
    assert shown[0, "b"].curve == pytest.approx([3 + 2 * 0.5 / 0.875] * 2 + [5.0])
    assert shown[0, "a"].curve == [5.0] * 3
    curves.update(np.ones((1, 3, 2)), np.full((1, 2, 3, 1), 5.0), both, ["a"])
    assert [effect.n for effect in curves.effects()] == [2, 2]


def test_the_last_ice_curves_are_kept_oldest_first() -> None:
    curves = Curves(0.1, keep=3)
    points = np.broadcast_to(np.array([2.0, 1.0]).reshape(1, 2, 1), (5, 2, 1))
    ice = np.arange(10.0).reshape(5, 1, 2, 1)
    curves.update(points, ice, CATEGORICAL, [None])
    (effect,) = curves.effects()
    assert [(one.grid, one.curve) for one in effect.ice] == [
        ([1.0, 2.0], [5.0, 4.0]),
        ([1.0, 2.0], [7.0, 6.0]),
        ([1.0, 2.0], [9.0, 8.0]),
    ]


def test_state_is_bounded_however_long_the_stream() -> None:
    curves = Curves(0.01, keep=5)
    points, ice = random_block(300)
    sizes = set()
    for _ in range(3):
        curves.update(points, ice, np.array([False, True]), ["a", "b"])
        sizes.add(sum(array.nbytes for array in curves.state()[1].values()))
    assert len(sizes) == 1


def test_a_state_that_does_not_fit_together_is_refused() -> None:
    curves = Curves(0.1, keep=3)
    curves.update(np.ones((4, 2, 1)), np.ones((4, 1, 2, 1)), NUMERIC, [None])
    meta, arrays = curves.state()
    for name in arrays:
        with pytest.raises(FrameError):
            Curves.restore(0.1, 3, meta, {key: array for key, array in arrays.items() if key != name})
        with pytest.raises(FrameError):
            Curves.restore(0.1, 3, meta, arrays | {name: np.zeros((3, 3, 3, 3, 3))})
    with pytest.raises(FrameError):
        Curves.restore(0.1, 3, {**meta, "outputs": []}, arrays)


def test_a_surface_is_smoothed_cell_by_cell() -> None:
    surface = Surface.empty(0.1)
    draw = rng(8)
    points, answers = draw.normal(size=(200, 3, 2)), draw.normal(size=(200, 3, 3, 1))
    surface.update(points[:50], answers[:50], np.array([False, False]), [None])
    surface.update(points[50:], answers[50:], np.array([False, False]), [None])
    weights = 0.9 ** np.arange(199, -1, -1.0)
    weights /= weights.sum()
    a, b, value = surface.shown(None)
    assert value == pytest.approx((weights.reshape(-1, 1, 1) * answers[..., 0]).sum(axis=0), abs=1e-12)
    assert a == pytest.approx(np.repeat((weights.reshape(-1, 1) * points[..., 0]).sum(axis=0)[:, None], 3, 1))
    assert b == pytest.approx(np.repeat((weights.reshape(-1, 1) * points[..., 1]).sum(axis=0)[None], 3, 0))


def test_a_cell_of_a_surface_begins_anew_with_another_category() -> None:
    surface = Surface.empty(0.1)
    for code in (1.0, 1.0, 2.0):
        points = np.array([[[0.5, code], [np.nan, np.nan]]])
        surface.update(points, np.full((1, 2, 2, 1), code), np.array([False, True]), [None])
    a, b, value = surface.shown(None)
    assert (a[0, 0], b[0, 0], value[0, 0]) == (0.5, 2.0, 2.0)
    assert np.isnan(value.ravel()[1:]).all()


def test_the_interval_of_a_point_is_the_one_of_a_smoothing_of_its_predictions() -> None:
    """Also of a point that began later than the others."""
    alpha, count, late = 0.02, 400, 150
    curves = Curves(alpha, keep=0)
    points = np.tile([[[0.0], [1.0]]], (count, 1, 1))
    points[:late, 1] = np.nan
    ice = rng(4).normal(size=(count, 1, 2, 1))
    for begin in range(0, count, 7):
        curves.update(points[begin : begin + 7], ice[begin : begin + 7], CATEGORICAL, [None])
        (effect,) = curves.effects()
        for first, margin in zip((0, late), effect.margin, strict=False):
            smoothing = Smoothing.empty(alpha)
            smoothing.update(ice[first : begin + 7, 0, int(first > 0)])
            interval = normal(smoothing)
            assert (interval is None) == (margin is None)
            assert margin is None or margin == pytest.approx((interval.high - interval.low)[0] / 2, rel=1e-9)
    assert None not in effect.margin
