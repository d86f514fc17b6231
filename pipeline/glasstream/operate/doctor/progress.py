"""Checks of the stages: workers, lag, and whether they could resume after a restart."""

from collections.abc import Callable, Collection, Iterator, Mapping

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from glasstream.errors import FrameError, GlasstreamError, RecordError, StateError
from glasstream.learn.checkpoint import newly_sealed, verified
from glasstream.operate.doctor.cluster import ANSWER_SECONDS
from glasstream.operate.doctor.finding import DoctorContext, Finding, fail, ok, warn
from glasstream.operate.state import COMMITTED, State, state
from glasstream.operate.topic_reader import Partition, latest, offsets, read_records
from glasstream.secret import hmac_key
from glasstream.settings import Settings
from glasstream.stages.build import STAGES
from glasstream.stages.names import differences, fingerprint, novelty_fingerprint, topic
from glasstream.transport.connection import connection
from glasstream.transport.options import options
from glasstream_topics import checkpoints, events_dead, progress_aggregator, progress_learner, progress_novelty
from glasstream_topics.chunks import room_for
from glasstream_topics.progress import PARTITION_KEY, Setting

Read = Mapping[Partition, Mapping[bytes, bytes]]
"""Committed state: the last value of every key, by partition."""

_LOOKED_AT = 10
"""Number of records at the end of a partition of dead letters to read; transaction markers count too."""
_BEHIND = 1_000
"""Lag in messages that is worth a warning even while a worker makes progress."""


def progress(context: DoctorContext) -> list[Finding]:
    """Check workers, lag, and the state that a restart would find."""
    settings = context.settings
    members = _members(settings)
    found = _workers(settings, members)
    try:
        there = state(settings)
    except GlasstreamError as error:
        return [*found, fail("state", str(error), "read the lines above")]
    if not settings.explain.detects_novelty and members.get("novelty") == 0:  # an earlier detector has ended
        there = replace(there, partitions=[one for one in there.partitions if one.stage != "novelty"])
    found += [fail("state", note, "continue with the release that wrote it") for note in there.notes]
    found += _lag(settings, there, members)
    found += _restart(settings, there)
    read = latest(
        connection(settings),
        [(topic(settings, name), number) for name in COMMITTED for number in range(settings.topics.events)],
    )
    found += _fingerprints(settings, read, {place.stage for place in there.partitions})
    found += _sealed(context, read)
    found += _dead(settings)
    return found


def _members(settings: Settings) -> dict[str, int | str]:
    """Return per stage the number of workers in its group, or why that is unknown."""
    client = AdminClient(connection(settings).client())
    groups = {options(stage, settings).group: stage for stage in STAGES}
    members: dict[str, int | str] = {}
    for group, future in client.describe_consumer_groups(list(groups), request_timeout=ANSWER_SECONDS).items():
        try:
            said = future.result()
        except KafkaException as error:
            members[groups[group]] = error.args[0].str()
            continue
        balancing = (ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING)
        members[groups[group]] = "it rebalances" if said.state in balancing else len(said.members)
    return members


def _workers(settings: Settings, members: Mapping[str, int | str]) -> list[Finding]:
    unused = {"notify", "intake"}  # a deployment without them is usual
    unused |= set() if settings.explain.detects_novelty else {"novelty"}
    unused |= set() if settings.in_avro else {"avro"}
    found: list[Finding] = []
    for stage, count in members.items():
        check = f"{stage} workers"
        if isinstance(count, str):
            do = "wait, and check again" if "rebalance" in count else "allow Describe on the groups with the prefix"
            found.append(warn(check, count, do))
        elif count:
            found.append(ok(check, f"{count} in group {options(stage, settings).group}"))
        elif stage not in unused:
            do = f"start `glasstream worker {stage}`; if it ends, its exit code and last line say why"
            found.append(warn(check, f"none in group {options(stage, settings).group}", do))
    return found


def _lag(settings: Settings, there: State, members: Mapping[str, int | str]) -> list[Finding]:
    found: list[Finding] = []
    for place in there.partitions:
        check = f"{place.stage} lag"
        said = f"{place.topic}[{place.partition}]: {place.behind:,} messages behind"
        if place.behind and members.get(place.stage) == 0:
            found.append(
                fail(check, f"{said}, and no worker is processing it", f"start `glasstream worker {place.stage}`")
            )
        elif place.behind > _BEHIND:
            do = "add explainers" if place.stage == "explainer" else "check which stage the others wait for"
            found.append(warn(check, said, do))
    for one in there.streams:
        if one.behind >= settings.limits.rows_ahead and settings.limits.lag == "wait":
            said = (
                f"stream {one.stream!r}: {one.behind:,} rows are not aggregated, "
                "so the learner waits (limits.rows_ahead)"
            )
            found.append(warn("learner lag", said, "add explainers, or find out why the aggregator stands still"))
    rows = sum(one.behind for one in there.streams)
    return found or [ok("lag", f"{rows:,} rows of {len(there.streams)} streams wait to be explained and aggregated")]


