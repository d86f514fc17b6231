"""The explanation methods, and the arrays that each one reads from a block and returns for it, by name.

A shape is a tuple of ``rows`` (entries of the block with a label), ``events`` (entries with effects), ``d`` (features),
``k`` (classes, or the one number of a regression), ``points`` (of a grid), ``outputs`` (with curves), and None for any
size.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from glasstream_topics import frames
from glasstream_topics.attributions import LINKS
from glasstream_topics.frames import Array

if TYPE_CHECKING:
    from glasstream_topics.contributions import Contributions
    from glasstream_topics.requests import ExplainRequest

MOST_POINTS: Final = 1_000
"""Largest number of points of a grid. Readers allocate no more, whatever a record says."""

MOST_OUTPUTS: Final = 10
"""Largest number of outputs with curves. Each output costs one number per point, feature and row."""

LARGEST: Final = 1e125
"""Largest absolute value of a number. Fourth powers of larger values are too close to overflow."""
LARGEST_SQUARED: Final = 1e63
"""The same for numbers that the loss squares."""
SQUARES: Final = ("squared", "brier")
"""Losses that square numbers."""
EFFECTS: Final = 1
"""Part of an entry's explanation that needs no label."""
LABELLED: Final = 2
"""Part of an entry's explanation that needs the label: importance, loss and what is watched for incidents."""
BOTH: Final = EFFECTS | LABELLED
"""Both parts."""
MOST_ROWS: Final = 1_000
"""Largest number of background rows of an attribution."""
MOST_PAIRS: Final = 20
"""Largest number of pairs of features of an attribution."""
MOST_CACHE: Final = 4_096
"""Largest size of the weights that are kept for the attributions of a stream, in MiB."""
_ATTRIBUTION_DRAWS: Final = ("attributions", "attributions.first", "attributions.anchor")
_COUNTS: Final = ("rows", "events")
_OF_NUMBERS: Final = ("squared", "absolute")
_TEXT: Final = 2  # the kind of a feature whose values are codes of texts

