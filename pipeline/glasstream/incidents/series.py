"""The watched series of one stream: their bins, their bets, and which of them exceed their share of the budget."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.incidents import betting
from glasstream.incidents.histogram import Histogram

CALIBRATION = 300
"""Most rows from which the bins of a series are made. They raise no alarm."""
RESTLESS = 2
"""A feature whose values have moved for good this often, such as a date, opens no incident. It remains evidence."""

_NUMBERS = 10_000  # that calibration keeps: wide streams calibrate on fewer rows
_FEWEST = 60  # rows
_ORIGINS = ("origin", "level_origin")
_BUDGET_ROWS = 100_000.0
_SHARES = {"input": 0.5, "label": 0.1, "loss": 0.25, "reasoning": 0.15}  # of the budget

Floats = NDArray[np.float64]


class Name(NamedTuple):
    """One series: `input`, `label`, `loss` or `reasoning`, and the feature's slot (0 for label and loss)."""

    side: str
    slot: int


@dataclass(slots=True)
class Series:
    """All series of one stream, as arrays with one entry for the label and loss, and one for each feature.

    Parameters
    ----------
    budget
        Expected number of false alarms in 100,000 rows of a stream that does not change, all series together.
    """

    budget: float
    arrays: dict[str, NDArray[Any]] = field(default_factory=lambda: _fresh(1))
    calibrating: list[int] = field(default_factory=lambda: [0])
    """Series of values whose bins are being made."""
    buffer: Floats = field(default_factory=lambda: np.empty((0, 1)))
    """Values of these series."""
    moves: dict[int, int] = field(default_factory=dict)
    """How often the values of a feature have moved for good, by slot."""

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.arrays["used"]) - 1

    def widen(self, features: int) -> None:
        """Add series for more features."""
        fresh = _fresh(features - self.width)
        self.arrays = {name: np.concatenate([array, fresh[name]]) for name, array in self.arrays.items()}
        if not len(self.buffer):
            self._calibrate_next()

    @property
    def until_due(self) -> int:
        """Number of rows that `feed` may get at once."""
        return self._calibration_rows - len(self.buffer) if self.calibrating else 1 << 40

    def feed(
        self,
        first_row: int,
        begin: int,
        values: Floats,
        levels: Floats,
        events: NDArray[np.int64],
        key: NDArray[np.uint64],
        muted: Collection[Name],
        *,
        learn: bool,
    ) -> tuple[int, Name | None]:
        """Feed rows until one series exceeds its limit, and return the index after the last row and that series.

        Parameters
        ----------
        events
            (n, 2) number and time of each row's event.
        muted
            Series that raise no alarm.
        learn
            Whether later rows are compared with these, too.
        """
        limits = self._limits()
        for name in muted:
            prefix, place = _place(name)
            limits[int(prefix != ""), place] = np.inf
        tested = (array for name, array in self.arrays.items() if name not in _ORIGINS)
        end, place = betting.feed(first_row, begin, values, levels, learn, key, *limits, *tested)
        for prefix in ("", "level_"):
            start = self.arrays[prefix + "start"]
            fresh = start >= first_row + begin
            self.arrays[prefix + "origin"][fresh] = events[start[fresh] - first_row]
        if self.calibrating:
            self.buffer = np.concatenate([self.buffer, values[begin:end, self.calibrating]])
            if len(self.buffer) >= self._calibration_rows:
                self._calibrate()
        return int(end), self._name(int(place))

    def histogram(self, slot: int | None) -> Histogram:
        """Return the values of a feature, or of the label, that later rows are compared with."""
        place = 0 if slot is None else 1 + slot
        edges = self.arrays["edges"][place, : max(0, int(self.arrays["used"][place]))]
        counts, risk, answer = (self.arrays[name][place, : betting.BINS] for name in ("counts", "risk", "answer"))
        return Histogram(edges, counts, risk, answer, int(self.arrays["block"][place]))

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the smallest and largest levels that are no outliers."""
        robust, spread = self.arrays["robust"], np.sqrt(self.arrays["variance"])
        reach = np.where(spread > 0.0, betting.FURTHEST * spread, np.inf)
        return robust - reach, robust + reach

    @property
    def names(self) -> list[Name]:
        """All series."""
        slots = range(self.width)
        return [Name("label", 0), Name("loss", 0), *(Name(side, j) for side in ("input", "reasoning") for j in slots)]

    def strength(self, name: Name) -> float:
        """Return the logarithm to base 10 of the mean wealth of a series."""
        prefix, place = _place(name)
        return float(np.log10(max(1.0, self.arrays[prefix + "wealth"][place].mean())))

    def starts(self, name: Name) -> NDArray[np.int64]:
        """Return the first rows of the change that strong bets suggest, each with the number and time of its event.

        The strongest bet comes first. There are none if no bet wins.
        """
        prefix, place = _place(name)
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
        if answers:
            for place in range(1, 1 + self.width):
                self._begin_anew(place)
        for side, slot in moved:
            if side == "loss":
                self._let_settle(slice(0, 1))
            elif side == "label":
                self._begin_anew(0)
            elif side == "input":
                self._begin_anew(1 + slot)
                self.moves[slot] = self.moves.get(slot, 0) + 1
        if not self.calibrating:
            self._calibrate_next()

    def _let_settle(self, places: slice) -> None:
        self.arrays["number"][places], self.arrays["level_open_sums"][places] = 0.0, 0.0

    def _begin_anew(self, place: int) -> None:
        self.arrays["used"][place] = -1
        for name in ("counts", "risk", "answer", "open_sums", "squares"):
            self.arrays[name][place] = 0.0

    def _limits(self) -> Floats:
        rows, d = _BUDGET_ROWS / self.budget, max(1, self.width)
        values = np.full(1 + self.width, rows * d / _SHARES["input"])
        values[0] = rows / _SHARES["label"]
        for slot, moves in self.moves.items():
            if moves >= RESTLESS:
                values[1 + slot] = np.inf
        levels = np.full(1 + self.width, rows * d / _SHARES["reasoning"])
        levels[0] = rows / _SHARES["loss"] / 2  # half of its bets play
        return np.stack([values * betting.VALUE_BETS, levels * betting.LEVEL_BETS])

    def _name(self, place: int) -> Name | None:
        """Return the series at a place that `glasstream.incidents.betting.feed` found."""
        if place < 0:
            return None
        level, slot = divmod(place, 1 + self.width)
        if slot == 0:
            return Name("loss" if level else "label", 0)
        return Name("reasoning" if level else "input", slot - 1)

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
        """Make the bins of the series whose values have been kept: a bin for each value, or between quantiles."""
        for column, place in enumerate(self.calibrating):
            values = self.buffer[:, column]
            present = np.sort(values[~np.isnan(values)])
            edges = np.unique(present)
            self.arrays["edges"][place] = 0.0
            if len(edges) > betting.EDGES:
                edges = np.unique(present[np.linspace(0, len(present) - 1, betting.EDGES).astype(np.int64)])
            self.arrays["edges"][place, : len(edges)] = edges
            self.arrays["used"][place] = len(edges)
            self._find_block(place, values)
            self._forget_bets("", slice(place, place + 1))
        self._calibrate_next()

    def _find_block(self, place: int, values: Floats) -> None:
        """Find out how many of the first values tell as much as one."""
        known = np.where(np.isnan(values), -np.inf, values)
        order = np.sort(known)
        ranks = np.searchsorted(order, known) + np.searchsorted(order, known, "right") - len(known)
        open_sums, squares = self.arrays["open_sums"], self.arrays["squares"]
        betting.sum_first_ranks(ranks / len(known), open_sums, squares, place)
        self.arrays["seen"][place] = len(known)
        self.arrays["block"][place] = betting.block_of_values(len(known), squares, place)


def warm_up() -> None:
    """Compile what runs when the first rows of a series are complete."""
    Series(1.0)._find_block(0, np.zeros(1))


def _fresh(number: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of series without rows, in the order that `glasstream.incidents.betting.feed` takes, and the
    events at which bets began.
    """
    values, levels = (number, betting.VALUE_BETS), (number, betting.LEVEL_BETS)
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
        "gathered": np.zeros(number, np.int64),
        "product": np.ones(values),
        "wealth": np.zeros(values),
        "best": np.ones(values),
        "start": np.zeros(values, np.int64),
        "mean": np.zeros(number),
        "robust": np.zeros(number),
        "variance": np.zeros(number),
        "number": np.zeros(number),
        "level_open_sums": np.zeros((number, betting.SCALES)),
        "level_squares": np.zeros((number, betting.SCALES)),
        "level_block": np.ones(number, np.int64),
        "level_gathered": np.zeros(number, np.int64),
        "level_product": np.ones(levels),
        "level_wealth": np.zeros(levels),
        "level_best": np.ones(levels),
        "level_start": np.zeros(levels, np.int64),
        "origin": np.zeros((*values, 2), np.int64),
        "level_origin": np.zeros((*levels, 2), np.int64),
    }


def _place(name: Name) -> tuple[str, int]:
    prefix = "level_" if name.side in ("loss", "reasoning") else ""
    return prefix, name.slot + (name.side in ("input", "reasoning"))
