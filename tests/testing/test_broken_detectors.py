"""Each check of detectors catches a detector that breaks its law."""

from collections import deque
from collections.abc import Callable

import pytest

from glasstream.base.errors import CheckFailed
from glasstream.testing.discover import all_checks
from tests.support import own_implementations as own


class SaysNothing:
    def update(self, x: float) -> None:
        """It has no `drift_detected`."""


class BeginsWithAnAlarm(own.Halves):
    def __init__(self) -> None:
        super().__init__()
        self.drift_detected = True


class SharesItsNumbers(own.Halves):
    def __init__(self, numbers: deque[float] = deque(maxlen=100)) -> None:  # noqa: B006 - what is to be caught
        super().__init__()
        self.numbers = numbers


class ComparesWithZero(own.Halves):
    def update(self, x: float) -> None:
        super().update(x)
        self.drift_detected = self.drift_detected or abs(x) > 3.0


class SeesRisesOnly(own.Halves):
    def update(self, x: float) -> None:
        super().update(max(x, 0.0))


class NeverRests(own.Halves):
    def update(self, x: float) -> None:
        before = self.drift_detected
        super().update(x)
        self.drift_detected = self.drift_detected or before


class ForgetsInAPickle(own.Halves):
    def __reduce__(self):
        return type(self), ()


BROKEN: dict[str, list[Callable]] = {
    "check_it_is_a_detector": [SaysNothing, BeginsWithAnAlarm],
    "check_the_same_numbers_raise_the_same_alarms": [SharesItsNumbers],
    "check_a_constant_raises_no_alarm": [ComparesWithZero],
    "check_a_large_step_raises_an_alarm": [SeesRisesOnly],
    "check_an_alarm_ends": [NeverRests],
    "check_it_goes_on_the_same_from_a_pickle": [ForgetsInAPickle],
}


@pytest.mark.parametrize("check", all_checks("detector"), ids=lambda check: check.__name__)
def test_a_check_of_detectors_catches_what_breaks_its_law(check: Callable) -> None:
    for broken in BROKEN[check.__name__]:
        with pytest.raises(CheckFailed, match=f"^{broken.__name__}: "):
            check(broken)