Shape = tuple[str, tuple[str | None, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One explanation method: its arrays, and what must hold for them beyond their shapes.

    Attributes
    ----------
    name, label
        Name in settings and records, and name for people.
    meaning
        What the published numbers mean, for people. ``{loss}`` stands for the name of the loss.
    draws
        Arrays in a block. The first part of an array's name is the method's name.
    values
        Arrays in the contributions.
    check_draws, check_values
        Functions that return what is wrong with a block or with contributions. The shapes are known to be right.
    optional
        Names of the values that not every loss has.
    gaps
        Whether values may be NaN; otherwise all numbers must be within ±`LARGEST`.
    part
        The part of an entry's explanation that the method makes: `EFFECTS` if it needs no label.
    """

    name: str
    label: str
    meaning: str
    draws: Mapping[str, Shape]
    values: Mapping[str, Shape]
    check_draws: "Callable[[ExplainRequest], Iterable[str]]" = lambda _: ()
    check_values: "Callable[[Contributions], Iterable[str]]" = lambda _: ()
    optional: frozenset[str] = frozenset()
    gaps: bool = False
    part: int = LABELLED

    @property
    def per_feature(self) -> bool:
        """Whether the method returns one contribution per row (or event) and feature."""
        return self.values[self.name][1][1:] == ("d",)


def _ipfi_draws(request: "ExplainRequest") -> Iterator[str]:
    if request.draws["ipfi"].shape[1] < 1:
        yield "draws of ipfi: expected at least one value a feature, got none"


def _isage_draws(request: "ExplainRequest") -> Iterator[str]:
    order, rows, d = request.draws["isage.order"], request.draws["isage"], len(request.names)
    if not bool((np.sort(order, axis=1) == np.arange(order.shape[1])).all()):
        yield "expected every order of features to be a permutation"
    if d > 1 and (rows.shape[1] not in (1, d - 1) or rows.shape[2] < 1):
        yield f"draws of isage: expected rows for all steps or for each of {d - 1}, got {rows.shape[1:3]}"


def _isage_values(record: "Contributions") -> Iterator[str]:
    first, target, classes = record.values["isage.first"], record.values["isage.target"], len(record.classes)
    if record.loss in SQUARES:
        yield from too_large(record.values, ("isage.prediction", "isage.target"), LARGEST_SQUARED)
    if not bool(((first >= 0) & (first < max(1, len(record.names)))).all()):
        yield "expected the first feature of every order to be one of the features"
    if classes or record.loss not in _OF_NUMBERS:
        known = (target >= -1) & (target < classes) & (target == np.floor(target))
        if not bool(known.all()):
            yield f"expected targets that are indices of {classes} classes, or -1"


def _ipdp_values(record: "Contributions") -> Iterator[str]:
    curves, points = record.values["ipdp"], record.values["ipdp.points"]
    if curves.shape[2:] != (points.shape[1], len(record.outputs)) or points.shape[1] > MOST_POINTS:
        yield (
            f"expected curves of {points.shape[1]} points, at most {MOST_POINTS}, for each of {len(record.outputs)} "
            f"outputs, got {curves.shape[2:]}"
        )
        return
    there = ~np.isnan(points)
    answers = np.abs(curves.transpose(0, 2, 1, 3))
    answered = (answers <= LARGEST).all(axis=3) & (np.abs(points) <= LARGEST)
    if bool((answers > LARGEST).any()) or not bool((~there | answered).all()):  # without a point, NaN is an answer
        yield f"expected points and answers within ±{LARGEST:g}"
    for slot in (slot for slot, kind in enumerate(record.kinds) if kind == _TEXT):
        codes = np.unique(points[:, :, slot][there[:, :, slot]]).tolist()
        if not all(code in record.texts.get(slot, ()) for code in codes):
            yield f"expected the texts of the categories {codes} of slot {slot}, got some of them"


def _attribution_draws(request: "ExplainRequest") -> Iterator[str]:
    rows, first, anchor = (request.draws[name] for name in _ATTRIBUTION_DRAWS)
    events = request.draws["attributions.event"]
    bounds = [*first.tolist(), len(rows)]
    if len(events) != len(first) or not all(a < b <= a + MOST_ROWS for a, b in pairwise(bounds)):
        yield f"draws of attributions: expected 1 to {MOST_ROWS} rows for each background, got the bounds {bounds}"
    if len(first) and first[0] != 0:
        yield f"draws of attributions: expected the first rows at 0, got {first[0]}"
    if not bool(((anchor >= -1) & (anchor < len(first))).all()):
        yield f"draws of attributions: expected backgrounds of {len(first)}, or -1"
    if bool((events < 0).any()):
        yield "draws of attributions: expected numbers of events from 0 on"
    output = request.draws["attributions.output"]
    if not bool(((output >= -1) & (output < max(1, len(request.classes)))).all()):
        yield f"draws of attributions: expected predicted classes of {len(request.classes)}, or -1"
    yield from too_large(request.draws, ["attributions.prediction"])


def _attribution_values(record: "Contributions") -> Iterator[str]:
    output = record.values["attributions.output"]
    if not bool(((output >= -1) & (output < max(1, len(record.classes)))).all()):
        yield f"attributions.output: expected indices of {len(record.classes)} classes, or -1"
    link, rows, event = (record.values[f"attributions.{name}"] for name in ("link", "rows", "event"))
    if not bool(((link >= 0) & (link < len(LINKS))).all()):
        yield f"attributions.link: expected indices of {len(LINKS)} links"
    if not bool(((rows >= 0) & (rows <= MOST_ROWS) & (event >= 0)).all()):
        yield f"attributions: expected up to {MOST_ROWS} background rows of events from 0 on"
    if bool((record.values["attributions.error"] < 0).any()):
        yield "attributions.error: expected numbers from 0 on"
    inputs = record.values["attributions.inputs"]
    if not bool((np.isnan(inputs) | (np.abs(inputs) <= LARGEST)).all()):
        yield f"attributions.inputs: expected numbers within ±{LARGEST:g}, or NaN"
    for slot in (slot for slot, kind in enumerate(record.kinds) if kind == _TEXT):
        codes = np.unique(inputs[output >= 0, slot])
        if not all(code in record.texts.get(slot, ()) for code in codes[~np.isnan(codes)].tolist()):
            yield f"expected the texts of the categories {codes} of slot {slot}, got some of them"
    pairs = record.values.get("attributions.pairs", np.empty((0, 0)))
    whole, rest = divmod(pairs.shape[1], 3)
    slots = np.full((1, 2), np.nan) if rest else pairs.reshape(len(pairs) * whole, 3)[:, :2]
    inside = ((slots >= -1) & (slots < len(record.names)) & (slots == np.floor(slots))).all(axis=1)
    if not bool((inside & ((slots[:, 0] < slots[:, 1]) | (slots == -1).all(axis=1))).all()):
        yield f"attributions.pairs: expected two of {len(record.names)} slots, or -1 and -1, and a number a pair"
    numbers = [
        name for name in METHODS["attributions"].values if name != "attributions.inputs" and name in record.values
    ]
    yield from too_large(record.values, [name for name in numbers if record.values[name].dtype == np.float64])


def too_large(arrays: Mapping[str, Array], names: Iterable[str], most: float = LARGEST) -> Iterator[str]:
    """Yield what is wrong with arrays whose numbers must be finite and must not exceed a limit."""
    for name in names:
        if not bool((np.abs(arrays[name]) <= most).all()):
            yield f"expected numbers within ±{most:g} as {name}"


METHODS: Final[Mapping[str, Method]] = {
    method.name: method
    for method in (
        Method(
            name="ipfi",
            label="iPFI",
            meaning="rise of the {loss} loss when the feature's value is taken from another recent row",
            draws={"ipfi": ("float64", ("rows", None, "d"))},
            values={"ipfi": ("float64", ("rows", "d"))},
            check_draws=_ipfi_draws,
        ),
        Method(
            name="isage",
            label="iSAGE",
            meaning="the feature's share of what the model gains over its mean prediction, in {loss} loss",
            draws={"isage": ("float64", ("rows", None, None, "d")), "isage.order": ("int64", ("rows", "d"))},
            values={
                "isage": ("float64", ("rows", "d")),
                "isage.first": ("int64", ("rows",)),
                "isage.model_loss": ("float64", ("rows",)),
                "isage.prediction": ("float64", ("rows", "k")),
                "isage.target": ("float64", ("rows",)),
                "isage.remainder": ("float64", ("rows", "d")),
            },
            optional=frozenset({"isage.remainder"}),
            check_draws=_isage_draws,
            check_values=_isage_values,
        ),
        Method(
            name="ipdp",
            label="iPDP",
            meaning="the mean prediction if the feature had this value; importance: the standard deviation of the "
            "curve, or for categories a quarter of its range",
            draws={
                "ipdp.row": ("int32", (None,)),
                "ipdp.place": ("int32", (None,)),
                "ipdp.value": ("float64", (None,)),
            },
            values={
                "ipdp": ("float64", ("events", "d", "points", "outputs")),
                "ipdp.points": ("float64", ("events", "points", "d")),
            },
            check_values=_ipdp_values,
            gaps=True,
            part=EFFECTS,
        ),
        Method(
            name="attributions",
            label="Attributions",
            meaning="mean absolute contribution of the feature to the predictions",
            draws={
                "attributions": ("float64", (None, "d")),
                "attributions.first": ("int64", (None,)),
                "attributions.anchor": ("int64", ("events",)),
                "attributions.event": ("int64", (None,)),
                "attributions.output": ("int64", ("events",)),
                "attributions.prediction": ("float64", ("events",)),
            },
            values={
                "attributions": ("float64", ("events", "d")),
                "attributions.error": ("float64", ("events", "d")),
                "attributions.inputs": ("float64", ("events", "d")),
                **{f"attributions.{name}": ("float64", ("events",)) for name in ("base", "explained", "prediction")},
                **{f"attributions.{name}": ("int64", ("events",)) for name in ("output", "link", "rows", "event")},
                "attributions.pairs": ("float64", ("events", "pairs")),
            },
            optional=frozenset({"attributions.pairs"}),
            check_draws=_attribution_draws,
            check_values=_attribution_values,
            gaps=True,
            part=EFFECTS,
        ),
    )
}
"""All methods, in the order in which their records are published. iPFI draws background values. iSAGE draws background
rows for each step (or for all), and the order in which features are added; its values include the feature whose first
difference the aggregator completes, the model's loss and prediction, the target, and for cross-entropy the bias that
the correction leaves. iPDP sends the changes of the
grids from row to row, from which `glasstream.explain.sampling.grids` makes the points; its values are the ICE curves,
one per output, and the points at which they were evaluated. Attributions draw background rows for many events at once:
the rows of all backgrounds of a block, the first row of each, the background of each event (-1 if the event is not
chosen), the event before which each was drawn, and what was predicted for each event. Their values are what
`glasstream_topics.attributions` publishes, with an output of -1 for an event that is not explained. Each pair is three
numbers: the slots of its features, -1 for none, and the interaction."""

TAKEN: Final[Mapping[str, Shape]] = {name: shape for method in METHODS.values() for name, shape in method.draws.items()}
"""All arrays in a block."""

LOSS: Final[Mapping[str, Shape]] = {"loss": ("float64", ("rows",))}
"""The loss of the model, which all contributions have."""

WATCHED: Final[Mapping[str, Shape]] = {"inputs": ("float64", ("rows", "d")), "target": ("float64", ("rows",))}
"""What contributions repeat of the rows if they are watched for incidents: the values of the features (NaN where one is
absent, codes of texts), and the label (the index of a class, or the number)."""

GIVEN: Final[Mapping[str, Shape]] = {
    **LOSS,
    **WATCHED,
    **{name: shape for method in METHODS.values() for name, shape in method.values.items()},
}
"""All arrays in the contributions: the loss of the model, the rows, and the values of the methods."""


OPTIONAL: Final = frozenset(name for method in METHODS.values() for name in method.optional)
"""Names of the arrays in the contributions that may be missing although those of their method are there."""


def label_of(method: str | None) -> str:
    """Return the name of a method for people. A method that this release does not know keeps its own name."""
    known = METHODS.get(method or "")
    return known.label if known is not None else method or ""


def meaning_of(method: str, loss: str) -> str:
    """Return what the published numbers of a method mean.

    >>> meaning_of("ipfi", "squared")
    "rise of the squared loss when the feature's value is taken from another recent row"
    >>> meaning_of("isage", "brier")
    "the feature's share of what the model gains over its mean prediction, in Brier loss"
    """
    meaning = METHODS[method].meaning if method in METHODS else "importance, in {loss} loss"
    return meaning.format(loss="Brier" if loss == "brier" else loss.replace("_", "-"))


def measured_in(method: str, loss: str) -> str:
    """Return what the published numbers of a method are shares of: the loss, or the prediction.

    >>> measured_in("ipfi", "brier"), measured_in("attributions", "brier")
    ('brier', 'prediction')
    """
    known = METHODS.get(method)
    return loss if known is None or "{loss}" in known.meaning else "prediction"


def method_of(name: str) -> str:
    """Return the method that an array belongs to; the name of an array that belongs to none, such as `loss`.

    >>> method_of("isage.order")
    'isage'
    """
    return name.partition(".")[0]


def methods_of(arrays: Iterable[str]) -> list[Method]:
    """Return the methods that arrays belong to, in the order of `METHODS`."""
    names = {method_of(name) for name in arrays}
    return [method for name, method in METHODS.items() if name in names]


def numbers_of_a_row(methods: Iterable[str], sizes: Mapping[str, int], *, watched: bool) -> int:
    """Return the number of values that contributions have for each row: the loss, the values of some methods, and the
    row itself if it is watched.

    >>> numbers_of_a_row(["ipfi", "isage"], {"d": 10, "k": 2}, watched=False)
    36
    >>> numbers_of_a_row(["ipfi", "isage"], {"d": 10, "k": 2}, watched=True)
    47
    """
    arrays = [LOSS, *([WATCHED] if watched else []), *(METHODS[name].values for name in methods)]
    shapes = (shape for group in arrays for shape in group.values())
    return sum(prod(sizes[str(dim)] for dim in dims if dim not in _COUNTS) for _, dims in shapes)


def findings(
    arrays: Mapping[str, Array], shapes: Mapping[str, Shape], sizes: Mapping[str, int], what: str
) -> list[str]:
    """Return what is wrong with the arrays: unknown names, incomplete methods, wrong types and shapes."""
    found: list[str] = []
    if not arrays.keys() <= shapes.keys():
        found.append(f"{what}: expected arrays named {', '.join(shapes)}, got {sorted(arrays.keys() - shapes.keys())}")
    methods = set(map(method_of, arrays))
    for name, (dtype, dims) in shapes.items():
        array = arrays.get(name)
        if array is not None:
            shape = _sizes(dims, sizes, array)
            if array.dtype != dtype or array.shape != shape:
                found += frames.mismatch(f"{what} of {name}", array, dtype, shape)
        elif method_of(name) in methods and name not in OPTIONAL:
            found.append(f"{what}: expected all of {method_of(name)}, got no {name}")
    return found


def _sizes(dims: tuple[str | None, ...], sizes: Mapping[str, int], array: Array) -> tuple[int, ...]:
    own = array.shape if array.ndim == len(dims) else (-1,) * len(dims)
    return tuple(
        [any_size if dim is None else sizes.get(dim, any_size) for dim, any_size in zip(dims, own, strict=True)]
    )
