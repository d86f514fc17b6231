"""Losses: what a wrong prediction costs, for one event and for a block of them.

=================  ==============  ==============================================================================
name               task            value
=================  ==============  ==============================================================================
``zero_one``       classification  1 if the predicted label is not the target, else 0
``cross_entropy``  classification  -ln of the probability of the target, clipped to [1e-15, 1]
``brier``          classification  sum over classes of (probability - indicator of the target)², in [0, 2]
``absolute``       regression      absolute error
``squared``        regression      squared error
=================  ==============  ==============================================================================

A class that the model does not know has probability 0. A label without probabilities counts as certain. A missing
prediction counts as a wrong label with all probabilities 0. Functions that take the name of a loss also take a
`CustomLoss`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import SettingsError
from glasstream.base.jit import kernel
from glasstream.events.admission import Task

CLIP = 1e-15
"""Smallest probability that cross-entropy sees: the cost of a certain error is 34.5 instead of infinite."""

ROUNDED = 64 * 2.0**-52
"""Largest error of a right probability, and relative error of a right number, that rounding of a model's sums makes."""

LOSSES: Mapping[str, Task] = {
    "zero_one": Task.CLASSIFICATION,
    "cross_entropy": Task.CLASSIFICATION,
    "brier": Task.CLASSIFICATION,
    "absolute": Task.REGRESSION,
    "squared": Task.REGRESSION,
}
DEFAULT = {Task.CLASSIFICATION: "brier", Task.REGRESSION: "squared"}


