"""Votes of classification trees on rows with replaced features, equal to `walk.classify` in every bit.

The votes of the leaves in a stream (see `leaf_streams`) are added to the scores of rows and of their variants.

If no row reaches more than one leaf of a tree (no alternate tree grows), the order of a tree's votes does not matter.
All leaves then add their constant votes, which are 0 for naive Bayes, without a branch that the processor could
mispredict. The naive Bayes leaves follow.

A naive Bayes leaf costs an exponential, so its votes on a row are kept. They hold for each variant in which the leaf
does not read the replaced feature.
"""

from typing import Any, NamedTuple

import numpy as np

from glasstream.base.jit import bare_kernel, inlined, kernel
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.bit_votes import BitVotes, add_constant, add_kept, bayes_votes
from glasstream.models.predictors.kernels.leaf_sets import LeafSets
from glasstream.models.predictors.kernels.leaf_streams import scratch, stream_built_up, stream_replaced
from glasstream.models.predictors.kernels.variant_rows import (
    CHUNK,
    BuiltUpRows,
    ReplacedRows,
    built_up_part,
    replaced_part,
)
from glasstream.models.predictors.predictor import Floats

_KEPT = 16
"""Number of naive Bayes leaves whose votes on a row are kept, by the lowest bits of their numbers."""


class Kept(NamedTuple):
    """Votes of naive Bayes leaves on a row, and scratch space for the variants.

    Attributes
    ----------
    tags
        int64[_KEPT + 1]: leaf of each entry.
    votes
        float64[(_KEPT + 1) c]: votes of the leaves; the last ones are those on a variant.
    x
        float64[w]: the variant.
    found
        uint64: the variants of a row whose leaves are naive Bayes.
    """

    tags: Array
    votes: Floats
    x: Floats
    found: Array


@kernel
def _room(bit_votes: BitVotes, width: int, variants: int) -> Kept:
    """Return scratch space for rows of `width` features with this number of variants each."""
    return Kept(
        np.empty(_KEPT + 1, np.int64),
        np.empty((_KEPT + 1) * bit_votes.most),
        np.empty(width),
        np.empty(variants + 1, np.uint64),
    )


@inlined
def _slot(bit: Any, reading: Any, votes: BitVotes) -> Any:
    """Return the place of a leaf's votes on a row, or the last one if the leaf reads the replaced feature's bit."""
    return _KEPT if votes.reads[bit] & reading else bit % _KEPT


@bare_kernel
def _replaced(
    votes: BitVotes, given: ReplacedRows, stream: Array, room: Kept, row_scores: Floats, scores: Floats
) -> None:
    """Add the votes of the leaves in `stream` to the scores of rows and of their variants."""
    rows, values, row_places, _ = given
    n, times, width = values.shape
    features, classes = row_places.shape[1], votes.constant.shape[1]
    tags, kept, x, _ = room
    each = kept.size // (_KEPT + 1)
    at = np.uint64(0)
    for i in range(n):
        for slot in range(_KEPT):
            tags[slot] = -1
        for f in range(features):
            x[f] = rows[i, f]
        for f in range(-1, features):
            reading = np.uint64(0) if f < 0 else np.uint64(1) << np.uint64(f & 63)
            for k in range(1 if f < 0 else times):
                if f >= 0:
                    x[f] = values[i, k, f]
                to = i * classes if f < 0 else ((i * times + k) * width + f) * classes
                out = row_scores if f < 0 else scores
                more = True
                while more:
                    entry = stream[at]
                    at += np.uint64(1)
                    more = entry & np.uint32(1)
                    bit = entry >> np.uint32(1)
                    if not votes.bayes[bit]:
                        add_constant(bit, votes, out, to)
                        continue
                    slot = _slot(bit, reading, votes)
                    if slot == _KEPT or tags[slot] != bit:
                        bayes_votes(bit, votes, x, kept, slot * each)
                        tags[slot] = bit
                    add_kept(bit, votes, kept, slot * each, out, to)
            if f >= 0:
                x[f] = rows[i, f]


