"""The open block of a stream: its newest rows, and the request for their explanation that they become.

All rows of a block know the same features and classes, so that records and sizes of a row are a function of that row.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from glasstream.events.decode import time_of
from glasstream.events.features import Kind, RowBuffer
from glasstream.explain.background import joined
from glasstream.explain.method import Passing
from glasstream.flow.learner.answers import NO_ANSWER, Answer
from glasstream.flow.learner.entries import Entries
from glasstream.flow.learner.make_model import Model
from glasstream.flow.learner.state import NEVER, LearnerState
from glasstream.flow.learner.versions import Versions
from glasstream.flow.settings import Settings
from glasstream_topics.frames import Array
from glasstream_topics.methods import EFFECTS, LABELLED
from glasstream_topics.requests import ExplainRequest, NewCategories


class OpenBlock:
    """Rows of one stream that no request contains yet; with `explain.unlabelled` its entries.

    Parameters
    ----------
    stream, partition, settings, state
        Those of the learner.
    versions
        Versions of the model.
    """

    def __init__(
        self, stream: str, partition: int, settings: Settings, state: LearnerState, versions: Versions
    ) -> None:
        self._stream, self._partition, self._settings = stream, partition, settings
        self._state, self._versions = state, versions
        self._buffer = RowBuffer()
        self._seqs: list[int] = []
        self._times: list[int | None] = []
        self._targets: list[float] = []
        self._passing: list[int] = []
        """Parts whose background and draws each event or label passes through, with `explain.unlabelled`."""
        self._parts: list[int] = []
        """Parts for which each of them is explained; 0 for none."""
        self.attributes = "attributions" in settings.explain.names
        """Whether predictions are attributed."""
        self._answers: list[Answer] = []
        """The prediction for each event or row; empty unless predictions are attributed."""
        self.features = 0
        """Number of features that the rows know."""
        self.classes = 0
        """Number of classes that they know."""
        self._most_rows = settings.block.rows

    def __len__(self) -> int:
        return self._buffer.count

    @property
    def room(self) -> int:
        """Number of rows for which there is room."""
        return self._most_rows - self._buffer.count

    def see(self, features: int, classes: int) -> None:
        """Begin a block whose rows know so many features and classes."""
        self.features, self.classes = features, classes
        self._clear(features)

    def _clear(self, width: int) -> None:
        """Remove the rows, and note how many of the next ones there may be in a request and its contributions."""
        self._buffer.clear(width)
        for column in (self._seqs, self._times, self._targets, self._passing, self._parts, self._answers):
            column.clear()
        state, limits = self._state, self._settings.block
        outputs = len(state.model.classes) if state.model is not None else 1
        row_bytes = 8 * state.background.row_numbers(width, max(1, outputs))
        self._most_rows = max(1, min(limits.rows, limits.bytes // row_bytes))

    def append(self, row: Iterable[float]) -> None:
        """Add the values of one row."""
        self._buffer.append(row)

    def extend(self, rows: Array) -> None:
        """Add the values of several rows."""
        self._buffer.extend(rows)

    def note_labelled(
        self, model: Model, seqs: Sequence[int], targets: Sequence[str | float | None], times: Iterable[int | None]
    ) -> None:
        """Count events that all have their labels, in the order of their rows. Without `explain.unlabelled` only."""
        self._seqs.extend(seqs)
        self._times.extend(map(time_of, times))
        classes = {name: float(number) for name, number in model.classes.items()}
        self._targets.extend(map(classes.__getitem__, targets) if classes else targets)  # type: ignore[arg-type]  # none is None
        self._state.rows += len(seqs)

    def note(
        self,
        model: Model | None,
        seq: int,
        target: str | float | None,
        ts: int | None,
        *,
        late: bool = False,
        answer: Answer = NO_ANSWER,
    ) -> None:
        """Count the next row or, without a label, an event that has effects only."""
        self._seqs.append(seq)
        self._times.append(time_of(ts))
        self._targets.append(np.nan if target is None else _number(model, target))
        if self.attributes:
            self._answers.append(answer)
        if self._state.entries is not None:
            self._enter(self._state.entries, model, seq, labelled=target is not None, late=late)
        if target is not None:
            self._state.rows += 1

    def _enter(self, entries: Entries, model: Model | None, seq: int, *, labelled: bool, late: bool) -> None:
        """Decide what an event or a late label passes through, and what it is explained for."""
        state, first = self._state, self._settings.explain.first_row
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
                    self._versions.make(model)
        if parts:
            entries.count(first)
        self._passing.append(passing)
        self._parts.append(parts)

    def close(self) -> ExplainRequest | None:
        """Let the rows pass through the background, and remove them; return the request, if any row is explained."""
        if not len(self):
            return None
        state, first = self._state, self._settings.explain.first_row
        rows = self._buffer.matrix()
        kinds = state.features.kinds[: rows.shape[1]]
        if state.entries is not None:
            request = self._close_entries(state.entries, rows, kinds)
        else:
            draws = state.background.pass_through(rows, kinds, state.rows - len(self))
            explained = min(len(self), state.rows - first)
            chosen = np.arange(len(self)) >= len(self) - explained
            request = self._request(state.rows - explained, rows, draws, chosen) if explained > 0 else None
        self._clear(self._buffer.width)
        return request

    def _close_entries(self, entries: Entries, rows: Array, kinds: Sequence[Kind]) -> ExplainRequest | None:
        """Let events pass through what needs no label, and rows through the rest; request those that are explained."""
        passing, parts = np.array(self._passing), np.array(self._parts)
        arrived, labelled = (passing & EFFECTS) != 0, (passing & LABELLED) != 0
        start = NEVER if entries.effects is None else entries.effects
        answers = None
        if self.attributes:
            outputs, predictions = zip(*self._answers, strict=True)
            answers = np.array(outputs, np.int64)[arrived], np.array(predictions)[arrived]
        events = Passing(rows[arrived], kinds, entries.events - int(arrived.sum()), start, answers)
        first = self._state.rows - int(labelled.sum())
        draws = self._state.background.pass_through(rows[labelled], kinds, first, events)
        chosen = parts != 0
        if entries.next is None or not chosen.any():
            return None
        row = max(first, self._settings.explain.first_row)
        return self._request(entries.next - int(chosen.sum()), rows, draws, chosen, row, parts[chosen].tolist())

    def _request(
        self,
        first_row: int,
        rows: Array,
        draws: Mapping[str, Array],
        chosen: Array,
        row: int = 0,
        parts: Sequence[int] = (),
    ) -> ExplainRequest | None:
        """Return the request for the chosen rows. The last two are those of `glasstream_topics.blocks.Block`."""
        state, model = self._state, self._state.model
        if model is None:
            return None
        width = rows.shape[1]
        watched = self._settings.drift.finds_incidents
        times = [self._times[place] for place in np.flatnonzero(chosen)]
        fields = state.background.fields(draws, rows[chosen], state.features, width)
        if watched:
            fields = joined(fields, {"texts": state.features.named(rows[chosen])})
        flush_before, state.flush_before = state.flush_before, False
        return ExplainRequest(
            stream=self._stream,
            epoch=self._settings.epoch,
            partition=self._partition,
            first_row=first_row,
            row=row,
            parts=list(parts),
            version=state.version,
            seqs=np.array(self._seqs, dtype=np.int64)[chosen],
            times=times if any(time is not None for time in times) else [],
            x=rows[chosen],
            y=np.array(self._targets)[chosen],
            draws=draws,
            names=state.features.names[:width],
            kinds=[int(kind) for kind in state.features.kinds[:width]],
            classes=list(model.classes)[: self.classes],
            task=model.task.value,
            loss=state.loss,
            new_categories=self._new_categories(width),
            staleness=state.staleness,
            flush_before=flush_before,
            watched=watched,
            **fields,
        )

    def _new_categories(self, width: int) -> Mapping[int, NewCategories]:
        """Return the texts of categories that came after the snapshot, which a River model needs.

        A compiled predictor treats all of them as unseen categories, whatever their text.
        """
        if not self._state.through_river:
            return {}
        known, table = self._state.known_categories, self._state.features
        new = {}
        width = min(width, table.declared or width)  # a fixed model takes no others
        for slot, codes in enumerate(table.categories[:width]):
            first = known[slot] if slot < len(known) else 0
            if len(codes) > first:
                new[slot] = NewCategories(first, tuple(codes)[first:])
        return new


def _number(model: Model | None, target: str | float) -> float:
    """Return the index of a class, or the number of a regression."""
    return float(model.classes[target]) if model is not None and isinstance(target, str) else float(target)
