"""Builds a stage by its name, ready to run as a worker.

Modules that only one stage needs are imported when that stage is built: River alone takes two seconds.
"""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NoReturn, TypeVar

from glasstream.base.errors import SettingsError
from glasstream.flow.settings import Settings
from glasstream.kafka.secret import hmac_key, notify_keys, notify_url, registry_login
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.health import watch_over
from glasstream.kafka.stages.kernels import compile_meanwhile, warm_up
from glasstream.kafka.stages.names import LOST_EVENTS, needed_topics, topic
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.input_topic import SizeCheck, TopicIdentity
from glasstream.kafka.transport.options import options
from glasstream.kafka.transport.progress import read_to_end
from glasstream.kafka.transport.redact import secrets_of, secrets_of_webhook
from glasstream.kafka.transport.relay import Relay
from glasstream.kafka.transport.snapshot_table import TableSpec
from glasstream.kafka.transport.stage import Stage
from glasstream.kafka.transport.stateful import PartitionState, StatefulStage, StateLane
from glasstream.kafka.transport.stateless import StatelessStage
from glasstream.kafka.transport.watch import Follower
from glasstream.kafka.transport.worker import run_worker
from glasstream.models.codec.authentication import Key
from glasstream_topics import incidents, models, progress_aggregator, progress_intake

State = TypeVar("State")

STAGES = ("learner", "explainer", "aggregator", "novelty", "labels", "intake", "notify", "avro")
SEALED = ("learner", "explainer", "aggregator", "novelty")
"""Stages with saved state that the HMAC key authenticates. Only they need the key."""


def run(stage: str, settings: Settings, interpreted: Callable[[bool], None] | None = None) -> NoReturn:
    """Run one worker of a stage until it gets a signal to stop or cannot continue. Then end the process.

    Before the start, kernels are compiled, which takes a minute or more on a machine that has none in numba's cache.
    With `interpreted`, the stage does not wait for that: it starts with plain Python. `interpreted` is called when the
    stage is ready to start, and when compiled kernels have replaced plain Python, with whether plain Python runs.
    """
    key = hmac_key(os.environ) if stage in SEALED else None
    makers: dict[str, Callable[[Settings, Key | None], Stage | Relay]] = {
        "learner": _learner,
        "explainer": _explainer,
        "aggregator": _aggregator,
        "novelty": _novelty,
        "labels": _labels,
        "intake": _intake,
        "notify": _notify,
        "avro": _avro,
    }
    make = makers[stage]

    def build() -> Stage | Relay:
        connection(settings).expect_usable()
        made = make(settings, key)
        if interpreted is None:
            warm_up(stage, settings)
            return made
        compilation = compile_meanwhile(stage, settings, partial(interpreted, False))
        if compilation is not None:
            made.services.append(compilation)
        interpreted(compilation is not None)
        return made

    secrets = secrets_of(settings.kafka, key)
    if stage == "notify":
        secrets += secrets_of_webhook(notify_url(os.environ), notify_keys(os.environ))
    if stage in ("intake", "avro") and (login := registry_login(os.environ)) is not None:
        secrets += [login, login.partition(":")[2]]
    run_worker(build, options(stage, settings), secrets)


def _learner(settings: Settings, key: Key | None) -> Stage:
    from glasstream.flow.learner.pushed import file_of
    from glasstream.flow.learner.stream_state import reason_for_key
    from glasstream.kafka.stages import learner
    from glasstream.kafka.stages.learner import LearnerTask
    from glasstream.kafka.trial import Trials

    progress = AggregatorProgress()
    link, presence = connection(settings), options("learner", settings)
    if key is None and (reason := reason_for_key(settings)) is not None:
        raise SettingsError(
            [
                f"GLASSTREAM_HMAC_KEY is not set, and the learner does not start without a key: {reason}. Set it, or "
                "GLASSTREAM_HMAC_KEY_FILE, to the same key for all workers (`openssl rand -hex 32` prints a new one)"
            ]
        )

    def read(name: str, partition: int) -> Mapping[bytes, bytes]:
        wanted = progress_aggregator.is_progress if name == progress_aggregator.TOPIC.name else lambda key: True
        limit = presence.take_over_timeout
        return read_to_end(link, topic(settings, name), partition, limit, wanted, stage.has_read)

    def file(name: str) -> bytes:
        full, limit = topic(settings, models.TOPIC.name), presence.take_over_timeout
        records = read_to_end(link, full, 0, limit, lambda key: models.digest_of(key) == name, stage.has_read)
        return file_of(name, records)

    trials, judges = Trials(), ThreadPoolExecutor(1, thread_name_prefix="judge")
    identify = TopicIdentity(link, topic(settings, "events"))
    stage = StatefulStage(
        link,
        presence,
        input_topic=topic(settings, "events"),
        state_topic=topic(settings, "progress.learner"),
        make_state=lambda partition: LearnerTask(
            partition, settings, key, progress, read, identify=identify, file=file, trial=trials, judges=judges
        ),
        topics=needed_topics("learner", settings),
        commit_interval=settings.transaction.seconds,
        commit_rows=settings.transaction.rows,
    )
    stage.remedy, stage.replaceable = LOST_EVENTS, _replaceable(settings)
    stage.services.append(trials)
    follower = Follower(link, topic(settings, "progress.aggregator"), progress.on_record, on_error=stage.fail)
    progress.attach(follower)
    stage.services.append(follower)
    stage.services.insert(0, SizeCheck(link, topic(settings, "events")))
    watch_over(stage, settings, lambda: learner.samples(_states(stage, LearnerTask)))
    return stage


