"""A compiled linear model says and becomes, bit for bit, what River's does."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, linear_model, optim, preprocessing

from glasstream.ingest.admission import Task
from glasstream.models.live.catalogue import model_factory
from glasstream.models.live.linear_learning import CompiledLinear
from glasstream.models.live.stream_model import StreamModel
from tests.examples import examples

NUMBERS = st.one_of(
    st.floats(-1e3, 1e3), st.integers(-50, 50), st.booleans(), st.sampled_from([0.0, -0.0, 1e-300, 1e150, 7.0])
)
EVENTS = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("abcdefgh"), NUMBERS, max_size=6), NUMBERS, st.booleans()), max_size=60
)


def both(task: Task) -> tuple[Any, CompiledLinear]:
    model, compiled = model_factory("linear", 1)(task), CompiledLinear.of(model_factory("linear", 1)(task))
    assert compiled is not None
    return model, compiled


def state(model: compose.Pipeline) -> str:
    """All that two River models can differ in; as text, for which NaN is NaN."""
    scaler, linear = model.steps.values()
    dicts = (scaler.counts, scaler.means, scaler.vars, linear.weights)
    return repr([*(sorted(one.items()) for one in dicts), linear.intercept, linear.optimizer.n_iterations])


def said(model: Any, x: dict[str, Any], task: Task) -> str:
    if task is Task.CLASSIFICATION:
        return repr({key: float(value) for key, value in model.predict_proba_one(x).items()})
    return repr(float(model.predict_one(x)))


@pytest.mark.parametrize("task", Task)
@given(events=EVENTS)
@examples(150)
def test_what_it_says_and_becomes_are_rivers_bits(task: Task, events: list[tuple[dict[str, Any], Any, bool]]) -> None:
    river, compiled = both(task)
    for x, y, labelled in events:
        assert said(compiled, x, task) == said(river, x, task)
        if labelled:
            target = bool(y) if task is Task.CLASSIFICATION else y
            river.learn_one(x, target)
            compiled.learn_one(x, target)
    assert state(compiled.river) == state(river)


def drifting(count: int) -> Iterator[tuple[dict[str, float], bool]]:
    for number in range(count):
        a, b = (number * 7919 % 1000) / 1000, (number * 104729 % 997) / 997
        x = {"a": a, "b": b * (1 + number / count), "c": a * b}
        if number % 7 == 3:
            del x["b"]
        yield x, a + b > 1


@pytest.mark.parametrize("task", Task)
def test_long_streams_keep_the_bits_however_often_river_is_asked_for(task: Task) -> None:
    river, compiled = both(task)
    for number, (x, y) in enumerate(drifting(5_000)):
        target = y if task is Task.CLASSIFICATION else float(y) + x["a"]
        assert said(compiled, x, task) == said(river, x, task)
        river.learn_one(x, target)
        compiled.learn_one(x, target)
        if number % 997 == 0:
            assert state(compiled.river) == state(river)
    assert state(compiled.river) == state(river)


def test_more_features_and_forms_than_there_is_room_for_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glasstream.models.live.linear_learning._FORMS", 3)
    river, compiled = both(Task.REGRESSION)
    for number in range(200):
        x = {f"f{(number * place) % 90}": float(place) for place in range(1, 8)}
        assert said(compiled, x, Task.REGRESSION) == said(river, x, Task.REGRESSION)
        river.learn_one(x, number / 200)
        compiled.learn_one(x, number / 200)
        assert len(compiled._forms) <= 3
    assert state(compiled.river) == state(river)


def test_a_pickled_model_goes_on_where_it_was() -> None:
    stream = list(drifting(600))
    model = StreamModel(model_factory("linear", 1), Task.CLASSIFICATION)
    assert isinstance(model._live, CompiledLinear)
    for x, y in stream[:300]:
        model.predict(x)
        model.learn(x, str(y))
    successor = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert isinstance(successor._live, CompiledLinear)
    for x, y in stream[300:]:
        assert successor.predict(x) == model.predict(x)
        successor.learn(x, str(y))
        model.learn(x, str(y))
    assert state(successor.river) == state(model.river)


@pytest.mark.parametrize(
    "model",
    [
        linear_model.LogisticRegression(),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(l2=0.1),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(l1=0.1),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.Adam()),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(loss=optim.losses.Hinge()),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(loss=optim.losses.Log(2.0, 1.0)),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(optim.schedulers.InverseScaling(1))),
        preprocessing.StandardScaler() | linear_model.LinearRegression(loss=optim.losses.Huber()),
        preprocessing.StandardScaler() | linear_model.LinearRegression(initializer=optim.initializers.Normal(seed=1)),
        preprocessing.StandardScaler(with_std=False) | linear_model.LinearRegression(),
        preprocessing.StandardScaler(window_size=10) | linear_model.LinearRegression(),
        preprocessing.MinMaxScaler() | linear_model.LinearRegression(),
        preprocessing.StandardScaler() | preprocessing.MinMaxScaler() | linear_model.LinearRegression(),
        preprocessing.StandardScaler() | linear_model.Perceptron(),
    ],
    ids=str,
)
def test_other_models_run_in_river(model: object) -> None:
    assert CompiledLinear.of(model) is None


def test_what_river_refuses_is_refused() -> None:
    river, compiled = both(Task.REGRESSION)
    for model in (river, compiled):
        model.learn_one({"a": 1.0}, 1.0)
        model.learn_one({"a": 2.0}, 1.0)
        with pytest.raises(Exception, match=r"float|str"):
            model.predict_one({"a": "text"})
