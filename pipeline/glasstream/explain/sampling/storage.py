"""Background values drawn conditionally on the features that are present (002, section 3.2, Algorithms 3 and 4).

For each feature, an incremental Hoeffding adaptive tree predicts it from the others. Each leaf keeps a geometric
reservoir of the feature's values in the rows that reached it. To draw a removed feature, the values of the features
that are present determine the way down its tree. At a branch on any other feature (one that is also removed, or that
the row lacks), a child is chosen at random in proportion to the weight it has seen. So the draws of features that are
removed together do not depend on the row's values of these features.

The storage handles these cases:

==============  ======================================================================================
number          a regressor with the mean in its leaves; also for booleans
text            a classifier over codes. Trees merge the codes from `categories` - 1 on; leaves keep all
missing         the absence enters the leaf that the row reaches and can be drawn; no tree learns it
new             the feature has a tree from its first value on; it is absent in earlier rows
vanished        its absence fills the leaves that rows reach
leaf split      the leaf's values are dropped; its children begin empty
branch dropped  an alternate takes its place; the values of its leaves are dropped
empty leaf      the value comes from the marginal reservoir, from one row per draw; such values are counted
no room         a leaf without values stays empty until another leaf is dropped; the values are counted
==============  ======================================================================================

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, below
from glasstream.base.errors import InputError
from glasstream.events.features import Kind
from glasstream.explain.sampling.settings import StorageSettings
from glasstream.explain.sampling.storage_tree import StorageTree
from glasstream.explain.sampling.storage_walk import (
    DRAWN,
    FELL_BACK,
    NODE,
    TURNED_AWAY,
    Leaves,
    Trees,
    descend,
    draw,
    enter,
)

_SEEDS = 2**32 - 1


@dataclass(slots=True)
class ConditionalStorage:
    """Storage trees of one stream, created by `empty`. A pickled copy continues bit-identically.

    Examples
    --------
    The second feature is the negative of the first. Given the first, its draws are close to the true value. Given only
    the third, its draws cover all earlier values:

    >>> from glasstream.base.draws import stream_key
    >>> storage = ConditionalStorage.empty(StorageSettings(), stream_key(1, "example"))
    >>> x = np.arange(3_000.0) * 7 % 101
    >>> rows = np.column_stack((x, -x, np.ones(3_000)))
    >>> order = np.array([[2, 0, 1]])
    >>> drawn = storage.pass_through(rows, 0, 2_999, order, 100, [Kind.NUMBER] * 3)
    >>> drawn.shape, rows[-1].tolist()
    ((1, 2, 100, 3), [86.0, -86.0, 1.0])
    >>> given_third, given_both = drawn[0, :, :, 1]
    >>> bool(given_third.std() > 25), bool(np.abs(given_both + 86).max() < 15)
    (True, True)

    iSAGE evaluates the model on such rows with
    ``glasstream.explain.variants.built_up(predictor, rows[2_999:], order, drawn)``.
    """

    settings: StorageSettings
    key: NDArray[np.uint64]
    trees: list[StorageTree | None]
    """Tree of each feature; None before the feature's first value."""
    nominal: set[int]
    flat: Trees
    leaves: Leaves
    rows: NDArray[np.float64]
    """(marginal, d) marginal reservoir."""
    counts: NDArray[np.int64]
    unlearned: int = 0
    """Number of values that a tree could not learn because River could not calculate with them."""
    tallest: int = 1
    """Largest number of nodes on a path that any tree has had."""

    @classmethod
    def empty(cls, settings: StorageSettings, key: NDArray[np.uint64]) -> "ConditionalStorage":
        """Return storage without rows and features.

        Parameters
        ----------
        settings
            Limits of the trees.
        key
            Key words of the stream, from `glasstream.base.draws.stream_key`.
        """
        trees = Trees(*(np.empty((0, 1), dtype) for dtype in NODE))
        none = np.empty(0, np.int64)
        leaves = Leaves(np.empty((0, settings.size)), none, none, np.zeros(1, np.int64))
        return cls(settings, key, [], set(), trees, leaves, np.empty((settings.marginal, 0)), np.zeros(3, np.int64))

    @property
    def drawn(self) -> int:
        """Number of values drawn so far."""
        return int(self.counts[DRAWN])

    @property
    def fell_back(self) -> int:
        """Number of values drawn from the marginal reservoir because the leaf was empty."""
        return int(self.counts[FELL_BACK])

    @property
    def turned_away(self) -> int:
        """Number of values that entered no leaf because the limit `values` was reached."""
        return int(self.counts[TURNED_AWAY])

    @property
    def held(self) -> int:
        """Number of values that all leaves hold."""
        places = self.flat.place[self.flat.place >= 0]
        return int(self.leaves.held[places].sum())

    def pass_through(
        self,
        block: NDArray[np.float64],
        first_row: int,
        start: int,
        order: NDArray[np.int64],
        draws: int,
        kinds: Sequence[Kind],
    ) -> NDArray[np.float64]:
        """Draw for each row of a block, and then let the row enter and the trees learn it.

        Parameters
        ----------
        block
            (count, d) consecutive rows, NaN where a feature is absent. d may have grown since the last call.
        first_row
            Number of the block's first row, which equals the number of rows that the storage has seen.
        start
            First row that is explained. Earlier rows enter and draw nothing.
        order
            (rows from `start` on, d) permutation in which the features become present.
        draws
            Number of background rows for each step of a permutation.
        kinds
            Kinds of the d features, as in `FeatureTable.kinds`.

        Returns
        -------
        (rows from `start` on, d - 1, draws, d): at [i, s, k] the features order[i, :s + 1] have the row's own values,
        and each other feature is drawn given those.

        Raises
        ------
        InputError
            The block has fewer features than earlier blocks, or `order` or `kinds` do not fit it.
        """
        count, width = block.shape
        explained = min(count, max(0, first_row + count - start))
        known = self.rows.shape[1]
        if width < known or len(kinds) < width or order.shape != (explained, width):
            raise InputError(
                f"conditional removal: expected blocks of at least the {known} features before, an order of shape "
                f"({explained}, {width}) and {width} kinds; got {width} features, {order.shape} and {len(kinds)}"
            )
        if width > known:
            self._widen(kinds[known:width])
        block = np.ascontiguousarray(block, np.float64)
        seen = np.where(np.isfinite(block), block, np.nan)
        nominal = sorted(self.nominal)
        seen[:, nominal] = np.minimum(seen[:, nominal], self.settings.categories - 1.0)
        out = np.empty((explained, max(0, width - 1), draws, width))
        for i in range(count):
            row = first_row + i
            if row >= start:
                at = explained - count + i
                held = self.rows[: min(row, len(self.rows))]
                draw(self.flat, self.leaves, held, self.key, row, block[i], seen[i], order[at], out[at], self.counts)
            self._enter(row, block[i], seen[i])
        return out

    def _enter(self, row: int, values: NDArray[np.float64], seen: NDArray[np.float64]) -> None:
        width = values.size
        path, length = self._ways(seen)
        ways, lengths = path.tolist(), length.tolist()
        learned = np.full(width, np.nan)
        x = {feature: value for feature, value in enumerate(seen.tolist()) if value == value}
        changed = False
        for j, target in x.items():
            tree = self.trees[j]
            if tree is None:
                tree = self.trees[j] = self._plant(j)
            others = x.copy()
            del others[j]
            self.unlearned += not tree.learn(others, target)
            way = ways[j][: lengths[j]]
            if tree.stands(way):
                learned[j] = tree.nodes[way[-1]].total_weight
            else:
                self._list_anew(j, tree)
                changed = True
        if changed:
            path, length = self._ways(seen)
        if self.leaves.spare[0] < width:
            self._make_room(width)
        grown = np.array([tree is not None for tree in self.trees], np.bool_)
        enter(self.flat, self.leaves, self.rows, self.key, row, values, grown, path, length, learned, self.counts)

    def _ways(self, seen: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        path, length = np.empty((seen.size, self.tallest), np.int64), np.empty(seen.size, np.int64)
        descend(self.flat, seen, path, length)
        return path, length

    def _plant(self, feature: int) -> StorageTree:
        seed = int(below(_SEEDS, self.key, feature, int(Purpose.STORAGE_TREE), 0))
        return StorageTree(seed, feature in self.nominal, self.nominal, self.settings.depth)

    def _list_anew(self, j: int, tree: StorageTree) -> None:
        """Update the arrays of a tree. Leaves that stay keep their values, and leaves that are gone drop them."""
        before = tree.nodes  # kept until the end, because an object's id is unique only while the object exists
        places = {
            id(node): place for node, place in zip(before, self.flat.place[j].tolist(), strict=False) if place >= 0
        }
        listed = tree.list_nodes()
        features, room = self.flat.feature.shape
        if len(listed) > room:
            self.flat = _wider(self.flat, features, max(len(listed), 2 * room))
        self.tallest = max(self.tallest, tree.height)
        for array in self.flat:
            array[j] = _blank(array.dtype)
        for array, column in zip(self.flat, zip(*listed, strict=True), strict=False):  # all arrays except `place`
            array[j, : len(listed)] = column
        for at, node in enumerate(tree.nodes):
            self.flat.place[j, at] = places.pop(id(node), -1)
        for place in places.values():
            self.leaves.held[place] = 0
            self.leaves.free[self.leaves.spare[0]] = place
            self.leaves.spare[0] += 1

    def _widen(self, kinds: Sequence[Kind]) -> None:
        """Make room for new features."""
        known = len(self.trees)
        width = known + len(kinds)
        self.nominal |= {known + at for at, kind in enumerate(kinds) if kind == Kind.TEXT}
        self.trees += [None] * len(kinds)
        self.flat = _wider(self.flat, width, self.flat.feature.shape[1])
        rows = np.full((self.settings.marginal, width), np.nan)
        rows[:, :known] = self.rows
        self.rows = rows

    def _make_room(self, wanted: int) -> None:
        """Allow more leaves to hold values, within the limit `values`."""
        old = self.leaves
        size = self.settings.size
        have = len(old.held)
        total = min(self.settings.values // size, max(2 * have, have + wanted))
        if total == have:
            return
        values, held, free = np.empty((total, size)), np.zeros(total, np.int64), np.empty(total, np.int64)
        values[:have], held[:have] = old.values, old.held
        count = int(old.spare[0])
        free[:count] = old.free[:count]
        free[count : count + total - have] = range(have, total)
        self.leaves = Leaves(values, held, free, np.array([count + total - have]))


def _blank(dtype: np.dtype[Any]) -> int:
    return -1 if dtype == np.int32 else 0


def _wider(trees: Trees, features: int, nodes: int) -> Trees:
    """Return the same trees in arrays for more features or nodes."""

    def widened(array: NDArray[Any]) -> NDArray[Any]:
        wide = np.full((features, nodes), _blank(array.dtype), array.dtype)
        wide[: array.shape[0], : array.shape[1]] = array
        return wide

    return Trees(*map(widened, trees))
