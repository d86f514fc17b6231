"""Learner of one stream: predict, fix everything about a row that depends on order, then learn.

It is a pure function from events to records. The stage decides only when a block is cut.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from glasstream.base.errors import ModelError, ModelRaised, NotCompilable
from glasstream.events.admission import Accepted, Admission, Task
from glasstream.events.features import KeptFeatures, Kind, RowBuffer, Value
from glasstream.events.waiting import Joined, size_of
from glasstream.explain.losses import loss_for
from glasstream.explain.method import Passing
from glasstream.flow.learner.answers import NO_ANSWER, Answer, answer_of, answers_of
from glasstream.flow.learner.entries import Entries
from glasstream.flow.learner.make_model import Model, make_model
from glasstream.flow.learner.pushed import PushedModels
from glasstream.flow.learner.scoring import Scored, ScoredBlock, Scoring
from glasstream.flow.learner.staleness import scale, staleness
from glasstream.flow.learner.state import NEVER, LearnerState
from glasstream.flow.learner.unlabelled import CLASS_BYTES, Unlabelled
from glasstream.flow.run import Run
from glasstream.flow.settings import Settings
from glasstream.models.online.live import Columns
from glasstream.models.onnx.model import FixedModel
from glasstream.models.predictors.checks import check_splits
from glasstream.models.predictors.predictor import Predictor
from glasstream.models.river.catalogue import takes_text
from glasstream.models.river.compile import compile_model
from glasstream.models.river.generic import GenericPredictor
from glasstream.models.stream_model import NOTHING, Prediction, Predictions
from glasstream_topics import requests
from glasstream_topics.events import Event
from glasstream_topics.events_dead import Reason
from glasstream_topics.frames import Array
from glasstream_topics.methods import EFFECTS, LABELLED
from glasstream_topics.requests import ExplainRequest, NewCategories


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a stream's model, in the form that explainers evaluate."""

    stream: str
    epoch: int
    version: int
    predictor: Predictor
    since: int
    """The first entry that is explained with this version: a row, without `explain.unlabelled`."""
    until: int
    """The first entry that is explained with a later version; `NEVER` if only that version will tell."""


class _Block(NamedTuple):
    """Events and late labels that were predicted and learned in one call."""

    taken: Sequence[Event | Joined[Unlabelled]]
    ids: Sequence[str | None]
    """The id of each event, None for a late label."""
    targets: Sequence[str | float | None]
    times: Sequence[int | None]
    first: int
    """`seq` of the first event."""
    found: Predictions
    rows: NDArray[np.float64]
    as_rows: bool
    """Whether the learner keeps the row of an event that waits for its label, and not the event itself."""


Element = Accepted | Joined[Unlabelled] | tuple[Reason, str]
"""Event or late label whose turn has come, or the reason for its rejection."""


@dataclass(slots=True)
class Outbox:
    """Output of learners that was not taken yet, in order."""

    predictions: list[tuple[str, bytes]] = field(default_factory=list)
    """(stream, record)"""
    requests: list[ExplainRequest] = field(default_factory=list)
    sent: list[ExplainRequest] = field(default_factory=list)
    """Requests that a predecessor has sent. They are made again, because they may have to be sent again."""
    snapshots: list[ModelVersion] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """Lines for the log about events that happen once."""

    def emptied(self) -> "Outbox":
        """Return the output in an outbox of its own, and empty this one, which the learners share."""
        taken = copy(self)
        self.predictions, self.requests, self.sent, self.snapshots, self.notices = [], [], [], [], []
        return taken


