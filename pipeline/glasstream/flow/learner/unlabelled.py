"""What is kept of an event until its label comes."""

from array import array

import msgspec

from glasstream.events.features import KeptFeatures
from glasstream.models.stream_model import Prediction

CLASS_BYTES = 16
"""Bytes of a class in a prediction that is kept."""


class Unlabelled(msgspec.Struct, frozen=True, gc=False):
    """An event that waits for its label."""

    x: KeptFeatures
    label: str | None
    classes: tuple[str, ...] | None
    """The classes of the prediction; None if there is none, or one of a number."""
    probabilities: "array[float] | None"
    value: float | None
    """The predicted number of a regression."""
    ts: int | None
    """Time of the event."""
    groups: bytes = b""
    """Codes of its groups, as in `glasstream.flow.learner.groups`."""

    @property
    def size(self) -> int:
        """Approximate bytes that depend on the event."""
        return self.x.size + (0 if self.classes is None else CLASS_BYTES * len(self.classes)) + len(self.groups)

    @property
    def outline(self) -> Prediction:
        """The prediction that was published without the label, without its probabilities."""
        return Prediction(self.label, None, self.value)

    @property
    def prediction(self) -> Prediction:
        """The prediction that was published without the label."""
        if self.classes is None or self.probabilities is None:
            return Prediction(self.label, None, self.value)
        return Prediction(self.label, dict(zip(self.classes, self.probabilities, strict=True)), self.value)
