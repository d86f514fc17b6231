"""Contracts of all topics: the records, their form and keys, and how the broker must keep them."""

from typing import Final

from glasstream_topics import (
    attributions,
    checkpoints,
    comparisons,
    contributions,
    drift,
    effects,
    events,
    events_dead,
    groups,
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
    segments,
    snapshots,
    watching,
)
from glasstream_topics.contract import DEFAULT_PREFIX, Topic

ALL: Final[tuple[Topic, ...]] = (
    labels.TOPIC,
    events.TOPIC,
    events_dead.TOPIC,
    predictions.TOPIC,
    groups.TOPIC,
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
    attributions.TOPIC,
    drift.TOPIC,
    incidents.TOPIC,
    watching.TOPIC,
    segments.TOPIC,
    novelty.TOPIC,
    comparisons.TOPIC,
)
"""All topics that every deployment has, in the order of the data flow."""

AVRO: Final[tuple[Topic, ...]] = tuple(topic.in_avro() for topic in ALL if topic.published)
"""The topics that hold the published records in Avro. Only a deployment with the setting `avro.registry` has them."""

__all__ = ["ALL", "AVRO", "DEFAULT_PREFIX", "Topic"]
