"""Shared by the tests of predictors: a model with its feature table, compared with River itself on any rows."""

import csv
import gzip
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river.datasets import synth

from glasstream.events.features import FeatureTable
from glasstream.models.codec import snapshot
from glasstream.models.predictors.checks import check_splits
from glasstream.models.predictors.predictor import NO_LABEL, Output, Predictor
from glasstream.models.river.compile import compile_model
from glasstream.models.river.generic import GenericPredictor
from tests.support.model_examples import EXAMPLES, Example

Event = tuple[dict[str, Any], Any]


@dataclass
class Watched:
    """A River model that learns, and the predictors made of it."""

    model: Any
    classification: bool
    table: FeatureTable = field(default_factory=FeatureTable)
    labels: dict[Any, str] = field(default_factory=dict)

    def learn(self, x: dict[str, Any], y: Any) -> None:
        _, given = self.table.encode(x)
        if self.classification:
            self.labels.setdefault(y, f"class {y}")
        self.model.learn_one(dict(given), y)

    def compiled(self) -> Predictor:
        """The compiled predictor, by way of a snapshot's bytes."""
        labels = self.labels if self.classification else None
        predictor = compile_model(self.model, self.table, labels, given=self.table.given())
        return snapshot.decode(snapshot.encode(predictor, stream="s", epoch=0, version=1, key=None), key=None)

    def check_odd(self, xs: list[dict[str, Any]], predictor: Predictor | None = None, tolerance: float = 1e-9) -> int:
        """Check like `check`, on rows for some of which River gives no number. Return for how many it gives one."""
        predictor, rows = predictor or self.compiled(), self.rows(xs)
        check_splits(predictor, rows[:500], splits=2)
        said = predictor.evaluate(rows)
        wanted, labels = np.full(said.values.shape, np.nan), said.labels.copy()
        for i, x in enumerate(xs):
            try:
                wanted[i], label = self._river_one(x, labelled=i % 4 == 0)
            except (ArithmeticError, KeyError, TypeError, ValueError):
                continue
            if i % 4 == 0:
                labels[i] = label
        answered = np.isfinite(wanted).all(axis=1)
        close = np.isclose(said.values, wanted, rtol=tolerance, atol=tolerance).all(axis=1)
        for i in np.flatnonzero(answered & ~(close & (said.labels == labels))):
            raise AssertionError(
                f"{said.values[i]}, label {said.labels[i]}, instead of {wanted[i]}, {labels[i]} for {xs[i]}"
            )
        return int(answered.sum())

    def generic(self) -> GenericPredictor:
        labels = self.labels if self.classification else None
        return GenericPredictor(self.model, self.table, labels, given=self.table.given())

    def rows(self, xs: list[dict[str, Any]]) -> np.ndarray:
        """The rows of `xs`; features and categories that are new widen the table."""
        encoded = [list(self.table.encode(x)[0]) for x in xs]
        rows = np.full((len(xs), len(self.table)), np.nan)
        for row, values in zip(rows, encoded, strict=True):
            row[: len(values)] = values
        return rows

    def river(self, xs: list[dict[str, Any]]) -> Output:
        """Return River's own answer."""
        said = [self._river_one(x) for x in xs]
        columns = len(self.labels) if self.classification else 1
        values = np.array([values for values, _ in said], np.float64).reshape(len(xs), columns)
        return Output(values, np.array([label for _, label in said], np.int64))

    def _river_one(self, x: dict[str, Any], labelled: bool = True) -> tuple[list[float], int]:
        """Values and label; River calculates anew for the label, which is left out unless `labelled`."""
        x = {name: value for name, value in x.items() if value is not None}
        if not self.classification:
            return [self.model.predict_one(x)], NO_LABEL
        probabilities = self.model.predict_proba_one(x)
        label = self.model.predict_one(x) if labelled else None
        columns = {key: column for column, key in enumerate(self.labels)}
        return [probabilities.get(key, 0.0) for key in columns], columns.get(label, NO_LABEL)

    def check(self, xs: list[dict[str, Any]], tolerance: float = 1e-9) -> None:
        """Check that the compiled predictor says of `xs` what River says, and of each row alone the same bits.

        Where River says NaN (MinMaxScaler of a feature that it has not met), anything goes.
        """
        predictor = self.compiled()
        said = check_splits(predictor, self.rows(xs), splits=2)
        wanted = self.river(xs)
        numbers = ~np.isnan(wanted.values).any(axis=1)
        assert numbers.any()
        off = np.abs(said.values - wanted.values)[numbers]
        assert np.all(off <= tolerance * (1 + np.abs(wanted.values[numbers])))
        assert said.labels[numbers].tolist() == wanted.labels[numbers].tolist()


@pytest.fixture(scope="session")
def watch() -> Callable[..., Watched]:
    return Watched


def mixed(xs: list[dict[str, Any]], seed: int, count: int) -> list[dict[str, Any]]:
    """Rows as an explainer makes them: each feature from another row or absent."""
    rng = random.Random(seed)
    names = list(dict.fromkeys(name for x in xs for name in x))
    made = []
    for _ in range(count):
        x = {name: rng.choice(xs).get(name) for name in names if rng.random() < 0.9}
        made.append({name: value for name, value in x.items() if value is not None})
    return made


@pytest.fixture(scope="session")
def follow() -> Callable[[Watched, list[Event], int], None]:
    """Learns a stream and compares at `moments` of it, on events of then and on mixtures of them."""

    def run(watched: Watched, events: list[Event], moments: int) -> None:
        due = {round(len(events) ** (k / moments)) for k in range(moments + 1)}
        due |= set(np.linspace(len(events) / moments, len(events), moments, dtype=int).tolist())
        for count, (x, y) in enumerate(events, 1):
            watched.learn(x, y)
            if count in due:
                recent = [x for x, _ in events[max(0, count - 20) : count + 10]]
                watched.check([*recent, *mixed(recent, count, 30), {}])

    return run


