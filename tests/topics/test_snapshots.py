"""Laws of chunks and snapshots: whole again from any order, never anything but what was sent, bounded."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream_topics import chunks, snapshots
from glasstream_topics.contract import CHUNK_BYTES, DEFAULT_MAX_MESSAGE_BYTES
from glasstream_topics.errors import FrameError
from glasstream_topics.snapshots import Assembler, Identity, Key

ENOUGH = 1 << 20

names = st.text(max_size=8) | st.sampled_from(["", "/", "a/b", "a/0/1/2", "\0partition", "Škoda/1"])
numbers = st.integers(0, 2**40)


@given(names, numbers, numbers, numbers)
def test_keys_come_back_whatever_the_streams_name(stream: str, epoch: int, version: int, chunk: int) -> None:
    key = Key(stream, epoch, version, chunk)
    assert Key.decode(key.encode()) == key
    assert key.identity == (stream, epoch, version)


@pytest.mark.parametrize("key", [b"", b"a", b"a/1/2", b"a/1/2/x", b"a/1/2/-1", b"a/1/2/ 3", b"a/01/2/3", b"\xff/1/2/3"])
def test_a_foreign_key_is_an_error(key: bytes) -> None:
    with pytest.raises(FrameError):
        Key.decode(key)


@given(st.binary(max_size=300), st.integers(1, 100), st.data())
def test_a_snapshot_is_whole_again_from_any_order_with_duplicates(
    content: bytes, limit: int, data: st.DataObject
) -> None:
    records = snapshots.split("s", 0, 4, content, limit)
    others = snapshots.split("s", 0, 8, content[::-1] + b"!", limit)
    order = data.draw(st.permutations(records + others + records[: len(records) // 2]))
    assembler = Assembler(ENOUGH)
    completed = [identity for key, value in order if (identity := assembler.add(key, value)) is not None]
    assert sorted(completed) == [("s", 0, 4), ("s", 0, 8)]
    assert assembler.get("s", 0, 4) == content
    assert assembler.get("s", 0, 8) == content[::-1] + b"!"
    assert assembler.get("s", 0, 16) is None
    assert assembler.rejected == 0


def test_without_one_of_its_parts_a_snapshot_is_not_there() -> None:
    records = snapshots.split("s", 0, 4, bytes(range(100)), 10)
    for left_out in range(len(records)):
        assembler = Assembler(ENOUGH)
        for index, (key, value) in enumerate(records):
            if index != left_out:
                assert assembler.add(key, value) is None
        assert assembler.get("s", 0, 4) is None
        assert assembler.add(*records[left_out]) == Identity("s", 0, 4)


def test_a_tombstone_forgets_and_the_snapshot_can_come_again() -> None:
    records = snapshots.split("s", 0, 4, bytes(range(100)), 50)
    assembler = Assembler(ENOUGH)
    for key, value in records:
        assembler.add(key, value)
    for key in snapshots.tombstones("s", 0, 4, len(records)):
        assert assembler.add(key, None) is None
    assert assembler.get("s", 0, 4) is None
    assert assembler.held_bytes == 0
    assert [key for key, _ in records] == snapshots.tombstones("s", 0, 4, len(records))
    assert [assembler.add(key, value) for key, value in records] == [None, Identity("s", 0, 4)]


def test_damaged_and_foreign_records_are_ignored_and_counted() -> None:
    content = bytes(range(100))
    (first, second) = snapshots.split("s", 0, 4, content, 50)
    assembler = Assembler(ENOUGH)
    damaged = bytearray(first[1])
    damaged[-1] ^= 1
    assert assembler.add(first[0], bytes(damaged)) is None
    assert assembler.add(b"foreign", first[1]) is None
    assert assembler.add(second[0], first[1]) is None  # a part under the key of another
    assert assembler.rejected == 3
    assert assembler.add(*second) is None
    assert assembler.add(*first) == Identity("s", 0, 4)
    assert assembler.get("s", 0, 4) == content


def test_parts_of_different_contents_are_never_mixed() -> None:
    old = snapshots.split("s", 0, 4, b"a" * 100, 50)
    new = snapshots.split("s", 0, 4, b"b" * 100, 50)
    assembler = Assembler(ENOUGH)
    assert assembler.add(*old[0]) is None
    assert assembler.add(*new[1]) is None
    assert assembler.add(*new[0]) == Identity("s", 0, 4)
    assert assembler.get("s", 0, 4) == b"b" * 100
    assert assembler.add(*new[0]) is None  # known


def test_a_wrong_checksum_of_the_whole_is_found() -> None:
    data = [b"a" * 50, b"b" * 50]
    honest = chunks.split("k", b"".join(data), 50)
    liar = chunks.split("k", b"b" * 50 + b"b" * 50, 50)
    chunk = chunks.decode("k", honest[0])
    forged = chunks.frames.encode(
        "k",
        1,
        {"index": 0, "count": chunk.count, "length": chunk.length, "checksum": chunks.decode("k", liar[0]).checksum},
        {"data": chunks.np.frombuffer(chunk.data, "u1")},
    )
    assembler: chunks.Assembler[str] = chunks.Assembler("k", ENOUGH)
    assert not assembler.add("x", 0, forged)
    assert not assembler.add("x", 1, liar[1])
    assert (assembler.rejected, assembler.get("x"), assembler.complete()) == (1, None, [])


@pytest.mark.parametrize("limit", range(2_000, 20_000, 1_000))
def test_what_is_held_never_exceeds_the_limit(limit: int) -> None:
    rng = random.Random(limit)
    records = [record for version in range(30) for record in snapshots.split("s", 0, version, rng.randbytes(1500), 200)]
    rng.shuffle(records)
    assembler = Assembler(limit)
    for key, value in records:
        assembler.add(key, value)
        assert assembler.held_bytes <= limit
    assert assembler.evicted + assembler.rejected > 0


def test_above_the_limit_the_oldest_is_forgotten() -> None:
    assembler = Assembler(5_000)
    for version in range(4):
        for key, value in snapshots.split("s", 0, version, bytes(1_000), 1_000):
            assembler.add(key, value)
    assert [version for version in range(4) if assembler.get("s", 0, version) is not None] == [1, 2, 3]
    assert assembler.evicted == 1


def test_what_can_never_fit_is_refused() -> None:
    assembler = Assembler(5_000)
    for key, value in snapshots.split("s", 0, 1, bytes(10_000), 1_000):
        assert assembler.add(key, value) is None
    assert (assembler.rejected, assembler.held_bytes) == (10, 0)


def test_a_chunk_of_the_default_size_fits_into_a_message() -> None:
    for key, value in snapshots.split("s" * 256, 0, 2**40, bytes(3 * CHUNK_BYTES)):
        assert len(key) + len(value) < DEFAULT_MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    "meta",
    [
        {"index": 1, "count": 1, "length": 4, "checksum": ""},
        {"index": 0, "count": 0, "length": 4, "checksum": ""},
        {"index": 0, "count": 1, "length": 3, "checksum": ""},
        {"index": 0, "count": 1, "length": -4, "checksum": ""},
        {"index": 0, "count": 1, "length": 4},
        {"index": 0, "count": 1, "length": 4, "checksum": "", "more": 1},
    ],
)
def test_a_chunk_that_contradicts_itself_is_refused(meta: dict[str, object]) -> None:
    value = chunks.frames.encode("k", 1, meta, {"data": chunks.np.zeros(4, "u1")})
    with pytest.raises(FrameError):
        chunks.decode("k", value)
