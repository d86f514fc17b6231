"""Incidents of one stream: its rows in order go through sequential tests, and what they find becomes one verdict.

A series that exceeds its limit raises an alarm. Some rows later, an incident is opened with a verdict, or the alarm is
dismissed if these rows do not confirm it. While an incident is open, rows are compared with those before it, and no
other incident begins. It is over when `QUIET` comparisons in a row find everything as it was. After `NORMAL` rows, the
change is the new normal: the series that changed are compared with later rows from then on.

A pushed model is an incident of its own. From then on, later rows are compared with
those of the new model.

Events without labels are watched in the same way, apart from rows with labels: their values, and the contributions to
their predictions.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.draws import stream_key
from glasstream.base.form import Count
from glasstream.detect.incidents.advice import advise, of_model, replaced
from glasstream.detect.incidents.alarm import GATHERED, GROWN, JUDGED_AGAIN, NORMAL, QUIET, Alarm, Floats
from glasstream.detect.incidents.local import Decision, LocalRises, Rise
from glasstream.detect.incidents.losses import Losses
from glasstream.detect.incidents.past import Past
from glasstream.detect.incidents.recent import Recent, Saved, Texts
from glasstream.detect.incidents.replacement import VERDICT, Replacement
from glasstream.detect.incidents.series import NO_TIME, Name, Series, SeriesMeta
from glasstream.detect.incidents.summary import SEGMENT_WORSE, of_replacement, summary
from glasstream.detect.incidents.verdict import Judgement, Level, Sample, judge, series_changed
from glasstream.detect.incidents.watching import until_due, watched
from glasstream.detect.incidents.where import Of, locate
from glasstream.detect.incidents.where import Sample as Around
from glasstream.events.features import NAMED_SLOTS, Kind
from glasstream.explain.losses import rounding
from glasstream_topics.incidents import UNLABELLED, Advice, Affected, Evidence, Incident, Onset, Where
from glasstream_topics.watching import Watching

_LASTING = 1_200
"""Rows for which the loss must stay high before the model alone is blamed: most models that adapt recover sooner."""
_BACK = 0.5
"""A series is back if it differs from what it was by less than this share of the change."""
_MORE_OF_REASONING = 3.0
"""log10 by which the evidence of an alarm about importance must have grown, at every look."""
_DATA = ("input", "pair", "label")
_STANDARD_ERRORS = 2.0
_TEXT: Final = int(Kind.TEXT)
_OF: Final = "incidents"


class _Meta(SeriesMeta, forbid_unknown_fields=True, kw_only=True):
    """JSON values of the state of `IncidentWatch`."""

    names: list[str]
    classes: bool
    incidents: Count
    past: Past
    losses: Losses
    texts: Saved
    local: Rise | None
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
    texts: Texts = MappingProxyType({})
    """Names of the categories in these rows, by feature and code."""

    def part(self, rows: slice) -> "Rows":
        """Return consecutive ones of these rows."""
        return self._replace(
            first_row=self.first_row + rows.start,
            seqs=self.seqs[rows],
            times=self.times[rows],
            inputs=self.inputs[rows],
            target=self.target[rows],
            loss=self.loss[rows],
            importance=None if self.importance is None else self.importance[rows],
        )


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
    labelled
        Whether the rows have labels and losses. If not, both are all 0, and the published incidents number rows by
        their events.
    learns
        Whether the model learns the rows.
    """

    stream: str
    epoch: int
    seed: int
    budget: float
    labelled: bool = True
    learns: bool = True
    step: int = 1
    """Difference of the numbers of two incidents that follow each other; the first one has number 1, or `step`
    without labels."""
    names: list[str] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    classes: bool = False
    """Whether the labels are classes."""
    incidents: int = 0
    """Number of incidents so far."""
    past: Past = field(default_factory=Past)
    """The loss while no alarm was under way, since the newest change that became normal."""
    losses: Losses = field(default_factory=Losses)
    """The loss of the newest rows."""
    recent: Recent = field(default_factory=Recent)
    """The newest rows, or those around the onset of what is judged."""
    local: LocalRises = field(init=False)
    """Rises of the loss in few rows, and the incident about one."""
    series: Series = field(init=False)
    alarm: Alarm | None = None
    """The open incident, or an alarm whose rows are being gathered."""
    replacement: Replacement | None = None
    """The newest replacement of the model, while its rows are being gathered."""
    _watching: list[Watching] = field(default_factory=list, repr=False)
    _key: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._key = stream_key(self.seed, self.stream)
        self.series = Series(self.budget)
        self.local = LocalRises(self.learns)

    @property
    def verdict(self) -> str | None:
        """Verdict of the open incident; None if no incident is open."""
        judgement = None if self.alarm is None else self.alarm.judgement
        local = self.local.rise
        if judgement is None and local is not None and local.number:
            return SEGMENT_WORSE
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
        if self.labelled:  # or the noise of a model that is always right would be evidence
            levels[np.abs(levels) <= rounding(rows.loss_name, rows.target)[:, np.newaxis]] = 0.0
        times = [NO_TIME if time is None else time for time in rows.times or [None] * len(values)]
        events = np.column_stack([rows.seqs, np.array(times, np.int64)])
        # blocks may hold names of further features, depending on where they are cut
        categories = [slot for slot, kind in enumerate(self.kinds) if kind == _TEXT][:NAMED_SLOTS] if rows.texts else ()
        texts = {slot: named for slot, named in rows.texts.items() if slot in categories}
        done = 0
        while done < len(values):
            begin, alarm = done, self.alarm
            stage = self._stage
            self.local.adopt(self.series, self.recent.texts)
            gathering = [one.until_due for one in (self.series, alarm, self.replacement) if one is not None]
            stop = min(len(values), done + min([*gathering, until_due(rows.first_row + done)]))
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
            fed_rows = slice(begin, done)
            yield from self._keep(rows, fed_rows, values[fed_rows], levels[fed_rows, 0], events[fed_rows], texts)
            now = _now(rows, events, done - 1, rows.first_row + done - 1)
            onset = None if over is None else self._onset(over, now)
            if over is not None and onset is not None and (alarm is None or onset.row > alarm.row):
                yield from self._raise(over, onset, now)
            elif alarm is not None:
                if over is not None and onset is not None:
                    self._join(alarm, over, onset)
                alarm.gather(values[begin:done], levels[begin:done], self.series)
                if alarm.due:
                    yield from self._compare(alarm, now)
            if self.replacement is not None:
                self.replacement.gather(levels[begin:done])
                if self.replacement.due:
                    yield self._replaced("normal", self.replacement, now)
                    self.replacement = None
            if self._stage != stage or until_due(now.row) == 1:
                self._watching.append(self._watched(now))

    def _keep(
        self, rows: Rows, part: slice, values: Floats, losses: Floats, events: NDArray[np.int64], texts: Texts
    ) -> Iterator[Incident]:
        """Keep what later records need of a part of the rows, and watch its loss at values of single features.

        The latter waits while an alarm is under way, which may be about the same change.
        """
        alarm, done = self.alarm, 0
        around = alarm.onset.row if alarm is not None and alarm.rows < JUDGED_AGAIN else None
        while done < len(losses):
            begin, first_row, decision = done, rows.first_row + part.start + done, None
            done = len(losses)
            if alarm is None and self.labelled:
                fed, decision = self.local.feed(
                    first_row, values[begin:, 1:], losses[begin:], events[begin:], self.series.need_of_cell
                )
                done = begin + fed
            self.losses.add(first_row, losses[begin:done])
            self.recent.add(first_row, values[begin:done, 1:], losses[begin:done], texts, around)
            if alarm is None:
                self.past.add(losses[begin:done])
            if decision is not None:
                yield self._local(decision, _now(rows, events, done - 1, first_row + done - begin - 1))

    def taken(self) -> list[Watching]:
        """Return how the stream was watched, where it was due since the last call: at stated rows, and where an alarm
        or an incident began or ended.
        """
        taken, self._watching = self._watching, []
        return taken

    @property
    def _stage(self) -> tuple[int, int] | None:
        """What tells the alarms, and the incidents that they become, apart."""
        return None if self.alarm is None else (self.alarm.row, self.alarm.number)

    def _watched(self, now: _Now) -> Watching:
        """Return how the stream is watched as of the newest row."""
        label, *features = watched(self.series, self.alarm, self._muted(), self.kinds)
        return Watching(
            schema_version=1,
            epoch=self.epoch,
            stream=self.stream,
            row=now.row if self.labelled else now.seq,
            seq=now.seq,
            unlabelled=not self.labelled,
            label=label if self.labelled else None,
            features=dict(zip(self.names, features, strict=True)),
        )

    def replace(self, row: int, seq: int, time: int | None, loss_name: str) -> Iterator[Incident]:
        """Note that the model was replaced before a row: end what is under way, and with labels open an incident.

        Parameters
        ----------
        row
            First row of the new model. It need not have come.
        seq, time
            Its event or, with `explain.unlabelled`, the first event with effects by the new model.
        """
        now = _Now(row, seq, NO_TIME if time is None else time, loss_name)
        moved = [Name("loss", 0)]
        if self.replacement is not None:
            yield self._replaced("normal", self.replacement, now)
        if self.alarm is not None and self.alarm.judgement is not None:
            yield replaced(self._record("normal", self.alarm, self.alarm.judgement, now))
            moved += [name for name in self.alarm.judgement.changed if name.side != "loss"]
        yield from map(replaced, self._end_local(now))
        means, counts = self.series.arrays["mean"], self.series.arrays["number"]
        if self.labelled:
            self.replacement = Replacement.begun(self._next_number(), Onset(row, row, row, seq, time), means, counts)
        stage, self.alarm, self.past = self._stage, None, Past()
        self.recent.clear()
        self.series.renew(moved, answers=False)
        if stage is not None:
            self._watching.append(self._watched(now))
        if self.replacement is not None:
            yield self._replaced("open", self.replacement, now)

    def _next_number(self) -> int:
        self.incidents += 1
        return self.step * self.incidents - (self.step - 1) * self.labelled

    def learned(self) -> None:
        """Note that the model has learned: what that does to its reasoning is no incident in events without labels."""
        self.series.forget_levels()

    def _replaced(self, status: str, one: Replacement, now: _Now) -> Incident:
        features, evidence, more, less = one.shifts(self.names)
        return Incident(
            schema_version=3,
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
            advice=of_model((one.loss_before, one.loss_after if one.due else None)),
        )

    def _muted(self) -> Collection[Name]:
        """Return the series that raise no alarm because one is under way."""
        if self.alarm is None:
            return ()
        names, one = self.series.names, self.alarm
        of_levels = [name for name in names if name.side in ("loss", "reasoning")]
        if one.judgement is not None:
            if one.rows < JUDGED_AGAIN or one.judgement.verdict == "concept_moved":
                return names  # after the concept moved, all features start over
            pairs = [name for name in names if name.side == "pair"]
            return [*one.judgement.changed, *one.pending, *pairs, *of_levels]
        if one.side == "reasoning":
            return [*one.pending, *(name for name in of_levels if name.side == "reasoning")]
        return names if one.rows < GATHERED else [*one.pending, *of_levels]

    def _raise(self, over: Name, onset: Onset, now: _Now) -> Iterator[Incident]:
        """Begin an alarm about a change that began after the one under way. An incident that is open becomes normal."""
        before, _ = self.losses.means(onset.row)
        former = self.alarm
        if former is not None and former.judgement is not None:
            yield self._end("normal", former, former.judgement, now, keep=over)
            former = None
        self.alarm = Alarm.raised(now.row, over, onset, before, self.series, former)

    def _join(self, alarm: Alarm, over: Name, onset: Onset) -> None:
        """Note that one more series shows the change that an alarm is about."""
        alarm.pending = [over, *alarm.pending]
        alarm.strengths = [self.series.strength(over), *alarm.strengths]
        if alarm.judgement is None:
            alarm.onset = onset
            alarm.before, _ = self.losses.means(onset.row)

    def _onset(self, over: Name, now: _Now) -> Onset:
        starts = self.series.starts(over, now.row).tolist() or [
            [now.row, now.seq, now.time]
        ]  # no bet need win a large budget
        first, seq, time = starts[0]
        rows = [row for row, *_ in starts]
        margin = 3 * (now.row - first) // 4 + 5
        latest = now.row if over.side == "reasoning" else min(now.row, max(rows) + margin)  # importance is too noisy
        return Onset(first, max(0, min(rows) - margin), latest, seq, None if time == NO_TIME else time)

    def _compare(self, one: Alarm, now: _Now) -> Iterator[Incident]:
        """Judge an alarm or an incident by the gathered rows, or see whether the incident is over."""
        sample = self._sample(one, now)
        first = one.judgement
        if first is None:
            judgement = judge(sample)
            self._locate(one, judgement)
            of_the_model = judgement is not None and _of_the_model(judgement)
            if of_the_model and one.rows >= JUDGED_AGAIN and not self._rose(one, sample.loss):
                judgement, of_the_model = None, False
            lasts = of_the_model and one.rows < _LASTING
            if judgement is not None and not lasts and self._confirmed(one, judgement):
                yield from self._end_local(now)
                self._date(one, judgement, now)
                one.number, one.judgement = self._next_number(), judgement
                yield self._record("open", one, judgement, now)
            elif not lasts and not self._pending(one):
                self.alarm = None
                self.series.forget_bets(one.pending)
        elif one.rows <= JUDGED_AGAIN:
            judgement = judge(sample, first)
            former = one.where
            self._locate(one, judgement)
            if judgement is not None and (_replaces(judgement, first) or _found(one.where, former)):
                one.judgement = judgement if _replaces(judgement, first) else first
                yield self._record("open", one, one.judgement, now)
        else:
            one.quiet = one.quiet + 1 if _as_before(first, sample) else 0
            if one.quiet >= QUIET or one.rows >= NORMAL:
                yield self._end("over" if one.quiet >= QUIET else "normal", one, first, now)

    def _date(self, one: Alarm, judgement: Judgement, now: _Now) -> None:
        """Let the onset be that of a feature that the verdict names, if what raised the alarm is not named."""
        told = {Name("input", self.names.index(it.feature)) for it in judgement.features if it.fault is not None}
        told &= set(judgement.changed)
        if told and told.isdisjoint(one.pending) and not any(name.side == "pair" for name in one.pending):
            one.onset = self._onset(max(sorted(told), key=self.series.strength), now)
            one.before, _ = self.losses.means(one.onset.row)

    def _rose(self, one: Alarm, loss: Level) -> bool:
        """Return whether the loss is higher than it has ever been, and that of all rows since the onset than before."""
        _, since = self.losses.means(one.onset.row)
        before = loss.before if one.before is None else one.before
        if before > loss.before + loss.spread:  # because of outliers
            before = loss.before
        return self.past.exceeded(loss.after) and (since is None or since > before)

    def _local(self, decision: Decision, now: _Now) -> Incident:
        """Return a record about a rise of the loss in one segment."""
        status, rise = decision
        if status == "open":
            self.local.open(rise, self._next_number(), self.names, self.recent.texts)
        names, onset = [self.names[slot] for slot in rise.slots], rise.onset
        judgement = Judgement(
            verdict=SEGMENT_WORSE,
            weight=1.0,
            alternatives=[],
            features=[Affected(name, None) for name in names],
            evidence=[Evidence("loss", name, onset.row, round(rise.strength, 2), *rise.means) for name in names],
            changed=[Name("loss", 0)],
            gaps=[0.0],
            rule="unknown",
        )
        rows = 0 if status == "open" else JUDGED_AGAIN  # until then, a model that learns may adapt
        losses = self.losses.means(onset.row)
        advice = advise(judgement, status, None, losses, labelled=True, learns=self.learns, rows=rows)
        return self._published(status, rise.number, judgement, now, onset, losses, rise.where, advice)

    def _end_local(self, now: _Now) -> Iterator[Incident]:
        """End what is known of rises in segments, because another incident begins, or another model."""
        rise = self.local.rise
        self.local.end()
        if rise is not None and rise.number:
            yield self._local(Decision("normal", rise), now)

    def _locate(self, one: Alarm, judgement: Judgement | None) -> None:
        """Note where the change is, if the rows until now show it."""
        if one.rows > JUDGED_AGAIN:
            return
        of = None if judgement is None else _changes_of(judgement)
        if of is not None:
            rows, recent = self.recent.rows, self.recent
            sure = (rows < one.onset.earliest) | (rows > one.onset.latest)
            inputs, since = recent.inputs.astype(np.float64), rows >= one.onset.row
            around = Around(inputs, recent.losses, since, sure, self.names, self.kinds, recent.texts)
            arrays = self.series.arrays
            block = int(arrays["level_block"][0]) if of == "loss" else int(arrays["block"].max(initial=1))
            where = locate(rows, around, of, self._key, block)
            if where is not None and (one.where is None or where.extent != "unknown"):
                one.where = where  # what was located stays so, although the model recovers
        if one.rows == JUDGED_AGAIN:
            self.recent.clear()

    def _end(self, status: str, one: Alarm, judgement: Judgement, now: _Now, keep: Name | None = None) -> Incident:
        """End an incident, and return its last record. The bets of the series `keep` go on."""
        muted = set(self.series.muted)
        self.series.renew(
            judgement.changed if status == "normal" else (),
            answers=judgement.verdict == "concept_moved",  # the loss also falls because the model has learned them
            broken=judgement.verdict in ("feature_broken", "feature_alive"),
            since=one.compared + one.counts,
            keep=keep,
        )
        if status == "normal":
            self.past = Past()
        self.alarm = None
        return self._record(status, one, judgement, now, [slot for slot in self.series.muted if slot not in muted])

    def _confirmed(self, one: Alarm, judgement: Judgement) -> bool:
        """Return whether the rows since an alarm are more evidence of it, where more is needed.

        It is needed for importance, which some models move by themselves, and for values after the first look.
        """
        grown = one.grown(self.series, judgement.changed)
        if judgement.verdict == "reasoning_moved":
            return grown > _MORE_OF_REASONING
        of_values = any(name.side in _DATA for name in judgement.changed)
        return not of_values or one.rows <= GATHERED or grown > GROWN

    def _pending(self, one: Alarm) -> bool:
        """Return whether an alarm without a verdict waits for more rows.

        Importance varies so much from row to row that a change of it needs `JUDGED_AGAIN` rows. Values need the more
        rows the more they resemble their neighbours, or the fewer of them have changed: their alarm waits as long as
        the bets of its series are strong evidence.
        """
        if one.side in ("loss", "reasoning"):
            return one.side == "reasoning" and one.rows < JUDGED_AGAIN
        of_values = (name for name in one.pending if name.side not in ("loss", "reasoning"))
        return one.rows < NORMAL and not self.series.strong().isdisjoint(of_values)

    def _sample(self, one: Alarm, now: _Now) -> Sample:
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
            counts=one.counts,
            answers=one.answers,
            past=self.series.past_inputs,
            frozen={slot for slot in range(len(self.names)) if self.series.has_frozen(slot)},
            runs=[self.series.runs(Name("input", slot)) for slot in range(len(self.names))],
            loss=levels[0],
            importance=levels[1:],
            strengths={name: self.series.strength(name) for name in names},
            strong=self.series.strong(),
            starts={
                name: next((row for row, *_ in self.series.starts(name, now.row).tolist()), one.onset.row)
                for name in names
            },
            classes=self.classes,
            labelled=self.labelled,
        )

    def _record(self, status: str, one: Alarm, judgement: Judgement, now: _Now, muted: Sequence[int] = ()) -> Incident:
        _, after = self.losses.means(one.onset.row)
        newly = [self.names[slot] for slot in muted]
        before, onset = one.before, one.onset
        recovered = self.losses.recovered(one.onset.row, before) if self.labelled and judgement.worse else None
        losses = (before, after) if self.labelled else (None, None)
        advice = advise(judgement, status, recovered, losses, labelled=self.labelled, learns=self.learns, rows=one.rows)
        if not self.labelled:
            judgement, onset = _by_events(judgement, onset, now)
        return self._published(status, one.number, judgement, now, onset, losses, one.where, advice, newly)

    def _published(
        self,
        status: str,
        number: int,
        judgement: Judgement,
        now: _Now,
        onset: Onset,
        losses: tuple[float | None, float | None],
        where: Where | None,
        advice: Advice,
        newly_muted: Sequence[str] = (),
    ) -> Incident:
        return Incident(
            schema_version=3,
            epoch=self.epoch,
            stream=self.stream,
            incident=number,
            status=status,
            row=now.row if self.labelled else now.seq,
            seq=now.seq,
            onset=onset,
            verdict=judgement.verdict,
            weight=judgement.weight,
            alternatives=judgement.alternatives,
            features=judgement.features,
            loss_name=now.loss_name,
            loss_before=losses[0],
            loss_after=losses[1],
            summary=summary(judgement, onset, now.loss_name, *losses, newly_muted, where),
            evidence=judgement.evidence,
            rule=judgement.rule,
            muted=[self.names[slot] for slot in self.series.muted],
            where=where,
            advice=advice,
        )

    def _widen(self, rows: Rows) -> None:
        self.names, self.kinds = list(rows.names), [int(kind) for kind in rows.kinds]
        self.series.widen(self.kinds)
        self.recent.widen(len(self.names))
        self.local.widen(self.kinds)
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
            "losses": msgspec.to_builtins(self.losses),
        }
        own, arrays = self.series.state()
        meta |= own
        meta["texts"], own = self.recent.state()
        arrays |= {f"recent.{name}": array for name, array in own.items()}
        meta["local"], own = self.local.state()
        arrays |= {f"local.{name}": array for name, array in own.items()}
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
        saved.losses.check()
        self.names, self.kinds, self.classes = saved.names, list(saved.kinds), saved.classes
        self.incidents, self.past, self.losses = saved.incidents, saved.past, saved.losses
        self.series.restore(saved, arrays, row)
        self.recent.restore(saved.texts, form.part("recent.", arrays), self.kinds, row)
        self.local.restore(saved.local, form.part("local.", arrays), self.kinds, row, self.recent.texts)
        width = len(self.names)
        if saved.alarm is not None:
            self.alarm = Alarm.restored(saved.alarm, form.part("alarm.", arrays), width, self.series.names)
        if saved.replacement is not None:
            own = form.part("replacement.", arrays)
            self.replacement = Replacement.restored(saved.replacement, own, width)


