"""iPFI beside a model that learns: equal to ten lines of plain Python, however it is cut, saved or asked."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from math import log

import numpy as np
import pytest
from river import base, linear_model

from glasstream.base.draws import Purpose, below, stream_key
from glasstream.base.errors import ModelError, SettingsError, StateError
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.losses import CustomLoss
from glasstream_lab.interval_pfi import IntervalPFI
from tests.support.function_predictor import FunctionPredictor

RANDOM = np.random.Generator(np.random.PCG64(1))
X = RANDOM.normal(size=(300, 3))
Y = X[:, 0] * X[:, 1]
PRODUCT = FunctionPredictor(lambda x: x[:, 0] * x[:, 1], 3)


class Counting(base.Classifier):
    """Shares of the classes among the events with the same colour, the same size and so on, added up."""

    def __init__(self):
        self.seen = defaultdict(Counter)

    _multiclass = True

    def learn_one(self, x, y):
        for item in self._items(x):
            self.seen[item][y] += 1

    def predict_proba_one(self, x):
        votes: Counter = Counter()
        for item in self._items(x):
            votes.update(self.seen[item])
        total = sum(votes.values())
        return {y: count / total for y, count in votes.items()} if total else {}

    def _items(self, x):
        return [None, *((name, v if isinstance(v, str | bool) else round(2 * v)) for name, v in x.items())]


class Weights(base.Regressor):
    """A small linear model that takes booleans and texts as it finds them."""

    def __init__(self):
        self.weights = defaultdict(float)

    def _terms(self, x):
        return {(n, v) if isinstance(v, str) else n: 1.0 if isinstance(v, str) else float(v) for n, v in x.items()}

    def predict_one(self, x):
        return sum(self.weights[name] * value for name, value in self._terms(x).items())

    def learn_one(self, x, y):
        error = y - self.predict_one(x)
        for name, value in self._terms(x).items():
            self.weights[name] += 0.02 * error * value


def events(count: int, regression: bool) -> list:
    """Numbers, booleans, texts; absent values; a feature and a category that come late, a feature that goes."""
    rng = random.Random(5)
    made = []
    for t in range(count):
        x = {
            "size": rng.gauss(0, 1),
            "open": rng.random() < 0.4,
            "colour": rng.choice(["red", "green", "blue"][: 2 + (t > count // 2)]),
        }
        if t < count // 2:
            x["gone"] = rng.gauss(0, 1)
        score = 2 * (x["colour"] == "red") + x["size"] + x["open"] + rng.gauss(0, 0.3)
        if t > count // 3:
            x["late"] = rng.gauss(score, 0.5)
        x = {name: value if rng.random() > 0.02 else None for name, value in x.items() if rng.random() > 0.1}
        x = x or {"size": None}  # as the pipeline, estimators refuse an event without features
        made.append((x, score if regression else ["low", "middle", "high"][(score > 0) + (score > 2)]))
    return made


def loss_of(name: str, model, x: dict, y) -> float:
    if name in ("absolute", "squared"):
        return abs(model.predict_one(x) - y) ** (1 if name == "absolute" else 2)
    votes = model.predict_proba_one(x)
    if name == "zero_one":
        return float(not votes or max(votes, key=votes.get) != y)
    if name == "cross_entropy":
        return -log(max(votes.get(y, 0.0), 1e-15))
    return sum((votes.get(c, 0.0) - (c == y)) ** 2 for c in {y, *votes})


def reference(model, stream: list, loss: str, alpha: float, size: int, draws: int) -> list[dict[str, float]]:
    """Algorithm 1 of 004 with geometric sampling, on the same draws."""
    held: list[dict] = []
    slots: dict[str, int] = {}
    raw, weight, said = {}, 0.0, []
    key = stream_key(3, "s")
    for t, (x, y) in enumerate(stream):
        x = {name: value for name, value in x.items() if value is not None}
        for name in x:
            slots.setdefault(name, len(slots))
        if t >= size:
            weight = (1 - alpha) * weight + alpha
            own = loss_of(loss, model, x, y)
            for name, slot in slots.items():
                rise = 0.0
                for k in range(draws):
                    other = held[below(size, key, t, int(Purpose.IPFI), slot * draws + k)]
                    kept = {n: v for n, v in x.items() if n != name}
                    variant = kept | ({name: other[name]} if name in other else {})
                    # in the order of the features, as a row is
                    variant = {n: variant[n] for n in slots if n in variant}
                    rise += loss_of(loss, model, variant, y) - own
                raw[name] = (1 - alpha) * raw.get(name, 0.0) + alpha * rise / draws
        said.append({name: value / weight for name, value in raw.items()})
        if t < size:
            held.append(x)
        else:
            held[below(size, key, t, int(Purpose.RESERVOIR), 0)] = x
        model.learn_one(x, y)
    return said


@pytest.mark.parametrize(
    ("make", "loss", "draws", "count"),
    [
        (Counting, "zero_one", 1, 5_000),
        (Counting, "cross_entropy", 1, 1_000),
        (Counting, "brier", 2, 1_000),
        (Weights, "squared", 2, 5_000),
        (Weights, "absolute", 1, 1_000),
    ],
)
def test_equals_the_algorithm_written_down_in_plain_python(make: Callable, loss: str, draws: int, count: int) -> None:
    stream = events(count, regression=make is Weights)
    wanted = reference(make(), stream, loss, 0.01, 50, draws)
    model = make()
    pfi = IncrementalPFI(model, loss, alpha=0.01, reservoir=50, draws=draws, seed=3, stream="s")
    for (x, y), expected in zip(stream, wanted, strict=True):
        found = pfi.explain_one(x, y)
        assert all(abs(found[name] - value) <= 1e-9 for name, value in expected.items())
        assert all(found[name] == 0.0 for name in found.keys() - expected.keys())
        model.learn_one({name: value for name, value in x.items() if value is not None}, y)
    assert set(found) == {"size", "open", "colour", "gone", "late"}
    assert found["colour"] > 0.01 and found["late"] > 0.01


def explained(cuts: list[int], **settings) -> IncrementalPFI:
    pfi = IncrementalPFI(loss="squared", alpha=0.05, **settings)
    for begin, end in pairwise([0, *cuts, len(X)]):
        pfi.explain_block(PRODUCT, X[begin:end], Y[begin:end])
    return pfi


SETTINGS = [
    {},
    {"sampling": "uniform", "draws": 3},
    {"sampling": "window", "reservoir": 10},
    {"realisations": 4, "start": 1},
    {"shared": True, "reservoir": 20},
    {"sets": {"both": ["x0", "x1"], "none": ["x2"], "overlapping": ["x1", "x2"]}, "draws": 2, "realisations": 2},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_how_events_are_cut_changes_no_bit(settings: dict) -> None:
    whole, parts, singly = (explained(cuts, **settings) for cuts in ([], [1, 99, 100, 101, 250], list(range(1, 300))))
    for other in (parts, singly):
        assert other.importance == whole.importance and other.interval() == whole.interval()
        assert other.raw == whole.raw and other.variance == whole.variance


@pytest.mark.parametrize("settings", SETTINGS)
def test_state_by_way_of_json_and_arrays_goes_on_to_the_last_bit(settings: dict) -> None:
    whole = explained([150], **settings)
    first = IncrementalPFI(loss="squared", alpha=0.05, **settings)
    first.explain_block(PRODUCT, X[:150], Y[:150])
    meta, arrays = first.state()
    first.explain_block(PRODUCT, X[:50], Y[:50])  # what was taken is not changed by what comes after
    second = IncrementalPFI(loss="squared", alpha=0.05, **settings)
    second.restore(json.loads(json.dumps(meta)), arrays)
    second.explain_block(PRODUCT, X[150:], Y[150:])
    assert second.importance == whole.importance and second.interval() == whole.interval()
    assert second.rows == whole.rows == 300


def test_state_beside_a_live_model_keeps_features_and_classes() -> None:
    stream = events(400, regression=False)
    model, whole = Counting(), None
    whole = IncrementalPFI(model, "brier", alpha=0.05, reservoir=20)
    for t, (x, y) in enumerate(stream):
        if t == 200:
            meta, arrays = whole.state()
            other = IncrementalPFI(model, "brier", alpha=0.05, reservoir=20)
            other.restore(json.loads(json.dumps(meta)), arrays)
        found = whole.explain_one(x, y)
        if t >= 200:
            assert other.explain_one(x, y) == found
        model.learn_one({name: value for name, value in x.items() if value is not None}, y)


@pytest.mark.parametrize("change", [{"reservoir": 30}, {"realisations": 2}])
def test_a_state_of_other_settings_is_refused(change: dict) -> None:
    state = explained([]).state()
    with pytest.raises(StateError, match="not one of an estimator with these settings"):
        IncrementalPFI(loss="squared", **change).restore(*state)


def test_realisations_are_the_mean_of_estimators_side_by_side() -> None:
    alone = [explained([], stream=name) for name in ("", "\0realisation 1", "\0realisation 2")]
    mean = {name: np.mean([one.importance[name] for one in alone]) for name in ("x0", "x1", "x2")}
    assert explained([], realisations=3).importance == pytest.approx(mean, rel=1e-12)


def test_a_set_takes_its_features_from_one_row() -> None:
    """f = x0 - x1 on rows with x0 = x1: replaced alone each feature matters, together not at all."""
    twins = np.repeat(RANDOM.normal(size=(200, 1)), 2, axis=1)
    predictor = FunctionPredictor(lambda x: x[:, 0] - x[:, 1], 2)
    sets = {"one": ["x0"], "both": ["x0", "x1", "never came"]}
    pfi = IncrementalPFI(loss="squared", sets=sets, reservoir=10)
    pfi.explain_block(predictor, twins, np.zeros(200))
    assert pfi.importance["one"] > 1 and pfi.importance["both"] == 0.0
    assert pfi.names == ("one", "both")


def test_shared_draws_one_row_for_all_features() -> None:
    """f = x0 + x1, y = x0 + x1: with one row for both, the contribution of x0 is (r0 - x0)² of that row."""
    values = np.arange(50.0)
    rows = np.stack([values, -values], axis=1)
    predictor = FunctionPredictor(lambda x: x[:, 0] + x[:, 1], 2)
    shared = IncrementalPFI(loss="squared", shared=True, reservoir=10).explain_block(predictor, rows, np.zeros(50))
    own = IncrementalPFI(loss="squared", reservoir=10).explain_block(predictor, rows, np.zeros(50))
    assert (shared[:, 0] == shared[:, 1]).all()
    assert (own[:, 0] == shared[:, 0]).all() and (own[:, 0] != own[:, 1]).any()


def test_normalised_importance_adds_up_to_one_or_is_all_zero() -> None:
    pfi = explained([])
    assert sum(pfi.normalised.values()) == pytest.approx(1.0) and min(pfi.normalised.values()) >= 0
    nothing = IncrementalPFI(loss="squared", reservoir=5)
    nothing.explain_block(FunctionPredictor(lambda x: x[:, 0] * 0, 3), X, Y)
    assert nothing.normalised == {"x0": 0.0, "x1": 0.0, "x2": 0.0}


def test_bounds_and_intervals_go_by_name() -> None:
    pfi = explained([])
    bounds, intervals = pfi.bound(0.05), pfi.interval(0.9)
    for name, value in pfi.importance.items():
        low, high = intervals[name]
        assert low <= value <= high and high - value <= bounds[name]
    assert pfi.interval(0.99)["x0"][0] < pfi.interval(0.9)["x0"][0]
    assert IncrementalPFI(loss="squared").interval() == {}


def test_a_model_predicts_only_from_the_start_on_and_equals_its_compiled_copy() -> None:
    model = linear_model.LinearRegression()
    live = LiveModel(model, snapshot_every=1)
    by_calling, by_copy = IncrementalPFI(model, reservoir=30), IncrementalPFI(live, reservoir=30)
    for row, y in zip(X, Y, strict=True):
        x = dict(zip("abc", row.tolist(), strict=True))
        found = by_calling.explain_one(x, y)
        assert by_copy.explain_one(x, y) == pytest.approx(found, abs=1e-9)
        model.learn_one(x, y)


def test_an_event_on_which_the_model_raises_is_seen_and_not_explained() -> None:
    class Fragile(Weights):
        def predict_one(self, x):
            if x.get("size", 0.0) > 100:
                raise OverflowError("too large")
            return super().predict_one(x)

    pfi = IncrementalPFI(Fragile(), reservoir=2)
    for size in (1.0, 2.0, 3.0):
        pfi.explain_one({"size": size}, 1.0)
    with pytest.raises(ModelError, match="OverflowError: too large"):
        pfi.explain_one({"size": 1e3}, 1.0)
    assert pfi.rows == 4 and pfi.smoothing.count == 1


def test_a_loss_of_ones_own_equals_the_named_one() -> None:
    own = CustomLoss("mine", "classification", lambda said, target: float(max(said, key=said.get) != target))
    stream = events(300, regression=False)
    found = {}
    for loss in (own, "zero_one"):
        model = Counting()
        pfi = IncrementalPFI(model, loss, reservoir=20)
        for x, y in stream:
            found[loss] = pfi.explain_one(x, y)
            model.learn_one({name: value for name, value in x.items() if value is not None}, y)
    assert found[own] == pytest.approx(found["zero_one"], abs=0.02)  # ties go by class order here, by vote there


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.1}, "alpha"),
        ({"draws": 0}, "draws"),
        ({"reservoir": 0}, "reservoir"),
        ({"start": 0}, "start"),
        ({"realisations": 0}, "realisations"),
        ({"sampling": "newest"}, "geometric, uniform, window"),
        ({"sets": {}}, "sets"),
        ({"sets": {"a": "x0"}}, "sets"),
        ({"sets": {"a": ["x0"]}, "shared": True}, "sets"),
        ({"loss": None}, "expected a loss"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        IncrementalPFI(**({"loss": "squared"} | settings))


def test_interval_pfi_speaks_at_the_end_of_each_interval() -> None:
    model = Weights()
    pfi = IntervalPFI(model, interval=100)
    stream = events(450, regression=True)
    spoken = []
    for x, y in stream:
        spoken.append(pfi.explain_one(x, y))
        model.learn_one({name: value for name, value in x.items() if value is not None}, y)
    assert spoken[98] == {} and spoken[99] != {} and pfi.intervals == 4
    assert spoken[99] is spoken[198] and spoken[199] != spoken[198] and spoken[449] is spoken[399]
    assert spoken[399]["colour"] > 0.1
    with pytest.raises(SettingsError, match="interval >= 2"):
        IntervalPFI(model, interval=1)
