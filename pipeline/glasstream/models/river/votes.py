"""The leaves of River's classification trees, flattened."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from river.tree.nodes import hatc_nodes
from river.tree.splitter import ExhaustiveSplitter, GaussianSplitter
from river.tree.splitter.nominal_splitter_classif import NominalSplitterClassif

from glasstream.base.errors import NotCompilable
from glasstream.models.predictors.arrays import Array, sealed_tuple
from glasstream.models.predictors.kernels.walk import Votes
from glasstream.models.predictors.slots import ABSENT, Slots
from glasstream.models.river.leaves import OF_CLASSIFIERS, by_type

_BY_TREE: Final = "by tree"

LEAF_TYPES: Final = by_type(OF_CLASSIFIERS) | {hatc_nodes.AdaLeafClassifier: _BY_TREE}
"""Leaves by exact type, with the way in which they predict."""

_LOG_TAU: Final = math.log(math.tau)
_NO_DENSITY: Final = (0.0, 0.0, 0.0)
_SPLITTERS: Final = (GaussianSplitter, ExhaustiveSplitter)


def weight(leaf: Any) -> float:
    """Return the total weight that a leaf has seen."""
    return float(sum(leaf.stats.values()))


def check_splitter(tree: Any) -> None:
    """Check that the naive Bayes leaves that `tree` may grow can be flattened.

    Raises
    ------
    NotCompilable
        The leaves would estimate densities with an unknown splitter.
    """
    if tree.leaf_prediction != "mc" and type(tree.splitter) not in _SPLITTERS:
        raise NotCompilable(
            f"naive Bayes leaves with a {type(tree.splitter).__name__} have no compiled form; "
            "use GaussianSplitter or ExhaustiveSplitter, or leaf_prediction='mc' with any splitter"
        )


def flatten(trees: Iterable[tuple[Any, list[Any]]], places: Mapping[Any, int], slots: Slots) -> Votes:
    """Return the votes of the leaves.

    Parameters
    ----------
    trees
        River trees with their leaves.
    places
        Place of each class key in River's dict.

    Raises
    ------
    NotCompilable
        A leaf estimates densities with an unknown splitter.
    """
    return _Flattening(places, slots).run(trees)


class _Flattening:
    """Collects River's objects in flat lists, and calculates at the end for all of them at once."""

    def __init__(self, places: Mapping[Any, int], slots: Slots) -> None:
        self.places = places
        self.slots = slots
        self.start: list[int] = [0]
        self.label: list[int] = []
        self.vote: list[float] = []
        self.bayes: list[bool] = []
        self.error: list[float] = []
        self.term_start: list[int] = [0]
        self.terms: list[tuple[int, int, int, int]] = []
        self.densities: list[tuple[float, float, float]] = []
        self.category: list[float] = []
        self.log: list[float] = []

    def run(self, trees: Iterable[tuple[Any, list[Any]]]) -> Votes:
        for tree, leaves in trees:
            for leaf in leaves:
                if _is_bayes(leaf, tree):
                    self._add_bayes(leaf)
                else:
                    self._add_constant(leaf)
                self.start.append(len(self.label))
                self.term_start.append(len(self.terms))
        terms = np.array(self.terms, np.int64).reshape(len(self.terms), 4).T
        densities = _densities(np.array(self.densities, np.float64).reshape(len(self.densities), 3))
        fields = (self.start, self.label, self.vote, self.bayes, self.error, self.term_start)
        arrays = (*fields, *terms, *densities, self.category, self.log)
        return sealed_tuple(Votes, arrays)

    def _add_constant(self, leaf: Any) -> None:
        shares = _normalised(leaf.stats, None)
        error = _error(leaf)
        self._add_votes(shares if error is None else _normalised(shares, sum(shares.values()) * error * error))

    def _add_votes(self, shares: Mapping[Any, float]) -> None:
        self.label.extend(map(self.places.__getitem__, shares))
        self.vote.extend(shares.values())
        self.bayes.append(False)
        self.error.append(0.0)

    def _add_bayes(self, leaf: Any) -> None:
        stats = leaf.stats
        error = _error(leaf) or 0.0
        total = sum(stats.values())
        if total == 0:
            self._add_votes({})  # River's leaf has no votes
            return
        if len(stats) == 1:  # for every row, exp(log of its only class - log of the sum) is 1.0
            self._add_votes(_normalised(dict.fromkeys(stats, 1.0), error * error))
            return
        self.bayes.append(True)
        self.error.append(error)
        self.label.extend(map(self.places.__getitem__, stats))
        self.vote.extend([math.log(seen / total) if seen > 0 else 0.0 for seen in stats.values()])
        for feature, splitter in leaf.splitters.items():
            slot = self.slots.slot(feature)
            if slot == ABSENT:
                continue
            kind = type(splitter)
            if kind is GaussianSplitter:
                self.slots.numeric(feature, "a naive Bayes leaf")
                self.terms.append((slot, len(self.densities), -1, 0))
                self._add_densities(stats, splitter._att_dist_per_class)
            elif kind is NominalSplitterClassif:
                self._add_categories(stats, splitter._att_dist_per_class, slot)
            elif kind is not ExhaustiveSplitter:  # ExhaustiveSplitter has no densities and adds nothing
                raise NotCompilable(f"a naive Bayes leaf with a {kind.__name__} has no compiled form")

    def _add_densities(self, stats: Mapping[Any, float], distributions: Mapping[Any, Any]) -> None:
        """Add (degrees of freedom, mean, sum of squares) for each class."""
        densities = self.densities
        for key, seen in stats.items():
            if seen > 0 and key in distributions:
                variance = distributions[key]._var
                mean = variance.mean
                densities.append((mean.n - variance.ddof, mean._mean, variance._S))
            else:
                densities.append(_NO_DENSITY)

    def _add_categories(self, stats: Mapping[Any, float], counts: Mapping[Any, Mapping[Any, float]], slot: int) -> None:
        """Add the log share of each category in each class; an unseen category gets 0, which changes nothing."""
        columns: list[dict[float, float]] = []
        for key, seen in stats.items():
            column: dict[float, float] = {}
            own = counts.get(key) if seen > 0 else None  # indexing the defaultdict would add to the model
            if own:
                total = sum(own.values())
                for category, part in own.items():
                    value = self.slots.value(slot, category)
                    if value is not None and total != 0 and part / total > 0:
                        column[value] = math.log(part / total)
            columns.append(column)
        categories = sorted(set().union(*columns))
        self.terms.append((slot, len(self.category), len(self.category) + len(categories), len(self.log)))
        self.category.extend(categories)
        self.log.extend(column.get(category, 0.0) for category in categories for column in columns)


