"""Checks of the topics: contracts, leaders, copies and retention."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from glasstream.app.operate.doctor.cluster import ANSWER_SECONDS
from glasstream.app.operate.doctor.finding import DoctorContext, Finding, fail, ok, warn
from glasstream.base.errors import TopicError
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection
from glasstream_topics import admin, events
from glasstream_topics.contract import SAFE_COPIES, Topic

_RIGHTS = "the operator role of `glasstream topics acls` has this right"
_CHECKPOINTS_KEPT = 100
"""Multiple of `checkpoint.seconds` for which the input must be kept, because outages may be long."""


def contracts(context: DoctorContext) -> list[Finding]:
    """Check that every topic exists, with its partitions and configuration."""
    settings, check = context.settings, "topics"
    client = AdminClient(connection(settings).client())
    try:
        deviations = admin.verify(
            client,
            settings.partitions,
            settings.prefix,
            settings.topic_overrides,
            replication=settings.topics.replication,
            timeout=ANSWER_SECONDS,
            topics=settings.all_topics,
        )
    except TopicError as error:
        do = f"allow this client Describe and DescribeConfigs on the topics with the prefix; {_RIGHTS}"
        return [fail(check, str(error), do)]
    found: list[Finding] = []
    unseen = [one.topic for one in deviations if one.found == admin.HIDDEN]
    if unseen:
        found.append(fail(check, f"this client is not authorized to see {', '.join(unseen)}", _RIGHTS))
    for one in deviations:
        if one.topic in unseen:
            continue
        if one.what == "the topic":
            do = "check --prefix, or create it with `glasstream topics create`"
        elif one.what == "partitions":
            contract = next(it for it in settings.all_topics if it.full_name(settings.prefix) == one.topic)
            do = expansion(contract, int(one.found), int(one.expected))
        elif one.what == admin.COPIES:
            do = f"run kafka-reassign-partitions.sh for {one.topic}, or set topics.replication to the intended number"
        else:
            do = f"run kafka-configs.sh --alter --topic {one.topic} --add-config {one.what}=[{one.expected.split()[0]}]"
        found.append(fail(check, str(one), do))
    return found or [ok(check, f"{len(settings.all_topics)} topics match their contracts")]


def expansion(contract: Topic, found: int, expected: int) -> str:
    """Return the way out if a topic has another number of partitions than the settings say."""
    steps = '(ops/docs/operating.md, "Add partitions")'
    if contract.partitions == "one":
        return "use another --prefix, because this topic must have one partition"
    setting = f"topics.{contract.partitions}"
    if found < expected:
        return f"stop the workers, and run `glasstream topics expand` with {setting}={expected} {steps}"
    continue_with = f"the workers continue with the first {expected}; " if contract.received else ""
    return (
        f"{continue_with}to use all, stop the workers, run `glasstream topics expand --set {setting}={found}`, and "
        f"start them with {setting}={found} and a new epoch {steps}"
    )


def copies(context: DoctorContext) -> list[Finding]:
    """Check that every partition has a leader, and enough copies in sync to survive the loss of a broker."""
    settings, check = context.settings, "copies"
    metadata = AdminClient(connection(settings).client()).list_topics(timeout=ANSWER_SECONDS)
    found: list[Finding] = []
    few: list[str] = []
    enough = min(SAFE_COPIES, len(metadata.brokers))
    for one in settings.all_topics:
        name = one.full_name(settings.prefix)
        there = metadata.topics.get(name)
        if there is None or there.error is not None:
            continue  # another check reports it
        for number, partition in sorted(there.partitions.items()):
            if partition.leader < 0:
                found.append(fail(check, f"{name}[{number}] has no leader", "start the brokers that hold its copies"))
            elif len(partition.isrs) < len(partition.replicas):
                what = f"{name}[{number}] has {len(partition.isrs)} of {len(partition.replicas)} copies in sync"
                found.append(warn(check, what, "check the brokers that lag behind"))
        copies = min(len(partition.replicas) for partition in there.partitions.values())
        if copies < enough:
            few.append(f"{name} ({copies})")
    if few:
        do = "add copies with kafka-reassign-partitions.sh; for new topics, set topics.replication"
        what = f"fewer than {enough} copies on {len(metadata.brokers)} brokers: {', '.join(few)}"
        found.append(warn(check, what, do))
    return found or [ok(check, "every partition has its leader and all its copies")]


def retention(context: DoctorContext) -> list[Finding]:
    """Check that Kafka keeps the input as long as a restart may need it."""
    settings, check, name = context.settings, "retention", topic(context.settings, events.TOPIC.name)
    client = AdminClient(connection(settings).client())
    asked = client.describe_configs([ConfigResource(ResourceType.TOPIC, name)], request_timeout=ANSWER_SECONDS)
    try:
        (future,) = asked.values()
        config = {key: entry.value for key, entry in future.result().items() if entry.value is not None}
    except KafkaException as error:
        do = "allow DescribeConfigs on the topic, or create it"
        return [warn(check, f"the configuration of {name} cannot be read: {error.args[0].str()}", do)]
    age, size = float(config.get("retention.ms", -1)) / 1000, int(config.get("retention.bytes", -1))
    shown = f"{name} is kept {_time(age)} and {'without a limit of size' if size < 0 else f'up to {size:,} bytes'}"
    ended = age >= 0 or size >= 0
    if ended and not settings.checkpoint.seconds:
        do = "set checkpoint.seconds, or retention.ms=-1 and retention.bytes=-1 of the topic"
        return [warn(check, f"{shown}, and without checkpoints a restart has to begin with the first event", do)]
    if 0 <= age < _CHECKPOINTS_KEPT * settings.checkpoint.seconds:
        do = "lengthen retention.ms of the topic, or shorten checkpoint.seconds"
        least = f"{_CHECKPOINTS_KEPT} times checkpoint.seconds ({settings.checkpoint.seconds:g} s)"
        return [warn(check, f"{shown}, less than {least}: after an outage, a restart could lack events", do)]
    return [ok(check, shown)]


def _time(seconds: float) -> str:
    if seconds < 0:
        return "without a limit of age"
    return f"for {seconds / 86_400:g} days" if seconds >= 86_400 else f"for {seconds:g} s"
