"""`explain.requests`: blocks of rows to be explained. Everything that depends on the order of rows is already fixed.

A block holds consecutive rows of one stream that are explained with one version of its model: the rows, their labels
and the background rows drawn for them. The places where blocks are cut have no meaning. A row is identified by its
number alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from glasstream_topics import blocks, frames, methods
from glasstream_topics.blocks import TEXT, VERSION, Block
from glasstream_topics.contract import QUEUE, Natural, Topic
from glasstream_topics.frames import Array
from glasstream_topics.methods import LABELLED

TOPIC: Final = Topic(
    name="explain.requests",
    holds="a block of consecutive rows of one stream, to be explained with one version of its model",
    key="stream/first row",
    partitioning="in turn, so that the blocks of a stream spread evenly over all partitions",
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


class NewCategories(NamedTuple):
    """Categories of one feature that the snapshot does not know: texts with the codes first_code, first_code + 1, …"""

    first_code: int
    texts: tuple[str, ...]


class Grid(NamedTuple):
    """How to read the changes of a block's grids: see `glasstream.explain.sampling.knots`."""

    knots: int
    """Number of knots per feature and row."""
    points: int
    """Number of points of a numeric feature."""
    equidistant: bool
    """Whether the knots of a numeric feature are the ends of an equidistant grid."""


