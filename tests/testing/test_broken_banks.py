"""Each check of banks of detectors catches a bank that breaks its law."""

from collections.abc import Callable

import numpy as np
import pytest

from glasstream.base.errors import CheckFailed
from glasstream.testing.banks import Feeding
from glasstream.testing.discover import all_checks
from tests.support import own_implementations as own


class SortsBySeries(own.HalvesOfEach):
    def update(self, values, parameters):
        return sorted(super().update(values, parameters), key=lambda alarm: alarm[::-1])


class NeverAlarms(own.HalvesOfEach):
    def update(self, values, parameters):
        return super().update(values, parameters)[:0]


class CentresInPlace(own.HalvesOfEach):
    def update(self, values, parameters):
        values -= 1.0
        return super().update(values, parameters)


class BeginsAnewWithEveryBlock(own.HalvesOfEach):
    def update(self, values, parameters):
        self.detectors = []
        return super().update(values, parameters)


class WatchesTheMean(own.HalvesOfEach):
    def update(self, values, parameters):
        return super().update(values + values.mean(axis=1, keepdims=True), parameters)


class TakesNaNForZero(own.HalvesOfEach):
    def update(self, values, parameters):
        return super().update(np.nan_to_num(values), parameters)


class LeavesLateSeriesOut(own.HalvesOfEach):
    def update(self, values, parameters):
        return super().update(values[:, : len(self.detectors) or None], parameters)


class ForgetsInItsState(own.HalvesOfEach):
    def state(self):
        return {"numbers": [[*one.numbers][:-1] for one in self.detectors]}, {}


class SeesRisesOnly(own.HalvesOfEach):
    def update(self, values, parameters):
        return super().update(np.maximum(values, 0.0), parameters)


BROKEN: dict[str, list[Callable]] = {
    "check_alarms_name_row_and_series": [SortsBySeries, NeverAlarms],
    "check_rows_are_not_changed": [CentresInPlace],
    "check_cutting_into_blocks_changes_no_alarm": [BeginsAnewWithEveryBlock],
    "check_a_series_does_not_see_the_others": [WatchesTheMean],
    "check_nothing_is_fed_where_there_is_no_number": [TakesNaNForZero],
    "check_a_series_that_comes_late_had_no_numbers": [LeavesLateSeriesOut],
    "check_state_goes_on_to_the_same_alarms": [ForgetsInItsState],
    "check_each_series_is_a_detector": [SeesRisesOnly],
}


@pytest.mark.parametrize("check", all_checks("detector_bank"), ids=lambda check: check.__name__)
def test_a_check_of_banks_catches_what_breaks_its_law(check: Callable) -> None:
    for broken in BROKEN[check.__name__]:
        with pytest.raises(CheckFailed, match=r"^(\w+): "):
            check(Feeding(make=broken))