@bare_kernel
def _single_replaced(
    votes: BitVotes, given: ReplacedRows, stream: Array, room: Kept, row_scores: Floats, scores: Floats
) -> None:
    """Add the votes of `_replaced` if no row reaches more than one leaf: the constant ones first, without a branch."""
    rows, values, row_places, _ = given
    bayes = votes.bayes
    tags, kept, x, found = room
    each = kept.size // (_KEPT + 1)
    n, times, width = values.shape
    features, classes = row_places.shape[1], votes.constant.shape[1]
    at = np.uint64(0)
    bit: Any
    f: Any
    slot: Any
    for i in range(n):
        own = np.int64(stream[at] >> np.uint32(1))
        at += np.uint64(1)
        add_constant(own, votes, row_scores, i * classes)
        many = np.uint64(0)
        variant = np.uint64(0)
        for f in range(features):
            to = np.uint64((i * times * width + f) * classes)
            for _ in range(times):
                bit = np.uint64(stream[at + variant] >> np.uint32(1))
                add_constant(bit, votes, scores, to)
                to += np.uint64(width * classes)
                found[many] = variant
                many += np.uint64(bayes[bit])
                variant += np.uint64(1)
        if many > 0 or bayes[own]:
            for slot in range(_KEPT):
                tags[slot] = -1
            for f in range(features):
                x[f] = rows[i, f]
            if bayes[own]:
                slot = own % _KEPT
                bayes_votes(own, votes, x, kept, slot * each)
                tags[slot] = own
                add_kept(own, votes, kept, slot * each, row_scores, i * classes)
            for nth in range(many):
                bit = np.int64(stream[at + found[nth]] >> np.uint32(1))
                f = np.int64(found[nth]) // times
                k = np.int64(found[nth]) - f * times
                slot = _slot(bit, np.uint64(1) << np.uint64(f & 63), votes)
                if slot == _KEPT or tags[slot] != bit:
                    x[f] = values[i, k, f]
                    bayes_votes(bit, votes, x, kept, slot * each)
                    x[f] = rows[i, f]
                    tags[slot] = bit
                to = ((i * times + k) * width + f) * classes
                add_kept(bit, votes, kept, slot * each, scores, to)
        at += np.uint64(features * times)


@bare_kernel
def _built_up(votes: BitVotes, given: BuiltUpRows, stream: Array, room: Kept, scores: Floats) -> None:
    """Add the votes of the leaves in `stream` to the scores of variants."""
    rows, order, background, row_places, _ = given
    kept, x = room.votes, room.x
    n, backgrounds, inner, _ = background.shape
    features, steps, classes = row_places.shape[1], order.shape[1] - 1, votes.constant.shape[1]
    at = np.uint64(0)
    for i in range(n):
        for k in range(inner):
            last = np.int64(-1)
            changed = np.uint64(0)
            for step in range(steps):
                if step == 0 or backgrounds > 1:
                    last = np.int64(-1)
                    for f in range(features):
                        x[f] = background[i, step, k, f]
                    for added in range(step):
                        f = order[i, added]
                        x[f] = rows[i, f]
                f = order[i, step]
                x[f] = rows[i, f]
                changed |= np.uint64(1) << np.uint64(f & 63)
                to = ((i * steps + step) * inner + k) * classes
                more = True
                while more:
                    entry = stream[at]
                    at += np.uint64(1)
                    more = entry & np.uint32(1)
                    bit = entry >> np.uint32(1)
                    if not votes.bayes[bit]:
                        add_constant(bit, votes, scores, to)
                        continue
                    if bit != last or votes.reads[bit] & changed:
                        bayes_votes(bit, votes, x, kept, 0)
                        last = np.int64(bit)
                        changed = np.uint64(0)
                    add_kept(bit, votes, kept, 0, scores, to)