_THIRD_CLASS: Final = (
    "third class seen: replacing the binary model by an untrained one-vs-rest model; set model.many_classes=true to "
    "start with one"
)
_LATEST_TS = 253_402_300_799_999
"""Milliseconds from 1970 to the end of year 9999. An event whose time is further away counts as one without."""
_CHECKED_ROWS = 10
"""Number of rows on which a model that is not compiled is checked once."""


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
        self._schedule = settings.snapshot
        self.scoring = Scoring(settings, stream, self.state)
        self._buffer = RowBuffer()
        self._seqs: list[int] = []
        self._times: list[int | None] = []
        self._targets: list[float] = []
        self._passing: list[int] = []
        """Parts whose background and draws each event or label of the open block passes through, with
        `explain.unlabelled`."""
        self._parts: list[int] = []
        self._attributes = "attributions" in settings.explain.names
        self._answers: list[Answer] = []
        """The prediction for each event or row of the open block; empty unless predictions are attributed."""
        """Parts for which each of them is explained; 0 for none."""
        self._most_rows = settings.block.rows
        self._seen_features = 0
        self._seen_classes = 0
        """Number of classes that the rows of the open block know."""
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
        if len(state.features.names) != self._seen_features:
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
        answer = answer_of(model, prediction) if self._attributes else NO_ANSWER
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
        """Predict and learn the next events and late labels of a run in one call, as far as they fit into columns.

        The block ends before an element that does not fit: an event with a new feature or class, or with its features
        in another order, or one that is rejected. It also ends before a label of one of its events, which does not wait
        yet (an older event with the same id may wait, and would get the label), where a snapshot is due, which is of
        the model at that row, and where a request is full.

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
        state = self.state
        model = state.model
        if model is None or self.least_block is None:
            return 0, []
        if len(model.classes) > self._seen_classes:
            self._see_classes(model)
        table, waiting, entries, classes = state.features, state.waiting, state.entries, model.classes
        known, is_text, elements, first = admission.classes, admission.target_kind is str, run.elements, run.place
        places = self._most_rows - self._buffer.count
        room = min(state.next_due - state.rows, places)
        if entries is not None:
            most = min(most, places)
        block = table.block()
        add = block.values.append if run.form is not None and model.learns and block.direct(run.form) else None
        labels, new_ids = run.labels, set[str]()
        taken, targets, late = list[Event | Joined[Unlabelled]](), list[str | float | None](), list[int]()
        ids, times = list[str | None](), list[int | None]()
        to_keep = 0
        """Most bytes that the events of the block add to those that wait: they wait when the block has been learned."""
        seq = admission.seq
        for place in range(first, min(first + most, len(elements))):
            element = elements[place]
            target: str | float | None
            if not isinstance(element, Event):
                event_id = str(element.id)
                if event_id in new_ids:
                    break
                admission.seq = seq
                joined = waiting.find(element, admission)
                if not isinstance(joined, Joined) or not waiting.has_room(to_keep):
                    break
                _, kept, target = joined
                if isinstance(target, str) and target not in classes:
                    break
                if not model.learns and model.refuses(table.again(kept.x)) is not None:
                    break
                if not block.add_kept(kept.x):
                    break
                waiting.settle(event_id)
                late.append(len(taken))
                taken.append(joined)
                ids.append(None)
                times.append(kept.ts)
            else:
                y, given = element.y, element.id
                if y is None:
                    target = None
                elif is_text and type(y) is str and y in known:
                    target = y
                elif (target := admission.known(y)) is None:
                    break
                if type(target) is str and target not in classes:
                    break
                if add is not None:
                    add(element.x.values())
                elif (not model.learns and model.refuses(element.x) is not None) or not block.add(element.x):
                    break
                if given is None:
                    ids.append(run.id_of(place))
                else:
                    event_id = given if type(given) is str else str(given)
                    ids.append(event_id)
                    if labels:
                        new_ids.add(event_id)
                        to_keep += size_of(event_id, None)
                        if target is None:
                            to_keep += KeptFeatures.most(len(element.x)) + CLASS_BYTES * len(classes)
                seq += 1
                taken.append(element)
                times.append(element.ts)
            targets.append(target)
            if target is not None:
                room -= 1
                if room <= 0:
                    break
        admission.seq = seq
        if not taken:
            return 0, []
        rows = block.rows()
        found = model.predict_and_learn(self._columns(rows, block.order()), targets, late)
        noted = _Block(taken, ids, targets, times, seq - len(taken) + len(late), found, rows, as_rows=add is not None)
        errors = list[tuple[int, int, ModelRaised]]()
        if late or found.errors or entries is not None or waiting.begun or None in targets:
            learned = self._note_each(model, noted, errors)
            rows = rows if len(learned) == len(rows) else rows[learned]
        else:
            self._note_all(model, noted)
        state.seqs = seq
        if len(self.scoring) >= self.settings.block.rows and len(rows) < len(taken):
            self._publish()
        if len(rows):
            self._buffer.extend(rows)
            self._cut_if_due(model)
        return len(taken), errors

    def _note_all(self, model: Model, block: _Block) -> None:
        """Keep the predictions of a block in which every event has its label, and its rows for the open block."""
        state = self.state
        count, seqs = len(block.taken), range(block.first, block.first + len(block.taken))
        versions = range(state.rows, state.rows + count) if model.learns else [state.version] * count
        self.scoring.add_block(ScoredBlock(seqs, block.ids, block.found, block.targets, versions, block.times, {}))
        self._seqs.extend(seqs)
        self._times.extend(map(_time, block.times))
        classes = {name: float(number) for name, number in model.classes.items()}
        self._targets.extend(map(classes.__getitem__, block.targets) if classes else block.targets)  # type: ignore[arg-type]  # none is None
        state.rows += count

    def _note_each(self, model: Model, block: _Block, errors: list[tuple[int, int, ModelRaised]]) -> list[int]:
        """Keep predictions and what waits for a label; return the places of the rows for the open block.

        Parameters
        ----------
        errors
            Receives the errors of `step_block`.
        """
        state = self.state
        table, waiting, learns, found = state.features, state.waiting, model.learns, block.found
        keeps, begun, number = waiting.window > 0, waiting.begun, block.first
        learned, seqs, versions, late = list[int](), list[int](), list[int](), dict[int, Unlabelled]()
        data, row_bytes = block.rows.tobytes() if block.as_rows and keeps else b"", 8 * block.rows.shape[1]
        ordered = found.in_one_order() if keeps and not found.errors else None
        classes, votes = ((), b"") if ordered is None else ordered
        vote_bytes = 8 * len(classes)
        answers = answers_of(model, found) if self._attributes else []
        for place, (one, one_id, wanted, ts) in enumerate(
            zip(block.taken, block.ids, block.targets, block.times, strict=True)
        ):
            is_late = isinstance(one, Joined)
            at = one.seq if isinstance(one, Joined) else number
            number += not is_late
            version = state.rows if learns else state.version
            prediction: Any = None
            error = found.errors.get(place)
            if error is not None:
                prediction, raised = (None, error) if isinstance(error, ModelRaised) else error
                errors.append((place, at, raised))
                if prediction is None:
                    continue
            if isinstance(one, Joined):
                late[place] = prediction = one.kept
            elif wanted is None:
                state.unlabelled += 1
                if keeps and one.id is not None and one_id is not None:
                    if block.as_rows:
                        x = KeptFeatures(None, array("d", data[place * row_bytes : (place + 1) * row_bytes]))
                    else:
                        x = table.keep(one.x)
                    if classes and found.labels[place] >= 0:
                        numbers = array("d", votes[place * vote_bytes : (place + 1) * vote_bytes])
                        kept = Unlabelled(x, found.names[found.labels[place]], classes, numbers, None, _time(one.ts))
                    else:
                        kept = self._kept(one, found[place] if prediction is None else prediction, x)
                    waiting.add(one_id, at, kept)
                    begun = True
            elif begun and one.id is not None and one_id is not None:
                waiting.labelled(one_id, at)
            if found.errors:
                prediction = found[place] if prediction is None else prediction
                self.scoring.add(Scored(at, one_id, prediction, wanted, version, ts))
            else:
                seqs.append(at)
                versions.append(version)
            if error is not None:
                continue
            if state.entries is not None:
                learned.append(place)
                answer = answers[place] if answers and not is_late else NO_ANSWER
                self._count(model, at, wanted, ts, late=is_late, answer=answer)
            elif wanted is not None:
                learned.append(place)
                self._seqs.append(at)
                self._times.append(_time(ts))
                self._targets.append(_number(model, wanted))
                state.rows += 1
        if not found.errors:
            self.scoring.add_block(ScoredBlock(seqs, block.ids, found, block.targets, versions, block.times, late))
        return learned

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

    def _columns(self, rows: NDArray[np.float64], order: Sequence[int]) -> Columns:
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
        self.scoring.add(Scored(seq, event_id, prediction, target, self._learned, accepted.event.ts))
        if state.model is None or target is None:
            state.unlabelled += 1
            if accepted.event.id is not None and state.waiting.window:
                kept = state.features.keep(accepted.event.x)
                state.waiting.add(event_id, seq, self._kept(accepted.event, prediction, kept))
            if len(self.scoring) >= self.settings.block.rows:
                self._publish()
        elif state.waiting.begun and accepted.event.id is not None:
            state.waiting.labelled(event_id, seq)

    def _kept(self, event: Event, prediction: Prediction, x: KeptFeatures) -> Unlabelled:
        """Return what is kept of an event that waits for its label."""
        label, probabilities, value = prediction
        classes, numbers = None, None
        if probabilities is not None:
            classes, numbers = tuple(probabilities), array("d", probabilities.values())
            if classes == self._kept_classes:
                classes = self._kept_classes
            self._kept_classes = classes
        return Unlabelled(x, label, classes, numbers, value, _time(event.ts))

    def join(self, label: Joined[Unlabelled], event_id: str) -> None:
        """Learn an event whose label has just arrived.

        Raises
        ------
        ModelRaised
            The model raised an error. The event is then not a row.
        """
        state = self.state
        state.waiting.settle(event_id)
        seq, kept, target = label
        model = state.model or self._first_model(target)
        if (reason := model.refuses_label(target)) is not None:
            raise ModelRaised(reason)
        row, given = state.features.encode_kept(kept.x)
        self._note_late(label)
        model.learn(self._completed(model, given), target)
        if model.replaced:
            self._say(_THIRD_CLASS)
        self._append(model, row, seq, target, kept.ts, late=True)

    def _note_late(self, label: Joined[Unlabelled]) -> None:
        """Keep a late label for the running metric, with the prediction that was published without it."""
        self.scoring.add(Scored(label.seq, None, label.kept, label.target, self._learned, None))

    def flush(self) -> None:
        """Process a flush mark: close the block and pass the mark to the aggregator."""
        self.cut()
        if self.entries > self.settings.explain.first_row:
            self.state.flush_before = True
            self.outbox.requests.append(self._flush_item())

    def _flush_item(self) -> ExplainRequest:
        return requests.flush_item(
            stream=self.stream, epoch=self.epoch, partition=self.partition, first_row=self.entries
        )

    def end(self) -> None:
        """Process a reset mark: close the block, stop waiting for labels, and pass the mark to the aggregator."""
        state = self.state
        self.cut()
        self.ended = True
        missed = state.waiting.give_up()
        self.outbox.requests.append(
            requests.flush_item(
                stream=self.stream, epoch=self.epoch, partition=self.partition, first_row=self.entries, ends=True
            )
        )
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
            self._snapshot(model)
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
        if self.state.version >= max(self.entries, self.settings.explain.first_row):
            return f"expected at most one model for each row that is explained, got {self.state.version + 1}"
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
        count = self._buffer.count
        if count == 0:
            return
        block = self._buffer.matrix()
        kinds = state.features.kinds[: block.shape[1]]
        if state.entries is not None:
            self._cut_entries(state.entries, block, kinds)
        else:
            first = state.rows - count
            draws = state.background.pass_through(block, kinds, first)
            explained = min(count, state.rows - self.settings.explain.first_row)
            if explained > 0:
                self._send(state.rows - explained, block, draws, np.arange(count) >= count - explained)
        self._buffer.clear(self._buffer.width)
        self._passing.clear()
        self._parts.clear()
        self._answers.clear()
        self._seqs.clear()
        self._times.clear()
        self._targets.clear()
        self._most_rows = self._rows_of_a_block()

    def _cut_entries(self, entries: Entries, block: NDArray[np.float64], kinds: Sequence[Kind]) -> None:
        """Let events pass through what needs no label, and rows through the rest; send those that are explained."""
        passing, parts = np.array(self._passing), np.array(self._parts)
        arrived, labelled = (passing & EFFECTS) != 0, (passing & LABELLED) != 0
        start = NEVER if entries.effects is None else entries.effects
        answers = None
        if self._attributes:
            outputs, predictions = zip(*self._answers, strict=True)
            answers = np.array(outputs, np.int64)[arrived], np.array(predictions)[arrived]
        events = Passing(block[arrived], kinds, entries.events - int(arrived.sum()), start, answers)
        first = self.state.rows - int(labelled.sum())
        draws = self.state.background.pass_through(block[labelled], kinds, first, events)
        chosen = parts != 0
        if entries.next is not None and chosen.any():
            row = max(first, self.settings.explain.first_row)
            self._send(entries.next - int(chosen.sum()), block, draws, chosen, row, parts[chosen].tolist())

    def _send(
        self,
        first_row: int,
        block: NDArray[np.float64],
        draws: Mapping[str, Array],
        chosen: NDArray[np.bool_],
        row: int = 0,
        parts: Sequence[int] = (),
    ) -> None:
        """Send the chosen rows of the open block. The last two are those of `glasstream_topics.blocks.Block`."""
        state = self.state
        model = state.model
        if model is None:
            return
        width = block.shape[1]
        watched = self.settings.drift.finds_incidents
        times = [self._times[place] for place in np.flatnonzero(chosen)]
        self.outbox.requests.append(
            ExplainRequest(
                stream=self.stream,
                epoch=self.settings.epoch,
                partition=self.partition,
                first_row=first_row,
                row=row,
                parts=list(parts),
                version=state.version,
                seqs=np.array(self._seqs, dtype=np.int64)[chosen],
                times=times if watched and any(time is not None for time in times) else [],
                x=block[chosen],
                y=np.array(self._targets)[chosen],
                draws=draws,
                names=state.features.names[:width],
                kinds=[int(kind) for kind in state.features.kinds[:width]],
                classes=list(model.classes)[: self._seen_classes],
                task=model.task.value,
                loss=state.loss,
                new_categories=self._new_categories(width),
                staleness=state.staleness,
                flush_before=state.flush_before,
                watched=watched,
                **state.background.fields(draws, block[chosen], state.features, width),
            )
        )
        state.flush_before = False

    def _new_categories(self, width: int) -> Mapping[int, NewCategories]:
        """Return the texts of categories that came after the snapshot, which a River model needs.

        A compiled predictor treats all of them as unseen categories, whatever their text.
        """
        if not self.state.through_river:
            return {}
        known = self.state.known_categories
        new = {}
        width = min(width, self.state.features.declared or width)  # a fixed model takes no others
        for slot, codes in enumerate(self.state.features.categories[:width]):
            first = known[slot] if slot < len(known) else 0
            if len(codes) > first:
                new[slot] = NewCategories(first, tuple(codes)[first:])
        return new

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
        if model is not None and len(model.classes) > self._seen_classes:
            self._see_classes(model)
        self._buffer.append(row)
        self._count(model, seq, target, ts, late=late, answer=answer)
        self._cut_if_due(model)

    def _count(
        self,
        model: Model | None,
        seq: int,
        target: str | float | None,
        ts: int | None,
        *,
        late: bool = False,
        answer: Answer = NO_ANSWER,
    ) -> None:
        self._seqs.append(seq)
        self._times.append(_time(ts))
        if target is None:
            self._targets.append(np.nan)
        else:
            self._targets.append(_number(model, target))
        if self._attributes:
            self._answers.append(answer)
        if self.state.entries is not None:
            self._enter(self.state.entries, model, seq, labelled=target is not None, late=late)
        if target is not None:
            self.state.rows += 1

    def _enter(self, entries: Entries, model: Model | None, seq: int, *, labelled: bool, late: bool) -> None:
        """Decide what an event or a late label passes through, and what it is explained for."""
        state = self.state
        first = self.settings.explain.first_row
        passing = parts = 0
        if labelled:
            passing |= LABELLED
            parts |= LABELLED if state.rows >= first else 0
        if not late:
            passing |= EFFECTS
            begins = model is not None and (state.rows if model.learns else seq) >= first
            if entries.arrive(explained=begins):
                parts |= EFFECTS
                if model is not None and not model.learns and state.next_due != NEVER:
                    self._snapshot(model)
        if parts:
            entries.count(first)
        self._passing.append(passing)
        self._parts.append(parts)

    def _cut_if_due(self, model: Model | None) -> None:
        """Close the block, and make a snapshot, if the newest row is the one for it."""
        state = self.state
        if model is not None and state.rows == state.next_due:
            self.cut()
            if not model.learns:  # one snapshot, unless a mark brings another model
                self._snapshot(model)
                return
            if (
                self._schedule.latest(state.rows) > self.settings.explain.first_row
            ):  # otherwise this version explains no row
                self._snapshot(model)
            else:
                state.next_due = self._schedule.after(state.rows, None)
            state.version = state.rows
        elif self._buffer.count >= self._most_rows:
            self.cut()

    def _rows_of_a_block(self) -> int:
        """Return the largest number of rows in a block. The limit applies to the request and to its contributions."""
        outputs = len(self.state.model.classes) if self.state.model is not None else 1
        row_bytes = 8 * self.state.background.row_numbers(self._buffer.width, max(1, outputs))
        return max(1, min(self.settings.block.rows, self.settings.block.bytes // row_bytes))

    @property
    def _learned(self) -> int:
        """Version of the model: the number of rows that it has learned or, if it learns nothing, of those before it."""
        return self.state.rows if self.settings.model.learns else self.state.version

    @property
    def entries(self) -> int:
        """Number of the next entry: of the next row, without `explain.unlabelled`."""
        entries = self.state.entries
        return self.state.rows if entries is None or entries.next is None else entries.next

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
        settled = newest and not self._buffer.count and not len(self.scoring)
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
        self._see(len(state.features), 0 if state.model is None else len(state.model.classes))
        if state.flush_before:  # the mark was the last item that was sent
            self.outbox.sent.append(self._flush_item())
        predictor = state.newest
        if not state.at_rest and state.model is not None:
            predictor = self._predictor(state.model)
        state.at_rest = False
        if predictor is not None:
            state.newest = predictor if predictor.compiled else None
            self.outbox.snapshots.append(
                ModelVersion(self.stream, self.epoch, state.version, predictor, self.entries, self._until)
            )

    def _pushed_again(self, model: FixedModel) -> FixedModel:
        """Return the model of a restored state, which is the given one of the settings unless a mark has brought it."""
        state = self.state
        if state.pushed is None:
            return model
        texts = [
            list(codes)[:count] for codes, count in zip(state.features.categories, state.known_categories, strict=False)
        ]
        return self._models.again(state.pushed, self.settings, model, texts)

    def _predictor(self, model: Model) -> Predictor:
        """Return the current model, compiled if possible."""
        state = self.state
        if isinstance(model, FixedModel):
            return model.predictor
        try:
            if model.live is not None:
                return model.live.compiled(state.features, model.labels or {}, given=state.features.given())
            return compile_model(model.river, state.features, model.labels, given=state.features.given())
        except NotCompilable as reason:
            self._say(f"the model is explained through River itself, row by row, which is slow: {reason}")
            return GenericPredictor(model.river, state.features, model.labels, given=state.features.given())

    def _snapshot(self, model: Model) -> None:
        state = self.state
        predictor = self._predictor(model)
        if not model.learns:
            state.through_river, state.next_due = not predictor.compiled, NEVER
            self.outbox.snapshots.append(
                ModelVersion(self.stream, self.epoch, state.version, predictor, self.entries, NEVER)
            )
            return
        if isinstance(predictor, GenericPredictor) and not state.through_river:
            self._check_function(predictor)
        state.through_river = not predictor.compiled
        state.known_categories = [len(codes) for codes in state.features.categories]
        change = self._measure(predictor)
        state.next_due = self._schedule.after(state.rows, change, state.rows - state.version)
        self.outbox.snapshots.append(
            ModelVersion(self.stream, self.epoch, state.rows, predictor, self.entries, self._until)
        )

    @property
    def _until(self) -> int:
        """First entry that is explained with the next snapshot, or `NEVER` if events without labels may come before."""
        return self.state.next_due if self.state.entries is None else NEVER

    def _measure(self, predictor: Predictor) -> float | None:
        """Return how much the model has changed since the newest snapshot, in the schedule's units; None if unknown."""
        state = self.state
        before, state.newest, state.staleness = (
            state.newest,
            predictor if predictor.compiled else None,
            None,
        )
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
        rows = self.state.background.held(self.state.rows)[:_CHECKED_ROWS]
        trial = predictor.copied()
        try:
            check_splits(trial, rows)
        except ModelError as error:
            self._say(
                "the model's predictions are not a function of the row, so its explanations cannot be repeated; seed "
                f"the model, or use another one: {error}"
            )

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

    def _see_features(self) -> None:
        """Close the open block and widen the rows, because a feature is new.

        All rows of a block know the same features, so that the records of a row are a function of that row.
        """
        self.cut()
        self._see(len(self.state.features), self._seen_classes)
        declared = self.state.features.declared
        for name in self.state.features.names[declared:] if declared else ():
            self._say(f"feature {name!r} is not one of the model's features (importance 0)")
        for name, given in zip(self.state.features.names, self.state.features.given(), strict=True):
            if not given:
                self._say(f"feature {name!r} is text, which this model does not use (importance 0)")

    def _see_classes(self, model: Model) -> None:
        """Close the open block before the first row of a new class.

        All rows of a block know the same classes, so that the size of a row is a function of that row.
        """
        self.cut()
        self._see(self._seen_features, len(model.classes))

    def _see(self, features: int, classes: int) -> None:
        """Begin a block whose rows know so many features and classes."""
        self._seen_features, self._seen_classes = features, classes
        self._buffer.clear(features)
        self._most_rows = self._rows_of_a_block()

    def _say(self, line: str) -> None:
        if line not in self.state.said:
            self.state.said.add(line)
            self.outbox.notices.append(f"stream {self.stream!r}: {line}")


def _number(model: Model | None, target: str | float) -> float:
    """Return the index of a class, or the number of a regression."""
    return float(model.classes[target]) if model is not None and isinstance(target, str) else float(target)


def _time(ts: int | None) -> int | None:
    """Return the time of an event; None if it has none, or one that no calendar has."""
    return ts if ts is not None and abs(ts) <= _LATEST_TS else None
