"""Partition of a record with a key: murmur2 as in Java producers, and CRC32 as librdkafka's default.

Java's default partitioner, aiokafka and librdkafka's `murmur2_random` all use murmur2 of the key's bytes. librdkafka's
default, `consistent_random`, uses CRC32. A stream that is written with both loses its order.
"""

import zlib
from typing import Final

_M: Final = 0x5BD1E995  # multiplier of Austin Appleby's MurmurHash2
_SEED: Final = 0x9747B28C  # org.apache.kafka.common.utils.Utils.murmur2
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32 bits of `org.apache.kafka.common.utils.Utils.murmur2` as an unsigned number.

    >>> murmur2(b"21")  # Java: -973932308
    3321034988
    """
    h = _SEED ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ (h >> 15)


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key by murmur2, with the sign bit cleared as Java's `toPositive` does.

    >>> [murmur2_partition(name, 4) for name in (b"elec2", b"agrawal", b"21")]
    [1, 1, 0]
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def crc32_partition(key: bytes, partitions: int) -> int:
    """Return the partition of a key by CRC32, as librdkafka's `consistent` and (for non-empty keys) `consistent_random`
    do.
    """
    return zlib.crc32(key) % partitions
