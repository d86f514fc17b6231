"""What River's own loop gives, the learner gives: its predictions with a user's pipeline are River's, bit for bit.

The loop hands River the features of an event as the documents say (`ops/docs/own-model.md`): numbers as floats, and
without those that the event lacks. A pipeline with an imputer gets None in their place.
"""

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest
from river import base, preprocessing

from glasstream.flow.learner.partition import PartitionLearner
from glasstream.models.river.catalogue import _in_order
from glasstream.models.stream_model import StreamModel
from glasstream_topics.events_dead import Reason
from tests.models.online.conftest import ordered_categories
from tests.support.learner import message, settings
from tests.support.river_pipelines import CLASSIFIERS, REGRESSORS

HERE = "tests.support.river_pipelines"
FEW = {"logistic", "previous_imputer_logistic", "mean_imputer_linear", "one_hot_linear", "forest", "knn_regressor"}
"""Pipelines of the fast tests; CI runs all."""
COUNT = 160


def stream(null: bool, classes: int, seed: int = 3) -> Iterator[dict[str, Any]]:
    """Make events with numbers, texts and booleans whose columns appear, vanish and have gaps.

    Parameters
    ----------
    null
        Whether an event has null for what it lacks, and not just nothing.
    """
    source = random.Random(seed)
    for number in range(COUNT):
        x: dict[str, Any] = {
            "a": source.gauss(0, 1),
            "b": float(source.randrange(4)),
            "day": source.choice(("mon", "tue", "wed sun")),
            "open": source.random() < 0.5,
        }
        signal = x["a"] + (0.8 if x["open"] else 0.0)
        if number > 0:
            gone = {name for name in ("a", "b", "day") if source.random() < 0.15} | ({"b"} if number > 130 else set())
            for name in sorted(gone):
                if null:
                    x[name] = None
                else:
                    del x[name]
        if number >= 80:
            x["late"] = source.gauss(1, 2)
        label = "low" if signal < 0 else "high" if signal < 1.2 or classes == 2 else "top"
        yield {"x": x, "y": label if classes else round(3 * signal + source.gauss(0, 0.1), 3)}


def imputes(model: Any) -> tuple[bool, set[str]]:
    """Return whether a pipeline of the tests has a `PreviousImputer`, and the features that a `StatImputer` names."""
    every, names = False, set[str]()
    waiting = [model]
    while waiting:
        part = waiting.pop()
        every |= issubclass(type(part), preprocessing.PreviousImputer)
        if issubclass(type(part), preprocessing.StatImputer):
            names |= set(part.stats)
        for group in ("steps", "transformers"):
            waiting += getattr(part, group, {}).values()
    return every, names


def rivers_loop(model: Any, events: list[dict[str, Any]]) -> list[Any]:
    """Return what River's own loop predicts for each event: a number, or a class and probabilities; or "raised"."""
    regression = not isinstance(model, base.Classifier) and not (
        hasattr(model, "_last_step") and isinstance(model._last_step, base.Classifier)
    )
    binary = not regression and not model._multiclass
    every, named = imputes(model)
    names: list[str] = []
    known: dict[str, None] = {}
    learned: set[str] = set()
    said: list[Any] = []
    for event in events:
        x = {name: value for name, value in event["x"].items() if value is not None}
        known.update(dict.fromkeys(x))
        for name in (*known, *sorted(named)):
            if (every or name in named) and name not in x:
                x[name] = None
        y = event["y"]
        try:
            if regression:
                said.append(_finite(model.predict_one(dict(x)), learned.issuperset(x)))
            elif binary and not names:
                said.append((None, None))  # a model of two classes is not asked before the first label
            else:
                label, votes = _classified(model, dict(x), binary, names)
                total = _finite(sum(votes.values()) if votes else None, learned.issuperset(x))
                said.append((None, None) if votes and total is None else (label, votes))
        except Exception:  # noqa: BLE001 - a model can raise anything; then the learner rejects the event, too
            said.append("raised")
            continue
        if not regression and y not in names:
            names.append(y)
        learned |= x.keys()
        try:
            model.learn_one(dict(x), names.index(y) == 1 if binary else y)
        except Exception:  # noqa: BLE001
            said[-1] = (said[-1], "not learned")
    return said


