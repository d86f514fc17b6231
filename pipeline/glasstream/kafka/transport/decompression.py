"""Decompression of message batches with a limit on the decompressed size.

aiokafka inflates whatever it fetches. A batch of 1 MB can hold gigabytes, and one that does not fit into memory would
end the worker at every start. This module replaces a batch that inflates to more than `LIMIT` by one message, whose
value is `Oversized`. The stage rejects it like any other message that is too large.

aiokafka still handles batches of the message formats 0 and 1, which no producer since Kafka 0.11 writes.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import aiokafka.consumer.fetcher as fetcher
import aiokafka.record.default_records as plain_records
import cramjam
import numpy as np
from aiokafka.codec import _detect_xerial_stream
from aiokafka.record.memory_records import MemoryRecords

from glasstream.events.message import Oversized

LIMIT: Final = 128 * 1024 * 1024
"""Largest decompressed size of a batch in bytes. A batch of 1 MiB of ordinary JSON inflates to 5 to 100 MB."""

_GUESS: Final = 24
"""Ratio of compression that batches seldom exceed."""
_FULL: Final = "write whole buffer"
"""Error message of cramjam when its output buffer is full."""


class InflatesTooMuch(Exception):
    """A batch inflates to more than the limit. The argument is its compressed size."""


def _into(decompress: Callable[[Any, Any], int], payload: Any, limit: int) -> memoryview:
    """Inflate into a small buffer, and into a large one if that was not enough."""
    for size in (min(limit, _GUESS * len(payload) + 65_536), limit):
        buffer = np.empty(size, np.uint8)  # the system allocates memory only as it is written to
        try:
            return buffer[: decompress(payload, buffer)].data
        except cramjam.DecompressionError as error:
            if _FULL not in str(error):
                raise
    raise InflatesTooMuch(len(payload))


def zstd(payload: Any, limit: int = LIMIT) -> memoryview:
    """Inflate zstd. Raise InflatesTooMuch beyond `limit` bytes."""
    return _into(cramjam.zstd.decompress_into, payload, limit)


def lz4(payload: Any, limit: int = LIMIT) -> memoryview:
    """Inflate lz4. Raise InflatesTooMuch beyond `limit` bytes."""
    return _into(cramjam.lz4.decompress_into, payload, limit)


def snappy(payload: Any, limit: int = LIMIT) -> bytes:
    """Inflate snappy, as one block or in xerial's framing. Raise InflatesTooMuch beyond `limit` bytes."""
    data = memoryview(payload)
    if not _detect_xerial_stream(data):
        if cramjam.snappy.decompress_raw_len(data) > limit:
            raise InflatesTooMuch(len(payload))
        return bytes(cramjam.snappy.decompress_raw(data))
    parts, size, place = [], 0, 16
    while place < len(data):
        end = place + 4 + int.from_bytes(data[place : place + 4], "big", signed=True)
        block = data[place + 4 : end]
        size += cramjam.snappy.decompress_raw_len(block)
        if size > limit:
            raise InflatesTooMuch(len(payload))
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        place = max(end, place + 4)
    return b"".join(parts)


def gzip(payload: Any, limit: int = LIMIT) -> bytes:
    """Inflate gzip. Raise InflatesTooMuch beyond `limit` bytes."""
    parts, size, rest = [], 0, bytes(payload)
    while rest:
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        parts.append(inflater.decompress(rest, limit - size + 1))
        size += len(parts[-1])
        if size > limit:
            raise InflatesTooMuch(len(payload))
        if not inflater.eof:
            raise EOFError("the gzip stream of a batch is truncated")
        rest = inflater.unused_data
    return b"".join(parts)


class _StandIn(NamedTuple):
    """Record that replaces all records of a batch."""

    offset: int
    timestamp: int
    timestamp_type: int
    value: Oversized
    key: None = None
    checksum: None = None
    headers: tuple[()] = ()


class _Batch:
    """Compressed batch that is replaced by one record if it inflates to too much."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        batch = self._batch
        try:
            return iter(batch)
        except InflatesTooMuch as error:
            (size,) = error.args
            first, last = batch.base_offset, batch.next_offset - 1
            found = f"offset {first}" if first == last else f"offsets {first} to {last}"
            detail = (
                f"expected a batch of messages that inflates to at most {LIMIT} bytes, got one of {size} bytes "
                f"that inflates to more, at {found}; none of it was read: send smaller messages, or fewer in a batch "
                "(batch.size)"
            )
            value = Oversized(size, detail)
            return iter((_StandIn(first, batch.max_timestamp, batch.timestamp_type, value),))


class Records:
    """Batches of a fetched partition, with the interface that `aiokafka.consumer.fetcher` expects."""

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)

    def size_in_bytes(self) -> Any:
        """Return the size of the fetched data."""
        return self._records.size_in_bytes()

    def has_next(self) -> Any:
        """Return whether another batch follows."""
        return self._records.has_next()

    def next_batch(self) -> Any:
        """Return the next batch."""
        batch: Any = self._records.next_batch()
        if not isinstance(batch, plain_records.DefaultRecordBatch) or not batch.compression_type:
            return batch
        return _Batch(batch)


def install() -> None:
    """Limit decompression in all aiokafka consumers of this process. A second call changes nothing."""
    modules: list[Any] = [plain_records]
    if plain_records.DefaultRecordBatch.__module__ != plain_records.__name__:
        from aiokafka.record._crecords import default_records as compiled_records

        modules.append(compiled_records)
    for module in modules:
        module.zstd_decode, module.lz4_decode, module.snappy_decode, module.gzip_decode = zstd, lz4, snappy, gzip
    fetcher.MemoryRecords = Records
