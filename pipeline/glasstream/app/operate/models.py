"""Files of models on the topic `models`, and the marks that make a stream use one of them."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import KafkaException, Message, Producer

from glasstream.app.operate.mark import Mark, known, send_mark
from glasstream.app.operate.state import state
from glasstream.app.operate.topic_reader import STANDSTILL_SECONDS, offsets, read_records
from glasstream.base.errors import BrokerError, FrameError, InputError, ModelError, RecordError
from glasstream.flow.learner.pushed import file_of
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection, drain
from glasstream.kafka.transport.topic_check import check_topics
from glasstream.kafka.trial import tried
from glasstream.models.onnx.file import content
from glasstream_topics import comparisons, consume, events, events_dead, models


@dataclass(frozen=True, slots=True)
class Stored:
    """A file on the topic.

    Attributes
    ----------
    digest
        SHA-256 of the file.
    bytes
        Its size.
    whole
        Whether no record is missing or damaged.
    streams
        Streams that use it.
    """

    digest: str
    bytes: int
    whole: bool
    streams: tuple[str, ...]


def file_reader(settings: Settings) -> Callable[[str], bytes]:
    """Return what reads the file with a SHA-256 from the topic; see `glasstream.flow.learner.pushed.File`."""
    return lambda name: file_of(name, _records(settings, name))


def _records(settings: Settings, name: str) -> dict[bytes, bytes]:
    """Return the records of one file."""
    found: dict[bytes, bytes] = {}
    place = topic(settings, models.TOPIC.name), 0
    for record in read_records(connection(settings), {place: 0}, read_committed=True):
        if record.key is not None and models.digest_of(record.key) == name:
            if record.value is None:
                found.pop(record.key, None)
            else:
                found[record.key] = record.value
    return found


def stored(settings: Settings) -> list[Stored]:
    """Return the files on the topic in the order in which they were first written.

    Raises
    ------
    TopicError, BrokerError, StateError
        The topic or the state of the learners cannot be read.
    """
    name = topic(settings, models.TOPIC.name)
    check_topics(connection(settings), {name: 1})
    parts: dict[str, dict[bytes, tuple[int, int]]] = {}
    for record in read_records(connection(settings), {(name, 0): 0}, read_committed=True):
        if record.key is None:
            continue
        of = parts.setdefault(models.digest_of(record.key), {})
        of.pop(record.key, None)
        with suppress(FrameError):
            part = models.part(record.value or b"")
            of[record.key] = part.count, part.length
    used: dict[str, list[str]] = {}
    for one in state(settings).streams:
        used.setdefault(one.model, []).append(one.stream)
    found: list[Stored] = []
    for digest, of in parts.items():
        count, length = max(of.values(), default=(0, 0))
        found.append(Stored(digest, length, 0 < count == len(of), tuple(used.get(digest, ()))))
    return found


def read_file(path: str, settings: Settings) -> bytes:
    """Return the bytes of a file, after a look whether it is a model that could be used.

    Raises
    ------
    InputError
        It is not.
    """
    try:
        data = content(path, None)
        tried(data, settings.model)
    except ModelError as error:
        raise InputError(f"{path}: {str(error).removeprefix('model.name: ')}") from error
    return data


def store(settings: Settings, data: bytes) -> str:
    """Write a file to the topic, wait until all replicas have it, and return its SHA-256.

    Raises
    ------
    TopicError, BrokerError
        The topic is missing, or the broker refuses a record or does not answer.
    """
    name = topic(settings, models.TOPIC.name)
    check_topics(connection(settings), {name: 1})
    _deliver(settings, name, models.split(data))
    return models.digest(data)


def _deliver(settings: Settings, name: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    failed: list[str] = []
    missing = 0

    def delivered(error: object, message: Message) -> None:
        nonlocal missing
        missing -= 1
        if error is not None:
            failed.append(str(error))

    producer = Producer(connection(settings).producer(delivery_timeout_ms=int(STANDSTILL_SECONDS * 1_000)))
    try:
        for key, value in records:
            producer.produce(name, key=key, value=value, partition=0, on_delivery=delivered)
            missing += 1
            drain(producer, STANDSTILL_SECONDS + 1.0)
    except KafkaException as error:
        raise BrokerError(f"{name}: the model was not written: {error.args[0].str()}") from error
    if failed or missing:
        raise BrokerError(f"{name}: the model was not written: {failed[0] if failed else 'no acknowledgement'}")


def find(settings: Settings, digest: str) -> str:
    """Return the SHA-256 of the one file on the topic whose SHA-256 begins like this.

    Raises
    ------
    InputError
        There is none, there are several, or it is damaged.
    """
    there = stored(settings)
    found = [one for one in there if one.digest.startswith(digest.lower())]
    if len(found) != 1 or not found[0].whole:
        what, todo = "no file", "push the file itself"
        if len(found) > 1:
            what, todo = f"{len(found):,} files", "give more digits"
        elif found:
            what = "a damaged file"
        raise InputError(
            f"--digest: expected the SHA-256 (or a prefix) of a file on {topic(settings, models.TOPIC.name)}, got "
            f"{digest!r}, which matches {what}; the topic has "
            f"{', '.join(one.digest[:12] for one in found or there) or 'no files'}; {todo}"
        )
    return found[0].digest


def used_by(settings: Settings, stream: str) -> str:
    """Return the SHA-256 of the pushed model that a stream uses.

    Raises
    ------
    InputError
        The learner has not seen the stream, or it uses the model of the settings, which no topic has.
    """
    digest = known(state(settings), stream)[0].model
    if not digest:
        raise InputError(
            f"--from: expected a stream with a pushed model, got {stream!r}, which uses the model of the settings; "
            "give its FILE"
        )
    return digest


def replacement(settings: Settings, stream: str, digest: str) -> str:
    """Return what the mark of a model changes, in words.

    Parameters
    ----------
    digest
        SHA-256 of the model.

    Raises
    ------
    InputError
        The learner has not seen the stream.
    """
    one, behind = known(state(settings), stream)
    before = f"the model {one.model[:12]}" if one.model else "the model of the settings"
    where = f"stream {stream}, epoch {one.epoch}"
    if one.model == digest:
        return f"{where}: it uses the model {digest[:12]} already"
    waiting = f"; {behind:,} messages that wait are predicted by the old model" if behind else ""
    return f"{where}: the model {digest[:12]} replaces {before} after {one.seqs:,} events{waiting}"


def verdict(settings: Settings, stream: str, challenger: str) -> str:
    """Return the newest published comparison of two streams of the deployment in words.

    Raises
    ------
    TopicError, BrokerError
        The topic `comparisons` is missing, or cannot be read.
    """
    newest: comparisons.Comparison | None = None
    with consume.comparisons(
        settings.broker, prefix=settings.prefix, follow=False, damaged="skip", kafka=settings.kafka
    ) as records:
        for one in records:
            pair = one.stream, one.other.stream
            if one.other.prefix == settings.prefix and pair in ((stream, challenger), (challenger, stream)):
                newest = one
    if newest is None:
        how = f"glasstream compare {stream} {challenger} --publish"
        return f"no comparison of {stream} and {challenger} was published (`{how}`)"
    return newest.sentence()


def name_model(settings: Settings, stream: str, digest: str) -> Mark:
    """Write the mark from which on a stream has a model; errors are those of `send_mark`."""
    return send_mark(settings, stream, events.model_mark(digest), "the mark of the model")


def letters_end(settings: Settings, stream: str) -> int:
    """Return the offset at which the next dead letter of the stream's partition of `events` will be, or later.

    Raises
    ------
    BrokerError
        The broker does not answer.
    """
    name = topic(settings, events_dead.TOPIC.name)
    place = name, events.partition(events.key(stream), settings.topics.events, settings.topics.partitioner)
    return offsets(connection(settings), [place])[place][1]


def refusal(settings: Settings, mark: Mark, begin: int) -> str | None:
    """Return why the learner has refused the model of a mark that it has passed; None if it has used the model.

    Parameters
    ----------
    begin
        Offset of the partition of `events.dead` before the mark was written; see `letters_end`.

    Raises
    ------
    BrokerError
        The dead letters cannot be read.
    """
    place = topic(settings, events_dead.TOPIC.name), mark.partition
    for message in read_records(connection(settings), {place: begin}, read_committed=True):
        try:
            letter = events_dead.decode(message.headers)
        except RecordError:
            continue  # not one of the learner's
        if (letter.topic, letter.partition, letter.offset) == (mark.topic, mark.partition, mark.offset):
            return letter.detail or letter.reason
    return None