def _restart(settings: Settings, there: State) -> list[Finding]:
    """Check that the log still has everything that a restart would read."""
    found: list[Finding] = []
    firsts = {(place.stage, place.partition): place for place in there.partitions}
    for place in there.partitions:
        if place.stage == "explainer" or place.offset is None:
            continue
        where = f"{place.topic}[{place.partition}]"
        if place.offset > place.end:
            said = f"{place.topic}[{place.partition}] ends at {place.end}, the {place.stage} has read to {place.offset}"
            found.append(
                fail("state", f"{said}: the topic was deleted and created again", "start over with another --prefix")
            )
        elif place.offset < place.first:
            said = f"{where} is kept from {place.first} on, but the {place.stage} is at {place.offset}"
            do = "lengthen the retention of the topic, and start over with another --prefix"
            found.append(fail("state", f"{said}: the records between are lost", do))
    for one in there.streams:
        place = firsts["learner", one.partition]
        if one.checkpoint is None and one.first_offset < place.first:
            said = (
                f"stream {one.stream!r} has no checkpoint and began at offset {one.first_offset} of "
                f"{place.topic}[{one.partition}], which is kept from {place.first} on: the learner cannot be restarted"
            )
            do = "leave the learner running until it has made a checkpoint (checkpoint.seconds), and lengthen retention"
            found.append(fail("state", said, do))
    return found


def _fingerprints(settings: Settings, read: Read, stages: Collection[str]) -> list[Finding]:
    """Check whether stages with these settings would resume from the saved state."""
    ours = fingerprint(settings)
    found: list[Finding] = []
    compared = 0
    for stage, name, decode, mine in (
        ("learner", progress_learner.TOPIC.name, progress_learner.decode, ours),
        ("aggregator", progress_aggregator.TOPIC.name, progress_aggregator.decode, ours),
        ("novelty", progress_novelty.TOPIC.name, progress_novelty.decode, novelty_fingerprint(settings)),
    ):
        for partition, theirs in _theirs(settings, read, name, decode) if stage in stages else ():
            compared += 1
            if changed := differences(theirs, mine):
                said = f"{topic(settings, name)}[{partition}] was written under other settings: {'; '.join(changed)}"
                do = f"set them back, or start every stage with --new-epoch; this {stage} would not start"
                found.append(fail("state", said, do))
                break  # the other partitions repeat it
    return found or [ok("state", f"{compared} partitions have state that was saved under these settings")]


def _theirs(
    settings: Settings, read: Read, name: str, decode: Callable[[bytes, bytes], object]
) -> Iterator[tuple[int, dict[str, Setting]]]:
    full = topic(settings, name)
    for partition in range(settings.topics.events):
        value = read[full, partition].get(PARTITION_KEY)
        if value is None:
            continue
        try:
            record = decode(PARTITION_KEY, value)
        except RecordError:
            continue  # the check of the state reports it
        yield partition, getattr(record, "fingerprint", {})


def _sealed(context: DoctorContext, read: Read) -> list[Finding]:
    """Check that the current key sealed the checkpoints, without opening them."""
    settings, check = context.settings, "hmac key"
    try:
        key = hmac_key(context.environment)
    except GlasstreamError:
        return []  # another check reports it
    if key is None:
        return []
    name = topic(settings, checkpoints.TOPIC.name)
    older: list[str] = []
    for partition in range(settings.topics.events):
        records = read[name, partition]
        assembler = checkpoints.Assembler(room_for(records.values()))
        for record_key, value in records.items():
            assembler.add(record_key, value)
        newest = {one.stream: one for one in sorted(assembler.complete(), key=lambda one: (one.epoch, one.version))}
        for identity in newest.values():
            try:
                one = checkpoints.decode(assembler.get(*identity) or b"")
                verified(one, key=key)
                if not newly_sealed(one, key=key):
                    older.append(one.stream)
            except FrameError as error:
                do = "the learner skips it and resumes from an older one"
                return [warn("state", f"{name}[{partition}]: a checkpoint is damaged: {error}", do)]
            except StateError:
                raise
            except GlasstreamError:
                said = f"{name}[{partition}]: the checkpoint of stream {one.stream!r} was sealed with another key"
                return [fail(check, said, "give the stages the key that sealed the checkpoint")]
    if not older:
        return []
    said = f"the newest checkpoints of {len(older)} streams, {older[0]!r} among them, are sealed with an older key"
    return [ok(check, f"{said}: keep that key in the list until the learner has sealed new ones")]


def _dead(settings: Settings) -> list[Finding]:
    """Check for rejected input, and report the newest reason."""
    name, link = topic(settings, events_dead.TOPIC.name), connection(settings)
    ends = offsets(link, [(name, partition) for partition in range(settings.topics.events)])
    total, newest = sum(end - first for first, end in ends.values()), None
    last = {one: max(first, end - _LOOKED_AT) for one, (first, end) in ends.items()}
    for message in read_records(link, last, read_committed=True):
        try:
            said = events_dead.decode(message.headers)
        except RecordError:
            continue
        if newest is None or said.time >= newest.time:
            newest = said
    if newest is None:
        return [ok("dead letters", "none")]
    do = "count them by reason with `glasstream dead list`; fix the cause and run `dead replay`"
    text = f"about {total:,}, the newest of {newest.topic}[{newest.partition}]@{newest.offset}: {newest.reason}: "
    return [warn("dead letters", text + newest.detail, do)]
