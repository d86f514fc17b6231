"""iSAGE beside a model that learns: against ten lines of plain Python, and laws of the whole (002, Algorithm 1)."""

import json
import pickle
import random
from math import exp, log

import numpy as np
import pytest
from river import base

from glasstream.base.draws import Purpose, below, stream_key
from glasstream.base.errors import ModelError, SettingsError, StateError
from glasstream.events.features import Kind
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.explain.intervals import normal
from glasstream.explain.losses import CustomLoss
from glasstream.explain.sampling.orders import orders
from glasstream.explain.sampling.settings import StorageSettings
from glasstream.explain.sampling.storage import ConditionalStorage
from glasstream.models.predictors.predictor import Output

ALPHA, SIZE, SEED = 0.02, 30, 5


class Cheap(base.Classifier):
    """A weight for each class, feature and text, boolean or sign; learns by gradient."""

    _multiclass = True

    def __init__(self):
        self.weights = {}

    def predict_proba_one(self, x):
        keys = [(name, value if isinstance(value, str | bool) else value > 0) for name, value in x.items()]
        votes = {c: exp(sum(of.get(key, 0.0) for key in keys)) for c, of in self.weights.items()}
        total = sum(votes.values())
        return {c: vote / total for c, vote in votes.items()}

    def learn_one(self, x, y):
        self.weights.setdefault(y, {})
        for c, probability in self.predict_proba_one(x).items():
            for name, value in x.items():
                key = (name, value if isinstance(value, str | bool) else value > 0)
                self.weights[c][key] = self.weights[c].get(key, 0.0) + 0.1 * ((c == y) - probability)


class CheapNumber(base.Regressor):
    """The same for a number."""

    def __init__(self):
        self.weights = {}

    def predict_one(self, x):
        return sum(
            self.weights.get((name, value), 0.0) if isinstance(value, str) else self.weights.get(name, 0.0) * value
            for name, value in x.items()
        )

    def learn_one(self, x, y):
        error = 0.02 * (y - self.predict_one(x))
        for name, value in x.items():
            key = (name, value) if isinstance(value, str) else name
            self.weights[key] = self.weights.get(key, 0.0) + error * (1.0 if isinstance(value, str) else value)


def events(count, regression):
    """Numbers, texts, booleans, cells that are missing, a feature that vanishes and two that appear."""
    rng = random.Random(3)
    for t in range(count):
        x = {"size": rng.gauss(0, 1), "colour": rng.choice("rgb"), "open": rng.random() < 0.4}
        if t < count // 2:
            x["old"] = rng.gauss(1, 1)
        if t > count // 3:
            x["late"] = rng.gauss(0, 2)
        if t > count // 2:
            x["town"] = f"t{rng.randrange(2 + 4 * t // count)}"
        score = x["size"] + 2 * (x["colour"] == "r") - x["open"] + x.get("late", 0.0) * (x.get("town") != "t1")
        if t > 3 * count // 4:
            score = -score
        for name in list(x):
            if rng.random() < 0.1:
                x[name] = None
            elif rng.random() < 0.1:
                del x[name]
        score += rng.gauss(0, 0.3)
        yield x, score if regression else "low" if score < 0 else "high" if t > count // 4 and score > 2 else "middle"


def without_missing(x):
    return {name: value for name, value in x.items() if value is not None}


LOSSES = {
    "zero_one": lambda p, y: float(not p or max(p.values()) == 0.0 or max(p, key=p.get) != y),
    "cross_entropy": lambda p, y: -log(min(max(p.get(y, 0.0), 1e-15), 1.0)),
    "brier": lambda p, y: sum((q - (c == y)) ** 2 for c, q in p.items()) + (y not in p),
    "squared": lambda p, y: (p["value"] - y) ** 2,
    "absolute": lambda p, y: abs(p["value"] - y),
}


