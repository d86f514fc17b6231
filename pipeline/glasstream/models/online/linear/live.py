"""Live linear models: they predict and learn in the place of a River model."""

from collections.abc import Mapping, Sequence
from math import nan
from struct import Struct
from typing import Any, Final, NamedTuple, Self

import numpy as np

from glasstream.base.errors import ModelError
from glasstream.events.features import FeatureTable
from glasstream.models.online.layout import ANSWERED
from glasstream.models.online.linear import checkpoint
from glasstream.models.online.linear import kernels as K
from glasstream.models.online.linear.kernels import learn_row, learn_rows, score_row
from glasstream.models.online.linear.state import State
from glasstream.models.online.live import Answers, Columns, Numbers
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.linear import LinearPredictor
from glasstream.models.predictors.kernels.linear_forms import IDENTITY, SIGMOID, Forms
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.slots import ABSENT, Slots

_FORMS: Final = 4_096
"""Number of remembered forms; a stream with optional features has several, a hostile one endless."""
_ALWAYS: Final = np.array([nan])
"""Bound of one event that is learned whatever its votes."""
_LINKS: Final = {K.REGRESSION: "identity", K.BINARY: "binary", K.ONE_VS_REST: "one vs rest"}


class _Form(NamedTuple):
    """Events with the same names in the same order, and room for one of them."""

    slots: Array
    """int64[n]: the place of each feature."""
    pack: Any
    """Function that writes n numbers into `buffer`."""
    buffer: memoryview
    values: Array
    """float64[n]: the content of `buffer`."""
    scaled: Array
    """float64[n]: scratch space."""


