"""Laws that every detector of change keeps; River's detectors are such."""

import pickle
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from glasstream.checks.expect import expect


@runtime_checkable
class Detector(Protocol):
    """Watches a series of numbers and says when it has changed.

    Contract:

    - What it says is a function of its parameters and of the numbers so far; it can be pickled and goes on the same.
    - `drift_detected` belongs to the newest number. After an alarm it goes on and can raise another.
    - A constant is no change; a step that is large beside the noise is one.
    """

    @property
    def drift_detected(self) -> bool:
        """Whether the newest number raised an alarm; False before the first."""

    def update(self, x: float) -> Any:
        """Take in the next number; what it gives back is not read."""


def check_detector(make: Callable[[], Detector]) -> None:
    """Put a detector through every check.

    Parameters
    ----------
    make
        Makes one, always with the same parameters; with a fixed seed if it has one.

    Raises
    ------
    CheckFailed
        It breaks a law; the message says which, and what to do.

    Examples
    --------
    >>> from river import drift
    >>> check_detector(drift.ADWIN)
    """
    for check in CHECKS:
        check(make)


def check_it_is_a_detector(make: Callable[[], Detector]) -> None:
    """It has the members of `Detector`, and no alarm before the first number."""
    detector = make()
    expect(isinstance(detector, Detector), detector, "update and drift_detected", "neither or one", "see Detector")
    expect(detector.drift_detected is False, detector, "no alarm before the first number (False)",
           repr(detector.drift_detected), "begin with False")  # fmt: skip


def check_the_same_numbers_raise_the_same_alarms(make: Callable[[], Detector]) -> None:
    """Two of them, fed alike, alarm alike."""
    numbers = _steps()
    one, other = _alarms(make(), numbers), _alarms(make(), numbers)
    expect(one == other, make(), f"alarms at {other} again", one, "fix the seed, share nothing between detectors")


def check_a_constant_raises_no_alarm(make: Callable[[], Detector]) -> None:
    """Whatever the constant is."""
    for constant in (0.0, 1.0, -3.7, 1e6):
        alarms = _alarms(make(), [constant] * _STEP)
        expect(not alarms, make(), f"no alarm on the constant {constant}", f"alarms at {alarms[:5]}",
               "compare with the spread that was seen")  # fmt: skip


def check_a_large_step_raises_an_alarm(make: Callable[[], Detector]) -> None:
    """From 0 to 1 in little noise: within 300 numbers, upwards and downwards."""
    for sign in (1.0, -1.0):
        alarms = _alarms(make(), [sign * number for number in _steps()])
        seen = any(_STEP <= alarm < 2 * _STEP for alarm in alarms)
        got = f"alarms at {alarms[:5]}"
        expect(seen, make(), f"an alarm within {_STEP} numbers of a step by {sign} at {_STEP}", got,
               "watch both directions; raise the sensitivity")  # fmt: skip


def check_an_alarm_ends(make: Callable[[], Detector]) -> None:
    """When the series stands still after a step, so do the alarms."""
    detector = make()
    alarms = _alarms(detector, [*_steps(), *[1.0] * (2 * _STEP)])
    late = [alarm for alarm in alarms if alarm >= 3 * _STEP]
    expect(not late, detector, f"no alarm {2 * _STEP} numbers after the step and later", f"alarms at {late[:5]}",
           "take drift_detected back with the next number")  # fmt: skip


def check_it_goes_on_the_same_from_a_pickle(make: Callable[[], Detector]) -> None:
    """Pickled early, just before and just after the step, it alarms as one that was not."""
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
    """Noise of 0.05 about 0, then about 1."""
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
