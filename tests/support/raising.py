"""A model of a user that raises on rows that never occur: only an explainer meets them."""

from collections.abc import Mapping
from typing import Any

from river import base


class Strict(base.Classifier):
    """Guesses by the first feature, and insists that `c` is what the events say it is, for some rows."""

    above = 0.8

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        pass

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[bool, float]:
        if x["a"] > self.above and x["c"] != x["a"] * x["b"]:
            raise ArithmeticError("c is not a times b")
        return {True: x["a"], False: 1 - x["a"]}


def strict() -> Strict:
    return Strict()


class Refusing(Strict):
    """Raises on every row that never occurs, so that no explanation succeeds."""

    above = -1.0


def refusing() -> Refusing:
    return Refusing()
