"""An adaptive tree with ordered classes, and parameters with which it changes its branches often."""

from typing import Any

from river import drift, tree

from glasstream.models.river.catalogue import ClassesInOrder
from tests.support.trees import EAGER

RESTLESS = {
    **EAGER,
    "seed": 7,
    "drift_window_threshold": 5,
    "switch_significance": 0.9,
    "drift_detector": drift.ADWIN(delta=0.9, clock=5, min_window_length=3, grace_period=5),
}
"""Parameters with which alternates come, take over and are dropped in short streams."""


def adaptive_tree(parameters: dict[str, Any]) -> tree.HoeffdingAdaptiveTreeClassifier:
    model = tree.HoeffdingAdaptiveTreeClassifier(**parameters)
    model.classes = ClassesInOrder()
    return model
