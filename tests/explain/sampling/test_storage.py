"""The laws of conditional removal by storage trees (002, Algorithms 3 and 4; row 8 of the table of numbers)."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from glasstream.base.draws import stream_key
from glasstream.base.errors import InputError, SettingsError
from glasstream.events.features import Kind
from glasstream.explain.sampling.settings import StorageSettings
from glasstream.explain.sampling.storage import ConditionalStorage
from tests.support.storage_streams import KINDS, Plain, alternates, has_nominal_branch, mixed, permutations

KEY = stream_key(1, "law")
SMALL = StorageSettings(size=10, depth=4, marginal=20, categories=5)


def new(settings: StorageSettings = SMALL) -> ConditionalStorage:
    return ConditionalStorage.empty(settings, KEY)


def numbers(width: int) -> list[Kind]:
    return [Kind.NUMBER] * width


def learn(storage: ConditionalStorage, rows: np.ndarray, kinds: list[Kind] | None = None, first: int = 0) -> None:
    count, width = rows.shape
    storage.pass_through(rows, first, first + count, np.empty((0, width), np.int64), 1, kinds or numbers(width))


def draw_last(rows: np.ndarray, order: list[int], draws: int, kinds: list[Kind] | None = None) -> np.ndarray:
    """(d - 1, draws, d) what is drawn for the last of the rows."""
    count, width = rows.shape
    return new().pass_through(rows, 0, count - 1, np.array([order]), draws, kinds or numbers(width))[0]


def test_row_8_only_a_feature_that_is_removed_alone_follows_the_truth() -> None:
    count, explained = 5_000, 2_000
    rng = np.random.default_rng(8)
    a, c = rng.normal(size=count), rng.normal(size=count)
    rows = np.column_stack((a, 0.99 * a + np.sqrt(1 - 0.99**2) * rng.normal(size=count), c))
    order = np.tile([2, 0, 1], (explained, 1))
    drawn = new(StorageSettings()).pass_through(rows, 0, count - explained, order, 1, numbers(3))[:, :, 0]
    truth = rows[-explained:]
    both = [np.corrcoef(drawn[:, 0, j], truth[:, j])[0, 1] for j in (0, 1)]
    one = np.corrcoef(drawn[:, 1, 1], truth[:, 1])[0, 1]
    assert np.abs(both).max() < 0.1
    assert one > 0.9


@pytest.mark.slow
def test_equal_to_a_plain_walk_over_rivers_nodes_for_5_000_mixed_events() -> None:
    count, m = 5_000, 2
    rows, orders = mixed(count), permutations(count, len(KINDS))
    storage, plain = new(), Plain(SMALL, KEY)
    for t in range(count):
        width = 5 if t < 2_000 else 6  # the last feature appears
        row = rows[t, :width]
        order = orders[t][orders[t] < width]
        trees = [*storage.trees, *[None] * (width - len(storage.trees))]
        wanted = plain.draw(trees, t, row, order, m)
        drawn = storage.pass_through(row.reshape(1, -1), t, 0, order.reshape(1, -1), m, KINDS)
        plain.enter(storage.trees, t, row)
        np.testing.assert_array_equal(drawn[0], wanted, err_msg=f"row {t}")
    assert storage.fell_back == plain.fell_back > 0
    assert alternates(storage)[1] > 0 and plain.dropped > 20 and has_nominal_branch(storage)
    assert storage.turned_away == storage.unlearned == 0


def cut(storage: ConditionalStorage, rows: np.ndarray, cuts: Iterable[int], *, reopened: bool = False) -> bytes:
    """Return what is drawn for rows in blocks; with `reopened`, the state is pickled and restored between them."""
    orders = permutations(len(rows), rows.shape[1])
    drawn = []
    for a, b in pairwise(cuts):
        explained = orders[max(a, 20) : b] if b > 20 else orders[:0]
        drawn.append(storage.pass_through(rows[a:b], a, 20, explained, 2, KINDS))
        if reopened:
            storage = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own
    assert alternates(storage)[0] > 0
    return np.concatenate(drawn).tobytes()


def test_neither_cuts_into_blocks_nor_a_restart_change_a_bit() -> None:
    rows = mixed(2_400)
    whole = cut(new(), rows, [0, 2_400])
    cuts = [0, 1, 19, 20, 21, 300, 301, 1_000, 1_650, 2_399, 2_400]
    assert cut(new(), rows, cuts) == whole
    assert cut(new(), rows, cuts, reopened=True) == whole


@pytest.mark.slow
def test_the_hash_seed_of_the_process_changes_no_bit() -> None:
    program = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1]);"
        "from tests.explain.sampling.test_storage import *;"
        "print(hashlib.sha256(cut(new(), mixed(2_000), [0, 2_000])).hexdigest())"
    )
    root = str(Path(__file__).resolve().parents[3])
    said = {
        subprocess.run(
            [sys.executable, "-c", program, root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


def test_what_is_held_stays_bounded_and_removed_leaves_drop_their_values() -> None:
    settings = StorageSettings(size=5, depth=3, values=60, marginal=10, categories=4)
    storage = new(settings)
    rng = np.random.default_rng(4)
    leaves_seen: set[int] = set()
    kept = []
    for epoch in range(30):
        a = rng.normal(size=250)
        sign = 1 if epoch % 4 < 2 else -1
        rows = np.column_stack((a, sign * a + rng.normal(0, 0.05, 250), rng.normal(size=250) + epoch))
        learn(storage, rows, first=250 * epoch)
        nodes = [node for tree in storage.trees if tree for node in tree.nodes]
        kept += nodes  # so that no identity comes twice
        used = storage.flat.place[storage.flat.place >= 0]
        leaf = storage.flat.child[storage.flat.place >= 0]
        leaves_seen |= {id(node) for node in nodes if not hasattr(node, "children")}
        assert storage.held <= settings.values and storage.leaves.values.size <= settings.values
        assert len(set(used.tolist())) == len(used) and (leaf == -1).all()
        spare = storage.leaves.free[: storage.leaves.spare[0]].tolist()
        assert sorted([*used.tolist(), *spare]) == list(range(len(storage.leaves.held)))
        assert not storage.leaves.held[spare].any()
        assert all(len(tree.nodes) <= 2 ** (settings.depth + 1) - 1 for tree in storage.trees if tree)
    assert storage.turned_away > 0
    assert alternates(storage)[1] > 0
    assert len(leaves_seen) > 3 * 2**settings.depth  # more leaves came and went than there can be at once


def test_an_empty_leaf_falls_back_to_the_marginal_reservoir_and_is_counted() -> None:
    room_for_one = StorageSettings(size=3, values=3, marginal=50)
    storage = new(room_for_one)
    rows = np.column_stack((np.arange(40.0), np.arange(40.0) + 100))
    learn(storage, rows[:39])
    assert storage.turned_away == 39  # each value of the feature that came second to the only room
    drawn = storage.pass_through(rows[39:], 39, 39, np.array([[0, 1]]), 200, numbers(2))
    assert storage.fell_back == storage.drawn == 200
    assert set(drawn[0, 0, :, 1].tolist()) == set(rows[:39, 1].tolist())
    storage.pass_through(rows[39:], 40, 40, np.array([[1, 0]]), 200, numbers(2))
    assert (storage.fell_back, storage.drawn) == (200, 400)  # the first feature has its leaf


def test_values_that_fall_back_together_come_from_one_row() -> None:
    storage = new(StorageSettings(size=3, values=3, marginal=50))
    rows = np.arange(40.0).reshape(-1, 1) + np.array([[0, 100, 200]])
    learn(storage, rows[:39])
    drawn = storage.pass_through(rows[39:], 39, 39, np.array([[0, 1, 2]]), 50, numbers(3))[0, 0]
    assert (drawn[:, 2] - drawn[:, 1] == 100).all()
    assert len(set(drawn[:, 1].tolist())) > 10


def test_a_row_draws_before_it_enters_and_the_first_has_nothing_to_draw() -> None:
    storage = new()
    drawn = storage.pass_through(np.array([[1.0, 2.0], [3.0, 4.0]]), 0, 0, np.array([[0, 1], [0, 1]]), 4, numbers(2))
    assert np.isnan(drawn[0, 0, :, 1]).all()
    assert (drawn[1, 0, :, 1] == 2.0).all()


def test_features_that_are_present_are_the_rows_own() -> None:
    rows, order = mixed(300), permutations(1, 6)
    drawn = draw_last(rows, order[0].tolist(), 3, KINDS)
    for step in range(5):
        present = order[0, : step + 1]
        np.testing.assert_array_equal(drawn[step][:, present], np.tile(rows[-1, present], (3, 1)))


def test_at_a_branch_on_an_absent_feature_children_are_drawn_by_their_weights() -> None:
    rng = np.random.default_rng(5)
    high = rng.random(4_000) < 0.2
    rows = np.column_stack((high + 0.0, 10.0 * high + rng.normal(0, 0.1, 4_000), np.ones(4_000)))
    rows[-1] = rows[-2] = [1.0, 10.0, 1.0]
    storage = new(StorageSettings(depth=1))
    drawn = storage.pass_through(rows, 0, 3_999, np.array([[2, 0, 1]]), 20_000, numbers(3))[0]
    share = 1.0 - storage.flat.weight[1, 1] / storage.flat.weight[1, 0]
    assert 0.17 < share < 0.23
    assert (drawn[0, :, 1] > 5).mean() == pytest.approx(share, abs=4 * np.sqrt(0.16 / 20_000))
    assert (drawn[1, :, 1] > 5).all()  # the first feature is present


def test_a_missing_value_does_not_lead_a_descent() -> None:
    a = np.tile([0.0, 1.0], 2_000)
    rows = np.column_stack((a, 10 * a))
    rows[-1, 0] = np.nan
    drawn = draw_last(rows, [0, 1], 1_000)[0, :, 1]
    assert np.isnan(draw_last(rows, [0, 1], 2)[0, :, 0]).all()
    assert drawn.mean() == pytest.approx(5.0, abs=4 * 5 / np.sqrt(1_000))


def test_absence_is_drawn_as_often_as_it_is_seen_where_it_is_seen() -> None:
    rng = np.random.default_rng(6)
    side = np.tile([0.0, 1.0], 2_000)
    value = np.where((side == 1) & (rng.random(4_000) < 0.5), np.nan, 5 * side + rng.normal(0, 0.1, 4_000))
    storage = new(StorageSettings(size=100))
    rows = np.column_stack((side, value))
    rows[-2:, 0] = [0.0, 1.0]
    drawn = storage.pass_through(rows, 0, 3_998, np.array([[0, 1], [0, 1]]), 1_000, numbers(2))[:, 0, :, 1]
    assert np.isnan(drawn[0]).mean() < 0.05
    assert 0.35 < np.isnan(drawn[1]).mean() < 0.65


def test_a_feature_that_vanished_comes_back_absent() -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(3_000, 2))
    rows[500:, 1] = np.nan
    assert np.isnan(draw_last(rows, [0, 1], 100)[0, :, 1]).all()


def test_a_category_is_drawn_given_a_number_and_a_rare_one_as_itself() -> None:
    rng = np.random.default_rng(9)
    x = rng.uniform(0, 3, 4_000)
    code = np.floor(x)
    code[2::3] = np.where(x[2::3] >= 2, 40.0, code[2::3])  # a category that trees do not tell from others
    rows = np.column_stack((x, code))
    kinds = [Kind.NUMBER, Kind.TEXT]
    rows[-1, 0] = 0.5
    assert (draw_last(rows, [0, 1], 50, kinds)[0, :, 1] == 0.0).mean() > 0.9
    rows[-1, 0] = 2.5
    drawn = set(draw_last(rows, [0, 1], 50, kinds)[0, :, 1].tolist())
    assert drawn >= {2.0, 40.0}
    assert drawn <= {1.0, 2.0, 40.0}


def test_one_feature_alone_has_no_steps() -> None:
    rows = np.arange(500.0).reshape(-1, 1)
    assert new().pass_through(rows, 0, 400, np.zeros((100, 1), np.int64), 3, numbers(1)).shape == (100, 0, 3, 1)


def test_values_that_cannot_be_squared_or_are_not_finite_stop_nothing() -> None:
    rng = np.random.default_rng(10)
    rows = rng.normal(size=(1_500, 3))
    rows[::7, 0] *= 1e200
    rows[::5, 1] *= 1e300
    rows[::11, 2] = np.inf
    kinds = [Kind.NUMBER, Kind.TEXT, Kind.NUMBER]
    rows[:, 1] = np.abs(np.floor(rows[:, 1]))
    storage = new()
    storage.pass_through(rows, 0, 100, permutations(1_400, 3), 2, kinds)
    assert storage.unlearned > 0
    assert storage.held > 0


def test_arguments_that_do_not_fit_are_refused() -> None:
    storage = new()
    learn(storage, np.ones((3, 3)))
    for block, order, kinds in (
        (np.ones((1, 2)), np.array([[0, 1]]), numbers(2)),
        (np.ones((1, 3)), np.array([[0, 1]]), numbers(3)),
        (np.ones((1, 3)), np.array([[0, 1, 2]]), numbers(2)),
    ):
        with pytest.raises(InputError, match="conditional removal: expected"):
            storage.pass_through(block, 3, 0, order, 1, kinds)


@pytest.mark.parametrize(
    ("name", "value"), [("size", 0), ("depth", 0), ("depth", 21), ("values", 99), ("marginal", 0), ("categories", 0)]
)
def test_settings_out_of_range_are_refused(name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=f"expected {name} to be at least"):
        StorageSettings(**{name: value})
