"""What the fold must know."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldSettings:
    """Settings of every stream fold of a stage. See `pipeline.settings` for meaning and defaults."""

    epoch: int
    alpha: float
    sampling: str
    start: int
    every: int
