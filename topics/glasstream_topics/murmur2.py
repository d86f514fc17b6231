"""Which partition a keyed record belongs on: murmur2 as Java's producers hash, and CRC32 as librdkafka does by default.

Java's default partitioner, aiokafka and librdkafka's `murmur2_random` agree on murmur2 of the key's bytes;
librdkafka's default, `consistent_random`, takes CRC32. One stream written by both would lose its order.
"""

import zlib
from typing import Final

_M: Final = 0x5BD1E995  # multiplier of Austin Appleby's MurmurHash2
_SEED: Final = 0x9747B28C  # org.apache.kafka.common.utils.Utils.murmur2
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32 bits of `org.apache.kafka.common.utils.Utils.murmur2`, unsigned.

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
    """Partition of a key by murmur2, its sign bit cleared as Java's `toPositive` does.

    >>> [murmur2_partition(name, 4) for name in (b"elec2", b"agrawal", b"21")]
    [1, 1, 0]
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def crc32_partition(key: bytes, partitions: int) -> int:
    """Partition of a key by CRC32: librdkafka's `consistent` and, for keys that are not empty, `consistent_random`."""
    return zlib.crc32(key) % partitions
