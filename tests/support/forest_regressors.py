"""Parameters with which a forest of regressors replaces its trees often."""

from river import drift

from tests.support import forests

RESTLESS = {
    **forests.RESTLESS,
    "drift_detector": drift.ADWIN(delta=0.9, clock=2, min_window_length=2, grace_period=2),
    "warning_detector": drift.ADWIN(delta=1.0, clock=1, min_window_length=1, grace_period=1),
}
"""Parameters with which trees are replaced in short streams."""


WEIGHTED = {"aggregation_method": "mean", "disable_weighted_vote": False}
