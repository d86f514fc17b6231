"""Adapter between a River model that keeps learning and the rows that estimators take."""

from collections.abc import Iterable, Mapping
from math import isfinite, isnan
from typing import Any

import numpy as np
from river import base, compose

from glasstream.errors import ModelError
from glasstream.ingest.admission import label
from glasstream.ingest.features import FeatureTable, Kind, Value
from glasstream.models.compiler.compile import compile_model
from glasstream.models.contract.predictor import CLASSIFICATION, REGRESSION, Floats, Predictor, Task
from glasstream.models.live.generic import GenericPredictor


class LiveModel:
    """Adapter between a River model and an estimator that sees one event at a time.

    The adapter calls the model but never trains it. Explain an event before the model learns it; `ExplainedModel` also
    has the other order. Several estimators may share one adapter, and then see the same features, classes and copies of
    the model.

    Parameters
    ----------
    model
        A River classifier or regressor, or a pipeline that ends in one.
    task
        ``"classification"`` or ``"regression"``; None for the model's own task.
    snapshot_every
        Number N of events after which a compiled copy of the model is renewed. The copy is also renewed for a new
        feature or class. It is evaluated many times faster than the model. None to call the model itself at each event.
        If each event is explained after the model has learned it, only 1 and None are right: an older copy has not
        learned the event.

    Raises
    ------
    ModelError
        The model is neither a classifier nor a regressor, or N is below 1.

    Examples
    --------
    >>> from river import linear_model
    >>> live = LiveModel(linear_model.LinearRegression())
    >>> live.row({"size": 3, "open": True}).tolist(), live.target(7)
    ([[3.0, 1.0]], 7.0)
    >>> live.row({"size": 4.5, "day": "mon"}).tolist()
    [[4.5, nan, 0.0]]
    >>> live.names
    ('size', 'open', 'day')
    """

    def __init__(self, model: Any, task: Task | None = None, *, snapshot_every: int | None = None) -> None:
        if snapshot_every is not None and snapshot_every < 1:
            raise ModelError(f"expected snapshot_every to be at least 1, or None for none, got {snapshot_every}")
        self.model = model
        self.task: Task = task or _task_of(model)
        self.events = 0
        """Number of different events encoded so far."""
        self.snapshot_every = snapshot_every
        """Number of events after which the compiled copy is renewed; None without a copy."""
        self._table = FeatureTable()
        self._labels: dict[Any, str] = {}
        self._places: dict[Any, int] = {}
        self._newest: Mapping[str, Value] = {}
        self._predictor: Predictor | None = None
        self._form: tuple[int, ...] = ()
        """Version of the cached predictor: numbers of features, classes, categories and due snapshots."""

    @property
    def names(self) -> tuple[str, ...]:
        """Features in the order of their first appearance, which are the columns of a row."""
        return tuple(self._table.names)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of the features, in the same order."""
        return tuple(self._table.kinds)

    def categories(self, slot: int) -> tuple[str, ...]:
        """Return the texts of a feature by code; empty unless its kind is text."""
        return tuple(self._table.categories[slot])

    @property
    def classes(self) -> tuple[str, ...]:
        """Texts of the classes in the order of their first appearance; empty for regression."""
        return tuple(self._labels.values())

    def event(self, x: Mapping[str, Any], y: Any, number: int | None = None) -> tuple[Floats, float]:
        """Return `row` and `target` of an event. If either is invalid, nothing of the event is kept.

        Parameters
        ----------
        x, y
            The event and its true class or number.
        number
            See `row`.

        Raises
        ------
        ModelError
            The event or its target is invalid, see `row` and `target`.
        """
        values = {name: _value(name, value) for name, value in x.items()}
        target = self.target(y)
        return self.row(values, number), target

    def row(self, x: Mapping[str, Any], number: int | None = None) -> Floats:
        """Return an event as float64[1, d], NaN where a feature is absent. d grows with new features.

        Parameters
        ----------
        x
            The event.
        number
            Number of the event, counted from 0, so that `events` counts it once although several estimators show it;
            None for the next one.

        Raises
        ------
        ModelError
            A value is not a number, boolean, text or None.
        """
        self._newest = {name: _value(name, value) for name, value in x.items()}
        values, _ = self._table.encode(self._newest)
        self.events = max(self.events, (self.events if number is None else number) + 1)
        return np.array([list(values)], np.float64)

    def target(self, y: Any) -> float:
        """Return the index of the true class in `classes`, which a new class extends; for regression, the number.

        Raises
        ------
        ModelError
            The target is missing or is not a text, boolean or number; or it is not a finite number for regression.
        """
        y = _plain(y)
        if self.task == CLASSIFICATION:
            if y is None:
                raise ModelError("expected the true class of the event, got None; explain labelled events only")
            if not isinstance(y, str | bool | int | float):
                raise ModelError(f"expected the true class to be a text, a boolean or a number, got {y!r:.40}")
            return float(self._place(y))
        if isinstance(y, bool | int | float) and isfinite(y):
            return float(y)
        raise ModelError(f"expected the target to be a finite number (regression), got {y!r:.40}")

    def meet_classes(self) -> None:
        """Ask the model for its classes. This is needed for events without a target.

        Raises
        ------
        ModelError
            The model raised an error.
        """
        self._meet(self._classes_of_model())

    @property
    def predictor(self) -> Predictor:
        """Return the model as a predictor of rows, with the features and classes known now.

        Raises
        ------
        NotCompilable
            Snapshots are requested and the model has no compiled form.
        ModelError
            The model raised an error.
        """
        if self._predictor is None and self.task == CLASSIFICATION:
            self.meet_classes()
        due = -1 if self.snapshot_every is None else max(0, self.events - 1) // self.snapshot_every
        form = (len(self._table), len(self._labels), sum(map(len, self._table.categories)), due)
        if self._predictor is None or form != self._form:
            labels = self._labels if self.task == CLASSIFICATION else None
            make = GenericPredictor if self.snapshot_every is None else compile_model
            self._predictor = make(self.model, self._table, labels)
            self._form = form
        return self._predictor

    def state(self) -> dict[str, Any]:
        """Return the features and classes as JSON values. The owner must save the model."""
        table = self._table
        return {
            "events": self.events,
            "names": list(table.names),
            "kinds": [int(kind) for kind in table.kinds],
            "categories": [list(codes) for codes in table.categories],
            "classes": list(self._labels),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore features and classes that `state` returned."""
        names = [str(name) for name in state["names"]]
        categories = [{str(text): code for code, text in enumerate(texts)} for texts in state["categories"]]
        self._table = FeatureTable(
            names=names,
            kinds=[Kind(kind) for kind in state["kinds"]],
            categories=categories,
            _slot={name: slot for slot, name in enumerate(names)},
        )
        self._labels, self._places = {}, {}
        self._meet(state["classes"])
        self.events = int(state["events"])
        self._predictor = None

    def _place(self, key: Any) -> int:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._places)
            self._labels[key] = label(key) or str(key)
        return place

    def _meet(self, keys: Iterable[Any]) -> None:
        for key in keys:
            self._place(key)

    def _classes_of_model(self) -> Iterable[Any]:
        """Return the classes that a trained model already knows."""
        try:
            return list(self.model.predict_proba_one({k: v for k, v in self._newest.items() if v is not None}))
        except NotImplementedError:  # River raises this if a classifier predicts labels only
            return []
        except Exception as error:
            raise ModelError(f"the model raised {type(error).__name__}: {error}; on {dict(self._newest)}") from error


def _task_of(model: Any) -> Task:
    last = model._last_step if isinstance(model, compose.Pipeline) else model
    if isinstance(last, base.Classifier):
        return CLASSIFICATION
    if isinstance(last, base.Regressor):
        return REGRESSION
    raise ModelError(
        f"expected a River classifier or regressor, or a pipeline that ends in one, got {type(last).__name__}; "
        "give the task if it predicts like one"
    )


def _plain(value: Any) -> Any:
    """Convert a numpy number to a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def _value(name: str, value: Any) -> Value:
    value = _plain(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return None if isnan(value) else float(value)
    if isinstance(value, str):
        return str(value)
    raise ModelError(f"feature {name!r}: expected a number, a boolean, text or None, got {value!r:.40}")
