"""A River model together with its task and the names of its classes.

Trees, forests and linear models predict and learn in compiled code, with River's bits. Other models stay in River.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from struct import error as StructError
from typing import Any, Final, NamedTuple

import numpy as np

from glasstream.base.errors import ModelRaised, NotCompilable
from glasstream.events.admission import Task
from glasstream.models.online import families
from glasstream.models.online.live import ERRORS, TOO_WIDE, Columns
from glasstream.models.online.state import too_wide
from glasstream.models.predictors.arrays import Array, require
from glasstream.models.river.catalogue import ModelFactory, RiverModel, label_from_votes, one_vs_rest
from glasstream.models.river.imputers import Imputed, imputed
from glasstream.models.river.live import take, to_river
from glasstream_topics.events import LARGEST

_OF: Final = "state of a stream's model"
_NO_LABEL: Final = -1
"""Number that stands for a class where no class is predicted."""
_ROUNDING: Final = 1e-6
"""How far a probability may be outside 0 and 1."""


class Prediction(NamedTuple):
    """The prediction of a model for one event."""

    label: str | None
    """Predicted class; None for regression, and if the model returns nothing."""
    probabilities: Mapping[str, float] | None
    """Probability of each class that the model knows; None for regression, and for a model without probabilities."""
    value: float | None
    """Predicted number; None for classification."""


NOTHING = Prediction(None, None, None)
"""Prediction of a classifier before its first class."""


class NotLearned(NamedTuple):
    """The prediction for an event that the model could not learn."""

    prediction: Prediction
    error: ModelRaised


@dataclass(slots=True)
class Predictions(Sequence[Prediction | NotLearned | ModelRaised]):
    """The predictions for a block of events, as columns. An item is the prediction for one event."""

    names: Sequence[str]
    """Names of the classes; empty for regression."""
    values: Array
    """float64[events, classes]: probabilities, NaN for a class without one; float64[events]: numbers of a regression.
    """
    labels: Array
    """int64[events]: the predicted class, or -1 for none; all -1 for regression."""
    targets: Array
    """int64[events]: the class that each event has, or -1; float64[events]: its number, or NaN."""
    sequence: Array | None
    """int64[events, classes]: the classes in the order of the model's dict, then -1; None without probabilities."""
    errors: dict[int, NotLearned | ModelRaised]
    """Errors of the events that the model could not predict or learn, by place."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Any:
        if (error := self.errors.get(place)) is not None:
            return error
        if not self.names:
            return Prediction(None, None, float(self.values[place]))
        label, probabilities = int(self.labels[place]), None
        if self.sequence is not None:
            order, votes = self.sequence[place].tolist(), self.values[place].tolist()
            probabilities = {self.names[number]: votes[number] for number in order if number >= 0}
        return Prediction(self.names[label], probabilities, None) if label >= 0 else NOTHING

    def __iter__(self) -> Iterator[Prediction | NotLearned | ModelRaised]:
        return (self[place] for place in range(len(self)))

    def in_one_order(self) -> tuple[tuple[str, ...], bytes] | None:
        """Return the order of the classes in each event's dict, and the probabilities of all events in this order, as
        the bytes of float64[events, classes]; None if the orders differ. Events without a class are left aside.
        """
        predicted = self.labels >= 0
        if self.sequence is None or not predicted.any():
            return None
        order = self.sequence[np.argmax(predicted)]
        if order[-1] < 0 or (self.sequence[predicted] != order).any():
            return None
        return tuple(self.names[number] for number in order.tolist()), self.values[:, order].tobytes()

    def spread(self, places: Sequence[int], events: int) -> "Predictions":
        """Return predictions for so many events, of which those at `places` have these ones and the rest none."""
        values = np.zeros((events, *self.values.shape[1:]))
        labels = np.full(events, _NO_LABEL)
        values[places], labels[places] = self.values, self.labels
        sequence = None if self.sequence is None else np.broadcast_to(np.arange(values.shape[1]), values.shape)
        errors = {places[place]: error for place, error in self.errors.items()}
        return Predictions(self.names, values, labels, self.targets, sequence, errors)


class StreamModel:
    """Learns and predicts with class names, whatever class keys the River model needs inside.

    A model that supports more than two classes gets the class names. A model that needs a boolean target gets False and
    True in order of first appearance. At a third class it is replaced by one-vs-rest over fresh clones of it.

    Parameters
    ----------
    factory
        Function that makes the River model.
    task
        Task of the stream.
    many_classes
        Whether it is known from the start that there will be more than two classes.
    """

    _live: RiverModel
    """Model that predicts and learns: the River model, or a compiled equivalent."""
    live: families.Live | None
    """The model itself, if it learns in compiled code."""
    learns = True

    def __init__(self, factory: ModelFactory, task: Task, many_classes: bool = False) -> None:
        self.task = task
        river = factory(task)
        self._take_over(river)
        self.classes: dict[str, int] = {}
        """Mapping from class name to index, in order of first appearance among learned events."""
        self.replaced = False
        """Whether one-vs-rest has replaced a binary model."""
        self._met: set[str] = set()
        """Features of events that a model in River has learned."""
        self._binary: RiverModel | None = None
        """For a model that needs a boolean target, its state before it learned."""
        self._names: dict[bool, str] = {}
        self._ask: Callable[[Mapping[str, Any]], Prediction] = self._number
        if task is Task.CLASSIFICATION:
            self._ask = self._many
            if not river._multiclass:
                self._binary = river.clone()
                self._ask = self._two
                if many_classes:
                    self._use_one_vs_rest()
        self._label_from_votes = label_from_votes(river)

    @property
    def river(self) -> RiverModel:
        """Return the River model as of the last event. Only read it."""
        return self._live if self.live is None else to_river(self.live)

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__}
        river, live = state.pop("_live"), state.pop("live")
        return state | ({"river": river} if live is None else {"arrays": families.write(live)})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "arrays" in state:
            self._live = self.live = families.read(*self.__dict__.pop("arrays"))
        else:
            self._take_over(self.__dict__.pop("river"))

    def learn_again(self, classes: Iterable[str], family: str, data: bytes) -> None:
        """Take the place of a model that has learned these classes, from its compiled equivalent as `families.write`
        returns it.

        Parameters
        ----------
        classes
            Names of the classes, in order of first appearance.

        Raises
        ------
        FrameError
            The bytes are not a model like this one.
        """
        for name in classes:
            self._new_class(name)
        fresh, live = self.live, families.read(family, data)
        require(fresh is not None and families.alike(live, fresh), f"a model like {type(fresh).__name__}", _OF)
        if self.task is Task.CLASSIFICATION and self._binary is None:
            known = {*self.classes, *(fresh.classes if fresh is not None else ())}
            require(known.issuperset(live.classes), "classes that the stream has had", _OF)
        self._live = self.live = live

    def _take_over(self, river: RiverModel) -> None:
        """Use a compiled equivalent of a River model if there is one."""
        self.stays_in_river: str | None = None
        """Reason why the model predicts and learns in River itself; None for a compiled model."""
        self._live, self.live = river, None
        self.imputed: Imputed | None = None
        """The features that the model must get as None where an event lacks them; None if it imputes nothing."""
        try:
            self._live = self.live = take(river)
        except NotCompilable as reason:
            self.stays_in_river = str(reason)
            self.imputed = imputed(river)

    def refuses(self, x: Mapping[str, Any]) -> str | None:
        """Return why the model cannot take an event: a model that learns takes any."""
        return None

    def refuses_label(self, target: str | float | None) -> str | None:
        """Return why a label cannot be one of this model: a model that learns takes any."""
        return None

    @property
    def labels(self) -> dict[Any, str] | None:
        """Return the River model's own class keys and their names; None for regression."""
        if self.task is Task.REGRESSION:
            return None
        if self._binary is None:
            return {name: name for name in self.classes}
        return dict(self._names)

    def predict(self, x: Mapping[str, Any]) -> Prediction:
        """Predict one event.

        A model in River may return no finite number for a feature that it has not learned, as behind a MinMaxScaler.
        This counts as no prediction, so that the model can learn the feature.

        Raises
        ------
        ModelRaised
            The model raised, or its prediction is not a finite number.
        """
        try:
            return self._ask(x if self.live is not None else dict(x))  # a model may change what it gets
        except NotImplementedError as error:  # River's sign for a classifier that gives no probabilities
            if self.task is Task.REGRESSION or self._ask == self._label_only:
                raise _raised("predict", error, x) from error
            self._ask = self._label_only
            return self.predict(x)
        except (Exception, SystemExit) as error:
            if type(error) is ArithmeticError and self.live is None and not self._met.issuperset(x):
                return NOTHING
            raise _raised("predict", error, x) from error

    @property
    def least_block(self) -> int | None:
        """Smallest number of events that `predict_and_learn` should get; None if it takes none now."""
        live = self.live
        if live is None or (self._binary is not None and len(self._names) < 2):
            return None
        return live.least_block

    def predict_and_learn(
        self, columns: Columns, targets: Sequence[str | float | None], known: Sequence[int] = ()
    ) -> Predictions:
        """Predict each event of a block, and learn it before the next one if it has a target.

        Parameters
        ----------
        columns
            The events.
        targets
            Class of each event, among those that the model has learned, or its number; None for an event without one.
        known
            Places of events that were predicted before and are only learned.

        Returns
        -------
        For each event what `predict` would return or raise, together with what `learn` would raise. An event for which
        `predict` would raise has not been learned. The prediction of a known event is undefined.
        """
        live, errors = self._live, dict[int, NotLearned | ModelRaised]()
        only_learned = None
        if known:
            only_learned = np.zeros(len(targets), np.bool_)
            only_learned[list(known)] = True
        if self.task is Task.REGRESSION:
            wanted = np.array([nan if target is None else target for target in targets], np.float64)
            values, outcomes = live.predict_learn_numbers(columns, wanted, within=LARGEST, known=only_learned)
            for place in np.flatnonzero(outcomes).tolist():
                outcome = int(outcomes[place])
                if outcome == TOO_WIDE:
                    errors[place] = _too_wide(place in known)
                else:
                    errors[place] = _not_learned(float(values[place]), outcome)
            return Predictions((), values, np.full(len(values), _NO_LABEL), wanted, None, errors)
        if self._binary is None and not live.numbers.keys() >= {*targets} - {None}:
            # One-vs-rest that has replaced a binary model meets the known classes again.
            live.numbers_of([target for target in targets if target is not None])
        names: list[str] = live.classes if self._binary is None else [self._names[key] for key in live.classes]
        numbers: dict[Any, int] = {None: -1, **{name: number for number, name in enumerate(names)}}
        labels = np.array([*map(numbers.__getitem__, targets)], np.int64)
        answers = live.predict_learn_block(columns, labels, only_finite=True, known=only_learned)
        if only_learned is not None:
            answers.labels[only_learned & (answers.labels != TOO_WIDE)] = _NO_LABEL
            answers.sequence[only_learned] = _NO_LABEL
        found = Predictions(names, answers.votes, answers.labels, labels, answers.sequence, errors)
        for place in np.flatnonzero(answers.labels < _NO_LABEL).tolist():
            if answers.labels[place] == TOO_WIDE:
                errors[place] = _too_wide(place in known)
            else:
                order, votes = answers.sequence[place].tolist(), answers.votes[place].tolist()
                named = {names[number]: votes[number] for number in order if number >= 0}
                errors[place] = ModelRaised(f"predict: ArithmeticError: {_not_finite(named)}")
        return found

    def learn(self, x: Mapping[str, Any], target: str | float) -> None:
        """Learn one event.

        Raises
        ------
        ModelRaised
            The model raised.
        """
        if self.task is Task.CLASSIFICATION and target not in self.classes:
            self._new_class(str(target))
        key = target if self._binary is None else target == self._names.get(True)
        if self.live is None:
            self._met.update(x)
        try:
            self._live.learn_one(x if self.live is not None else dict(x), key)
        except (Exception, SystemExit) as error:
            raise _raised("learn", error, x) from error

    def _number(self, x: Mapping[str, Any]) -> Prediction:
        value = self._live.predict_one(x)
        if value is None:
            return NOTHING
        value = float(value)
        if not abs(value) <= LARGEST:
            raise ArithmeticError(_not_within(value))
        return Prediction(None, None, value)

    def _two(self, x: Mapping[str, Any]) -> Prediction:
        """Predict with a model that knows False and True.

        A class that has not occurred yet has no name and is left out.
        """
        names = self._names
        if not names:
            return NOTHING
        votes = self._votes(x)
        if len(names) == len(votes) == 2 and (no := votes[False]) != (yes := votes[True]):  # nearly always
            first, second = names[False], names[True]
            return Prediction(first if no > yes else second, {first: no, second: yes}, None)
        named = {names[key]: vote for key, vote in votes.items() if key in names}
        return Prediction(max(named, key=named.__getitem__), named, None) if named else NOTHING

    def _many(self, x: Mapping[str, Any]) -> Prediction:
        votes = self._votes(x)
        if not votes:
            return NOTHING
        label = max(votes, key=votes.__getitem__) if self._label_from_votes else self._live.predict_one(x)
        return Prediction(label, votes, None)

    def _votes(self, x: Mapping[str, Any]) -> Mapping[Any, float]:
        votes: Mapping[Any, float] = self._live.predict_proba_one(x)
        if self.live is None:
            _expect_probabilities(votes, str if self._binary is None else bool)
        elif not isfinite(sum(votes.values())):
            raise ArithmeticError(_not_finite(votes))
        return votes

    def _label_only(self, x: Mapping[str, Any]) -> Prediction:
        """Predict with a classifier that gives no probabilities."""
        key = self._live.predict_one(x)
        label = key if self._binary is None else self._names.get(key)
        return Prediction(label, None, None) if label is not None else NOTHING

    def _new_class(self, name: str) -> None:
        self.classes[name] = len(self.classes)
        if self._binary is None:
            return
        if len(self.classes) == 3:
            self.replaced = True
            self._use_one_vs_rest()
        else:
            self._names[len(self.classes) == 2] = name

    def _use_one_vs_rest(self) -> None:
        self._take_over(one_vs_rest(self._binary))
        self._binary = None
        self._ask = self._many
        self._label_from_votes = True


