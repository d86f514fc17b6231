"""`contributions`: what each feature contributed to each row of a block, or why the block could not be explained.

Records arrive in any order and possibly more than once. The aggregator orders them by the rows' numbers alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, get_args

import msgspec
import numpy as np

from glasstream_topics import frames, methods
from glasstream_topics.contract import QUEUE, StreamName, Topic
from glasstream_topics.errors import FrameError
from glasstream_topics.frames import Array

VERSION: Final = 1
_FRAME_KIND: Final = "contributions"
_VALUES: Final = "values/"  # begins the name of every array of contributions
_TEXT: Final = 2  # the kind of a feature whose values are codes of texts

LARGEST: Final = 1e125
"""Largest absolute value of a number. Fourth powers of larger values are too close to overflow."""
_LARGEST_SQUARED: Final = 1e63  # limit for numbers that the loss squares
_SQUARES: Final = ("squared", "brier")
_OF_NUMBERS: Final = ("squared", "absolute")

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
class Contributions:
    """An explainer's result for a block of `count` rows with `d` features.

    Attributes
    ----------
    stream, epoch, partition, first_row, version, flush_before, ends
        as in the block.
    kind
        `ok`; `failed`: the model raised an error, and the rows count as unexplained; `flush`: there are no rows, and a
        flush mark precedes `first_row`.
    reason
        why the block failed; empty otherwise.
    names, kinds, texts, staleness
        as in the block.
    classes
        class names that predictions index, in the model's order; empty for regression.
    outputs
        what each curve shows: a class, or empty text for the number of a regression.
    seqs
        int64[count]: the rows' events, all different.
    values
        results of the methods, by the names and shapes of `glasstream_topics.methods.GIVEN`; empty unless `kind` is
        `ok`.
    loss
        name of the loss of which contributions are differences.
    """

    stream: str
    epoch: int
    partition: int
    first_row: int
    version: int
    seqs: Array
    kind: str
    names: list[str] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    texts: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    staleness: float | None = None
    values: Mapping[str, Array] = field(default_factory=dict)
    reason: str = ""
    loss: str = ""
    flush_before: bool = False
    ends: bool = False

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.seqs)


def flush_item(*, stream: str, epoch: int, partition: int, first_row: int, ends: bool = False) -> Contributions:
    """Return the item without rows for a flush mark before `first_row`, or with `ends` for a reset mark."""
    return Contributions(
        stream=stream,
        epoch=epoch,
        partition=partition,
        first_row=first_row,
        version=0,
        seqs=np.empty(0, np.int64),
        kind="flush",
        flush_before=True,
        ends=ends,
    )


_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    stream: StreamName
    epoch: _Natural
    partition: _Natural
    first_row: _Natural
    version: _Natural
    kind: Kind
    names: list[str]
    kinds: list[Annotated[int, msgspec.Meta(ge=0, le=_TEXT)]]
    classes: list[str]
    outputs: list[str]
    texts: list[tuple[_Natural, list[tuple[_Natural, str]]]]
    staleness: float | None
    reason: str
    loss: str
    flush_before: bool
    ends: bool = False


def key(stream: str) -> bytes:
    """Return the key of a stream's contributions."""
    return stream.encode()


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
    meta = {
        "stream": contributions.stream,
        "epoch": contributions.epoch,
        "partition": contributions.partition,
        "first_row": contributions.first_row,
        "version": contributions.version,
        "kind": contributions.kind,
        "names": contributions.names,
        "kinds": [int(kind) for kind in contributions.kinds],
        "classes": contributions.classes,
        "outputs": contributions.outputs,
        "texts": [[slot, sorted(contributions.texts[slot].items())] for slot in sorted(contributions.texts)],
        "staleness": contributions.staleness,
        "reason": contributions.reason,
        "loss": contributions.loss,
        "flush_before": contributions.flush_before,
        **({"ends": True} if contributions.ends else {}),
    }
    arrays = {_VALUES + method: values for method, values in contributions.values.items()}
    return frames.encode(_FRAME_KIND, VERSION, meta, {"seqs": contributions.seqs, **arrays})


def decode(data: bytes | memoryview) -> Contributions:
    """Decode a record; its arrays are read-only views.

    Raises
    ------
    FrameError
        the bytes are not such a record, or the record contradicts itself.
    """
    frame = frames.decode(data, _FRAME_KIND, VERSION)
    try:
        meta = msgspec.convert(frame.meta, _Meta)
    except msgspec.ValidationError as error:
        raise FrameError(f"the meta of a contributions frame: {error}") from error
    arrays = dict(frame.arrays)
    seqs = arrays.pop("seqs", None)
    if seqs is None or not all(name.startswith(_VALUES) for name in arrays):
        raise FrameError(f"a contributions frame: expected the arrays seqs and values, got {sorted(frame.arrays)}")
    contributions = Contributions(
        stream=meta.stream,
        epoch=meta.epoch,
        partition=meta.partition,
        first_row=meta.first_row,
        version=meta.version,
        seqs=seqs,
        kind=meta.kind,
        names=meta.names,
        kinds=meta.kinds,
        classes=meta.classes,
        outputs=meta.outputs,
        texts={slot: dict(texts) for slot, texts in meta.texts},
        staleness=meta.staleness,
        values={name.removeprefix(_VALUES): values for name, values in arrays.items()},
        reason=meta.reason,
        loss=meta.loss,
        flush_before=meta.flush_before,
        ends=meta.ends,
    )
    _check(contributions)
    return contributions


