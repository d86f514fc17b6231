"""Rates and differences of groups, computed row by row from the definitions that Fairlearn documents.

`fairlearn.metrics`: `selection_rate`, `true_positive_rate` and `false_positive_rate` for a positive class;
`demographic_parity_difference` and `equalized_odds_difference` with the method `between_groups` and the aggregation
`worst_case`, their defaults. Fairlearn itself is no dependency.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class ByDefinition(NamedTuple):
    """What the definitions give."""

    groups: list[dict[str, Any]]
    """Accuracy, and the rates for each class, of each group in the order of their values."""
    differences: list[tuple[float, float]]
    """Demographic parity difference and equalized odds difference for each class as the positive one."""


def by_definition(actual: Sequence[Any], predicted: Sequence[Any], groups: Sequence[Any], classes: int) -> ByDefinition:
    """Return rates and differences. Every group must have rows with and without each class."""
    rows = list(zip(actual, predicted, groups, strict=True))
    found = []
    for value in sorted({*groups}):
        mine = [(y, y_hat) for y, y_hat, group in rows if group == value]
        rates: dict[str, Any] = {"accuracy": sum(y == y_hat for y, y_hat in mine) / len(mine)}
        for name in ("selection_rate", "true_positive_rate", "false_positive_rate"):
            rates[name] = []
        for one in range(classes):
            positives = [y_hat for y, y_hat in mine if y == one]
            negatives = [y_hat for y, y_hat in mine if y != one]
            rates["selection_rate"].append(sum(y_hat == one for _, y_hat in mine) / len(mine))
            rates["true_positive_rate"].append(sum(y_hat == one for y_hat in positives) / len(positives))
            rates["false_positive_rate"].append(sum(y_hat == one for y_hat in negatives) / len(negatives))
        found.append(rates)
    differences = []
    for one in range(classes):
        spread = {
            name: max(rates[name][one] for rates in found) - min(rates[name][one] for rates in found)
            for name in ("selection_rate", "true_positive_rate", "false_positive_rate")
        }
        differences.append((spread["selection_rate"], max(spread["true_positive_rate"], spread["false_positive_rate"])))
    return ByDefinition(found, differences)
