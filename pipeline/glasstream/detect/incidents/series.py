"""The watched series of one stream: their bins, their bets, and which of them exceed their share of the budget."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import FINITE, LARGEST_SQUARE, MOST, Count, Field
from glasstream.detect.incidents import betting
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.pairs import Pair, differences, find_pairs, ranks
from glasstream.explain.sampling.reservoir import Reservoir, Wanted

CALIBRATION = 300
"""Most consecutive rows from which the bins of a series are made. They raise no alarm."""
SAMPLED = 600
"""Most rows of a sample of all rows before, from which bins are made, too."""
LOOKED_AT = 1_000
"""Number of rows after which bins are made again if they no longer tell values apart, and after twice as many, and so
on.
"""
RESTLESS = 2
"""A feature or pair whose values have moved for good this often, such as a date, opens no incident. It remains
evidence.
"""

STEP = 250
"""Rows between levels that are kept. `Series.feed` ends where one is."""

NO_TIME: Final = np.iinfo(np.int64).min
"""Time of an event that has none."""

_NUMBERS = 10_000  # that calibration keeps: wide streams calibrate on fewer rows
_NUMBERS_SAMPLED = 60_000  # of wide streams, fewer rows are sampled
_FEWEST = 60  # rows
_STEPS = 5  # levels of earlier rows that are kept
_NOT_FED = ("begun", "run_origin", "origin", "level_origin")
_ABOUT = 2  # first columns of the sample: number and loss of each row
_TEXT = 2  # kind of a feature
_BUDGET_ROWS = 100_000.0
_SHARES = {"input": 0.5, "label": 0.1, "loss": 0.25, "reasoning": 0.1, "local": 0.05}  # of the budget

Floats = NDArray[np.float64]

_OF: Final = "incidents"
_LARGEST_RANKS: Final = 1e6  # of a sum of up to 128 ranks or deviations, which are small, and of its square
_BETS: Final = ("values", betting.VALUE_BETS)
_LEVEL_BETS: Final = ("levels", betting.LEVEL_BETS)
_WEALTH: Final = betting.MOST_WEALTH
_VALUES: Final = {
    "edges": Field("f8", ("values", betting.EDGES), -FINITE, FINITE),
    "used": Field("i8", ("values",), -1, betting.EDGES, start=-1),
    "begun": Field("i8", ("values",), -1, MOST, start=-1),
    "counts": Field("f8", ("values", betting.BINS + 1), 0, MOST, whole=True),
    "risk": Field("f8", ("values", betting.BINS)),
    "answer": Field("f8", ("values", betting.BINS)),
    "seen": Field("i8", ("values",), 0, MOST),
    "open_sums": Field("f8", ("values", 2 * betting.SCALES), -_LARGEST_RANKS, _LARGEST_RANKS),
    "squares": Field("f8", ("values", 2 * betting.SCALES), 0.0, _LARGEST_RANKS),
    "block": Field("i8", ("values",), 1, betting.LONGEST, start=1),
    "members": Field("i8", ("values", 2), -1, MOST, start=-1),
    "gathered": Field("i8", ("values",), 0, betting.LONGEST),
    "cells": Field("i8", ("values", 2), 0, MOST),
    "last": Field("f8", ("values",), -FINITE, FINITE, missing=True, start=np.nan),
    "runs": Field("i8", ("values", 2), -MOST, MOST),
    "run_origin": Field("i8", ("values", 2), -(2.0**63), 2.0**63),
    "product": Field("f8", _BETS, 0.0, _WEALTH, start=1),
    "wealth": Field("f8", _BETS, 0.0, _WEALTH),
    "best": Field("f8", _BETS, 0.0, _WEALTH, start=1),
    "start": Field("i8", _BETS, 0, MOST),
    "origin": Field("i8", (*_BETS, 2), -(2.0**63), 2.0**63),
}
"""Arrays of series of values."""
_LEVELS: Final = {
    "mean": Field("f8", ("levels",)),
    "robust": Field("f8", ("levels",)),
    "variance": Field("f8", ("levels",), 0.0, LARGEST_SQUARE),
    "number": Field("f8", ("levels",), 0, MOST, whole=True),
    "level_open_sums": Field("f8", ("levels", betting.SCALES), -_LARGEST_RANKS, _LARGEST_RANKS),
    "level_squares": Field("f8", ("levels", betting.SCALES), 0.0, _LARGEST_RANKS),
    "level_block": Field("i8", ("levels",), 1, betting.LONGEST, start=1),
    "level_gathered": Field("i8", ("levels",), 0, betting.LONGEST),
    "level_product": Field("f8", _LEVEL_BETS, 0.0, _WEALTH, start=1),
    "level_wealth": Field("f8", _LEVEL_BETS, 0.0, _WEALTH),
    "level_best": Field("f8", _LEVEL_BETS, 0.0, _WEALTH, start=1),
    "level_start": Field("i8", _LEVEL_BETS, 0, MOST),
    "level_origin": Field("i8", (*_LEVEL_BETS, 2), -(2.0**63), 2.0**63),
}
"""Arrays of series of levels."""
_CALIBRATION: Final = {
    "buffer": Field("f8", ("kept", "calibrating"), -FINITE, FINITE, missing=True),
    "sample": Field("f8", ("sampled", "columns"), -FINITE, FINITE, missing=True),
    "earlier": Field("f8", ("rows", 2, "levels"), -LARGEST_SQUARE, LARGEST_SQUARE, missing=True),
}


class SeriesMeta(msgspec.Struct):
    """JSON values of the state of `Series`."""

    kinds: list[Annotated[int, msgspec.Meta(ge=0, le=_TEXT)]]
    calibrating: list[Count]
    learned: Count
    pairs: list[Pair]
    rows_of_earlier: Annotated[list[Count], msgspec.Meta(max_length=_STEPS)]
    moves: list[tuple[Annotated[list[Count], msgspec.Meta(min_length=1, max_length=2)], Count]]


class Name(NamedTuple):
    """One series: its side, and the slot of the feature or the place of the pair (0 for label and loss).

    The sides are `input`, `pair` (the difference of two features that are almost the same), `label`, `loss` and
    `reasoning`.
    """

    side: str
    slot: int


@dataclass(slots=True)
class Series:
    """All series of one stream, as arrays with one entry for the label or loss, and one for each feature.

    Arrays of values also have one entry for each pair. A pair is found when its features calibrate together. It ends
    when one of them starts over; then the other one does, too.

    Parameters
    ----------
    budget
        Expected number of false alarms in 100,000 rows of a stream that does not change, all series together.
    """

    budget: float
    arrays: dict[str, NDArray[Any]] = field(default_factory=lambda: {**_fresh_values(1), **_fresh_levels(1)})
    kinds: list[int] = field(default_factory=list)
    """Kinds of the features: 0 number, 1 boolean, 2 text."""
    pairs: list[Pair] = field(default_factory=list)
    calibrating: list[int] = field(default_factory=lambda: [0])
    """Series of values whose bins are being made."""
    buffer: Floats = field(default_factory=lambda: np.empty((0, 1)))
    """Values of these series."""
    learned: int = 0
    """Number of rows that later rows are compared with, or were before a change."""
    sample: Floats = field(default_factory=lambda: np.full((sampled_rows(0), _ABOUT + 1), np.nan))
    """(k, 3 + d) a sample of these rows: number, loss, label and inputs of each. The first `learned` have come."""
    moves: dict[tuple[int, ...], int] = field(default_factory=dict)
    """How often the values of a feature or a pair have moved for good, by slots."""
    rows_of_earlier: list[int] = field(default_factory=list)
    """The rows after which `earlier` was kept."""
    earlier: Floats = field(default_factory=lambda: np.empty((0, 2, 1)))
    """(k, 2, 1 + d) mean, within bounds, and variance of the levels after each of k earlier rows; NaN if unknown."""

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.kinds)

    def widen(self, kinds: Sequence[int]) -> None:
        """Add series for more features, given the kinds of all."""
        more, end = len(kinds) - self.width, 1 + self.width
        for name, fresh in {**_fresh_values(more), **_fresh_levels(more)}.items():
            array = self.arrays[name]
            self.arrays[name] = np.concatenate([array[:end], fresh, array[end:]])
        self.earlier = np.pad(self.earlier, ((0, 0), (0, 0), (0, more)), constant_values=np.nan)
        self.kinds = list(kinds)
        kept = np.full((sampled_rows(self.width), self.sample.shape[1] + more), np.nan)
        kept[:, : self.sample.shape[1]] = self.sample[: len(kept)]
        self.sample = kept
        if not len(self.buffer):
            self._calibrate_next()

    def watch_pair(self, pair: Pair) -> None:
        """Add a series for the difference of two features."""
        self.pairs.append(pair)
        for name, fresh in _fresh_values(1).items():
            self.arrays[name] = np.concatenate([self.arrays[name], fresh])
        self.arrays["members"][-1] = 1 + pair.first, 1 + pair.second

    @property
    def until_due(self) -> int:
        """Number of rows that `feed` may get at once."""
        return self._calibration_rows - len(self.buffer) if self.calibrating else 1 << 40

    def feed(
        self,
        first_row: int,
        values: Floats,
        levels: Floats,
        events: NDArray[np.int64],
        key: NDArray[np.uint64],
        muted: Collection[Name],
        *,
        learn: bool,
    ) -> tuple[int, Name | None]:
        """Feed rows until one series exceeds its limit, and return how many were fed, and that series.

        Fewer rows may be fed without an alarm.

        Parameters
        ----------
        values, levels
            (n, 1 + d) labels and inputs; losses and contributions.
        events
            (n, 2) number and time of each row's event.
        muted
            Series that raise no alarm.
        learn
            Whether later rows are compared with these, too.
        """
        if learn:
            most = min(STEP - int(self.arrays["number"][0]) % STEP, until_looked_at(self.learned))
            values, levels, events = values[:most], levels[:most], events[:most]
        limits = self._limits()
        for name in [*muted, *self._restless()]:
            prefix, place = self._place(name)
            limits[prefix != ""][place] = np.inf
        tested = (array for name, array in self.arrays.items() if name not in _NOT_FED)
        with_pairs = np.hstack([values, differences(values[:, 1:], self.pairs)]) if self.pairs else values
        fed, place = betting.feed(first_row, with_pairs, levels, learn, key, *limits, *tested)
        for prefix in ("", "level_"):
            start = self.arrays[prefix + "start"]
            fresh = start >= first_row
            self.arrays[prefix + "origin"][fresh] = events[start[fresh] - first_row]
        begun = first_row + fed - self.arrays["runs"][:, 0]
        fresh = (begun >= first_row) & (begun < first_row + fed)
        self.arrays["run_origin"][fresh] = events[begun[fresh] - first_row]
        if learn:
            self._add_to_sample(values[:fed], levels[:fed, 0], key)
        if self.calibrating:
            self.buffer = np.concatenate([self.buffer, values[:fed, self.calibrating]])
            if len(self.buffer) >= self._calibration_rows:
                self._calibrate()
        if learn and self.arrays["number"][0] % STEP == 0:
            now = np.stack([self.arrays["robust"], self.arrays["variance"]])
            self.earlier = np.concatenate([self.earlier, now[np.newaxis]])[-_STEPS:]
            self.rows_of_earlier = [*self.rows_of_earlier, first_row + int(fed)][-_STEPS:]
        if learn and fed and until_looked_at(self.learned) == self.learned:  # twice as many are due next
            self._look_at_bins()
        return int(fed), self._name(int(place))

    def _add_to_sample(self, values: Floats, losses: Floats, key: NDArray[np.uint64]) -> None:
        numbers = np.arange(self.learned, self.learned + len(values), dtype=np.float64)
        reservoir = Reservoir(len(self.sample), "uniform", key, self.sample)
        rows = np.column_stack([numbers, losses, values])
        reservoir.serve(rows, self.learned, self.learned + len(rows), Wanted())
        self.learned += len(rows)

    def _look_at_bins(self) -> None:
        """Make the bins again of which one has so many values that it hides how these are distributed.

        Bins of evidence stay as they are.
        """
        strong = self.strong()
        values = [name for name in self.names if name.side in ("label", "input", "pair")]
        crowded = [name for name in values if name not in strong and self.histogram(name).crowded]
        slots = {slot for name in crowded if name.side != "label" for slot in self._slots(name)}
        slots |= self._end_pairs(slots)
        for place in [0] * (Name("label", 0) in crowded) + [1 + slot for slot in slots]:
            self._clear_bins(place)
        if crowded and not self.calibrating:
            self._calibrate_next()

    def histogram(self, name: Name) -> Histogram:
        """Return the values of a feature, a pair or the label that later rows are compared with."""
        return self._histogram(self._place(name)[1])

    def _histogram(self, place: int) -> Histogram:
        edges = self.arrays["edges"][place, : max(0, int(self.arrays["used"][place]))]
        counts, risk, answer = (self.arrays[name][place, : betting.BINS] for name in ("counts", "risk", "answer"))
        return Histogram(edges, counts, risk, answer, int(self.arrays["block"][place]))

    @property
    def past_inputs(self) -> Floats:
        """(k, d) a sample of the inputs of all rows that later ones are compared with, or were before a change."""
        return self.sample[: self.learned, _ABOUT + 1 :]

    def has_frozen(self, slot: int) -> bool:
        """Return whether a feature has had one value for so much longer than ever before that it has frozen."""
        seen, counts = (self.arrays[name][1 + slot] for name in ("seen", "counts"))
        present, longest = self.runs(Name("input", slot))
        return bool(betting.has_frozen(present, longest, seen, counts, self._limits()[0][1 + slot]))

    def runs(self, name: Name) -> tuple[int, int]:
        """Return the rows of the present run of equal values, missing ones included, and of the longest one before."""
        present, longest = self.arrays["runs"][self._place(name)[1]]
        return int(present), int(longest)

    def levels_before(self, row: int) -> tuple[Floats, Floats]:
        """Return the mean and variance of levels: of the loss those of now, and of importance those before a row.

        An alarm about importance may come a thousand rows after the change, which has become part of the mean by then.
        If the row is further back, the change was so gradual that the importance of now is returned.
        """
        mean, variance = self.arrays["robust"].copy(), self.arrays["variance"].copy()
        place = int(np.searchsorted(self.rows_of_earlier, row, "right")) - 1
        if place >= 0:
            earlier = self.earlier[place]
            known = ~np.isnan(earlier[0])
            known[0] = False
            mean[known], variance[known] = earlier[0, known], earlier[1, known]
        return mean, variance

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the smallest and largest levels that are no outliers."""
        robust, spread = self.arrays["robust"], np.sqrt(self.arrays["variance"])
        reach = np.where(spread > 0.0, betting.FURTHEST * spread, np.inf)
        return robust - reach, robust + reach

    @property
    def names(self) -> list[Name]:
        """All series."""
        slots = range(self.width)
        of_features = [Name(side, slot) for side in ("input", "reasoning") for slot in slots]
        return [Name("label", 0), Name("loss", 0), *of_features, *(Name("pair", p) for p in range(len(self.pairs)))]

    def strong(self) -> set[Name]:
        """Return the series whose wealth is strong evidence of a change: nearly what raises an alarm."""
        strong = {
            prefix: self.arrays[prefix + "wealth"].sum(axis=1) * self.arrays[prefix + "block"] > betting.STRONG * limits
            for prefix, limits in zip(("", "level_"), self._limits(), strict=True)
        }
        places = {name: self._place(name) for name in self.names}
        return {name for name, (prefix, place) in places.items() if strong[prefix][place]}

    def strength(self, name: Name) -> float:
        """Return the logarithm to base 10 of the mean wealth of a series."""
        prefix, place = self._place(name)
        return float(np.log10(max(1.0, self.arrays[prefix + "wealth"][place].mean())))

    def evidence(self, name: Name) -> float:
        """Return the evidence that a series has changed, divided by what raises an alarm."""
        prefix, place = self._place(name)
        return float(self.arrays[prefix + "wealth"][place].sum()) / self.need(name)

    def need(self, name: Name) -> float:
        """Return the summed wealth of the bets of a series above which it raises an alarm."""
        prefix, place = self._place(name)
        return float(self._limits()[prefix != ""][place] / self.arrays[prefix + "block"][place])

    @property
    def need_of_cell(self) -> float:
        """Wealth of a bet on the loss at some values of one feature above which it raises an alarm."""
        return _BUDGET_ROWS / self.budget * max(1, self.width) / _SHARES["local"]

    def starts(self, name: Name, row: int) -> NDArray[np.int64]:
        """Return the first rows of the change that strong bets suggest, each with the number and time of its event.

        The strongest bet comes first. There are none if no bet wins. A feature that has frozen did so at the first row
        of its run.

        Parameters
        ----------
        row
            The newest row.
        """
        prefix, place = self._place(name)
        if name.side == "input" and self.has_frozen(name.slot):
            return np.array([[row + 1 - self.arrays["runs"][place, 0], *self.arrays["run_origin"][place]]])
        best, start = self.arrays[prefix + "best"][place], self.arrays[prefix + "start"][place]
        order = np.argsort(-best, kind="stable")
        won = order[best[order] > max(1.0, float(best.max()) ** 0.5)]
        if not prefix and (won < betting.TILTS).any():
            won = won[won < betting.TILTS]  # bets on cells are played seldom, so that their start is less exact
        return np.column_stack([start[won], self.arrays[prefix + "origin"][place, won]])

    def forget_bets(self, of: Iterable[Name] | None = None) -> None:
        """Start all bets over, or those of some series. Levels start over together, because a model moves them all."""
        if of is None:
            self._forget_bets("", slice(None))
        places = [] if of is None else [self._place(name) for name in of]
        if of is None or any(prefix for prefix, _ in places):
            self.forget_levels()
        for prefix, place in places:
            if not prefix:
                self._forget_bets(prefix, slice(place, place + 1))

    def forget_levels(self) -> None:
        """Start the bets on levels over."""
        self._forget_bets("level_", slice(None))

    @property
    def muted(self) -> list[int]:
        """Features that open no incident any more by moving alone."""
        return [name.slot for name in self._restless() if name.side == "input"]

    def _restless(self) -> list[Name]:
        """Return the features and pairs that open no incident any more by moving alone."""
        often = {slots for slots, moves in self.moves.items() if moves >= RESTLESS}
        if not often:
            return []
        features = [Name("input", slot) for slot in range(self.width) if (slot,) in often]
        return features + [Name("pair", place) for place, pair in enumerate(self.pairs) if pair[:2] in often]

    def renew(
        self,
        moved: Iterable[Name],
        *,
        answers: bool,
        broken: bool = False,
        since: Floats | None = None,
        keep: Name | None = None,
    ) -> None:
        """Compare the series that have moved for good with later rows only, and let the importance settle.

        Parameters
        ----------
        answers
            Whether equal inputs have other labels now, so that every feature starts over.
        broken
            Whether features broke or came alive, which does not count as a move.
        since
            (s, BINS) number of the values since the move in each bin of each series. A feature keeps its bins, with
            these numbers, if they still tell its values apart.
        keep
            A series whose bets go on.
        """
        self.forget_bets(name for name in self.names if name != keep)
        self._let_settle(slice(1, None))
        self.rows_of_earlier, self.earlier = [], self.earlier[:0]
        anew = set(range(self.width)) if answers else set()
        for side, slot in moved:
            if side == "loss":
                self._let_settle(slice(0, 1))
            elif side == "label":
                self._begin_anew(0)
            elif side in ("input", "pair"):
                slots = self._slots(Name(side, slot))
                fits = side == "input" and since is not None and self.histogram(Name(side, slot)).fits(since[1 + slot])
                if fits and since is not None:
                    self.arrays["counts"][1 + slot] = [*since[1 + slot], since[1 + slot].sum()]
                else:
                    anew.update(slots)
                self.moves[slots] = self.moves.get(slots, 0) + (not broken)
                if broken:
                    self.arrays["runs"][self._place(Name(side, slot))[1], 0] = -MOST // 2  # no run of its own
        for slot in anew | self._end_pairs(anew):
            self._begin_anew(1 + slot)
        if not self.calibrating:
            self._calibrate_next()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        meta: dict[str, Any] = {
            "kinds": self.kinds,
            "calibrating": self.calibrating,
            "learned": self.learned,
            "pairs": [list(pair) for pair in self.pairs],
            "rows_of_earlier": self.rows_of_earlier,
            "moves": list(self.moves.items()),
        }
        return meta, {
            "buffer": self.buffer,
            "sample": self.sample[: self.learned],
            "earlier": self.earlier,
            **self.arrays,
        }

    def restore(self, saved: SeriesMeta, arrays: Mapping[str, NDArray[Any]], row: int) -> None:
        """Restore a saved state of a stream whose newest row is `row`.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        self.widen(saved.kinds)
        width = self.width
        for pair in saved.pairs:
            fits = 0 <= pair.first < width and 0 <= pair.second < width and pair.first != pair.second
            form.expect(fits, f"pairs of {width} features", list(pair), _OF)
            self.watch_pair(pair)
        members = self.arrays["members"]
        found = form.read(_VALUES, arrays, _OF, values=1 + width + len(self.pairs))
        found |= form.read(_LEVELS, arrays, _OF, levels=1 + width)
        held = min(saved.learned, len(self.sample))
        sizes = {"calibrating": len(saved.calibrating), "rows": len(saved.rows_of_earlier), "levels": 1 + width}
        sizes |= {"sampled": held, "columns": _ABOUT + 1 + width}
        found |= form.read(_CALIBRATION, arrays, _OF, **sizes)
        form.expect(np.array_equal(found["members"], members), "members that are those of the pairs", members, _OF)
        self.calibrating, self.learned = saved.calibrating, saved.learned
        self.sample[:held] = found.pop("sample")
        self.buffer, self.earlier = found.pop("buffer"), found.pop("earlier")
        self.rows_of_earlier, self.arrays = saved.rows_of_earlier, found
        self.moves = {tuple(slots): moves for slots, moves in saved.moves}
        self._check(row)

    def _check(self, row: int) -> None:
        """Raise FrameError unless the parts of a restored state fit each other and the newest row."""
        used, edges, width = self.arrays["used"], self.arrays["edges"], self.width
        begun = np.flatnonzero(used[: 1 + width] < 0)
        fits = self.calibrating == sorted(set(self.calibrating)) and set(self.calibrating) <= set(begun.tolist())
        form.expect(fits, f"calibration of series without bins, of {begun.tolist()}", self.calibrating, _OF)
        form.expect((used[1 + width :] >= 0).all(), "bins of each pair", used[1 + width :], _OF)
        most = self._calibration_rows if self.calibrating else 1
        form.expect(len(self.buffer) < most, f"fewer than {most} rows of a calibration", len(self.buffer), _OF)
        inside = np.arange(1, betting.EDGES) < used[:, np.newaxis]
        form.expect((np.diff(edges) > 0)[inside].all(), "edges in ascending order", edges, _OF)
        blocks = self.arrays["cells"][:, 1]
        form.expect((blocks < betting.CELL_BLOCKS).all(), f"fewer than {betting.CELL_BLOCKS} blocks", blocks, _OF)
        counts = self.arrays["counts"]
        wrong = counts[:, : betting.BINS].sum(axis=1) != counts[:, betting.BINS]
        form.expect(not wrong.any(), "as many values of a series as in all its bins", np.flatnonzero(wrong), _OF)
        form.expect((np.abs(edges[0]) <= form.LARGEST).all(), f"labels within ±{form.LARGEST:g}", edges[0], _OF)
        for prefix in ("", "level_"):
            start, seqs = self.arrays[prefix + "start"], self.arrays[prefix + "origin"][..., 0]
            form.expect(start.max() <= row, f"bets that began up to row {row}", start.max(), _OF)
            form.expect(seqs.min() >= 0, "events from 0 on as origins", seqs.min(), _OF)
        runs, seqs = self.arrays["runs"][:, 0], self.arrays["run_origin"][:, 0]
        possible = (runs <= row + 1).all() and (seqs >= 0).all()
        form.expect(possible, f"runs of up to {row + 1} rows that began at events from 0 on", runs, _OF)
        form.expect((self.arrays["begun"] <= self.learned).all(), f"series of {self.learned} rows", self.learned, _OF)
        about = self.sample[: self.learned, :_ABOUT]
        known = np.isfinite(about).all() and (about[:, 0] >= 0).all() and (about[:, 0] < self.learned).all()
        form.expect(known, f"numbers below {self.learned} and losses of sampled rows", about, _OF)
        variances = self.earlier[:, 1]
        form.expect(not (variances < 0).any(), "variances from 0 on", variances, _OF)
        form.expect((np.isnan(self.earlier[:, 0]) == np.isnan(variances)).all(), "means with variances", variances, _OF)

    def _end_pairs(self, anew: Collection[int]) -> set[int]:
        """End the pairs of features that start over, and return the features of these pairs."""
        lasts = [pair.first not in anew and pair.second not in anew for pair in self.pairs]
        keep = np.array([True] * (1 + self.width) + lasts)
        for name in _fresh_values(0):
            self.arrays[name] = self.arrays[name][keep]
        ended = {slot for pair, last in zip(self.pairs, lasts, strict=True) if not last for slot in pair[:2]}
        self.pairs = [pair for pair, last in zip(self.pairs, lasts, strict=True) if last]
        return ended

    def _let_settle(self, places: slice) -> None:
        self.arrays["number"][places], self.arrays["level_open_sums"][places] = 0.0, 0.0

    def _slots(self, name: Name) -> tuple[int, ...]:
        """Return the slot of a feature, or those of a pair."""
        return (name.slot,) if name.side == "input" else self.pairs[name.slot][:2]

    def _begin_anew(self, place: int) -> None:
        self.arrays["begun"][place] = -1
        self._clear_bins(place)

    def _clear_bins(self, place: int) -> None:
        self.arrays["used"][place] = -1
        for name in ("counts", "risk", "answer", "open_sums", "squares"):
            self.arrays[name][place] = 0.0

    def _limits(self) -> tuple[Floats, Floats]:
        rows, d = _BUDGET_ROWS / self.budget, max(1, self.width)
        inputs = self.width + len(self.pairs)
        values = np.full(1 + inputs, rows * max(1, inputs) / _SHARES["input"])
        values[0] = rows / _SHARES["label"]
        levels = np.full(1 + self.width, rows * d / _SHARES["reasoning"])
        levels[0] = rows / _SHARES["loss"] / 2  # half of its bets play
        return values * betting.STARTS, levels * betting.LEVEL_BETS

    def _name(self, place: int) -> Name | None:
        """Return the series at a place that `glasstream.detect.incidents.betting.feed` found."""
        if place < 0:
            return None
        level = place - len(self.arrays["used"])
        if level >= 0:
            return Name("reasoning", level - 1) if level else Name("loss", 0)
        if place > self.width:
            return Name("pair", place - 1 - self.width)
        return Name("input", place - 1) if place else Name("label", 0)

    def _place(self, name: Name) -> tuple[str, int]:
        """Return the prefix of the arrays of a series, and its place in them."""
        if name.side == "pair":
            return "", 1 + self.width + name.slot
        prefix = "level_" if name.side in ("loss", "reasoning") else ""
        return prefix, name.slot + (name.side in ("input", "reasoning"))

    def _forget_bets(self, prefix: str, which: slice) -> None:
        for name, fresh in (("wealth", 0.0), ("best", 1.0), ("product", 1.0), ("gathered", 0)):
            self.arrays[prefix + name][which] = fresh
        if not prefix:
            self.arrays["cells"][which] = 0

    @property
    def _calibration_rows(self) -> int:
        return max(_FEWEST, min(CALIBRATION, _NUMBERS // max(1, len(self.calibrating))))

    def _calibrate_next(self) -> None:
        self.calibrating = [int(place) for place in np.flatnonzero(self.arrays["used"] < 0)]
        self.buffer = np.empty((0, len(self.calibrating)))

    def _calibrate(self) -> None:
        """Make the bins of the series whose values have been kept, and find pairs among these features."""
        held = self.sample[: self.learned]
        earlier = held[held[:, 0] < self.learned - len(self.buffer)]
        for column, place in enumerate(self.calibrating):
            self._make_bins(place, self.buffer[:, column], earlier, earlier[:, _ABOUT + place])
        numbers = [column for column, place in enumerate(self.calibrating) if place and self.kinds[place - 1] != _TEXT]
        pairs = find_pairs(self.buffer[:, numbers], numbers)
        between = differences(self.buffer, pairs)
        for pair, values in zip(pairs, between.T, strict=True):
            first, second = (self.calibrating[column] - 1 for column in pair[:2])
            self.watch_pair(Pair(first, second, pair.ratio))
            self.arrays["begun"][-1] = self.arrays["begun"][[1 + first, 1 + second]].max()
            before = differences(earlier[:, _ABOUT + 1 :], self.pairs[-1:])[:, 0]
            self._make_bins(self.width + len(self.pairs), values, earlier, before)
        self._calibrate_next()

    def _make_bins(self, place: int, values: Floats, earlier: Floats, before: Floats) -> None:
        """Make a bin for each value, or between quantiles, and find out how many rows tell as much as one.

        Parameters
        ----------
        values
            (n,) consecutive values of the series.
        earlier, before
            (k, 3 + d) sample of all rows before them, and (k,) values of the series in it. Those since the series began
            are counted.
        """
        both = np.concatenate([before, values])
        present = np.sort(both[~np.isnan(both)])
        edges = np.unique(present)
        if len(edges) > betting.EDGES:
            edges = np.unique(present[np.linspace(0, len(present) - 1, betting.EDGES).astype(np.int64)])
        self.arrays["edges"][place] = 0.0
        self.arrays["edges"][place, : len(edges)] = edges
        self.arrays["used"][place] = len(edges)
        self._find_block(place, values)
        self._forget_bets("", slice(place, place + 1))
        if self.arrays["begun"][place] < 0:
            self.arrays["begun"][place] = self.learned
        since = earlier[:, 0] >= self.arrays["begun"][place]
        self._count(place, earlier[since], before[since])

    def _count(self, place: int, rows: Floats, values: Floats) -> None:
        """Count the values of a series in a sample of rows as those that later ones are compared with."""
        bins = self._histogram(place).bins(values)
        counts = np.bincount(bins, minlength=betting.BINS)
        self.arrays["counts"][place] = [*counts, len(rows)]
        low, high = self.bounds()
        losses = np.clip(rows[:, 1], low[0], high[0])
        labels = self._histogram(0).clipped(rows[:, 2])
        for name, numbers in (("risk", losses), ("answer", labels)):
            self.arrays[name][place] = np.bincount(bins, numbers, betting.BINS) / np.maximum(1, counts)

    def _find_block(self, place: int, values: Floats) -> None:
        betting.sum_first_ranks(ranks(values), self.arrays["open_sums"], self.arrays["squares"], place)
        self.arrays["seen"][place] = len(values)
        block, members = self.arrays["block"], self.arrays["members"]
        block[place] = betting.block_of_values(len(values), self.arrays["squares"], place)
        betting.raise_to_members(block, members, place)


def sampled_rows(features: int) -> int:
    """Return the number of rows of the sample of a stream.

    >>> [sampled_rows(features) for features in (0, 10, 200, 5_000)]
    [600, 600, 295, 60]
    """
    return max(_FEWEST, min(SAMPLED, _NUMBERS_SAMPLED // (_ABOUT + 1 + features)))


def until_looked_at(learned: int) -> int:
    """Return the number of rows until bins are looked at again.

    >>> [until_looked_at(learned) for learned in (0, 999, 1_000, 1_001, 2_000)]
    [1000, 1, 1000, 999, 2000]
    """
    due = LOOKED_AT
    while due <= learned:
        due *= 2
    return due - learned


def warm_up() -> None:
    """Compile what runs when rows join the sample, and when bins are made."""
    series = Series(1.0)
    series._add_to_sample(np.zeros((1, 1)), np.zeros(1), np.zeros(2, np.uint64))
    series._find_block(0, np.zeros(1))
    series._count(0, series.sample[:1], np.zeros(1))


def _fresh_values(number: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of series of values without rows, in the order that `glasstream.detect.incidents.betting.feed`
    takes, and the events at which bets began.
    """
    return form.empty(_VALUES, values=number)


def _fresh_levels(number: int) -> dict[str, NDArray[Any]]:
    """Return the same of series of levels."""
    return form.empty(_LEVELS, levels=number)
