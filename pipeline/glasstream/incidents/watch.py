"""Incidents of one stream: its rows in order go through sequential tests, and what they find becomes one verdict.

A series that exceeds its limit raises an alarm. `GATHERED` rows later, the incident is opened with a verdict, or
dismissed if these rows do not confirm it. While it is open, later rows are compared with those before it. It is over
when `_QUIET` comparisons in a row find everything as it was. After `NORMAL` rows, the change is the new normal, and later rows
are compared with new ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.draws import stream_key
from glasstream.incidents.series import Name, Series, Watch
from glasstream.incidents.summary import summary
from glasstream.incidents.verdict import Judgement, Level, Sample, judge
from glasstream_topics.incidents import Incident, Onset

GATHERED = 150
"""Rows after an alarm from which the verdict is made, and rows of each later comparison."""
JUDGED_AGAIN = 600
"""Rows after an alarm up to which the verdict may change."""
NORMAL = 3_000
"""Rows after an alarm from which on the change counts as the new normal."""

_QUIET = 3
_NUMBERS = 20_000  # that an open incident keeps: those of wide streams are judged by fewer rows
_STANDARD_ERRORS = 2.0

Floats = NDArray[np.float64]


class Rows(NamedTuple):
    """Consecutive explained rows of a stream."""

    first_row: int
    seqs: NDArray[np.int64]
    """(n,)"""
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


class _Open(msgspec.Struct):
    """An incident that is open, or an alarm whose rows are being gathered."""

    alarm: int
    """Row of the alarm."""
    side: str
    """Side of the series that raised it."""
    onset: Onset
    number: int = 0
    """Number of the incident; 0 until it is confirmed."""
    judgement: Judgement | None = None
    rows: int = 0
    """Rows since the alarm."""
    sums: list[float] = msgspec.field(default_factory=list)
    """Sums of the levels of `summed` rows, then sums of their squares."""
    summed: int = 0
    quiet: int = 0
    """Comparisons in a row that found everything as before."""


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
    incidents: int = 0
    """Number of incidents so far."""
    series: Series = field(init=False)
    open: _Open | None = None
    gathered: Floats = field(default_factory=lambda: np.empty((0, 1)))
    """(w, 1 + d) labels and inputs since the alarm."""
    _key: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._key = stream_key(self.seed, self.stream)
        self.series = Series(self.budget)

    def update(self, rows: Rows) -> Iterator[Incident]:
        """Add rows in order, and return the incidents that they open, change or end."""
        if len(rows.names) > len(self.names):
            self._widen(rows)
        values = np.full((len(rows.loss), 1 + len(self.names)), np.nan)
        values[:, 0] = rows.target
        values[:, 1 : 1 + rows.inputs.shape[1]] = rows.inputs
        levels = np.zeros_like(values)
        levels[:, 0] = rows.loss
        if rows.importance is not None:
            levels[:, 1 : 1 + rows.importance.shape[1]] = rows.importance
        done = 0
        while done < len(values):
            stop = min(len(values), done + self.series.until_due())
            if self.open is not None:
                stop = min(stop, done + GATHERED - self.open.rows % GATHERED)
            begin, watch = done, self._watched()
            done, over = self.series.feed(rows.first_row, begin, values[:stop], levels[:stop], self._key, watch)
            row = rows.first_row + done - 1
            if over is not None:
                self.open = _Open(row, over.side, self._onset(over, row))
                self.gathered = np.empty((0, 1 + len(self.names)))
            elif self.open is not None:
                self._gather(self.open, values[begin:done], levels[begin:done])
                if self.open.rows % GATHERED == 0:
                    yield from self._compare(self.open, row, int(rows.seqs[done - 1]), rows.loss_name)

    def _watched(self) -> Watch:
        """Return which series can raise an alarm. While rows about a change of importance are gathered, others can."""
        if self.open is None:
            return "all"
        return "data and loss" if self.open.side == "reasoning" and self.open.judgement is None else "none"

    def _onset(self, over: Name, row: int) -> Onset:
        starts = self.series.starts(over)
        first = int(starts[0])
        margin = (row - first) // 2 + 5
        return Onset(first, max(0, int(starts.min()) - margin), min(row, int(starts.max()) + margin))

    def _gather(self, incident: _Open, values: Floats, levels: Floats) -> None:
        """Add rows to those that the incident is judged by: all up to `JUDGED_AGAIN`, and later the newest."""
        most = max(1, min(JUDGED_AGAIN, _NUMBERS // values.shape[1]) // GATHERED) * GATHERED
        if len(self.gathered) >= (most if incident.rows < JUDGED_AGAIN else GATHERED):
            self.gathered = np.empty((0, values.shape[1]))
        if incident.rows == 0 or (incident.rows >= JUDGED_AGAIN and incident.rows % GATHERED == 0):
            incident.sums, incident.summed = [0.0] * (2 * values.shape[1]), 0
        self.gathered = np.concatenate([self.gathered, values])
        for row in np.hstack([levels, levels**2]):  # one by one: the sums must not depend on how blocks are cut
            incident.sums = (row + incident.sums).tolist()
        incident.summed += len(values)
        incident.rows += len(values)

    def _compare(self, incident: _Open, row: int, seq: int, loss_name: str) -> Iterator[Incident]:
        """Judge an incident by the gathered rows, or see whether it is over."""
        sample = self._sample(incident)
        first = incident.judgement
        judgement = judge(sample, worse=first is not None and incident.rows <= JUDGED_AGAIN and first.worse)
        if incident.judgement is None:
            if judgement is None:
                # Importance varies so much from row to row that a change of it needs more rows.
                if incident.side != "reasoning" or incident.rows >= JUDGED_AGAIN:
                    self._end(renew=False)
                return
            self.incidents += 1
            incident.number, incident.judgement = self.incidents, judgement
            yield self._record("open", incident, row, seq, loss_name, sample)
        elif incident.rows <= JUDGED_AGAIN:
            if judgement is not None and judgement.verdict != incident.judgement.verdict:
                incident.judgement = judgement
                yield self._record("open", incident, row, seq, loss_name, sample)
        else:
            incident.quiet = incident.quiet + 1 if self._as_before(incident.judgement, judgement, sample.loss) else 0
            if incident.quiet >= _QUIET or incident.rows >= NORMAL:
                over = incident.quiet >= _QUIET
                yield self._record("over" if over else "normal", incident, row, seq, loss_name, sample)
                self._end(renew=not over)

    def _sample(self, incident: _Open) -> Sample:
        count = incident.summed
        sums, squares = np.array(incident.sums).reshape(2, -1)
        after = sums / count
        arrays = self.series.arrays
        spread = np.sqrt(np.maximum(arrays["variance"], squares / count - after**2))
        levels = [Level(*map(float, level), count) for level in zip(arrays["mean"], spread, after, strict=True)]
        names = self.series.names()
        return Sample(
            names=self.names,
            kinds=self.kinds,
            inputs=[self.series.histogram(slot) for slot in range(len(self.names))],
            values=self.gathered[:, 1:],
            label=self.series.histogram(None),
            targets=self.gathered[:, 0],
            loss=levels[0],
            importance=levels[1:],
            strengths={name: self.series.strength(name) for name in names},
            starts={name: int(self.series.starts(name)[0]) for name in names},
        )

    def _as_before(self, first: Judgement, now: Judgement | None, loss: Level) -> bool:
        """Return whether everything that had changed at first is as it was before the incident."""
        sides = {one.side for one in first.evidence}
        if "reasoning" in sides and sides <= {"reasoning"}:
            return now is None
        if "loss" in sides and loss.rise > _STANDARD_ERRORS:
            return False
        changed = {(one.side, one.feature) for one in first.evidence if one.side in ("input", "label")}
        still = set() if now is None else {(one.side, one.feature) for one in now.evidence}
        return not changed & still

    def _record(self, status: str, incident: _Open, row: int, seq: int, loss_name: str, sample: Sample) -> Incident:
        judgement = incident.judgement
        if judgement is None:
            raise AssertionError("an incident is published only with a verdict")
        before, after = sample.loss.before, sample.loss.after
        return Incident(
            schema_version=1,
            epoch=self.epoch,
            stream=self.stream,
            incident=incident.number,
            status=status,
            row=row,
            seq=seq,
            onset=incident.onset,
            verdict=judgement.verdict,
            weight=judgement.weight,
            alternatives=judgement.alternatives,
            features=judgement.features,
            loss_name=loss_name,
            loss_before=before,
            loss_after=after,
            summary=summary(judgement, incident.onset.row, loss_name, before, after),
            evidence=judgement.evidence,
        )

    def _end(self, *, renew: bool) -> None:
        self.open = None
        self.gathered = np.empty((0, 1 + len(self.names)))
        self.series.forget(renew=renew)

    def _widen(self, rows: Rows) -> None:
        more = len(rows.names) - len(self.names)
        self.names, self.kinds = list(rows.names), [int(kind) for kind in rows.kinds]
        self.series.widen(len(self.names))
        self.gathered = np.hstack([self.gathered, np.full((len(self.gathered), more), np.nan)])
        if self.open is not None and self.open.sums:
            sums, squares = np.array(self.open.sums).reshape(2, -1)
            self.open.sums = [*sums, *[0.0] * more, *squares, *[0.0] * more]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        meta = {
            "names": self.names,
            "kinds": self.kinds,
            "incidents": self.incidents,
            "count": self.series.count,
            "calibrating": self.series.calibrating,
            "open": msgspec.to_builtins(self.open),
        }
        arrays = {"gathered": self.gathered, "buffer": self.series.buffer, **self.series.arrays}
        return meta, arrays

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state.

        Raises
        ------
        KeyError, TypeError, ValueError
            The state is incomplete.
        """
        self.names, self.kinds = [str(name) for name in meta["names"]], [int(kind) for kind in meta["kinds"]]
        self.incidents = int(meta["incidents"])
        self.open = msgspec.convert(meta["open"], _Open | None)
        self.gathered = np.array(arrays["gathered"])
        self.series.widen(len(self.names))
        self.series.count = int(meta["count"])
        self.series.calibrating = [int(place) for place in meta["calibrating"]]
        self.series.buffer = np.array(arrays["buffer"])
        for name, array in self.series.arrays.items():
            saved = np.array(arrays[name])
            if saved.shape != array.shape or saved.dtype != array.dtype:
                raise ValueError(f"expected {name} of {array.dtype}{array.shape}, got {saved.dtype}{saved.shape}")
            self.series.arrays[name] = saved
