"""Incidents of one stream: its rows in order go through sequential tests, and what they find becomes one verdict.

A series that exceeds its limit raises an alarm. Some rows later, an incident is opened with a verdict, or the alarm is
dismissed if these rows do not confirm it. While an incident is open, rows are compared with those before it, and no
other incident begins. It is over when `QUIET` comparisons in a row find everything as it was. After `NORMAL` rows, the
change is the new normal: the series that changed are compared with later rows from then on.

A pushed model is an incident of its own. From then on, later rows are compared with
those of the new model.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.draws import stream_key
from glasstream.base.form import Count
from glasstream.detect.incidents.alarm import GATHERED, JUDGED_AGAIN, NORMAL, QUIET, Alarm, Floats
from glasstream.detect.incidents.past import Past
from glasstream.detect.incidents.replacement import VERDICT, Replacement
from glasstream.detect.incidents.series import Name, Series, SeriesMeta
from glasstream.detect.incidents.summary import of_replacement, summary
from glasstream.detect.incidents.verdict import Judgement, Level, Sample, judge
from glasstream_topics.incidents import Incident, Onset

_LASTING = 1_200
"""Rows for which the loss must stay high before the model alone is blamed: most models that adapt recover sooner."""
_LESS = {"concept_moved": "model_replaced"}
"""A verdict, and the one that cannot replace it later, because that one rests on the absence of evidence."""
_STANDARD_ERRORS = 2.0
_NO_TIME = np.iinfo(np.int64).min
_OF: Final = "incidents"


class _Meta(SeriesMeta, forbid_unknown_fields=True, kw_only=True):
    """JSON values of the state of `IncidentWatch`."""

    names: list[str]
    classes: bool
    incidents: Count
    past: Past
    alarm: dict[str, Any] | None = None
    replacement: dict[str, Any] | None = None


class Rows(NamedTuple):
    """Consecutive explained rows of a stream."""

    first_row: int
    seqs: NDArray[np.int64]
    """(n,)"""
    times: Sequence[int | None]
    """n times of the events in milliseconds; empty if none has one."""
    names: Sequence[str]
    """d names."""
    kinds: Sequence[int]
    """d kinds: 0 number, 1 boolean, 2 text."""
    inputs: Floats
    """(n, d) values of the features, NaN where one is absent; texts as codes."""
    target: Floats
    """(n,) labels: index of the class, or the number."""
    classes: Sequence[str]
    """Names of the classes; empty for a regression."""
    loss: Floats
    """(n,) loss of the model."""
    loss_name: str
    importance: Floats | None
    """(n, d) contributions to the importance of each feature; None if there are none."""


class _Now(NamedTuple):
    """The newest row."""

    row: int
    seq: int
    time: int
    loss_name: str


@dataclass(slots=True)
class IncidentWatch:
    """Incidents of one stream. They are a function of its rows in order, however blocks are cut.

    Parameters
    ----------
    stream, epoch, seed
        Name and epoch of the stream, and the seed of the draws.
    budget
        Expected number of false incidents in 100,000 rows of a stream that does not change, all series together.
    """

    stream: str
    epoch: int
    seed: int
    budget: float
    names: list[str] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    classes: bool = False
    """Whether the labels are classes."""
    incidents: int = 0
    """Number of incidents so far."""
    past: Past = field(default_factory=Past)
    """The loss while no alarm was under way, since the newest change that became normal."""
    series: Series = field(init=False)
    alarm: Alarm | None = None
    """The open incident, or an alarm whose rows are being gathered."""
    replacement: Replacement | None = None
    """The newest replacement of the model, while its rows are being gathered."""
    _key: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._key = stream_key(self.seed, self.stream)
        self.series = Series(self.budget)

    @property
    def verdict(self) -> str | None:
        """Verdict of the open incident; None if no incident is open."""
        judgement = None if self.alarm is None else self.alarm.judgement
        return None if judgement is None else judgement.verdict

    def update(self, rows: Rows) -> Iterator[Incident]:
        """Add rows in order, and return the incidents that they open, change or end."""
        if len(rows.names) > len(self.names):
            self._widen(rows)
        self.classes = bool(rows.classes)
        values = np.full((len(rows.loss), 1 + len(self.names)), np.nan)
        values[:, 0] = rows.target
        values[:, 1 : 1 + rows.inputs.shape[1]] = rows.inputs
        levels = np.zeros_like(values)
        levels[:, 0] = rows.loss
        if rows.importance is not None:
            levels[:, 1 : 1 + rows.importance.shape[1]] = rows.importance
        times = [_NO_TIME if time is None else time for time in rows.times or [None] * len(values)]
        events = np.column_stack([rows.seqs, np.array(times, np.int64)])
        done = 0
        while done < len(values):
            begin, alarm = done, self.alarm
            gathering = [one.until_due for one in (self.series, alarm, self.replacement) if one is not None]
            stop = min(len(values), done + min(gathering))
            part = slice(begin, stop)
            fed, over = self.series.feed(
                rows.first_row + begin,
                values[part],
                levels[part],
                events[part],
                self._key,
                self._muted(),
                learn=alarm is None,
            )
            done = begin + fed
            if alarm is None:
                self.past.add(levels[begin:done, 0])
            seq, time = events[done - 1].tolist()
            now = _Now(rows.first_row + done - 1, seq, time, rows.loss_name)
            if over is not None:
                self.alarm = Alarm.raised(now.row, over.side, self._onset(over, now), len(self.names))
            elif alarm is not None:
                alarm.gather(values[begin:done], levels[begin:done], self.series)
                if alarm.due:
                    yield from self._compare(alarm, now)
            if self.replacement is not None:
                self.replacement.gather(levels[begin:done])
                if self.replacement.due:
                    yield self._replaced("normal", self.replacement, now)
                    self.replacement = None

    def replace(self, row: int, seq: int, time: int | None, loss_name: str) -> Iterator[Incident]:
        """Note that the model was replaced before a row: end what is under way, and open an incident.

        Parameters
        ----------
        row
            First row of the new model. It need not have come.
        seq, time
            Its event or, with `explain.unlabelled`, the first event with effects by the new model.
        """
        now = _Now(row, seq, _NO_TIME if time is None else time, loss_name)
        moved = [Name("loss", 0)]
        if self.replacement is not None:
            yield self._replaced("normal", self.replacement, now)
        if self.alarm is not None and self.alarm.judgement is not None:
            yield self._record("normal", self.alarm, self.alarm.judgement, now)
            moved += [name for name in self.alarm.judgement.changed if name.side != "loss"]
        means, counts = self.series.arrays["mean"], self.series.arrays["number"]
        self.incidents += 1
        self.replacement = Replacement.begun(self.incidents, Onset(row, row, row, seq, time), means, counts)
        self.alarm, self.past = None, Past()
        self.series.renew(moved, answers=False)
        yield self._replaced("open", self.replacement, now)

    def _replaced(self, status: str, one: Replacement, now: _Now) -> Incident:
        features, evidence, more, less = one.shifts(self.names)
        return Incident(
            schema_version=1,
            epoch=self.epoch,
            stream=self.stream,
            incident=one.number,
            status=status,
            row=now.row,
            seq=now.seq,
            onset=one.onset,
            verdict=VERDICT,
            weight=1.0,
            alternatives=[],
            features=features,
            loss_name=now.loss_name,
            loss_before=one.loss_before,
            loss_after=one.loss_after,
            summary=of_replacement(one.onset, now.loss_name, one.loss_before, one.loss_after, more, less),
            evidence=evidence,
        )

    def _muted(self) -> Collection[Name]:
        """Return the series that raise no alarm because one is under way."""
        if self.alarm is None:
            return ()
        names = self.series.names
        side, waits = self.alarm.side, self.alarm.judgement is None
        if waits and (side == "reasoning" or (side == "loss" and self.alarm.rows >= GATHERED)):
            return [name for name in names if name.side in ("loss", "reasoning")[side == "reasoning" :]]
        return names

    def _onset(self, over: Name, now: _Now) -> Onset:
        starts = self.series.starts(over).tolist() or [[now.row, now.seq, now.time]]  # no bet need win a large budget
        first, seq, time = starts[0]
        rows = [row for row, *_ in starts]
        margin = 3 * (now.row - first) // 4 + 5
        latest = now.row if over.side == "reasoning" else min(now.row, max(rows) + margin)  # importance is too noisy
        return Onset(first, max(0, min(rows) - margin), latest, seq, None if time == _NO_TIME else time)

    def _compare(self, one: Alarm, now: _Now) -> Iterator[Incident]:
        """Judge an alarm or an incident by the gathered rows, or see whether the incident is over."""
        sample = self._sample(one)
        first = one.judgement
        if first is None:
            judgement = judge(sample)
            of_the_model = judgement is not None and judgement.verdict == "model_replaced"
            if of_the_model and one.rows >= JUDGED_AGAIN and not self.past.exceeded(sample.loss.after):
                judgement, of_the_model = None, False
            lasts = of_the_model and one.rows < _LASTING
            if judgement is not None and not lasts:
                self.incidents += 1
                one.number, one.judgement = self.incidents, judgement
                yield self._record("open", one, judgement, now)
            elif not lasts and (one.side != "reasoning" or one.rows >= JUDGED_AGAIN):
                # Importance varies so much from row to row that a change of it needs all these rows.
                self.alarm = None
                self.series.forget_bets()
        elif one.rows <= JUDGED_AGAIN:
            judgement = judge(sample, worse=first.worse)
            if judgement is not None and judgement.verdict not in (first.verdict, _LESS.get(first.verdict)):
                one.judgement = judgement
                yield self._record("open", one, judgement, now)
        else:
            one.quiet = one.quiet + 1 if _as_before(first, judge(sample), sample.loss) else 0
            if one.quiet >= QUIET or one.rows >= NORMAL:
                status = "over" if one.quiet >= QUIET else "normal"
                yield self._record(status, one, first, now)
                answers = first.verdict == "concept_moved"  # the loss also falls because the model has learned them
                self.series.renew(first.changed if status == "normal" else (), answers=answers)
                if status == "normal":
                    self.past = Past()
                self.alarm = None

    def _sample(self, one: Alarm) -> Sample:
        levels = one.levels(self.series)
        names = self.series.names
        return Sample(
            names=self.names,
            kinds=self.kinds,
            inputs=[self.series.histogram(Name("input", slot)) for slot in range(len(self.names))],
            values=one.gathered[:, 1:],
            pairs=self.series.pairs,
            differences=[self.series.histogram(Name("pair", p)) for p in range(len(self.series.pairs))],
            label=self.series.histogram(Name("label", 0)),
            targets=one.gathered[:, 0],
            loss=levels[0],
            importance=levels[1:],
            strengths={name: self.series.strength(name) for name in names},
            starts={
                name: next((row for row, *_ in self.series.starts(name).tolist()), one.onset.row) for name in names
            },
            classes=self.classes,
        )

    def _record(self, status: str, one: Alarm, judgement: Judgement, now: _Now) -> Incident:
        before, after = float(self.series.arrays["mean"][0]), one.loss
        return Incident(
            schema_version=1,
            epoch=self.epoch,
            stream=self.stream,
            incident=one.number,
            status=status,
            row=now.row,
            seq=now.seq,
            onset=one.onset,
            verdict=judgement.verdict,
            weight=judgement.weight,
            alternatives=judgement.alternatives,
            features=judgement.features,
            loss_name=now.loss_name,
            loss_before=before,
            loss_after=after,
            summary=summary(judgement, one.onset, now.loss_name, before, after),
            evidence=judgement.evidence,
        )

    def _widen(self, rows: Rows) -> None:
        self.names, self.kinds = list(rows.names), [int(kind) for kind in rows.kinds]
        self.series.widen(self.kinds)
        if self.alarm is not None:
            self.alarm.widen(len(self.names))
        if self.replacement is not None:
            self.replacement.widen(len(self.names))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        meta: dict[str, Any] = {
            "names": self.names,
            "classes": self.classes,
            "incidents": self.incidents,
            "past": msgspec.to_builtins(self.past),
        }
        own, arrays = self.series.state()
        meta |= own
        if self.alarm is not None:
            meta["alarm"], own = self.alarm.state()
            arrays |= {f"alarm.{name}": array for name, array in own.items()}
        if self.replacement is not None:
            meta["replacement"], own = self.replacement.state()
            arrays |= {f"replacement.{name}": array for name, array in own.items()}
        return meta, arrays

    def restore(
        self,
        meta: object,
        arrays: Mapping[str, NDArray[Any]],
        row: int = form.MOST,
        features: Sequence[tuple[str, int]] | None = None,
    ) -> None:
        """Restore a saved state.

        Parameters
        ----------
        row
            The newest row.
        features
            Names and kinds of the stream's features, if they are known.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        saved = form.values(meta, _Meta, _OF)
        form.expect(len(saved.names) == len(saved.kinds), "a kind of each feature", saved.kinds, _OF)
        known = list(zip(saved.names, saved.kinds, strict=True))
        form.expect(features is None or known == list(features)[: len(known)], "features of the stream", known, _OF)
        saved.past.check()
        self.names, self.kinds, self.classes = saved.names, list(saved.kinds), saved.classes
        self.incidents, self.past = saved.incidents, saved.past
        self.series.restore(saved, arrays, row)
        width = len(self.names)
        if saved.alarm is not None:
            self.alarm = Alarm.restored(saved.alarm, form.part("alarm.", arrays), width, self.series.names)
        if saved.replacement is not None:
            own = form.part("replacement.", arrays)
            self.replacement = Replacement.restored(saved.replacement, own, width)


def _as_before(first: Judgement, now: Judgement | None, loss: Level) -> bool:
    """Return whether everything that had changed at first is as it was before the incident."""
    changed = set(first.changed)
    if all(name.side == "reasoning" for name in changed):
        return now is None
    if first.worse and loss.rise > _STANDARD_ERRORS:
        return False
    of_data = {name for name in changed if name.side in ("input", "pair", "label")}
    return now is None or of_data.isdisjoint(now.changed)
