"""Contracts of all topics: the records, their form and keys, and how the broker must keep them."""

from typing import Final

from glasstream_topics import (
    checkpoints,
    contributions,
    drift,
    effects,
    events,
    events_dead,
    importance,
    incidents,
    labels,
    models,
    novelty,
    predictions,
    progress_aggregator,
    progress_intake,
    progress_labels,
    progress_learner,
    progress_novelty,
    requests,
    snapshots,
)
from glasstream_topics.contract import DEFAULT_PREFIX, Topic

ALL: Final[tuple[Topic, ...]] = (
    labels.TOPIC,
    events.TOPIC,
    events_dead.TOPIC,
    predictions.TOPIC,
    requests.TOPIC,
    contributions.TOPIC,
    snapshots.TOPIC,
    models.TOPIC,
    checkpoints.TOPIC,
    progress_learner.TOPIC,
    progress_aggregator.TOPIC,
    progress_novelty.TOPIC,
    progress_labels.TOPIC,
    progress_intake.TOPIC,
    importance.TOPIC,
    effects.TOPIC,
    drift.TOPIC,
    incidents.TOPIC,
    novelty.TOPIC,
)
"""All topics, in the order of the data flow."""

__all__ = ["ALL", "DEFAULT_PREFIX", "Topic"]