def _raised(doing: str, error: BaseException, x: Mapping[str, Any]) -> ModelRaised:
    """Return the error of an event on which the model raised, with a hint if a text may be the cause."""
    text = next((name for name, value in x.items() if isinstance(value, str)), None)
    hint = ""
    if text is not None and isinstance(error, TypeError | ValueError | StructError):
        hint = (
            f" (feature {text[:60]!r} is text; if the model takes only numbers, put compose.SelectType(Number) or an "
            "encoder in front)"
        )
    return ModelRaised(f"{doing}: {type(error).__name__}: {error}{hint}")


def _too_wide(known: bool) -> NotLearned | ModelRaised:
    """Return what becomes of an event for which a tree or forest would need too much memory."""
    error = ModelRaised(f"{'learn' if known else 'predict'}: ModelError: {too_wide()}")
    return NotLearned(NOTHING, error) if known else error


def _not_learned(value: float, outcome: int) -> NotLearned | ModelRaised:
    """Return what becomes of an event that a regressor has not learned."""
    if (error := ERRORS.get(outcome)) is not None:
        raised = ModelRaised(f"learn: {type(error).__name__}: {error}")
        return NotLearned(Prediction(None, None, value), raised)
    return ModelRaised(f"predict: ArithmeticError: {_not_within(value)}")


def _expect_probabilities(votes: Any, kind: type) -> None:
    """Check what a model that is not ours predicts: probabilities by the labels that it learns."""
    if not isinstance(votes, Mapping):
        raise TypeError(f"expected probabilities by class from predict_proba_one, got {votes!r:.100}")
    if not isfinite(sum(votes.values())):
        raise ArithmeticError(_not_finite(votes))
    for key, vote in votes.items():
        if not isinstance(key, kind):
            labels = "the labels that it learns" + (", False and True," if kind is bool else ", which are texts,")
            raise TypeError(f"expected probabilities of {labels} from predict_proba_one, got {key!r:.100}")
        if not -_ROUNDING <= vote <= 1.0 + _ROUNDING:
            raise ArithmeticError(f"expected probabilities between 0 and 1, got {dict(votes)}")


def _not_finite(votes: Mapping[Any, float]) -> str:
    return f"expected finite probabilities, got {dict(votes)}; scale the features"


def _not_within(value: float) -> str:
    return f"expected a prediction within ±{LARGEST:g}, got {value}; scale the features"
