"""Upper bounds on the bytes of a block and its answers, and cutting of blocks to the size that a broker accepts.

The bounds follow from the block alone: from the shapes of its arrays, its texts, and the largest number of outputs with
curves. They hold whatever the model predicts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from glasstream.explain.background import joined, texts_in
from glasstream.explain.registry import REGISTRY
from glasstream_topics.methods import GIVEN, MOST_OUTPUTS, methods_of, numbers_of_a_row
from glasstream_topics.requests import ExplainRequest, NewCategories, only, refused

LARGEST: Final = 960 * 1024
"""Largest size in bytes of a record of `explain.requests` or `contributions`. Kafka's default limit for a batch is
1,048,588, and the embedded broker keeps records below 1 MB."""
_FIELDS: Final = 2 * 1024
"""Bytes of a frame's container, its table of arrays, and all header fields that are numbers or names."""
_PADDING: Final = 8
"""Largest number of bytes before an array."""
_ARRAYS: Final = 1 + len(GIVEN)
"""Largest number of arrays of an answer: seqs, and the values."""
REASON: Final = 500
"""Largest number of characters of the reason why a row could not be explained."""
_REASON_BYTES: Final = 6 * REASON


class Sizes(NamedTuple):
    """Upper bounds in bytes."""

    block: int
    """Size of the encoded block."""
    answer: int
    """Size of the largest record of contributions that answers the block."""
    answers: int
    """Total size of all records that answer the block, however many rows fail."""


def sizes(block: ExplainRequest) -> Sizes:
    """Return upper bounds of the bytes of a block and of the answers to it."""
    arrays = [block.seqs, block.x, block.y, *block.draws.values()]
    texts = _json([block.stream, block.names, block.kinds, block.classes, _pairs(block.texts)])
    new = [[slot, new.first_code, new.texts] for slot, new in block.new_categories.items()]
    told = _json([new, [*(block.attributed or ())]])
    times = _json([block.times, block.parts])
    own = _FIELDS + texts + told + times + sum(array.nbytes + _PADDING for array in arrays)
    header = _FIELDS + texts + _json(block.classes)  # once more for the outputs with curves
    numbers = 8 * block.count * _numbers_of_a_row(block) + _ARRAYS * _PADDING + times
    answer = header + _REASON_BYTES + numbers
    # Runs of failed and explained rows alternate, so every second run has a reason.
    answers = max(1, block.count) * (header + _ARRAYS * _PADDING) + (block.count + 1) // 2 * _REASON_BYTES + numbers
    return Sizes(own, answer, answers)


def bounded(block: ExplainRequest) -> ExplainRequest:
    """Return a block that was received, or refuse it if its answer can be larger than any answer to a learner's block.

    What an explainer allocates follows from the size of the answer: a small block can name a grid of many points.
    """
    size = 0 if block.refused or not block.count else sizes(block).answer
    if size <= LARGEST:
        return block
    return refused(block, f"expected contributions of at most {LARGEST:,} bytes, but they can take {size:,}")


def pieces(block: ExplainRequest) -> Iterator[ExplainRequest]:
    """Cut a block into pieces of at most `LARGEST` bytes, and refuse a single row that is larger.

    The limit applies to each piece and to its answer. Whether a row is refused does not depend on other rows. A
    refused row is answered as unexplained, with the reason and the remedy.
    """
    bounds = sizes(block)
    if max(bounds.block, bounds.answer) <= LARGEST or block.refused:
        yield block
        return
    if block.count > 1:
        middle = block.count // 2
        yield from pieces(_part(block, slice(0, middle)))
        yield from pieces(_part(block, slice(middle, block.count)))
        return
    block = _part(block, slice(0, 1))  # drops the categories of later rows
    bounds = sizes(block)
    if max(bounds.block, bounds.answer) <= LARGEST:
        yield block
    else:
        what, size = ("explain.requests", bounds.block) if bounds.block > LARGEST else ("contributions", bounds.answer)
        yield refused(
            block,
            f"row {block.first_row} with {len(block.names):,} features and {len(block.classes):,} classes can take "
            f"{size:,} bytes as a record of {what}, more than the {LARGEST:,} that a broker takes; lower "
            "ipdp.points, ipdp.categories, isage.inner_samples or explain.draws, use isage.removal=marginal without "
            "isage.fresh, or send fewer features",
        )


def _numbers_of_a_row(block: ExplainRequest) -> int:
    """Return the largest number of eight-byte values that an answer has for each row."""
    outputs = max(1, len(block.classes))
    sizes = {
        "d": len(block.names),
        "k": outputs,
        "points": max(block.grid.points, block.grid.knots) if block.grid is not None else 0,
        "outputs": min(outputs, MOST_OUTPUTS),
        "pairs": 3 * block.attributed.pairs if block.attributed is not None else 0,
    }
    methods = (method.name for method in methods_of(block.draws))
    return 1 + numbers_of_a_row(methods, sizes, watched=block.watched)  # seq, and the values


def _part(block: ExplainRequest, rows: slice) -> ExplainRequest:
    """Return some rows of a block as a separate block."""
    fields: dict[str, Any] = {"draws": {}}
    for method in methods_of(block.draws):
        own = block.within(method.part, rows)
        if own.start == own.stop:
            continue
        part = REGISTRY[method.name].part(only(block, method.part), own)
        fields = joined(fields, part)
    for name, needed in (("grid", "ipdp.row"), ("attributed", "attributions")):
        if needed not in fields["draws"]:  # no entry has effects
            fields[name] = None
    fields = {"texts": {}, **fields}
    if block.watched:
        fields = joined(fields, {"texts": texts_in(block.x[rows], block.kinds, block.texts)})
    return replace(
        block,
        **block.numbering(rows),
        seqs=block.seqs[rows],
        times=block.times[rows],
        x=block.x[rows],
        y=block.y[rows],
        new_categories=_needed_categories(block, rows, fields["draws"]),
        flush_before=block.flush_before and rows.start == 0,
        **fields,
    )


def _needed_categories(
    block: ExplainRequest, rows: slice, draws: Mapping[str, NDArray[Any]]
) -> Mapping[int, NewCategories]:
    """Return the new categories up to the highest code that each slot has in some rows and in what they draw."""
    needed: dict[int, NewCategories] = {}
    if not block.new_categories:
        return needed
    methods = [REGISTRY[method.name] for method in methods_of(draws)]
    for slot, new in block.new_categories.items():
        codes = [block.x[rows][:, slot], *(method.drawn(draws, slot, len(block.names)) for method in methods)]
        highest = np.nanmax(np.concatenate([*codes, [-1.0]]))
        count = int(highest) + 1 - new.first_code
        if count > 0:
            needed[slot] = NewCategories(new.first_code, new.texts[:count])
    return needed


def _pairs(texts: Mapping[int, Mapping[int, str]]) -> list[list[object]]:
    return [[slot, list(named.items())] for slot, named in texts.items()]


def _json(value: object) -> int:
    return len(orjson.dumps(value))
