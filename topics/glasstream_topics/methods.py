"""The explanation methods, and the arrays that each one reads from a block and returns for it, by name.

A shape is a tuple of numbers, ``count`` (rows of the block), ``d`` (features), ``k`` (outputs: classes, or the one
number of a regression), and None for any size.
"""

from collections.abc import Mapping
from typing import Final

from glasstream_topics import frames
from glasstream_topics.frames import Array

METHODS: Final = ("ipfi", "isage", "ipdp")
"""All methods, in the order in which their records are published."""

MOST_POINTS: Final = 1_000
"""Largest number of points of a grid. Readers allocate no more, whatever a record says."""

MOST_OUTPUTS: Final = 10
"""Largest number of outputs with curves. Each output costs one number per point, feature and row."""

Shape = tuple[str, tuple[str | None, ...]]

TAKEN: Final[Mapping[str, Shape]] = {
    "ipfi": ("float64", ("count", None, "d")),
    "isage": ("float64", ("count", None, None, "d")),
    "isage.order": ("int64", ("count", "d")),
    "ipdp.row": ("int32", (None,)),
    "ipdp.place": ("int32", (None,)),
    "ipdp.value": ("float64", (None,)),
}
"""Arrays in a block. iPFI: background values. iSAGE: background rows for each step (or for all), and the order in which
features are added. iPDP: changes of the grids from row to row; `glasstream.background.grids` makes the points."""

GIVEN: Final[Mapping[str, Shape]] = {
    "loss": ("float64", ("count",)),
    "ipfi": ("float64", ("count", "d")),
    "isage": ("float64", ("count", "d")),
    "isage.first": ("int64", ("count",)),
    "isage.model_loss": ("float64", ("count",)),
    "isage.prediction": ("float64", ("count", "k")),
    "isage.target": ("float64", ("count",)),
    "ipdp": ("float64", ("count", "d", None, None)),
    "ipdp.points": ("float64", ("count", None, "d")),
}
"""Arrays in the contributions. All methods: the loss of the model, and the contributions. iSAGE: also the feature whose
first difference the aggregator completes, the model's loss and prediction, and the target. iPDP: the ICE curves, one
per output, and the points at which they were evaluated."""


def method_of(name: str) -> str:
    """Return the method that an array belongs to.

    >>> method_of("isage.order")
    'isage'
    """
    return name.partition(".")[0]


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
        elif method_of(name) in methods:
            found.append(f"{what}: expected all of {method_of(name)}, got no {name}")
    return found


def _sizes(dims: tuple[str | None, ...], sizes: Mapping[str, int], array: Array) -> tuple[int, ...]:
    own = array.shape if array.ndim == len(dims) else (-1,) * len(dims)
    return tuple([any_size if dim is None else sizes[dim] for dim, any_size in zip(dims, own, strict=True)])
