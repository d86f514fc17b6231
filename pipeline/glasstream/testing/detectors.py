"""Laws that every drift detector keeps; River's detectors keep them."""

import pickle
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from glasstream.testing.expect import expect


@runtime_checkable
class Detector(Protocol):
    """Watches a series of numbers and reports when it has changed.

    Contract:

    - The alarms depend only on the parameters and on the numbers so far. A pickled detector raises the same alarms.
    - `drift_detected` refers to the newest number. After an alarm the detector continues and can raise another.
    - A constant is not a change. A step that is large relative to the noise is a change.
    """

    @property
    def drift_detected(self) -> bool:
        """Whether the newest number raised an alarm; False before the first."""

    def update(self, x: float) -> Any:
        """Process the next number; the checks ignore the return value."""


def check_detector(make: Callable[[], Detector]) -> None:
    """Run every check on a detector.

    Parameters
    ----------
    make
        Function that returns a detector, always with the same parameters, and with a fixed seed if it has one.

    Raises
    ------
    CheckFailed
        The detector breaks a law; the message names the law and says what to do.

    Examples
    --------
    >>> from river import drift
    >>> check_detector(drift.ADWIN)
    """
    for check in CHECKS:
        check(make)


def check_it_is_a_detector(make: Callable[[], Detector]) -> None:
    """Check that it has the members of `Detector`, and no alarm before the first number."""
    detector = make()
    expect(isinstance(detector, Detector), detector, "update and drift_detected", "neither or one", "see Detector")
    expect(detector.drift_detected is False, detector, "no alarm before the first number (False)",
           repr(detector.drift_detected), "begin with False")  # fmt: skip


def check_the_same_numbers_raise_the_same_alarms(make: Callable[[], Detector]) -> None:
    """Check that two detectors raise the same alarms on the same numbers."""
    numbers = _steps()
    one, other = _alarms(make(), numbers), _alarms(make(), numbers)
    expect(one == other, make(), f"alarms at {other} again", one, "fix the seed, share nothing between detectors")


def check_a_constant_raises_no_alarm(make: Callable[[], Detector]) -> None:
    """Check that no constant raises an alarm."""
    for constant in (0.0, 1.0, -3.7, 1e6):
        alarms = _alarms(make(), [constant] * _STEP)
        expect(not alarms, make(), f"no alarm on the constant {constant}", f"alarms at {alarms[:5]}",
               "compare with the spread that was seen")  # fmt: skip


def check_a_large_step_raises_an_alarm(make: Callable[[], Detector]) -> None:
    """Check for an alarm within 300 numbers after a step between 0 and 1 with little noise, upwards and downwards."""
    for sign in (1.0, -1.0):
        alarms = _alarms(make(), [sign * number for number in _steps()])
        seen = any(_STEP <= alarm < 2 * _STEP for alarm in alarms)
        got = f"alarms at {alarms[:5]}"
        expect(seen, make(), f"an alarm within {_STEP} numbers of a step by {sign} at {_STEP}", got,
               "watch both directions; raise the sensitivity")  # fmt: skip


def check_an_alarm_ends(make: Callable[[], Detector]) -> None:
    """Check that the alarms end when the series is stable after a step."""
    detector = make()
    alarms = _alarms(detector, [*_steps(), *[1.0] * (2 * _STEP)])
    late = [alarm for alarm in alarms if alarm >= 3 * _STEP]
    expect(not late, detector, f"no alarm {2 * _STEP} numbers after the step and later", f"alarms at {late[:5]}",
           "take drift_detected back with the next number")  # fmt: skip


def check_it_goes_on_the_same_from_a_pickle(make: Callable[[], Detector]) -> None:
    """Check that a detector pickled early, just before or just after the step raises the original's alarms."""
    numbers = _steps()
    wanted = _alarms(make(), numbers)
    for cut in (1, _STEP - 1, _STEP + 20):
        detector = make()
        before = _alarms(detector, numbers[:cut])
        again = pickle.loads(pickle.dumps(detector))  # noqa: S301 - made one line before
        said = before + [cut + alarm for alarm in _alarms(again, numbers[cut:])]
        expect(said == wanted, detector, f"alarms at {wanted}, pickled after {cut} numbers", said,
               "let the pickle hold all of its state")  # fmt: skip


CHECKS: Final[tuple[Callable[[Callable[[], Detector]], None], ...]] = (
    check_it_is_a_detector,
    check_the_same_numbers_raise_the_same_alarms,
    check_a_constant_raises_no_alarm,
    check_a_large_step_raises_an_alarm,
    check_an_alarm_ends,
    check_it_goes_on_the_same_from_a_pickle,
)

_STEP = 300


def _steps() -> list[float]:
    """Return noise with deviation 0.05 about 0, then about 1."""
    noise = np.random.Generator(np.random.PCG64(5)).normal(scale=0.05, size=2 * _STEP)
    noise[_STEP:] += 1.0
    return [float(number) for number in noise]


def _alarms(detector: Detector, numbers: list[float]) -> list[int]:
    alarms = []
    for place, number in enumerate(numbers):
        detector.update(number)
        if detector.drift_detected:
            alarms.append(place)
    return alarms
