"""A River model that its owner goes on teaching, as an estimator sees it."""

import numpy as np
import pytest
from river import linear_model, neighbors, preprocessing, tree

from glasstream.base.errors import ModelError, NotCompilable
from glasstream.explain.estimators.ipdp import IncrementalPDP
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION
from glasstream_lab.interval_pfi import IntervalPFI
from glasstream_lab.window_sage import WindowSAGE


def test_events_become_rows_that_grow_with_the_features() -> None:
    live = LiveModel(linear_model.LinearRegression())
    assert live.row({"a": np.float32(0.5), "b": np.bool_(True), "c": "red"}).tolist() == [[0.5, 1.0, 0.0]]
    row = live.row({"c": "blue", "d": np.int64(3), "a": None, "b": float("nan")})
    assert np.array_equal(row, [[np.nan, np.nan, 1.0, 3.0]], equal_nan=True)
    assert live.names == ("a", "b", "c", "d") and live.events == 2
    assert live.task == REGRESSION and live.classes == () and live.target(np.int64(2)) == 2.0


@pytest.mark.parametrize(("x", "y"), [({"new": 1.0, "a": object()}, "low"), ({"new": 1.0}, None), ({"new": 1.0}, [])])
def test_nothing_is_kept_of_an_event_that_is_refused(x: dict, y: object) -> None:
    live = LiveModel(tree.HoeffdingTreeClassifier())
    live.event({"a": 1.0}, "high")
    with pytest.raises(ModelError):
        live.event(x, y)
    assert (live.names, live.classes, live.events) == (("a",), ("high",), 1)


def test_the_live_predictor_follows_the_model_and_says_what_it_says() -> None:
    model = tree.HoeffdingTreeClassifier(grace_period=20)
    live = LiveModel(model)
    for t in range(300):
        x, y = {"a": float(t % 7), "b": bool(t % 2)}, ("low", "high")[t % 7 > 3]
        row, target = live.row(x), live.target(y)
        said = live.predictor.evaluate(row)
        votes = model.predict_proba_one(x)
        assert dict(zip(live.classes, said.values[0], strict=True)) == {c: votes.get(c, 0.0) for c in live.classes}
        assert live.classes[int(target)] == y
        model.learn_one(x, y)
    assert live.task == CLASSIFICATION and live.classes == ("low", "high")


def test_the_predictor_is_made_again_only_when_it_must_be() -> None:
    model = linear_model.LinearRegression()
    live = LiveModel(model)
    live.row({"a": 1.0})
    first = live.predictor
    live.row({"a": 2.0})
    assert live.predictor is first
    live.row({"a": 2.0, "b": "x"})
    second = live.predictor
    assert second is not first
    live.row({"a": 2.0, "b": "y"})
    assert live.predictor is not second, "a category is new"


def test_a_compiled_copy_stands_still_until_it_is_renewed() -> None:
    model = linear_model.LinearRegression()
    live = LiveModel(model, snapshot_every=10)
    said = []
    for t in range(30):
        row = live.row({"a": 1.0 + t % 2})
        said.append(live.predictor.evaluate(row * 0 + 1.0).values[0, 0])
        model.learn_one({"a": 1.0}, 5.0)
    assert len(set(said)) == 3 and said[9] == said[0] != said[10] == said[19] != said[20]


def shared_copies(*make):
    """How often the copy is renewed for a sequence of events that several estimators see."""
    model = linear_model.LinearRegression()
    live = LiveModel(model, snapshot_every=10)
    estimators, copies = [one(live) for one in make], []
    for t in range(40):
        x, y = {"a": float(t % 3), "b": float(t % 5)}, float(t % 7)
        for estimator in estimators:
            estimator.explain_one(x, y)
        copies.append(live.predictor)
        model.learn_one(x, y)
    assert live.events == 40
    return [t for t in range(1, 40) if copies[t] is not copies[t - 1]]


def test_an_event_that_several_estimators_see_counts_once() -> None:
    alone = shared_copies(lambda live: IncrementalPFI(live, start=1))
    assert alone == [10, 20, 30]
    several = (
        lambda live: IncrementalPFI(live, start=1),
        lambda live: IncrementalSAGE(live, start=1),
        IncrementalPDP,
        lambda live: IntervalPFI(live, interval=20),
        lambda live: WindowSAGE(live, window=20, stride=10),
    )
    assert shared_copies(*several) == alone


def test_an_estimator_that_joins_or_returns_goes_on_with_the_count() -> None:
    live = LiveModel(linear_model.LinearRegression(), snapshot_every=10)
    first = IncrementalPFI(live, reservoir=20)
    for t in range(15):
        first.explain_one({"a": float(t)}, 1.0)
    second = IncrementalPFI(live, reservoir=20)
    second.explain_one({"a": 1.0}, 1.0)
    assert live.events == 16
    second.restore(*first.state())
    second.explain_one({"a": 1.0}, 1.0)
    assert live.events == 17


def test_classes_that_a_model_learned_before_are_known() -> None:
    model = tree.HoeffdingTreeClassifier()
    for y in ("a", "b", "c"):
        model.learn_one({"x": 1.0}, y)
    live = LiveModel(model)
    row, target = live.row({"x": 1.0}), live.target("b")
    said = live.predictor.evaluate(row)
    assert said.values.sum() == pytest.approx(1.0) and set(live.classes) == {"a", "b", "c"}
    assert live.classes[int(target)] == "b"


def test_what_cannot_be_used_is_refused_with_what_was_expected() -> None:
    with pytest.raises(ModelError, match="expected a River classifier or regressor"):
        LiveModel(preprocessing.StandardScaler())
    with pytest.raises(ModelError, match="at least 1"):
        LiveModel(linear_model.LinearRegression(), snapshot_every=0)
    live = LiveModel(linear_model.LinearRegression())
    with pytest.raises(ModelError, match=r"expected `y` to be a number within ±1e\+60 \(regression\), got 'a'"):
        live.target("a")
    for y in (None, float("nan")):
        with pytest.raises(ModelError, match="labelled events"):
            live.target(y)
    with pytest.raises(ModelError, match="expected a number, text, boolean or null in `x`, got an array in 'a'"):
        live.row({"a": [1]})
    with pytest.raises(ModelError, match="labelled events"):
        LiveModel(tree.HoeffdingTreeClassifier()).target(None)
    slow = LiveModel(neighbors.KNNRegressor(), snapshot_every=5)
    slow.row({"a": 1.0})
    with pytest.raises(NotCompilable):
        _ = slow.predictor