@bare_kernel
def _single_built_up(votes: BitVotes, given: BuiltUpRows, stream: Array, room: Kept, scores: Floats) -> None:
    """Add the votes of `_built_up` if no row reaches more than one leaf: the constant ones first, without a branch."""
    rows, order, background, row_places, _ = given
    kept, x, found = room.votes, room.x, room.found
    n, backgrounds, inner, _ = background.shape
    features, steps, classes = row_places.shape[1], order.shape[1] - 1, votes.constant.shape[1]
    at = np.uint64(0)
    bit: Any
    f: Any
    last: Any
    step: Any
    for i in range(n):
        for k in range(inner):
            many = np.uint64(0)
            to = np.uint64((i * steps * inner + k) * classes)
            for step in range(steps):
                bit = np.uint64(stream[at + np.uint64(step)] >> np.uint32(1))
                add_constant(bit, votes, scores, to)
                to += np.uint64(inner * classes)
                found[many] = step
                many += np.uint64(votes.bayes[bit])
            last = np.int64(-1)
            changed = np.uint64(0)
            added = 0
            for nth in range(many):
                step = np.int64(found[nth])
                bit = np.int64(stream[at + found[nth]] >> np.uint32(1))
                if nth == 0 or backgrounds > 1:
                    last = np.int64(-1)
                    added = 0
                    for f in range(features):
                        x[f] = background[i, step if backgrounds > 1 else 0, k, f]
                while added <= step:
                    f = order[i, added]
                    x[f] = rows[i, f]
                    changed |= np.uint64(1) << np.uint64(f & 63)
                    added += 1
                if bit != last or votes.reads[bit] & changed:
                    bayes_votes(bit, votes, x, kept, 0)
                    last = bit
                    changed = np.uint64(0)
                add_kept(bit, votes, kept, 0, scores, ((i * steps + step) * inner + k) * classes)
            at += np.uint64(steps)


@kernel
def classify_replaced(
    leaf_sets: LeafSets, votes: BitVotes, given: ReplacedRows, row_scores: Floats, scores: Floats
) -> None:
    """Add the votes on rows to `row_scores` float64[n, c], and on their variants to `scores` float64[n r w, c]."""
    n, times, width = given.values.shape
    room, kept = scratch(leaf_sets, width), _room(votes, width, width * times)
    chunk = max(1, CHUNK // (1 + times * width))
    stream = np.empty(chunk * (1 + times * width) * leaf_sets.most, np.uint32)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        part = replaced_part(given, begin, end)
        row_out = row_scores[begin:end].reshape(-1)
        out = scores[begin * times * width : end * times * width].reshape(-1)
        for tree in range(leaf_sets.words.size):
            if leaf_sets.words[tree] > 0:
                stream_replaced(leaf_sets, tree, part, room, stream)
                if leaf_sets.most == 1:
                    _single_replaced(votes, part, stream, kept, row_out, out)
                else:
                    _replaced(votes, part, stream, kept, row_out, out)


@kernel
def classify_built_up(leaf_sets: LeafSets, votes: BitVotes, given: BuiltUpRows, scores: Floats) -> None:
    """Add the votes on background rows that are built up to `scores` float64[n (d - 1) m, c]."""
    n, _, inner, width = given.background.shape
    each = max(given.order.shape[1] - 1, 0) * inner
    room, kept = scratch(leaf_sets, width), _room(votes, width, width)
    chunk = max(1, CHUNK // max(1, inner * width))
    stream = np.empty(chunk * inner * width * leaf_sets.most, np.uint32)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        part = built_up_part(given, begin, end)
        out = scores[begin * each : end * each].reshape(-1)
        for tree in range(leaf_sets.words.size):
            if leaf_sets.words[tree] > 0:
                stream_built_up(leaf_sets, tree, part, room, stream)
                if leaf_sets.most == 1:
                    _single_built_up(votes, part, stream, kept, out)
                else:
                    _built_up(votes, part, stream, kept, out)
