"""Live models: they predict and learn in the place of a River model."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np

from glasstream.base.errors import FrameError, ModelError
from glasstream.base.jit import kernel
from glasstream.events.features import FeatureTable
from glasstream.models.online import checkpoint
from glasstream.models.online import layout as L
from glasstream.models.online.adaptive import adaptive_block
from glasstream.models.online.adaptive_regressor import adaptive_regressor_block
from glasstream.models.online.forest import forest_block
from glasstream.models.online.forest_regressor import forest_regressor_block
from glasstream.models.online.layout import Array, Pool
from glasstream.models.online.parameters import most_features
from glasstream.models.online.snapshots import compile_live, compile_live_regressor
from glasstream.models.online.state import Label, State, check_labels, is_too_wide, moved, too_wide
from glasstream.models.online.tree import tree_block
from glasstream.models.online.tree_regressor import tree_regressor_block
from glasstream.models.predictors.kernels.trees import ClassificationTrees, RegressionTrees
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.slots import Slots

LARGEST: Final = 1e100
"""Values beyond ±this are refused: squares of squares of them would be infinite."""


def _division_by_zero(zero: float = 0.0) -> ZeroDivisionError:
    """Return what this Python raises for floats; the text differs between versions."""
    try:
        return ZeroDivisionError(1.0 / zero)
    except ZeroDivisionError as error:
        return ZeroDivisionError(*error.args)


ERRORS: Final[dict[int, Exception]] = {
    L.RAISED: OverflowError(34, "Numerical result out of range"),
    L.DIVIDED: _division_by_zero(),
}
"""What River raises for outcomes."""
TOO_WIDE: Final = -5
"""In the place of a predicted class, and outcome of a regressor: the event is neither predicted nor learned, because it
may need more memory than an event may take."""
_BLOCKS: Final = {
    L.TREE_FAMILY: tree_block,
    L.ADAPTIVE_FAMILY: adaptive_block,
    L.FOREST_FAMILY: forest_block,
    L.TREE_REGRESSOR: tree_regressor_block,
    L.ADAPTIVE_REGRESSOR: adaptive_regressor_block,
    L.FOREST_REGRESSOR: forest_regressor_block,
}


class Columns(NamedTuple):
    """Events with the same features, or some of them, in the same order."""

    names: Sequence[str]
    """In the order in which each event names its features: River's results depend on it."""
    values: Array
    """float64[events, features]; NaN where an event lacks the feature, and for a text its place in `categories`."""
    categories: Mapping[str, Sequence[str]] = {}
    """The texts of each feature that has texts. Between two calls the places of texts may differ."""


class Answers(NamedTuple):
    """What is predicted."""

    votes: Array
    """float64[events, classes]: probabilities, NaN for a class that River's dict does not have."""
    sequence: Array
    """int64[events, classes]: the classes in the order of River's dict, then -1."""
    labels: Array
    """int64[events]: the first class with the greatest probability, or -1; `layout.REFUSED` for an event whose votes
    are not finite, if it was therefore not learned; `TOO_WIDE`.
    """


class Numbers(NamedTuple):
    """What a regressor predicts, and what became of each event."""

    values: Array
    """float64[events]"""
    outcomes: Array
    """int64[events]: `layout.ANSWERED`, `REFUSED` for an event that was not learned because of its prediction, or
    `RAISED` or `DIVIDED` where learning raised one of `ERRORS`, as in River; `TOO_WIDE`.
    """