def _finite(value: float | None, met: bool) -> float | None:
    """Return a prediction; None for one that is not finite if a feature is new to the model."""
    if value is None or math.isfinite(value):
        return None if value is None else float(value)
    if met:
        raise ArithmeticError(value)
    return None


def _classified(model: Any, x: dict[str, Any], binary: bool, names: list[str]) -> Any:
    try:
        votes = model.predict_proba_one(x)
    except NotImplementedError:
        label = model.predict_one(x)
        key = (names[label] if label is not None and label < len(names) else None) if binary else label
        return key, None
    if binary:
        votes = {names[key]: vote for key, vote in votes.items() if key < len(names)}
        return (max(votes, key=votes.get) if votes else None), votes or None
    if not votes:
        return None, None
    default = type(getattr(model, "_last_step", model)).predict_one is base.Classifier.predict_one
    return (max(votes, key=votes.get) if default else model.predict_one(x)), votes


def learners(name: str, task: str, events: list[dict[str, Any]]) -> tuple[list[Any], PartitionLearner]:
    """Return the same of the learner, which publishes it."""
    given = settings(
        f"model.name={HERE}:make_{name}", f"model.task={task}", "explain.methods=ipfi", "snapshot.cadence=1000"
    )
    learner = PartitionLearner(0, given)
    said: list[Any] = []
    for offset, event in enumerate(events):
        for _ in learner.consume(message(offset, event)):
            pass
        learner.cut()
        outbox, dead = learner.take_outbox()
        reasons = [found for one in dead for found in one.found]
        assert all(found.reason is Reason.MODEL_ERROR for found in reasons)
        if not outbox.predictions:
            said.append("raised")
            continue
        ((_, record),) = outbox.predictions
        said.append(_said(record, task))
        if reasons:
            said[-1] = (said[-1], "not learned")
    return said, learner


def _said(record: bytes, task: str) -> Any:
    content = orjson.loads(record)
    if task == "regression":
        return content.get("prediction")
    return content.get("prediction"), content.get("probabilities")


CASES = [
    pytest.param(name, task, gap == "null", marks=() if name in FEW else pytest.mark.slow, id=f"{name}-{gap}")
    for names, task in ((CLASSIFIERS, "classification"), (REGRESSORS, "regression"))
    for name in names
    for gap in ("null", "absent")
]


@pytest.mark.parametrize(("name", "task", "null"), CASES)
def test_the_learner_predicts_what_rivers_loop_predicts(name: str, task: str, null: bool) -> None:
    factory = {**CLASSIFIERS, **REGRESSORS}[name]
    classes = (3 if factory()._multiclass else 2) if task == "classification" else 0
    events = list(stream(null, classes))
    with ordered_categories():
        expected = rivers_loop(_in_order(factory()), events)
        said, learner = learners(name, task, events)
    for number, (mine, rivers) in enumerate(zip(said, expected, strict=True)):
        assert mine == rivers, f"event {number}: {events[number]}"
    assert sum(one != "raised" for one in said) > COUNT / 2, "the pipeline learns what the stream has"
    _explained_as_predicted(learner, events)


def _explained_as_predicted(learner: PartitionLearner, events: list[dict[str, Any]]) -> None:
    """Check that the predictor of explanations answers rows as the model answers events."""
    of = learner.streams["s"].learner
    model, table = of.state.model, of.state.features
    assert isinstance(model, StreamModel)
    predictor = of._versions.predictor(model)
    for event in events[-20:]:
        row, given = table.encode(event["x"])
        try:
            prediction = model.predict(of._completed(model, given))
        except Exception:  # noqa: BLE001
            continue
        answer = predictor.evaluate(np.array([list(row)], np.float64))
        if prediction.value is not None:
            assert answer.values[0, 0] == pytest.approx(prediction.value, rel=1e-9, abs=1e-9)
        elif prediction.probabilities is not None:
            wanted = [prediction.probabilities.get(name, 0.0) for name in predictor.classes]
            assert answer.values[0].tolist() == pytest.approx(wanted, rel=1e-9, abs=1e-9)
