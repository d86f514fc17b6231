"""What the aggregator must know."""

from dataclasses import dataclass

from glasstream.aggregator.overlap import Overlap
from glasstream.drift.settings import DriftSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorSettings:
    """Settings of every stream aggregator of a stage. See `glasstream.settings` for meaning and defaults."""

    epoch: int
    methods: tuple[str, ...]
    alpha: float
    sampling: str
    reservoir: int
    draws: int
    """Background rows of iPFI, for each feature."""
    inner: int
    """Background rows that one contribution of iSAGE depends on."""
    level: float
    """Of the intervals."""
    start: int
    every: int
    ice: int
    """ICE curves kept of each feature."""
    drift: DriftSettings | None = None
    """What is watched; None: nothing."""

    def overlap(self, draws: int) -> Overlap:
        """How contributions that each depend on so many background rows depend on each other."""
        return Overlap.of(self.sampling, self.reservoir, draws)
