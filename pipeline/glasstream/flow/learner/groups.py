"""Groups of a stream's labelled events: their codes, their sums, and the records of `groups`.

An event gets the codes of its groups when it arrives, and keeps them until its label comes. It becomes a row when both
its prediction and its label are known. All numbers are functions of the rows in the order of their labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST_SUM, Array
from glasstream.detect.groups.alarms import Alarms
from glasstream.detect.groups.marks import RUN, Marks
from glasstream.detect.groups.measures import Measures
from glasstream.detect.groups.settings import GroupSettings
from glasstream.detect.groups.sums import (
    CLASSES,
    COUNTS,
    FIRST,
    LARGEST,
    MISSING,
    OTHER,
    ROWS,
    VALUES,
    Rows,
    Sums,
)
from glasstream.events.admission import Task, label
from glasstream.events.features import Value
from glasstream.explain.losses import LOSSES
from glasstream.flow.settings import Settings
from glasstream_topics import groups
from glasstream_topics.events import Event

TEXT: Final = 256
"""Longest value that has a code of its own, in characters."""
_OF: Final = "groups of a stream"
_SUMS, _MARKS = "sums/", "marks/"
_NO_META: Final[Mapping[str, Value]] = {}
_Text = Annotated[str, msgspec.Meta(max_length=TEXT)]


class Saved(msgspec.Struct, forbid_unknown_fields=True):
    """The part of the state that is the same in JSON."""

    values: list[Annotated[list[_Text], msgspec.Meta(max_length=VALUES)]]
    """Values of each attribute that have a code, in its order."""
    classes: Annotated[list[str], msgspec.Meta(max_length=CLASSES)]
    more_classes: bool
    rows: form.Count
    left_out: form.Count
    seq: form.Before
    published: form.Count
    limit: Annotated[float, msgspec.Meta(ge=0, le=LARGEST_SUM)]
    """Errors beyond it are large; 0 for a classification."""


@dataclass(slots=True)
class LabelledColumns:
    """Labelled predictions in the order of their labels, a column for each part."""

    seqs: list[int] = field(default_factory=list)
    codes: list[bytes] = field(default_factory=list)
    """Codes of the groups, one byte for each attribute."""
    predicted: list[str | float] = field(default_factory=list)
    """The predicted class, or the predicted number."""
    targets: list[str | float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def add(self, seq: int, codes: bytes, predicted: str | float, target: str | float, loss: float) -> None:
        """Add a labelled prediction."""
        self.seqs.append(seq)
        self.codes.append(codes)
        self.predicted.append(predicted)
        self.targets.append(target)
        self.losses.append(loss)

    def extend(
        self,
        seqs: Sequence[int],
        codes: Sequence[bytes],
        predicted: Sequence[str | float],
        targets: Sequence[str | float],
        losses: Sequence[float],
    ) -> None:
        """Add labelled predictions."""
        self.seqs += seqs
        self.codes += codes
        self.predicted += predicted
        self.targets += targets
        self.losses += losses


def name_of(value: str | bool | float) -> str:
    """Return the name of a group: text as it is, `true` or `false`, or a number without a needless decimal point.

    >>> name_of("a"), name_of(True), name_of(3.0), name_of(2.5)
    ('a', 'true', '3', '2.5')
    """
    name = label(value)
    return str(value) if name is None else name


def _code(known: dict[str, int], value: Value) -> int:
    """Return the code of a value. A new value gets the next code if there is one."""
    if value is None:
        return MISSING
    name = name_of(value)
    code = known.get(name)
    if code is None and len(known) < VALUES and len(name) <= TEXT:
        code = known[name] = FIRST + len(known)
    return OTHER if code is None else code


class GroupState:
    """Codes and sums of the groups of one stream, in memory that does not grow.

    Parameters
    ----------
    settings
        The section `groups`.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self.attributes, self._window = settings.attributes, settings.window
        self.codes: list[dict[str, int]] = [{} for _ in self.attributes]
        """Codes of the values of each attribute."""
        self.classes: dict[str, int] = {}
        """Numbers of the classes that have rates."""
        self.more_classes = False
        """Whether there are classes beyond those with rates."""
        self.rows = 0
        """Number of rows."""
        self.published = 0
        """Number of rows that the newest record describes."""
        self.left_out = 0
        """Number of labelled predictions whose loss cannot be summed."""
        self.seq = -1
        """The newest event among the rows; -1 before the first."""
        self.sums = Sums(len(self.attributes))
        self.marks = Marks(len(self.attributes))
        self._newest = form.empty(ROWS, rows=self._window, attributes=len(self.attributes))
        """The newest rows. Row n is at the place n modulo `window`."""

    def codes_of(self, event: Event) -> bytes:
        """Return the codes of an event's groups. A new value gets the next code if there is one."""
        meta, x = event.meta or _NO_META, event.x
        codes = []
        for name, known in zip(self.attributes, self.codes):  # noqa: B905 - this loop runs for each event
            value = meta.get(name, x.get(name))
            code = known.get(value) if type(value) is str else None
            codes.append(_code(known, value) if code is None else code)
        return bytes(codes)

    def has(self, codes: bytes) -> bool:
        """Return whether an event can have these codes."""
        fits = len(codes) == len(self.attributes)
        return fits and all(map(lambda code, known: code < FIRST + len(known), codes, self.codes))

    def add(self, labelled: LabelledColumns, every: int) -> Iterator[None]:
        """Add labelled predictions, and stop whenever the number of rows has become a multiple of `every`."""
        losses = np.array(labelled.losses)
        fits = (losses >= 0.0) & (losses <= LARGEST)
        counts = self.rows + np.cumsum(fits)
        ends = np.flatnonzero(fits & ((counts % every == 0) | (counts % RUN == 0))) + 1
        begin = 0
        for end in ends.tolist():
            self._add(labelled, losses, fits, slice(begin, end))
            begin = end
            if self.rows % RUN == 0:
                self.marks.mark(self.rows, self.seq, self.counts())
            if self.rows % every == 0:
                yield
        if begin < len(losses):
            self._add(labelled, losses, fits, slice(begin, None))

    def _add(self, labelled: LabelledColumns, losses: Array, fits: Array, part: slice) -> None:
        losses, fits = losses[part], fits[part]
        columns: list[list[Any]] = [
            labelled.seqs[part],
            labelled.codes[part],
            labelled.predicted[part],
            labelled.targets[part],
        ]
        count = len(losses)
        if not fits.all():
            chosen = np.flatnonzero(fits).tolist()
            self.left_out += count - len(chosen)
            columns = [[column[place] for place in chosen] for column in columns]
            losses, count = losses[fits], len(chosen)
        if not count:
            return
        seqs, codes, predicted, targets = columns
        if isinstance(targets[0], str):
            answers, wanted = self._numbers(predicted, targets)
            scores = np.array(answers == wanted, np.float64)
            for place in np.flatnonzero((answers == CLASSES) & (wanted == CLASSES)).tolist():
                scores[place] = predicted[place] == targets[place]
        else:
            answers = wanted = np.full(count, CLASSES)
            scores = np.abs(np.array(predicted) - np.array(targets))
        rows = Rows(
            np.frombuffer(b"".join(codes), np.uint8).reshape(count, len(self.attributes)),
            answers,
            wanted,
            scores,
            losses,
        )
        self.sums.add(rows)
        if not self.classes:
            self.marks.add(rows, self.rows)
        self.rows += count
        self._keep(rows)
        self.seq = max(self.seq, *seqs)

    @property
    def _room(self) -> tuple[int, int]:
        """Largest number of values of an attribute, and number of classes."""
        return max(map(len, self.codes)), len(self.classes)

    def counts(self) -> NDArray[np.int64]:
        """Return the counts of all rows, as in `glasstream.detect.groups.marks.Mark`."""
        return self.marks.counts(self.sums, *self._room)

    def _keep(self, rows: Rows) -> None:
        """Keep the newest of these rows, the last of which is the newest row of the stream."""
        kept = min(len(rows.losses), self._window)
        places = np.arange(self.rows - kept, self.rows) % self._window
        for name, new in rows._asdict().items():
            self._newest[name][places] = new[-kept:]

    def _numbers(self, predicted: Sequence[Any], targets: Sequence[Any]) -> tuple[Array, Array]:
        """Return the numbers of classes. A new class gets the next number if there is one."""
        known = self.classes
        answers, wanted = ([known.get(name, CLASSES) for name in names] for names in (predicted, targets))
        if not self.more_classes and (CLASSES in answers or CLASSES in wanted):
            for name in chain.from_iterable(zip(targets, predicted, strict=True)):
                if name not in known and len(known) < CLASSES:
                    known[name] = len(known)
                self.more_classes |= name not in known
            answers, wanted = ([known.get(name, CLASSES) for name in names] for names in (predicted, targets))
        return np.array(answers), np.array(wanted)

    def newest(self) -> Rows:
        """Return the newest rows, oldest first."""
        places = np.arange(max(0, self.rows - self._window), self.rows) % self._window
        return Rows(**{name: column[places] for name, column in self._newest.items()})

    def saved(self) -> tuple[Saved, dict[str, Array]]:
        """Return the state as plain data."""
        arrays = {_SUMS + name: array for name, array in self.sums.arrays.items()} | self.newest()._asdict()
        arrays |= {_MARKS + name: array for name, array in self.marks.saved(*self._room).items()}
        meta = Saved(
            [list(codes) for codes in self.codes],
            list(self.classes),
            self.more_classes,
            self.rows,
            self.left_out,
            self.seq,
            self.published,
            self.marks.limit,
        )
        return meta, arrays

    def restore(self, saved: Saved, arrays: Mapping[str, Array], seqs: int) -> None:
        """Continue from a saved state.

        Raises
        ------
        FrameError
            It is not a state of a stream with so many events.
        """
        attributes = len(self.attributes)
        form.expect(len(saved.values) == attributes, "the values of each attribute", len(saved.values), _OF)
        for texts in (*saved.values, saved.classes):
            form.expect(len({*texts}) == len(texts), "distinct values, and distinct classes", texts, _OF)
        fits = saved.published <= saved.rows <= seqs - saved.left_out and (saved.rows > 0) == (saved.seq >= 0)
        form.expect(fits and saved.seq < seqs, "rows of the stream's events", saved.rows, _OF)
        self.sums.restore(form.part(_SUMS, arrays), saved.rows)
        count = min(saved.rows, self._window)
        rows = Rows(**form.read(ROWS, arrays, _OF, rows=count, attributes=attributes))
        known = len(saved.classes)
        form.expect(not saved.more_classes or known == CLASSES, "further classes only if the list is full", known, _OF)
        window = Sums(attributes)
        window.add(rows)
        for part in (self.sums, window):
            part.expect_codes([len(texts) for texts in saved.values], known, more=saved.more_classes)
        within = all((window.arrays[name] <= self.sums.arrays[name]).all() for name in COUNTS)
        form.expect(within, "newest rows that are among all rows", count, _OF)
        room = max(map(len, saved.values)), known
        marks = form.part(_MARKS, arrays)
        self.marks.restore(marks, saved.limit, saved.rows, saved.seq, self.sums, *room)
        self.codes = [{text: code for code, text in enumerate(texts, FIRST)} for texts in saved.values]
        self.classes = {name: number for number, name in enumerate(saved.classes)}
        self.more_classes, self.rows, self.left_out = saved.more_classes, saved.rows, saved.left_out
        self.seq, self.published = saved.seq, saved.published
        if count:
            self._keep(rows)