@dataclass(frozen=True, slots=True)
class CustomLoss:
    """User-defined loss.

    Parameters
    ----------
    name
        Name of the loss in records and messages.
    task
        ``"classification"`` or ``"regression"``.
    function
        ``function(prediction, target) -> float`` for one event. Classification: `prediction` is the probability of
        each class by its text (all 0 if there is no prediction), and `target` is the text of the true class, or None if
        the model does not know that class. Regression: both are numbers.
    block
        The same loss for many events at once, ``block(values, targets) -> (n,)`` with the arrays that `losses` takes,
        or None. A row's loss must not depend on other rows.
    classes
        Texts of the classes in the order of the columns of `values`. `with_classes` sets them.

    Examples
    --------
    >>> from glasstream.explain.losses import CustomLoss, losses
    >>> def missed_fraud(prediction, target):
    ...     return 10.0 * (1 - prediction["fraud"]) if target == "fraud" else prediction["fraud"]
    >>> loss = CustomLoss("missed_fraud", "classification", missed_fraud, classes=("fine", "fraud"))
    >>> said = np.array([[0.75, 0.25], [0.5, 0.5]])
    >>> losses(loss, said, np.array([0, 0]), np.array([1.0, 0.0])).tolist()
    [7.5, 0.5]
    """

    name: str
    task: str
    function: Callable[[Any, Any], float]
    block: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]] | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.task not in [task.value for task in Task]:
            raise SettingsError(
                [f"loss {self.name!r}: expected the task classification or regression, got {self.task!r}"]
            )

    def __str__(self) -> str:
        return self.name

    def of(self, values: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (n,) losses; the arrays are those of `losses`."""
        if self.block is not None:
            return np.asarray(self.block(values, targets), np.float64)
        if self.task == Task.REGRESSION:
            pairs: Any = zip(values[:, 0].tolist(), targets.tolist(), strict=True)
        else:
            if len(self.classes) != values.shape[1]:
                raise SettingsError(
                    [
                        f"loss {self.name!r}: expected the texts of {values.shape[1]} classes, got {self.classes}; "
                        "name them by with_classes(loss, predictor.classes)"
                    ]
                )
            said = (dict(zip(self.classes, row, strict=True)) for row in values.tolist())
            true = (self.classes[int(target)] if target >= 0 else None for target in targets.tolist())
            pairs = zip(said, true, strict=True)
        return np.array([self.function(prediction, target) for prediction, target in pairs], np.float64)


Loss = str | CustomLoss


def with_classes(loss: Loss, classes: Sequence[str]) -> Loss:
    """Return the loss with the classes of a predictor's columns; a name is returned unchanged."""
    return loss if isinstance(loss, str) else replace(loss, classes=tuple(classes))


@overload
def loss_for(task: Task, name: str | None) -> str: ...


@overload
def loss_for(task: Task, name: Loss | None) -> Loss: ...


def loss_for(task: Task, name: Loss | None) -> Loss:
    """Return the configured loss if it fits the task, or the task's default if none is configured.

    Raises
    ------
    SettingsError
        The loss does not exist or is for the other task.
    """
    if name is None:
        return DEFAULT[task]
    if isinstance(name, CustomLoss):
        if name.task != task:
            raise SettingsError([f"loss {name.name!r}: expected one for {task.value}, got one for {name.task}"])
        return name
    if LOSSES.get(name) is not task:
        fitting = ", ".join(loss for loss, of in LOSSES.items() if of is task)
        raise SettingsError([f"explain.loss: expected one of {fitting} for {task.value}, got {name!r}"])
    return name


def possible_tasks(task: Task | None, name: str | None) -> list[Task]:
    """Return the tasks that a stream can have with the task of its model and its loss; each is None if it is open."""
    return [one for one in Task if task in (None, one) and (name is None or LOSSES[name] is one)]


def loss_one(
    name: Loss, label: str | None, probabilities: Mapping[str, float] | None, value: float, target: str | float
) -> float:
    """Return the loss of one prediction.

    Parameters
    ----------
    name
        One of `LOSSES`, or a `CustomLoss`.
    label, probabilities
        The predicted class and the probability of each class (classification).
    value
        The predicted number (regression).
    target
        The true class or number.
    """
    if probabilities is None and label is not None:
        probabilities = {label: 1.0}
    if isinstance(name, CustomLoss):
        return float(name.function(value if name.task == Task.REGRESSION else probabilities or {}, target))
    if name == "zero_one":
        return 0.0 if label == target else 1.0
    if name == "squared":
        return (value - target) * (value - target)  # type: ignore[operator]
    if name == "absolute":
        return abs(value - target)  # type: ignore[operator]
    probabilities = probabilities or {}
    if name == "cross_entropy":
        return -log(min(max(probabilities.get(str(target), 0.0), CLIP), 1.0))
    seen = target in probabilities
    total = 0.0 if seen else 1.0
    for key, probability in probabilities.items():
        error = probability - (1.0 if key == target else 0.0)
        total += error * error
    return total


def rounding(name: str, targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n,) the largest loss of right predictions that differ from the targets only by `ROUNDED`.

    It is 0 for ``zero_one``, and for custom losses, whose scale is not known. The parameters are those of `losses`.
    """
    if name == "brier":
        return np.full(len(targets), 2.0 * ROUNDED**2)
    if name == "cross_entropy":
        return np.full(len(targets), ROUNDED)
    if name == "absolute":
        return np.abs(ROUNDED * targets)
    if name == "squared":
        return np.asarray((ROUNDED * targets) ** 2)
    return np.zeros(len(targets))


def losses(
    name: Loss, values: NDArray[np.float64], labels: NDArray[np.int64], targets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the losses of a block of predictions.

    Parameters
    ----------
    name
        One of `LOSSES`, or a `CustomLoss`.
    values
        (n, k) probabilities in the order of the predictor's classes; regression: (n, 1).
    labels
        (n,) index of the predicted class, -1 for none; not read for regression.
    targets
        (n,) index of the true class among the predictor's classes, -1 for an unknown class; regression: the number.

    Returns
    -------
    (n,) losses.
    """
    if isinstance(name, CustomLoss):
        return name.of(values, targets)
    if name == "zero_one":
        return np.where((labels == targets) & (labels >= 0), 0.0, 1.0)
    if name == "squared":
        error = values[:, 0] - targets
        return np.asarray(error * error)
    if name == "absolute":
        return np.abs(values[:, 0] - targets)
    if name == "cross_entropy":
        known = targets >= 0
        chosen = np.zeros(len(targets))
        chosen[known] = values[known, targets[known].astype(np.int64)]
        # math.log instead of np.log, whose vectorised results can depend on the position in the array
        return -np.fromiter(map(log, np.clip(chosen, CLIP, 1.0).tolist()), np.float64, len(targets))
    out = np.empty(len(targets))
    _brier(values, targets, out)
    return out


@kernel
def _brier(values, targets, out):  # type: ignore[no-untyped-def]
    for i in range(len(targets)):
        target = np.int64(targets[i])
        total = 0.0 if target >= 0 else 1.0
        for c in range(values.shape[1]):
            error = values[i, c] - (1.0 if c == target else 0.0)
            total += error * error
        out[i] = total
