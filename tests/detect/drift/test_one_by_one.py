"""A plain detector of one series becomes a bank that keeps the laws of banks, and whose forged state is refused."""

from dataclasses import dataclass

import numpy as np
import pytest

from glasstream.base.errors import FrameError
from glasstream.detect.drift.detector import Alarm
from glasstream.detect.drift.one_by_one import bank_of
from glasstream.testing import check_detector_bank


@dataclass
class Jump:
    """Raises an alarm if a number is far from the one before."""

    far: float
    last: float = 0.0
    begun: bool = False

    def update(self, value: float) -> bool:
        jumped = self.begun and abs(value - self.last) > self.far
        self.last, self.begun = value, True
        return jumped


Jumps = bank_of("Jumps", Jump, {"far": "threshold"})


def test_the_bank_keeps_the_laws() -> None:
    steps = np.repeat([[0.0, 5.0], [0.0, 5.0], [30.0, 5.0], [30.0, 5.0]], 40, axis=0)
    check_detector_bank(Jumps.empty, parameters={"far": 0.5}, rows=steps)


def test_an_alarm_has_the_mean_since_the_one_before_and_begins_anew() -> None:
    values = np.array([[1.0], [3.0], [np.nan], [50.0], [90.0], [10.0]])
    assert Jumps.empty().update(values, {"far": 10.0}) == [Alarm(3, 0, 2.0, 50.0, 1), Alarm(5, 0, 90.0, 10.0, 1)]


@pytest.mark.parametrize("name", ["state", "since"])
def test_a_forged_state_is_refused(name: str) -> None:
    bank = Jumps.empty()
    bank.update(np.ones((3, 2)), {"far": 10.0})
    _, arrays = bank.state()
    for forged in (arrays[name][:1], arrays[name] * np.nan, arrays[name][:, :1]):
        with pytest.raises(FrameError):
            Jumps.restore({}, arrays | {name: forged})
    with pytest.raises(FrameError, match="counts from 0 on"):
        Jumps.restore({}, arrays | {"since": -arrays["since"]})
    with pytest.raises(FrameError, match="at most 1 series"):
        Jumps.restore({}, arrays, series=1)