def _check(record: Contributions) -> None:
    """Raise FrameError if a record contradicts itself."""
    findings: list[str] = []
    count, d = len(record.seqs), len(record.names)
    findings += frames.mismatch("seqs", record.seqs, "int64", (count,))
    sizes = {"count": count, "d": d, "k": max(1, len(record.classes))}
    findings += methods.findings(record.values, methods.GIVEN, sizes, "values")
    if record.kind == "ok" and "loss" not in record.values:
        findings.append("values: expected the loss of every row, got none")
    if len(set(record.names)) != d or len(record.kinds) != d:
        findings.append(f"expected {d} different names and as many kinds, got {record.names} and {record.kinds}")
    if min(record.first_row, record.epoch, record.partition, record.version) < 0:
        findings.append(
            f"expected first row, epoch, partition and version from 0 on, got {record.first_row}, {record.epoch}, "
            f"{record.partition}, {record.version}"
        )
    if record.kind not in _KINDS:
        findings.append(f"expected a kind of {', '.join(_KINDS)}, got {record.kind!r}")
    elif (record.kind == "flush") != (count == 0) or (record.kind == "flush" and not record.flush_before):
        findings.append(f"expected rows, or none and a flush mark, got {count} rows of kind {record.kind!r}")
    if record.ends and record.kind != "flush":
        findings.append(f"expected no rows where a stream ends, got {count} of kind {record.kind!r}")
    if (record.kind == "ok") != bool(record.values) or (record.kind == "failed") != bool(record.reason):
        findings.append(
            f"expected values where the kind is ok and a reason where it is failed, got kind {record.kind!r}, "
            f"values of {sorted(record.values)} and the reason {record.reason!r}"
        )
    if not findings and count:
        if not 1 <= record.version <= record.first_row:
            findings.append(f"expected a version from 1 to the first row {record.first_row}, got {record.version}")
        findings += frames.repeated("seqs", record.seqs)
        findings += _check_values(record)
    if findings:
        raise FrameError(
            f"contributions of stream {record.stream!r}, first row {record.first_row}: {'; '.join(findings)}"
        )


def _check_values(record: Contributions) -> list[str]:
    """Return findings about indices that are out of bounds, and numbers that would make estimates infinite."""
    findings: list[str] = []
    squared = _LARGEST_SQUARED if record.loss in _SQUARES else LARGEST
    for name, array in record.values.items():
        most = squared if name in ("isage.prediction", "isage.target") else LARGEST
        if not name.startswith("ipdp") and not bool((np.abs(array) <= most).all()):
            findings.append(f"expected numbers within ±{most:g} as {name}")
    first, target, curves = (record.values.get(name) for name in ("isage.first", "isage.target", "ipdp"))
    if first is not None and not bool(((first >= 0) & (first < max(1, len(record.names)))).all()):
        findings.append("expected the first feature of every order to be one of the features")
    if target is not None and (record.classes or record.loss not in _OF_NUMBERS):
        known = (target >= -1) & (target < len(record.classes)) & (target == np.floor(target))
        if not bool(known.all()):
            findings.append(f"expected targets that are indices of {len(record.classes)} classes, or -1")
    if curves is not None:
        points = record.values["ipdp.points"]
        if curves.shape[2:] != (points.shape[1], len(record.outputs)) or points.shape[1] > methods.MOST_POINTS:
            findings.append(
                f"expected curves of {points.shape[1]} points, at most {methods.MOST_POINTS}, for each of "
                f"{len(record.outputs)} outputs, got {curves.shape[2:]}"
            )
        else:
            findings += _check_curves(record, points, curves)
    return findings


def _check_curves(record: Contributions, points: Array, curves: Array) -> list[str]:
    """Return findings about points without a prediction, and categories without a text."""
    findings: list[str] = []
    there = ~np.isnan(points)
    answered = (np.abs(curves.transpose(0, 2, 1, 3)) <= LARGEST).all(axis=3)
    if not bool((~there | (answered & (np.abs(points) <= LARGEST))).all()):
        findings.append(f"expected points and answers within ±{LARGEST:g}")
    for slot in (slot for slot, kind in enumerate(record.kinds) if kind == _TEXT):
        codes = np.unique(points[:, :, slot][there[:, :, slot]]).tolist()
        if not all(code in record.texts.get(slot, ()) for code in codes):
            findings.append(f"expected the texts of the categories {codes} of slot {slot}, got some of them")
    return findings
