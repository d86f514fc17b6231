"""The whole estimator against Algorithm 1 of paper 001 in plain Python, and against the batch curves."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from river import base, linear_model, preprocessing

from glasstream.base.draws import Purpose, stream_key, uniform
from glasstream.base.errors import ModelError, SettingsError
from glasstream.events.features import FeatureTable, Kind
from glasstream.explain.estimators.ipdp import IncrementalPDP
from glasstream.explain.sampling.grids import Grids, points
from glasstream.explain.sampling.settings import GridSettings
from glasstream.models.predictors.predictor import Output
from glasstream.models.river.generic import GenericPredictor
from glasstream_lab.batch_pdp import batch_grid, batch_pdp, batch_surface

Event = dict[str, Any]
Shown = dict[str, tuple[list[Any], list[float]]]
"""Per feature: grid and curve."""


def answer(x: Event, learned: int = 0) -> float:
    """A cheap model that changes, with an interaction, and a different answer where a feature is absent."""
    size = x.get("size", 3.0)
    return (
        size * (2.0 if x.get("town") == "b" else 1.0)
        + 0.5 * x.get("late", -4.0)
        + (learned // 1_000) * x.get("open", 0.25)
        + 0.1 * x.get("gone", 7.0) ** 2
    )


class CheapModel(base.Regressor):
    """`answer`, which learns nothing but how many events there were."""

    learned = 0

    def learn_one(self, x: Event, y: float) -> None:
        self.learned += 1

    def predict_one(self, x: Event) -> float:
        return answer(x, self.learned)


def events(count: int) -> list[Event]:
    """Numbers, texts and booleans, absent at times; a feature vanishes, one appears, towns come and go."""
    rng = random.Random(7)
    made = []
    for t in range(count):
        x: Event = {"size": rng.gauss(t / 1_000, 1), "town": rng.choice("abcdefgh"[t // 900 :][:3]), "open": t % 7 < 3}
        if not 0.3 * count < t < 0.7 * count:
            x["gone"] = float(rng.randrange(5))
        if t > 0.5 * count:
            x["late"] = rng.expovariate(1.0)
        made.append({name: value for name, value in x.items() if rng.random() > 0.1})
    return made


CATEGORICAL = ("town", "open")
WINDOW, POINTS, ALPHA = 40, 5, 0.01
MOMENTS = (2, 3, 40, 1_000, 1_520, 2_400, 2_520, 3_505, 5_000)


def in_window(stream: list[Event], t: int, name: str) -> list[Any]:
    return [x[name] for x in stream[max(0, t - WINDOW) : t] if name in x]


def reference(stream: list[Event]) -> Iterator[Shown]:
    """Algorithm 1, with every window looked through from its beginning."""
    raw: dict[str, dict[Any, list[float]]] = {name: {} for name in ("size", "town", "open", "gone", "late")}
    for t, x in enumerate(stream):
        for name, kept in raw.items():
            seen = in_window(stream, t, name)
            if name in CATEGORICAL:
                asked = {value: value for value in set(seen)}
            else:
                asked = {k: min(seen) + k / (POINTS - 1) * (max(seen) - min(seen)) for k in range(POINTS) if seen}
            for key in set(kept) - set(asked):
                del kept[key]
            for key, value in asked.items():
                new = 0.0 if name in CATEGORICAL else value, answer({**x, name: value}, t), 1.0
                kept[key] = [(1 - ALPHA) * a + ALPHA * b for a, b in zip(kept.get(key, [0.0] * 3), new, strict=True)]
        yield {name: shown(name, kept) for name, kept in raw.items() if kept}


def shown(name: str, kept: dict[Any, list[float]]) -> tuple[list[Any], list[float]]:
    """Line 10: grid and curve without their start-up bias."""
    grid = [key if name in CATEGORICAL else kept[key][0] / kept[key][2] for key in sorted(kept)]
    return grid, [kept[key][1] / kept[key][2] for key in sorted(kept)]


def test_equals_a_plain_reference_event_by_event() -> None:
    stream, model = events(5_000), CheapModel()
    pdp = IncrementalPDP(
        model, alpha=ALPHA, grid=GridSettings(grid="extremes", points=POINTS, categories=8, window=WINDOW)
    )
    for t, (x, wanted) in enumerate(zip(stream, reference(stream), strict=True), 1):
        pdp.explain_one(x, 0.0)
        model.learn_one(x, 0.0)
        if t not in MOMENTS:
            continue
        found = {effect["feature"]: effect for effect in pdp.effects()}
        assert found.keys() == wanted.keys()
        for name, (grid, curve) in wanted.items():
            points_shown = sorted(zip(found[name]["grid"], found[name]["curve"], strict=True))
            assert [value for _, value in points_shown] == pytest.approx(curve, rel=1e-9, abs=1e-9), name
            if name in CATEGORICAL:
                assert [point for point, _ in points_shown] == grid
            else:
                assert [point for point, _ in points_shown] == pytest.approx(grid, rel=1e-9, abs=1e-9)


def quantile(values: list[float], level: float) -> float:
    """Hyndman and Fan's type 7."""
    ordered, place = sorted(values), level * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def test_quantile_grids_equal_a_plain_reference_on_the_same_draws() -> None:
    """Algorithm 3 feeding Algorithm 1, one feature."""
    settings = GridSettings(grid="quantile_range", points=POINTS, window=100, store=25)
    rng, model, key = random.Random(3), CheapModel(), stream_key(5, "s")
    pdp = IncrementalPDP(model, alpha=ALPHA, grid=settings, seed=5, stream="s")
    held: list[float] = []
    raw = np.zeros((3, POINTS))
    for t in range(5_000):
        x = {"size": rng.gauss(0, 1)}
        pdp.explain_one(x)
        if held:
            low, high = quantile(held, 0.05), quantile(held, 0.95)
            asked = [low + k / (POINTS - 1) * (high - low) for k in range(POINTS)]
            new = asked, [answer({"size": point}, t) for point in asked], [1.0] * POINTS
            raw = (1 - ALPHA) * raw + ALPHA * np.array(new)
        if len(held) < 25 or uniform(key, t, int(Purpose.FREQUENCY_STORE), 0) < 0.25:
            held = [*held, x["size"]][-25:]
        model.learn_one(x, 0.0)
    effect = pdp.effect("size")
    assert effect.grid == pytest.approx(raw[0] / raw[2], rel=1e-9, abs=1e-9)
    assert effect.curve == pytest.approx(raw[1] / raw[2], rel=1e-9, abs=1e-9)


