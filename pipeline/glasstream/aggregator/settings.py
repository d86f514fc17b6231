"""Settings of the aggregator."""

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
    """Number of background rows that iPFI draws for each feature."""
    inner: int
    """Number of background rows on which one contribution of iSAGE depends."""
    level: float
    """Confidence level of the intervals."""
    start: int
    every: int
    ice: int
    """Number of ICE curves kept per feature."""
    drift: DriftSettings | None = None
    """Settings of the drift detectors; None if nothing is watched."""

    def overlap(self, draws: int) -> Overlap:
        """Return the dependence between contributions that each use this many background rows."""
        return Overlap.of(self.sampling, self.reservoir, draws)
