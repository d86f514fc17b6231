"""Incidents of one stream: its rows in order go through sequential tests, and what they find becomes one verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.draws import stream_key
from glasstream.incidents import series
from glasstream.incidents.summary import summary
from glasstream.incidents.verdict import Histogram, Judgement, Level, Sample, judge
from glasstream_topics.incidents import Incident, Onset

CALIBRATION = 300
"""Most rows from which the bins of a series are made. They raise no alarm."""
GATHERED = 150
"""Rows after an alarm from which the verdict is made."""
JUDGED_AGAIN = 500
"""Rows after an alarm at which the verdict is made once more."""
NORMAL = 3_000
"""Rows after an alarm from which on the change counts as the new normal."""
LEARNING = 2_000
"""Rows in which the importance of features may change because the model is young."""
_NUMBERS = 10_000
"""Numbers that calibration may keep, so that wide streams calibrate on fewer rows."""
_FEWEST = 60
_ROWS_PER_RUN = 100_000.0
_SHARES = {"input": 0.5, "label": 0.1, "loss": 0.25, "reasoning": 0.15}
"""Share of the budget that each side has."""

_VALUES = ("edges", "used", "counts", "risk", "answer", "thin", "wealth", "best", "start")
_LEVELS = ("mean", "variance", "number", "sides", "level_wealth", "level_best", "level_start")


class Rows(NamedTuple):
    """Consecutive explained rows of a stream."""

    first_row: int
    seqs: NDArray[np.int64]
    """(n,)"""
    names: Sequence[str]
    """d names."""
    kinds: Sequence[int]
    """d kinds: 0 number, 1 boolean, 2 text."""
    inputs: NDArray[np.float64]
    """(n, d) values of the features, NaN where one is absent; texts as codes."""
    target: NDArray[np.float64]
    """(n,) labels: index of the class, or the number."""
    classes: Sequence[str]
    """Names of the classes; empty for a regression."""
    loss: NDArray[np.float64]
    """(n,) loss of the model."""
    loss_name: str
    importance: NDArray[np.float64] | None
    """(n, d) contributions of iPFI (or iSAGE if it is the only one); None if there are none."""


@dataclass(slots=True)
class _Open:
    """An incident that is open."""

    number: int
    alarm: int
    """Row of the alarm."""
    onset: Onset
    judgement: Judgement | None = None
    quiet: int = 0
    """Windows in a row in which everything was as before."""
    worse: bool = False
    labels: bool = False


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
    count: int = 0
    """Rows seen."""
    incidents: int = 0
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    calibrating: list[int] = field(default_factory=list)
    """Series of values whose bins are being made."""
    buffer: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    gathered: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    """(w, 2 + d + d) rows since the alarm: label, inputs, loss, importance."""
    open: _Open | None = None
    _key: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._key = stream_key(self.seed, self.stream)
        if not self.arrays:
            self.arrays = _fresh(1)
            self.calibrating = [0]

    def update(self, rows: Rows) -> Iterator[Incident]:
        """Add rows in order, and return the incidents that they open, change or end."""
        if len(rows.names) > len(self.names):
            self._widen(rows)
        d = len(self.names)
        values = np.full((len(rows.loss), 1 + d), np.nan)
        values[:, 0] = rows.target
        values[:, 1 : 1 + rows.inputs.shape[1]] = rows.inputs
        levels = np.zeros((len(rows.loss), 1 + d))
        levels[:, 0] = rows.loss
        if rows.importance is not None:
            levels[:, 1 : 1 + rows.importance.shape[1]] = rows.importance
        done = 0
        while done < len(values):
            stop = min(len(values), done + self._until_due())
            fed = self._feed(rows.first_row, done, values[:stop], levels[:stop])
            self.count += fed - done
            self._collect(values[done:fed], levels[done:fed])
            alarmed = self.open is None and self._over() is not None
            last = fed - 1
            done = fed
            if alarmed:
                self._begin(rows.first_row + last, rows)
            yield from self._due(rows.first_row + last, rows)

    # -- what is due

    def _until_due(self) -> int:
        dues = [self._calibration - len(self.buffer)] if self.calibrating else []
        dues += [one - self.count for one in (CALIBRATION, LEARNING) if one > self.count]
        if self.open is not None:
            dues.append(GATHERED - len(self.gathered) % GATHERED)
        return min(dues, default=1 << 40)

    @property
    def _calibration(self) -> int:
        return max(_FEWEST, min(CALIBRATION, _NUMBERS // max(1, len(self.calibrating))))

    def _feed(self, first_row: int, begin: int, values: NDArray[np.float64], levels: NDArray[np.float64]) -> int:
        value_limits, level_limits = self._limits()
        a = self.arrays
        return int(
            series.feed(
                first_row, begin, values, levels, self.open is None, value_limits, self._key,
                *(a[name] for name in _VALUES), *(a[name] for name in _LEVELS), level_limits,
            )
        )  # fmt: skip

    def _limits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        d = max(1, len(self.names))
        rows = _ROWS_PER_RUN / self.budget
        values = np.full(len(self.names) + 1, rows * d / _SHARES["input"])
        values[0] = rows / _SHARES["label"]
        levels = np.full(len(self.names) + 1, rows * d / _SHARES["reasoning"])
        levels[0] = rows / _SHARES["loss"]
        if self.count < LEARNING:
            levels[1:] = np.inf
        if self.count < CALIBRATION:
            levels[0] = np.inf
        if self.open is not None:
            values[:], levels[:] = np.inf, np.inf
        return values, levels

    def _over(self) -> tuple[str, int] | None:
        """Return the series that is furthest beyond its limit, by side and slot."""
        value_limits, level_limits = self._limits()
        a = self.arrays
        beyond = np.concatenate([
            a["wealth"].sum(axis=1) * a["thin"] / (value_limits * series.VALUE_BETS),
            a["level_wealth"].sum(axis=1) / (level_limits * np.where(a["sides"] == 1, 3, series.LEVEL_BETS)),
        ])
        worst = int(beyond.argmax())
        if beyond[worst] <= 1.0:
            return None
        if worst < len(value_limits):
            return ("label", 0) if worst == 0 else ("input", worst - 1)
        worst -= len(value_limits)
        return ("loss", 0) if worst == 0 else ("reasoning", worst - 1)

    def _collect(self, values: NDArray[np.float64], levels: NDArray[np.float64]) -> None:
        if self.calibrating:
            self.buffer = _joined(self.buffer, values[:, self.calibrating])
        if self.open is not None:
            self.gathered = _joined(self.gathered, np.hstack([values, levels]))

    def _due(self, row: int, rows: Rows) -> Iterator[Incident]:
        if self.calibrating and len(self.buffer) == self._calibration:
            self._calibrate()
        if self.count == CALIBRATION:
            self._forget_levels(slice(0, 1))
        if self.count == LEARNING:
            self._forget_levels(slice(1, None))
        if self.open is not None and len(self.gathered) and len(self.gathered) % GATHERED == 0:
            seq = int(rows.seqs[row - rows.first_row])
            yield from self._judge(row, seq, rows.loss_name)

    # -- the life of an incident

    def _begin(self, row: int, rows: Rows) -> None:
        over = self._over()
        assert over is not None
        starts = self._starts(*over)
        start = int(starts[0])
        since = row - start + 1
        seq = int(rows.seqs[max(0, start - rows.first_row)]) if start >= rows.first_row else int(rows.seqs[0]) - (rows.first_row - start)
        onset = Onset(start, max(0, seq), max(0, int(starts.min()) - since // 4), min(row, int(starts.max()) + since // 4))
        self.open = _Open(0, row, onset)
        self.gathered = np.empty((0, 2 * (1 + len(self.names))))

    def _judge(self, row: int, seq: int, loss_name: str) -> Iterator[Incident]:
        incident = self.open
        assert incident is not None
        since = row - incident.alarm
        if len(self.gathered) > JUDGED_AGAIN + GATHERED:
            self.gathered = self.gathered[-GATHERED:]
        before = incident.judgement
        status = "open"
        if before is None or since <= JUDGED_AGAIN + GATHERED:
            incident.judgement = judge(self._sample(self.gathered))
            if incident.judgement is None:
                if before is None:
                    self._dismiss()
                    return
                incident.judgement = before
            if before is None:
                self.incidents += 1
                incident.number = self.incidents
                incident.worse = any(one.side == "loss" for one in incident.judgement.evidence)
                incident.labels = any(one.side == "label" for one in incident.judgement.evidence)
        else:
            incident.quiet = incident.quiet + 1 if self._as_before(self.gathered[-GATHERED:]) else 0
            status = "over" if incident.quiet >= 3 else "normal" if since >= NORMAL else "open"
        judgement = incident.judgement
        assert judgement is not None
        if status != "open" or before is None or before.verdict != judgement.verdict:
            yield self._record(status, row, seq, loss_name, judgement)
        if status != "open":
            self._end(judgement, renew=status == "normal")

    def _record(self, status: str, row: int, seq: int, loss_name: str, judgement: Judgement) -> Incident:
        incident = self.open
        assert incident is not None
        d = 1 + len(self.names)
        before, after = float(self.arrays["mean"][0]), float(self.gathered[:, d].mean())
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

    def _sample(self, gathered: NDArray[np.float64]) -> Sample:
        d = len(self.names)
        a = self.arrays
        histograms = [self._histogram(s) for s in range(d + 1)]
        levels = gathered[:, 1 + d :]
        compared = [
            Level(float(a["mean"][t]), float(np.sqrt(max(a["variance"][t], levels[:, t].var()))), float(levels[:, t].mean()), len(levels))
            for t in range(d + 1)
        ]
        wealth, level_wealth = np.log10(np.maximum(1e-300, a["wealth"].mean(axis=1))), np.log10(np.maximum(1e-300, a["level_wealth"].mean(axis=1)))
        strengths = {("label", 0): float(wealth[0]), ("loss", 0): float(level_wealth[0])}
        strengths |= {("input", j): float(wealth[1 + j]) for j in range(d)}
        young = self.count < LEARNING
        strengths |= {("reasoning", j): 0.0 if young else float(level_wealth[1 + j]) for j in range(d)}
        starts = {series_: int(self._starts(*series_)[0]) for series_ in strengths}
        return Sample(
            self.names, self.kinds, histograms[1:], gathered[:, 1 : 1 + d], histograms[0], gathered[:, 0], compared[0],
            strengths, starts, compared[1:],
        )  # fmt: skip

    def _as_before(self, gathered: NDArray[np.float64]) -> bool:
        """Return whether what had changed is as it was before the incident."""
        incident = self.open
        assert incident is not None and incident.judgement is not None
        judgement = judge(self._sample(gathered))
        evidence = [] if judgement is None else judgement.evidence
        moved = [] if judgement is None else judgement.moved
        loss = self.arrays["mean"][0]
        spread = np.sqrt(self.arrays["variance"][0] / len(gathered))
        d = 1 + len(self.names)
        if incident.worse and gathered[:, d].mean() > loss + 2.0 * spread:
            return False
        if incident.labels and any(one.side == "label" for one in evidence):
            return False
        if incident.judgement.verdict == "reasoning_moved":
            return False
        return not set(incident.judgement.moved) & set(moved)

    def _dismiss(self) -> None:
        """Close an incident that the rows since its alarm do not confirm."""
        self.open = None
        self.gathered = np.empty((0, 0))
        self.arrays["wealth"][:], self.arrays["best"][:] = 0.0, 1.0
        self._forget_levels(slice(None))

    def _end(self, judgement: Judgement, *, renew: bool) -> None:
        """Close the incident, and compare later rows with those before it, or with those from now on."""
        self.open = None
        self.gathered = np.empty((0, 0))
        a = self.arrays
        a["wealth"][:], a["best"][:] = 0.0, 1.0
        if renew:
            for s in range(1 + len(self.names)):
                a["used"][s] = -1
            self._calibrate_next()
            a["number"][:] = 0.0
        self._forget_levels(slice(None))
        self.count = 0 if renew else self.count

    def _starts(self, side: str, slot: int) -> NDArray[np.int64]:
        """Return the first rows of the change that the strong bets of a series suggest, those of the strongest first."""
        a = self.arrays
        place = slot + (side in ("input", "reasoning"))
        kind = "level_" if side in ("loss", "reasoning") else ""
        best, start = a[kind + "best"][place], a[kind + "start"][place]
        order = np.argsort(-best, kind="stable")
        strong = order[best[order] >= max(1.0, best[order[0]] ** 0.5)]
        return np.asarray(start[strong])

    def _forget_levels(self, which: slice) -> None:
        self.arrays["level_wealth"][which], self.arrays["level_best"][which] = 0.0, 1.0

    # -- bins

    def _histogram(self, s: int) -> Histogram:
        used = max(0, int(self.arrays["used"][s]))
        return Histogram(self.arrays["edges"][s, :used], self.arrays["counts"][s, : series.BINS], self.arrays["risk"][s], self.arrays["answer"][s])

    def _widen(self, rows: Rows) -> None:
        more = len(rows.names) - len(self.names)
        self.names, self.kinds = list(rows.names), [int(kind) for kind in rows.kinds]
        fresh = _fresh(more, level=2)
        self.arrays = {name: np.concatenate([self.arrays[name], fresh[name]]) for name in self.arrays}
        if self.open is not None:
            self.gathered = _widened(self.gathered, len(self.names) - more, more)
        if not self.buffer.size:
            self._calibrate_next()

    def _calibrate_next(self) -> None:
        self.calibrating = [int(s) for s in np.flatnonzero(self.arrays["used"] < 0)]
        self.buffer = np.empty((0, len(self.calibrating)))

    def _calibrate(self) -> None:
        """Make the bins of the series whose values have been kept."""
        a = self.arrays
        for column, s in enumerate(self.calibrating):
            values = self.buffer[:, column]
            present = np.sort(values[~np.isnan(values)])
            edges = np.unique(present)
            if len(edges) > series.EDGES:
                places = np.linspace(0, len(present) - 1, series.EDGES).astype(np.int64)
                edges = np.unique(present[places])
            a["edges"][s] = 0.0
            a["edges"][s, : len(edges)] = edges
            a["used"][s] = len(edges)
            a["counts"][s], a["risk"][s], a["answer"][s] = 0.0, 0.0, 0.0
            a["thin"][s] = _thinning(values)
            a["wealth"][s], a["best"][s] = 0.0, 1.0
        self.calibrating = []
        self.buffer = np.empty((0, 0))
        if (a["used"] < 0).any():
            self._calibrate_next()

    # -- state

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        raise NotImplementedError

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state.

        Raises
        ------
        StateError, KeyError, TypeError, ValueError
            The state is incomplete.
        """
        raise NotImplementedError


