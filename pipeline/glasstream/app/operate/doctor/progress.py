"""Checks of the stages: workers, lag, and whether they could resume after a restart."""

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from glasstream.app.operate.doctor.finding import DoctorContext, Finding, fail, ok, warn
from glasstream.app.operate.doctor.seals import sealed_states
from glasstream.app.operate.doctor.workers import lag, members, required, workers
from glasstream.app.operate.repair import own_topics
from glasstream.app.operate.state import Committed, State, Stream, committed, state
from glasstream.app.operate.topic_reader import Partition, offsets, read_records
from glasstream.base.errors import FrameError, GlasstreamError, RecordError, StateError, TopicError
from glasstream.flow.learner.checkpoint import newly_sealed, verified
from glasstream.flow.settings import Settings
from glasstream.kafka.secret import hmac_key
from glasstream.kafka.stages.names import differences, fingerprint, novelty_fingerprint, topic
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.topic_check import partition_count
from glasstream_topics import checkpoints, events_dead, progress_aggregator, progress_learner, progress_novelty
from glasstream_topics.chunks import room_for
from glasstream_topics.progress import PARTITION_KEY, Setting

Read = Mapping[Partition, Mapping[bytes, bytes]]
"""Committed state: the last value of every key, by partition."""

_LOOKED_AT = 10
"""Number of records at the end of a partition of dead letters to read; transaction markers count too."""
_SHOWN = 5
"""Number of streams of one check to report; the others are only counted."""
_STALLED = "the learner repeats its requests until the rows are aggregated; resolve the earlier findings first"


def progress(context: DoctorContext) -> list[Finding]:
    """Check workers, lag, and the state that a restart would find."""
    settings = context.settings
    needed = required(context)
    found = members(settings, needed)
    findings = workers(settings, needed, found)
    try:
        read = committed(settings)
        there = state(settings, read)
    except TopicError:
        return findings  # the check of the topics reports it
    except GlasstreamError as error:
        return [*findings, fail("state", str(error), "see the earlier findings")]
    findings += [fail("state", note, "continue with the release that wrote it") for note in there.notes]
    findings += _epochs(there)
    findings += _some([fail("stalled", one.stalled, _STALLED) for one in there.streams if one.stalled])
    findings += _some([_unexplained(settings, one) for one in there.streams if one.unexplained])
    findings += lag(settings, there, needed, found)
    findings += _restart(settings, there)
    findings += _fingerprints(
        settings, read.values, {place.stage for place in there.partitions if place.stage in needed}
    )
    findings += _sealed(context, read)
    findings += _dead(settings)
    return findings


def _some(findings: list[Finding]) -> list[Finding]:
    """Return the first findings of one check, and how many more there are."""
    rest = findings[_SHOWN:]
    return [*findings[:_SHOWN], *(replace(one, what=f"and {len(rest):,} more streams") for one in rest[:1])]


def _epochs(there: State) -> list[Finding]:
    """Check that the aggregator is in no later epoch than the learner, whose blocks it would then drop."""
    begun = [place.epoch for place in there.partitions if place.epoch is not None]
    next_epoch = max([0, *begun, *(one.epoch + 1 for one in there.streams)])
    do = f"start every stage with --set epoch={next_epoch}"
    return [fail("epochs", what, do) for what in there.epochs_apart()]


def _unexplained(settings: Settings, one: Stream) -> Finding:
    """Return a failure if no row of a stream could be explained, or a warning if some could not."""
    do = "remove the cause, and restart the explainers; rows that follow are explained, earlier ones are not"
    nothing = one.aggregated is not None and one.failed >= one.aggregated - settings.explain.first_row
    return (fail if nothing else warn)("explanations", one.unexplained, do)


