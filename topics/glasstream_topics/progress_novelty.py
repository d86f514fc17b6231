"""`progress.novelty`: the novelty detector's progress and state, committed in one transaction with its output.

Keys tell three kinds of records apart. The partition's record says where to resume in `events`. A small record per
stream says how many events it has used. An anchor per stream, in chunks, holds its whole state as of an earlier
position. A successor restores the anchors. It reads again from the earliest of them up to the partition's position,
without publishing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec

from glasstream_topics import frames, progress
from glasstream_topics.contract import CHUNK_BYTES, COMPACTED, Natural, StreamName, Topic
from glasstream_topics.errors import FrameError
from glasstream_topics.frames import Array
from glasstream_topics.progress import Open, Seal, Setting

VERSION: Final = 1

TOPIC: Final = Topic(
    name="progress.novelty",
    holds="how far the novelty detector is on a partition and with each stream of it, and its states",
    key="stream, or the key of the partition's record, or that of a part of a stream's anchor",
    partitioning="the partition of events that it is about, set explicitly",
    written_by=("novelty",),
    read_by=("novelty", "glasstream run"),
    public=False,
    version=VERSION,
    config=COMPACTED,
)


class NoveltyPartitionProgress(msgspec.Struct, frozen=True):
    """Where to resume.

    Attributes
    ----------
    epoch
        epoch of the partition's streams.
    offset, used
        the message to resume with, and the number of its events that are used.
    fingerprint
        the settings and versions that change numbers, by name.
    topic_id
        id of the topic `events` that the offsets belong to; None if the brokers give no ids.
    begins_in
        epoch in which a new stream begins, once a stream has given up its place; None before that.
    """

    epoch: Natural
    offset: Natural
    used: Natural
    fingerprint: dict[str, Setting]
    topic_id: str | None = None
    begins_in: Natural | None = None
    schema_version: Literal[1] = VERSION


class NoveltyStreamProgress(msgspec.Struct, frozen=True):
    """What was done with a stream before the partition's position.

    Attributes
    ----------
    stream, epoch
        the stream and its epoch.
    first_offset
        the offset of `events` at which the stream began: without an anchor it is read again from there.
    seqs
        number of accepted events and of late labels that found their event.
    anchor
        value of `seqs` at the stream's newest anchor; -1 if it has none.
    newest
        offset of the newest message with an event or a label of this stream; None in records of older releases.
    """

    stream: StreamName
    epoch: Natural
    first_offset: Natural
    seqs: Natural
    anchor: Annotated[int, msgspec.Meta(ge=-1)]
    newest: Natural | None = None
    schema_version: Literal[1] = VERSION


@dataclass(frozen=True, kw_only=True, eq=False)
class Anchor:
    """A stream's state as of a position.

    Attributes
    ----------
    stream, epoch
        the stream and its epoch.
    offset, used
        the position: the message to resume with, and the number of its events that are in the state.
    seqs
        number of accepted events, and of late labels that found their event, before the position.
    meta, arrays
        the state: JSON values and numeric arrays, under names that the novelty detector chooses.
    """

    stream: StreamName
    epoch: Natural
    offset: Natural
    used: Natural
    seqs: Natural
    meta: Mapping[str, Any]
    arrays: Mapping[str, Array]


_LAYOUT: Final = progress.StateLayout(TOPIC.name, "anchor", "novelty-anchor", b"\xffanchor/", "place", VERSION)
_RECORDS: Final = progress.ProgressRecords(TOPIC.name, NoveltyPartitionProgress, NoveltyStreamProgress)


class Restored(progress.Restored[NoveltyPartitionProgress, NoveltyStreamProgress]):
    """What a successor restores."""

    layout = _LAYOUT

    def anchor(self, stream: str, opened: Open = lambda data, sealed: data) -> Anchor | None:
        """Return a stream's anchor, or None if it has none; `opened` verifies it before anything of it is decoded.

        Raises
        ------
        FrameError
            the anchor that the stream's progress names is incomplete.
        """
        own = self.streams[stream]
        if own.anchor < 0:
            return None
        frame = _LAYOUT.decode(stream, f"seq {own.anchor}", self.parts.get(stream, {}), opened)
        place = frames.convert(frame.meta.get("place"), dict[str, Any], _LAYOUT.kind)
        fields = {**place, "meta": frame.meta["state"], "arrays": frame.arrays}
        anchor = frames.convert(fields, Anchor, _LAYOUT.kind)
        if (anchor.stream, anchor.epoch, anchor.seqs) != (own.stream, own.epoch, own.anchor):
            raise FrameError(f"progress.novelty: expected the anchor that {own} names, got that of {place}")
        return anchor


encode: Final = _RECORDS.encode


def encode_anchor(
    anchor: Anchor, previous_chunks: int = 0, limit: int = CHUNK_BYTES, seal: Seal | None = None
) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of an anchor's chunks, each of at most `limit` bytes.

    Parameters
    ----------
    previous_chunks
        number of chunks of the anchor that this one replaces; chunks that no longer exist get tombstones.
    seal
        function that seals the anchor; None leaves it plain.

    Raises
    ------
    FrameError
        the state cannot be written exactly.
    """
    place = {name: getattr(anchor, name) for name in Anchor.__dataclass_fields__ if name not in ("meta", "arrays")}
    return _LAYOUT.encode(anchor.stream, place, anchor.meta, anchor.arrays, previous_chunks, limit, seal)


def decode(key: bytes, value: bytes) -> NoveltyPartitionProgress | NoveltyStreamProgress | None:
    """Decode the record under a key, for tools that watch progress; None for a part of an anchor.

    Raises
    ------
    RecordError
        the value does not fit the key.
    """
    return None if key.startswith(_LAYOUT.prefix) else _RECORDS.decode(key, value)


def restore(latest: Mapping[bytes, bytes]) -> Restored:
    """Restore everything on a partition of the topic; see `glasstream_topics.progress.ProgressRecords.restore`."""
    return _RECORDS.restore(latest, Restored)


def tombstones(stream: str, chunks: int) -> list[tuple[bytes, None]]:
    """Return the tombstones that delete everything of a stream, including an anchor of `chunks` chunks."""
    return [(key, None) for key in (*(_LAYOUT.key(stream, index) for index in range(chunks)), stream.encode())]
