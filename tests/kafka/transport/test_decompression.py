"""Batches inflate to a stated size, whatever the codec; what inflates to more is one message that says so."""

import asyncio
import gzip as plain_gzip
from collections.abc import Iterable
from typing import Any

import aiokafka.consumer.fetcher as fetcher
import aiokafka.record.default_records as records
import cramjam
import numpy as np
import pytest
from aiokafka import codec
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from glasstream.events.message import Oversized
from glasstream.kafka.transport import decompression
from glasstream.kafka.transport.decompression import InflatesTooMuch

CODECS = {
    "gzip": (1, codec.gzip_encode, decompression.gzip),
    "snappy": (2, codec.snappy_encode, decompression.snappy),
    "snappy in one block": (2, lambda data: codec.snappy_encode(data, xerial_compatible=False), decompression.snappy),
    "lz4": (3, codec.lz4_encode, decompression.lz4),
    "zstd": (4, codec.zstd_encode, decompression.zstd),
}


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(min_size=1, max_size=300), repeated=st.sampled_from([1, 10, 5_000]), less=st.integers(1, 50))
def test_what_fits_is_what_was_compressed_and_a_byte_more_is_refused(
    name: str, data: bytes, repeated: int, less: int
) -> None:
    _, compress, inflate = CODECS[name]
    whole = data * repeated
    packed = compress(whole)
    assert bytes(inflate(packed, len(whole))) == whole
    assert bytes(inflate(packed, len(whole) + less)) == whole
    with pytest.raises(InflatesTooMuch) as raised:
        inflate(packed, max(0, len(whole) - less))
    assert raised.value.args == (len(packed),)


@pytest.mark.parametrize("name", CODECS)
def test_what_is_damaged_is_no_matter_of_size(name: str) -> None:
    _, compress, inflate = CODECS[name]
    packed = bytearray(compress(bytes(range(256)) * 40))
    del packed[len(packed) // 2 :]
    with pytest.raises((cramjam.DecompressionError, EOFError, ValueError, OSError)):
        inflate(bytes(packed), 2**20)


def test_gzip_of_several_members_is_their_content() -> None:
    packed = plain_gzip.compress(b"one") + plain_gzip.compress(b"two")
    assert decompression.gzip(packed, 6) == b"onetwo"
    with pytest.raises(InflatesTooMuch):
        decompression.gzip(packed, 5)


def batch(first: int, values: Iterable[bytes], number: int, transactional: bool = False) -> bytes:
    builder = records.DefaultRecordBatchBuilder(2, number, transactional, 7 if transactional else -1, 0, 0, 2**31 - 1)
    for place, value in enumerate(values):
        builder.append(place, 1_000 + place, b"key", value, [])
    data = bytearray(builder.build())
    data[:8] = first.to_bytes(8, "big")
    return bytes(data)


def fetched(data: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None) -> list[Any]:
    decompression.install()
    found = fetcher.PartitionRecords(
        TopicPartition("events", 0), fetcher.MemoryRecords(data), aborted, position, None, None, True, 1
    )
    return list(found)


@pytest.mark.parametrize("name", CODECS)
def test_one_message_stands_for_a_batch_that_inflates_to_too_much(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number, _, inflate = CODECS[name]
    monkeypatch.setattr(decompression, inflate.__name__, lambda data: inflate(data, 10_000))
    large, last = batch(6, [b"a", b"0" * 50_000, b"b"], number), batch(9, [b"also good"], number)
    found = fetched(batch(5, [b"good"], number) + large + last, 5)
    assert [(one.offset, bytes(one.value)) for one in found] == [(5, b"good"), (6, b""), (9, b"also good")]
    (stand_in,) = [one.value for one in found if isinstance(one.value, Oversized)]
    assert "offsets 6 to 8" in stand_in.detail and 0 < stand_in.size < 5_000
    assert (found[1].key, found[1].headers) == (None, ())
    assert [one.offset for one in fetched(large + last, 7)] == [9], "who has used it does not get it again"
    open_one = batch(6, [b"0" * 50_000], number, transactional=True)
    assert fetched(open_one, 6, aborted=[(7, 6)]) == [], "nothing of an aborted transaction is seen"


@pytest.mark.slow
def test_a_batch_of_ordinary_events_is_read_and_ten_times_as_many_zeros_are_not() -> None:
    """1 MiB compressed holds tens of MB of ordinary JSON; what holds more than the limit is not JSON of events."""
    event = b'{"id":"%d","x":{"temperature":%d.5,"humidity":%d,"station":"north-%d"},"y":%d}'
    events = b"[%s]" % b",".join(event % (n, n % 40, n % 100, n % 9, n % 2) for n in range(10_000))
    ordinary = batch(0, [events] * 30, 4)
    assert len(events) * 30 > 20 * 2**20 and len(ordinary) < 2**20
    assert [bytes(one.value) for one in fetched(ordinary)] == [events] * 30
    limit = decompression.LIMIT
    (found,) = fetched(batch(0, [b"0" * (limit + 1)], 4))
    assert isinstance(found.value, Oversized) and str(limit) in found.value.detail
    (found,) = fetched(batch(0, [b"0" * (limit - 100)], 4))
    assert len(found.value) == limit - 100


def test_memory_is_taken_as_it_is_written_to_and_not_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    empty = np.empty
    monkeypatch.setattr(np, "empty", lambda size, kind: taken.append(size) or empty(size, kind))
    with pytest.raises(InflatesTooMuch):
        decompression.zstd(codec.zstd_encode(b"0" * 30_000_000), 1_000_000)
    assert max(taken) <= 1_000_000
    taken.clear()
    decompression.zstd(codec.zstd_encode(b"small"))
    assert max(taken) < 100_000


def test_it_is_installed_where_aiokafka_looks() -> None:
    """In the compiled parsers and in those in Python: neither may inflate without a bound."""
    decompression.install()
    decompression.install()
    compiled = pytest.importorskip("aiokafka.record._crecords.default_records")
    for module in (compiled, records):
        assert module.zstd_decode is decompression.zstd and module.gzip_decode is decompression.gzip
    assert fetcher.MemoryRecords is decompression.Records
    assert asyncio.iscoroutinefunction(fetcher.Fetcher._proc_fetch_request)