def _now(rows: Rows, events: NDArray[np.int64], place: int, row: int) -> _Now:
    """Return a row as the newest one, given the place of its event."""
    seq, time = events[place].tolist()
    return _Now(row, seq, time, rows.loss_name)


def _by_events(judgement: Judgement, onset: Onset, now: _Now) -> tuple[Judgement, Onset]:
    """Return a judgement of rows without labels, and its onset, by the numbers of their events.

    Between two rows there can be further events. Rows other than the onset are placed by their distance from it, at the
    mean number of events a row since then.
    """
    if onset.seq is None:
        raise ValueError("expected the event of an onset")
    at, rows = onset.seq, max(1, now.row - onset.row)

    def event(row: int) -> int:
        return min(now.seq, max(0, at + (row - onset.row) * max(rows, now.seq - at) // rows))

    evidence = [msgspec.structs.replace(one, row=event(one.row)) for one in judgement.evidence]
    by_events = msgspec.structs.replace(onset, row=at, earliest=event(onset.earliest), latest=event(onset.latest))
    return replace(judgement, evidence=evidence, rule=UNLABELLED), by_events


def _of_the_model(judgement: Judgement) -> bool:
    """Return whether only the loss rose, perhaps with other importance, and no labels of equal inputs differ."""
    of_levels = all(name.side in ("loss", "reasoning") for name in judgement.changed)
    return of_levels and judgement.worse and judgement.rule != "other"


def _replaces(now: Judgement, first: Judgement) -> bool:
    """Return whether a later verdict on an incident, or a claim that it adds, is to be published."""
    if first.verdict == "concept_moved" and _of_the_model(now):
        return False  # which rests on the absence of evidence
    if now.verdict != first.verdict:
        return True
    of_one = now.verdict == "concept_moved" and len(first.features) == 1 < len(now.features)
    return of_one or (now.rule != first.rule and now.rule != "unknown")


def _as_before(first: Judgement, sample: Sample) -> bool:
    """Return whether everything that had changed at first is as it was before the incident."""
    changed, now = set(first.changed), series_changed(sample)
    if all(name.side == "reasoning" for name in changed):
        return not now
    if first.worse and sample.loss.rise > _STANDARD_ERRORS:
        return False
    of_data = {name for name in changed if name.side in _DATA}
    back = all(
        sample.gap(name) < _BACK * gap for name, gap in zip(first.changed, first.gaps, strict=True) if name in of_data
    )
    return back and of_data.isdisjoint(now)


def _changes_of(judgement: Judgement) -> Of | None:
    """Return what is to be located: the rise of the loss or, without one, the move of inputs that are not broken."""
    if judgement.worse:
        return "loss"
    return "events" if judgement.verdict == "data_moved" else None


def _found(now: Where | None, former: Where | None) -> bool:
    """Return whether segments are known now that were not."""
    return now is not None and bool(now.segments) and (former is None or not former.segments)
