"""Add the votes of the leaves in a stream (see `leaf_streams`) to the scores of rows and of their variants.

If no row reaches more than one leaf of a tree (no alternate tree grows), the order of a tree's votes does not matter.
All leaves then add their constant votes, which are 0 for naive Bayes, without a branch that the processor could
mispredict. The naive Bayes leaves follow.

A naive Bayes leaf costs an exponential, so its votes on a row are kept. They hold for each variant in which the leaf
does not read the replaced feature.
"""

from typing import Any, NamedTuple

import numpy as np

from glasstream.jit import bare_kernel, kernel
from glasstream.models.contract.arrays import Array
from glasstream.models.contract.predictor import Floats
from glasstream.models.kernels.bit_votes import BitVotes, add_constant, add_kept, bayes_votes, most_classes

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
def kept_votes(bit_votes: BitVotes, width: int, variants: int) -> Kept:
    """Return scratch space for rows of `width` features with this number of variants each."""
    return Kept(
        np.empty(_KEPT + 1, np.int64),
        np.empty((_KEPT + 1) * most_classes(bit_votes)),
        np.empty(width),
        np.empty(variants + 1, np.uint64),
    )


@bare_kernel
def votes_replaced(
    bit_votes: BitVotes,
    rows: Floats,
    values: Floats,
    features: int,
    begin: int,
    end: int,
    stream: Array,
    room: Kept,
    row_scores: Floats,
    scores: Floats,
) -> None:
    """Add the votes of the leaves in `stream` to the scores of the rows `begin` to `end` and of their variants."""
    constant, bayes, weight, reads, head, term, density, vote, label, category, log = bit_votes
    tags, kept, x, _ = room
    _, times, width = values.shape
    classes = constant.shape[1]
    each = kept.size // (_KEPT + 1)
    at = np.uint64(0)
    for i in range(begin, end):
        for slot in range(_KEPT):
            tags[slot] = -1
        for f in range(features):
            x[f] = rows[i, f]
        for f in range(-1, features):
            reading = np.uint64(0) if f < 0 else np.uint64(1) << np.uint64(f & 63)
            for k in range(1 if f < 0 else times):
                if f >= 0:
                    x[f] = values[i, k, f]
                to = ((i * times + k) * width + f) * classes
                more = True
                while more:
                    entry = stream[at]
                    at += np.uint64(1)
                    more = entry & np.uint32(1)
                    bit = entry >> np.uint32(1)
                    if not bayes[bit]:
                        if f < 0:
                            add_constant(bit, constant, row_scores, i * classes)
                        else:
                            add_constant(bit, constant, scores, to)
                        continue
                    slot = _KEPT
                    if not reads[bit] & reading:  # its votes equal those on the row itself
                        slot = bit % _KEPT
                    if slot == _KEPT or tags[slot] != bit:
                        bayes_votes(bit, head, term, density, vote, category, log, weight, x, kept, slot * each)
                        tags[slot] = bit
                    if f < 0:
                        add_kept(bit, head, label, kept, slot * each, row_scores, i * classes)
                    else:
                        add_kept(bit, head, label, kept, slot * each, scores, to)
            if f >= 0:
                x[f] = rows[i, f]


