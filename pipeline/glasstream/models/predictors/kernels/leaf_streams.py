"""The leaves that rows with replaced features reach, as streams of numbers.

An entry of a stream is twice the number of a bit of `LeafSets`, plus 1 if the row reaches a further leaf (those of
alternate trees come first). The entries of a row follow each other.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import lower_builtin, type_callable

from glasstream.base.jit import bare_kernel, inlined, kernel
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.leaf_sets import LeafSets
from glasstream.models.predictors.kernels.variant_rows import BuiltUpRows, ReplacedRows

_ALL = np.uint64(2**64 - 1)
_ONE = np.uint64(1)
_LAST = np.uint32(0xFFFFFFFE)


class Scratch(NamedTuple):
    """Scratch space: sets for each feature and one more, twice, and the numbers of words."""

    before: Array
    behind: Array
    live: Array


def lowest_bit(word: np.uint64) -> np.uint64:
    """Return the position of the lowest bit that is set; 64 if no bit is set. Compiled, this is one instruction."""
    bits = int(word)
    return np.uint64((bits & -bits).bit_length() - 1 if bits else 64)


@type_callable(lowest_bit)
def _lowest_bit_type(context: Any) -> Any:
    return lambda word: types.uint64 if word == types.uint64 else None


@lower_builtin(lowest_bit, types.uint64)
def _lowest_bit_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))


@kernel
def scratch(leaf_sets: LeafSets, width: int) -> Scratch:
    """Return scratch space for streams of these trees on rows of `width` features."""
    words = 1
    for tree in range(leaf_sets.words.size):
        words = max(words, leaf_sets.words[tree])
    sets = max(width, leaf_sets.cut_start.size) + 1
    return Scratch(np.empty((sets, words), np.uint64), np.empty((sets, words), np.uint64), np.empty(words, np.uint64))


@inlined
def _start(leaf_sets_of: Array, tree: int, place: int) -> np.uint64:
    return np.uint64(leaf_sets_of[np.uint64(tree), np.uint64(place)])


@inlined
def _fill(out: Array, at: int, count: int, size: int) -> None:
    """Set row `at` to the set of all leaves of a tree."""
    for word in range(size):
        out[at, word] = _ALL
    if count & 63:
        out[at, size - 1] = (_ONE << np.uint64(count & 63)) - _ONE


@inlined
def _write(stream: Array, at: np.uint64, bits: np.uint64, first: np.uint64) -> np.uint64:
    """Write the leaves in a word of a set, and return the position of the next entry."""
    while bits:
        stream[at] = (first + lowest_bit(bits)) << _ONE | _ONE
        at += _ONE
        bits &= bits - _ONE
    return at


@inlined
def _write_word(stream: Array, at: np.uint64, bits: np.uint64, first: np.uint64) -> np.uint64:
    """Write the leaves in a set of one word, and return the position of the next entry."""
    more = True
    while more:
        rest = bits & (bits - _ONE)
        more = bool(rest != 0)
        stream[at] = (first + lowest_bit(bits)) << _ONE | np.uint64(more)
        at += _ONE
        bits = rest
    return at


@inlined
def _replaced(leaf_sets: LeafSets, tree: int, given: ReplacedRows, scratch: Scratch, stream: Array, size: int) -> None:
    """Do the work of `stream_replaced` for a tree whose sets have `size` words.

    Where `size` is the constant 1, the machine code has no loops over words.
    """
    _, _, _, bit_start, leaves, _, asked_start, asked, set_start, sets, _ = leaf_sets
    before, behind, live = scratch
    _, values, row_places, places = given
    features, times = row_places.shape[1], values.shape[1]
    first, many = asked_start[tree], asked_start[tree + 1] - asked_start[tree]
    base = np.uint64(bit_start[tree])
    at = np.uint64(0)
    for i in range(row_places.shape[0]):
        # The leaves that all features but one allow: those allowed by the features before it and by those behind it.
        _fill(before, 0, leaves[tree], size)
        for a in range(many):
            start = _start(set_start, tree, row_places[i, asked[first + a]])
            for word in range(size):
                before[a + 1, word] = before[a, word] & sets[start + np.uint64(word)]
        for word in range(size):
            behind[many, word] = _ALL
        for a in range(many - 1, -1, -1):
            start = _start(set_start, tree, row_places[i, asked[first + a]])
            for word in range(size):
                behind[a, word] = behind[a + 1, word] & sets[start + np.uint64(word)]
        own = at
        if size == 1:
            at = _write_word(stream, at, before[many, 0], base)
        else:
            for word in range(size):
                at = _write(stream, at, before[many, word], base + np.uint64(64 * word))
            stream[at - _ONE] &= _LAST
        n_own = at - own
        a = 0
        for f in range(features):
            parts = False
            n_live = 0
            if a < many and asked[first + a] == f:
                parts = bool(n_own > 1)  # a leaf listed twice may be listed once for another value
                for word in range(size):
                    rest = before[a, word] & behind[a + 1, word]
                    behind[a, word] = rest
                    parts |= rest != before[many, word]
                    live[n_live] = word
                    n_live += rest != 0
                a += 1
            if not parts:
                for _ in range(times):
                    for entry in range(n_own):
                        stream[at] = stream[own + np.uint64(entry)]
                        at += _ONE
                continue
            for k in range(times):
                start = _start(set_start, tree, places[i * times + k, f])
                if size == 1:
                    at = _write_word(stream, at, behind[a - 1, 0] & sets[start], base)
                    continue
                for nth in range(n_live):
                    word = live[nth]
                    at = _write(stream, at, behind[a - 1, word] & sets[start + word], base + np.uint64(64) * word)
                stream[at - _ONE] &= _LAST


@inlined
def _built_up(leaf_sets: LeafSets, tree: int, given: BuiltUpRows, scratch: Scratch, stream: Array, size: int) -> None:
    """Do the work of `stream_built_up`, like `_replaced`."""
    _, _, _, bit_start, leaves, _, _, _, set_start, sets, _ = leaf_sets
    before, behind, _ = scratch
    _, order, background, row_places, places = given
    _, backgrounds, inner, _ = background.shape
    features = row_places.shape[1]
    steps = order.shape[1] - 1
    base = np.uint64(bit_start[tree])
    at = np.uint64(0)
    for i in range(row_places.shape[0]):
        # The leaves that the row's features allow after each step, and those that the background row's features allow.
        for step in range(steps):
            if step == 0:
                _fill(before, 0, leaves[tree], size)
                for f in range(order.shape[1], features):  # absent from all rows
                    start = _start(set_start, tree, row_places[i, f])
                    for word in range(size):
                        before[0, word] &= sets[start + np.uint64(word)]
            f = order[i, step]
            start = _start(set_start, tree, row_places[i, f]) if f < features else np.uint64(0)
            for word in range(size):
                before[step + 1, word] = before[step, word] & sets[start + np.uint64(word)]
        for k in range(inner):
            for step in range(steps):
                if step == 0 or backgrounds > 1:
                    row = (i * backgrounds + step) * inner + k
                    for word in range(size):
                        behind[steps + 1, word] = _ALL
                    for added in range(steps, step, -1):
                        f = order[i, added]
                        start = _start(set_start, tree, places[row, f]) if f < features else np.uint64(0)
                        for word in range(size):
                            behind[added, word] = behind[added + 1, word] & sets[start + np.uint64(word)]
                if size == 1:
                    at = _write_word(stream, at, before[step + 1, 0] & behind[step + 1, 0], base)
                    continue
                for word in range(size):
                    bits = before[step + 1, word] & behind[step + 1, word]
                    at = _write(stream, at, bits, base + np.uint64(64 * word))
                stream[at - _ONE] &= _LAST


@bare_kernel
def stream_replaced(leaf_sets: LeafSets, tree: int, given: ReplacedRows, scratch: Scratch, stream: Array) -> None:
    """Fill `stream` uint32 for a tree.

    The entries of a row are its own leaves and then, for each feature that the predictor knows, the leaves for each of
    the values that replace it.
    """
    if leaf_sets.words[tree] == 1:
        _replaced(leaf_sets, tree, given, scratch, stream, 1)
    else:
        _replaced(leaf_sets, tree, given, scratch, stream, leaf_sets.words[tree])


@bare_kernel
def stream_built_up(leaf_sets: LeafSets, tree: int, given: BuiltUpRows, scratch: Scratch, stream: Array) -> None:
    """Fill `stream` uint32 for a tree.

    The entries of a row are, for each of its background rows, the leaves at each step.
    """
    if leaf_sets.words[tree] == 1:
        _built_up(leaf_sets, tree, given, scratch, stream, 1)
    else:
        _built_up(leaf_sets, tree, given, scratch, stream, leaf_sets.words[tree])
