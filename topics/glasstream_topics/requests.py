"""`explain.requests`: blocks of rows to be explained. Everything that depends on the order of rows is already fixed.

A block holds consecutive rows of one stream that are explained with one version of its model: the rows, their labels
and the background rows drawn for them. The places where blocks are cut have no meaning. A row is identified by its
number alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from glasstream_topics import frames, methods
from glasstream_topics.contract import QUEUE, StreamName, Topic
from glasstream_topics.errors import FrameError
from glasstream_topics.frames import Array
from glasstream_topics.murmur2 import murmur2_partition

VERSION: Final = 1
_KIND: Final = "request"
_DRAWS: Final = "draws/"  # begins the name of every array of background rows

TOPIC: Final = Topic(
    name="explain.requests",
    holds="a block of consecutive rows of one stream, to be explained with one version of its model",
    key="stream/first row",
    partitioning="murmur2 of the key, so that the blocks of a stream spread over all partitions",
    partitions="requests",
    codec="frame",
    written_by=("learner",),
    read_by=("explainer",),
    public=False,
    version=VERSION,
    config=QUEUE,
)

Task = Literal["classification", "regression"]
_TASKS: Final = get_args(Task)
_TEXT: Final = 2  # the kind of a feature whose values are codes of texts


class NewCategories(NamedTuple):
    """Categories of one feature that the snapshot does not know: texts with the codes first_code, first_code + 1, …"""

    first_code: int
    texts: tuple[str, ...]


class Grid(NamedTuple):
    """How to read the changes of a block's grids: see `glasstream.background.knots`."""

    knots: int
    """Number of knots per feature and row."""
    points: int
    """Number of points of a numeric feature."""
    equidistant: bool
    """Whether the knots of a numeric feature are the ends of an equidistant grid."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ExplainRequest:
    """A block of `count` rows with `d` features. A block without rows is a flush mark before `first_row`.

    Attributes
    ----------
    stream, epoch, partition
        the rows' stream, its epoch, and its partition of `events`.
    first_row
        number of the first row; the other rows follow without gaps.
    version
        version of the model to explain with, at most `first_row`: it has learned no row of the block.
    task, loss
        `classification` or `regression`, and the name of the loss; both are empty if there are no rows.
    names, kinds
        name and kind of each slot's feature (0 number, 1 boolean, 2 text).
    classes
        class names that the numbers in `y` index; empty for regression.
    seqs
        int64[count]: the rows' events, all different, in the order in which their labels came.
    x
        float64[count, d], NaN if a feature is absent.
    y
        float64[count]: index into `classes`, or the target number.
    draws
        what the methods compare the rows with, by the names and shapes of `glasstream_topics.methods.TAKEN`.
    new_categories
        per slot of kind text, the categories that the snapshot of `version` does not know.
    texts
        per slot of kind text, the texts of the codes among its grid points.
    grid
        iPDP: how to read the changes of the grids; None if there are none.
    corrected
        whether iSAGE subtracts the bias that a finite number of background rows adds to the loss.
    staleness
        distance between the model of `version` and the snapshot before it; None if it was not measured.
    flush_before
        whether a flush mark precedes `first_row`.
    ends
        whether a reset mark precedes `first_row`: the stream has no further rows in this epoch. Only for blocks without
        rows.
    refused
        why these rows must not be explained; empty for all other blocks. The explainer answers such a block as failed
        with this reason. The block has the rows' `seqs` and no features.
    """

    stream: str
    epoch: int
    partition: int
    first_row: int
    version: int
    seqs: Array
    x: Array
    y: Array
    draws: Mapping[str, Array]
    names: list[str]
    kinds: list[int]
    classes: list[str]
    task: str
    loss: str
    new_categories: Mapping[int, NewCategories] = field(default_factory=dict)
    texts: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    grid: Grid | None = None
    corrected: bool = False
    staleness: float | None = None
    flush_before: bool = False
    ends: bool = False
    refused: str = ""

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.seqs)


def flush_item(*, stream: str, epoch: int, partition: int, first_row: int, ends: bool = False) -> ExplainRequest:
    """Return the item without rows for a flush mark before `first_row`, or with `ends` for a reset mark."""
    return ExplainRequest(
        stream=stream,
        epoch=epoch,
        partition=partition,
        first_row=first_row,
        version=0,
        seqs=np.empty(0, np.int64),
        x=np.empty((0, 0)),
        y=np.empty(0),
        draws={},
        names=[],
        kinds=[],
        classes=[],
        task="",
        loss="",
        flush_before=True,
        ends=ends,
    )


def refused(block: ExplainRequest, reason: str) -> ExplainRequest:
    """Return a block that the explainer answers as failed: the same rows, with a reason instead of their data."""
    return ExplainRequest(
        stream=block.stream,
        epoch=block.epoch,
        partition=block.partition,
        first_row=block.first_row,
        version=block.version,
        seqs=block.seqs,
        x=np.empty((block.count, 0)),
        y=np.zeros(block.count),
        draws={},
        names=[],
        kinds=[],
        classes=[],
        task=block.task,
        loss=block.loss,
        staleness=block.staleness,
        flush_before=block.flush_before,
        refused=reason,
    )


_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    stream: StreamName
    epoch: _Natural
    partition: _Natural
    first_row: _Natural
    version: _Natural
    names: list[str]
    kinds: list[Annotated[int, msgspec.Meta(ge=0, le=_TEXT)]]
    classes: list[str]
    task: str
    loss: str
    new_categories: list[tuple[_Natural, _Natural, list[str]]]
    texts: list[tuple[_Natural, list[tuple[_Natural, str]]]]
    grid: tuple[_Natural, _Natural, bool] | None
    corrected: bool
    staleness: float | None
    flush_before: bool
    ends: bool = False
    refused: str = ""


def key(stream: str, first_row: int) -> bytes:
    """Return the key of the block that begins with a row."""
    return f"{stream}/{first_row}".encode()


def partition(key: bytes, partitions: int) -> int:
    """Return the partition of a block by its key."""
    return murmur2_partition(key, partitions)


def encode(request: ExplainRequest) -> bytes:
    """Return the bytes of a block.

    Raises
    ------
    FrameError
        the block contradicts itself.
    """
    _check(request)
    meta = {
        "stream": request.stream,
        "epoch": request.epoch,
        "partition": request.partition,
        "first_row": request.first_row,
        "version": request.version,
        "names": request.names,
        "kinds": [int(kind) for kind in request.kinds],
        "classes": request.classes,
        "task": request.task,
        "loss": request.loss,
        "new_categories": [[slot, *request.new_categories[slot]] for slot in sorted(request.new_categories)],
        "texts": [[slot, sorted(request.texts[slot].items())] for slot in sorted(request.texts)],
        "grid": None if request.grid is None else list(request.grid),
        "corrected": request.corrected,
        "staleness": request.staleness,
        "flush_before": request.flush_before,
        **({"ends": True} if request.ends else {}),
        **({"refused": request.refused} if request.refused else {}),
    }
    arrays = {"seqs": request.seqs, "x": request.x, "y": request.y}
    arrays.update({_DRAWS + method: rows for method, rows in request.draws.items()})
    return frames.encode(_KIND, VERSION, meta, arrays)


def decode(data: bytes | memoryview) -> ExplainRequest:
    """Decode a block; its arrays are read-only views.

    Raises
    ------
    FrameError
        the bytes are not a block, or the block contradicts itself.
    """
    frame = frames.decode(data, _KIND, VERSION)
    try:
        meta = msgspec.convert(frame.meta, _Meta)
    except msgspec.ValidationError as error:
        raise FrameError(f"the meta of a request frame: {error}") from error
    arrays = dict(frame.arrays)
    try:
        seqs, x, y = arrays.pop("seqs"), arrays.pop("x"), arrays.pop("y")
    except KeyError as error:
        raise FrameError(f"a request frame: expected the arrays seqs, x and y, got {sorted(frame.arrays)}") from error
    unknown = [name for name in arrays if not name.startswith(_DRAWS)]
    if unknown:
        raise FrameError(f"a request frame: expected no arrays beside seqs, x, y and draws, got {unknown}")
    new_categories = {slot: NewCategories(first, tuple(texts)) for slot, first, texts in meta.new_categories}
    if len(new_categories) != len(meta.new_categories):
        raise FrameError("a request frame: expected new categories once per slot, got a slot twice")
    request = ExplainRequest(
        stream=meta.stream,
        epoch=meta.epoch,
        partition=meta.partition,
        first_row=meta.first_row,
        version=meta.version,
        seqs=seqs,
        x=x,
        y=y,
        draws={name.removeprefix(_DRAWS): rows for name, rows in arrays.items()},
        names=meta.names,
        kinds=meta.kinds,
        classes=meta.classes,
        task=meta.task,
        loss=meta.loss,
        new_categories=new_categories,
        texts={slot: dict(texts) for slot, texts in meta.texts},
        grid=None if meta.grid is None else Grid(*meta.grid),
        corrected=meta.corrected,
        staleness=meta.staleness,
        flush_before=meta.flush_before,
        ends=meta.ends,
        refused=meta.refused,
    )
    _check(request)
    return request


def _check(request: ExplainRequest) -> None:
    """Raise FrameError if a block contradicts itself."""
    findings: list[str] = []
    count, d = len(request.seqs), len(request.names)
    findings += frames.mismatch("seqs", request.seqs, "int64", (count,))
    findings += frames.mismatch("x", request.x, "float64", (count, d))
    findings += frames.mismatch("y", request.y, "float64", (count,))
    findings += methods.findings(request.draws, methods.TAKEN, {"count": count, "d": d}, "draws")
    if len(set(request.names)) != d or len(request.kinds) != d:
        findings.append(f"expected {d} different names and as many kinds, got {request.names} and {request.kinds}")
    for slot, (first_code, texts) in request.new_categories.items():
        if not 0 <= slot < len(request.kinds) or request.kinds[slot] != _TEXT or first_code < 0 or not texts:
            findings.append(f"new categories: expected a slot of kind text and some texts, got slot {slot}, {texts}")
        if len(set(texts)) != len(texts):
            findings.append(f"new categories of slot {slot}: expected different texts, got {texts}")
    for slot, named in request.texts.items():
        if not 0 <= slot < len(request.kinds) or request.kinds[slot] != _TEXT or min(named, default=0) < 0:
            findings.append(f"texts: expected a slot of kind text and codes from 0 on, got slot {slot}, {named}")
    if min(request.first_row, request.epoch, request.partition, request.version) < 0:
        findings.append(
            f"expected first row, epoch, partition and version from 0 on, got {request.first_row}, {request.epoch}, "
            f"{request.partition}, {request.version}"
        )
    if not findings:  # the checks below rely on those above
        findings += _check_rows(request) if count else _check_flush(request)
    if findings:
        raise FrameError(f"request of stream {request.stream!r}, first row {request.first_row}: {'; '.join(findings)}")


def _check_rows(request: ExplainRequest) -> list[str]:
    findings: list[str] = []
    if request.ends:
        findings.append(f"expected no rows where a stream ends, got {request.count}")
    if not 1 <= request.version <= request.first_row:
        findings.append(
            f"expected a model version from 1 to the first row {request.first_row}, got {request.version}: "
            f"it would have learned what it explains, or nothing"
        )
    findings += frames.repeated("seqs", request.seqs)
    if request.refused:
        return findings + ([] if not request.names else [f"expected no features of refused rows, got {request.names}"])
    if request.task not in _TASKS or not request.loss:
        findings.append(
            f"expected a task of {' or '.join(_TASKS)} and a loss, got {request.task!r} and {request.loss!r}"
        )
    if len(set(request.classes)) != len(request.classes) or (request.task == "regression" and request.classes):
        findings.append(f"expected different classes, none for regression, got {request.classes}")
    if request.task == "classification":
        y = request.y
        if not bool(((y >= 0) & (y < len(request.classes)) & (y == np.floor(y))).all()):
            findings.append(f"expected labels that are indices of {len(request.classes)} classes")
    elif not bool(np.isfinite(request.y).all()):
        findings.append("expected finite labels")
    order = request.draws.get("isage.order")
    if order is not None and not bool((np.sort(order, axis=1) == np.arange(order.shape[1])).all()):
        findings.append("expected every order of features to be a permutation")
    if (request.grid is not None) != ("ipdp.row" in request.draws):
        findings.append(f"expected grids and how they are to be read together, got {request.grid}")
    return findings + _check_sizes(request)


def _check_sizes(request: ExplainRequest) -> list[str]:
    """Return findings about sizes with which a reader would index or allocate beyond bounds."""
    findings: list[str] = []
    d, grid = len(request.names), request.grid
    values, rows = request.draws.get("ipfi"), request.draws.get("isage")
    if values is not None and values.shape[1] < 1:
        findings.append("draws of ipfi: expected at least one value a feature, got none")
    if rows is not None and d > 1 and (rows.shape[1] not in (1, d - 1) or rows.shape[2] < 1):
        findings.append(f"draws of isage: expected rows for all steps or for each of {d - 1}, got {rows.shape[1:3]}")
    if grid is not None:
        most = methods.MOST_POINTS
        if not (2 if grid.equidistant else 1) <= grid.knots <= most or not 2 <= grid.points <= most:
            findings.append(f"expected grids of 2 to {most} knots and points, got {grid}")
    return findings


def _check_flush(request: ExplainRequest) -> list[str]:
    return [] if request.flush_before else ["expected rows or a flush mark, got neither"]
