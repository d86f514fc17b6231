"""ADWIN for many series at once: windows that grow while their mean is stable and drop old values when it changes.

`glasstream.base.adwin` describes the algorithm. Every `clock` numbers, the detector tests each boundary between two
buckets. It raises an alarm if the two means differ by more than ε. It then drops the oldest bucket and repeats the test
until no boundary fails. As in River, a detector starts over with the number after an alarm. An alarm reports the two
sides of the boundary at which the difference of the means is largest in relation to ε.

River keeps this state in an extension type that can only be pickled. Here the state is arrays, and one call processes a
block of rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.adwin import boundary, drop, enter
from glasstream.base.form import LARGEST_SQUARE, LARGEST_SUM, MOST, Field
from glasstream.base.jit import bare_kernel
from glasstream.detect.drift.detector import ANY_NUMBER, Alarm, Floats, Parameters

# Columns of `counts`: count of numbers in the window, count of bucket sizes in use, count of numbers since the detector
# began, and whether the newest number raised an alarm.
_WIDTH, _IN_USE, _TICK, _ALARMED = range(4)
# Columns of `sums`: sum and sum of squared deviations of the window.
_TOTAL, _SQUARES = range(2)

MOST_BUCKETS: Final = 1_000
"""Largest value of `max_buckets`."""
_OF: Final = "ADWIN"


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    buckets: Annotated[int, msgspec.Meta(ge=0, le=MOST_BUCKETS + 1)]


_FORM: Final = {
    "counts": Field("i8", ("series", 4), 0, MOST),
    "sums": Field("f8", ("series", 2), -LARGEST_SQUARE, LARGEST_SQUARE),
    "filled": Field("i2", ("series", "sizes"), 0, MOST_BUCKETS),
    "totals": Field("f8", ("used",), -LARGEST_SUM, LARGEST_SUM),
    "squares": Field("f8", ("used",), 0.0, LARGEST_SQUARE),
}


@dataclass(slots=True)
class Adwin:
    """ADWIN for each of s series.

    `update` takes River's parameters: ``delta`` δ, ``clock``, ``max_buckets``, ``min_window_length``, and
    ``grace_period``, the count of numbers in the window before the first test.
    """

    name: ClassVar[str] = "adwin"
    settings: ClassVar[Mapping[str, str]] = {
        "delta": "delta", "clock": "test_interval", "max_buckets": "buckets", "min_window_length": "shortest",
        "grace_period": "grace",
    }  # fmt: skip
    level: ClassVar[str | None] = "delta"
    totals: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(s, sizes, max_buckets + 1) sums of the buckets of each size, oldest first.

    The array has room only for the bucket sizes that a window of the current length can need, because `totals` and
    `squares` are the largest arrays of a stream.
    """
    squares: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(s, sizes, max_buckets + 1) sums of squared deviations of the buckets of each size, oldest first."""
    filled: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """(s, sizes) numbers of buckets of each size."""
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    """(s, 4) counters of each series."""
    sums: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    """(s, 2) sums of each window."""

    @classmethod
    def empty(cls) -> Self:
        return cls()

    def update(self, values: Floats, parameters: Parameters) -> list[Alarm]:
        rows, series = values.shape
        buckets = int(parameters["max_buckets"])
        sizes = (int(self.counts[:, _WIDTH].max(initial=0)) + rows).bit_length()
        if series > len(self.totals) or sizes > self.totals.shape[1] or buckets + 1 > self.totals.shape[2]:
            self._make_room(series, sizes, buckets + 1)
        sides = np.zeros((rows, series, 2))
        widths = np.zeros((rows, series), np.int64)
        _update(
            values, float(parameters["delta"]), int(parameters["clock"]), buckets,
            float(parameters["min_window_length"]), int(parameters["grace_period"]), *self.totals.shape[:0:-1],
            self.totals.reshape(-1), self.squares.reshape(-1), self.filled.reshape(-1), self.counts, self.sums, sides,
            widths,
        )  # fmt: skip
        return [
            Alarm(row, one, float(sides[row, one, 0]), float(sides[row, one, 1]), int(widths[row, one]))
            for row, one in np.argwhere(widths > 0).tolist()
        ]

    def _make_room(self, series: int, sizes: int, buckets: int) -> None:
        shape = tuple(map(max, (series, sizes, buckets), self.totals.shape))
        self.totals, self.squares = _widened(self.totals, shape), _widened(self.squares, shape)
        self.filled = _widened(self.filled, shape[:2])
        self.counts, self.sums = _widened(self.counts, (shape[0], 4)), _widened(self.sums, (shape[0], 2))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        used = self._used()
        return {"buckets": self.totals.shape[2]}, {
            "totals": self.totals[used],
            "squares": self.squares[used],
            "filled": self.filled[:, : int(self.counts[:, _IN_USE].max(initial=0))].astype(np.int16),
            "counts": self.counts.copy(),
            "sums": self.sums.copy(),
        }

    @classmethod
    def restore(
        cls,
        meta: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        parameters: Parameters | None = None,
        series: int = ANY_NUMBER,
    ) -> Self:
        found, places = form.read(_FORM, arrays, _OF), form.values(meta, _Meta, _OF).buckets
        counts, filled = found["counts"], found["filled"].astype(np.int64)
        form.expect(len(counts) <= series, f"at most {series} series", len(counts), _OF)
        most = max(0, places - 1) if parameters is None else int(parameters["max_buckets"])
        given = len(counts) == 0 or places == most + 1
        form.expect(given, f"room for {most + 1} buckets of each size", places, _OF)
        _check_windows(counts, filled, most)
        form.expect(found["totals"].size == filled.sum(), f"{filled.sum()} buckets", found["totals"].size, _OF)
        made = cls()
        made._make_room(len(counts), filled.shape[1], places)
        made.counts[:], made.sums[:], made.filled[:] = counts, found["sums"], filled
        used = made._used()
        made.totals[used], made.squares[used] = found["totals"], found["squares"]
        return made

    def _used(self) -> NDArray[np.bool_]:
        """Return the (s, sizes, max_buckets + 1) mask of the buckets in use."""
        return np.arange(self.totals.shape[2]) < self.filled[:, :, np.newaxis]


def _check_windows(counts: NDArray[np.int64], filled: NDArray[np.int64], most: int) -> None:
    """Raise FrameError unless the counters say of each window what its buckets say: the kernels index by both."""
    in_use, sizes = counts[:, _IN_USE], np.arange(filled.shape[1])
    form.expect(in_use.max(initial=0) == sizes.size < 53, "buckets of every size that is in use", filled.shape, _OF)
    inside = sizes < in_use[:, np.newaxis]
    fits = np.where(inside, (filled >= 1) & (filled <= most), filled == 0).all(axis=1)
    form.expect(fits.all(), f"1 to {most} buckets of each size in use", filled[~fits][:1], _OF)
    width = (filled << sizes).sum(axis=1)
    fits = counts[:, _WIDTH] == width
    form.expect(fits.all(), "as many numbers as the buckets hold", counts[~fits][:1], _OF)
    form.expect((counts[:, _ALARMED] <= 1).all(), "an alarm or none", counts[:, _ALARMED].max(initial=0), _OF)


def _widened(array: Any, shape: tuple[int, ...]) -> Any:
    made = np.zeros(shape, array.dtype)
    made[tuple(slice(0, n) for n in array.shape)] = array
    return made


@bare_kernel
def _update(  # type: ignore[no-untyped-def]
    values, delta, clock, most, shortest, grace, each, sizes, totals, squares, filled, counts, sums, sides, widths
):
    for i in range(values.shape[0]):
        for s in range(values.shape[1]):
            x = values[i, s]
            if np.isnan(x):
                continue
            at, to = s * sizes, s * sizes * each
            if counts[s, _ALARMED]:
                counts[s, :] = 0
                sums[s, :] = 0.0
                filled[at : at + sizes] = 0
            total, square = sums[s, _TOTAL], sums[s, _SQUARES]
            in_use, width = max(1, counts[s, _IN_USE]), float(counts[s, _WIDTH])
            in_use, total, square, _ = enter(
                filled, at, totals, to, squares, to, most, each, sizes, in_use, width, total, square, x
            )
            width += 1.0
            counts[s, _TICK] += 1
            if counts[s, _TICK] % clock == 0 and width > grace:
                found, sides[i, s, 0], sides[i, s, 1] = boundary(
                    filled, at, totals, to, each, in_use, width, total, square, delta, shortest, True
                )
                widths[i, s] = int(found)
                counts[s, _ALARMED] = found > 0.0
                while found > 0.0:
                    in_use, width, total, square = drop(
                        filled, at, totals, to, squares, to, each, in_use, width, total, square
                    )
                    found = boundary(
                        filled, at, totals, to, each, in_use, width, total, square, delta, shortest, False
                    )[0]
            counts[s, _IN_USE], counts[s, _WIDTH] = in_use, int(width)
            sums[s, _TOTAL], sums[s, _SQUARES] = total, square
