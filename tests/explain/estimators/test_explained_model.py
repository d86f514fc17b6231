"""The order of explaining and learning: a model that is explained before it learns an event, or after."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from river import base, forest, linear_model, tree

from glasstream.base.draws import stream_key
from glasstream.base.errors import ModelError, SettingsError
from glasstream.explain.estimators.explained_model import ORDERS, ExplainedModel
from glasstream.explain.estimators.ipdp import IncrementalPDP
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.sampling.reservoir import Reservoir, Wanted
from glasstream_lab.interval_pfi import IntervalPFI
from glasstream_lab.window_sage import WindowSAGE

NAMES = ("a", "b")
SIZE = 20
EXPLAINERS = (
    lambda model: IncrementalPFI(model, alpha=0.05, reservoir=SIZE, seed=3),
    lambda model: IncrementalSAGE(model, alpha=0.05, reservoir=SIZE, seed=3),
    lambda model: IncrementalPDP(model, alpha=0.05, start=SIZE, seed=3),
    lambda model: IntervalPFI(model, interval=SIZE, seed=3),
    lambda model: IntervalPFI(model, interval=SIZE, seed=3, prequential=True),
    lambda model: WindowSAGE(model, window=SIZE, stride=SIZE, seed=3),
)
both = pytest.mark.parametrize("order", ORDERS)


def regression(count: int, seed: int = 1):
    draws = np.random.Generator(np.random.PCG64(seed))
    for a, b, noise in draws.normal(size=(count, 3)).tolist():
        yield {"a": a, "b": b}, 2 * a - b + a * b + noise


def classification(count: int):
    for x, y in regression(count):
        yield x, "high" if y > 0 else "low"


class Refusing(base.Regressor):
    """Raises an error when it is asked about, or taught, events that say so."""

    def __init__(self):
        self.learned = 0

    def predict_one(self, x):
        if x["a"] == 1.0:
            raise RuntimeError("no answer")
        return float(self.learned)

    def learn_one(self, x, y):
        if x["a"] == 2.0:
            raise RuntimeError("no lesson")
        self.learned += 1


@both
def test_every_row_is_explained_by_the_model_of_its_order_and_no_other(order: str) -> None:
    """Equality with plain Python, which asks a copy of the model at each event for every contribution."""
    model, alpha = linear_model.LinearRegression(), 0.05
    pfi = IncrementalPFI(model, alpha=alpha, reservoir=SIZE, seed=3)
    explained = ExplainedModel(model, pfi, order=order)
    events, copies = list(regression(4 * SIZE)), []
    for x, y in events:
        copies.append(deepcopy(model))  # the model that has learned the events before this one
        explained.learn_one(x, y)
    copies.append(deepcopy(model))

    rows = np.array([[x[name] for name in NAMES] for x, _ in events])
    reservoir = Reservoir.empty(SIZE, "geometric", stream_key(3, ""))
    draws = reservoir.serve(rows, 0, SIZE, Wanted(values=1, sets=0)).values
    raw = dict.fromkeys(NAMES, 0.0)
    for t in range(SIZE, len(events)):
        judge, (x, y) = copies[t + (order == "after")], events[t]
        own = (judge.predict_one(x) - y) ** 2
        for slot, name in enumerate(NAMES):
            other = {**x, name: float(draws[t - SIZE, 0, slot])}
            rise = (judge.predict_one(other) - y) ** 2 - own
            raw[name] = (1 - alpha) * raw[name] + alpha * rise
    assert pfi.raw == pytest.approx(raw, rel=1e-9)


@both
@pytest.mark.parametrize("events", [regression, classification])
def test_explainers_side_by_side_give_the_bits_of_each_alone_in_a_plain_loop(order: str, events) -> None:
    make = tree.HoeffdingTreeRegressor if events is regression else lambda: forest.ARFClassifier(2, seed=1)
    model = make()
    several = [one(model) for one in EXPLAINERS]
    together = ExplainedModel(model, *several, order=order)
    for x, y in events(3 * SIZE):
        together.learn_one(x, y)
    for one, found in zip(EXPLAINERS, several, strict=True):
        plain = make()
        alone = one(plain)
        for x, y in events(3 * SIZE):
            if order == "after":
                plain.learn_one(x, y)
            alone.explain_one(x, y)
            if order == "before":
                plain.learn_one(x, y)
        assert found.importance == alone.importance != {}


def test_the_orders_differ() -> None:
    values = []
    for order in ORDERS:
        model = linear_model.LinearRegression()
        pfi = IncrementalPFI(model, reservoir=SIZE)
        explained = ExplainedModel(model, pfi, order=order)
        for x, y in regression(3 * SIZE):
            explained.learn_one(x, y)
        values.append(pfi.importance)
    assert all(values[0][name] != values[1][name] for name in NAMES)


@both
def test_a_pickle_goes_on_with_the_same_bits(order: str) -> None:
    model = tree.HoeffdingTreeRegressor()
    explained = ExplainedModel(model, *(one(model) for one in EXPLAINERS), order=order)
    events = list(regression(4 * SIZE))
    for x, y in events[: 2 * SIZE + 7]:
        explained.learn_one(x, y)
    again = pickle.loads(pickle.dumps(explained))  # noqa: S301 - our own
    for one in (explained, again):
        for x, y in events[2 * SIZE + 7 :]:
            one.learn_one(x, y)
    assert [one.importance for one in again.explainers] == [one.importance for one in explained.explainers]


@both
def test_an_event_that_is_invalid_is_neither_learned_nor_explained(order: str) -> None:
    def through(invalid: bool) -> tuple:
        model = Refusing()
        pfi = IncrementalPFI(model, reservoir=3)
        explained = ExplainedModel(model, pfi, order=order)
        for t in range(10):
            if invalid:
                for x, y in (({"a": 0.0}, None), ({"a": 0.0}, "text"), ({"a": [1]}, 0.0)):
                    with pytest.raises(ModelError):
                        explained.learn_one(x, y)
            explained.learn_one({"a": 3.0 + t}, float(t))
        return model.learned, pfi.rows, pfi.importance, pfi.raw

    assert through(invalid=True) == through(invalid=False)


@both
def test_an_event_that_cannot_be_explained_is_learned_and_the_other_explainers_see_it(order: str) -> None:
    model = Refusing()
    # Reservoirs that are not full yet do not ask the model.
    asks, waits = IncrementalPFI(model, reservoir=2), IncrementalPFI(model, reservoir=50)
    explained = ExplainedModel(model, asks, waits, order=order)
    for t in range(6):
        if t == 3:
            with pytest.raises(ModelError, match="no answer"):
                explained.learn_one({"a": 1.0}, 0.0)
        else:
            explained.learn_one({"a": 5.0 + t}, float(t))
    assert model.learned == asks.rows == waits.rows == 6


@both
def test_what_the_model_raises_when_it_learns_comes_out(order: str) -> None:
    model = Refusing()
    pfi = IncrementalPFI(model, reservoir=2)
    explained = ExplainedModel(model, pfi, order=order)
    explained.learn_one({"a": 5.0}, 1.0)
    with pytest.raises(RuntimeError, match="no lesson"):
        explained.learn_one({"a": 2.0}, 1.0)
    assert model.learned == 1 and pfi.rows == (2 if order == "before" else 1)


def test_what_would_explain_in_another_order_is_refused() -> None:
    model, other = linear_model.LinearRegression(), linear_model.LinearRegression()
    stale = LiveModel(model, snapshot_every=10)
    for make in EXPLAINERS:
        with pytest.raises(SettingsError, match="expected snapshot_every=1 or none"):
            ExplainedModel(model, make(stale), order="after")
        with pytest.raises(SettingsError, match="explainers of this model, got"):
            ExplainedModel(model, make(other))
        ExplainedModel(stale, make(stale), order="before")
    with pytest.raises(SettingsError, match="expected one of before, after, got 'during'"):
        ExplainedModel(model, IncrementalPFI(model), order="during")
    with pytest.raises(SettingsError, match="one explainer or more"):
        ExplainedModel(model)
    with pytest.raises(ModelError, match="River classifier or regressor"):
        ExplainedModel(object(), IncrementalPFI(model))


@both
def test_a_copy_that_is_renewed_with_every_event_is_the_model(order: str) -> None:
    found = []
    for every in (None, 1):
        model = tree.HoeffdingTreeClassifier(grace_period=10)
        pfi = IncrementalPFI(LiveModel(model, snapshot_every=every), reservoir=SIZE)
        explained = ExplainedModel(model, pfi, order=order)
        for x, y in classification(10 * SIZE):
            explained.learn_one(x, y)
        found.append(pfi.importance)
    assert found[0] == pytest.approx(found[1], abs=1e-12)
