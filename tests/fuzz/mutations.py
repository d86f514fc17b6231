"""Mutations of arrays, of the values beside them, and of bytes: numbers that indexes, sizes and sums do not expect."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[Any]
_WHOLE = (0, 1, -1, 2, 3, 5, 7, 8, 24, 2**31 - 1, -(2**31), 2**40, -(2**40), 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-320, 2.0**53)
_AS_BITS = (0.0, 1.0, -1.0, np.nan, np.inf, 1e300, 3.0, -5.0)


def mutated(
    random: random.Random, meta: Mapping[str, Any], arrays: Mapping[str, _Array]
) -> tuple[dict[str, Any], dict[str, _Array]]:
    """Return `meta` and `arrays` with one to four of their values changed; large arrays are chosen more often."""
    new_meta, new_arrays = dict(meta), dict(arrays)
    for _ in range(1 if random.random() < 0.6 else random.randint(1, 4)):
        if new_arrays and random.random() < 0.85:
            names = sorted(new_arrays)
            (name,) = random.choices(names, [1 + min(200, new_arrays[name].size) for name in names])
            new_arrays[name] = mutate_array(random, new_arrays[name])
        else:
            new_meta = mutate_meta(random, new_meta)
    return new_meta, new_arrays


def mutate_array(random: random.Random, array: _Array) -> _Array:
    """Return a copy with some elements replaced; or longer, shorter, transposed, or with another dtype."""
    array = np.array(array)
    if array.size == 0 or random.random() < 0.08:
        return _reshaped(random, array)
    flat = array.reshape(-1)
    for _ in range(1 if random.random() < 0.7 else random.randint(1, 6)):
        at = random.randrange(flat.size)
        if array.dtype.kind == "f":
            other = flat[random.randrange(flat.size)]
            with np.errstate(over="ignore"):
                flat[at] = random.choice([*_FLOATS, other, flat[at] + 1, random.random()])
        elif array.dtype.kind == "b":
            flat[at] = not flat[at]
        elif array.dtype.kind in "iu":
            info = np.iinfo(array.dtype)
            span = int(info.max) - int(info.min) + 1
            flat[at] = (_whole(random, flat, at) - int(info.min)) % span + int(info.min)
    return array


def _reshaped(random: random.Random, array: _Array) -> _Array:
    way = random.randrange(5)
    if way == 0 and array.ndim:
        if len(array) == 0:
            return np.zeros((random.randint(1, 40), *array.shape[1:]), array.dtype)
        return np.concatenate([array, array[: random.randint(0, len(array))]])
    if way == 1 and array.ndim and len(array):
        return array[: random.randrange(len(array))]
    if way == 2 and array.ndim == 2:
        return np.ascontiguousarray(array.T)
    if way == 3 and array.dtype.kind == "i":
        return array.astype(random.choice([np.int8, np.int16, np.int32, np.int64]))
    return array


def _whole(random: random.Random, flat: _Array, at: int) -> int:
    way = random.random()
    if way < 0.3:
        return random.choice(_WHOLE)
    if way < 0.55:
        return int(flat[random.randrange(flat.size)])
    if way < 0.75:
        return int(flat[at]) + random.choice([-1, 1, 2, -2, 8, -8, 24])
    if way < 0.85:
        return random.randrange(max(1, flat.size) * 2)
    if way < 0.93:
        return int(np.array([random.choice(_AS_BITS)]).view(np.int64)[0])
    return random.randrange(-4, 300)


def mutate_meta(random: random.Random, value: Any) -> Any:
    """Return a copy of a JSON value with one part changed, removed, repeated, or of another type."""
    if isinstance(value, dict) and value:
        changed = dict(value)
        key = random.choice(sorted(changed))
        if random.random() < 0.04:
            del changed[key]
        else:
            changed[key] = mutate_meta(random, changed[key])
        return changed
    if isinstance(value, list):
        items, way = list(value), random.random()
        if items and way < 0.75:
            at = random.randrange(len(items))
            items[at] = mutate_meta(random, items[at])
        elif items and way < 0.85:
            items.pop(random.randrange(len(items)))
        else:
            items.append(random.choice(items or [0, 1, "a", [], {}]))
        return items
    if isinstance(value, bool):
        return random.choice([not value, None, 0])
    if isinstance(value, int):
        return random.choice([0, 1, -1, value + 1, value - 1, 2 * value, 2**31, 2**53, 2**62, 10_000, 300])
    if isinstance(value, float):
        return random.choice([0.0, -1.0, 1.0, value * 2, 1e300, 1e-300])
    if isinstance(value, str):
        return random.choice(["", "a", value + "x", "\x00", value[::-1], "zz" * 50])
    return random.choice([None, 0, "a", 1.5, [], {}])


def mutate_bytes(random: random.Random, data: bytes, first: int = 0) -> bytes:
    """Return `data` with one to four ranges flipped, set, inserted, deleted, doubled or cut off, from `first` on."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if len(changed) <= first + 1:
            break
        at = random.randrange(first, len(changed))
        length = random.choice((1, 1, 2, 4, 8, 64))
        way = random.randrange(8)
        if way <= 2:
            changed[at] ^= 1 << random.randrange(8)
        elif way == 3:
            fill = random.choice((b"\x00", b"\xff", b"\x7f", b"\x80", b"\x01"))
            changed[at : at + length] = fill * len(changed[at : at + length])
        elif way == 4:
            changed[at:at] = random.randbytes(length)
        elif way == 5:
            del changed[at : at + length]
        elif way == 6:
            changed[at:at] = changed[at : at + length]
        else:
            del changed[at:]
    return bytes(changed)
