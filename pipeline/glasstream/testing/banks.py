"""Laws that every bank of detectors keeps: one detector for each of several series, fed in blocks of rows."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from glasstream.models.predictors.predictor import Floats
from glasstream.testing.detectors import check_detector
from glasstream.testing.expect import expect, expect_same_bits
from glasstream.testing.streams import random_cuts


@runtime_checkable
class DetectorBank(Protocol):
    """Several detectors side by side; `glasstream.detect.drift.detector` holds the bank of this project.

    Contract:

    - The alarms of a series depend only on the parameters, its column, and its own numbers so far. Neither the cuts
      into calls nor the other series change them. NaN is not a number. `update` does not change the rows.
    - `state` and `restore` lose nothing. Each single series keeps the laws of a `Detector`.
    """

    def update(self, values: Floats, parameters: Any) -> Sequence[Any]:
        """Feed (rows, s) numbers in order; new columns are new series.

        Returns
        -------
        Alarms, sorted by row and then by series: tuples that begin with the index of the row in `values` and the
        series.
        """

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the complete state: JSON values, and arrays."""

    @classmethod
    def restore(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Restore the detectors from the result of `state`."""


Alarms = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeding:
    """A bank of detectors, and the data to feed it with.

    Attributes
    ----------
    make
        Function that returns a bank without series.
    parameters
        Further arguments of `update`.
    rows
        (n, s) numbers with a change in some series, but not in all at once.
    """

    make: Callable[[], Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    rows: Floats = field(default_factory=lambda: _shifts())

    def alarms(self, bank: Any, rows: Floats, first: int = 0) -> Alarms:
        """Feed rows, numbered from `first` on, to a bank and return its alarms."""
        told = bank.update(rows.copy(), dict(self.parameters))
        return [(first + alarm[0], *alarm[1:]) for alarm in told]


def check_detector_bank(make: Callable[[], Any], **how: Any) -> None:
    """Run every check on a bank of detectors.

    Parameters
    ----------
    make
        Function that returns a bank without series.
    how
        Further attributes of `Feeding`, if its defaults do not fit.

    Raises
    ------
    CheckFailed
        The bank breaks a law; the message names the law and says what to do.
    """
    for check in CHECKS:
        check(Feeding(make=make, **how))


def check_alarms_name_row_and_series(case: Feeding) -> None:
    """Check that alarms come in order, once each, for rows that were fed, and that there are some."""
    bank = case.make()
    expect(isinstance(bank, DetectorBank), bank, "update, state and restore", "not all", "see DetectorBank")
    places = [alarm[:2] for alarm in case.alarms(bank, case.rows)]
    count, series = case.rows.shape
    inside = all(0 <= row < count and 0 <= one < series for row, one in places)
    fits = bool(places) and inside and places == sorted({*places})
    expect(fits, bank, f"alarms in order at rows below {count} and series below {series}", places[:5],
           "begin an alarm with its row and series, sort by both")  # fmt: skip


def check_rows_are_not_changed(case: Feeding) -> None:
    """Check that `update` does not change the rows."""
    rows, bank = case.rows.copy(), case.make()
    bank.update(rows, dict(case.parameters))
    expect_same_bits(bank, rows, case.rows, "rows as they were", "copy them before writing into them")


def check_cutting_into_blocks_changes_no_alarm(case: Feeding) -> None:
    """Check that alarms are equal for rows fed at once, one by one, and in random blocks, some of them empty."""
    count = len(case.rows)
    wanted = case.alarms(case.make(), case.rows)
    for cuts in (list(range(count + 1)), random_cuts(count, 1), random_cuts(count, 2)):
        bank, told = case.make(), Alarms()
        for first, end in pairwise(cuts):
            told += case.alarms(bank, case.rows[first:end], first)
        _same(case, told, wanted, f"when rows are cut at {cuts[:8]}", "carry all state from row to row")


def check_a_series_does_not_see_the_others(case: Feeding) -> None:
    """Check that other numbers in all other columns do not change the alarms of a series."""
    wanted = case.alarms(case.make(), case.rows)
    for series in range(case.rows.shape[1]):
        rows = case.rows[::-1] - 7.0
        rows[:, series] = case.rows[:, series]
        told = [alarm for alarm in case.alarms(case.make(), rows) if alarm[1] == series]
        own = [alarm for alarm in wanted if alarm[1] == series]
        _same(case, told, own, f"of series {series} beside other series", "keep the state of series apart")


def check_nothing_is_fed_where_there_is_no_number(case: Feeding) -> None:
    """Check that rows of NaN between the rows shift the alarms and change nothing else."""
    wanted = [(2 * alarm[0] + 1, *alarm[1:]) for alarm in case.alarms(case.make(), case.rows)]
    rows = np.full((2 * len(case.rows), case.rows.shape[1]), np.nan)
    rows[1::2] = case.rows
    _same(case, case.alarms(case.make(), rows), wanted, "with NaN between the numbers", "leave NaN out")


def check_a_series_that_comes_late_had_no_numbers(case: Feeding) -> None:
    """Check that a new column behaves like a column that held NaN until then."""
    at = len(case.rows) // 4
    rows = case.rows.copy()
    rows[:at, -1] = np.nan
    bank = case.make()
    told = case.alarms(bank, rows[:at, :-1]) + case.alarms(bank, rows[at:], at)
    _same(case, told, case.alarms(case.make(), rows), "of a series that comes late", "begin it with no numbers")


def check_state_goes_on_to_the_same_alarms(case: Feeding) -> None:
    """Check that a restored bank raises the same alarms, and that its saved state does not change with the bank."""
    wanted = case.alarms(case.make(), case.rows)
    count = len(case.rows)
    for cut in (0, 1, count // 5, wanted[0][0] if wanted else count // 3, count // 2 + 1):
        bank = case.make()
        told = case.alarms(bank, case.rows[:cut])
        meta, arrays = bank.state()
        case.alarms(bank, case.rows[cut:], cut)
        other = type(bank).restore(json.loads(json.dumps(meta)), arrays)
        told += case.alarms(other, case.rows[cut:], cut)
        _same(case, told, wanted, f"after the state was written and read at row {cut}", "copy all of the state")


def check_each_series_is_a_detector(case: Feeding) -> None:
    """Check that a bank of one series, pickled through its state, passes `check_detector`."""
    check_detector(lambda: _OneSeries(case.make(), dict(case.parameters)))


CHECKS: Final[tuple[Callable[[Feeding], None], ...]] = (
    check_alarms_name_row_and_series,
    check_rows_are_not_changed,
    check_cutting_into_blocks_changes_no_alarm,
    check_a_series_does_not_see_the_others,
    check_nothing_is_fed_where_there_is_no_number,
    check_a_series_that_comes_late_had_no_numbers,
    check_state_goes_on_to_the_same_alarms,
    check_each_series_is_a_detector,
)


class _OneSeries:
    def __init__(self, bank: Any, parameters: dict[str, Any], alarmed: bool = False) -> None:
        self.drift_detected = alarmed
        self._bank, self._parameters = bank, parameters

    def update(self, x: float) -> None:
        self.drift_detected = len(self._bank.update(np.array([[x]]), self._parameters)) > 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _one_series, (type(self._bank), self._bank.state(), self._parameters, self.drift_detected)


def _one_series(kind: Any, state: Any, parameters: dict[str, Any], alarmed: bool) -> _OneSeries:
    return _OneSeries(kind.restore(*state), parameters, alarmed)


def _shifts() -> Floats:
    """Return four series of noise that step up or down, each at a different row."""
    rows = np.random.Generator(np.random.PCG64(6)).normal(scale=0.05, size=(480, 4))
    for series, (at, height) in enumerate(((170, 1.0), (120, -1.0), (270, 2.0), (220, -2.0))):
        rows[at:, series] += height
    return rows


def _same(case: Feeding, told: Alarms, wanted: Alarms, when: str, cure: str) -> None:
    expect(told == wanted, case.make(), f"the same alarms {when}", f"{told[:4]} instead of {wanted[:4]}", cure)
