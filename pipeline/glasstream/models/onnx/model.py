"""A stream's model that is already trained: it predicts like other models, and learns nothing."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np

from glasstream.base.errors import ModelError, ModelRaised
from glasstream.events.features import FeatureTable, Kind, Value
from glasstream.events.limits import IngestLimits
from glasstream.models.online.live import Columns
from glasstream.models.onnx.file import expect_within
from glasstream.models.onnx.loading import Loaded
from glasstream.models.onnx.meaning import OUTSIDE, label_remedy, probability_remedy, trial_rows
from glasstream.models.onnx.runtime import OnnxPredictor
from glasstream.models.predictors.predictor import Floats, Output, Predictor
from glasstream.models.stream_model import NotLearned, Prediction, Predictions
from glasstream_topics.events import LARGEST

_WHOLE: Final = 2.0**53
"""Bound of whole numbers that a float64 represents exactly."""
_TRIED: Final = 16
"""Number of sets of missing features for which the model is tried."""
_FORMS: Final = 1_024
"""Number of forms of events (names and types) whose examination is remembered."""


class FixedModel:
    """A model that is already trained.

    It has the methods of `StreamModel` that a learner calls.

    Parameters
    ----------
    loaded
        Result of `load`.
    limits
        Limits on features and classes of a stream.
    absent
        The setting `model.absent`.
    pushed
        SHA-256 of its file, if a mark has brought it; None for the model of the settings.

    Raises
    ------
    ModelError
        A stream may not have so many features or classes.
    """

    learns = False
    imputed = None
    replaced = False
    least_block = 1

    def __init__(
        self, loaded: Loaded, limits: IngestLimits, absent: str | None = None, pushed: str | None = None
    ) -> None:
        self.pushed = pushed
        self._file, self.predictor, self._texts, self.generic, self.notices = loaded
        expect_within(self._file, self._texts, limits)
        self.task = self._file.task
        self.classes = {name: place for place, name in enumerate(self._file.classes)}
        self._absent = absent
        self._slots = {name: slot for slot, name in enumerate(self._file.features)}
        self._inputs = [(name, one) for one in self._file.inputs for name in one.features]
        self.whole = [name for name, one in self._inputs if one.whole]
        """Features that are whole numbers, which cannot be missing."""
        self._forms: dict[tuple[object, ...], str | None] = {}
        self.remarks: list[str] = []
        """Lines for the user about its events, which the learner reports and removes."""
        self._tried: set[tuple[str, ...]] = set()

    @property
    def features(self) -> Sequence[str]:
        """Names of the features that the model takes."""
        return self._file.features

    @property
    def kinds(self) -> Sequence[Kind]:
        """Kinds of these features."""
        return self._file.kinds

    @property
    def known(self) -> list[int]:
        """Number of texts of each feature that the encoders of the model know."""
        return [len(texts) for texts in self._texts]

    def table(self, limits: IngestLimits) -> FeatureTable:
        """Return the features of a stream before its first event: those of the model, with their texts."""
        table = FeatureTable.restored(limits, list(self.features), self._file.kinds, self._texts)
        table.declared = len(table)
        return table

    def extend(self, table: FeatureTable) -> None:
        """Add the texts that the model's encoders know to the features of a stream that it begins to predict."""
        for codes, texts in zip(table.categories, self._texts, strict=False):
            for text in texts[len(codes) :]:
                codes[text] = len(codes)

    def refuses(self, x: Mapping[str, Value]) -> str | None:
        """Return why the model cannot take an event, naming the feature; None if it can."""
        form = (*x, *map(type, x.values()))
        if form not in self._forms:
            if len(self._forms) >= _FORMS:
                self._forms.clear()
            self._forms[form] = self._examined(x)
        found = self._forms[form]
        if found is None and self.whole:
            for name in self.whole:
                value = x[name]
                if isinstance(value, float) and not (value.is_integer() and abs(value) <= _WHOLE):
                    return f"feature {name!r}: the model takes whole numbers, got {value}"
        return found

    def _examined(self, x: Mapping[str, Value]) -> str | None:
        for name, one in self._inputs:
            value = x.get(name)
            if name not in x and not one.whole and self._absent is None:
                return (
                    f"feature {name!r}: the model needs it, and the event does not have it; it has "
                    f"{', '.join(map(repr, x))[:200]}; send null where a value is missing, or set model.absent=missing"
                )
            if value is None:
                if one.whole:
                    return (
                        f"feature {name!r}: the model takes whole numbers, which cannot be missing, and the event has "
                        "none; send a number, or export the model with an input of float32"
                    )
            elif isinstance(value, str) != (one.kind is Kind.TEXT):
                wanted = "texts" if one.kind is Kind.TEXT else "numbers"
                return f"feature {name!r}: the model takes {wanted}, got {value!r:.60}"
        self._try_without(tuple(name for name, one in self._inputs if one.kind is Kind.NUMBER and x.get(name) is None))
        return None

    def _try_without(self, missing: tuple[str, ...]) -> None:
        """Remark if the model answers whatever the other features are where these numbers are missing.

        Distances and kernels of NaN are NaN. A model that compares them gives one class for all rows.
        """
        if not 0 < len(missing) < len(self._slots) or missing in self._tried or len(self._tried) == _TRIED:
            return
        self._tried.add(missing)
        slots = [self._slots[name] for name in missing]
        rows = trial_rows(len(self._slots), self._texts, ())
        others = trial_rows(len(self._slots), self._texts, ())
        others[:, slots] = np.nan
        try:
            full, lacking = self.predictor.evaluate(rows), self.predictor.evaluate(others)
        except ModelError:
            return
        if _varies(full) and not _varies(lacking) and np.isfinite(lacking.values).all():
            self.remarks.append(
                f"the model gives the same answer for every event that lacks {', '.join(map(repr, missing))[:200]}, "
                "whatever its other features are: it cannot process missing numbers; put an imputer before it and "
                "export both, or send events without missing values"
            )

    def predict(self, x: Mapping[str, Any]) -> Prediction:
        """Predict one event.

        Raises
        ------
        ModelRaised
            The model raised, or its prediction is not usable.
        """
        names = [name for name in self._slots if name in x]
        texts = {name: [x[name]] for name in names if isinstance(x[name], str)}
        row = np.array([[0.0 if name in texts else float(x[name]) for name in names]], np.float64)
        (found,) = self._predictions(Columns(names, row, texts))
        if isinstance(found, Prediction):
            return found
        raise found if isinstance(found, ModelRaised) else found.error

    def predict_and_learn(
        self, columns: Columns, targets: Sequence[str | float | None], known: Sequence[int] = ()
    ) -> Predictions:
        """Predict each event of a block; see `StreamModel.predict_and_learn`. Nothing is learned."""
        asked = sorted({*range(len(targets))} - {*known})
        found = self._predictions(columns._replace(values=columns.values[asked]) if known else columns)
        if self.classes:
            found.targets = np.array([-1 if one is None else self.classes[str(one)] for one in targets], np.int64)
        else:
            found.targets = np.array([np.nan if one is None else one for one in targets], np.float64)
        return found.spread(asked, len(targets)) if known else found

    def learn(self, x: Mapping[str, Any], target: str | float) -> None:
        """Learn nothing."""

    def refuses_label(self, target: str | float | None) -> str | None:
        """Return why a label cannot be one of this model; None if it can."""
        if not isinstance(target, str) or target in self.classes:
            return None
        lower = [name.lower() for name in self.classes]
        example = f", such as model.classes={','.join(lower)}" if target in lower else ""
        return (
            f"expected `y` to be one of the model's classes {', '.join(map(repr, self.classes))[:300]}, got "
            f"{target!r:.60}; model.classes renames the classes{example[:300]}"
        )

    def _predictions(self, columns: Columns) -> Predictions:
        rows = np.full((len(columns.values), len(self._slots)), np.nan)
        texts: dict[int, tuple[int, Sequence[str]]] = {}
        for place, name in enumerate(columns.names):
            slot = self._slots.get(name)
            if slot is None:
                continue
            values = columns.values[:, place]
            if name in columns.categories:
                texts[slot], codes = _joined(self._texts[slot], columns.categories[name])
                known = ~np.isnan(values)
                rows[known, slot] = codes[values[known].astype(np.int64)]
            else:
                rows[:, slot] = values
        predictor = self.predictor
        if isinstance(predictor, OnnxPredictor):
            predictor = predictor.extended((), (), texts)
        try:
            return self._judged(predictor, rows, predictor.evaluate(rows))
        except ModelError:  # one event must not spoil the others
            return self._one_by_one(predictor, rows)

    def _one_by_one(self, predictor: Predictor, rows: Floats) -> Predictions:
        found, errors = list[Output](), dict[int, ModelRaised]()
        nothing = Output(np.zeros((1, max(1, len(self.classes)))), np.zeros(1, np.int64))
        for place, row in enumerate(rows):
            try:
                found.append(predictor.evaluate(row.reshape(1, -1)))
            except ModelError as error:
                found.append(nothing)
                errors[place] = ModelRaised(f"predict: {error}")
        values, labels = np.concatenate([one.values for one in found]), np.concatenate([one.labels for one in found])
        judged = self._judged(predictor, rows, Output(values, labels))
        judged.errors.update(errors)
        return judged

    def _judged(self, predictor: Predictor, rows: Floats, output: Output) -> Predictions:
        """Return the predictions, with an error for each one that cannot be used."""
        values, labels = output.values, output.labels
        sequence, wanted = None, "a finite number"
        if not self.classes:
            values = values[:, 0]
            usable = np.abs(values) <= LARGEST
        else:
            usable, wanted = labels >= 0, "a label among its classes"
            if self._file.table is not None:
                sequence = np.broadcast_to(np.arange(values.shape[1]), values.shape)
        errors = dict[int, NotLearned | ModelRaised]()
        if sequence is not None:
            likely = ((values >= -OUTSIDE) & (values <= 1.0 + OUTSIDE)).all(axis=1)
            for place in np.flatnonzero(~likely).tolist():
                errors[place] = self._unusable("probabilities", values[place].tolist(), rows[place])
        for place in np.flatnonzero(~usable).tolist():
            got = values[place : place + 1].tolist() if not self.classes else _labels(predictor, rows[place])
            errors.setdefault(place, self._unusable(wanted, got, rows[place]))
        return Predictions(self._file.classes, values, labels, np.full(len(rows), -1), sequence, errors)

    def _unusable(self, wanted: str, got: Sequence[Any], row: Floats) -> ModelRaised:
        file = self._file
        missing = [name for name, absent in zip(self.features, np.isnan(row).tolist(), strict=True) if absent]
        labels = ", ".join(map(str, file.keys))[:200]
        ways = {
            "a label among its classes": f"; its classes are {labels}; {label_remedy(file)}",
            "probabilities": f"; {probability_remedy(file.classes, file.label)}",
        }
        why = f"; missing in this event: {', '.join(map(repr, missing))[:200]}" if missing else ways.get(wanted, "")
        if not missing and wanted == "probabilities" and not all(map(isfinite, got)):
            why = ""
        return ModelRaised(f"predict: expected {wanted} from the model, got {', '.join(map(str, got))[:200]}{why}")


def _varies(output: Output) -> bool:
    """Return whether not all rows have the same answer."""
    return bool(np.any(output.values != output.values[0]) or np.any(output.labels != output.labels[0]))


def _labels(predictor: Predictor, row: Floats) -> list[int | str]:
    """Return the label that the model gives for a row."""
    return predictor.labels(row.reshape(1, -1)) if isinstance(predictor, OnnxPredictor) else []


def _joined(known: Sequence[str], texts: Sequence[str]) -> tuple[tuple[int, Sequence[str]], Any]:
    """Return the texts beyond the known ones, with the first code of these, and the code of each of `texts`."""
    codes = {text: code for code, text in enumerate(known)}
    numbers = np.array([codes.setdefault(text, len(codes)) for text in texts], np.float64)
    return (len(known), list(codes)[len(known) :]), numbers