def encoded(stream: list[Event]) -> tuple[np.ndarray, FeatureTable]:
    table = FeatureTable()
    found = [list(table.encode(x)[0]) for x in stream]
    rows = np.full((len(stream), len(table)), np.nan)
    for row, values in zip(rows, found, strict=True):
        row[: len(values)] = values
    return rows, table


@pytest.mark.parametrize("grid", ["extremes", "quantiles"])
def test_blocks_and_single_events_give_the_same_bits(grid: str) -> None:
    stream, model = events(300), CheapModel()
    rows, table = encoded(stream)
    settings = GridSettings(grid=grid, points=4, window=50, store=20)
    one_by_one = IncrementalPDP(model, grid=settings, keep=4, start=10)
    for x in stream:
        one_by_one.explain_one(x)
    in_blocks = IncrementalPDP(grid=settings, keep=4, start=10)
    predictor = GenericPredictor(model, table, None)
    for begin, end in ((0, 3), (3, 120), (120, 121), (121, 300)):
        in_blocks.explain_block(predictor, rows[begin:end], table.kinds)
    for name, array in one_by_one.curves.state()[1].items():
        assert array.tobytes() == in_blocks.curves.state()[1][name].tobytes(), name
    assert one_by_one.importance == in_blocks.importance


def test_names_and_categories_are_those_of_the_events() -> None:
    pdp = IncrementalPDP(CheapModel(), grid=GridSettings(grid="extremes", window=50))
    for x in events(200):
        pdp.explain_one(x)
    found = {effect["feature"]: effect for effect in pdp.effects()}
    assert set(found["town"]["grid"]) <= set("abc") and found["town"]["kind"] == "categorical"
    assert found["open"]["grid"] == [False, True]
    assert found["town"]["ice"][-1]["grid"] == found["town"]["grid"]
    assert found["size"]["row"] == 199 and found["size"]["output"] is None


def test_classes_are_met_without_labels_too() -> None:
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    pdp = IncrementalPDP(model)
    for t in range(50):
        x = {"a": float(t % 5)}
        pdp.explain_one(x)
        model.learn_one(x, t % 5 > 2)
    assert pdp.outputs == ("true",)
    effect = pdp.effect("a")
    assert effect.curve[-1] > effect.curve[0]


def test_a_stream_that_repeats_a_data_set_has_its_batch_curves() -> None:
    model = CheapModel()
    rows, table = encoded(events(400)[:200])
    predictor = GenericPredictor(model, table, None)
    settings = GridSettings(grid="extremes", points=6, window=200)
    pdp = IncrementalPDP(grid=settings, alpha=1e-8, start=200)
    for _ in range(4):
        pdp.explain_block(predictor, rows, table.kinds)
    batch = batch_pdp(predictor, rows, table.kinds, settings=settings)
    for slot, name in enumerate(table.names):
        effect = pdp.effect(name)
        there = ~np.isnan(batch.grid[:, slot])
        assert effect.grid == pytest.approx(batch.grid[there, slot])
        assert effect.curve == pytest.approx(batch.curve[slot, there, 0], abs=1e-4)
        assert effect.importance == pytest.approx(batch.importance[slot, 0], abs=1e-4)


def test_batch_curves_are_means_over_the_data_set() -> None:
    stream = events(60)
    rows, table = encoded(stream)
    predictor = GenericPredictor(CheapModel(), table, None)
    batch = batch_pdp(predictor, rows, table.kinds, settings=GridSettings(grid="extremes", points=3))
    slot = table.names.index("size")
    sizes = [x["size"] for x in stream if "size" in x]
    assert batch.grid[:3, slot] == pytest.approx([min(sizes), (min(sizes) + max(sizes)) / 2, max(sizes)])
    for k in range(3):
        answers = [answer({**x, "size": batch.grid[k, slot]}) for x in stream]
        assert batch.ice[:, slot, k, 0] == pytest.approx(answers)
        assert batch.curve[slot, k, 0] == pytest.approx(sum(answers) / len(answers))


