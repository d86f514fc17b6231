"""A linear regression that no feature can make diverge."""

from typing import Any

from river import linear_model
from river.utils import VectorDict


class ImplicitRegression(linear_model.LinearRegression):
    """Linear regression by implicit stochastic gradient descent on the squared loss.

    A step of plain gradient descent overshoots, and the next one overshoots more, as soon as the learning rate times
    the sum of the squared features exceeds 1: with many features, or after a feature that was constant has changed. An
    implicit step takes the gradient at the weights where it ends (Kulis and Bartlett, 2010; Toulis and Airoldi, 2017).
    For the squared loss this divides a plain step by 1 + 2 · learning rate · Σ x². The prediction for the event then
    moves towards its target, and never beyond.

    Parameters are those of River's `LinearRegression`, with the optimizer SGD and the squared loss. The intercept takes
    plain steps.

    Examples
    --------
    >>> from river import linear_model
    >>> event, plain, implicit = {"x": 100.0}, linear_model.LinearRegression(), ImplicitRegression()
    >>> for _ in range(5):
    ...     plain.learn_one(event, 1.0)
    ...     implicit.learn_one(event, 1.0)
    >>> f"{plain.predict_one(event):.3g} {implicit.predict_one(event):.3g}"
    '3.12e+11 1'
    """

    def _eval_gradient_one(self, x: dict[Any, float], y: float, w: float) -> tuple[VectorDict, float]:
        _, gradient = super()._eval_gradient_one(x, y, w)
        squares = 0.0
        for value in x.values():  # `sum` rounds otherwise from Python 3.12 on
            squares += value * value
        return VectorDict.from_scaled(x, gradient / (1.0 + 2.0 * self.optimizer.learning_rate * squares)), gradient
