"""The watched series of one stream: their bins, their bets, and which of them exceed their share of the budget."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.incidents import betting
from glasstream.incidents.histogram import Histogram
from glasstream.incidents.pairs import Pair, differences, find_pairs, ranks

CALIBRATION = 300
"""Most rows from which the bins of a series are made. They raise no alarm."""
RESTLESS = 2
"""A feature or pair whose values have moved for good this often, such as a date, opens no incident. It remains
evidence.
"""

_NUMBERS = 10_000  # that calibration keeps: wide streams calibrate on fewer rows
_FEWEST = 60  # rows
_STEP, _STEPS = 250, 5  # rows between levels that are kept, and how many of them
_ORIGINS = ("origin", "level_origin")
_TEXT = 2  # kind of a feature
_BUDGET_ROWS = 100_000.0
_SHARES = {"input": 0.5, "label": 0.1, "loss": 0.25, "reasoning": 0.15}  # of the budget

Floats = NDArray[np.float64]


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
    when one of them begins anew; then the other one does, too.

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
            most = _STEP - int(self.arrays["number"][0]) % _STEP
            values, levels, events = values[:most], levels[:most], events[:most]
        limits = self._limits()
        for name in muted:
            prefix, place = self._place(name)
            limits[prefix != ""][place] = np.inf
        tested = (array for name, array in self.arrays.items() if name not in _ORIGINS)
        with_pairs = np.hstack([values, differences(values[:, 1:], self.pairs)]) if self.pairs else values
        fed, place = betting.feed(first_row, with_pairs, levels, learn, key, *limits, *tested)
        for prefix in ("", "level_"):
            start = self.arrays[prefix + "start"]
            fresh = start >= first_row
            self.arrays[prefix + "origin"][fresh] = events[start[fresh] - first_row]
        if self.calibrating:
            self.buffer = np.concatenate([self.buffer, values[:fed, self.calibrating]])
            if len(self.buffer) >= self._calibration_rows:
                self._calibrate()
        if learn and self.arrays["number"][0] % _STEP == 0:
            now = np.stack([self.arrays["robust"], self.arrays["variance"]])
            self.earlier = np.concatenate([self.earlier, now[np.newaxis]])[-_STEPS:]
            self.rows_of_earlier = [*self.rows_of_earlier, first_row + int(fed)][-_STEPS:]
        return int(fed), self._name(int(place))

    def histogram(self, name: Name) -> Histogram:
        """Return the values of a feature, a pair or the label that later rows are compared with."""
        _, place = self._place(name)
        edges = self.arrays["edges"][place, : max(0, int(self.arrays["used"][place]))]
        counts, risk, answer = (self.arrays[name][place, : betting.BINS] for name in ("counts", "risk", "answer"))
        return Histogram(edges, counts, risk, answer, int(self.arrays["block"][place]))

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

    def strength(self, name: Name) -> float:
        """Return the logarithm to base 10 of the mean wealth of a series."""
        prefix, place = self._place(name)
        return float(np.log10(max(1.0, self.arrays[prefix + "wealth"][place].mean())))

    def starts(self, name: Name) -> NDArray[np.int64]:
        """Return the first rows of the change that strong bets suggest, each with the number and time of its event.

        The strongest bet comes first. There are none if no bet wins.
        """
        prefix, place = self._place(name)
        best, start = self.arrays[prefix + "best"][place], self.arrays[prefix + "start"][place]
        order = np.argsort(-best, kind="stable")
        won = order[best[order] > max(1.0, float(best.max()) ** 0.5)]
        return np.column_stack([start[won], self.arrays[prefix + "origin"][place, won]])

    def forget_bets(self) -> None:
        """Let all bets begin anew."""
        for prefix in ("", "level_"):
            self._forget_bets(prefix, slice(None))

    def renew(self, moved: Iterable[Name], *, answers: bool) -> None:
        """Compare the series that have moved for good with later rows only, and let the importance settle.

        Parameters
        ----------
        answers
            Whether equal inputs have other labels now, so that every feature begins anew.
        """
        self.forget_bets()
        self._let_settle(slice(1, None))
        self.rows_of_earlier, self.earlier = [], self.earlier[:0]
        anew = set(range(self.width)) if answers else set()
        for side, slot in moved:
            if side == "loss":
                self._let_settle(slice(0, 1))
            elif side == "label":
                self._begin_anew(0)
            elif side in ("input", "pair"):
                slots = (slot,) if side == "input" else self.pairs[slot][:2]
                anew.update(slots)
                self.moves[slots] = self.moves.get(slots, 0) + 1
        for slot in anew | self._end_pairs(anew):
            self._begin_anew(1 + slot)
        if not self.calibrating:
            self._calibrate_next()

    def _end_pairs(self, anew: Collection[int]) -> set[int]:
        """End the pairs of features that begin anew, and return the features of these pairs."""
        lasts = [pair.first not in anew and pair.second not in anew for pair in self.pairs]
        keep = np.array([True] * (1 + self.width) + lasts)
        for name in _fresh_values(0):
            self.arrays[name] = self.arrays[name][keep]
        ended = {slot for pair, last in zip(self.pairs, lasts, strict=True) if not last for slot in pair[:2]}
        self.pairs = [pair for pair, last in zip(self.pairs, lasts, strict=True) if last]
        return ended

    def _let_settle(self, places: slice) -> None:
        self.arrays["number"][places], self.arrays["level_open_sums"][places] = 0.0, 0.0

    def _begin_anew(self, place: int) -> None:
        self.arrays["used"][place] = -1
        for name in ("counts", "risk", "answer", "open_sums", "squares"):
            self.arrays[name][place] = 0.0

    def _limits(self) -> tuple[Floats, Floats]:
        rows, d = _BUDGET_ROWS / self.budget, max(1, self.width)
        inputs = [(slot,) for slot in range(self.width)] + [pair[:2] for pair in self.pairs]
        values = np.full(1 + len(inputs), rows * max(1, len(inputs)) / _SHARES["input"])
        values[0] = rows / _SHARES["label"]
        for place, slots in enumerate(inputs):
            if self.moves.get(slots, 0) >= RESTLESS:
                values[1 + place] = np.inf
        levels = np.full(1 + self.width, rows * d / _SHARES["reasoning"])
        levels[0] = rows / _SHARES["loss"] / 2  # half of its bets play
        return values * betting.VALUE_BETS, levels * betting.LEVEL_BETS

    def _name(self, place: int) -> Name | None:
        """Return the series at a place that `glasstream.incidents.betting.feed` found."""
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

    @property
    def _calibration_rows(self) -> int:
        return max(_FEWEST, min(CALIBRATION, _NUMBERS // max(1, len(self.calibrating))))

    def _calibrate_next(self) -> None:
        self.calibrating = [int(place) for place in np.flatnonzero(self.arrays["used"] < 0)]
        self.buffer = np.empty((0, len(self.calibrating)))

    def _calibrate(self) -> None:
        """Make the bins of the series whose values have been kept, and find pairs among these features."""
        for column, place in enumerate(self.calibrating):
            self._make_bins(place, self.buffer[:, column])
        numbers = [column for column, place in enumerate(self.calibrating) if place and self.kinds[place - 1] != _TEXT]
        pairs = find_pairs(self.buffer[:, numbers], numbers)
        between = differences(self.buffer, pairs)
        for pair, values in zip(pairs, between.T, strict=True):
            first, second = (self.calibrating[column] - 1 for column in pair[:2])
            self.watch_pair(Pair(first, second, pair.ratio))
            self._make_bins(self.width + len(self.pairs), values)
        self._calibrate_next()

    def _make_bins(self, place: int, values: Floats) -> None:
        """Make a bin for each of the first values, or between quantiles, and find out how many tell as much as one."""
        present = np.sort(values[~np.isnan(values)])
        edges = np.unique(present)
        if len(edges) > betting.EDGES:
            edges = np.unique(present[np.linspace(0, len(present) - 1, betting.EDGES).astype(np.int64)])
        self.arrays["edges"][place] = 0.0
        self.arrays["edges"][place, : len(edges)] = edges
        self.arrays["used"][place] = len(edges)
        self._find_block(place, values)
        self._forget_bets("", slice(place, place + 1))

    def _find_block(self, place: int, values: Floats) -> None:
        betting.sum_first_ranks(ranks(values), self.arrays["open_sums"], self.arrays["squares"], place)
        self.arrays["seen"][place] = len(values)
        block, members = self.arrays["block"], self.arrays["members"]
        block[place] = betting.block_of_values(len(values), self.arrays["squares"], place)
        betting.raise_to_members(block, members, place)


def warm_up() -> None:
    """Compile what runs when the first rows of a series are complete."""
    Series(1.0)._find_block(0, np.zeros(1))


def _fresh_values(number: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of series of values without rows, in the order that `glasstream.incidents.betting.feed` takes,
    and the events at which bets began.
    """
    bets = (number, betting.VALUE_BETS)
    return {
        "edges": np.zeros((number, betting.EDGES)),
        "used": np.full(number, -1),
        "counts": np.zeros((number, betting.BINS + 1)),
        "risk": np.zeros((number, betting.BINS)),
        "answer": np.zeros((number, betting.BINS)),
        "seen": np.zeros(number, np.int64),
        "open_sums": np.zeros((number, 2 * betting.SCALES)),
        "squares": np.zeros((number, 2 * betting.SCALES)),
        "block": np.ones(number, np.int64),
        "members": np.full((number, 2), -1, np.int64),
        "gathered": np.zeros(number, np.int64),
        "product": np.ones(bets),
        "wealth": np.zeros(bets),
        "best": np.ones(bets),
        "start": np.zeros(bets, np.int64),
        "origin": np.zeros((*bets, 2), np.int64),
    }


def _fresh_levels(number: int) -> dict[str, NDArray[Any]]:
    """Return the same of series of levels."""
    bets = (number, betting.LEVEL_BETS)
    return {
        "mean": np.zeros(number),
        "robust": np.zeros(number),
        "variance": np.zeros(number),
        "number": np.zeros(number),
        "level_open_sums": np.zeros((number, betting.SCALES)),
        "level_squares": np.zeros((number, betting.SCALES)),
        "level_block": np.ones(number, np.int64),
        "level_gathered": np.zeros(number, np.int64),
        "level_product": np.ones(bets),
        "level_wealth": np.zeros(bets),
        "level_best": np.ones(bets),
        "level_start": np.zeros(bets, np.int64),
        "level_origin": np.zeros((*bets, 2), np.int64),
    }
