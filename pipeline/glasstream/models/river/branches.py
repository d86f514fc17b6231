"""The branches of River's Hoeffding trees, flattened."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from river.tree.nodes import branch, efdtc_nodes, hatc_nodes, hatr_nodes

from glasstream.base.errors import NotCompilable
from glasstream.models.predictors.arrays import sealed_tuple
from glasstream.models.predictors.kernels import walk
from glasstream.models.predictors.kernels.walk import Branches
from glasstream.models.predictors.slots import ABSENT, Slots

_KINDS: dict[type, int] = {
    branch.NumericBinaryBranch: walk.NUMERIC_BINARY,
    branch.NominalBinaryBranch: walk.NOMINAL_BINARY,
    branch.NominalMultiwayBranch: walk.NOMINAL_MULTIWAY,
    branch.NumericMultiwayBranch: walk.NUMERIC_MULTIWAY,
    efdtc_nodes.EFDTNumericBinaryBranch: walk.NUMERIC_BINARY,
    efdtc_nodes.EFDTNominalBinaryBranch: walk.NOMINAL_BINARY,
    efdtc_nodes.EFDTNominalMultiwayBranch: walk.NOMINAL_MULTIWAY,
    efdtc_nodes.EFDTNumericMultiwayBranch: walk.NUMERIC_MULTIWAY,
    hatc_nodes.AdaNumBinaryBranchClass: walk.NUMERIC_BINARY,
    hatc_nodes.AdaNomBinaryBranchClass: walk.NOMINAL_BINARY,
    hatc_nodes.AdaNomMultiwayBranchClass: walk.NOMINAL_MULTIWAY,
    hatc_nodes.AdaNumMultiwayBranchClass: walk.NUMERIC_MULTIWAY,
    hatr_nodes.AdaNumBinaryBranchReg: walk.NUMERIC_BINARY,
    hatr_nodes.AdaNomBinaryBranchReg: walk.NOMINAL_BINARY,
    hatr_nodes.AdaNomMultiwayBranchReg: walk.NOMINAL_MULTIWAY,
    hatr_nodes.AdaNumMultiwayBranchReg: walk.NUMERIC_MULTIWAY,
}
"""Exact types: a subclass may route rows differently."""


def flatten(
    roots: Iterable[Any], slots: Slots, leaf_types: Mapping[type, object], weight: Callable[[Any], float]
) -> tuple[Branches, list[list[Any]]]:
    """Return the branches of the trees at `roots` (None for an empty tree), and each tree's leaves.

    The leaves are numbered through all trees in the order in which they are returned.

    Parameters
    ----------
    leaf_types
        Exact types of the leaves that the caller can flatten.
    weight
        Function that returns the total weight that a leaf has seen. Rows without a branch's feature go to the child
        that has seen most.

    Raises
    ------
    NotCompilable
        A node has an unknown type.
    """
    nodes: list[list[float]] = []  # for each node, the first seven fields of Branches
    cases: list[tuple[float, int]] = []
    root_nodes: list[int] = []
    leaves: list[list[Any]] = []
    numbered = 0
    for root in roots:
        start = len(nodes)
        root_nodes.append(start if root is not None else -1)
        found = [root] if root is not None else []
        own_leaves: list[Any] = []
        children: list[tuple[int, int, int]] = []  # (node, first child, number of children), counted from `start`
        weights: list[float] = []
        for at, node in enumerate(found):  # grows during the loop
            kind = _KINDS.get(type(node))
            if kind is None:
                if type(node) not in leaf_types:
                    raise NotCompilable(f"a tree has a node of type {type(node).__name__}, whose rules are not known")
                nodes.append([walk.LEAF, 0, 0.0, numbered, 0, 0, -1])
                weights.append(weight(node))
                own_leaves.append(node)
                numbered += 1
                continue
            first = start + len(found)
            children.append((at, len(found), len(node.children)))
            found.extend(node.children)
            alternate = getattr(node, "_alternate_tree", None)
            if alternate is not None:
                found.append(alternate)
            slot, threshold, entries = _test(node, kind, slots)
            last = first + 1
            if slot == ABSENT:
                kind, slot = walk.UNTESTED, 0
            elif entries is not None:
                first, last = len(cases), len(cases) + len(entries)
                cases.extend((value, start + children[-1][1] + child) for value, child in entries)
            beside = -1 if alternate is None else start + len(found) - 1
            nodes.append([kind, slot, threshold, first, last, -1, beside])
            weights.append(0.0)
        for at, child, count in reversed(children):
            below = weights[child : child + count]
            if isinstance(found[at], efdtc_nodes.BaseEFDTBranch):
                weights[at] = found[at].total_weight  # such a branch keeps learning while its children start over
            else:
                weights[at] = sum(below)  # in the order of River's own sum, starting from 0
            nodes[start + at][5] = start + child + max(range(count), key=below.__getitem__)
        leaves.append(own_leaves)
    columns = np.array(nodes, np.float64).reshape(len(nodes), 7).T  # node numbers are far below 2**53
    arrays = [*columns, [value for value, _ in cases], [child for _, child in cases], root_nodes]
    return sealed_tuple(Branches, arrays), leaves


def _test(node: Any, kind: int, slots: Slots) -> tuple[int, float, list[tuple[float, int]] | None]:
    """Return slot, threshold and, for a multiway branch, the sorted cases: (value, place among the children)."""
    if kind == walk.NUMERIC_BINARY:
        return slots.numeric(node.feature, "a branch"), node.threshold, None
    if kind == walk.NUMERIC_MULTIWAY:
        slot = slots.numeric(node.feature, "a branch")
        return slot, node.radius, sorted((float(key), child) for key, child in node._mapping.items())
    slot = slots.slot(node.feature)
    if kind == walk.NOMINAL_BINARY:
        value = slots.value(slot, node.value)
        return slot, np.nan if value is None else value, None  # NaN equals nothing: no row can hold the value
    values = ((slots.value(slot, key), child) for key, child in node._mapping.items())
    return slot, 0.0, sorted((value, child) for value, child in values if value is not None)