def _csv(path: Path, target: str, limit: int) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        return [row for row, _ in zip(csv.DictReader(file), range(limit), strict=False)]


@pytest.fixture(scope="session")
def data_set(data_dir: Path) -> Callable[..., list[Event]]:
    """Events of any of the data sets: columns of numbers as float, others as text, empty cells absent."""

    def read(name: str, limit: int, *, regression: bool = False) -> list[Event]:
        rows = _csv(data_dir / f"{name}.csv.gz", "target", limit)
        text = {key for key in rows[0] if any(not _is_number(row[key]) for row in rows if row[key])} - {"target"}
        return [
            (
                {k: v if k in text else float(v) for k, v in row.items() if k != "target" and v},
                float(row["target"]) if regression else row["target"],
            )
            for row in rows
        ]

    return read


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.fixture(scope="session")
def elec2(data_dir: Path) -> Callable[[int], list[Event]]:
    def read(limit: int) -> list[Event]:
        rows = _csv(data_dir / "elec2.csv.gz", "target", limit)
        return [({k: float(v) for k, v in row.items() if k != "target" and v}, row["target"]) for row in rows]

    return read


@pytest.fixture(scope="session")
def bike_hourly(data_dir: Path) -> Callable[[int], list[Event]]:
    def read(limit: int) -> list[Event]:
        rows = _csv(data_dir / "bike_hourly.csv.gz", "target", limit)
        return [({k: float(v) for k, v in row.items() if k != "target" and v}, float(row["target"])) for row in rows]

    return read


@pytest.fixture(scope="session")
def agrawal() -> Callable[[int], list[Event]]:
    def read(limit: int) -> list[Event]:
        half = limit // 2
        streams = (synth.Agrawal(function, seed).take(half) for function, seed in ((6, 1), (1, 2)))
        return [({name: float(value) for name, value in x.items()}, y) for stream in streams for x, y in stream]

    return read


@pytest.fixture(scope="session")
def odd() -> Callable[..., list[Event]]:
    """Categories, booleans, absent values, categories and features that appear late; three classes."""

    def make(limit: int, *, regression: bool = False, text: bool = True) -> list[Event]:
        return list(_odd(limit, regression, text))

    return make


@pytest.fixture(scope="session")
def learned_examples(odd: Callable[..., list[Event]]) -> Mapping[str, Watched]:
    """Every example after a short stream of odd events, learned when it is asked for; nobody lets them learn on."""

    def learned(name: str) -> Watched:
        example = EXAMPLES[name]
        watched = Watched(example.make(), example.classification)
        for x, y in example_events(example, odd(300, regression=not example.classification, text=example.text)):
            watched.learn(x, y)
        return watched

    return Made(learned)


class Made(dict):
    """A mapping whose values are made when they are asked for, once."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Any:
        self[name] = self._make(name)
        return self[name]


def example_events(example: Example, events: list[Event]) -> list[Event]:
    """The events as the example can learn them: no feature absent that it selects, targets of two classes boolean."""
    if example.selects:
        events = [(dict.fromkeys(example.selects, 0.5) | x, y) for x, y in events]
    if example.binary:
        events = [(x, y == events[0][1]) for x, y in events]
    return events


def odd_rows(xs: list[dict[str, Any]], seed: int, count: int) -> list[dict[str, Any]]:
    """Rows that no stream has: each feature from another row or absent, one in three rows with something extreme.

    One extreme number a row: of two, a sum keeps what its order leaves.
    """
    rng = random.Random(seed)
    made = mixed(xs, seed, count)
    names = list(dict.fromkeys(name for x in xs for name in x))
    for i, x in enumerate(made):
        name = rng.choice(names)
        kind = type(next(other[name] for other in xs if name in other))
        what = rng.randrange(9)
        if what == 0:
            x[name] = _EXTREMES[kind][i % len(_EXTREMES[kind])]
        elif what == 1 and kind is float:
            x[name] = 0.0 if i % 2 else -0.0
        elif what == 2:
            x["never seen"] = 7.0
        elif what == 3:
            x.clear()
    order = {name: at for at, name in enumerate(names)}
    return [dict(sorted(x.items(), key=lambda item: order.get(item[0], len(order)))) for x in made]


_EXTREMES = {
    float: [1e-300, -1e6, 1e9, -1e30, 1e150, -1e200, 1e308, -1.7e308, 5e-324],
    str: ["never seen", "", "red", "t1", "True", "0.0"],
    bool: [True, False],
}


def _odd(limit: int, regression: bool, text: bool) -> Iterator[Event]:
    rng = random.Random(5)
    for i in range(limit):
        colour = rng.choice(["red", "green", "blue", "grey"][: 3 + (i > limit // 2)])
        town = f"t{rng.randrange(3 + i * 9 // limit)}"
        size, weight, open_ = rng.gauss(0, 1), rng.uniform(0, 10), rng.random() < 0.4
        score = 3 * (colour == "red") - 3 * (colour == "grey") + 2 * (town == "t1") + size + (weight > 5) + open_
        if i % (limit // 2) > limit // 4:
            score = -score  # the concept changes, so that adaptive trees grow alternates
        x: dict[str, Any] = {"size": size, "weight": weight, "open": open_}
        if text:
            x |= {"colour": colour, "town": town}
        if i > limit // 3:
            x["late"] = rng.gauss(score, 1)
        x = {name: value for name, value in x.items() if rng.random() > 0.1}
        score += rng.gauss(0, 0.3)
        yield x, score if regression else ("low" if score < -1 else "high" if score > 1.5 else "middle")