def _explainer(settings: Settings, key: Key | None) -> Stage:
    from glasstream.kafka.stages.explainer import ExplainerTask

    worker = ExplainerTask(settings, key, AggregatorProgress())
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
    from glasstream.kafka.stages import aggregator
    from glasstream.kafka.stages.aggregator import AggregatorTask

    needed = needed_topics("aggregator", settings)
    stage = _stateful(
        "aggregator", settings, "contributions", partial(AggregatorTask, settings=settings, key=key), needed
    )
    stage.replaceable = _replaceable(settings)
    watch_over(
        stage,
        settings,
        lambda: aggregator.samples(_states(stage, AggregatorTask)),
        lambda: aggregator.notes(_states(stage, AggregatorTask)),
    )
    return stage


def _novelty(settings: Settings, key: Key | None) -> Stage:
    from glasstream.kafka.stages import novelty
    from glasstream.kafka.stages.fitter import Fitter
    from glasstream.kafka.stages.novelty import NoveltyTask

    fitter = Fitter()
    needed = needed_topics("novelty", settings)
    make = partial(NoveltyTask, settings=settings, fitter=fitter, key=key)
    stage = _stateful("novelty", settings, "events", make, needed)
    stage.remedy = LOST_EVENTS
    stage.services.insert(0, SizeCheck(stage.connection, topic(settings, "events")))
    stage.services.append(fitter)
    watch_over(stage, settings, lambda: novelty.samples(_states(stage, NoveltyTask)))
    return stage


def _labels(settings: Settings, key: Key | None) -> Stage:
    from glasstream.kafka.stages import labels
    from glasstream.kafka.stages.labels import LOST_LABELS, LabelsTask

    needed = needed_topics("labels", settings)
    stage = _stateful("labels", settings, "labels", partial(LabelsTask, settings=settings), needed)
    stage.remedy = LOST_LABELS
    stage.services.insert(0, SizeCheck(stage.connection, topic(settings, "labels")))
    watch_over(stage, settings, lambda: labels.samples(_states(stage, LabelsTask)))
    return stage


def _intake(settings: Settings, key: Key | None) -> Relay:
    from glasstream.kafka.stages.intake import HeldTypes, Intake
    from glasstream.kafka.stages.schemas import format_maker

    intake = settings.intake
    intake.expect_usable(settings.prefix)
    link, presence = connection(settings), options("intake", settings)
    held = HeldTypes(link, presence, topic(settings, progress_intake.TOPIC.name))
    worker = Intake(settings, format_maker(intake, os.environ), held)
    needed = needed_topics("intake", settings)
    sources = tuple(dict.fromkeys((*intake.sources, *intake.labels_sources)))  # one topic can have both
    named_by = "intake.topics and intake.labels_topics"
    relay = Relay(link, presence, sources, worker, needed, settings.transaction.seconds, named_by, begun=held.topics)
    watch_over(relay, settings, worker.samples)
    return relay


def _avro(settings: Settings, key: Key | None) -> Relay:
    from glasstream.kafka.stages.avro import AvroPublisher, PartitionCheck
    from glasstream.kafka.stages.registry import INSTALL, subjects

    if settings.avro.registry is None:
        raise SettingsError(
            ["avro.registry is not set, but the Avro publisher needs the address of a schema registry; set it"]
        )
    try:
        worker = AvroPublisher(settings, subjects(settings, os.environ).id_of)
    except ImportError as error:
        raise SettingsError([f"the Avro publisher needs the package {error.name}; {INSTALL}"]) from error
    prefix, link = settings.prefix, connection(settings)
    copies = {source.full_name(prefix): source.in_avro().full_name(prefix) for source in settings.in_avro}
    needed = needed_topics("avro", settings)
    relay = Relay(
        link, options("avro", settings), tuple(copies), worker, needed, settings.transaction.seconds, "avro.topics"
    )
    relay.services.append(PartitionCheck(link, copies))
    watch_over(relay, settings, worker.samples)
    return relay


def _notify(settings: Settings, key: Key | None) -> Stage:
    from glasstream.kafka.stages.notify import LOST_INCIDENTS, Notifier
    from glasstream.kafka.stages.webhook import Webhook

    address = notify_url(os.environ)
    if address is None:
        raise SettingsError(
            [
                "GLASSTREAM_NOTIFY_URL is not set, but the notifier needs the address of a webhook; set it, or "
                "GLASSTREAM_NOTIFY_URL_FILE"
            ]
        )
    webhook = Webhook(address, settings.notify.timeout_seconds)
    notifier = Notifier(settings.notify, webhook, notify_keys(os.environ) or ())
    stage = StatelessStage(
        connection(settings),
        options("notify", settings),
        input_topic=topic(settings, incidents.TOPIC.name),
        handle=notifier.handle,
        topics=needed_topics("notify", settings),
        start=settings.notify.start,
        writes=False,
    )
    stage.remedy = LOST_INCIDENTS
    stage.services.append(webhook)
    stage.beats.append(lambda: notifier.tell(stage.lanes))
    watch_over(stage, settings, notifier.samples)
    return stage


def _stateful(
    name: str,
    settings: Settings,
    reads: str,
    make_state: Callable[..., PartitionState],
    needed: dict[str, int | None],
) -> StatefulStage:
    link = connection(settings)
    return StatefulStage(
        link,
        options(name, settings),
        input_topic=topic(settings, reads),
        state_topic=topic(settings, f"progress.{name}"),
        make_state=partial(make_state, identify=TopicIdentity(link, topic(settings, reads))),
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
