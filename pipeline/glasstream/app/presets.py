"""Named sets of settings, such as those of a paper's experiment."""

from collections.abc import Mapping
from typing import Any, Final

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "paper": {
        "explain.methods": "ipdp",
        "explain.alpha": 0.001,
        "ipdp.grid": "quantile_range",
        "ipdp.points": 10,
        "ipdp.low": 0.05,
        "ipdp.high": 0.95,
        "drift.watch": "pd_importance",
        "drift.values": "smoothed",
        "drift.pd": "squares",
        "drift.min_change": 0.0,
        "drift.detector": "adwin",
        "drift.bonferroni": False,
        "drift.delta": 1e-5,
        "drift.grace": 2_000,
        "drift.test_interval": 32,
        "drift.buckets": 5,
        "drift.shortest": 5,
    }
}
"""Settings of each value of `drift.preset`, by key. Every value that is set elsewhere takes precedence."""
