"""Laws of predictors, samplers, explainers and detectors, as checks for your own implementations.

`check_predictor`, `check_sampler`, `check_explainer`, `check_detector` and `check_detector_bank` raise
`glasstream.base.errors.CheckFailed` if a law is broken. The message says what was expected, what came, and what to do.
`all_checks` returns the single checks of a kind. `implementations` finds the classes of a kind in a package.

>>> class Alarm:
...     "A detector that thinks every number above 3 a change."
...     drift_detected = False
...     def update(self, x):
...         self.drift_detected = x > 3
>>> check_detector(Alarm)
Traceback (most recent call last):
    ...
glasstream.base.errors.CheckFailed: Alarm: expected no alarm on the constant 1000000.0, got alarms at [0, 1, 2, 3, 4]; compare with the spread that was seen
>>> from river import drift
>>> check_detector(drift.ADWIN)
"""  # noqa: E501 - a message is one line

from glasstream.testing.banks import check_detector_bank
from glasstream.testing.detectors import check_detector
from glasstream.testing.discover import all_checks, implementations
from glasstream.testing.explainers import check_explainer
from glasstream.testing.predictors import check_predictor
from glasstream.testing.samplers import check_sampler

__all__ = [
    "all_checks",
    "check_detector",
    "check_detector_bank",
    "check_explainer",
    "check_predictor",
    "check_sampler",
    "implementations",
]
