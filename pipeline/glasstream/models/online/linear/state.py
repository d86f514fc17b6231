"""What a linear model consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from glasstream.models.online.linear import kernels as K
from glasstream.models.predictors.arrays import Array

PARAMETERS: Final = ("rate", "intercept_rate", "intercept_power", "intercept", "clip", "implicit")
"""Learning rates of the weights and of the intercept, the power of time that divides the latter, first intercept, bound
of a gradient, and 1 for implicit steps or 0: finite numbers.
"""


@dataclass(slots=True)
class State:
    """A linear model: its parameters, and arrays with room for more features and members."""

    kind: int
    parameters: Mapping[str, float]
    steps: tuple[str, str] = ("", "")
    """Names of the two steps of River's pipeline."""
    slots: dict[str, int] = field(default_factory=dict)
    """Names of the features, and their slots."""
    labels: dict[Any, int] = field(default_factory=dict)
    """Classes and their numbers, which are those of their members for one-vs-rest."""
    features: Array = field(default_factory=lambda: np.zeros((0, 0, K.FIELDS)))
    numbers: Array = field(default_factory=lambda: np.zeros((0, K.NUMBERS)))
    order: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    born: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    """int64[1]: how many members have begun: entries of `order`."""

    def __post_init__(self) -> None:
        if self.kind == K.BINARY:
            self.labels = {False: 0, True: 1}
        self.make_room()
        if self.kind != K.ONE_VS_REST:
            self.born[0] = 1

    @property
    def members(self) -> int:
        """How many members there are or, once their class has been learned, will be."""
        return len(self.labels) if self.kind == K.ONE_VS_REST else 1

    def make_room(self) -> None:
        """Let the arrays grow to the features and members that are known now."""
        members, slots = self.members, len(self.slots)
        has_members, has_slots, _ = self.features.shape
        if members <= has_members and slots <= has_slots:
            return
        more_members = has_members if members <= has_members else max(members, 2 * has_members)
        more_slots = has_slots if slots <= has_slots else max(16, 2 * slots)
        features = np.zeros((more_members, more_slots, K.FIELDS))
        features[:has_members, :has_slots] = self.features
        numbers, order = np.zeros((more_members, K.NUMBERS)), np.zeros(more_members, np.int64)
        given = self.parameters
        numbers[:, K.INTERCEPT], numbers[:, K.RATE] = given["intercept"], given["rate"]
        numbers[:, K.INTERCEPT_RATE], numbers[:, K.POWER] = given["intercept_rate"], given["intercept_power"]
        numbers[:, K.CLIP], numbers[:, K.IMPLICIT] = given["clip"], given["implicit"]
        numbers[:, K.HALF] = 0.5
        numbers[:has_members], order[:has_members] = self.numbers, self.order
        self.features, self.numbers, self.order = features, numbers, order
