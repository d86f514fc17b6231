"""`contributions`: what each feature contributed to each row of a block, or why the block could not be explained.

Records arrive in any order and possibly more than once. The aggregator orders them by the rows' numbers alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, get_args

import numpy as np

from glasstream_topics import blocks, methods
from glasstream_topics.blocks import VERSION, Block
from glasstream_topics.contract import QUEUE, Topic, stream_key
from glasstream_topics.frames import Array

TOPIC: Final = Topic(
    name="contributions",
    holds="the contributions of every feature to the rows of a block, or why there are none",
    partitioning="the stream's partition of events, set explicitly",
    codec="frame",
    written_by=("learner", "explainer"),
    read_by=("aggregator",),
    public=False,
    version=VERSION,
    config=QUEUE,
)

Kind = Literal["ok", "failed", "flush"]
_KINDS: Final = get_args(Kind)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Contributions(Block):
    """An explainer's answer to a block: the same rows, with results in place of their data.

    Attributes
    ----------
    kind
        `ok`; `failed`: the model raised an error, and the rows count as unexplained; `flush`: there are no rows, and a
        flush mark precedes `first_row`.
    reason
        why the block failed; empty otherwise.
    outputs
        what each curve shows: a class, or empty text for the number of a regression.
    new_classes
        classes that the model of `version` does not know; the values `target` index `classes` and then these.
    values
        results of the methods, by the names and shapes of `glasstream_topics.methods.GIVEN`; empty unless `kind` is
        `ok`.
    """

    kind: str
    outputs: list[str] = field(default_factory=list)
    new_classes: list[str] = field(default_factory=list)
    values: Mapping[str, Array] = field(default_factory=dict)
    reason: str = ""


_LAYOUT: Final = blocks.Layout("contributions", Contributions, arrays=("seqs",), group="values")

key: Final = stream_key
flush_item: Final = partial(Contributions, kind="flush", version=0, seqs=np.empty(0, np.int64), flush_before=True)
"""Make the item without rows for a flush mark before `first_row`, or with `ends` for a reset mark."""


def partition(contributions: Contributions) -> int:
    """Return the partition of a record: the partition of the stream's events, as the block states, whatever the key
    hashes to.
    """
    return contributions.partition


def encode(contributions: Contributions) -> bytes:
    """Return the bytes of a record.

    Raises
    ------
    FrameError
        the record contradicts itself.
    """
    _check(contributions)
    return _LAYOUT.encode(contributions)


def decode(data: bytes | memoryview) -> Contributions:
    """Decode a record; its arrays are read-only views.

    Raises
    ------
    FrameError
        the bytes are not such a record, or the record contradicts itself.
    """
    contributions = _LAYOUT.decode(data)
    _check(contributions)
    return contributions


def _check(record: Contributions) -> None:
    """Raise FrameError if a record contradicts itself."""
    findings = blocks.findings(record, "values", methods.GIVEN)
    if record.kind == "ok" and "loss" not in record.values:
        findings.append("values: expected the loss of every row, got none")
    if missing := sorted(methods.WATCHED.keys() - record.values.keys()):
        if len(missing) < len(methods.WATCHED):
            findings.append(f"values: expected {' and '.join(methods.WATCHED)} together, got no {missing[0]}")
        if record.new_classes:
            findings.append(f"new classes: expected none without targets, got {record.new_classes}")
    if record.kind not in _KINDS:
        findings.append(f"expected a kind of {', '.join(_KINDS)}, got {record.kind!r}")
    elif (record.kind == "flush") != (record.count == 0) or (record.kind == "flush" and not record.flush_before):
        findings.append(f"expected rows, or none and a flush mark, got {record.count} rows of kind {record.kind!r}")
    if (record.kind == "ok") != bool(record.values) or (record.kind == "failed") != bool(record.reason):
        findings.append(
            f"expected values where the kind is ok and a reason where it is failed, got kind {record.kind!r}, "
            f"values of {sorted(record.values)} and the reason {record.reason!r}"
        )
    if not findings and record.count:
        findings += _check_values(record)
    blocks.refuse("contributions", record, findings)


def _check_values(record: Contributions) -> Iterator[str]:
    """Yield findings about indices that are out of bounds, and numbers that would make estimates infinite."""
    yield from methods.too_large(record.values, [name for name in methods.LOSS if name in record.values])
    if "target" in record.values:
        inputs = record.values["inputs"]
        if not bool((np.isnan(inputs) | (np.abs(inputs) <= methods.LARGEST)).all()):
            yield f"inputs: expected numbers within ±{methods.LARGEST:g}, or NaN"
        yield from _check_targets(record, record.values["target"])
    for method in methods.methods_of(record.values):
        if not method.gaps:
            yield from methods.too_large(record.values, [name for name in method.values if name in record.values])
        yield from method.check_values(record)


def _check_targets(record: Contributions, target: Array) -> Iterator[str]:
    classes = [*record.classes, *record.new_classes]
    if len(set(classes)) != len(classes):
        yield f"new classes: expected classes other than {record.classes}, got {record.new_classes}"
    if classes and not bool(((target >= 0) & (target < len(classes)) & (target == np.floor(target))).all()):
        yield f"target: expected indices of {len(classes)} classes"
    yield from methods.too_large({"target": target}, ("target",))
