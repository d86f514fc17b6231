"""Contributions, blocks and snapshots of some events, as far as the topics still hold them."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from glasstream.app.operate.explain_at.stream_epoch import StreamEpoch
from glasstream.app.operate.topic_reader import read_records
from glasstream.base.errors import AuthenticationError, FrameError, ModelError
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.records import ConsumerRecord
from glasstream.models.codec import snapshot as codec
from glasstream.models.codec.authentication import Key
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import contributions, requests, snapshots
from glasstream_topics.contributions import Contributions
from glasstream_topics.frames import Array
from glasstream_topics.requests import ExplainRequest


class _Rows(Protocol):
    """Common interface of blocks and contributions."""

    @property
    def stream(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def seqs(self) -> Array: ...


R = TypeVar("R", bound=_Rows)


@dataclass(frozen=True, slots=True)
class Published:
    """Contributions, and the record that holds them."""

    place: str
    contributions: Contributions


@dataclass(frozen=True, slots=True)
class Sent:
    """Data that the topics still hold, by seq, and lines about missing data.

    Attributes
    ----------
    published
        Contributions that the explainers published for the events.
    requests
        Blocks that contain the events.
    models
        Models that the blocks name, by version.
    """

    published: dict[int, Published] = field(default_factory=dict)
    requests: dict[int, ExplainRequest] = field(default_factory=dict)
    models: dict[int, Predictor] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def published(stream_epoch: StreamEpoch, seqs: Collection[int]) -> dict[int, Published]:
    """Return the contributions of some events that the topic still holds."""
    settings = stream_epoch.settings
    name = topic(settings, contributions.TOPIC.name)
    messages = read_records(connection(settings), {(name, stream_epoch.partition): 0}, read_committed=False)
    key = contributions.key(stream_epoch.stream)
    mine = (message for message in messages if message.key == key)
    return {
        seq: Published(message.place, record)
        for message, record in _decoded(mine, contributions.decode)
        for seq in _of(record, stream_epoch, seqs)
    }


def sent(stream_epoch: StreamEpoch, seqs: Collection[int], key: Key | None) -> Sent:
    """Return what the topics hold of some events: everything needed to explain them again.

    A snapshot with a tombstone stays readable until the topic is compacted.

    Parameters
    ----------
    key
        HMAC key for models that travel as a pickle.
    """
    settings, link = stream_epoch.settings, connection(stream_epoch.settings)
    found = Sent(published(stream_epoch, seqs))
    last, name = max(seqs), topic(settings, requests.TOPIC.name)
    messages = read_records(
        link, {(name, number): 0 for number in range(settings.topics.requests)}, read_committed=True
    )
    # A row is at most the seq of the newest event at its label's position.
    last += settings.labels.window
    mine = (message for message in messages if _begins_before(message.key, stream_epoch.stream, last))
    for _, block in _decoded(mine, requests.decode):
        found.requests.update((seq, block) for seq in _of(block, stream_epoch, seqs))
    wanted = {block.version for block in found.requests.values()}
    if wanted:
        _read_models(stream_epoch, wanted, key, found)
    return found


def _read_models(stream_epoch: StreamEpoch, wanted: set[int], key: Key | None, found: Sent) -> None:
    settings = stream_epoch.settings
    assembler = snapshots.Assembler(2 * len(wanted) * settings.limits.snapshot_largest)
    name = topic(settings, snapshots.TOPIC.name)
    for message in read_records(connection(settings), {(name, 0): 0}, read_committed=False):
        try:
            identity = snapshots.Key.decode(message.key or b"").identity
        except FrameError:
            continue
        if (
            identity[:2] == (stream_epoch.stream, settings.epoch)
            and identity.version in wanted
            and message.value is not None
        ):
            assembler.add(message.key or b"", message.value)
    for version in sorted(wanted):
        data = assembler.get(stream_epoch.stream, settings.epoch, version)
        if data is None:
            found.notes.append(
                f"model version {version} is no longer on {name}: the learner deleted it after the aggregator had "
                "passed its rows, and the topic was compacted (a longer min.compaction.lag.ms of the topic keeps it)"
            )
            continue
        try:
            found.models[version] = codec.decode(data, key=key)
        except (AuthenticationError, FrameError, ModelError) as error:
            found.notes.append(f"cannot read model version {version} on {name}: {error}")


def _begins_before(key: bytes | None, stream: str, last: int) -> bool:
    name, _, row = (key or b"").rpartition(b"/")
    return name == stream.encode() and row.isdigit() and int(row) <= last


def _of(record: _Rows, stream_epoch: StreamEpoch, seqs: Collection[int]) -> list[int]:
    """Return the events that a record of this epoch of the stream contains."""
    if (record.stream, record.epoch) != (stream_epoch.stream, stream_epoch.settings.epoch):
        return []
    return [seq for seq in record.seqs.tolist() if seq in seqs]


def _decoded(
    messages: Iterator[ConsumerRecord], decode: Callable[[bytes | memoryview], R]
) -> Iterator[tuple[ConsumerRecord, R]]:
    """Yield the records that can be read; the stages report the others."""
    for message in messages:
        try:
            yield message, decode(message.value or b"")
        except FrameError:
            continue