def _error(leaf: Any) -> float | None:
    """Return the mean error of an adaptive tree's leaf."""
    return float(leaf._mean_error.get()) if type(leaf) is hatc_nodes.AdaLeafClassifier else None


def _is_bayes(leaf: Any, tree: Any) -> bool:
    """Return whether a leaf predicts by naive Bayes now."""
    if leaf.splitters is None:
        return False
    kind = LEAF_TYPES[type(leaf)]
    if kind is _BY_TREE:
        kind = tree.leaf_prediction
    if kind == "nb":
        return bool(weight(leaf) >= tree.nb_threshold)
    return kind != "mc" and bool(leaf._nb_correct_weight >= leaf._mc_correct_weight)


def _normalised(shares: Mapping[Any, float], factor: float | None) -> dict[Any, float]:
    """Normalise like river.utils.norm.normalize_values_in_dict, bit for bit."""
    if factor is None:
        factor = sum(shares.values())
    if factor == 0 or math.isnan(factor):
        return dict(shares)
    scale = 1 / factor
    return {key: share * scale for key, share in shares.items()}


def _densities(raw: Array) -> tuple[Array, Array, Array]:
    """Return mean, -1 / (2 variance) and log density at the mean; the last two are 0 if River has no density."""
    freedom, centre, squares = raw.T
    known = freedom > 0
    variance = np.divide(squares, freedom, out=np.zeros(len(raw)), where=known)
    known &= variance > 0
    curvature = np.divide(-0.5, variance, out=np.zeros(len(raw)), where=known)
    # Use math.log: the last bit of numpy's depends on the processor.
    peak = [
        -0.5 * (_LOG_TAU + math.log(v)) if k else 0.0 for v, k in zip(variance.tolist(), known.tolist(), strict=True)
    ]
    return centre, curvature, np.array(peak)
