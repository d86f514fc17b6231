"""Learner of one stream: predict, fix everything about a row that depends on order, then learn.

It is a pure function from events to records. The stage decides only when a block is cut.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from glasstream.base.errors import ModelRaised
from glasstream.events.admission import Accepted, Admission, Task
from glasstream.events.decode import time_of
from glasstream.events.features import KeptFeatures, Kind, Value
from glasstream.events.waiting import Joined
from glasstream.explain.losses import loss_for
from glasstream.flow.learner.answers import NO_ANSWER, Answer, answer_of, answers_of, unknown_output
from glasstream.flow.learner.make_model import Model, make_model
from glasstream.flow.learner.open_block import OpenBlock
from glasstream.flow.learner.outbox import Outbox
from glasstream.flow.learner.pushed import PushedModels
from glasstream.flow.learner.scoring import Scored, ScoredBlock, Scoring
from glasstream.flow.learner.state import NEVER, LearnerState
from glasstream.flow.learner.taken import Taken, take
from glasstream.flow.learner.unlabelled import Unlabelled
from glasstream.flow.learner.versions import Versions
from glasstream.flow.run import Run
from glasstream.flow.settings import Settings
from glasstream.models.online.live import Columns
from glasstream.models.onnx.model import FixedModel
from glasstream.models.river.catalogue import takes_text
from glasstream.models.stream_model import NOTHING, NotLearned, Prediction, Predictions
from glasstream_topics import requests
from glasstream_topics.events import Event
from glasstream_topics.frames import Array
from glasstream_topics.requests import ExplainRequest

_THIRD_CLASS: Final = (
    "third class seen: replacing the binary model by an untrained one-vs-rest model; set model.many_classes=true to "
    "start with one"
)


class StreamLearner:
    """Learner of one stream.

    Parameters
    ----------
    stream, partition
        Name of the stream and its partition of `events`.
    settings
        All settings, with the stream's own epoch.
    outbox
        Receives the records.
    models
        The models that marks name.
    """

    def __init__(
        self, stream: str, partition: int, settings: Settings, outbox: Outbox, models: PushedModels | None = None
    ) -> None:
        self.stream = stream
        self.partition = partition
        self.settings = settings
        self.state = LearnerState.new(settings, stream)
        self.ended = False
        """Whether a reset mark has ended this epoch."""
        self._kept_classes: tuple[str, ...] = ()
        """Classes of the newest prediction that was kept, so that predictions share them."""
        self.outbox = outbox
        self._models = models or PushedModels()
        self.scoring = Scoring(settings, stream, self.state)
        self._versions = Versions(stream, settings, self.state, outbox)
        self._block = OpenBlock(stream, partition, settings, self.state, self._versions)
        if (task := settings.model.chosen_task) is not None:
            self.state.model = self._new_model(task)

    def step(self, accepted: Accepted, event_id: str) -> None:
        """Predict one event and, if it is labelled, learn it.

        Raises
        ------
        ModelRaised
            The model raised an error in predict or learn. The event is then not a row.
        """
        state = self.state
        seq, target = accepted.seq, accepted.target
        state.seqs = seq + 1
        row, given = state.features.encode(accepted.event.x)
        if len(state.features.names) != self._block.features:
            self._see_features()
        model = state.model
        if model is not None and (reason := model.refuses(accepted.event.x) or model.refuses_label(target)) is not None:
            raise ModelRaised(reason)
        if model is None and target is not None:
            model = self._first_model(target)
            if not state.features.model_takes_text:  # not known when the event was encoded
                given = {name: value for name, value in given.items() if not isinstance(value, str)}
        given = self._completed(model, given)
        prediction = model.predict(given) if model is not None else NOTHING
        answer = answer_of(model, prediction) if self._block.attributes else NO_ANSWER
        self._note(accepted, event_id, prediction)
        if model is None or target is None:
            if state.entries is not None:
                self._append(model, row, seq, None, accepted.event.ts, answer=answer)
            return
        model.learn(given, target)
        if model.replaced:
            self._say(_THIRD_CLASS)
        self._append(model, row, seq, target, accepted.event.ts, answer=answer)

    def _completed(self, model: Model | None, given: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return what a model gets: None for absent features if it has an imputer, which looks for None."""
        if model is None or model.imputed is None:
            return given
        gets = self.state.features.given()
        return model.imputed.fill(
            dict(given), (name for name, one in zip(self.state.features.names, gets, strict=True) if one)
        )

    def step_block(self, run: Run, most: int, admission: Admission) -> tuple[int, list[tuple[int, int, ModelRaised]]]:
        """Predict and learn the next events and late labels of a run in one call, as far as they fit into a block.

        The block also ends where a snapshot is due, which is of the model at that row, and where a request is full.

        Parameters
        ----------
        most
            Largest number of elements.

        Returns
        -------
        The number of elements that were processed; with 0, the next one has to be processed alone. For each one that
        the model could not take, its place among them, its `seq`, and the error that `step` or `join` would have
        raised.
        """
        state, block = self.state, self._block
        model = state.model
        if model is None or self.least_block is None:
            return 0, []
        if len(model.classes) > block.classes:
            self._see_classes(model)
        if state.entries is not None:
            most = min(most, block.room)
        taken = take(run, most, min(state.next_due - state.rows, block.room), admission, model, state)
        if taken is None:
            return 0, []
        rows, count = taken.rows, len(taken.targets)
        found = model.predict_and_learn(self._columns(rows, taken.order), taken.targets, [*taken.late])
        errors = [(place, taken.seqs[place], _raised(error)) for place, error in sorted(found.errors.items())]
        learned = self._note_block(model, taken, found)
        state.seqs = admission.seq
        if len(self.scoring) >= self.settings.block.rows and len(learned) < count:
            self._publish()
        if len(learned):
            block.extend(rows if len(learned) == count else rows[learned])
            self._cut_if_due(model)
        return count, errors

    def _note_block(self, model: Model, taken: Taken, found: Predictions) -> Sequence[int]:
        """Keep predictions and what waits for a label; return the places of what the open block has received."""
        state, late = self.state, taken.late
        ids, seqs, targets, times = taken.ids, taken.seqs, taken.targets, taken.times
        answers = answers_of(model, found) if self._block.attributes else []
        places: Sequence[int] = range(len(targets))
        if found.errors:
            places = [place for place in places if place not in found.errors]
        learned = places if None not in targets else [place for place in places if targets[place] is not None]
        versions = [state.version] * len(targets)
        if model.learns:
            steps = np.zeros(len(targets), np.int64)
            steps[learned] = 1
            versions = (state.rows + np.cumsum(steps) - steps).tolist()
        groups = self._groups(taken, found)
        if None in targets or state.waiting.begun:
            self._remember(taken, found, groups)
        if not found.errors:
            self.scoring.add_block(ScoredBlock(seqs, ids, found, targets, versions, times, late, groups))
        else:
            for place, prediction in enumerate(map(_predicted, found)):
                if prediction is not None:
                    shown, codes = late.get(place, prediction), groups[place] if groups else b""
                    self.scoring.add(
                        Scored(seqs[place], ids[place], shown, targets[place], versions[place], times[place], codes)
                    )
        if state.entries is None:
            if len(learned) < len(targets):
                seqs = [seqs[place] for place in learned]
                targets = [targets[place] for place in learned]
                times = [times[place] for place in learned]
            self._block.note_labelled(model, seqs, targets, times)
            return learned
        for place in places:
            answer = answers[place] if answers and place not in late else NO_ANSWER
            self._block.note(model, seqs[place], targets[place], times[place], late=place in late, answer=answer)
        return places

    def _groups(self, taken: Taken, found: Predictions) -> Sequence[bytes]:
        """Return the codes of the groups of each element; none for an event that the model refused."""
        groups, late, errors = self.state.groups, taken.late, found.errors
        if groups is None:
            return ()
        return [
            late[place].groups
            if place in late
            else b""
            if isinstance(errors.get(place), ModelRaised)
            else groups.codes_of(one)  # type: ignore[arg-type]  # it is an event
            for place, one in enumerate(taken.elements)
        ]

    def _remember(self, taken: Taken, found: Predictions, groups: Sequence[bytes]) -> None:
        """Count the events without a label, which wait for it, and remember those with one, in their order."""
        state, rows, targets = self.state, taken.rows, taken.targets
        waiting, names = state.waiting, found.names
        refused = {place for place, error in found.errors.items() if isinstance(error, ModelRaised)}
        state.unlabelled += sum(one is None for one in targets) - sum(targets[place] is None for place in refused)
        if not waiting.window:
            return
        data, row_bytes = rows.tobytes() if taken.as_rows else b"", 8 * rows.shape[1]
        classes, votes = (None if found.errors else found.in_one_order()) or ((), b"")
        labels, vote_bytes = found.labels.tolist(), 8 * len(classes)
        arrived = list[tuple[str, int, Unlabelled | None]]()
        for place, (one, one_id, seq, target) in enumerate(
            zip(taken.elements, taken.ids, taken.seqs, targets, strict=True)
        ):
            if type(one) is not Event or one.id is None or one_id is None or place in refused:
                continue
            if target is not None:
                arrived.append((one_id, seq, None))
                continue
            if taken.as_rows:
                x = KeptFeatures(None, array("d", data[place * row_bytes : (place + 1) * row_bytes]))
            else:
                x = state.features.keep(one.x)
            codes = groups[place] if groups else b""
            if classes and labels[place] >= 0:
                numbers = array("d", votes[place * vote_bytes : (place + 1) * vote_bytes])
                kept = Unlabelled(x, names[labels[place]], classes, numbers, None, time_of(one.ts), codes)
            else:
                kept = self._kept(one, _predicted(found[place]) or NOTHING, x, codes)
            arrived.append((one_id, seq, kept))
        waiting.add_all(arrived)

    @property
    def least_block(self) -> int | None:
        """Smallest number of events that `step_block` should get; None if they have to be processed one by one."""
        model, table = self.state.model, self.state.features
        if isinstance(model, FixedModel):
            return model.least_block
        if model is None or model.live is None or self.state.rows == 0 or self.state.through_river:
            return None
        if not model.live.takes_text and table.model_takes_text and Kind.TEXT in table.kinds:
            return None
        return model.least_block

    def _columns(self, rows: Array, order: Sequence[int]) -> Columns:
        """Return the features that the model gets, in the order in which the events name them."""
        table, given = self.state.features, self.state.features.given()
        slots = [slot for slot in order if given[slot]]
        if slots != list(range(rows.shape[1])):
            rows = rows[:, slots]
        texts = {table.names[slot]: table.texts(slot) for slot in slots if table.kinds[slot] is Kind.TEXT}
        return Columns([table.names[slot] for slot in slots], rows, texts)

    def _note(self, accepted: Accepted, event_id: str, prediction: Prediction) -> None:
        """Keep an event's prediction until it is published, and its id until its label comes."""
        state = self.state
        seq, target = accepted.seq, accepted.target
        codes = b"" if state.groups is None else state.groups.codes_of(accepted.event)
        self.scoring.add(Scored(seq, event_id, prediction, target, self._learned, accepted.event.ts, codes))
        if state.model is None or target is None:
            state.unlabelled += 1
            if accepted.event.id is not None and state.waiting.window:
                kept = state.features.keep(accepted.event.x)
                state.waiting.add(event_id, seq, self._kept(accepted.event, prediction, kept, codes))
            if len(self.scoring) >= self.settings.block.rows:
                self._publish()
        elif state.waiting.begun and accepted.event.id is not None:
            state.waiting.labelled(event_id, seq)

    def _kept(self, event: Event, prediction: Prediction, x: KeptFeatures, codes: bytes) -> Unlabelled:
        """Return what is kept of an event that waits for its label."""
        label, probabilities, value = prediction
        classes, numbers = None, None
        if probabilities is not None:
            classes, numbers = tuple(probabilities), array("d", probabilities.values())
            if classes == self._kept_classes:
                classes = self._kept_classes
            self._kept_classes = classes
        return Unlabelled(x, label, classes, numbers, value, time_of(event.ts), codes)

    def join(self, label: Joined[Unlabelled], event_id: str) -> None:
        """Learn an event whose label has just arrived.

        Raises
        ------
        ModelRaised
            The model raised an error. The event is then not a row.
        """
        state = self.state
        state.waiting.settle(event_id)
        seq, kept, target = label.seq, label.kept, label.target
        model = state.model or self._first_model(target)
        if (reason := model.refuses_label(target)) is not None:
            raise ModelRaised(reason)
        row, given = state.features.encode_kept(kept.x)
        self.scoring.add(Scored(seq, None, kept, target, self._learned, None, kept.groups))
        model.learn(self._completed(model, given), target)
        if model.replaced:
            self._say(_THIRD_CLASS)
        self._append(model, row, seq, target, kept.ts, late=True)

    def flush(self) -> None:
        """Process a flush mark: close the block, publish the groups, and pass the mark to the aggregator."""
        self.cut()
        self.publish_groups()
        if self.state.next_entry > self.settings.explain.first_row:
            self.state.flush_before = True
            self.outbox.requests.append(self._mark())

    def _mark(self, *, ends: bool = False) -> ExplainRequest:
        state, settings = self.state, self.settings
        return requests.flush_item(
            stream=self.stream, epoch=settings.epoch, partition=self.partition, first_row=state.next_entry, ends=ends
        )

    def end(self) -> None:
        """Process a reset mark: close the block, stop waiting for labels, and pass the mark to the aggregator."""
        state = self.state
        self.cut()
        self.publish_groups()
        self.ended = True
        missed = state.waiting.give_up()
        self.outbox.requests.append(self._mark(ends=True))
        self.outbox.notices.append(
            f"stream {self.stream!r}: a reset mark ends epoch {self.epoch} after {state.seqs:,} events and "
            f"{state.rows:,} rows; {missed:,} labels never came"
        )

    def replace(self, model: FixedModel) -> None:
        """Predict and explain with another model from the next event on; see `glasstream.flow.learner.pushed`."""
        state = self.state
        self.cut()
        state.model, state.pushed = model, model.pushed
        state.expected = state.expected.begin(state.seqs)
        state.version += 1
        model.extend(state.features)
        state.known_categories = model.known
        if state.next_due == NEVER:
            self._versions.make(model)
        generic = "" if model.generic is None else f", and explained through onnxruntime: {model.generic}"
        self.outbox.notices.append(
            f"stream {self.stream!r}: from event {state.seqs:,} and row {state.rows:,} on, the model is {state.pushed} "
            f"(version {state.version}){generic}"
        )
        for notice in model.notices:
            self._say(notice)

    def refuses_another(self) -> str | None:
        """Return why no mark can replace the model now; None if one can."""
        if not isinstance(self.state.model, FixedModel):
            return (
                "expected a stream whose model is already trained, got one whose model learns; start the stages with "
                "model.name=FILE.onnx"
            )
        most = max(self.state.next_entry, self.settings.explain.first_row)
        if self.state.version >= most:
            return f"a stream takes at most one pushed model per row, {most:,} so far; push this one after the next row"
        return None

    def cut(self) -> None:
        """Publish the predictions and close the open block. The time of this call changes no number."""
        state, waiting = self.state, self.state.waiting
        for remarks in (state.features.remarks, state.model.remarks if isinstance(state.model, FixedModel) else []):
            while remarks:
                self._say(remarks.pop(0))
        if waiting.missed:
            self._say(
                f"an event got no label within labels.window = {waiting.window} events, or a later event has the "
                "same id; such events are never learned. The metric glasstream_labels_missed_total counts them; this "
                "line is not repeated"
            )
        if waiting.dropped:
            self._say(
                f"events that wait for labels take more than {waiting.most_bytes:,} bytes "
                "(limits.waiting_bytes), so the oldest ones stopped waiting; such events are never learned. The metric "
                "glasstream_bound_hits_total counts them; this line is not repeated. Send labels sooner, or fewer "
                "features, or raise the limit if the workers have enough memory"
            )
        self._publish()
        if (request := self._block.close()) is not None:
            if self._block.attributes and (line := unknown_output(self.settings.attributions.output, self.state.model)):
                self._say(line)
            self.outbox.requests.append(request)

    def _append(
        self,
        model: Model | None,
        row: Iterable[float],
        seq: int,
        target: str | float | None,
        ts: int | None,
        *,
        late: bool = False,
        answer: Answer = NO_ANSWER,
    ) -> None:
        """Add a row to the open block or, without a label, an event that has effects only."""
        if model is not None and len(model.classes) > self._block.classes:
            self._see_classes(model)
        self._block.append(row)
        self._block.note(model, seq, target, ts, late=late, answer=answer)
        self._cut_if_due(model)

    def _cut_if_due(self, model: Model | None) -> None:
        """Close the block, and make a snapshot, if the newest row is the one for it."""
        if model is not None and self.state.rows == self.state.next_due:
            self.cut()
            self._versions.advance(model)
        elif self._block.room <= 0:
            self.cut()

    @property
    def _learned(self) -> int:
        """Version of the model: the number of rows that it has learned or, if it learns nothing, of those before it."""
        return self.state.rows if self.settings.model.learns else self.state.version

    @property
    def epoch(self) -> int:
        """The stream's epoch."""
        return self.settings.epoch

    @property
    def score(self) -> float | None:
        """Prequential accuracy, or mean absolute error; None before the first prediction with a label."""
        return self.state.score / self.state.scored if self.state.scored else None

    @property
    def score_name(self) -> str:
        """Name of the metric in `score`."""
        return "mae" if self.state.model is not None and self.state.model.task is Task.REGRESSION else "accuracy"

    @property
    def at_snapshot(self) -> bool:
        """Whether a snapshot has just been made and nothing has been learned or predicted since."""
        newest = self._learned == self.state.version and self.state.rows > 0
        settled = newest and not len(self._block) and not len(self.scoring)
        return settled and self.state.next_due > self.settings.explain.first_row

    def saved_state(self, *, at_rest: bool = False) -> LearnerState:
        """Return the state from which a successor resumes. Call it `at_snapshot` or, with `at_rest`, right after a
        `cut`.
        """
        state = self.state
        state.waiting.expire(state.seqs)
        if not self.settings.model.learns:
            return replace(state, model=None, newest=None)
        return replace(state, newest=state.newest if at_rest else None, at_rest=at_rest)

    def resume(self, saved: LearnerState) -> None:
        """Resume from a saved state, and make its newest snapshot again.

        For a model that is not compiled, this is possible only if the state was taken at that snapshot, because the
        model has learned more rows since.
        """
        state, model = self.state, self.state.model
        for name in state.__struct_fields__:
            setattr(state, name, getattr(saved, name))
        if isinstance(model, FixedModel):
            state.model = state.model or self._pushed_again(model)
        self._block.see(len(state.features), 0 if state.model is None else len(state.model.classes))
        if state.flush_before:  # the mark was the last item that was sent
            self.outbox.sent.append(self._mark())
        self._versions.resume()

    def _pushed_again(self, model: FixedModel) -> FixedModel:
        """Return the model of a restored state, which is the given one of the settings unless a mark has brought it."""
        state = self.state
        if state.pushed is None:
            return model
        texts = [
            list(codes)[:count] for codes, count in zip(state.features.categories, state.known_categories, strict=False)
        ]
        return self._models.again(state.pushed, self.settings, model, texts)

    def _first_model(self, target: str | float) -> Model:
        self._publish()  # while there is no loss yet
        self.state.model = self._new_model(Task.CLASSIFICATION if isinstance(target, str) else Task.REGRESSION)
        return self.state.model

    def _new_model(self, task: Task) -> Model:
        state = self.state
        settings = self.settings.model
        state.loss = loss_for(task, self.settings.explain.loss)
        state.features.model_takes_text = takes_text(settings.name)
        self._say(f"{task.value}, model {settings.name}, loss {state.loss}")
        model = make_model(self.settings, task)
        if isinstance(model, FixedModel):
            state.features = model.table(self.settings.limits)
            state.known_categories = model.known
            self._say("the model is already trained, and learns nothing")
            for notice in model.notices:
                self._say(notice)
            if model.generic is not None:
                self._say(f"the model is explained through onnxruntime, not in compiled code: {model.generic}")
        elif model.stays_in_river is not None:
            self._say(f"the model learns in River itself, event by event, which is slow: {model.stays_in_river}")
        return model

    def _publish(self) -> None:
        if len(self.scoring):
            self.outbox.predictions += [(self.stream, record) for record in self.scoring.publish(self.state.loss)]
            self.outbox.groups += [(self.stream, record) for record in self.scoring.take_groups()]

    def publish_groups(self) -> None:
        """Publish the groups of all rows, unless the newest records have them."""
        self.outbox.groups += [(self.stream, record) for record in self.scoring.newest_groups(self.state.loss)]

    def _see_features(self) -> None:
        """Close the open block and widen the rows, because a feature is new."""
        self.cut()
        self._block.see(len(self.state.features), self._block.classes)
        declared = self.state.features.declared
        for name in self.state.features.names[declared:] if declared else ():
            self._say(f"feature {name!r} is not one of the model's features (importance 0)")
        for name, given in zip(self.state.features.names, self.state.features.given(), strict=True):
            if not given:
                self._say(f"feature {name!r} is text, which this model does not use (importance 0)")

    def _see_classes(self, model: Model) -> None:
        """Close the open block before the first row of a new class."""
        self.cut()
        self._block.see(self._block.features, len(model.classes))

    def _say(self, line: str) -> None:
        self.outbox.log_once(self.stream, line, self.state.said)


def _predicted(found: Prediction | NotLearned | ModelRaised) -> Prediction | None:
    """Return the prediction for an event of a block; None if the model refused the event."""
    if isinstance(found, NotLearned):
        return found.prediction
    return None if isinstance(found, ModelRaised) else found


def _raised(error: NotLearned | ModelRaised) -> ModelRaised:
    return error.error if isinstance(error, NotLearned) else error