class AttributionOptions(NamedTuple):
    """Which predictions are attributed to features, and on which scale: see `glasstream.explain.attributions`."""

    scale: str
    """``additive`` or ``prediction``."""
    output: str
    """The class that must be predicted for an event to be explained; empty for any."""
    low: float
    """Smallest prediction that is explained: the probability of the predicted class, or the number."""
    high: float
    """Largest prediction that is explained."""
    pairs: int = 0
    """Number of pairs of features whose interactions are explained."""
    cache: int = 64
    """MiB of memory in which an explainer may keep weights of the stream's trees."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ExplainRequest(Block):
    """A block to be explained. A block without rows is a flush mark before `first_row`.

    Attributes
    ----------
    x
        float64[count, d], NaN if a feature is absent.
    y
        float64[count]: index into `classes`, or the target number; not used, and usually NaN, in an entry without a
        label.
    draws
        what the methods compare the rows with, by the names and shapes of `glasstream_topics.methods.TAKEN`.
    task
        `classification` or `regression`; empty if there are no rows.
    new_categories
        per slot of kind text, the categories that the snapshot of `version` does not know.
    grid
        iPDP: how to read the changes of the grids; None if there are none.
    attributed
        attributions: which predictions are explained, and how; None if none is.
    corrected
        whether iSAGE subtracts the bias that a finite number of background rows adds to the loss, where it can.
    watched
        whether the stream is watched for incidents, so that the answer repeats the rows.
    refused
        why these rows must not be explained; empty for all other blocks. The explainer answers such a block as failed
        with this reason. The block has the rows' `seqs` and no features.
    """

    x: Array = field(default_factory=lambda: np.empty((0, 0)))
    y: Array = field(default_factory=lambda: np.empty(0))
    draws: Mapping[str, Array] = field(default_factory=dict)
    task: str = ""
    new_categories: Mapping[int, NewCategories] = field(default_factory=dict)
    grid: Grid | None = None
    attributed: AttributionOptions | None = None
    corrected: bool = False
    watched: bool = False
    refused: str = ""


_LAYOUT: Final = blocks.Layout(
    "request",
    ExplainRequest,
    arrays=("seqs", "x", "y"),
    group="draws",
    new_categories=list[tuple[Natural, Natural, tuple[str, ...]]],
)

flush_item: Final = partial(ExplainRequest, version=0, seqs=np.empty(0, np.int64), flush_before=True)
"""Make the item without rows for a flush mark before `first_row`, or with `ends` for a reset mark."""


def refused(block: ExplainRequest, reason: str) -> ExplainRequest:
    """Return a block that the explainer answers as failed: the same rows, with a reason instead of their data."""
    kept = ["stream", "epoch", "partition", "first_row", "version", "seqs", "task", "loss", "staleness", "flush_before"]
    fields = {name: getattr(block, name) for name in (*kept, "parts", "row")}
    return ExplainRequest(**fields, x=np.empty((block.count, 0)), y=np.zeros(block.count), refused=reason)


def only(block: ExplainRequest, part: int) -> ExplainRequest:
    """Return the entries of a block that have a part, as a block of rows of which nothing else is asked."""
    if not block.parts:
        return block
    mask = block.has(part)
    return replace(block, seqs=block.seqs[mask], x=block.x[mask], y=block.y[mask], times=[], parts=[])


def key(stream: str, first_row: int) -> bytes:
    """Return the key of the block that begins with a row."""
    return f"{stream}/{first_row}".encode()


def encode(request: ExplainRequest) -> bytes:
    """Return the bytes of a block.

    Raises
    ------
    FrameError
        the block contradicts itself.
    """
    _check(request)
    return _LAYOUT.encode(
        request,
        new_categories=[[slot, *request.new_categories[slot]] for slot in sorted(request.new_categories)],
        grid=None if request.grid is None else list(request.grid),
        attributed=None if request.attributed is None else list(request.attributed),
    )


def decode(data: bytes | memoryview) -> ExplainRequest:
    """Decode a block; its arrays are read-only views.

    Raises
    ------
    FrameError
        the bytes are not a block, or the block contradicts itself.
    """
    request = _LAYOUT.decode(data)
    _check(request)
    return request


def _check(request: ExplainRequest) -> None:
    """Raise FrameError if a block contradicts itself."""
    count, d = request.count, len(request.names)
    findings = blocks.findings(request, "draws", methods.TAKEN)
    findings += frames.mismatch("x", request.x, "float64", (count, d))
    findings += frames.mismatch("y", request.y, "float64", (count,))
    for slot, (first_code, texts) in request.new_categories.items():
        if not 0 <= slot < len(request.kinds) or request.kinds[slot] != TEXT or first_code < 0 or not texts:
            findings.append(f"new categories: expected a slot of kind text and some texts, got slot {slot}, {texts}")
        if len(set(texts)) != len(texts):
            findings.append(f"new categories of slot {slot}: expected different texts, got {texts}")
    for slot, named in request.texts.items():
        if not 0 <= slot < len(request.kinds) or request.kinds[slot] != TEXT or min(named, default=0) < 0:
            findings.append(f"texts: expected a slot of kind text and codes from 0 on, got slot {slot}, {named}")
    if not findings:  # the checks below rely on those above
        findings += _check_rows(request) if count else _check_flush(request)
    blocks.refuse("request", request, findings)


def _check_rows(request: ExplainRequest) -> list[str]:
    findings: list[str] = []
    if request.refused:
        return [f"expected no features of refused rows, got {request.names}"] if request.names else []
    if request.task not in _TASKS or not request.loss:
        findings.append(
            f"expected a task of {' or '.join(_TASKS)} and a loss, got {request.task!r} and {request.loss!r}"
        )
    if len(set(request.classes)) != len(request.classes) or (request.task == "regression" and request.classes):
        findings.append(f"expected different classes, none for regression, got {request.classes}")
    if request.task == "classification":
        y = request.y[request.has(LABELLED)]
        if not bool(((y >= 0) & (y < len(request.classes)) & (y == np.floor(y))).all()):
            findings.append(f"expected labels that are indices of {len(request.classes)} classes")
    elif not bool(np.isfinite(request.y[request.has(LABELLED)]).all()):
        findings.append("expected finite labels")
    for method in methods.methods_of(request.draws):
        findings += method.check_draws(request)
    if (request.grid is not None) != ("ipdp.row" in request.draws):
        findings.append(f"expected grids and how they are to be read together, got {request.grid}")
    if request.attributed is not None and not 0 <= request.attributed.pairs <= methods.MOST_PAIRS:
        findings.append(f"attributed: expected 0 to {methods.MOST_PAIRS} pairs, got {request.attributed.pairs}")
    if request.attributed is not None and not 1 <= request.attributed.cache <= methods.MOST_CACHE:
        findings.append(f"attributed: expected 1 to {methods.MOST_CACHE} MiB, got {request.attributed.cache}")
    if (request.attributed is not None) != ("attributions" in request.draws):
        findings.append(f"expected background rows and how they are used together, got {request.attributed}")
    if request.grid is not None:
        (knots, points, equidistant), most = request.grid, methods.MOST_POINTS
        if not (2 if equidistant else 1) <= knots <= most or not 2 <= points <= most:
            findings.append(f"expected grids of 2 to {most} knots and points, got {request.grid}")
    return findings


def _check_flush(request: ExplainRequest) -> list[str]:
    return [] if request.flush_before else ["expected rows or a flush mark, got neither"]
