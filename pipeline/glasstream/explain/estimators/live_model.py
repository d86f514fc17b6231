"""Adapter between a River model that keeps learning and the rows that estimators take."""

import warnings
from collections.abc import Iterable, Mapping
from math import isnan
from typing import Any, Final

import numpy as np

from glasstream.base.errors import ModelError
from glasstream.events.admission import Admission, label
from glasstream.events.admission import Task as AdmittedTask
from glasstream.events.decode import features_of, wrong_beside_x
from glasstream.events.features import FeatureTable, Kind, Value
from glasstream.events.limits import IngestLimits
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION, Floats, Predictor, Task
from glasstream.models.river.catalogue import last_step, task_of
from glasstream.models.river.compile import compile_model
from glasstream.models.river.generic import GenericPredictor
from glasstream.models.river.imputers import imputed


class LiveModel:
    """Adapter between a River model and an estimator that sees one event at a time.

    The adapter accepts and refuses the same events as the pipeline, with the same messages. It also limits features and
    categories like the pipeline, and warns about each value that it leaves out (`UserWarning`).

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
    limits
        Limits on features, categories and classes; None for the defaults of the pipeline's section `limits`.

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

    def __init__(
        self,
        model: Any,
        task: Task | None = None,
        *,
        snapshot_every: int | None = None,
        limits: IngestLimits | None = None,
    ) -> None:
        if snapshot_every is not None and snapshot_every < 1:
            raise ModelError(f"expected snapshot_every to be at least 1, or None for none, got {snapshot_every}")
        self.model = model
        self.task: Task = task or _task_of(model)
        self.events = 0
        """Number of different events encoded so far."""
        self.snapshot_every = snapshot_every
        """Number of events after which the compiled copy is renewed; None without a copy."""
        self._table = FeatureTable(limits or IngestLimits())
        self._admission = Admission(AdmittedTask(self.task), limits=self._table.limits)
        self._labels: dict[Any, str] = {}
        self._places: dict[Any, int] = {}
        self._newest: Mapping[str, Value] = {}
        self._predictor: Predictor | None = None
        self._form: tuple[int, ...] = ()
        """Version of the cached predictor: numbers of features, classes, categories and due snapshots."""

    @property
    def limits(self) -> IngestLimits:
        """Limits on features, categories and classes."""
        return self._table.limits

    @property
    def names(self) -> tuple[str, ...]:
        """Features in the order of their first appearance, which are the columns of a row."""
        return tuple(self._table.names)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of the features, in the same order."""
        return tuple(self._table.kinds)

    @property
    def table(self) -> FeatureTable:
        """The features, as predictors take them."""
        return self._table

    @property
    def labels(self) -> Mapping[Any, str] | None:
        """Texts of the classes, by the classes of the model; None for regression."""
        return self._labels if self.task == CLASSIFICATION else None

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
        values = _features(x)
        target = self.target(y)
        return self._encoded(values, number), target

    def check(self, x: Mapping[str, Any], y: Any) -> None:
        """Check an event without encoding it; errors as of `event`."""
        _features(x)
        self.target(y)

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
            There is no feature. Or a value is not a number, boolean, text or None, or is beyond the largest number that
            an event can have.
        """
        return self._encoded(_features(x), number)

    def _encoded(self, x: Mapping[str, Value], number: int | None) -> Floats:
        self._newest = x
        values, _ = self._table.encode(x)
        while self._table.remarks:
            warnings.warn(self._table.remarks.pop(0), stacklevel=4)
        self.events = max(self.events, (self.events if number is None else number) + 1)
        return np.array([list(values)], np.float64)

    def target(self, y: Any) -> float:
        """Return the index of the true class in `classes`, which a new class extends; for regression, the number.

        Raises
        ------
        ModelError
            The target is missing (None or NaN), or the pipeline would reject it: it is of another type than the
            earlier ones, no whole number for classification, beyond the largest number for regression, or a class
            beyond the limits.
        """
        y = _plain(y)
        if is_missing(y):
            raise ModelError(f"expected the target of the event, got {y}; explain labelled events only")
        if (wrong := wrong_beside_x(None, None, y)) is not None:
            raise ModelError(wrong[1])
        if not isinstance(y, str | bool | int | float):
            raise ModelError(f"expected `y` to be a number, text or boolean, got {y!r:.40}")
        _expect_unicode(y, "`y`")
        target = self._admission.target(y)
        if isinstance(target, tuple):
            raise ModelError(target[1])
        return float(self._place(y)) if self.task == CLASSIFICATION else float(target)

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
        table, admission = self._table, self._admission
        return {
            "events": self.events,
            "kind": None if admission.target_kind is None else _NAME_OF[admission.target_kind],
            "admitted": list(admission.classes),
            "names": list(table.names),
            "kinds": [int(kind) for kind in table.kinds],
            "categories": [list(codes) for codes in table.categories],
            "classes": list(self._labels),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore features and classes that `state` returned."""
        self._table = FeatureTable.restored(
            self._table.limits,
            names=[str(name) for name in state["names"]],
            kinds=[Kind(kind) for kind in state["kinds"]],
            categories=[[str(text) for text in texts] for texts in state["categories"]],
        )
        self._admission = Admission(
            self._admission.task,
            target_kind=_KIND_OF.get(state.get("kind")),
            limits=self._table.limits,
            classes=dict.fromkeys(str(name) for name in state.get("admitted", ())),
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
            x = {name: value for name, value in self._newest.items() if value is not None}
            if (fills := imputed(self.model)) is not None:
                fills.fill(x, self.names)
            return list(self.model.predict_proba_one(x))
        except NotImplementedError:  # River raises this if a classifier predicts labels only
            return []
        except Exception as error:
            raise ModelError(f"the model raised {type(error).__name__}: {error}; on {dict(self._newest)}") from error


def _task_of(model: Any) -> Task:
    task = task_of(model)
    if task is None:
        raise ModelError(
            "expected a River classifier or regressor, or a pipeline that ends in one, got "
            f"{type(last_step(model)).__name__}; give the task if it predicts like one"
        )
    return REGRESSION if task is AdmittedTask.REGRESSION else CLASSIFICATION


def _plain(value: Any) -> Any:
    """Return a number or text of numpy, or of a subclass such as an enumeration, as Python's own; others unchanged."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, float) else value


_KIND_OF: Final[dict[str | None, type]] = {"number": float, "boolean": bool, "text": str}
_NAME_OF: Final = {kind: name for name, kind in _KIND_OF.items()}


def is_missing(value: Any) -> bool:
    """Return whether a value stands for a missing one: None or NaN, as pandas has it."""
    return value is None or (isinstance(value, float) and isnan(value))


def _features(x: Any) -> Mapping[str, Value]:
    """Return the features of an event as the pipeline has them after it has decoded and admitted the event.

    Raises
    ------
    ModelError
        The pipeline would reject the event.
    """
    if not hasattr(x, "items"):
        raise ModelError(f"expected `x` to be an object of features, got {x!r:.40}")
    given = {}
    for name, value in x.items():
        value = _plain(value)
        if is_missing(value):
            value = None
        elif isinstance(value, str):
            _expect_unicode(value, f"the text of feature {name!a}")
        elif not isinstance(value, bool | int | float | dict | list):
            raise ModelError(f"expected a number, text, boolean or null in `x`, got {value!r:.40} in {name!r}")
        _expect_unicode(name, "the name of a feature")
        given[name] = value
    features = features_of(given)
    if isinstance(features, tuple):
        raise ModelError(features[1])
    return features


def _expect_unicode(text: Any, what: str) -> None:
    """Refuse half of a surrogate pair, which no message can hold."""
    if isinstance(text, str) and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ModelError(f"expected {what} in Unicode, got {text!a:.60}, which has no UTF-8") from error
