"""Versions of a stream's model: after which row a snapshot of it is made, and which entries are explained with it."""

from typing import Final

from glasstream.base.errors import ModelError, NotCompilable
from glasstream.flow.learner.answers import slow_attributions
from glasstream.flow.learner.make_model import Model
from glasstream.flow.learner.outbox import ModelVersion, Outbox
from glasstream.flow.learner.staleness import scale, staleness
from glasstream.flow.learner.state import NEVER, LearnerState
from glasstream.flow.settings import Settings
from glasstream.models.onnx.model import FixedModel
from glasstream.models.predictors.checks import check_splits
from glasstream.models.predictors.predictor import Predictor
from glasstream.models.river.compile import compile_model
from glasstream.models.river.generic import GenericPredictor

_CHECKED_ROWS: Final = 10
"""Number of rows on which a model that is not compiled is checked once."""


class Versions:
    """Versions of the model of one stream.

    Parameters
    ----------
    stream, settings, state
        Those of the learner.
    outbox
        Receives the snapshots.
    """

    def __init__(self, stream: str, settings: Settings, state: LearnerState, outbox: Outbox) -> None:
        self._stream, self._settings, self._state, self._outbox = stream, settings, state, outbox
        self._checked = "attributions" not in settings.explain.names
        """Whether it is known how fast predictions are explained, or they are not."""

    def advance(self, model: Model) -> None:
        """Begin a version after the row for which it is due, and make its snapshot if it explains a row."""
        state, schedule = self._state, self._settings.snapshot
        if not model.learns:  # one snapshot, unless a mark brings another model
            self.make(model)
            return
        if schedule.latest(state.rows) > self._settings.explain.first_row:
            self.make(model)
        else:
            state.next_due = schedule.after(state.rows, None)
        state.version = state.rows

    def make(self, model: Model) -> None:
        """Make a snapshot of the model as it is now."""
        state, predictor = self._state, self.predictor(model)
        if not self._checked:
            self._checked = True
            if line := slow_attributions(predictor, len(state.features.names)):
                self._say(line)
        if not model.learns:
            state.through_river, state.next_due = not predictor.compiled, NEVER
            self._publish(state.version, predictor)
            return
        if isinstance(predictor, GenericPredictor) and not state.through_river:
            self._check_function(predictor)
        state.through_river = not predictor.compiled
        state.known_categories = [len(codes) for codes in state.features.categories]
        change = self._measure(predictor)
        state.next_due = self._settings.snapshot.after(state.rows, change, state.rows - state.version)
        self._publish(state.rows, predictor)

    def resume(self) -> None:
        """Make the newest snapshot of a saved state again."""
        state = self._state
        predictor = state.newest
        if not state.at_rest and state.model is not None:
            predictor = self.predictor(state.model)
        state.at_rest = False
        if predictor is not None:
            state.newest = predictor if predictor.compiled else None
            self._publish(state.version, predictor)

    def _publish(self, version: int, predictor: Predictor) -> None:
        state = self._state
        until = state.next_due if state.entries is None else NEVER  # events without labels may come before
        self._outbox.snapshots.append(
            ModelVersion(self._stream, self._settings.epoch, version, predictor, state.next_entry, until)
        )

    def predictor(self, model: Model) -> Predictor:
        """Return the model as it is now, compiled if possible."""
        if isinstance(model, FixedModel):
            return model.predictor
        table = self._state.features
        try:
            if model.live is not None:
                return model.live.compiled(table, model.labels or {}, given=table.given())
            return compile_model(model.river, table, model.labels, given=table.given())
        except NotCompilable as reason:
            self._say(f"the model is explained through River itself, row by row, which is slow: {reason}")
            return GenericPredictor(model.river, table, model.labels, given=table.given())

    def _measure(self, predictor: Predictor) -> float | None:
        """Return how much the model has changed since the newest snapshot, in the schedule's units; None if unknown."""
        state, before = self._state, self._state.newest
        state.newest, state.staleness = predictor if predictor.compiled else None, None
        if before is None or state.newest is None:
            return None
        rows = state.background.held(state.rows)
        state.staleness = staleness(predictor, before, state.loss, rows)
        unit = scale(predictor, rows)
        return None if state.staleness is None or unit == 0.0 else state.staleness / unit

    def _check_function(self, predictor: GenericPredictor) -> None:
        """Log a notice if the model's predictions are not a function of the row. The check uses a copy that it may
        change.
        """
        rows = self._state.background.held(self._state.rows)[:_CHECKED_ROWS]
        trial = predictor.copied()
        try:
            check_splits(trial, rows)
        except ModelError as error:
            self._say(
                "the model's predictions are not a function of the row, so its explanations cannot be repeated; seed "
                f"the model, or use another one: {error}"
            )

    def _say(self, line: str) -> None:
        self._outbox.log_once(self._stream, line, self._state.said)