class LiveLinear:
    """A linear model that learns in compiled code.

    `glasstream.models.river.live.take` makes one of a River model, and `from_bytes` of a checkpoint.
    """

    takes_text = False
    """Whether events may have texts."""
    least_block = 8
    """Number of events from which on a block of them costs less than one after the other."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._forms: dict[tuple[str, ...], _Form] = {}

    @property
    def kind(self) -> int:
        """Regression, or the form of classification."""
        return self.state.kind

    @property
    def features(self) -> dict[str, bool | None]:
        """The features that the model has met; none is a text."""
        return dict.fromkeys(self.state.slots, False)

    @property
    def classes(self) -> list[Any]:
        """The labels of the classes by number; none for a regression."""
        return list(self.state.labels)

    @property
    def numbers(self) -> Mapping[Any, int]:
        """The numbers of the classes by label."""
        return self.state.labels

    def numbers_of(self, labels: Sequence[Any]) -> Array:
        """Return the numbers of classes as int64; a new class of one-vs-rest gets the next number.

        Raises
        ------
        ModelError
            The model cannot learn such a class.
        """
        state = self.state
        for label in labels:
            if label not in state.labels:
                if state.kind != K.ONE_VS_REST or type(label) not in (str, int, bool):
                    raise ModelError(f"expected one of the classes {self.classes}, got {label!r:.60}")
                state.labels[label] = len(state.labels)
        state.make_room()
        return np.array([state.labels[label] for label in labels], np.int64)

    # --- Blocks -------------------------------------------------------------------------------------------------------
    def predict_learn_block(
        self, columns: Columns, labels: Array, *, only_finite: bool = False, known: Array | None = None
    ) -> Answers:
        """Predict each event, then learn it, one after the other.

        Parameters
        ----------
        columns
            The events, without texts.
        labels
            int64[events]: the number of each event's class, or -1 of events that are predicted only.
        only_finite
            Whether to learn only events whose votes are finite. River learns all events.
        known
            bool[events]: events that were predicted before and are only learned, whatever their votes; None for no
            event.

        Raises
        ------
        ModelError
            The events do not have this form, or the model is a regressor. It has learned none of them.
        """
        y, classes = np.asarray(labels), len(self.state.labels)
        if self.state.kind == K.REGRESSION or y.dtype.kind not in "iu":
            raise ModelError("expected a classifier, and the numbers of classes")
        if y.size and (y.min() < -1 or y.max() >= classes):
            raise ModelError(f"expected labels from -1 to {classes - 1}")
        return self._learn(columns, y.astype(np.float64), np.finfo(np.float64).max if only_finite else nan, known)

    def predict_learn_numbers(
        self, columns: Columns, targets: Array, *, within: float = nan, known: Array | None = None
    ) -> Numbers:
        """Predict a number for each event, then learn the event, one after the other.

        Parameters
        ----------
        columns
            The events, without texts.
        targets
            float64[events]: the number to learn, or NaN of events that are predicted only.
        within
            Learn only events whose prediction is within ±`within`; NaN for all events, as River does.
        known
            As for `predict_learn_block`.

        Raises
        ------
        ModelError
            The events do not have this form, or the model is a classifier. It has learned none of them.
        """
        if self.state.kind != K.REGRESSION:
            raise ModelError("expected a regressor")
        answers = self._learn(columns, np.array(targets, np.float64), within, known)
        return Numbers(answers.votes[:, 0], answers.labels)

    def _learn(self, columns: Columns, y: Array, bound: float, known: Array | None) -> Answers:
        names, X = tuple(columns.names), np.asarray(columns.values)
        if X.ndim != 2 or X.dtype != np.float64 or X.shape[1] != len(names) or y.shape != (len(X),):
            raise ModelError(
                f"expected values as float64[events, {len(names)}] and a target for each event, got "
                f"{X.dtype}{X.shape} and {y.size} targets"
            )
        if columns.categories:
            raise ModelError(f"expected numbers only, got texts of {', '.join(columns.categories)}")
        if len(set(names)) != len(names):
            raise ModelError("expected each feature once")
        form = self._forms.get(names) or self._remember(names)
        X = X if X.flags.c_contiguous and X.flags.writeable else X.copy(order="C")
        bounds = np.empty(len(X))
        bounds.fill(bound)
        if known is not None:
            bounds[known] = nan
        return self._run(form, X, y, False, bounds)

    def _run(self, form: _Form, X: Array, y: Array, dense: bool, bounds: Array) -> Answers:
        state = self.state
        events, classes = len(X), max(1, len(state.labels))
        answers = Answers(
            np.full((events, classes), nan), np.empty((events, classes), np.int64), np.full(events, ANSWERED)
        )
        model = (state.features, state.numbers, state.order, state.born)
        named = np.empty(len(form.slots), np.int64)
        given = np.empty(len(form.slots))
        learn_rows(*model, form.slots, X, y, given, form.scaled, named, state.kind, dense, bounds, *answers)
        return answers

    # --- Rows ---------------------------------------------------------------------------------------------------------
    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Any, float]:
        """Return the probabilities of one event, as River does."""
        state = self.state
        form = self._packed(x)
        if state.kind == K.BINARY:
            share = score_row(state.features, state.numbers, form.slots, form.values, SIGMOID)
            return {False: 1.0 - share, True: share}
        answers = self._run(form, form.values.reshape(1, -1), np.array([-1.0]), True, _ALWAYS)
        labels, votes = self.classes, answers.votes[0].tolist()
        return {labels[number]: votes[number] for number in answers.sequence[0].tolist() if number >= 0}

    def predict_one(self, x: Mapping[str, Any]) -> float:
        """Return the prediction of a regressor."""
        form = self._packed(x)
        return float(score_row(self.state.features, self.state.numbers, form.slots, form.values, IDENTITY))

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Learn one event, as River does."""
        state = self.state
        form = self._packed(x)
        if state.kind == K.ONE_VS_REST:
            number = float(self.numbers_of([y])[0])
            self._run(form, form.values.reshape(1, -1), np.array([number]), True, _ALWAYS)
            return
        logistic = state.kind == K.BINARY
        learn_row(state.features, state.numbers, form.slots, form.values, form.scaled, float(y), logistic)

    def _packed(self, x: Mapping[str, Any]) -> _Form:
        """Return the form of an event, with its values.

        Raises
        ------
        struct.error
            A value is not a number. The model then has not met the event's features.
        """
        names = tuple(x)
        form = self._forms.get(names)
        if form is None:
            Struct(f"{len(names)}d").pack(*x.values())
            form = self._remember(names)
        form.pack(form.buffer, 0, *x.values())
        return form

    def _remember(self, names: tuple[str, ...]) -> _Form:
        state = self.state
        if not all(type(name) is str for name in names):
            raise ModelError(f"expected the names of features to be texts, got {names!r:.60}")
        for name in names:
            state.slots.setdefault(name, len(state.slots))
        state.make_room()
        if len(self._forms) >= _FORMS:
            self._forms.clear()
        values = np.empty(len(names))
        slots = np.array([state.slots[name] for name in names], np.int64)
        form = _Form(slots, Struct(f"{len(names)}d").pack_into, values.data.cast("B"), values, np.empty(len(names)))
        self._forms[names] = form
        return form

    # --- Other forms --------------------------------------------------------------------------------------------------
    def compiled(
        self, table: FeatureTable, labels: Mapping[Any, str], *, given: Sequence[bool] | None = None
    ) -> LinearPredictor:
        """Return the arrays that explainers evaluate: those that `compile_model` makes of the River model.

        Parameters
        ----------
        table, labels, given
            Features, names of the classes and inputs of the model, as for `compile_model`.

        Raises
        ------
        NotCompilable
            An input is a text.
        """
        state, slots, texts = self.state, Slots.of(table, given), Labels(labels)
        slots.all_numeric("a linear model")
        members = state.order[: state.born[0]]
        keys = [self.classes[number] for number in members.tolist()] if state.kind == K.ONE_VS_REST else self.classes
        names = slots.names
        scaling = np.zeros((len(members), 2, len(names)))
        weight, known = np.zeros((len(members), len(names))), np.zeros((len(members), len(names)), np.bool_)
        for column, name in enumerate(names):
            place = state.slots.get(name)
            if place is None:
                continue
            facts = state.features[members, place]
            scaling[:, 0, column] = facts[:, K.MEAN]
            scaling[:, 1, column] = [variance**0.5 for variance in facts[:, K.VARIANCE].tolist()]
            if slots.slot(name) != ABSENT:
                weight[:, column], known[:, column] = facts[:, K.WEIGHT], facts[:, K.COUNT] > 0.0
        identity = np.zeros((2, len(names)))
        identity[1] = 1.0
        outer, inner = (identity, scaling) if state.kind == K.ONE_VS_REST else (scaling[0], identity[np.newaxis])
        forms = Forms(outer, inner, weight, known, state.numbers[members, K.INTERCEPT])
        return LinearPredictor(names, texts.classes, texts.columns(keys), forms, _LINKS[state.kind])

    def to_bytes(self) -> bytes:
        """Return a checkpoint; its bytes are a function of what the model has learned and predicted."""
        return checkpoint.encode(self.state)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Return the model of a checkpoint. Reading executes nothing.

        Raises
        ------
        FrameError
            The bytes are damaged, forged or of another release.
        """
        return cls(checkpoint.decode(data))
