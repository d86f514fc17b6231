"""The partition of a key is the one that other producers choose."""

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from glasstream_topics import events
from glasstream_topics.errors import TopicError
from glasstream_topics.murmur2 import crc32_partition, murmur2, murmur2_partition


# org.apache.kafka.common.utils.UtilsTest.testMurmur2
@pytest.mark.parametrize(
    ("key", "java"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_javas_answers(key: bytes, java: int) -> None:
    assert murmur2(key) == java % 2**32


@given(st.binary(max_size=64))
def test_murmur2_equals_aiokafkas(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) % 2**32


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_every_key_has_a_partition_that_exists(key: bytes, partitions: int) -> None:
    assert murmur2_partition(key, partitions) == (aiokafka_murmur2(key) & 0x7FFFFFFF) % partitions
    assert 0 <= crc32_partition(key, partitions) < partitions


def test_crc32_gives_librdkafkas_answer() -> None:
    assert crc32_partition(b"123456789", 2**32) == 0xCBF43926  # the check value of CRC-32


def test_partitioners_have_the_names_of_the_setting() -> None:
    assert events.partition(b"elec2", 4) == murmur2_partition(b"elec2", 4)
    assert events.partition(b"elec2", 4, "crc32") == crc32_partition(b"elec2", 4)
    with pytest.raises(TopicError, match="murmur2 or crc32, got 'md5'"):
        events.partition(b"elec2", 4, "md5")
