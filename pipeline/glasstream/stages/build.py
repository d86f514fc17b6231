"""Builds a stage by its name, ready to run as a worker.

Modules that only one stage needs are imported when that stage is built: River alone takes two seconds.
"""

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from glasstream.errors import SettingsError
from glasstream.models.codec.authentication import Key
from glasstream.secret import hmac_key
from glasstream.settings import Settings
from glasstream.stages.aggregator_progress import AggregatorProgress
from glasstream.stages.health import watch_over
from glasstream.stages.names import LOST_EVENTS, needed_topics, topic
from glasstream.transport.connection import connection
from glasstream.transport.options import options
from glasstream.transport.progress import read_to_end
from glasstream.transport.redact import secrets_of
from glasstream.transport.snapshot_table import TableSpec
from glasstream.transport.stage import Stage
from glasstream.transport.stateful import PartitionState, StatefulStage, StateLane
from glasstream.transport.stateless import StatelessStage
from glasstream.transport.topic_sizes import SizeCheck
from glasstream.transport.watch import Follower
from glasstream.transport.worker import ExitCode, run_worker
from glasstream_topics import progress_aggregator

State = TypeVar("State")

STAGES = ("learner", "explainer", "aggregator", "novelty", "labels")


def run(stage: str, settings: Settings) -> ExitCode:
    """Run one worker of a stage until it is told to stop or cannot go on."""
    key = hmac_key(os.environ)
    makers = {
        "learner": _learner,
        "explainer": _explainer,
        "aggregator": _aggregator,
        "novelty": _novelty,
        "labels": _labels,
    }
    make = makers[stage]

    def build() -> Stage:
        connection(settings).expect_usable()
        return make(settings, key)

    return run_worker(build, options(stage, settings), secrets_of(settings.kafka, key))


def _learner(settings: Settings, key: Key | None) -> Stage:
    from glasstream.stages import learner
    from glasstream.stages.learner import LearnerTask

    progress = AggregatorProgress()
    link, presence = connection(settings), options("learner", settings)
    if settings.checkpoint.seconds and key is None:
        raise SettingsError(
            [
                "GLASSTREAM_HMAC_KEY is not set, but checkpoints need a key. Set it, or GLASSTREAM_HMAC_KEY_FILE, to "
                "the same key for all workers (`openssl rand -hex 32` prints a new one); or set checkpoint.seconds=0: "
                "a restart then learns everything again"
            ]
        )

    def read(name: str, partition: int) -> Mapping[bytes, bytes]:
        wanted = progress_aggregator.is_progress if name == progress_aggregator.TOPIC.name else lambda key: True
        return read_to_end(link, topic(settings, name), partition, presence.take_over_timeout, wanted)

    stage = StatefulStage(
        link,
        presence,
        input_topic=topic(settings, "events"),
        state_topic=topic(settings, "progress.learner"),
        make_state=lambda partition: LearnerTask(partition, settings, key, progress, read),
        topics=needed_topics("learner", settings),
        commit_interval=settings.transaction.seconds,
        commit_rows=settings.transaction.rows,
    )
    stage.remedy, stage.replaceable = LOST_EVENTS, _replaceable(settings)
    follower = Follower(link, topic(settings, "progress.aggregator"), progress.on_record, on_error=stage.fail)
    progress.attach(follower)
    stage.services.append(follower)
    stage.services.insert(0, SizeCheck(link, topic(settings, "events")))
    watch_over(stage, settings, lambda: learner.samples(_states(stage, LearnerTask)))
    return stage


def _explainer(settings: Settings, key: Key | None) -> Stage:
    from glasstream.models.codec.warm_up import warm_up
    from glasstream.stages.explainer import ExplainerTask

    worker = ExplainerTask(settings, key, AggregatorProgress())
    warm_up()
    stage = StatelessStage(
        connection(settings),
        options("explainer", settings),
        input_topic=topic(settings, "explain.requests"),
        handle=worker.handle,
        topics=needed_topics("explainer", settings),
        table=TableSpec(topic(settings, "snapshots"), worker.on_snapshot),
    )
    stage.replaceable = _replaceable(settings)
    follower = Follower(
        connection(settings), topic(settings, "progress.aggregator"), worker.on_progress, on_error=stage.fail
    )
    for partition in range(settings.topics.events):
        follower.follow(partition)
    stage.services.append(follower)
    stage.beats.append(lambda: worker.tell(stage.lanes))
    watch_over(stage, settings, worker.samples)
    return stage


def _aggregator(settings: Settings, key: Key | None) -> Stage:
    from glasstream.stages import aggregator
    from glasstream.stages.aggregator import AggregatorTask

    needed = needed_topics("aggregator", settings)
    stage = _stateful(
        "aggregator", settings, "contributions", lambda partition: AggregatorTask(partition, settings), needed
    )
    stage.replaceable = _replaceable(settings)
    watch_over(stage, settings, lambda: aggregator.samples(_states(stage, AggregatorTask)))
    return stage


def _novelty(settings: Settings, key: Key | None) -> Stage:
    from glasstream.stages import novelty
    from glasstream.stages.fitter import Fitter
    from glasstream.stages.novelty import NoveltyTask

    fitter = Fitter()
    needed = needed_topics("novelty", settings)
    stage = _stateful("novelty", settings, "events", lambda partition: NoveltyTask(partition, settings, fitter), needed)
    stage.remedy = LOST_EVENTS
    stage.services.insert(0, SizeCheck(stage.connection, topic(settings, "events")))
    stage.services.append(fitter)
    watch_over(stage, settings, lambda: novelty.samples(_states(stage, NoveltyTask)))
    return stage


def _labels(settings: Settings, key: Key | None) -> Stage:
    from glasstream.stages import labels
    from glasstream.stages.labels import LOST_LABELS, LabelsTask

    needed = needed_topics("labels", settings)
    stage = _stateful("labels", settings, "labels", lambda partition: LabelsTask(partition, settings), needed)
    stage.remedy = LOST_LABELS
    stage.services.insert(0, SizeCheck(stage.connection, topic(settings, "labels")))
    watch_over(stage, settings, lambda: labels.samples(_states(stage, LabelsTask)))
    return stage


def _stateful(
    name: str,
    settings: Settings,
    reads: str,
    make_state: Callable[[int], PartitionState],
    needed: dict[str, int | None],
) -> StatefulStage:
    return StatefulStage(
        connection(settings),
        options(name, settings),
        input_topic=topic(settings, reads),
        state_topic=topic(settings, f"progress.{name}"),
        make_state=make_state,
        topics=needed,
        commit_interval=settings.transaction.seconds,
        commit_rows=settings.transaction.rows,
    )


def _replaceable(settings: Settings) -> frozenset[str]:
    """Return the topics that the learner publishes again, or whose records are made from those."""
    return frozenset(topic(settings, name) for name in ("explain.requests", "contributions"))


def _states(stage: StatefulStage, kind: type[State]) -> list[State]:
    """Return the states of the partitions that a stage owns."""
    return [lane.state for lane in stage.lanes.values() if isinstance(lane, StateLane) and isinstance(lane.state, kind)]
