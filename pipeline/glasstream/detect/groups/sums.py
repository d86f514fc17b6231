"""Sums over the rows of each group. How rows are divided into calls changes no bit."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import Array, Field

MISSING: Final = 0
"""Code of rows without the attribute."""
OTHER: Final = 1
"""Code of rows with a value that got no code of its own."""
FIRST: Final = 2
"""Code of the first value."""
VALUES: Final = 20
"""Largest number of values of an attribute that have a code of their own."""
CODES: Final = FIRST + VALUES
CLASSES: Final = 20
"""Largest number of classes that have rates. It is also the number that stands for all other classes."""
LARGEST: Final = form.LARGEST
"""Largest loss of a row."""

_CELLS: Final = ("attributes", CODES)
_CLASS_CELLS: Final = ("attributes", CODES, CLASSES + 1)
FORM: Final = {
    "rows": Field("int64", _CELLS, 0, form.MOST),
    "scores": Field("float64", _CELLS, 0, form.LARGEST_SUM),
    "scores_squared": Field("float64", _CELLS, 0, form.FINITE),
    "losses": Field("float64", _CELLS, 0, form.LARGEST_SUM),
    "losses_squared": Field("float64", _CELLS, 0, form.FINITE),
    "predicted": Field("int64", _CLASS_CELLS, 0, form.MOST),
    "actual": Field("int64", _CLASS_CELLS, 0, form.MOST),
    "hits": Field("int64", _CLASS_CELLS, 0, form.MOST),
}
"""Arrays of the sums. `scores` counts right predictions, or sums absolute errors."""
COUNTS: Final = tuple(name for name, field in FORM.items() if field.dtype == "int64")
_OF: Final = "sums of groups"


class Rows(NamedTuple):
    """Labelled predictions, in the order of their labels."""

    codes: NDArray[np.uint8]
    """(n, attributes) codes of the groups."""
    predicted: NDArray[np.int64]
    """(n,) numbers of the predicted classes, at most `CLASSES`; `CLASSES` for a regression."""
    actual: NDArray[np.int64]
    """(n,) numbers of the true classes, likewise."""
    scores: NDArray[np.float64]
    """(n,) 1 for a right prediction and 0 for a wrong one, or the absolute error of a regression."""
    losses: NDArray[np.float64]
    """(n,) losses from 0 to `LARGEST`."""


ROWS: Final = {
    "codes": Field("uint8", ("rows", "attributes"), 0, CODES - 1),
    "predicted": Field("int64", ("rows",), 0, CLASSES),
    "actual": Field("int64", ("rows",), 0, CLASSES),
    "scores": Field("float64", ("rows",), 0, LARGEST),
    "losses": Field("float64", ("rows",), 0, LARGEST),
}
"""Form of saved rows."""


class Sums:
    """Sums over rows, for each value of each attribute.

    Parameters
    ----------
    attributes
        Number of attributes.
    """

    def __init__(self, attributes: int) -> None:
        self.arrays: dict[str, Array] = form.empty(FORM, attributes=attributes)

    @property
    def attributes(self) -> int:
        """Number of attributes."""
        return len(self.arrays["rows"])

    def add(self, rows: Rows) -> None:
        """Add rows, one after the other."""
        attributes = self.attributes
        cells = (rows.codes + CODES * np.arange(attributes)).ravel()
        size = attributes * CODES
        self._count("rows", cells, size)
        # Each sum continues with the next row: its cell comes first in the list, with the sum so far as its weight.
        places = np.concatenate((np.arange(size), cells))
        for name, values in (("scores", rows.scores), ("losses", rows.losses)):
            each = np.repeat(values, attributes)
            self._sum(name, places, each)
            self._sum(f"{name}_squared", places, each * each)
        of_class = cells * (CLASSES + 1)
        predicted, actual = np.repeat(rows.predicted, attributes), np.repeat(rows.actual, attributes)
        size *= CLASSES + 1
        self._count("predicted", of_class + predicted, size)
        self._count("actual", of_class + actual, size)
        hits = (predicted == actual) & (actual < CLASSES)
        self._count("hits", (of_class + actual)[hits], size)

    def _count(self, name: str, places: Array, size: int) -> None:
        array = self.arrays[name]
        array += np.bincount(places, minlength=size).reshape(array.shape)

    def _sum(self, name: str, places: Array, values: Array) -> None:
        array = self.arrays[name]
        weights = np.concatenate((array.ravel(), values))
        array[...] = np.bincount(places, weights, array.size).reshape(array.shape)

    def restore(self, arrays: Mapping[str, Array], count: int) -> None:
        """Continue from saved arrays.

        Raises
        ------
        FrameError
            They are no sums over so many rows.
        """
        read = form.read(FORM, arrays, _OF, attributes=self.attributes)
        rows, predicted, actual, hits = (read[name] for name in ("rows", "predicted", "actual", "hits"))
        form.expect((rows.sum(axis=1) == count).all(), f"{count} rows of each attribute", rows.sum(axis=1), _OF)
        counted = (predicted.sum(axis=2) == rows) & (actual.sum(axis=2) == rows)
        form.expect(counted.all(), "a class for each row", predicted.sum(), _OF)
        right = (hits <= np.minimum(predicted, actual)).all() and not hits[..., CLASSES].any()
        form.expect(right, "right predictions among the predictions of their class", hits.sum(), _OF)
        elsewhere = predicted[..., :CLASSES] + actual[..., :CLASSES] - hits[..., :CLASSES] <= rows[..., None]
        form.expect(elsewhere.all(), "wrong predictions of a class among the rows of other classes", hits.sum(), _OF)
        for name in ("scores", "losses"):
            empty = (rows == 0) & ((read[name] != 0.0) | (read[f"{name}_squared"] != 0.0))
            form.expect(not empty.any(), f"{name} of rows only", read[name][empty], _OF)
        self.arrays = read

    def expect_codes(self, values: Sequence[int], classes: int, *, more: bool) -> None:
        """Check that there are no rows but those of so many values of each attribute, and of so many classes.

        Parameters
        ----------
        more
            Whether there are further classes.

        Raises
        ------
        FrameError
            There are other rows.
        """
        rows = self.arrays["rows"]
        known = not any(rows[number, FIRST + count :].any() for number, count in enumerate(values))
        form.expect(known, "rows of known values", values, _OF)
        for name in ("predicted", "actual"):
            beyond = self.arrays[name][..., classes : CLASSES + (classes > 0 and not more)]
            form.expect(not beyond.any(), "rows of known classes", classes, _OF)
        if classes:
            self._expect_counts()

    def _expect_counts(self) -> None:
        scores, rows = self.arrays["scores"], self.arrays["rows"]
        fits = (scores >= self.arrays["hits"].sum(axis=2)) & (scores <= rows) & (scores == np.floor(scores))
        form.expect(fits.all(), "the number of right predictions as score", scores.sum(), _OF)
