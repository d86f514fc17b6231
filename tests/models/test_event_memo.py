"""Trees that are asked once an event predict and become what River's own do."""

import io
import pickle
import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from river import ensemble, forest, tree
from river.tree import utils

from glasstream.ingest.admission import Task
from glasstream.models.live import event_memo
from glasstream.models.live.stream_model import StreamModel
from tests.examples import some

ROWS = 1_200
IN_RIVER = {"stop_mem_management": True}
"""A parameter with which a model stays in River."""
TREES = {
    "hoeffding": lambda: tree.HoeffdingTreeClassifier(**IN_RIVER, grace_period=50, delta=0.01),
    "naive": lambda: tree.HoeffdingTreeClassifier(**IN_RIVER, leaf_prediction="nb", grace_period=50, delta=0.01),
    "adaptive": lambda: tree.HoeffdingAdaptiveTreeClassifier(**IN_RIVER, grace_period=50, delta=0.01, seed=1),
    "adaptive without sampling": lambda: tree.HoeffdingAdaptiveTreeClassifier(
        **IN_RIVER, bootstrap_sampling=False, grace_period=50, delta=0.01, drift_window_threshold=50, seed=1
    ),
    "small": lambda: tree.HoeffdingAdaptiveTreeClassifier(
        grace_period=30, max_depth=3, memory_estimate_period=100, max_size=0.02, seed=1
    ),
    "fast": lambda: tree.ExtremelyFastDecisionTreeClassifier(grace_period=50, min_samples_reevaluate=50, delta=0.01),
    "forest": lambda: forest.ARFClassifier(**IN_RIVER, n_models=3, grace_period=30, delta=0.1, seed=1),
}


def stream() -> Iterator[tuple[dict[str, Any], str]]:
    """Numbers, a category, missing values, three classes; the concept changes in the middle."""
    for number in range(ROWS):
        a, b = (number * 7919 % 1009) / 1009, (number * 104729 % 997) / 997
        x = {"a": a, "b": b, "c": "xyz"[number % 3], "d": (a * b, number % 5)[number % 2]}
        if number % 11 == 4:
            del x["b"]
        first = a > 0.5 if number < ROWS // 2 else b > 0.5
        yield x, "low" if first and x["c"] != "z" else "mid" if x["d"] > 1 else "high"


def in_river(model: Any) -> list[object]:
    said = []
    for x, y in stream():
        said.append(model.predict_proba_one(x) or None)
        model.learn_one(x, y)
    return said


class Contents(pickle.Pickler):
    """Writes an object that is there twice twice: who shares what does not matter. Some generators have no seed."""

    def reducer_override(self, found: object) -> Any:
        return (str, ("generator",)) if isinstance(found, random.Random) else NotImplemented


def contents(model: object) -> bytes:
    written = io.BytesIO()
    pickler = Contents(written, protocol=5)
    pickler.fast = True
    pickler.dump(model)
    return written.getvalue()


@pytest.mark.parametrize("name", some({*TREES} - {"fast", "forest"}, TREES, pytest.mark.slow))
def test_predictions_and_the_model_that_is_left_are_rivers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    river = TREES[name]()
    expected = in_river(river)
    questions = count()

    def counted(*given: Any) -> dict[str, float]:
        next(questions)
        return utils.do_naive_bayes_prediction(*given)

    monkeypatch.setattr(event_memo, "_ask", counted)
    in_river(TREES[name]())
    asked, questions = next(questions), count()
    model = StreamModel(lambda task: TREES[name](), Task.CLASSIFICATION)
    assert model.stays_in_river
    for (x, y), wanted in zip(stream(), expected, strict=True):
        assert model.predict(x).probabilities == wanted
        model.learn(x, y)
    assert contents(model.river) == contents(river)
    # One whose leaves are naive Bayes and nothing else asks once an event by itself.
    assert next(questions) <= asked * (1.0 if name == "naive" else 0.8)


def test_an_event_that_is_changed_between_two_that_nobody_learns_is_seen_anew() -> None:
    model = StreamModel(lambda task: TREES["naive"](), Task.CLASSIFICATION)
    for x, y in stream():
        model.predict(x)
        model.learn(x, y)
    x = {"a": 0.9, "b": 0.9, "c": "x", "d": 0.1}
    before = model.predict(x)
    x["b"], x["c"] = 0.1, "z"
    assert model.predict(x) == model.predict(dict(x)) != before


def test_other_models_are_left_alone() -> None:
    assert not event_memo.asks_repeatedly(ensemble.BaggingClassifier(tree.HoeffdingTreeClassifier(), seed=1))
    model = StreamModel(lambda task: ensemble.BaggingClassifier(TREES["naive"](), seed=1), Task.CLASSIFICATION)
    x = {"a": 1.0}
    model.predict(x)
    assert event_memo._UnderWay.x is not x


def test_nothing_is_remembered_after_an_event_and_outside_of_one() -> None:
    model = StreamModel(lambda task: TREES["naive"](), Task.CLASSIFICATION)
    for x, y in stream():
        model.predict(x)
        assert event_memo._UnderWay.x is x
        model.learn(x, y)
        assert event_memo._UnderWay.x is None
        assert not event_memo._UnderWay.leaves
        assert not event_memo._UnderWay.trees
