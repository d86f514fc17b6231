"""Parameters with which a forest replaces its trees often."""

from river import drift

from tests.support.trees import EAGER

RESTLESS = {
    **EAGER,
    "n_models": 3,
    "seed": 7,
    "drift_detector": drift.ADWIN(delta=0.5, clock=5, min_window_length=3, grace_period=5),
    "warning_detector": drift.ADWIN(delta=0.9, clock=3, min_window_length=3, grace_period=5),
}
"""Parameters with which trees are replaced in short streams."""
