"""Mutate the arena of a live model: the fields of its nodes, slots, tables, search trees and detectors.

A field gets a plausible value, such as the address of another object or NaN. `tests.fuzz.live_model` goes on with what
comes of it.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from glasstream.learning.layout import (
    ALTERNATE,
    BLOCK,
    CASES,
    CLASS_ROOM,
    DETECTOR,
    DETECTOR_HEADER,
    DRIFT,
    ENTRIES,
    ENTRY_COUNT,
    HEADER,
    KIND,
    LEAF,
    LEFT,
    MULTIWAY,
    NEXT,
    NODE,
    PAIR,
    POINT,
    POINT_LEFT,
    POINT_RIGHT,
    RIGHT,
    ROOT,
    ROW,
    ROW_ROOM,
    SEARCH,
    SLOTS,
    SUBSET,
    SUBSET_SIZE,
    TABLE,
    TARGET,
    WARNING,
    WEIGHTS,
)

WORDS = (0, 1, 2, 3, 7, 24, 100, -1, -(2**63), 2**31, 2**53 + 1, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))


class Run(NamedTuple):
    """A word or several of an object in the arena."""

    at: int
    words: int


def objects_of(arena: np.ndarray, trees: np.ndarray, regression: bool) -> Iterator[Run]:
    """Find the objects of a sound arena."""
    nodes = [int(at) for at in trees[:, ROOT] if at]
    detectors = [int(at) for at in trees[:, [WARNING, DRIFT]].flat if at]
    while nodes:
        node = nodes.pop()
        field = arena[node : node + NODE].tolist()
        yield Run(node, NODE)
        yield Run(field[WEIGHTS], TARGET if regression else PAIR * field[CLASS_ROOM])
        if regression and (entries := int(arena[field[WEIGHTS] + ENTRY_COUNT])):
            yield Run(int(arena[field[WEIGHTS] + ENTRIES]), PAIR * entries)
        if field[DETECTOR]:
            detectors.append(field[DETECTOR])
        if field[KIND] == LEAF:
            words = HEADER + (0 if regression else ROW * field[CLASS_ROOM])
            for slot in range(field[BLOCK], field[BLOCK] + field[SLOTS] * words, words):
                yield Run(slot, words)
                if arena[slot + TABLE]:
                    yield Run(int(arena[slot + TABLE]), CASES)
                points = [int(arena[slot + SEARCH])] if regression else []
                for point in filter(None, points):
                    yield Run(point, POINT)
                    points += [int(arena[point + side]) for side in (POINT_LEFT, POINT_RIGHT)]
            if field[SUBSET_SIZE]:
                yield Run(field[SUBSET], field[SUBSET_SIZE])
            continue
        child = field[LEFT]
        while child:
            nodes.append(child)
            child = int(arena[child + NEXT]) if field[KIND] == MULTIWAY else field[RIGHT] * (child != field[RIGHT])
        if field[ALTERNATE]:
            nodes.append(field[ALTERNATE])
    for at in detectors:
        yield Run(at, DETECTOR_HEADER)
        yield Run(at + DETECTOR_HEADER, int(arena[at + ROW_ROOM]))


def change_field(arena: np.ndarray, objects: list[Run], source: random.Random) -> None:
    """Give a field of an object a plausible value."""
    run = source.choice(objects)
    at = run.at + source.randrange(run.words)
    if at < arena.size:  # an object at the end has no spare room
        other = source.choice(objects)
        change_word(arena, at, source, (other.at, int(arena[other.at + source.randrange(other.words) - 1]), arena.size))


def change_word(words: np.ndarray, place: int, source: random.Random, values: tuple[int, ...]) -> None:
    before = int(words[place])
    near = (min(before + 1, 2**63 - 1), max(before - 1, -(2**63)), before // 2)
    number = source.choice(FLOATS)
    words[place] = source.choice((*WORDS, *near, *near, *values, *values, int(np.float64(number).view(np.int64))))