def _restart(settings: Settings, there: State) -> list[Finding]:
    """Check that the log still has everything that a restart would read."""
    found: list[Finding] = []
    firsts = {(place.stage, place.partition): place for place in there.partitions}
    for place in there.partitions:
        if place.stage == "explainer" or place.offset is None:
            continue
        where = f"{place.topic}[{place.partition}]"
        if place.offset > place.end:
            what = f"{place.topic}[{place.partition}] ends at {place.end}, the {place.stage} has read to {place.offset}"
            found.append(
                fail(
                    "state",
                    f"{what}: the topic was created again, or the broker lost the end of its log",
                    "start a new epoch (--set epoch=N for every stage), or use another --prefix",
                )
            )
        elif place.offset < place.first:
            what = f"{where} is retained from {place.first} on, but the {place.stage} has read only to {place.offset}"
            do = "lengthen the retention of the topic, and start over with another --prefix"
            found.append(fail("state", f"{what}: the records between are lost", do))
    for one in there.streams:
        place = firsts["learner", one.partition]
        if one.checkpoint is None and one.first_offset < place.first:
            what = (
                f"stream {one.stream!r} has no checkpoint and began at offset {one.first_offset} of "
                f"{place.topic}[{one.partition}], which is kept from {place.first} on: the learner cannot be restarted"
            )
            do = "leave the learner running until it has made a checkpoint (checkpoint.seconds), and lengthen retention"
            found.append(fail("state", what, do))
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
                what = f"{topic(settings, name)}[{partition}] was written under other settings: {'; '.join(changed)}"
                do = f"set them back, or start every stage with --new-epoch N; this {stage} would not start"
                found.append(fail("state", what, do))
                break  # the other partitions repeat it
    return found or [ok("state", f"{compared} partitions have state that was saved under these settings")]


def _theirs(
    settings: Settings, read: Read, name: str, decode: Callable[[bytes, bytes], object]
) -> Iterator[tuple[int, dict[str, Setting]]]:
    full = topic(settings, name)
    for (held, partition), values in sorted(read.items()):
        value = values.get(PARTITION_KEY)
        if held != full or value is None:
            continue
        try:
            record = decode(PARTITION_KEY, value)
        except RecordError:
            continue  # the check of the state reports it
        yield partition, getattr(record, "fingerprint", {})


def _sealed(context: DoctorContext, read: Committed) -> list[Finding]:
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
    for partition in range(read.counts[checkpoints.TOPIC.name]):
        records = read.values[name, partition]
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
                what = f"{name}[{partition}]: the checkpoint of stream {one.stream!r} was sealed with another key"
                return [fail(check, what, "give the stages the key that sealed the checkpoint")]
    found = sealed_states(settings, key, read.values)
    if not older:
        return found
    what = f"the newest checkpoints of {len(older)} streams, {older[0]!r} among them, are sealed with an older key"
    return [ok(check, f"{what}: keep that key in the list until the learner has sealed new ones"), *found]


def _dead(settings: Settings) -> list[Finding]:
    """Check for rejected input, and report the newest reason."""
    name, link = topic(settings, events_dead.TOPIC.name), connection(settings)
    ends = offsets(link, [(name, partition) for partition in range(partition_count(link, name))])
    total, newest = sum(end - first for first, end in ends.values()), None
    last = {one: max(first, end - _LOOKED_AT) for one, (first, end) in ends.items()}
    for message in read_records(link, last, read_committed=True):
        try:
            letter = events_dead.decode(message.headers)
        except RecordError:
            continue
        if newest is None or letter.time >= newest.time:
            newest = letter
    if newest is None:
        return [ok("dead letters", "none")]
    text = f"up to {total:,}, the newest of {newest.topic}[{newest.partition}]@{newest.offset}: {newest.reason}: "
    return [warn("dead letters", text + newest.detail, _remedy(settings, newest))]


def _remedy(settings: Settings, letter: events_dead.DeadLetter) -> str:
    """Return what to do about dead letters whose newest is this one."""
    if letter.reason == events_dead.Reason.UNKNOWN_ID:
        return (
            "compare ids and streams of these labels with those of the events: `glasstream dead show --reason "
            "unknown_id`; `dead replay` helps labels that came before their events"
        )
    again = "run `dead replay`" if letter.topic in own_topics(settings) else f"send them to {letter.topic} again"
    return f"count them by reason with `glasstream dead list`; fix the cause and {again}"
