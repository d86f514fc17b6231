"""Taking words from the arena, and an upper bound of what one event can take."""

from typing import Any

from glasstream.errors import ModelError
from glasstream.jit import inlined
from glasstream.learning.layout import (
    ADAPTIVE_FAMILY,
    BUCKETS_A_ROW,
    CASES,
    CONTROL,
    DEMAND,
    DETECTOR_HEADER,
    FAMILY,
    FEW_ROWS,
    FIRST_CATEGORIES,
    FOREST_FAMILY,
    HEADER,
    HEIGHT,
    MANY_ROWS,
    MODELS,
    MOST_CATEGORIES,
    MOST_CLASSES,
    MOST_ENTRIES,
    MOST_SLOTS,
    NODE,
    NOMINAL_FEATURES,
    PAIR,
    POINT,
    REGRESSION,
    ROW,
    TARGET,
    USED,
)

Pool = Any
"""`layout.Pool`; to mypy kernels are untyped."""

__all__ = ["CONTROL", "demand", "detector_words", "free_words", "has_room", "reserve", "take", "wider"]

_FULL = (
    "the arena of a live model is full in the middle of an event, because `demand` counted too few words; the event is "
    "learned in part; please report this error of Glasstream, with the model and the event"
)


@inlined
def reserve(control: Any, size: int, words: int) -> int:
    """Return the address of `words` zeroed words of an arena of `size` words.

    `has_room` has made sure that they are there. If they are not, this raises an error: nothing is written beyond the
    end.
    """
    at = control[USED]
    if words > size - at:
        raise ModelError(_FULL)
    control[USED] = at + words
    return at


@inlined
def take(p: Pool, words: int) -> int:
    """Return the address of `words` zeroed words; see `reserve`."""
    return reserve(p.control, p.F.size, words)


@inlined
def free_words(p: Pool, words: int) -> int:
    """Return the address of `words` zeroed words that stay free. Whoever writes them has to clear them."""
    at = take(p, words)
    p.control[USED] = at
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
def _words_of_detectors(p: Pool) -> int:
    words = 0
    for which in range(2):
        buckets = int(p.detector[which, BUCKETS_A_ROW])
        words += detector_words(buckets, FEW_ROWS) + detector_words(buckets, MANY_ROWS)
    return words


@inlined
def _words_of_classes(p: Pool, slots: float, categories: float, nominal: float) -> float:
    """Return the `demand` of a classifier."""
    control = p.control
    classes = float(wider(control[MOST_CLASSES]))
    node = NODE + PAIR * classes + _words_of_detectors(p)
    # Where a leaf learns: its block may be written for a new class and again for a new feature.
    words = node + PAIR * classes + 2 * slots * (HEADER + ROW * classes) + slots
    words += 2 * nominal * categories * (1 + classes)
    # Where it splits: its children, and room to sort the categories.
    words += max(2.0, categories) * (node + 1)
    if p.option[FAMILY] == ADAPTIVE_FAMILY:
        words = (control[HEIGHT] + 2) * (words + node)
    return words


@inlined
def _words_of_targets(p: Pool, columns: int, slots: float, categories: float, nominal: float) -> float:
    """Return the `demand` of a regressor."""
    node = NODE + TARGET + PAIR * float(wider(p.control[MOST_ENTRIES]) + columns) + _words_of_detectors(p)
    words = 2 * node + slots * (HEADER + POINT + 1) + nominal * CASES * (categories + FIRST_CATEGORIES)
    words += max(2.0, categories) * (node + 1)
    if p.option[FAMILY] == ADAPTIVE_FAMILY:
        words = (p.control[HEIGHT] + 2) * (words + node)
    return words


@inlined
def demand(p: Pool, columns: int) -> int:
    """Return how many words an event with `columns` features takes at most.

    The largest numbers of classes, slots and categories may belong to different leaves, so their product can be far
    larger than the arena. Floats cannot overflow; `state.moved` and `checkpoint.decode` refuse more than `MOST_DEMAND`.
    """
    control = p.control
    slots = float(wider(control[MOST_SLOTS]) + columns)
    categories = float(wider(control[MOST_CATEGORIES]))
    nominal = min(slots, float(control[NOMINAL_FEATURES]))
    if p.option[REGRESSION] == 1:
        words = _words_of_targets(p, columns, slots, categories, nominal)
    else:
        words = _words_of_classes(p, slots, categories, nominal)
    if p.option[FAMILY] == FOREST_FAMILY:
        words = p.option[MODELS] * 2 * words
    return int(min(words, 2.0**60))


@inlined
def has_room(p: Pool, columns: int) -> bool:
    """Return whether there is room for an event; if not, say how much it needs."""
    words = demand(p, columns)
    if p.F.size - p.control[USED] < words:
        p.control[DEMAND] = words
        return False
    return True