class InPlainPython:
    """Algorithm 1, one event at a time, on the draws that the estimator makes."""

    def __init__(self, predict, loss, inner, fresh):
        self.predict, self.loss, self.inner, self.fresh = predict, LOSSES[loss], inner, fresh
        self.key, self.held, self.names, self.classes = stream_key(SEED, "s"), [], [], []
        self.rows, self.weight, self.mean, self.raw, self.before, self.after = 0, 0.0, {}, {}, 0.0, 0.0

    def explain_one(self, x, y):
        x = without_missing(x)
        self.names += [name for name in x if name not in self.names]
        self.classes += [c for c in (y,) if c not in self.classes]
        if self.rows >= SIZE:
            self.advance(x, y)
        place = self.rows if self.rows < SIZE else below(SIZE, self.key, self.rows, int(Purpose.RESERVOIR), 0)
        self.held[place : place + 1] = [x]
        self.rows += 1
        return {name: self.raw.get(name, 0.0) / self.weight for name in self.names} if self.weight else {}

    def advance(self, x, y):
        said, present = self.predict(x), []
        self.weight = (1 - ALPHA) * self.weight + ALPHA
        known = {*self.mean, *said}
        self.mean = {c: (1 - ALPHA) * self.mean.get(c, 0.0) + ALPHA * said.get(c, 0.0) for c in known}
        # in class order, so that the first of the largest is the first seen
        before = self.loss({c: self.mean[c] / self.weight for c in sorted(known, key=self.place)}, y)
        self.before, self.after = (
            self.smooth(old, new) for old, new in ((self.before, before), (self.after, self.loss(said, y)))
        )
        order = [self.names[j] for j in orders(self.key, self.rows, 1, len(self.names))[0]]
        for step, name in enumerate(order):
            present.append(name)
            drawn = self.draw(step * self.inner * self.fresh)
            mixed = [{n: (x if n in present else row).get(n) for n in self.names} for row in drawn]
            answers = [self.predict({n: v for n, v in one.items() if v is not None}) for one in mixed]
            all_classes = sorted({c for answer in answers for c in answer}, key=self.place)
            mean = {c: sum(answer.get(c, 0.0) for answer in answers) / self.inner for c in all_classes}
            after = self.loss(mean, y) - self.excess(answers, mean, y) if step < len(order) - 1 else self.loss(said, y)
            self.raw[name] = self.smooth(self.raw.get(name, 0.0), before - after)
            before = after

    def smooth(self, old, new):
        return (1 - ALPHA) * old + ALPHA * new

    def place(self, c):
        return self.classes.index(c) if c in self.classes else 0

    def draw(self, first):
        """Return different rows of the reservoir, by Floyd's algorithm."""
        places = []
        for k in range(self.inner):
            newest = SIZE - self.inner + k
            place = below(newest + 1, self.key, self.rows, int(Purpose.ISAGE), first + k)
            places.append(newest if place in places else place)
        assert len({*places}) == self.inner
        return [self.held[place] for place in places]

    def excess(self, answers, mean, y):
        def variance(c):
            return sum((answer.get(c, 0.0) - mean[c]) ** 2 for answer in answers) / (self.inner - 1) / self.inner

        if self.loss is LOSSES["cross_entropy"]:
            return variance(y) / (2 * mean[y] ** 2) if mean.get(y) else 0.0
        return sum(map(variance, mean)) if self.loss in (LOSSES["squared"], LOSSES["brier"]) else 0.0


def both(loss, fresh, **settings):
    """A model, the estimator, the reference."""
    model = CheapNumber() if loss in ("squared", "absolute") else Cheap()
    predict = model.predict_proba_one if isinstance(model, Cheap) else lambda x: {"value": model.predict_one(x)}
    sage = IncrementalSAGE(
        model, loss, alpha=ALPHA, inner=3, reservoir=SIZE, seed=SEED, stream="s", fresh=fresh, **settings
    )
    return model, sage, InPlainPython(predict, loss, 3, fresh)


def close(a, b):
    return abs(a - b) <= 1e-9 * (1 + abs(b))


@pytest.mark.parametrize(
    ("loss", "fresh", "count"),
    [
        pytest.param("brier", False, 5_000, marks=pytest.mark.slow),
        pytest.param("squared", False, 5_000, marks=pytest.mark.slow),
        ("brier", False, 500),
        ("squared", True, 500),
        ("cross_entropy", True, 500),
        ("zero_one", False, 500),
        ("absolute", False, 500),
    ],
)
def test_equals_plain_python_and_row_5_efficiency_at_every_step(loss, fresh, count):
    model, sage, plain = both(loss, fresh)
    for x, y in events(count, loss in ("squared", "absolute")):
        values, wanted = sage.explain_one(x, y), plain.explain_one(x, y)
        assert list(values) == list(wanted)
        assert all(close(values[name], wanted[name]) for name in wanted), (values, wanted)
        if values:
            assert close(sage.marginal_loss, plain.before / plain.weight)
            assert close(sage.model_loss, plain.after / plain.weight)
            assert abs(sum(values.values()) - sage.total) <= 1e-9
        model.learn_one(without_missing(x), y)
    assert sage.aggregator.count == count - SIZE
    assert max(values.values()) > 0.01


