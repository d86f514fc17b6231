"""What an explainer of a model is; `glasstream.testing` checks the laws that it must keep."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Explainer(Protocol):
    """Explains a River model event by event, before the model learns the event.

    Contract:

    - The explainer calls the model but never teaches it, and does not change events. None equals an absent feature.
    - Estimates are finite numbers, keyed by features that have occurred. There are none before the first explained
      event. A feature that the model does not use has importance zero.
    - All randomness is a function of a seed and the event's number: the same events give the same bits.
    - An invalid event raises an error of `glasstream.base.errors` and does not affect later estimates.
    - The explainer can be pickled with its model and continues with the same bits. If it has `state` and `restore`,
      these keep the bits as well (state: JSON values, and arrays), or raise StateError if its settings do not allow it.
    - If the explainer has `explain_block`, the blocks into which events are cut change no bit.
    """

    @property
    def importance(self) -> Mapping[str, float]:
        """Return the newest estimates."""

    def explain_one(self, x: Mapping[str, Any], y: Any) -> Mapping[str, float]:
        """Explain one event and return the new `importance`."""
