"""Rows in which features depend on each other, and a plain reference of drawing from storage trees."""

import random
from typing import Any

import numpy as np
from river.tree.nodes.branch import DTBranch, NominalBinaryBranch

from glasstream.base.draws import Purpose, below, uniform
from glasstream.events.features import Kind
from glasstream.explain.sampling.settings import StorageSettings
from glasstream.explain.sampling.storage import ConditionalStorage

KINDS = [Kind.NUMBER, Kind.NUMBER, Kind.TEXT, Kind.BOOLEAN, Kind.TEXT, Kind.NUMBER]
"""The last feature appears after 2,000 rows, the first vanishes after 4,000."""


def mixed(count: int, seed: int = 1) -> np.ndarray:
    """Numbers, categories and missing values of `KINDS`; what depends on what changes every 1,200 rows."""
    rng = random.Random(seed)
    rows = np.full((count, len(KINDS)), np.nan)
    for t in range(count):
        sign = 1.0 if t // 1_200 % 2 == 0 else -1.0
        x = rng.gauss(0, 1)
        colour = float((x > 0.5) + (x > -0.5)) if sign > 0 else float(rng.randrange(4))
        town = float(min(40, int(rng.expovariate(0.2)))) + (colour == 1.0)
        row = [x, sign * x + rng.gauss(0, 0.1), colour, float(x + rng.gauss(0, 0.3) > 0), town, 100 * x]
        rows[t] = [value if rng.random() > 0.08 else np.nan for value in row]
    rows[:2_000, 5] = np.nan
    rows[4_000:, 0] = np.nan
    return rows


def permutations(count: int, width: int, seed: int = 3) -> np.ndarray:
    rng = random.Random(seed)
    return np.array([rng.sample(range(width), width) for _ in range(count)], np.int64).reshape(count, width)


class Plain:
    """Leaves and draws as the paper has them, over the River trees that a `ConditionalStorage` grows.

    Nothing is flattened or kept up to date: after every row all leaves are looked up again.
    """

    def __init__(self, settings: StorageSettings, key: np.ndarray) -> None:
        self.settings, self.key = settings, key
        self.leaves: dict[int, list[tuple[Any, list[float]]]] = {}
        self.marginal: list[list[float]] = []
        self.dropped = 0
        self.fell_back = 0

    def seen(self, row: np.ndarray) -> list[float]:
        last = self.settings.categories - 1.0
        return [min(v, last) if KINDS[j] is Kind.TEXT and v == v else v for j, v in enumerate(row.tolist())]

    def draw(self, trees: list[Any], t: int, row: np.ndarray, order: np.ndarray, m: int) -> np.ndarray:
        d = len(row)
        seen = self.seen(row)
        out = np.empty((d - 1, m, d))
        for s in range(d - 1):
            present = set(order[: s + 1].tolist())
            for k in range(m):
                for j in range(d):
                    u = uniform(self.key, t, int(Purpose.STORAGE_DESCENT), (s * m + k) * d + j)
                    out[s, k, j] = row[j] if j in present else self.value(trees[j], j, seen, present, u, t, s * m + k)
        return out

    def value(self, tree: Any, j: int, seen: list[float], present: set[int], u: float, t: int, index: int) -> float:
        if tree is not None:
            node = tree.river._root
            while isinstance(node, DTBranch):
                left, right = node.children
                if node.feature in present and seen[node.feature] == seen[node.feature]:
                    stays = node.branch_no(dict(enumerate(seen))) == 0
                else:
                    share = left.total_weight / (left.total_weight + right.total_weight)
                    stays = u < share
                    u = min(u / share if stays else (u - share) / (1 - share), 1 - 2.0**-53)
                node = left if stays else right
            held = next((held for leaf, held in self.leaves.get(j, []) if leaf is node), [])
            if held:
                return held[int(u * len(held))]
        self.fell_back += 1
        if not self.marginal:
            return float("nan")
        row = self.marginal[below(len(self.marginal), self.key, t, int(Purpose.STORAGE_FALLBACK), index)]
        return row[j] if j < len(row) else float("nan")  # the feature had not appeared

    def enter(self, trees: list[Any], t: int, row: np.ndarray) -> None:
        x = {j: v for j, v in enumerate(self.seen(row)) if v == v}
        for j, tree in enumerate(trees):
            if tree is None:
                continue
            before = self.leaves.get(j, [])
            leaves = [node for node in walk(tree.river._root) if not isinstance(node, DTBranch)]
            kept = [[held for old, held in before if old is leaf] for leaf in leaves]
            self.leaves[j] = [(leaf, held[0] if held else []) for leaf, held in zip(leaves, kept, strict=True)]
            self.dropped += sum(not any(leaf is old for leaf in leaves) for old, _ in before)
            node = tree.river._root
            while isinstance(node, DTBranch):
                node = node.next(x) if node.feature in x else node.most_common_path()[1]
            held = next(held for leaf, held in self.leaves[j] if leaf is node)
            self.put(held, self.settings.size, float(row[j]), t, Purpose.STORAGE_LEAF, j)
        self.put(self.marginal, self.settings.marginal, row.tolist(), t, Purpose.RESERVOIR, 0)

    def put(self, held: list[Any], size: int, value: Any, t: int, purpose: Purpose, index: int) -> None:
        if len(held) < size:
            held.append(value)
        else:
            held[below(size, self.key, t, int(purpose), index)] = value


def walk(node: Any) -> list[Any]:
    """A node and all below it, without alternates."""
    return [node, *(below_ for child in getattr(node, "children", []) for below_ in walk(child))]


def alternates(storage: ConditionalStorage) -> tuple[int, int]:
    """Alternate trees begun, and put in a branch's place."""
    trees = [tree.river for tree in storage.trees if tree is not None]
    return sum(t.n_alternate_trees for t in trees), sum(t.n_switch_alternate_trees for t in trees)


def has_nominal_branch(storage: ConditionalStorage) -> bool:
    return any(isinstance(node, NominalBinaryBranch) for tree in storage.trees if tree for node in tree.nodes)
