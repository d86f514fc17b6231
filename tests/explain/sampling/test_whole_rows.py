"""The draws of iSAGE: whole rows of the reservoir and an order of the features (002, Algorithm 1, lines 3 and 11)."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from glasstream.base.draws import stream_key
from glasstream.explain.sampling.orders import orders
from glasstream.explain.sampling.reservoir import SAMPLINGS, Reservoir, Wanted

KEY = stream_key(3, "whole rows")
SIZE = 10


def numbered(count, width=3):
    """Rows that tell their own number in every feature."""
    return np.arange(count, dtype=float)[:, None] + np.arange(width) / 10


def drawn(sampling, wanted, count=400, cuts=(0, 400), width=3):
    reservoir = Reservoir.empty(SIZE, sampling, KEY)
    rows = numbered(count, width)
    return [np.concatenate(parts) for parts in zip(
        *(reservoir.serve(rows[a:b], a, SIZE, wanted) for a, b in pairwise(cuts)), strict=True
    )]  # fmt: skip


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("fresh", [False, True])
def test_whole_rows_are_rows_that_entered_before(sampling, fresh):
    _, rows, *_ = drawn(sampling, Wanted(rows=4, fresh=fresh))
    assert rows.shape == (390, 2 if fresh else 1, 4, 3)
    times = rows[..., 0]
    assert (times == np.floor(times)).all()
    assert (times < np.arange(SIZE, 400)[:, None, None]).all()
    assert rows == pytest.approx(times[..., None] + np.arange(3) / 10)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_what_one_method_draws_does_not_depend_on_the_other(sampling):
    both = drawn(sampling, Wanted(values=2, rows=4))
    assert drawn(sampling, Wanted(values=2))[0].tobytes() == both[0].tobytes()
    assert drawn(sampling, Wanted(rows=4))[1].tobytes() == both[1].tobytes()
    assert (both[0][:, 0] != both[1][:, 0, 0]).any()


@pytest.mark.parametrize("fresh", [False, True])
def test_how_rows_are_cut_into_blocks_changes_no_draw(fresh):
    wanted = Wanted(values=1, rows=2, fresh=fresh)
    for whole, cut in zip(
        drawn("geometric", wanted), drawn("geometric", wanted, cuts=(0, 3, 10, 11, 12, 200, 200, 400)), strict=True
    ):
        assert cut.tobytes() == whole.tobytes()


def test_steps_share_their_rows_unless_they_are_fresh():
    shared, fresh = (drawn("geometric", Wanted(rows=2, fresh=fresh))[1] for fresh in (False, True))
    assert fresh[:, :1].tobytes() == shared.tobytes()
    assert (fresh[:, 1] != fresh[:, 0]).any()


@pytest.mark.parametrize("width", [0, 1])
def test_one_feature_or_none_is_built_up_in_no_step(width):
    assert drawn("geometric", Wanted(rows=2, fresh=True), width=width)[1].shape == (390, 0, 2, width)
    assert drawn("geometric", Wanted(rows=2), width=width)[1].shape == (390, 1, 2, width)


def test_a_feature_that_appears_is_absent_in_the_rows_drawn():
    reservoir = Reservoir.empty(3, "geometric", KEY)
    reservoir.serve(np.ones((3, 1)), 0, 3, Wanted(rows=1))
    rows = reservoir.serve(np.ones((1, 2)), 3, 3, Wanted(rows=5)).rows
    assert (rows[..., 0] == 1.0).all() and np.isnan(rows[..., 1]).all()


def test_every_row_held_is_drawn_equally_often():
    reservoir = Reservoir.empty(SIZE, "geometric", KEY)
    rows = reservoir.serve(numbered(SIZE + 1, 1), 0, SIZE, Wanted(rows=50_000)).rows
    counts = np.bincount(rows.ravel().astype(int), minlength=SIZE)
    assert np.abs(counts / 50_000 - 1 / SIZE).max() < 4 * np.sqrt(0.09 / 50_000)


@pytest.mark.parametrize("fresh", [False, True])
def test_the_rows_of_a_step_are_different_and_all_sets_of_them_equally_likely(fresh):
    reservoir = Reservoir.empty(4, "window", KEY)
    rows = reservoir.serve(np.tile(np.arange(20_004.0)[:, None] % 4, 3), 0, 4, Wanted(rows=2, fresh=fresh)).rows
    pairs = np.sort(rows[:, -1, :, 0], axis=1)
    sets, counts = np.unique(pairs, axis=0, return_counts=True)
    assert sets.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert np.abs(counts / 20_000 - 1 / 6).max() < 4 * np.sqrt(5 / 36 / 20_000)
    whole = Reservoir.empty(4, "geometric", KEY).serve(np.arange(9.0)[:, None], 0, 4, Wanted(rows=4)).rows
    assert all(len(set(drawn)) == 4 for drawn in whole.reshape(5, 4))


def test_orders_are_permutations_each_equally_likely():
    made = orders(KEY, 0, 24_000, 4)
    counts = np.unique(made, axis=0, return_counts=True)
    assert counts[0].tolist() == [list(order) for order in permutations(range(4))]
    assert np.abs(counts[1] / 24_000 - 1 / 24).max() < 4 * np.sqrt(1 / 24 / 24_000)


def test_an_order_is_a_function_of_the_row_and_the_number_of_features():
    whole = orders(KEY, 5, 20, 6)
    assert orders(KEY, 12, 1, 6)[0].tolist() == whole[7].tolist()
    assert orders(KEY, 0, 0, 6).shape == (0, 6)
    assert orders(KEY, 0, 3, 0).shape == (3, 0)
    assert orders(KEY, 0, 3, 1).tolist() == [[0], [0], [0]]
