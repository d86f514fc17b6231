"""Streams and models for the checks; they are the same every time."""

from collections.abc import Iterator, Mapping
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from glasstream.base.errors import ModelError
from glasstream.events.features import Kind
from glasstream.models.predictors.predictor import NO_LABEL, REGRESSION, Floats, Output, Task

KINDS = (Kind.NUMBER, Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN, Kind.NUMBER)
"""Kinds of the features of `mixed_rows`."""

Event = tuple[dict[str, Any], Any]


def mixed_rows(count: int, seed: int = 1) -> Floats:
    """Return (count, 5) numbers, text codes and booleans, of which one in ten is absent; `KINDS` holds their kinds."""
    random = np.random.Generator(np.random.PCG64(seed))
    size = random.normal(size=count)
    columns = (
        size,
        size + 0.1 * random.normal(size=count),
        random.integers(0, 5, size=count).astype(np.float64),
        (random.random(count) < 0.4).astype(np.float64),
        100.0 * random.random(count),
    )
    rows = np.column_stack(columns)
    rows[random.random(rows.shape) < 0.1] = np.nan
    return rows


def numbered_rows(count: int) -> Floats:
    """Return (count, 5) rows that hold their own number in every feature."""
    return np.repeat(np.arange(float(count))[:, np.newaxis], len(KINDS), axis=1)


def random_cuts(count: int, seed: int) -> list[int]:
    """Return places at which to cut `count` rows into blocks: both ends, and some empty blocks."""
    random = np.random.Generator(np.random.PCG64(seed))
    places = random.integers(0, count + 1, size=6).tolist()
    return sorted([0, *places, places[0], count])


class KnownRegressor(base.Regressor):
    """A model that predicts twice the feature `used`, and counts the events that it learned."""

    def __init__(self) -> None:
        self.taught = 0

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        self.taught += 1

    def predict_one(self, x: Mapping[str, Any]) -> float:
        return 2.0 * float(x.get("used", 0.0))


class KnownClassifier(base.Classifier):
    """A model that predicts a sigmoid of the feature `used`, and counts the events that it learned."""

    def __init__(self) -> None:
        self.taught = 0

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        self.taught += 1

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[str, float]:
        yes = 1.0 / (1.0 + exp(-3.0 * x.get("used", 0.0)))
        return {"no": 1.0 - yes, "yes": yes}


class KnownPredictor:
    """The known models as a predictor of rows; `used` is the first feature."""

    compiled = False

    def __init__(self, task: Task, features: tuple[str, ...]) -> None:
        self.task = task
        self.features = features
        self.classes = () if task == REGRESSION else ("no", "yes")

    def evaluate(self, rows: Floats) -> Output:
        if rows.ndim != 2:
            raise ModelError(f"expected rows as float64[n, d], got an array of shape {rows.shape}")
        used = [0.0 if value != value else value for value in rows[:, 0].tolist()]
        if self.task == REGRESSION:
            return Output(np.array([[2.0 * value] for value in used]).reshape(-1, 1), np.full(len(rows), NO_LABEL))
        said = [1.0 / (1.0 + exp(-3.0 * value)) for value in used]
        values = np.array([[1.0 - yes, yes] for yes in said]).reshape(-1, 2)
        return Output(values, (values[:, 1] > values[:, 0]).astype(np.int64))


def known_model(task: Task) -> Any:
    """Return the River model of a task whose importances are known: only `used` counts."""
    return KnownRegressor() if task == REGRESSION else KnownClassifier()


def known_events(task: Task, count: int) -> Iterator[Event]:
    """Return mixed events that the known model predicts without error, with missing values and a late feature.

    In the first event `used` comes first and nothing is missing.
    """
    texts = ("red", "green", "blue")
    random = np.random.Generator(np.random.PCG64(2))
    model = known_model(task)
    for number, (used, noise, text, open_, late, lacks) in enumerate(random.random((count, 6)).tolist()):
        x: dict[str, Any] = {
            "used": 4.0 * used - 2.0,
            "noise": noise,
            "town": texts[int(3 * text)],
            "open": open_ < 0.4,
        }
        if number >= count // 2:
            x["late"] = late
        missing = ("used", "noise", "town", "open", "late")[int(12 * lacks)] if number and lacks < 5 / 12 else None
        x.pop(missing or "", None)
        yield x, model.predict_one(x)


def known_rows(task: Task, count: int) -> tuple[Floats, NDArray[np.float64]]:
    """Return (count, 3) rows and (count,) targets.

    The first feature is `used`. After the first row, one value in ten is absent.
    """
    random = np.random.Generator(np.random.PCG64(3))
    rows = 4.0 * random.random((count, 3)) - 2.0
    rows[1:][random.random(rows[1:].shape) < 0.1] = np.nan
    said = KnownPredictor(task, ("used", "noise", "more")).evaluate(rows)
    return rows, said.values[:, 0] if task == REGRESSION else said.labels.astype(np.float64)