class _Live:
    """What live models of classifiers and of regressors share."""

    least_block = 1
    """Number of events from which on a block of them costs less than one after the other."""
    is_regression = False

    def __init__(self, state: State, pool: Pool) -> None:
        self.state = state
        self.pool = pool
        self._names: tuple[str, ...] | None = ()
        """The names of the last block, None if it had texts."""
        self._order = np.zeros(0, np.int64)
        """The numbers of its features."""
        self._in_order = True

    @property
    def kind(self) -> int:
        """Number of the family: `layout.TREE_FAMILY` and the others."""
        return self.state.family

    @property
    def features(self) -> dict[str, bool | None]:
        """The features that the model has met, and whether they are texts; None before a feature's first value."""
        kinds = self.state.kinds
        return {
            name: None if kinds[number] == L.IS_UNKNOWN else kinds[number] == L.IS_TEXT
            for name, number in self.state.features.items()
        }

    def to_bytes(self) -> bytes:
        """Return a checkpoint; its bytes are a function of what the model has learned."""
        return checkpoint.encode(self.state, self.pool)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Return the model of a checkpoint. Reading executes nothing.

        Raises
        ------
        FrameError
            The bytes are damaged, forged or of another release.
        """
        state, pool = checkpoint.decode(data)
        if state.is_regression != cls.is_regression:
            raise FrameError(f"checkpoint of a model: expected one of a {cls.__name__}")
        return cls(state, pool)

    def _rows(self, columns: Columns) -> tuple[Array, Array]:
        """Return the events as rows of all features, and the numbers of the features that they name."""
        names, values, state = tuple(columns.names), np.asarray(columns.values), self.state
        if values.ndim != 2 or values.dtype != np.float64 or values.shape[1] != len(names):
            raise ModelError(f"expected values as float64[events, {len(names)}], got {values.dtype}{values.shape}")
        values = _as_compiled(values)
        if not _is_within(values, LARGEST):
            raise ModelError(f"expected values within ±{LARGEST:g}")
        if columns.categories or names != self._names:
            values = self._numbered(names, values, columns.categories)
        if len(names) == len(state.features) and self._in_order:
            return values, self._order
        X = np.full((len(values), len(state.features)), np.nan)
        X[:, self._order] = values
        return X, self._order

    def _numbered(self, names: tuple[str, ...], values: Array, categories: Mapping[str, Sequence[str]]) -> Array:
        """Number features and categories that are new; return the values with the numbers of their categories."""
        state = self.state
        if len(set(names)) != len(names):
            raise ModelError("expected each feature once")
        for place, name in enumerate(names):  # before anything changes
            state.check_kind(name, name in categories)
            if name in categories:
                _check_places(name, values[:, place], len(categories[name]))
        before = [*state.kinds], sum(map(len, state.categories))
        numbers = [state.feature(name, name in categories) for name in names]
        if categories:
            values = values.copy()
            for place, (name, number) in enumerate(zip(names, numbers, strict=True)):
                if name in categories:
                    _translate(values[:, place], categories[name], state.categories[number])
        if (state.kinds, sum(map(len, state.categories))) != before:
            self.pool = state.fitted(self.pool)
        self._names, self._order = None if categories else names, np.array(numbers, np.int64)
        self._in_order = numbers == [*range(len(names))]
        return values

    def _weights(self, events: int, weights: Array | None) -> Array:
        """Return the weights of events as kernels take them."""
        if weights is None:
            w = np.empty(events)
            w.fill(1.0)  # np.ones costs a block of a single tree a fifth more
            return w
        w = _as_compiled(np.asarray(weights, np.float64))
        if w.shape != (events,):
            raise ModelError(f"expected a weight for each of {events} events")
        if not np.all((w >= 1) & (w <= 2**31) & (w == np.floor(w))):
            raise ModelError("expected weights to be whole numbers from 1 on")
        return w

    def _run(self, X: Array, order: Array, *rest: Any) -> None:
        """Let the kernel of the family process all events, in a larger arena where it needs one.

        The last of the arrays `rest` has a number for each event, which becomes `TOO_WIDE` if the event is.
        """
        if len(X) == 0:
            return
        if self.state.shape == L.FOREST_FAMILY and not self.pool.tree[0, L.EXISTS]:
            self._plant(int(np.count_nonzero(~np.isnan(X[0]))))
        block = _BLOCKS[self.state.family]
        y, w, *outputs = rest
        done = 0
        while (done := block(self.pool, X, y, w, order, done, *outputs)) < len(X):
            if is_too_wide(self.pool):
                outputs[-1][done] = TOO_WIDE
                done += 1
            else:
                self.pool = moved(self.pool)

    def _plant(self, features: int) -> None:
        """Make the trees of a forest, which know the number of features from the first event."""
        state = self.state
        state.subset_most = most_features(state.parameters["max_features"], features)
        self.pool = state.fitted(self.pool)
        self.pool.tree[: state.parameters["n_models"], L.EXISTS] = 1


class LiveModel(_Live):
    """A tree or a forest that learns to classify in compiled code.

    `glasstream.models.river.live.take` makes one of a River model, and `from_bytes` of a checkpoint.
    """

    takes_text = True
    """Whether events may have texts."""

    @property
    def classes(self) -> list[Label]:
        """The labels of the classes by number."""
        return list(self.state.labels)

    @property
    def numbers(self) -> Mapping[Label, int]:
        """The numbers of the classes by label."""
        return self.state.labels

    def numbers_of(self, labels: Sequence[Label]) -> Array:
        """Return the numbers of classes as int64; a new class gets the next number.

        Classes are numbered as they are learned: hand over the labels of a block in the order of its events.

        Raises
        ------
        NotCompilable
            The labels are not of one type, which River could not sort.
        """
        known = self.state.labels
        new = [label for label in dict.fromkeys(labels) if label not in known]
        if new:
            check_labels([*known, *new])
            for label in new:
                known[label] = len(known)
            self.pool = self.state.fitted(self.pool)
        return np.array([known[label] for label in labels], np.int64)

    # --- Blocks -------------------------------------------------------------------------------------------------------
    def predict_learn_block(
        self,
        columns: Columns,
        labels: Array,
        weights: Array | None = None,
        *,
        only_finite: bool = False,
        known: Array | None = None,
    ) -> Answers:
        """Predict each event, then learn it, one after the other.

        Parameters
        ----------
        columns
            The events.
        labels
            int64[events]: the number of each event's class, or -1 of events that are predicted only.
        weights
            Whole numbers from 1 on; None means 1 each.
        only_finite
            Whether to learn only events whose votes are finite. River learns all events.
        known
            bool[events]: events that were predicted before and are only learned, so that their answers are undefined;
            None for no event.

        Raises
        ------
        ModelError
            The events do not have this form. The model has learned none of them.
        """
        y, w = self._checked(len(columns.values), labels, weights)
        X, order = self._rows(columns)
        answers = self._answers(len(X))
        self._run(X, order, y, w, _says(len(X), L.FINITE if only_finite else L.ANSWERS, known), *answers)
        return answers

    def predict_block(self, columns: Columns) -> Answers:
        """Predict events, and learn none; errors as of `predict_learn_block`."""
        return self.predict_learn_block(columns, np.full(len(columns.values), -1))

    def learn_block(self, columns: Columns, labels: Array, weights: Array | None = None) -> None:
        """Learn events that were predicted before others; parameters and errors as of `predict_learn_block`.

        An event that is too wide is an error, too; the other events have been learned.
        """
        y, w = self._checked(len(columns.values), labels, weights)
        X, order = self._rows(columns)
        answers = self._answers(0)._replace(labels=np.zeros(len(X), np.int64))
        self._run(X, order, y, w, _says(len(X), L.SILENT), *answers)
        if np.any(answers.labels == TOO_WIDE):
            raise too_wide()

    # --- Rows ---------------------------------------------------------------------------------------------------------
    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Label, float]:
        """Return the probabilities of one event, as River does."""
        answers = self.predict_block(_one_row(x))
        if answers.labels[0] == TOO_WIDE:
            raise too_wide()
        classes = self.classes
        return {classes[c]: float(answers.votes[0, c]) for c in answers.sequence[0].tolist() if c >= 0}

    def learn_one(self, x: Mapping[str, Any], y: Label, *, w: int = 1) -> None:
        """Learn one event, as River does."""
        self.learn_block(_one_row(x), self.numbers_of([y]), None if w == 1 else np.array([w]))

    def compiled(
        self, table: FeatureTable, labels: Mapping[Label, str], *, given: Sequence[bool] | None = None
    ) -> ClassificationTrees:
        """Return the arrays that explainers evaluate: those that `compile_model` makes of the River model.

        Parameters
        ----------
        table, labels, given
            Features, names of the classes and inputs of the model, as for `compile_model`.

        Raises
        ------
        NotCompilable
            The features of a row are not those of the model.
        """
        return compile_live(self.state, self.pool, Slots.of(table, given), Labels(labels))

    def _checked(self, events: int, labels: Array, weights: Array | None) -> tuple[Array, Array]:
        y, w = np.asarray(labels), self._weights(events, weights)
        if y.shape != (events,) or y.dtype.kind not in "iu":
            raise ModelError(f"expected a label, a whole number, for each of {events} events")
        if events and (y.min() < -1 or y.max() >= len(self.state.labels)):
            raise ModelError(f"expected labels from -1 to {len(self.state.labels) - 1}")
        return _as_compiled(y.astype(np.int64, copy=False)), w

    def _answers(self, events: int) -> Answers:
        classes = len(self.state.labels)
        return Answers(np.empty((events, classes)), np.empty((events, classes), np.int64), np.zeros(events, np.int64))


class LiveRegressor(_Live):
    """A tree or a forest that learns to predict numbers in compiled code.

    `glasstream.models.river.live.take` makes one of a River model, and `from_bytes` of a checkpoint.
    """

    is_regression = True
    classes: Final[tuple[()]] = ()
    """A regressor has no classes."""

    @property
    def takes_text(self) -> bool:
        """Whether events may have texts; the linear models of leaves calculate with numbers only."""
        return bool(self.state.parameters["leaf_prediction"] == "mean")

    def predict_learn_numbers(
        self,
        columns: Columns,
        targets: Array,
        weights: Array | None = None,
        *,
        within: float = math.nan,
        known: Array | None = None,
    ) -> Numbers:
        """Predict a number for each event, then learn the event, one after the other.

        Parameters
        ----------
        columns
            The events.
        targets
            float64[events]: the target of each event, or NaN of events that are predicted only.
        weights
            Whole numbers from 1 on; None means 1 each.
        within
            Learn only events whose prediction is within ±`within`; NaN for all events, as River does.
        known
            bool[events]: events that were predicted before and are only learned, so that their values are undefined;
            None for no event.

        Raises
        ------
        ModelError
            The events do not have this form. The model has learned none of them.
        """
        y, w = self._checked(len(columns.values), targets, weights)
        X, order = self._rows(columns)
        answers = Numbers(np.empty(len(X)), np.empty(len(X), np.int64))
        self._run(X, order, y, w, _says(len(X), L.ANSWERS if math.isnan(within) else L.FINITE, known), within, *answers)
        return answers

    def predict_block(self, columns: Columns) -> Array:
        """Predict events, and learn none; errors as of `predict_learn_numbers`."""
        return self.predict_learn_numbers(columns, np.full(len(columns.values), math.nan)).values

    def learn_block(self, columns: Columns, targets: Array, weights: Array | None = None) -> Array:
        """Learn events that were predicted before others, and return their outcomes.

        Parameters and errors as of `predict_learn_numbers`.
        """
        y, w = self._checked(len(columns.values), targets, weights)
        X, order = self._rows(columns)
        outcomes = np.empty(len(X), np.int64)
        self._run(X, order, y, w, _says(len(X), L.SILENT), math.nan, np.empty(0), outcomes)
        return outcomes

    def predict_one(self, x: Mapping[str, Any]) -> float:
        """Return the prediction of one event, as River does."""
        values, outcomes = self.predict_learn_numbers(_one_row(x), np.array([math.nan]))
        if outcomes[0] == TOO_WIDE:
            raise too_wide()
        return float(values[0])

    def learn_one(self, x: Mapping[str, Any], y: float, *, w: int = 1) -> None:
        """Learn one event, as River does.

        Raises
        ------
        ModelError
            The event does not have the right form, or is too wide.
        OverflowError, ZeroDivisionError
            River raises it too: a squared error is beyond the largest float, or the errors of a branch and of its
            alternate have been constant.
        """
        outcome = int(self.learn_block(_one_row(x), np.array([y], np.float64), None if w == 1 else np.array([w]))[0])
        if outcome == TOO_WIDE:
            raise too_wide()
        if outcome in ERRORS:
            raise type(ERRORS[outcome])(*ERRORS[outcome].args)

    def compiled(
        self, table: FeatureTable, labels: Mapping[Label, str], *, given: Sequence[bool] | None = None
    ) -> RegressionTrees:
        """Return the arrays that explainers evaluate: those that `compile_model` makes of the River model.

        Parameters and errors as of `LiveModel.compiled`; a regressor has no labels.
        """
        return compile_live_regressor(self.state, self.pool, Slots.of(table, given))

    def _checked(self, events: int, targets: Array, weights: Array | None) -> tuple[Array, Array]:
        y, w = np.asarray(targets, np.float64), self._weights(events, weights)
        if y.shape != (events,):
            raise ModelError(f"expected a target for each of {events} events")
        y = _as_compiled(y)
        if not _is_within(y, LARGEST):
            raise ModelError(f"expected targets within ±{LARGEST:g}")
        return y, w

    def _numbered(self, names: tuple[str, ...], values: Array, categories: Mapping[str, Sequence[str]]) -> Array:
        if categories and not self.takes_text:
            raise ModelError(f"feature {min(categories)!r}: expected numbers, which the linear models of leaves need")
        return super()._numbered(names, values, categories)


def _as_compiled(array: Array) -> Array:
    """Return an array for which kernels are compiled already: numba compiles them again for read-only memory."""
    return array if array.flags.c_contiguous and array.flags.writeable else array.copy(order="C")


@kernel
def _is_within(values: Array, most: float) -> bool:
    """Return whether no value is beyond ±`most`; in numpy this would take two temporary arrays."""
    for value in values.flat:  # noqa: SIM110 - numba knows no `all`
        if abs(value) > most:
            return False
    return True


def _says(events: int, otherwise: int, known: Array | None = None) -> Array:
    """Return how a kernel answers each event."""
    says = np.empty(events, np.int64)
    says.fill(otherwise)
    if known is not None:
        says[known] = L.SILENT
    return says


def _one_row(x: Mapping[str, Any]) -> Columns:
    texts = {name: (value,) for name, value in x.items() if isinstance(value, str)}
    values = [0.0 if isinstance(value, str) else np.nan if value is None else float(value) for value in x.values()]
    return Columns(tuple(x), np.array([values], np.float64).reshape(1, len(x)), texts)


def _check_places(name: str, places: Array, texts: int) -> None:
    """Refuse what is neither NaN nor the place of a text."""
    used = places[~np.isnan(places)]
    if not np.all((used >= 0) & (used < texts) & (used == np.floor(used))):
        raise ModelError(f"feature {name!r}: expected places of its {texts} categories")


def _translate(places: Array, texts: Sequence[str], known: dict[str, int]) -> None:
    """Replace the places of texts by the numbers of categories; new ones are numbered in order of appearance."""
    present = ~np.isnan(places)
    used = places[present].astype(np.int64).tolist()
    numbers = {place: known.setdefault(texts[place], len(known)) for place in dict.fromkeys(used)}
    places[present] = [numbers[place] for place in used]
