"""The draws of `random.Random`: the Mersenne Twister of Matsumoto and Nishimura (1998) as CPython uses it."""

from typing import Any

import numpy as np

from glasstream.base.errors import ModelError
from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L

_MOST_DRAWS = 20_000
"""Draws after which a loop gives up. A generator whose 19,937 bits are not all zero gives fewer numbers of one kind in
a row, because its bits are linear functions of its state that are independent of each other."""
_STUCK = "the random generator of a live model draws the same number for ever: its state is damaged"


def is_stuck(state: Any) -> bool:
    """Return whether a state draws zeros for ever: only the low 31 bits of its first word do not count."""
    return not state[1:].any() and not state[0] & np.uint32(0x80000000)


@bare_kernel
def _twist(state: Any) -> None:
    for k in range(624):
        y = (state[k] & np.uint32(0x80000000)) | (state[(k + 1) % 624] & np.uint32(0x7FFFFFFF))
        value = state[(k + 397) % 624] ^ (y >> np.uint32(1))
        if y & np.uint32(1):
            value ^= np.uint32(0x9908B0DF)
        state[k] = value


@inlined
def _word(twister: Any, position: Any) -> Any:
    at = position[0]
    if at >= 624:
        _twist(twister)
        at = 0
    y = twister[at]
    position[0] = at + 1
    y ^= y >> np.uint32(11)
    y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
    y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
    y ^= y >> np.uint32(18)
    return y


@inlined
def _uniform(twister: Any, position: Any) -> float:
    """`Random.random`."""
    a = np.int64(_word(twister, position)) >> 5
    b = np.int64(_word(twister, position)) >> 6
    return (a * 67108864.0 + b) * (1.0 / 9007199254740992.0)


@bare_kernel
def poisson(twister: Any, position: Any, limit: float) -> int:
    """`river.utils.random.poisson`, whose `limit` is exp(-rate)."""
    k = 0
    q = 1.0
    while q > limit:
        if k == _MOST_DRAWS:
            raise ModelError(_STUCK)
        k += 1
        q *= _uniform(twister, position)
    return k - 1


@bare_kernel
def _below(p: L.Pool, n: int) -> int:
    """`Random._randbelow`."""
    bits = 0
    while (n >> bits) > 0:
        bits += 1
    for _ in range(_MOST_DRAWS):
        r = np.int64(_word(p.twister, p.position)) >> (32 - bits)
        if r < n:
            return int(r)
    raise ModelError(_STUCK)


@bare_kernel
def sample(p: L.Pool, n: int, k: int, to: int) -> None:
    """`Random.sample` of k of the n features in row 0 of `marks`; they are written to the arena at `to`."""
    marks = p.marks
    if n <= p.option[L.POOL_MOST]:
        for i in range(n):
            marks[1, i] = marks[0, i]
        for i in range(k):
            j = _below(p, n - i)
            p.I[to + i] = marks[1, j]
            marks[1, j] = marks[1, n - i - 1]
    else:
        for i in range(n):
            marks[1, i] = 0
        for i in range(k):
            j = _below(p, n)
            for _ in range(_MOST_DRAWS):
                if marks[1, j] == 0:
                    break
                j = _below(p, n)
            if marks[1, j] == 1:
                raise ModelError(_STUCK)
            marks[1, j] = 1
            p.I[to + i] = marks[0, j]
