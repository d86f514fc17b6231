"""What the topics of progress have in common: their records, and the state of each stream in chunks.

The key of a record is `PARTITION_KEY` or a stream. Keys of the chunks of a stream's state begin with the prefix of the
state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, cast

import msgspec

from glasstream_topics import chunks, frames
from glasstream_topics.contract import CHUNK_BYTES
from glasstream_topics.errors import FrameError, RecordError
from glasstream_topics.frames import Array, Frame
from glasstream_topics.record import decode_record, encode_record

PARTITION_KEY: Final = b"\xffpartition"
"""Key of the partition's record, as a compacted topic requires. It is not UTF-8, so no stream has this name."""

MOST_CHUNKS: Final = 2**20
"""Largest number of chunks of a state."""
_SEALED: Final = b"GLSSEAL\x01"
"""What sealed bytes of a state begin with; plain ones begin with the magic of a frame."""

Setting = str | int | float | bool | None
Seal = Callable[[bytes], bytes]
"""Function that seals the bytes of a state."""
Open = Callable[[bytes, bool], bytes]
"""Function that returns the bytes of a state, given what was written, and whether it is sealed. It may refuse both."""


class OfStream(Protocol):
    """A record of progress with a stream."""

    @property
    def stream(self) -> str:
        """The stream."""


P = TypeVar("P", bound=msgspec.Struct)
S = TypeVar("S", bound=OfStream)


@dataclass(frozen=True)
class StateLayout:
    """How the state of a stream is written.

    Attributes
    ----------
    topic, what
        name of the topic, and of the state, for errors.
    kind
        kind of the state's frame; its chunks are frames of this kind with `-chunk` appended.
    prefix
        what keys of chunks begin with. It is not UTF-8, so no stream's name begins like this.
    place
        name under which the frame says where the state was taken.
    version
        version of the state's schema.
    """

    topic: str
    what: str
    kind: str
    prefix: bytes
    place: str
    version: int

    def key(self, stream: str, chunk: int) -> bytes:
        """Return the key of a chunk."""
        return b"%s%s/%d" % (self.prefix, stream.encode(), chunk)

    def parse(self, key: bytes) -> tuple[str, int]:
        """Return stream and chunk of a key.

        Raises
        ------
        FrameError
            the key is not that of a chunk.
        """
        try:
            stream, _, chunk = key.removeprefix(self.prefix).decode().rpartition("/")
            found = stream, int(chunk)
        except ValueError as error:
            raise FrameError(f"a key of {self.topic}: expected a stream's name and a chunk, got {key!r}") from error
        if not 0 <= found[1] < MOST_CHUNKS or self.key(*found) != key:
            raise FrameError(f"a key of {self.topic}: expected a chunk from 0 to {MOST_CHUNKS - 1}, got {key!r}")
        return found

    def encode(
        self,
        stream: str,
        place: Mapping[str, Any],
        meta: Mapping[str, Any],
        arrays: Mapping[str, Array],
        previous_chunks: int,
        limit: int = CHUNK_BYTES,
        seal: Seal | None = None,
    ) -> list[tuple[bytes, bytes | None]]:
        """Return keys and values of a state's chunks, and tombstones for those of `previous_chunks` that are gone.

        Parameters
        ----------
        seal
            function that seals the state; None leaves it plain.

        Raises
        ------
        FrameError
            the state cannot be written exactly.
        """
        data = frames.encode(self.kind, self.version, {self.place: place, "state": dict(meta)}, arrays)
        if seal is not None:
            data = _SEALED + seal(data)
        values: list[bytes | None] = [*chunks.split(f"{self.kind}-chunk", data, limit)]
        values += [None] * (previous_chunks - len(values))
        return [(self.key(stream, index), value) for index, value in enumerate(values)]

    def decode(
        self, stream: str, where: str, parts: Mapping[int, bytes], opened: Open = lambda data, sealed: data
    ) -> Frame:
        """Return the frame of a state from its chunks.

        Parameters
        ----------
        opened
            function that verifies the state before anything of it is decoded.

        Raises
        ------
        FrameError
            the state is incomplete, or sealed although nothing can open it. A successor must not resume with less than
            was committed.
        """
        # Room for everything that was read, in parts and assembled: what was written can always be read again.
        whole: chunks.Assembler[str] = chunks.Assembler(f"{self.kind}-chunk", chunks.room_for(parts.values()))
        for index, value in parts.items():
            whole.add(stream, index, value)
        data = whole.get(stream)
        if data is None:
            raise FrameError(
                f"{self.topic}: the {self.what} of stream {stream!r} at {where} is not whole: a part is missing or "
                "damaged; restore the topic, or start a new epoch"
            )
        sealed = data.startswith(_SEALED)
        frame = frames.decode(opened(data[len(_SEALED) * sealed :], sealed), self.kind, self.version)
        if not isinstance(frame.meta.get("state"), dict):
            raise FrameError(f"the meta of a {self.kind} frame: expected a state, got {frame.meta.get('state')!r:.200}")
        return frame


