"""Data sets and parameters for trees of regressors."""

from typing import Any

EAGER = {"grace_period": 15, "delta": 0.2, "tau": 0.3}
"""Parameters with which short streams make deep trees."""


UNSURE = {"grace_period": 10, "delta": 1e-6, "tau": 0.0}
"""Parameters with which most attempts to split fail, so that bad splits are removed."""


def takes_text(parameters: dict[str, Any]) -> bool:
    return parameters.get("leaf_prediction") == "mean"


SETS = ("california_housing", "bike_hourly", "abalone", "wine_white")
