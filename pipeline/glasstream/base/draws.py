"""Random numbers that are a pure function of (seed, stream, row, purpose, index).

The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
a block cipher in counter mode. Seed and stream name form the key; row, purpose and index form the counter. No state is
carried from one draw to the next. A row's draws therefore do not depend on earlier draws, on how rows are cut into
blocks, or on a restart.
"""

import hashlib
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import kernel

# Multipliers and Weyl increments of Philox4x32 (Salmon et al., section 3 and Random123's philox.h).
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ROUNDS = 10


class Purpose(IntEnum):
    """Purpose of a draw. Never reuse a number for another purpose: it is part of every result."""

    RESERVOIR = 1
    IPFI = 2
    ISAGE_ORDER = 3
    ISAGE = 4
    FREQUENCY_STORE = 5
    STORAGE_LEAF = 6
    STORAGE_DESCENT = 7
    STORAGE_TREE = 8
    IPDP_DISPLAY = 9
    STORAGE_FALLBACK = 10
    CHANGE = 11
    LABEL_DELAY = 12
    INCIDENT = 13
    ATTRIBUTIONS = 14
    WHERE = 15


def stream_key(seed: int, stream: str) -> NDArray[np.uint64]:
    """Return the two 32-bit key words of a stream: the first 64 bits of BLAKE2b over seed and name."""
    digest = hashlib.blake2b(f"{seed}\0{stream}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.frombuffer(digest, dtype="<u4").astype(np.uint64)


@kernel
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Return one Philox4x32-10 block: four 32-bit words (as uint64) for a 128-bit counter and a 64-bit key."""
    c0, c1, c2, c3 = np.uint64(c0), np.uint64(c1), np.uint64(c2), np.uint64(c3)
    k0, k1 = np.uint64(k0), np.uint64(k1)
    for _ in range(_ROUNDS):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0, c1, c2, c3 = (
            ((p1 >> _32) ^ c1 ^ k0) & _LOW,
            p1 & _LOW,
            ((p0 >> _32) ^ c3 ^ k1) & _LOW,
            p0 & _LOW,
        )
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@kernel
def below(bound, key, row, purpose, index):  # type: ignore[no-untyped-def]
    """Return an integer uniform on 0 .. bound - 1, for 1 <= bound < 2**32.

    64 random bits are scaled by multiplication (Lemire 2019, without the rejection step). The probability of a value is
    off by at most 2**-32 of itself.
    """
    r = np.uint64(row)
    a, b, _, _ = philox(r & _LOW, r >> _32, np.uint64(purpose), np.uint64(index), key[0], key[1])
    n = np.uint64(bound)
    return np.int64((a * n + ((b * n) >> _32)) >> _32)


@kernel
def uniform(key, row, purpose, index):  # type: ignore[no-untyped-def]
    """Return a number uniform on [0, 1), a multiple of 2**-53."""
    r = np.uint64(row)
    a, b, _, _ = philox(r & _LOW, r >> _32, np.uint64(purpose), np.uint64(index), key[0], key[1])
    return np.float64((a << np.uint64(21)) | (b >> np.uint64(11))) * 2.0**-53


@kernel
def permute(key, row, purpose, out):  # type: ignore[no-untyped-def]
    """Fill `out` int64[d] with a random permutation of 0 .. d - 1, all equally likely (Fisher and Yates)."""
    for i in range(out.size):
        out[i] = i
    for i in range(out.size - 1, 0, -1):
        j = below(i + 1, key, row, purpose, i)
        out[i], out[j] = out[j], out[i]