@dataclass(frozen=True)
class Restored(Generic[P, S]):
    """What a successor restores: where to resume (None on an untouched partition), and how far each stream is.

    Each stream's state is assembled when it is asked for. A partition with many streams therefore takes little more
    memory than its records.

    Attributes
    ----------
    parts
        values of the chunks of each stream's state, of whichever epoch.
    """

    layout: ClassVar[StateLayout | None] = None

    partition: P | None
    streams: dict[str, S] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict, compare=False)

    def chunks(self, stream: str) -> int:
        """Return the number of chunks of a stream's state."""
        return max(self.parts.get(stream, {}), default=-1) + 1


Q = TypeVar("Q", bound=Restored[Any, Any])


class ProgressRecords(Generic[P, S]):
    """The records of one topic of progress.

    Parameters
    ----------
    topic
        name of the topic.
    partition, stream
        types of the partition's record and of a stream's record.
    """

    def __init__(self, topic: str, partition: type[P], stream: type[S]) -> None:
        self._topic = topic
        self._partition = msgspec.json.Decoder(partition)
        self._stream = msgspec.json.Decoder(stream)

    def encode(self, record: msgspec.Struct, **changes: object) -> tuple[bytes, bytes]:
        """Return key and value of a record, with objects sorted by name.

        Parameters
        ----------
        changes
            fields that differ in the bytes; None leaves a field out.

        Raises
        ------
        RecordError
            JSON cannot hold a value.
        """
        fields = {"schema_version": None, **msgspec.structs.asdict(record)}
        fields = {
            name: dict(sorted(it.items())) if isinstance(it, dict) else it for name, it in fields.items()
        } | changes
        value = encode_record(self._topic, {name: it for name, it in fields.items() if it is not None})
        return fields["stream"].encode() if "stream" in fields else PARTITION_KEY, value

    def decode(self, key: bytes, value: bytes) -> P | S:
        """Decode the record under a key.

        Raises
        ------
        RecordError
            the value does not fit the key.
        """
        if key == PARTITION_KEY:
            return decode_record(f"{self._topic}, the partition's record", value, self._partition)
        record = decode_record(f"{self._topic}, a stream's record", value, self._stream)
        if record.stream.encode() != key:
            raise RecordError(
                f"{self._topic}: expected the record of the stream {key!r}, got that of {record.stream!r}"
            )
        return record

    def restore(self, latest: Mapping[bytes, bytes], restored: type[Q]) -> Q:
        """Restore everything on a partition of the topic.

        Parameters
        ----------
        latest
            the newest value of every key, without keys that have a tombstone.
        restored
            type of the result.

        Raises
        ------
        RecordError, FrameError
            a record is damaged, or there are streams without a record of the partition.
        """
        partition: P | None = None
        streams: dict[str, S] = {}
        parts: dict[str, dict[int, bytes]] = {}
        layout = restored.layout
        for key, value in latest.items():
            if layout is not None and key.startswith(layout.prefix):
                stream, index = layout.parse(key)
                parts.setdefault(stream, {})[index] = value
            elif key == PARTITION_KEY:
                partition = cast("P", self.decode(key, value))
            else:
                record = cast("S", self.decode(key, value))
                streams[record.stream] = record
        if streams and partition is None:
            raise RecordError(
                f"{self._topic}: expected the partition's record in addition to those of {sorted(streams)}, got none"
            )
        return restored(partition, streams, parts)