@bare_kernel
def single_votes_replaced(
    bit_votes: BitVotes,
    rows: Floats,
    values: Floats,
    features: int,
    begin: int,
    end: int,
    stream: Array,
    room: Kept,
    row_scores: Floats,
    scores: Floats,
) -> None:
    """Add the votes of `votes_replaced` if no row reaches more than one leaf.

    The constant votes come first, without a branch.
    """
    constant, bayes, weight, reads, head, term, density, vote, label, category, log = bit_votes
    tags, kept, x, found = room
    _, times, width = values.shape
    classes = constant.shape[1]
    each = kept.size // (_KEPT + 1)
    stride = np.uint64(features * times)
    at = np.uint64(0)
    bit: Any
    f: Any
    slot: Any
    for i in range(begin, end):
        own = np.int64(stream[at] >> np.uint32(1))
        at += np.uint64(1)
        add_constant(own, constant, row_scores, i * classes)
        many = np.uint64(0)
        variant = np.uint64(0)
        for f in range(features):
            to = np.uint64((i * times * width + f) * classes)
            for _ in range(times):
                bit = np.uint64(stream[at + variant] >> np.uint32(1))
                add_constant(bit, constant, scores, to)
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
                bayes_votes(own, head, term, density, vote, category, log, weight, x, kept, slot * each)
                tags[slot] = own
                add_kept(own, head, label, kept, slot * each, row_scores, i * classes)
            for nth in range(many):
                bit = np.int64(stream[at + found[nth]] >> np.uint32(1))
                f = np.int64(found[nth]) // times
                k = np.int64(found[nth]) - f * times
                slot = _KEPT
                if not reads[bit] & np.uint64(1) << np.uint64(f & 63):  # its votes equal those on the row itself
                    slot = bit % _KEPT
                if slot == _KEPT or tags[slot] != bit:
                    x[f] = values[i, k, f]
                    bayes_votes(bit, head, term, density, vote, category, log, weight, x, kept, slot * each)
                    x[f] = rows[i, f]
                    tags[slot] = bit
                to = ((i * times + k) * width + f) * classes
                add_kept(bit, head, label, kept, slot * each, scores, to)
        at += stride


@bare_kernel
def votes_built_up(
    bit_votes: BitVotes,
    rows: Floats,
    order: Array,
    background: Floats,
    features: int,
    begin: int,
    end: int,
    stream: Array,
    room: Kept,
    scores: Floats,
) -> None:
    """Add the votes of the leaves in `stream` to the scores of the variants of the rows `begin` to `end`."""
    constant, bayes, weight, reads, head, term, density, vote, label, category, log = bit_votes
    _, kept, x, _ = room
    _, backgrounds, inner, _ = background.shape
    steps = order.shape[1] - 1
    classes = constant.shape[1]
    at = np.uint64(0)
    for i in range(begin, end):
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
                    if not bayes[bit]:
                        add_constant(bit, constant, scores, to)
                        continue
                    if bit != last or reads[bit] & changed:
                        bayes_votes(bit, head, term, density, vote, category, log, weight, x, kept, 0)
                        last = np.int64(bit)
                        changed = np.uint64(0)
                    add_kept(bit, head, label, kept, 0, scores, to)


@bare_kernel
def single_votes_built_up(
    bit_votes: BitVotes,
    rows: Floats,
    order: Array,
    background: Floats,
    features: int,
    begin: int,
    end: int,
    stream: Array,
    room: Kept,
    scores: Floats,
) -> None:
    """Add the votes of `votes_built_up` if no row reaches more than one leaf.

    The constant votes come first, without a branch.
    """
    constant, bayes, weight, reads, head, term, density, vote, label, category, log = bit_votes
    _, kept, x, found = room
    _, backgrounds, inner, _ = background.shape
    steps = order.shape[1] - 1
    classes = constant.shape[1]
    at = np.uint64(0)
    bit: Any
    f: Any
    last: Any
    step: Any
    for i in range(begin, end):
        for k in range(inner):
            many = np.uint64(0)
            to = np.uint64((i * steps * inner + k) * classes)
            for step in range(steps):
                bit = np.uint64(stream[at + np.uint64(step)] >> np.uint32(1))
                add_constant(bit, constant, scores, to)
                to += np.uint64(inner * classes)
                found[many] = step
                many += np.uint64(bayes[bit])
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
                if bit != last or reads[bit] & changed:
                    bayes_votes(bit, head, term, density, vote, category, log, weight, x, kept, 0)
                    last = bit
                    changed = np.uint64(0)
                add_kept(bit, head, label, kept, 0, scores, ((i * steps + step) * inner + k) * classes)
            at += np.uint64(steps)
