"""Marks: how many rows, errors and classes each group had at earlier rows, to compare the rows before and since.

There is a mark every `RUN` rows, from row `WARM_UP` on. The older a mark is, the more of its neighbours are dropped, so
that about twenty are kept. Which ones these are depends on the number of rows alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import Array, Field
from glasstream.detect.groups.sums import CODES, FIRST, Rows, Sums

RUN: Final = 100
"""Number of rows between two marks."""
WARM_UP: Final = 1_000
"""Number of rows that are not compared, because the model has learned from too few."""
ERA: Final = 128
"""Rows before a mark are compared from the beginning of the era before its own, in runs."""
OLDEST: Final = 256
"""Number of runs after which a mark is no longer compared with the rows since."""

_SPACING: Final = 4  # a mark at a multiple of 2^k runs is kept for so many times 2^k runs
_QUANTILE_UP: Final = 1.08
_QUANTILE_DOWN: Final = 0.980943
"""Steps of the limit of regression errors: they balance where a fifth of the errors is larger (1.08^-1/4)."""
_SHARES: Final = ("predicted", "actual", "hits")
_OF: Final = "marks of groups"
_FORM: Final = {
    "counts": Field("int64", ("marks", "attributes", "values", "columns"), 0, form.MOST),
    "seqs": Field("int64", ("marks",), 0, form.MOST),
    "large": Field("int64", ("attributes", CODES), 0, form.MOST),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """The counts of all groups at a row."""

    run: int
    """Number of runs since the warm-up."""
    seq: int
    """The newest event among the rows before."""
    counts: NDArray[np.int64]
    """(attributes, values, 2 + 3 classes) numbers of rows and of errors, then for each class how often it was
    predicted, how often it was true, and how often both. Later marks can have more values and classes."""

    @property
    def row(self) -> int:
        """Number of rows before the mark."""
        return WARM_UP + self.run * RUN

    @property
    def before(self) -> int:
        """Run at which the rows begin with which those since the mark are compared."""
        return max(0, self.run // ERA - 1) * ERA


class Marks:
    """Marks of a stream, and its large errors if it is a regression.

    An error is a wrong prediction, or one whose absolute error exceeds `limit`.

    Parameters
    ----------
    attributes
        Number of attributes.
    """

    def __init__(self, attributes: int) -> None:
        self.kept: list[Mark] = []
        """Oldest first."""
        self.limit = 0.0
        """About the 80 % quantile of the absolute errors in the warm-up; 0 for a classification."""
        self.large: NDArray[np.int64] = np.zeros((attributes, CODES), np.int64)
        """Numbers of rows whose absolute error exceeds the limit."""

    def add(self, rows: Rows, before: int) -> None:
        """Add rows of a regression.

        Parameters
        ----------
        before
            Number of rows before these.
        """
        warm_up = max(0, WARM_UP - before)
        for score in rows.scores[:warm_up].tolist():  # one by one: each step depends on the one before
            self.limit = self.limit * (_QUANTILE_UP if score > self.limit else _QUANTILE_DOWN) if self.limit else score
        codes = rows.codes[warm_up:][rows.scores[warm_up:] > self.limit]
        for attribute, column in enumerate(codes.T):
            self.large[attribute] += np.bincount(column, minlength=CODES)

    def mark(self, rows: int, seq: int, counts: NDArray[np.int64]) -> None:
        """Make a mark after a multiple of `RUN` rows, with the counts of all rows so far."""
        run = (rows - WARM_UP) // RUN
        if run >= 0:
            self.kept = [mark for mark in self.kept if _stays(mark.run, run)]
            self.kept.append(Mark(run, seq, counts))

    def counts(self, sums: Sums, values: int, classes: int) -> NDArray[np.int64]:
        """Return the counts of all rows so far, as in `Mark`.

        Parameters
        ----------
        values
            Largest number of values of an attribute.
        classes
            Number of classes with rates; 0 for a regression.
        """
        arrays, known = sums.arrays, slice(FIRST, FIRST + values)
        rows = arrays["rows"][:, known]
        errors = rows - arrays["scores"][:, known].astype(np.int64) if classes else self.large[:, known]
        shares = [arrays[name][:, known, :classes] for name in _SHARES]
        return np.concatenate([rows[..., None], errors[..., None], *shares], axis=2)

    def saved(self, values: int, classes: int) -> dict[str, Array]:
        """Return the state as arrays; `values` and `classes` as in `counts`."""
        stacked = [padded(mark.counts, values, classes) for mark in self.kept]
        shape = (0, len(self.large), values, 2 + 3 * classes)
        return {
            "counts": np.stack(stacked) if stacked else np.zeros(shape, np.int64),
            "seqs": np.array([mark.seq for mark in self.kept], np.int64),
            "large": self.large,
        }

    def restore(
        self, arrays: Mapping[str, Array], limit: float, rows: int, seq: int, sums: Sums, values: int, classes: int
    ) -> None:
        """Continue from saved arrays and the saved limit.

        Parameters
        ----------
        rows, seq, sums
            Number of rows, the newest event among them, and their sums.
        values, classes
            As in `counts`.

        Raises
        ------
        FrameError
            They are no marks of these rows.
        """
        runs = list(_runs(rows))
        sizes = {"marks": len(runs), "attributes": len(self.large), "values": values, "columns": 2 + 3 * classes}
        read = form.read(_FORM, arrays, _OF, **sizes)
        large, seqs = read["large"], read["seqs"]
        counted = (large <= sums.arrays["rows"]).all() and large.sum(axis=1).max(initial=0) <= max(0, rows - WARM_UP)
        form.expect(counted, "large errors among the rows", large.sum(), _OF)
        form.expect(not classes or (not limit and not large.any()), "no limit of classes", limit, _OF)
        self.large, self.limit = large, limit
        every = np.concatenate([read["counts"], self.counts(sums, values, classes)[None]])
        steps, ends = np.diff(every, axis=0), np.array([WARM_UP + RUN * run for run in runs] + [rows])
        form.expect((np.diff([*seqs, seq]) >= 0).all(), "events in the order of the marks", seqs, _OF)
        form.expect((steps >= 0).all(), "counts that grow", steps.min(initial=0), _OF)
        first = every[:1] if runs else every[:0]
        for part, length in ((first, ends[:1]), (steps, np.diff(ends))):
            form.expect(_fit(part, length, classes), "counts of the rows between two marks", part.sum(), _OF)
        self.kept = [Mark(*one) for one in zip(runs, seqs.tolist(), read["counts"], strict=True)]


def padded(counts: NDArray[np.int64], values: int, classes: int) -> NDArray[np.int64]:
    """Return counts with room for more values and classes."""
    attributes, less, columns = counts.shape
    if (less, columns) == (values, 2 + 3 * classes):
        return counts
    made, known = np.zeros((attributes, values, 2 + 3 * classes), np.int64), (columns - 2) // 3
    made[:, :less, :2] = counts[..., :2]
    for place in range(len(_SHARES)):
        made[:, :less, 2 + place * classes :][..., :known] = counts[..., 2 + place * known :][..., :known]
    return made


def _fit(counts: NDArray[np.int64], rows: NDArray[np.int64], classes: int) -> bool:
    """Return whether so many rows can have such counts."""
    of, errors = counts[..., 0], counts[..., 1]
    predicted, actual, hits = (
        counts[..., 2 + place * classes : 2 + (place + 1) * classes] for place in range(len(_SHARES))
    )
    fits = (of.sum(axis=2) <= rows[:, None]).all() and (errors <= of).all() and (hits.sum(axis=3) <= of - errors).all()
    fits &= (hits <= np.minimum(predicted, actual)).all() and (predicted + actual - hits <= of[..., None]).all()
    return bool(fits and all((one.sum(axis=3) <= of).all() for one in (predicted, actual)))


def _stays(run: int, newest: int) -> bool:
    """Return whether the mark of a run is kept. The beginnings of eras stay longest: later rows need them."""
    return newest - run <= _SPACING * min(run & -run or ERA, ERA)


def _runs(rows: int) -> Iterator[int]:
    """Return the runs whose marks are kept after so many rows."""
    newest = (rows - WARM_UP) // RUN
    return (run for run in range(max(0, newest - _SPACING * ERA), newest + 1) if _stays(run, newest))


def compared(marks: Sequence[Mark]) -> tuple[list[int], list[int]]:
    """Return the places of the marks with which the rows since are compared, after where the rows before begin."""
    places = {mark.run: place for place, mark in enumerate(marks)}
    newest = marks[-1].run if marks else 0
    starts = [place for place, mark in enumerate(marks) if mark.run > 0 and newest - mark.run <= OLDEST]
    return [places[marks[place].before] for place in starts], starts
