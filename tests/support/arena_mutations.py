"""Mutate what models have learned: words of bytes, elements of arrays, entries of headers, objects of an arena.

A field of a node, slot, table, search tree or detector gets a plausible value, such as the address of another object
or NaN. `tests.fuzz.live_model` and `tests/flow/learner/test_stream_state.py` go on with what comes of it.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from glasstream.models.online import layout as L
from tests.support.live_models import resealed

WORDS = (0, 1, 2, 3, 7, 24, 100, -1, -(2**63), 2**31, 2**53 + 1, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))


class Bound(NamedTuple):
    """A bound of memory."""

    share: int
    """Bytes for each byte of the checkpoint."""
    base: int
    """Bytes for every checkpoint."""


class Run(NamedTuple):
    """A word or several of an object in the arena."""

    at: int
    words: int


def with_other_words(data: bytes, source: random.Random) -> bytes:
    forged = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 8))):
        place = source.randrange(len(forged) // 8) * 8
        word = source.choice((*WORDS, source.getrandbits(63), source.randrange(len(data) // 8)))
        forged[place : place + 8] = word.to_bytes(8, "little", signed=True)
    return resealed(bytes(forged))


def objects_of(arena: np.ndarray, trees: np.ndarray, regression: bool) -> Iterator[Run]:
    """Find the objects of a sound arena."""
    nodes = [int(at) for at in trees[:, L.ROOT] if at]
    detectors = [int(at) for at in trees[:, [L.WARNING, L.DRIFT]].flat if at]
    while nodes:
        node = nodes.pop()
        field = arena[node : node + L.NODE].tolist()
        yield Run(node, L.NODE)
        yield Run(field[L.WEIGHTS], L.TARGET if regression else L.PAIR * field[L.CLASS_ROOM])
        if regression and (entries := int(arena[field[L.WEIGHTS] + L.ENTRY_COUNT])):
            yield Run(int(arena[field[L.WEIGHTS] + L.ENTRIES]), L.PAIR * entries)
        if field[L.DETECTOR]:
            detectors.append(field[L.DETECTOR])
        if field[L.KIND] == L.LEAF:
            words = L.HEADER + L.ROW * field[L.CLASS_ROOM]
            for slot in range(field[L.BLOCK], field[L.BLOCK] + field[L.SLOTS] * words, words):
                yield Run(slot, words)
                if arena[slot + L.TABLE]:
                    yield Run(int(arena[slot + L.TABLE]), L.CASES)
                points = [int(arena[slot + L.SEARCH])] if regression else []
                for point in filter(None, points):
                    yield Run(point, L.POINT)
                    points += [int(arena[point + side]) for side in (L.POINT_LEFT, L.POINT_RIGHT)]
            if field[L.SUBSET_SIZE]:
                yield Run(field[L.SUBSET], field[L.SUBSET_SIZE])
            continue
        child = field[L.LEFT]
        while child:
            nodes.append(child)
            child = (
                int(arena[child + L.NEXT])
                if field[L.KIND] == L.MULTIWAY
                else field[L.RIGHT] * (child != field[L.RIGHT])
            )
        if field[L.ALTERNATE]:
            nodes.append(field[L.ALTERNATE])
    for at in detectors:
        yield Run(at, L.DETECTOR_HEADER)
        yield Run(at + L.DETECTOR_HEADER, int(arena[at + L.ROW_ROOM]))


def change_field(arena: np.ndarray, objects: list[Run], source: random.Random) -> None:
    """Give a field of an object a plausible value."""
    run = source.choice(objects)
    at = run.at + source.randrange(run.words)
    if at < arena.size:  # an object at the end has no spare room
        other = source.choice(objects)
        change_word(arena, at, source, (other.at, int(arena[other.at + source.randrange(other.words) - 1]), arena.size))


def change_value(array: np.ndarray, source: random.Random) -> None:
    if array.size == 0:
        return
    flat, place = array.reshape(-1), source.randrange(array.size)
    if array.dtype == np.int64:
        change_word(flat, place, source, (source.randrange(2**12),))
    elif array.dtype == np.float64:
        change_word(flat.view(np.int64), place, source, ())
    else:
        flat[place] = source.choice((0, 1, 2, 100, 127))


def change_word(words: np.ndarray, place: int, source: random.Random, values: tuple[int, ...]) -> None:
    before = int(words[place])
    near = (min(before + 1, 2**63 - 1), max(before - 1, -(2**63)), before // 2)
    number = source.choice(FLOATS)
    words[place] = source.choice((*WORDS, *near, *near, *values, *values, int(np.float64(number).view(np.int64))))


def reshaped(array: np.ndarray, source: random.Random) -> np.ndarray:
    """Return an array cut, extended, or of another type or shape."""
    kind = source.randrange(5)
    if kind == 0:
        return array.astype(source.choice(("f8", "i8", "i4", "u1", "u4")))
    if kind == 1:
        return array.reshape(-1)
    axis, by = source.randrange(array.ndim), source.choice((1, 1, 2, 8, 100))
    if kind == 2:
        return np.take(array, range(max(array.shape[axis] - by, 0)), axis)
    shape = [by if a == axis else size for a, size in enumerate(array.shape)]
    return np.concatenate((array, np.full(shape, source.choice((0, 0, 1, 24)), array.dtype)), axis)


def change_meta(meta: dict[str, Any], source: random.Random) -> None:
    """Change an entry of the header, at any depth."""
    place: Any = meta
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = source.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and source.random() < 0.8:
            place = place[key]
            continue
        kind = source.randrange(4)
        if kind == 0:
            del place[key]
        elif kind == 1 and isinstance(place, list):
            place.append(place[key])
        else:
            place[key] = source.choice((*WORDS[:-1], *FLOATS[:8], None, True, False, "", "f0", "gini", [], {}, [0, 1]))
        return