def test_a_batch_grid_takes_the_most_frequent_categories_and_quantiles() -> None:
    rows = np.column_stack((np.array([0, 1, 1, 2, 2, 2, 3]), np.arange(7.0), np.full(7, np.nan)))
    kinds = [Kind.TEXT, Kind.NUMBER, Kind.NUMBER]
    grid = batch_grid(rows, kinds, GridSettings(grid="quantiles", points=3, categories=2))
    assert grid[:2, 0].tolist() == [1.0, 2.0] and np.isnan(grid[2:, 0]).all()
    assert grid[:, 1] == pytest.approx(np.quantile(np.arange(7.0), [0.05, 0.5, 0.95]))
    assert np.isnan(grid[:, 2]).all()


def test_a_pair_of_features_has_a_surface_in_which_their_curves_are_slices() -> None:
    """For a fixed model and grid, the incremental surface is the batch one. It shows interactions, as no curve does."""
    model = CheapModel()
    stream = [{"size": size, "town": town} for size in (-1.0, 0.0, 1.0) for town in "ab"]
    pdp = IncrementalPDP(
        model, alpha=0.001, grid=GridSettings(grid="extremes", points=3, window=6), pairs=[("size", "town")], start=6
    )
    for _ in range(100):
        for x in stream:
            pdp.explain_one(x)
    found = pdp.surface("size", "town")
    assert found.first[:3, :2].tolist() == [[-1.0] * 2, [0.0] * 2, [1.0] * 2]
    assert found.second[:3, :2].tolist() == [[0.0, 1.0]] * 3
    rest = answer({"size": 0.0, "town": "a"})
    assert found.value[:3, :2] == pytest.approx(np.array([[-1.0, -2.0], [0.0, 0.0], [1.0, 2.0]]) + rest)
    rows, table = encoded(stream)
    grid = batch_grid(rows, table.kinds, pdp.settings)
    batch = batch_surface(GenericPredictor(model, table, None), rows, grid, (0, 1))
    assert found.value == pytest.approx(batch[..., 0], nan_ok=True)


def test_an_estimator_goes_on_after_a_model_that_gave_no_number() -> None:
    class Sometimes(CheapModel):
        def predict_one(self, x: Event) -> float:
            return float("nan") if x["size"] == 13.0 else 1.0

    pdp = IncrementalPDP(Sometimes(), grid=GridSettings(grid="extremes", points=2, window=2))
    pdp.explain_one({"size": 12.0})
    pdp.explain_one({"size": 13.0})
    for size in (1.0, 2.0):  # 13 is an end of the grid until it has left the window
        with pytest.raises(ModelError, match="finite"):
            pdp.explain_one({"size": size})
    pdp.explain_one({"size": 3.0})
    effect = pdp.effect("size")
    assert (effect.curve, effect.n, pdp.rows) == ([1.0, 1.0], 2, 5)


def test_what_cannot_be_used_is_said() -> None:
    with pytest.raises(SettingsError) as raised:
        IncrementalPDP(alpha=0.0, start=0, keep=-1)
    assert len(raised.value.findings) == 3
    with pytest.raises(ModelError, match="explain_block"):
        IncrementalPDP().explain_one({"a": 1.0})
    pdp = IncrementalPDP(CheapModel(), pairs=[("size", "town")])
    with pytest.raises(ModelError, match="expected a feature"):
        pdp.effect("size")
    with pytest.raises(ModelError, match="expected a pair"):
        pdp.surface("town", "size")


def test_a_grid_for_hundreds_of_features_stays_bounded() -> None:
    settings = GridSettings(grid="extremes", window=200)
    grids = Grids.empty(settings, stream_key(1, "wide"))
    draw = np.random.Generator(np.random.PCG64(1))
    sizes = []
    for first in range(0, 1_500, 300):
        laid = grids.pass_through(draw.normal(size=(300, 300)), [Kind.NUMBER] * 300, first, 1)
        sizes.append(sum(array.nbytes for array in grids.state().values()))
    assert points(laid, [Kind.NUMBER] * 300, settings).shape == (300, 10, 300)
    assert max(sizes) < 1.2 * sizes[0]


def test_the_model_is_asked_through_its_output_alone() -> None:
    """A predictor that is no River model serves as well."""

    class Plain:
        task, features, classes, compiled = "regression", ("a",), (), True

        def evaluate(self, rows: np.ndarray) -> Output:
            return Output(rows[:, :1] * 3.0, np.full(len(rows), -1))

    pdp = IncrementalPDP(alpha=0.1, grid=GridSettings(grid="extremes", points=2))
    seen = pdp.explain_block(Plain(), np.arange(5.0).reshape(-1, 1))
    assert seen.importance.shape == (4, 1, 1)
    effect = pdp.effect("a")
    assert effect.curve == pytest.approx(3.0 * np.array(effect.grid))
