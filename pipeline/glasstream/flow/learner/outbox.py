"""What learners have produced and nobody has taken yet."""

from copy import copy
from dataclasses import dataclass, field

from glasstream.models.predictors.predictor import Predictor
from glasstream_topics.requests import ExplainRequest


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a stream's model, in the form that explainers evaluate."""

    stream: str
    epoch: int
    version: int
    predictor: Predictor
    since: int
    """The first entry that is explained with this version: a row, without `explain.unlabelled`."""
    until: int
    """The first entry that is explained with a later version; `NEVER` if only that version will tell."""


@dataclass(slots=True)
class Outbox:
    """Output of learners that was not taken yet, in order."""

    predictions: list[tuple[str, bytes]] = field(default_factory=list)
    """(stream, record)"""
    groups: list[tuple[str, bytes]] = field(default_factory=list)
    """(stream, record)"""
    requests: list[ExplainRequest] = field(default_factory=list)
    sent: list[ExplainRequest] = field(default_factory=list)
    """Requests that a predecessor has sent. They are made again, because they may have to be sent again."""
    snapshots: list[ModelVersion] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """Lines for the log about events that happen once."""

    def emptied(self) -> "Outbox":
        """Return the output in an outbox of its own, and empty this one, which the learners share."""
        taken = copy(self)
        self.predictions, self.groups, self.requests = [], [], []
        self.sent, self.snapshots, self.notices = [], [], []
        return taken

    def log_once(self, stream: str, line: str, logged: set[str]) -> None:
        """Add a line about a stream to the notices, unless it is in `logged`."""
        if line not in logged:
            logged.add(line)
            self.notices.append(f"stream {stream!r}: {line}")
