"""Checks of the workers: whether the stages that a deployment needs run, and how far they are behind."""

from collections.abc import Collection, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from glasstream.app.operate.doctor.finding import DoctorContext, Finding, fail, ok, warn
from glasstream.app.operate.state import State
from glasstream.app.operate.topic_reader import offsets
from glasstream.base.errors import TopicError
from glasstream.flow.settings import Settings
from glasstream.kafka.secret import notify_url
from glasstream.kafka.stages.build import STAGES
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.group import Unknown, members_of
from glasstream.kafka.transport.options import options
from glasstream.kafka.transport.topic_check import partition_count
from glasstream_topics import labels

Members = Mapping[str, int | str]
"""Number of workers of each stage, or why it is unknown."""

_RIGHTS_SECONDS = 2.0
"""Seconds to wait for the coordinator of a group, after which this client is asked whether it may see the group."""
_POLL_SECONDS = 0.2
_BEHIND = 1_000
"""Lag in messages that is worth a warning even while a worker makes progress."""
_SEE_GROUPS = (
    "allow this client to describe the groups with the prefix, as the operator role of `glasstream topics acls` does"
)


def members(settings: Settings, needed: Collection[str]) -> dict[str, int | str]:
    """Return the number of workers of each stage, or why it is unknown.

    Parameters
    ----------
    needed
        Stages for which no worker must be distinguished from one that this client may not see.
    """
    client = AdminClient(connection(settings).client())
    found: dict[str, int | str] = {}
    for stage in STAGES:
        group = options(stage, settings).group
        count = members_of(client, group)
        if count == 0 and stage in needed and _is_hidden(settings, group):
            found[stage] = f"this client is not authorized to see the group {group}"
        else:
            found[stage] = count.reason if isinstance(count, Unknown) else count
    return found


def _is_hidden(settings: Settings, group: str) -> bool:
    """Return whether this client may not see a group. A list of groups silently omits it."""
    client = Consumer({**connection(settings).consumer(read_committed=True), "group.id": group})
    try:
        client.committed([TopicPartition(topic(settings, "events"), 0)], timeout=_RIGHTS_SECONDS)
    except KafkaException:  # the client has asked again until the time was over; its queue has the broker's answer
        answer = client.poll(_POLL_SECONDS)
        error = None if answer is None else answer.error()
        return error is not None and bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED)
    finally:
        client.close()
    return False


def required(context: DoctorContext) -> dict[str, str]:
    """Return the stages that the settings, the environment and the topics in use need, each with the reason."""
    settings = context.settings
    reasons = dict.fromkeys(("learner", "explainer", "aggregator"), "every deployment needs it")
    if settings.explain.detects_novelty:
        reasons["novelty"] = "explain.methods names novelty"
    if settings.intake.sources or settings.intake.labels_sources:
        reasons["intake"] = "intake.topics or intake.labels_topics names topics to read"
    if settings.in_avro:
        reasons["avro"] = "avro.registry is set"
    if notify_url(context.environment) is not None:
        reasons["notify"] = "GLASSTREAM_NOTIFY_URL is set"
    if _holds_records(settings, name := topic(settings, labels.TOPIC.name)):
        reasons["labels"] = f"{name} holds messages"
    return reasons


def _holds_records(settings: Settings, name: str) -> bool:
    link = connection(settings)
    try:
        places = [(name, number) for number in range(partition_count(link, name))]
    except TopicError:
        return False  # the check of the topics reports it
    return any(first < end for first, end in offsets(link, places).values())


def workers(settings: Settings, needed: Mapping[str, str], found: Members) -> list[Finding]:
    """Check that every stage that is needed has a worker."""
    findings: list[Finding] = []
    for stage, count in found.items():
        check, group = f"{stage} workers", options(stage, settings).group
        if isinstance(count, str):
            if stage in needed:
                findings.append(warn(check, count, _SEE_GROUPS if "authorized" in count else "wait, and check again"))
        elif count:
            findings.append(ok(check, f"{count} in group {group}"))
        elif stage in needed:
            do = (
                f"start `glasstream worker {stage}`, and wait while its log says that it compiles kernels; if it ends, "
                "its exit code and last line give the reason"
            )
            findings.append(fail(check, f"none in group {group}, but {needed[stage]}", do))
    return findings


def lag(settings: Settings, state: State, needed: Mapping[str, str], found: Members) -> list[Finding]:
    """Check how far the stages that are needed are behind."""
    findings: list[Finding] = []
    for place in state.partitions:
        check = f"{place.stage} lag"
        what = f"{place.topic}[{place.partition}]: {place.behind:,} messages behind"
        if place.stage not in needed:
            continue  # an optional stage that has ended
        if place.stage != "explainer" and place.partition >= settings.topics.events:
            continue  # the check of the topics reports partitions beyond those of the deployment
        if place.behind and found.get(place.stage) == 0:
            do = f"start `glasstream worker {place.stage}`"
            findings.append(fail(check, f"{what}, and no worker is processing it", do))
        elif place.behind > _BEHIND:
            do = (
                "add explainers"
                if place.stage == "explainer"
                else "find the slowest stage with `glasstream state show`"
            )
            findings.append(warn(check, what, do))
    for one in state.streams:
        if one.behind >= settings.limits.rows_ahead and settings.limits.lag == "wait":
            what = (
                f"stream {one.stream!r}: {one.behind:,} rows are not aggregated, "
                "so the learner waits (limits.rows_ahead)"
            )
            findings.append(warn("learner lag", what, "add explainers, or check the aggregator's log"))
    rows = sum(one.behind for one in state.streams)
    return findings or [ok("lag", f"{rows:,} rows of {len(state.streams)} streams wait to be explained and aggregated")]
