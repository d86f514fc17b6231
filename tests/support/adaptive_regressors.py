"""Parameters with which an adaptive regressor changes its branches often."""

from river import drift

from tests.support.tree_regressors import EAGER

RESTLESS = {
    **EAGER,
    "seed": 7,
    "drift_window_threshold": 5,
    "switch_significance": 0.9,
    "drift_detector": drift.ADWIN(delta=0.9, clock=5, min_window_length=3, grace_period=5),
}
"""Parameters with which alternates come, take over and are dropped in short streams."""
