"""What a request and the answer to it have in common: rows of one stream, and their layout as a frame."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream_topics import frames, methods
from glasstream_topics.contract import Natural, StreamName
from glasstream_topics.errors import FrameError
from glasstream_topics.frames import Array
from glasstream_topics.methods import BOTH, EFFECTS, LABELLED

VERSION: Final = 1
TEXT: Final = 2
"""Kind of a feature whose values are codes of texts."""

_SELDOM: Final = frozenset(("ends", "refused", "watched", "new_classes", "times", "parts", "row", "attributed"))
"""Fields that are left out of a frame unless they say something."""
_Code = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_TEXTS: Final = list[tuple[_Code, list[tuple[_Code, str]]]]
Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Time of an event in milliseconds since 1970."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Block:
    """Entries of one stream: `count` rows with `d` features.

    Without `explain.unlabelled`, entries are the rows of the stream, with all parts of their explanation and with their
    numbers. With it, an event without a label is an entry for its effects, a late label is an entry for the importance,
    and an event with its label is one entry for both. The arrays of a part have only the entries of this part.

    Attributes
    ----------
    stream, epoch, partition
        the rows' stream, its epoch, and its partition of `events`.
    first_row
        number of the first entry; the others follow without gaps.
    parts
        the parts of each entry's explanation, `EFFECTS`, `LABELLED` or their sum; empty where every entry has both and
        is a row, as without `explain.unlabelled`.
    row
        number of the first row at or after the first entry; 0 if `parts` is empty, as it is then `first_row`.
    version
        version of the model to explain with, at most the first entry: the number of rows that it has learned, none of
        them in the block, or, of a model that learns nothing, the number of models that the stream had before.
    seqs
        int64[count]: the entries' events, all different in each part; of rows in the order in which their labels came.
    times
        times of the rows' events in milliseconds, None for an event without; empty if none has one.
    names, kinds
        name and kind of each slot's feature (0 number, 1 boolean, 2 text).
    classes
        class names that labels and predictions index, in the model's order; empty for regression.
    texts
        per slot of kind text, the texts of codes: those among its grid points and in attributed rows and, in a stream
        that is watched for incidents, those in its rows that incidents can name.
    staleness
        distance between the model of `version` and the snapshot before it; None if it was not measured.
    loss
        name of the loss of which contributions are differences; empty if there are no rows.
    flush_before
        whether a flush mark precedes `first_row`.
    ends
        whether a reset mark precedes `first_row`: the stream has no further rows in this epoch. Only for blocks without
        rows.
    """

    stream: StreamName
    epoch: Natural
    partition: Natural
    first_row: Natural
    version: Natural
    seqs: Array
    parts: list[Annotated[int, msgspec.Meta(ge=EFFECTS, le=BOTH)]] = field(default_factory=list)
    row: Natural = 0
    times: list[Time | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    kinds: list[Annotated[int, msgspec.Meta(ge=0, le=TEXT)]] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    texts: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    staleness: float | None = None
    loss: str = ""
    flush_before: bool = False
    ends: bool = False

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.seqs)

    def has(self, part: int) -> NDArray[np.bool_]:
        """Return the (count,) mask of the entries that have a part."""
        if not self.parts:
            return np.ones(self.count, np.bool_)
        mask: NDArray[np.bool_] = (np.array(self.parts) & part) != 0
        return mask

    def within(self, part: int, entries: slice) -> slice:
        """Return the places of some entries in the arrays of a part."""
        if not self.parts:
            return entries
        mask = self.has(part)
        begin = int(mask[: entries.start].sum())
        return slice(begin, begin + int(mask[entries].sum()))

    def numbering(self, entries: slice) -> dict[str, Any]:
        """Return `first_row`, `row` and `parts` of a block of only these entries."""
        row = self.row + self.within(LABELLED, slice(0, entries.start)).stop if self.parts else 0
        return {"first_row": self.first_row + entries.start, "row": row, "parts": self.parts[entries]}


B = TypeVar("B", bound=Block)


class Layout(Generic[B]):
    """How a type of blocks becomes a frame: its arrays, and all other fields as meta.

    Parameters
    ----------
    kind
        kind of the frames.
    block
        type of the blocks.
    arrays
        fields that are arrays.
    group
        field that maps names to arrays; in the frame its name and a slash precede theirs.
    by_slot
        further fields that map slots, and their types as lists of tuples that begin with the slot.
    """

    def __init__(self, kind: str, block: type[B], arrays: tuple[str, ...], group: str, **by_slot: Any) -> None:
        self._kind = kind
        self._block = block
        self._arrays = arrays
        self._group = group
        self._prefix = f"{group}/"
        self._by_slot = msgspec.defstruct("BySlot", list({"texts": _TEXTS, **by_slot}.items()))
        self._names = tuple(name for name in block.__dataclass_fields__ if name not in (*arrays, group))
        self._values = attrgetter(*self._names)
        self._seldom = tuple(_SELDOM.intersection(self._names))
        self._always = frozenset(self._names) - _SELDOM

    def encode(self, block: B, **changes: object) -> bytes:
        """Return the bytes of a block; `changes` are the fields that differ in the frame."""
        meta = dict(zip(self._names, self._values(block), strict=True))
        meta["kinds"] = [int(kind) for kind in block.kinds]
        meta["texts"] = [[slot, sorted(block.texts[slot].items())] for slot in sorted(block.texts)]
        meta |= changes
        for name in self._seldom:
            if not meta[name]:
                del meta[name]
        arrays = {name: getattr(block, name) for name in self._arrays}
        for name, array in getattr(block, self._group).items():
            arrays[self._prefix + name] = array
        return frames.encode(self._kind, VERSION, meta, arrays)

    def decode(self, data: bytes | memoryview) -> B:
        """Decode a block; its arrays are read-only views.

        Raises
        ------
        FrameError
            the bytes are not such a block.
        """
        frame = frames.decode(data, self._kind, VERSION)
        if missing := self._always - frame.meta.keys():
            raise FrameError(
                f"the meta of a {self._kind} frame: expected the fields {sorted(missing)}, got none of them"
            )
        group: dict[str, Array] = {}
        fields: dict[str, Any] = {self._group: group}
        for name, array in frame.arrays.items():
            if name.startswith(self._prefix):
                group[name.removeprefix(self._prefix)] = array
            else:
                fields[name] = array
        if fields.keys() != {*self._arrays, self._group}:
            raise FrameError(
                f"a {self._kind} frame: expected the arrays {', '.join(self._arrays)} and those of {self._group}, got "
                f"{sorted(frame.arrays)}"
            )
        by_slot = frames.convert(frame.meta, self._by_slot, self._kind)
        for name in self._by_slot.__struct_fields__:
            rows = getattr(by_slot, name)
            fields[name] = {slot: dict(rest[0]) if len(rest) == 1 else rest for slot, *rest in rows}
            if len(fields[name]) != len(rows):
                raise FrameError(f"a {self._kind} frame: expected {name} once per slot, got a slot twice")
        return frames.convert({**frame.meta, **fields}, self._block, self._kind)


def findings(block: Block, group: str, shapes: Mapping[str, methods.Shape]) -> list[str]:
    """Return how a block contradicts itself; `group` is the field whose arrays must have these shapes."""
    count, d = block.count, len(block.names)
    found = frames.mismatch("seqs", block.seqs, "int64", (count,))
    if len(block.parts) not in (0, count) or not all(EFFECTS <= one <= BOTH for one in block.parts):
        return [*found, f"expected the parts of {count} entries, or none, got {block.parts}"]
    sizes = {"d": d, "k": max(1, len(block.classes))}
    sizes |= {"rows": int(block.has(LABELLED).sum()), "events": int(block.has(EFFECTS).sum())}
    found += methods.findings(getattr(block, group), shapes, sizes, group)
    if len(block.times) not in (0, count):
        found.append(f"expected the times of {count} rows, or none, got {len(block.times)}")
    if len(set(block.names)) != d or len(block.kinds) != d:
        found.append(f"expected {d} different names and as many kinds, got {block.names} and {block.kinds}")
    if min(block.first_row, block.epoch, block.partition, block.version) < 0:
        found.append(
            f"expected first row, epoch, partition and version from 0 on, got {block.first_row}, {block.epoch}, "
            f"{block.partition}, {block.version}"
        )
    if block.ends and count:
        found.append(f"expected no rows where a stream ends, got {count}")
    if not found and count:
        if block.version > block.first_row:
            found.append(
                f"expected a model version of at most the first row {block.first_row}, got {block.version}: it would "
                "have learned what it explains"
            )
        for seqs in [block.seqs[block.has(part)] for part in (EFFECTS, LABELLED)] if block.parts else [block.seqs]:
            if len(seqs):
                found += frames.repeated("seqs", seqs)
    return found


def refuse(what: str, block: Block, findings: list[str]) -> None:
    """Raise FrameError if there are findings."""
    if findings:
        raise FrameError(f"{what} of stream {block.stream!r}, first row {block.first_row}: {'; '.join(findings)}")
