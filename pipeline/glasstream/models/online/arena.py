"""Taking words from the arena, and an upper bound of what one event can take."""

from typing import Any

from glasstream.base.errors import ModelError
from glasstream.base.jit import inlined
from glasstream.models.online import layout as L

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
    at = control[L.USED]
    if words > size - at:
        raise ModelError(_FULL)
    control[L.USED] = at + words
    return at


@inlined
def take(p: L.Pool, words: int) -> int:
    """Return the address of `words` zeroed words; see `reserve`."""
    return reserve(p.control, p.F.size, words)


@inlined
def free_words(p: L.Pool, words: int) -> int:
    """Return the address of `words` zeroed words that stay free. The caller that writes them has to clear them."""
    at = take(p, words)
    p.control[L.USED] = at
    return at


@inlined
def wider(room: int) -> int:
    """Return the room that an object gets that needs more than `room`."""
    return room + max(2, room // 2)


@inlined
def detector_words(buckets: int, rows: int) -> int:
    """Return the words of a detector with `rows` rows of at most `buckets` buckets."""
    return L.DETECTOR_HEADER + rows * (1 + 2 * (buckets + 1))


@inlined
def _words_of_detectors(p: L.Pool) -> int:
    words = 0
    for which in range(2):
        buckets = int(p.detector[which, L.BUCKETS_A_ROW])
        words += detector_words(buckets, L.FEW_ROWS) + detector_words(buckets, L.MANY_ROWS)
    return words


@inlined
def _words_of_classes(p: L.Pool, slots: float, categories: float, nominal: float) -> float:
    """Return the `demand` of a classifier."""
    control = p.control
    classes = float(wider(control[L.MOST_CLASSES]))
    node = L.NODE + L.PAIR * classes + _words_of_detectors(p)
    # Where a leaf learns: its block may be written for a new class and again for a new feature.
    words = node + L.PAIR * classes + 2 * slots * (L.HEADER + L.ROW * classes) + slots
    words += 2 * nominal * categories * (1 + classes)
    # Where it splits: its children, and room to sort the categories.
    words += max(2.0, categories) * (node + 1)
    if p.option[L.FAMILY] == L.ADAPTIVE_FAMILY:
        words = (control[L.HEIGHT] + 2) * (words + node)
    return words


@inlined
def _words_of_targets(p: L.Pool, columns: int, slots: float, categories: float, nominal: float) -> float:
    """Return the `demand` of a regressor."""
    node = L.NODE + L.TARGET + L.PAIR * float(wider(p.control[L.MOST_ENTRIES]) + columns) + _words_of_detectors(p)
    words = 2 * node + slots * (L.HEADER + L.POINT + 1) + nominal * L.CASES * (categories + L.FIRST_CATEGORIES)
    words += max(2.0, categories) * (node + 1)
    if p.option[L.FAMILY] == L.ADAPTIVE_FAMILY:
        words = (p.control[L.HEIGHT] + 2) * (words + node)
    return words


@inlined
def demand(p: L.Pool, columns: int) -> int:
    """Return how many words an event with `columns` features takes at most.

    The largest numbers of classes, slots and categories may belong to different leaves, so their product can be far
    larger than the arena. Floats cannot overflow; `state.moved` and `checkpoint.decode` refuse more than `MOST_DEMAND`.
    """
    control = p.control
    slots = float(wider(control[L.MOST_SLOTS]) + columns)
    categories = float(wider(control[L.MOST_CATEGORIES]))
    nominal = min(slots, float(control[L.NOMINAL_FEATURES]))
    if p.option[L.REGRESSION] == 1:
        words = _words_of_targets(p, columns, slots, categories, nominal)
    else:
        words = _words_of_classes(p, slots, categories, nominal)
    if p.option[L.FAMILY] == L.FOREST_FAMILY:
        words = p.option[L.MODELS] * 2 * words
    return int(min(words, 2.0**60))


@inlined
def has_room(p: L.Pool, columns: int) -> bool:
    """Return whether there is room for an event; if not, say how much it needs."""
    words = demand(p, columns)
    if p.F.size - p.control[L.USED] < words:
        p.control[L.DEMAND] = words
        return False
    return True
