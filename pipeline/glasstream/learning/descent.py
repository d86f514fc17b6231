"""Ways through a tree."""

from typing import Any

from glasstream.jit import bare_kernel, inlined
from glasstream.learning.layout import CASE, FEATURE, KIND, LEAF, LEFT, MULTIWAY, NEXT, NOMINAL, NUMERIC, RIGHT, VALUE
from glasstream.learning.leaves import total

Pool = Any


@inlined
def next_child(p: Pool, node: int, X: Any, e: int) -> int:
    """Return the child to which a branch sends an event; 0 if it lacks the feature or no child has its category."""
    F, I = p.F, p.I
    value = X[e, I[node + FEATURE]]
    kind = I[node + KIND]
    child = 0
    if kind == NUMERIC:
        if value <= F[node + VALUE]:
            child = I[node + LEFT]
        elif value == value:
            child = I[node + RIGHT]
    elif kind == NOMINAL:
        if value == F[node + VALUE]:
            child = I[node + LEFT]
        elif value == value:
            child = I[node + RIGHT]
    elif value == value:
        child = I[node + LEFT]
        while child != 0 and F[child + CASE] != value:
            child = I[child + NEXT]
    return child


@bare_kernel
def weight_of(p: Pool, root: int) -> float:
    """Return the `total_weight` of a subtree, summed as River sums it: a branch adds the sums of its children."""
    I, path, sums = p.I, p.path, p.sums
    if I[root + KIND] == LEAF:
        return total(p, root)
    level = 0
    path[0, 0], path[1, 0], sums[0] = root, I[root + LEFT], 0.0
    while True:
        child = path[1, level]
        if child == 0:
            if level == 0:
                return sums[0]
            level -= 1
            sums[level] += sums[level + 1]
            continue
        path[1, level] = sibling(p, path[0, level], child)
        if I[child + KIND] == LEAF:
            sums[level] += total(p, child)
        else:
            level += 1
            path[0, level], path[1, level], sums[level] = child, I[child + LEFT], 0.0


@inlined
def sibling(p: Pool, node: int, child: int) -> int:
    """Return the child of a branch that follows `child`, or 0."""
    if p.I[node + KIND] == MULTIWAY:
        return p.I[child + NEXT]
    return p.I[node + RIGHT] if child == p.I[node + LEFT] else 0


@bare_kernel
def common_child(p: Pool, node: int) -> int:
    """Return the child that `most_common_path` takes."""
    I = p.I
    best = I[node + LEFT]
    if I[node + KIND] != MULTIWAY:
        if weight_of(p, best) < weight_of(p, I[node + RIGHT]):
            best = I[node + RIGHT]
        return best
    most = weight_of(p, best)
    child = I[best + NEXT]
    while child != 0:
        weight = weight_of(p, child)
        if weight > most:
            best, most = child, weight
        child = I[child + NEXT]
    return best


@inlined
def find_leaf(p: Pool, root: int, X: Any, e: int) -> int:
    """Return the leaf that predicts an event."""
    node = root
    while p.I[node + KIND] != LEAF:
        child = next_child(p, node, X, e)
        if child == 0:
            child = common_child(p, node)
        node = child
    return node
