"""What a learner of one stream has counted, learned and decided: when no block is open, a successor needs no more."""

from typing import Annotated, Any, Final

import msgspec

from glasstream.events.features import FeatureTable
from glasstream.events.waiting import Waiting
from glasstream.explain.background import Background
from glasstream.flow.learner.entries import Entries
from glasstream.flow.learner.expected import ExpectedPerformance
from glasstream.flow.learner.groups import GroupState
from glasstream.flow.learner.make_model import Model
from glasstream.flow.learner.unlabelled import Unlabelled
from glasstream.flow.settings import Settings
from glasstream.models.predictors.predictor import Predictor

NEVER: Final = 2**53
"""A number of rows that no stream reaches."""

Count = Annotated[int, msgspec.Meta(ge=0, le=NEVER)]


class Numbers(msgspec.Struct, kw_only=True):
    """The part of a state that is the same in JSON."""

    unlabelled: Count
    """Number of events that came without a label."""
    scored: Count
    """Number of predictions with a label."""
    score: float
    """Numerator of the running metric: the number of correct labels, or the sum of absolute errors."""
    flush_before: bool
    """Whether a flush mark came after the newest request."""
    through_river: bool
    """Whether the newest snapshot is not compiled."""
    version: Count
    """Version of the model that explains the next row: the newest scheduled one."""
    staleness: float | None
    """Distance between this version and the one before it."""
    known_categories: list[Count]
    """Number of categories of each slot when the newest snapshot was made."""
    next_due: Count
    """Number of rows at which the next snapshot is due."""
    pushed: str | None = None
    """SHA-256 of the model that the newest mark has brought; None while it is that of the settings."""
    at_rest: bool
    """Whether the state was not taken at a snapshot, so that it holds the newest one."""

    def numbers(self) -> dict[str, Any]:
        """Return these fields by name."""
        return {name: getattr(self, name) for name in Numbers.__struct_fields__}


class LearnerState(Numbers, kw_only=True):
    """The state of a learner."""

    rows: int = 0
    """Number of rows learned: the number of the next row and the version of the model."""
    seqs: int = 0
    """Number of events accepted."""
    features: FeatureTable
    loss: str = ""
    """Name of the loss; empty before the task is known."""
    background: Background
    said: set[str]
    """Lines for the log that are not repeated."""
    model: Model | None = None
    """None before the task is known, and in a saved state if the model learns nothing: settings or `pushed` name it."""
    waiting: Waiting[Unlabelled]
    entries: Entries | None
    """None without `explain.unlabelled`."""
    expected: ExpectedPerformance
    groups: GroupState | None = None
    """Codes and sums of the groups of rows; None without `groups.by`."""
    newest: Predictor | None = None
    """The newest snapshot, if it is compiled."""

    @property
    def next_entry(self) -> int:
        """Number of the next entry: of the next row, without `explain.unlabelled`."""
        return self.rows if self.entries is None or self.entries.next is None else self.entries.next

    @classmethod
    def new(cls, settings: Settings, stream: str) -> "LearnerState":
        """Return the state before the first event."""
        return cls(
            unlabelled=0,
            scored=0,
            score=0.0,
            flush_before=False,
            through_river=False,
            version=0,
            staleness=None,
            known_categories=[],
            next_due=1,
            at_rest=False,
            features=FeatureTable(settings.limits),
            background=Background(settings, stream),
            said=set(),
            waiting=Waiting(settings.labels.window, settings.limits.waiting_bytes),
            entries=Entries() if settings.explain.every_event else None,
            expected=ExpectedPerformance(settings.labels.estimate, settings.labels.window),
            groups=None if settings.groups.by is None else GroupState(settings.groups),
        )
