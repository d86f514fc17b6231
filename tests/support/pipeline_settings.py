"""Settings for runs of all stages in memory."""

from glasstream.app.configuration import load
from glasstream.flow.settings import Settings

PUBLIC = (
    "predictions", "groups", "importance", "effects", "attributions", "drift", "incidents", "watching", "segments",
    "novelty",
)  # fmt: skip


SETTINGS = (
    "model.name=linear", "model.task=classification", "explain.reservoir=10", "topics.events=2", "topics.requests=3",
    "publish.every=25", "snapshot.doubling=8", "snapshot.cadence=20", "snapshot.target=0", "limits.rows_ahead=80",
    "checkpoint.seconds=0.000001", "checkpoint.share=1", "block.rows=8",
)  # fmt: skip


WATCHED = (
    "explain.methods=ipfi,novelty", "novelty.window=40", "novelty.stride=30", "novelty.delay=20",
    "novelty.held=0.5", "novelty.rate=0.05", "novelty.learners=2", "novelty.iterations=5", "novelty.anchor=50",
    "novelty.grace=20",
)  # fmt: skip


def settings(*more: str) -> Settings:
    return load(assignments=[*SETTINGS, *more])
