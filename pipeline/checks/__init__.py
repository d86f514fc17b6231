"""The laws that predictors, samplers, explainers and detectors keep, as checks that anyone's own can be put through.

`check_predictor`, `check_sampler`, `check_explainer` and `check_detector` raise CheckFailed where a law is broken;
`implementations` finds what is to be checked.
"""

from pipeline.checks.detectors import check_detector
from pipeline.checks.discover import all_checks, implementations
from pipeline.checks.explainers import check_explainer
from pipeline.checks.predictors import check_predictor
from pipeline.checks.samplers import check_sampler

__all__ = [
    "all_checks",
    "check_detector",
    "check_explainer",
    "check_predictor",
    "check_sampler",
    "implementations",
]