def test_row_5_efficiency_of_conditional_removal_at_every_step():
    model = Cheap()
    sage = IncrementalSAGE(model, "brier", alpha=ALPHA, inner=2, reservoir=SIZE, removal="conditional")
    for x, y in events(1_000, False):
        values = sage.explain_one(x, y)
        assert abs(sum(values.values()) - sage.total) <= 1e-9
        model.learn_one(without_missing(x), y)
    assert sage.total > 0.01


class Quotients:
    """Three classes of numbers and missing cells, from +, * and / alone: the same bits in any block."""

    task, features, classes, compiled = "classification", ("a", "b", "c", "d"), ("x", "y", "z"), True

    def evaluate(self, rows):
        x = np.nan_to_num(rows)
        total = np.zeros(len(x))
        for j in range(x.shape[1]):
            total = total + (j + 1) * x[:, j]
        votes = np.stack([1 + total * total, 2 + np.abs(total), np.full(len(x), 3.0)], axis=1)
        return Output(votes / (votes[:, 0] + votes[:, 1] + votes[:, 2])[:, None], np.argmax(votes, axis=1))


def rows_and_targets(count, seed=2):
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = rng.normal(size=(count, 4))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows, rng.integers(-1, 3, count).astype(float)


@pytest.mark.parametrize("count", [600, pytest.param(5_000, marks=pytest.mark.slow)])
def test_conditional_removal_equals_plain_python_on_the_draws_of_the_storage(count):
    rows, targets = rows_and_targets(count)
    rows[: count // 3, 3] = np.nan  # the fourth feature appears, the first one vanishes
    rows[2 * count // 3 :, 0] = np.nan
    rows[:, 2] = np.round(rows[:, 2] * rows[:, 1])
    kinds = [Kind.NUMBER, Kind.NUMBER, Kind.TEXT, Kind.NUMBER]
    sage = made(removal="conditional", stream="s")
    key = stream_key(9, "s")
    storage = ConditionalStorage.empty(StorageSettings(), key)
    raw, mean, weight = [0.0] * 4, [0.0] * 3, 0.0
    for t in range(count):
        width = 3 if t < count // 3 else 4
        row, y = rows[t : t + 1, :width], int(targets[t])
        sage.explain_block(Quotients(), row, targets[t : t + 1], kinds[:width])
        order = orders(key, t, int(t >= 10), width)
        drawn = storage.pass_through(row, t, 10, order, 3, kinds[:width])
        if t < 10:
            continue
        answers = Quotients().evaluate(np.concatenate([drawn[0].reshape(-1, width), row])).values.tolist()
        weight = 0.95 * weight + 0.05
        mean = [0.95 * old + 0.05 * new for old, new in zip(mean, answers[-1], strict=True)]
        before = brier([p / weight for p in mean], y)
        for step, j in enumerate(order[0].tolist()):
            three = answers[3 * step : 3 * step + 3] if step < width - 1 else answers[-1:]
            means = [sum(p) / len(three) for p in zip(*three, strict=True)]
            excess = sum((p - q) ** 2 for one in three for p, q in zip(one, means, strict=True)) / 6
            after = brier(means, y) - excess
            raw[j] = 0.95 * raw[j] + 0.05 * (before - after)
            before = after
        assert all(close(a, b / weight) for a, b in zip(sage.aggregator.smoothing.value, raw, strict=False))
        assert abs(sum(sage.importance.values()) - sage.total) <= 1e-9


def brier(said, y):
    return sum((p - (c == y)) ** 2 for c, p in enumerate(said)) + (y < 0)


SETTINGS = [
    {},
    {"fresh": True, "sampling": "uniform"},
    {"corrected": False, "sampling": "window"},
    {"removal": "conditional"},
]


def made(**settings):
    return IncrementalSAGE(None, "brier", alpha=0.05, inner=3, reservoir=20, start=10, seed=9, **settings)


def bits(sage):
    return [array.tobytes() for array in sage.aggregator.state()[1].values()]


@pytest.mark.parametrize("settings", SETTINGS)
def test_how_events_are_cut_into_blocks_changes_no_bit(settings):
    rows, targets = rows_and_targets(200)
    whole, parts = made(**settings), made(**settings)
    wanted = whole.explain_block(Quotients(), rows, targets)
    got = []
    for begin, end in ((0, 1), (1, 9), (9, 10), (10, 11), (11, 12), (12, 150), (150, 150), (150, 200)):
        got.append(parts.explain_block(Quotients(), rows[begin:end], targets[begin:end]))
    assert np.concatenate(got).tobytes() == wanted.tobytes()
    assert bits(parts) == bits(whole)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_pickled_estimator_goes_on_to_the_same_bits(settings):
    rows, targets = rows_and_targets(200)
    whole, first = made(**settings), made(**settings)
    whole.explain_block(Quotients(), rows, targets)
    first.explain_block(Quotients(), rows[:77], targets[:77])
    second = pickle.loads(pickle.dumps(first))  # noqa: S301 - made in the line above
    second.explain_block(Quotients(), rows[77:], targets[77:])
    assert bits(second) == bits(whole)


@pytest.mark.parametrize("settings", SETTINGS[:3])
def test_an_estimator_restored_from_arrays_goes_on_to_the_same_bits(settings):
    rows, targets = rows_and_targets(200)
    whole, first, second = made(**settings), made(**settings), made(**settings)
    whole.explain_block(Quotients(), rows, targets)
    first.explain_block(Quotients(), rows[:77], targets[:77])
    second.restore(*first.state())
    first.explain_block(Quotients(), rows[:50], targets[:50])
    second.explain_block(Quotients(), rows[77:], targets[77:])
    assert bits(second) == bits(whole)
    assert second.importance == whole.importance and second.rows == 200


def test_a_restored_estimator_beside_a_live_model_goes_on_as_before():
    model, settings = Cheap(), {"alpha": ALPHA, "inner": 2, "reservoir": SIZE}
    one, other = (IncrementalSAGE(model, **settings) for _ in range(2))
    for t, (x, y) in enumerate(events(300, False)):
        if t in (3, 150):
            meta, arrays = other.state()
            other = IncrementalSAGE(model, **settings)
            other.restore(json.loads(json.dumps(meta)), arrays)
        assert one.explain_one(x, y) == other.explain_one(x, y)
        model.learn_one(without_missing(x), y)


@pytest.mark.parametrize("name", ["reservoir", "values.raw"])
def test_a_state_that_does_not_fit_is_refused(name):
    sage = made()
    sage.explain_block(Quotients(), *rows_and_targets(30))
    meta, arrays = sage.state()
    for wrong in ({k: v for k, v in arrays.items() if k != name}, {**arrays, name: np.zeros((3, 3))}):
        with pytest.raises(StateError, match="iSAGE"):
            made().restore(meta, wrong)
    with pytest.raises(StateError, match="iSAGE"):
        made().restore({"count": 3}, arrays)


def test_storage_trees_have_no_state_in_arrays():
    with pytest.raises(StateError, match="pickle the estimator"):
        made(removal="conditional").state()
    with pytest.raises(StateError, match="pickle the estimator"):
        made(removal="conditional").restore({}, {})


class Linear:
    """2 x_0 + x_1 + 0 x_2."""

    task, classes, features, compiled = "regression", (), ("a", "b", "c"), True

    def evaluate(self, rows):
        return Output((2 * rows[:, 0] + rows[:, 1])[:, None], np.full(len(rows), -1))


@pytest.mark.parametrize(
    ("inner", "corrected", "expected"), [(1, False, [19 / 3, 1 / 3, -5 / 3]), (3, True, [4, 1, 0])]
)
def test_row_6_finite_m_through_reservoir_and_aggregator(inner, corrected, expected):
    rng = np.random.Generator(np.random.PCG64(8))
    sage = IncrementalSAGE(
        None, "squared", alpha=0.0005, inner=inner, reservoir=2_000, start=1_000, corrected=corrected, seed=1
    )
    means = []
    for _ in range(50):  # the means of long blocks are nearly independent; contributions share background rows
        rows = rng.normal(size=(2_000, 3))
        means.append(sage.explain_block(Linear(), rows, 2 * rows[:, 0] + rows[:, 1]).mean(axis=0))
    error = np.std(means, axis=0) / np.sqrt(len(means))
    assert error.max() < 0.1
    assert (np.abs(np.mean(means, axis=0) - expected) < 3 * error + 0.01).all()  # the mean prediction is smoothed too


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        ("brier", {"corrected": False}), ("brier", {"inner": 1}), ("brier", {"inner": 21}), ("brier", {"start": 2}),
        ("brier", {"removal": "conditional"}), ("cross_entropy", {"inner": 2}), ("zero_one", {}), ("absolute", {}),
        (CustomLoss("own", "classification", lambda said, target: 0.0, lambda values, targets: targets * 0.0), {}),
    ],
)  # fmt: skip
def test_values_with_a_bias_of_unknown_size_have_no_interval(loss, settings):
    rows, targets = rows_and_targets(100)
    sage = IncrementalSAGE(None, loss, **{"alpha": 0.05, "inner": 3, "reservoir": 20, "start": 20} | settings)
    sage.explain_block(Quotients(), rows, targets)
    assert sage.biased and sage.importance and sage.interval() == {}
    whole = IncrementalSAGE(None, "brier", alpha=0.05, reservoir=20)
    whole.explain_block(Quotients(), rows, targets)
    assert not whole.biased and list(whole.interval()) == list(sage.importance)


