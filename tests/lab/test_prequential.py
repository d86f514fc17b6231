"""A row judged before the model learns it, and after: both orders, and the references that offer both."""

from copy import deepcopy
from itertools import islice

import numpy as np
import pytest
from river import base, linear_model

from glasstream.base.draws import stream_key
from glasstream.base.errors import ModelError, SettingsError
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.explain.sampling.orders import orders
from glasstream_lab.interval_pfi import IntervalPFI
from glasstream_lab.window_sage import WindowSAGE

NAMES = ("a", "b")


class Memory(base.Regressor):
    """Knows the target of every event that it has learned, by the feature `a`, and says 0 for any other."""

    def __init__(self):
        self.known = {}

    def predict_one(self, x):
        return self.known.get(x["a"], 0.0)

    def learn_one(self, x, y):
        self.known[x["a"]] = y


def stream(count, seed=1):
    """Targets that no feature says anything about."""
    rng = np.random.Generator(np.random.PCG64(seed))
    for t in range(count):
        yield {"a": float(t), "b": rng.normal()}, rng.normal()


def linear(count):
    rng = np.random.Generator(np.random.PCG64(4))
    for a, b in rng.normal(size=(count, 2)).tolist():
        yield {"a": a, "b": b}, 2 * a - b + a * b


def run(explainer, model, events, after=False):
    """Show events to an explainer before or after the model learns them; return the events' own models."""
    models = []
    for x, y in events:
        if after:
            model.learn_one(x, y)
        models.append(deepcopy(model))
        explainer.explain_one(x, y)
        if not after:
            model.learn_one(x, y)
    return models


def test_prequential_interval_pfi_equals_the_mean_over_all_earlier_rows() -> None:
    model, permutations, size = linear_model.LinearRegression(), 2_000, 12
    pfi = IntervalPFI(model, interval=size, permutations=permutations, prequential=True)
    events = list(linear(3 * size))
    models = run(pfi, model, events)
    assert pfi.intervals == 3
    for name in NAMES:
        wanted, variance = [], 0.0
        for t in range(2 * size, 3 * size):
            x, y = events[t]
            own = (models[t].predict_one(x) - y) ** 2
            earlier = [{**x, name: other[name]} for other, _ in events[t - size : t]]
            rises = [(models[t].predict_one(mixed) - y) ** 2 - own for mixed in earlier]
            wanted.append(np.mean(rises))
            variance += np.var(rises) / permutations
        assert abs(pfi.importance[name] - np.mean(wanted)) < 4 * np.sqrt(variance) / size
        assert variance > 0


@pytest.mark.parametrize("corrected", [False, True])
def test_prequential_window_sage_equals_plain_python(corrected: bool) -> None:
    """With as many background rows as the window holds, they are all of its rows."""
    model, size = linear_model.LinearRegression(), 10
    sage = WindowSAGE(model, window=size, stride=5, inner=size, corrected=corrected, seed=3, prequential=True)
    events = list(linear(4 * size))
    models = run(sage, model, events)
    said = [one.predict_one(x) for one, (x, _) in zip(models, events, strict=True)]
    window = range(3 * size, 4 * size)
    mean, values, total = np.mean([said[t] for t in window]), dict.fromkeys(NAMES, 0.0), 0.0
    for t in window:
        (x, y), order = events[t], orders(stream_key(3, "window SAGE"), t, 1, 2)[0]
        first = NAMES[order[0]]
        mixed = [models[t].predict_one({**other, first: x[first]}) for other, _ in events[t - size : t]]
        middle = (np.mean(mixed) - y) ** 2 - corrected * np.var(mixed, ddof=1) / size
        values[first] += ((mean - y) ** 2 - middle) / size
        values[NAMES[order[1]]] += (middle - (said[t] - y) ** 2) / size
        total += ((mean - y) ** 2 - (said[t] - y) ** 2) / size
    assert sage.importance == pytest.approx(values, abs=1e-9)
    assert sage.newest.total == pytest.approx(total, abs=1e-9)


def test_only_a_model_judged_before_it_learns_shows_that_it_knows_nothing() -> None:
    events, size = list(stream(200)), 100
    variance = np.mean([y * y for _, y in events[100:]])
    current, prequential = (WindowSAGE(Memory(), window=size, prequential=mode) for mode in (False, True))
    for sage in (current, prequential):
        run(sage, sage._live.model, events)
    assert prequential.newest.model_loss == pytest.approx(np.mean([y * y for _, y in events[-size - 95 :][:size]]))
    assert prequential.importance["a"] < 0.2 * variance < 0.9 * variance < current.importance["a"]
    assert current.newest.model_loss < 0.1 * variance


def test_judging_remembered_rows_doubles_the_rise_of_the_loss() -> None:
    """With the target's variance 1: (y' - y)² - 0 for a remembered event, and (y' - y)² - y² for a new one."""
    events = list(stream(1_000))
    values = []
    for prequential in (False, True):
        model = Memory()
        pfi = IntervalPFI(model, interval=500, prequential=prequential)
        run(pfi, model, events)
        values.append(pfi.importance["a"])
    assert values == pytest.approx([2.0, 1.0], abs=0.25)


def test_for_a_model_that_does_not_learn_both_modes_estimate_the_same() -> None:
    model = linear_model.LinearRegression()
    for x, y in linear(200):
        model.learn_one(x, y)
    for make in (
        lambda mode: IntervalPFI(model, interval=1_000, prequential=mode),
        lambda mode: WindowSAGE(model, window=1_000, inner=20, corrected=True, prequential=mode),
    ):
        found = []
        for mode in (False, True):
            explainer = make(mode)
            for x, y in islice(linear(1_100), 1_100):
                explainer.explain_one(x, y)
            found.append([explainer.importance[name] for name in NAMES])
        assert found[1] == pytest.approx(found[0], rel=0.12, abs=0.1)


def test_an_estimator_explains_in_the_order_in_which_it_is_called() -> None:
    losses, rises = [], []
    for after in (False, True):
        for make, numbers in (
            (lambda model: IncrementalSAGE(model, alpha=0.02), losses),
            (lambda model: IncrementalPFI(model, alpha=0.02), rises),
        ):
            model = Memory()
            estimator = make(model)
            run(estimator, model, stream(600), after)
            numbers.append(estimator.model_loss if numbers is losses else estimator.importance["a"])
    assert losses[0] > 0.5 and losses[1] == 0.0
    assert rises[1] > 1.4 * rises[0]


def test_new_features_and_failures_in_the_prequential_mode() -> None:
    class Sometimes(Memory):
        broken = False

        def predict_one(self, x):
            return float("inf") if self.broken else super().predict_one(x)

    for make in (
        lambda model: IntervalPFI(model, interval=10, prequential=True),
        lambda model: WindowSAGE(model, window=10, stride=1, inner=3, prequential=True),
    ):
        model = Sometimes()
        explainer = make(model)
        for t, (x, y) in enumerate(stream(40)):
            event = x | ({"late": y} if t > 25 else {})
            model.broken = t == 15
            if model.broken:
                with pytest.raises(ModelError, match="finite"):
                    explainer.explain_one(event, y)
            else:
                explainer.explain_one(event, y)
            model.learn_one(event, y)
        assert list(explainer.importance) == ["a", "b", "late"]
        assert all(np.isfinite(value) for value in explainer.importance.values())
    with pytest.raises(SettingsError, match="inner"):
        WindowSAGE(linear_model.LinearRegression(), inner=0)
