"""Rows of mixed features as the finite, standardised numbers that a map is fitted to.

====================  =================================================================================================
number                (x - mean) / standard deviation, both of the reference rows that have one (divisor n)
number missing        0, the reference mean: NaN, or an infinity
constant column       0 where it has its value; the deviation counts as 1, so another value moves by the difference
column all missing    0 everywhere, whatever comes later: nothing is known of its scale
category              one column for each code met in the reference, 1 where the row has it (one-hot)
category missing      0 in all of its columns; so is a code that the reference does not have
====================  =================================================================================================
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.rows import Floats
from glasstream.models.predictors.arrays import sealed

LIMIT: Final = 1e30
"""Largest absolute value of encoded numbers; larger ones are clipped. Their fourth powers, with weights, must stay
finite.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """An encoding of rows float64[n, d] as rows float64[n, p].

    Attributes
    ----------
    means, deviations
        float64[d]; 0 and 1 for a category. A column without any value has an infinite deviation.
    codes
        Codes of all categories, one column after the other, each ascending.
    starts
        int64[d + 1]: the codes of column i are codes[starts[i]:starts[i + 1]].
    categorical
        bool[d]: columns that hold codes.
    """

    means: Floats
    deviations: Floats
    codes: Floats
    starts: npt.NDArray[np.int64]
    categorical: npt.NDArray[np.bool_]

    @classmethod
    def learn(cls, rows: npt.ArrayLike, categorical: Sequence[int] = ()) -> "Encoding":
        """Return the encoding that fits the reference `rows`.

        Parameters
        ----------
        rows
            float64[n, d], n >= 1, NaN where a value is missing; texts as the codes of their categories.
        categorical
            Columns that hold codes.

        Raises
        ------
        InputError
            The rows are not a matrix, there are no rows, or `categorical` names a column that does not exist.
        """
        table = _table(rows)
        if not len(table):
            raise InputError("gbmap: expected at least 1 reference row to learn an encoding from, got none")
        d = table.shape[1]
        if wrong := [column for column in categorical if not 0 <= column < d]:
            raise InputError(f"gbmap: expected categorical columns from 0 to {d - 1}, got {wrong}")
        means, deviations = np.zeros(d), np.ones(d)
        is_category = np.zeros(d, np.bool_)
        is_category[list(categorical)] = True
        codes: list[Floats] = []
        for column in range(d):
            values = table[:, column]
            known = values[np.isfinite(values)]
            codes.append(np.unique(known) if is_category[column] else np.empty(0))
            if not is_category[column]:
                means[column], deviations[column] = scale_of(known)
        starts = np.concatenate(([0], np.cumsum([len(part) for part in codes]))).astype(np.int64)
        return cls(means, deviations, np.concatenate(codes) if codes else np.empty(0), starts, is_category)

    @property
    def columns(self) -> tuple[int, ...]:
        """Return the original column of each of the p encoded columns."""
        counts = np.where(self.categorical, np.diff(self.starts), 1)
        return tuple(int(column) for column in np.repeat(np.arange(len(self.means)), counts))

    def encode(self, rows: npt.ArrayLike) -> Floats:
        """Return the encoded rows: sealed float64[n, p], finite.

        Raises
        ------
        InputError
            The rows are not float64[n, d].
        """
        table = _table(rows)
        if table.shape[1] != len(self.means):
            raise InputError(f"gbmap: expected rows of {len(self.means)} columns, got {table.shape[1]}")
        parts: list[Floats] = []
        for column in range(table.shape[1]):
            values = table[:, column]
            if self.categorical[column]:
                own = self.codes[self.starts[column] : self.starts[column + 1]]
                parts.append((values[:, None] == own[None, :]).astype(np.float64))
            else:
                known = np.where(np.isfinite(values), values, self.means[column])
                with np.errstate(over="ignore"):  # a number that overflows is clipped
                    encoded = (known - self.means[column]) / self.deviations[column]
                parts.append(np.clip(encoded, -LIMIT, LIMIT)[:, None])
        encoded_rows: Floats = sealed(np.concatenate(parts, axis=1) if parts else np.empty(table.shape), np.float64)
        return encoded_rows


def _table(rows: npt.ArrayLike) -> Floats:
    table: Floats = np.asarray(rows, np.float64)
    if table.ndim != 2:
        raise InputError(f"gbmap: expected rows as float64[n, d], got an array of shape {table.shape}")
    return table


def scale_of(known: Floats) -> tuple[float, float]:
    """Return mean and standard deviation (divisor n) of finite numbers float64[n].

    The deviation of equal numbers counts as 1, and that of no numbers is infinite.
    """
    if not known.size:
        return 0.0, np.inf
    largest = float(np.abs(known).max()) or 1.0
    mean = float((known / largest).mean()) * largest
    deviation = float((known / largest - mean / largest).std()) * largest
    # Rounding gives a constant column a deviation of about 1e-16 of its value.
    return (mean, deviation) if deviation > 1e-12 * largest else (float(known[0]), 1.0)