def _fresh(number: int, level: int = 1) -> dict[str, NDArray[Any]]:
    """Return the arrays of series without rows. `level` is 1 if only rises of the level count, 2 if falls do, too."""
    bets, steps = series.VALUE_BETS, series.LEVEL_BETS
    return {
        "edges": np.zeros((number, series.EDGES)),
        "used": np.full(number, -1),
        "counts": np.zeros((number, series.BINS + 1)),
        "risk": np.zeros((number, series.BINS)),
        "answer": np.zeros((number, series.BINS)),
        "thin": np.ones(number, np.int64),
        "wealth": np.zeros((number, bets)),
        "best": np.ones((number, bets)),
        "start": np.zeros((number, bets), np.int64),
        "mean": np.zeros(number),
        "variance": np.zeros(number),
        "number": np.zeros(number),
        "sides": np.full(number, level),
        "level_wealth": np.zeros((number, steps)),
        "level_best": np.ones((number, steps)),
        "level_start": np.zeros((number, steps), np.int64),
    }


def _thinning(values: NDArray[np.float64]) -> int:
    """Return every how many rows a value is tested, so that neighbours are nearly independent.

    The integrated autocorrelation time of a first-order process with the lag-1 autocorrelation of the ranks.
    """
    known = np.where(np.isnan(values), -np.inf, values)
    ranks = np.searchsorted(np.sort(known), known).astype(float)
    centred = ranks - ranks.mean()
    power = float((centred**2).sum())
    if power == 0.0:
        return 1
    rho = float((centred[1:] * centred[:-1]).sum()) / power
    return 1 if rho < 0.2 else min(50, int(np.ceil((1.0 + rho) / max(1e-3, 1.0 - rho))))


def _joined(rows: NDArray[np.float64], more: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([rows, more]) if rows.size else more.copy()


def _widened(gathered: NDArray[np.float64], d: int, more: int) -> NDArray[np.float64]:
    """Return gathered rows with room for more features."""
    absent, nothing = np.full((len(gathered), more), np.nan), np.zeros((len(gathered), more))
    return np.hstack([gathered[:, : 1 + d], absent, gathered[:, 1 + d :], nothing])