class GroupRecords:
    """Records of the groups of one stream.

    Parameters
    ----------
    settings
        All settings, with the stream's own epoch.
    stream
        Name of the stream.
    """

    def __init__(self, settings: Settings, stream: str) -> None:
        self._settings, self._stream = settings, stream
        self._measures = Measures(settings.explain.level, settings.groups.least)
        self._alarms = Alarms(settings.groups.budget, settings.groups.least, len(settings.groups.attributes))

    def add(self, labelled: LabelledColumns, state: GroupState, loss: str) -> list[bytes]:
        """Add labelled predictions to the groups, and return the records that are due."""
        records = list[bytes]()
        for _ in state.add(labelled, self._settings.groups.every):
            records += self.of(state, loss)
        return records

    def of(self, state: GroupState, loss: str) -> list[bytes]:
        """Return a record for each attribute, and note that the rows so far are published."""
        newest = Sums(len(state.attributes))
        newest.add(state.newest())
        names = list(state.classes)
        classes = len(names) if LOSSES[loss] is Task.CLASSIFICATION else None
        state.published, counts = state.rows, state.counts()
        return [
            groups.encode(
                epoch=self._settings.epoch,
                stream=self._stream,
                seq=state.seq,
                attribute=attribute,
                loss=loss,
                classes=names,
                more_classes=state.more_classes,
                least=self._settings.groups.least,
                level=self._settings.explain.level,
                left_out=state.left_out,
                window=self._measures.summary(newest, number, values, classes),
                total=self._measures.summary(state.sums, number, values, classes),
                alarms=self._alarms.of(state.marks.kept, counts, number, attribute, values, names),
            )
            for number, (attribute, values) in enumerate(zip(state.attributes, map(list, state.codes), strict=True))
        ]