def test_the_interval_of_cross_entropy_is_wider_by_the_bias_that_is_left():
    rows, targets = rows_and_targets(300)
    sage = IncrementalSAGE(None, "cross_entropy", alpha=0.05, inner=3, reservoir=20)
    sage.explain_block(Quotients(), rows, targets)
    left = np.abs(sage.aggregator.remainders.value)
    low, high = np.array(list(sage.interval().values())).T
    plain = normal(sage.aggregator.smoothing)
    assert left.min() > 0.0
    assert (low, high) == (pytest.approx(plain.low - left), pytest.approx(plain.high + left))


def test_everything_is_told_by_name():
    model, sage, _ = both("squared", False)
    for x, y in events(200, True):
        sage.explain_one(x, y)
        model.learn_one(without_missing(x), y)
    names = list(sage.importance)
    assert names[:3] == ["size", "colour", "open"]
    assert [*sage.raw] == [*sage.variance] == [*sage.bound()] == [*sage.interval()] == names
    weight = 1 - (1 - ALPHA) ** sage.aggregator.count
    assert sage.raw == pytest.approx({name: value * weight for name, value in sage.importance.items()})
    assert all(low < sage.importance[name] < high for name, (low, high) in sage.interval().items())
    assert sage.total == sage.marginal_loss - sage.model_loss


