"""Detection of diverging regression models, whose errors leave the scale of their targets."""

from dataclasses import dataclass

_TIMES = 100.0
"""Ratio of error to largest target that counts as divergence. A model that predicts 0 has a ratio of at most 1."""
_EVENTS = 100
"""Number of labelled events before the first verdict, because the first predictions may be far off and recover."""


@dataclass(slots=True)
class Divergence:
    """Watches the targets and the running mean absolute error of one stream."""

    _largest: float = 0.0
    _labelled: int = 0
    _said: bool = False

    def see(self, target: float, error: float) -> str | None:
        """Return a warning for the user once, and None otherwise.

        Parameters
        ----------
        target
            Target of the newest event.
        error
            Mean absolute error up to this event.

        >>> watch = Divergence()
        >>> [watch.see(5.0, 4.0) for _ in range(100)] == [None] * 100
        True
        >>> watch.see(-8.0, 900.0).startswith("the model diverges: its mean absolute error, 900,")
        True
        >>> watch.see(8.0, 1e12)
        """
        self._labelled += 1
        self._largest = max(self._largest, abs(target))
        if self._said or self._labelled < _EVENTS or not 0.0 < _TIMES * self._largest < error:
            return None
        self._said = True
        return (
            f"the model diverges: its mean absolute error, {error:.3g}, is more than {_TIMES:g} times the largest "
            f"target, {self._largest:.3g}; its importances mean nothing. Scale the target, use another model, "
            f"or lower the learning rate in a model of your own (--model PACKAGE.MODULE:FACTORY)"
        )
