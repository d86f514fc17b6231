"""Taking words from the arena, and an upper bound of what one event can take."""

from typing import Any

from glasstream.jit import inlined
from glasstream.learning.layout import (
    ADAPTIVE_FAMILY,
    BUCKETS_A_ROW,
    CONTROL,
    DEMAND,
    DETECTOR_HEADER,
    FAMILY,
    FEW_ROWS,
    FOREST_FAMILY,
    HEADER,
    HEIGHT,
    MANY_ROWS,
    MODELS,
    MOST_CATEGORIES,
    MOST_CLASSES,
    MOST_SLOTS,
    NODE,
    NOMINAL_FEATURES,
    PAIR,
    ROW,
    USED,
)

Pool = Any
"""`layout.Pool`; to mypy kernels are untyped."""

__all__ = ["CONTROL", "demand", "detector_words", "has_room", "take", "wider"]


@inlined
def take(p: Pool, words: int) -> int:
    """Return the address of `words` zeroed words. There is room for them: see `has_room`."""
    at = p.control[USED]
    p.control[USED] = at + words
    return at


@inlined
def wider(room: int) -> int:
    """Return the room that an object gets that needs more than `room`."""
    return room + max(2, room // 2)


@inlined
def detector_words(buckets: int, rows: int) -> int:
    """Return the words of a detector with `rows` rows of at most `buckets` buckets."""
    return DETECTOR_HEADER + rows * (1 + 2 * (buckets + 1))


@inlined
def demand(p: Pool, columns: int) -> int:
    """Return how many words an event with `columns` features takes at most."""
    control = p.control
    classes = wider(control[MOST_CLASSES])
    slots = wider(control[MOST_SLOTS]) + columns
    categories = wider(control[MOST_CATEGORIES])
    nominal = min(slots, control[NOMINAL_FEATURES])
    detectors = 0
    for which in range(2):
        buckets = int(p.detector[which, BUCKETS_A_ROW])
        detectors += detector_words(buckets, FEW_ROWS) + detector_words(buckets, MANY_ROWS)
    node = NODE + PAIR * classes + detectors
    # Where a leaf learns: its block may be written for a new class and again for a new feature.
    leaf = node + PAIR * classes + 2 * slots * (HEADER + ROW * classes) + slots
    leaf += 2 * nominal * categories * (1 + classes)
    # Where it splits: its children, and room to sort the categories.
    leaf += max(2, categories) * (node + 1)
    if p.option[FAMILY] == ADAPTIVE_FAMILY:
        return (control[HEIGHT] + 2) * (leaf + node)
    if p.option[FAMILY] == FOREST_FAMILY:
        return p.option[MODELS] * 2 * leaf
    return leaf


@inlined
def has_room(p: Pool, columns: int) -> bool:
    """Return whether there is room for an event; if not, say how much it needs."""
    words = demand(p, columns)
    if p.F.size - p.control[USED] < words:
        p.control[DEMAND] = words
        return False
    return True