def test_nothing_is_told_before_the_start():
    _, sage, _ = both("brier", False)
    for x, y in events(SIZE, False):
        assert sage.explain_one(x, y) == {}
    assert (sage.total, sage.interval(), sage.rows) == (0.0, {}, SIZE)


def test_a_loss_of_ones_own_knows_the_classes():
    def brier(said, target):
        return sum((p - (c == target)) ** 2 for c, p in said.items()) + (target is None)

    rows, targets = rows_and_targets(100)
    own = IncrementalSAGE(None, CustomLoss("own", "classification", brier), alpha=0.05, reservoir=20)
    ours = IncrementalSAGE(None, "brier", alpha=0.05, reservoir=20, corrected=False)
    for sage in (own, ours):
        sage.explain_block(Quotients(), rows, targets)
    assert own.importance == pytest.approx(ours.importance, abs=1e-9)


def test_a_model_that_fails_leaves_the_estimator_able_to_go_on():
    class Broken(Quotients):
        def evaluate(self, rows):
            return Output(super().evaluate(rows).values * np.nan, np.full(len(rows), -1))

    rows, targets = rows_and_targets(60)
    sage = made()
    sage.explain_block(Quotients(), rows[:30], targets[:30])
    kept = bits(sage)
    with pytest.raises(ModelError, match="expected finite predictions"):
        sage.explain_block(Broken(), rows[30:40], targets[30:40])
    assert bits(sage) == kept and sage.rows == 40
    assert len(sage.explain_block(Quotients(), rows[40:], targets[40:])) == 20


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.0}, {"alpha": 1.5}, {"inner": 0}, {"reservoir": 0}, {"start": 0}, {"sampling": "no"},
        {"removal": "no"}, {"loss": "brier"},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(SettingsError, match="expected"):
        IncrementalSAGE(CheapNumber(), **{"loss": "absolute", **settings})


def test_without_a_model_there_is_no_default_loss_and_nothing_to_ask():
    with pytest.raises(SettingsError, match="expected a loss"):
        IncrementalSAGE()
    with pytest.raises(ModelError, match="explain_block"):
        made().explain_one({"a": 1.0}, "x")


def test_kinds_are_for_conditional_removal_alone():
    rows, targets = rows_and_targets(60)
    one, other = made(), made()
    kinds = [Kind.TEXT] * 4
    wanted = one.explain_block(Quotients(), rows, targets)
    assert other.explain_block(Quotients(), rows, targets, kinds).tobytes() == wanted.tobytes()
