"""A paper's numbers compared with ours: summary over the repetitions, distance in standard errors, and verdict."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from rich.table import Table

HOLDS: Final = 2.0
"""Number of standard errors on the worse side up to which a number holds."""
FAR: Final = 3.5
"""Number of standard errors on the worse side beyond which a number is far off."""
COLUMNS: Final = ("number", "paper", "ours", "spread", "s.e.", "verdict")
_ERROR_OF_MEDIAN = 1.2533 / 1.349
"""Standard error of a median times the root of the count, divided by the interquartile range (normal distribution)."""

Worse = Literal["above", "below", "apart"]


@dataclass(frozen=True, slots=True)
class Row:
    """One number of the paper, and what the repetitions gave.

    Attributes
    ----------
    number
        Name of the number.
    values
        Result of each repetition.
    paper
        The paper's number; None if the paper does not have it.
    worse
        Side of the paper's number on which ours is worse; ``apart`` means both sides.
    statistic
        Statistic of the repetitions that the paper publishes. The spread of a median is the interquartile range,
        that of a mean the standard deviation.
    paper_error
        Standard error of the paper's number; 0 if it is exact or not known.
    tolerance
        Absolute difference that always holds, for example half of the paper's last digit.
    """

    number: str
    values: Sequence[float]
    paper: float | None
    worse: Worse = "apart"
    statistic: Literal["median", "mean"] = "mean"
    paper_error: float = 0.0
    tolerance: float = 0.0

    @property
    def ours(self) -> float:
        return float(np.median(self.values) if self.statistic == "median" else np.mean(self.values))

    @property
    def spread(self) -> float:
        """Interquartile range of the repetitions, or their standard deviation; NaN for a single one."""
        if len(self.values) < 2:
            return np.nan
        if self.statistic == "median":
            low, high = np.quantile(self.values, (0.25, 0.75))
            return float(high - low)
        return float(np.std(self.values, ddof=1))

    @property
    def error(self) -> float:
        """Standard error of the difference from the paper's number."""
        factor = _ERROR_OF_MEDIAN if self.statistic == "median" else 1.0
        own = factor * self.spread / len(self.values) ** 0.5
        return float(np.hypot(own, self.paper_error))

    @property
    def excess(self) -> float:
        """Number of standard errors by which ours is worse than the paper's; NaN if there is no such number."""
        if self.paper is None or np.isnan(self.error):
            return np.nan
        apart = self.ours - self.paper
        worse = {"above": apart, "below": -apart, "apart": abs(apart)}[self.worse]
        if worse <= self.tolerance:
            return min(worse / self.error, 0.0) if self.error > 0 else 0.0
        return worse / self.error if self.error > 0 else np.inf

    @property
    def verdict(self) -> str:
        """One or two words: whether the paper's number holds.

        >>> Row("x", [0.9, 1.1], 1.0).verdict, Row("x", [2.0, 2.01], 1.0).verdict
        ('holds', 'differs by 201.0 s.e.')
        >>> Row("x", [0.5, 0.51], 1.0, "above").verdict, Row("x", [1.0], None).verdict
        ('better', '')
        """
        if self.paper is None or np.isnan(self.excess):
            return "" if self.paper is None else "one repetition"
        if self.excess < -HOLDS:
            return "better"
        if self.excess <= HOLDS:
            return "holds"
        return f"{'differs' if self.worse == 'apart' else 'worse'} by {self.excess:.1f} s.e."


def standard_error(interquartile_range: float, count: int) -> float:
    """Return the standard error of a median of `count` values with this interquartile range.

    >>> round(standard_error(0.006, 10), 4)
    0.0018
    """
    return float(_ERROR_OF_MEDIAN * interquartile_range / count**0.5)


def of_one_run(row: Row) -> Row:
    """Return the row for a number that the paper measured in one run, which varies like one repetition of ours.

    >>> row = Row("x", [0.8, 1.2], 1.1, "below")
    >>> round(row.excess, 2), round(of_one_run(row).excess, 2)
    (0.5, 0.29)
    """
    return replace(row, paper_error=float(np.std(row.values, ddof=1)) if len(row.values) > 1 else 0.0)


def cells(row: Row) -> tuple[str, ...]:
    """Return the texts of a row, in the order of `COLUMNS`."""
    paper = "" if row.paper is None else _text(row.paper)
    spread = "" if np.isnan(row.spread) else _text(row.spread)
    distance = "" if not np.isfinite(row.excess) or row.paper is None else f"{row.excess:+.1f}"
    return row.number, paper, _text(row.ours), spread, distance, row.verdict


def _text(value: float) -> str:
    """Format a number with four digits behind the first that is not zero, at most.

    >>> _text(0.01234567), _text(123.456), _text(0.0)
    ('0.01235', '123.5', '0')
    """
    return f"{value:.4g}"


def to_table(title: str, rows: Sequence[Row]) -> Table:
    """Return the table for a terminal."""
    table = Table(title=title, title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("number", "verdict") else "right")
    for row in rows:
        table.add_row(*cells(row))
    return table


def to_csv(rows: Sequence[Row]) -> str:
    """Return the table as CSV, with the value of each repetition in the last column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, "repetitions"])
    for row in rows:
        writer.writerow([*cells(row), " ".join(f"{value:.9g}" for value in row.values)])
    return text.getvalue()


def to_markdown(rows: Sequence[Row]) -> str:
    """Return the table as Markdown."""
    lines = [" | ".join(COLUMNS), " | ".join("---" if c in ("number", "verdict") else "---:" for c in COLUMNS)]
    lines += [" | ".join(cells(row)) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


def tally(rows: Sequence[Row]) -> str:
    """Return one sentence on how many numbers of the paper hold.

    >>> tally([Row("a", [0.9, 1.1], 1.0), Row("b", [2.0, 2.01], 1.0)])
    '1 of 2 numbers of the paper hold; 1 is off by more than 3.5 standard errors.'
    >>> tally([Row("a", [0.9], 1.0)])
    'No number is compared with the paper, because that takes two repetitions.'
    """
    compared = [row for row in rows if row.paper is not None and not np.isnan(row.excess)]
    if not compared:
        return "No number is compared with the paper, because that takes two repetitions."
    held = sum(row.excess <= HOLDS for row in compared)
    far = sum(row.excess > FAR for row in compared)
    rest = f"; {far} {'is' if far == 1 else 'are'} off by more than {FAR:g} standard errors" if far else ""
    return f"{held} of {len(compared)} numbers of the paper hold{rest}."
