"""Ways through a tree."""

from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.leaves import total
from glasstream.models.online.sums import SKIPS_INTEGERS, add, ended


@inlined
def next_child(p: L.Pool, node: int, X: Any, e: int) -> int:
    """Return the child to which a branch sends an event; 0 if it lacks the feature or no child has its category."""
    F, I = p.F, p.I
    value = X[e, I[node + L.FEATURE]]
    kind = I[node + L.KIND]
    child = 0
    if kind == L.NUMERIC:
        if value <= F[node + L.VALUE]:
            child = I[node + L.LEFT]
        elif value == value:
            child = I[node + L.RIGHT]
    elif kind == L.NOMINAL:
        if value == F[node + L.VALUE]:
            child = I[node + L.LEFT]
        elif value == value:
            child = I[node + L.RIGHT]
    elif value == value:
        child = I[node + L.LEFT]
        while child != 0 and F[child + L.CASE] != value:
            child = I[child + L.NEXT]
    return child


@inlined
def _has_floats(p: L.Pool, leaf: int) -> bool:
    """Return whether the weight of a leaf is a float, and not an integer as that of a forest's leaf may be."""
    return p.option[L.FAMILY] != L.FOREST_FAMILY or p.option[L.REGRESSION] == 1 or p.I[leaf + L.FLOATS] > 0


@inlined
def _add_weight(p: L.Pool, level: int, weight: float, is_float: bool) -> None:
    """Add the weight of a child to that of the branch at a level of the path, as `sum` adds it."""
    sums = p.sums
    if p.path[2, level] == 1 and (is_float or not SKIPS_INTEGERS):
        sums[0, level], sums[1, level] = add(sums[0, level], sums[1, level], weight)
    else:
        sums[0, level] += weight
    if is_float:
        p.path[2, level] = 1


@inlined
def _begin_weight(p: L.Pool, level: int, branch: int) -> None:
    p.path[0, level], p.path[1, level], p.path[2, level] = branch, p.I[branch + L.LEFT], 0
    p.sums[0, level], p.sums[1, level] = 0.0, 0.0


@bare_kernel
def weight_of(p: L.Pool, root: int) -> float:
    """Return the `total_weight` of a subtree, summed as River sums it: a branch adds the sums of its children."""
    I, path, sums = p.I, p.path, p.sums
    if I[root + L.KIND] == L.LEAF:
        return total(p, root)
    level = 0
    _begin_weight(p, 0, root)
    while True:
        child = path[1, level]
        if child == 0:
            weight = ended(sums[0, level], sums[1, level])
            if level == 0:
                return weight
            level -= 1
            _add_weight(p, level, weight, path[2, level + 1] == 1)
            continue
        path[1, level] = sibling(p, path[0, level], child)
        if I[child + L.KIND] == L.LEAF:
            _add_weight(p, level, total(p, child), _has_floats(p, child))
        else:
            level += 1
            _begin_weight(p, level, child)


@inlined
def sibling(p: L.Pool, node: int, child: int) -> int:
    """Return the child of a branch that follows `child`, or 0."""
    if p.I[node + L.KIND] == L.MULTIWAY:
        return p.I[child + L.NEXT]
    return p.I[node + L.RIGHT] if child == p.I[node + L.LEFT] else 0


@bare_kernel
def common_child(p: L.Pool, node: int) -> int:
    """Return the child that `most_common_path` takes."""
    I = p.I
    best = I[node + L.LEFT]
    if I[node + L.KIND] != L.MULTIWAY:
        if weight_of(p, best) < weight_of(p, I[node + L.RIGHT]):
            best = I[node + L.RIGHT]
        return best
    most = weight_of(p, best)
    child = I[best + L.NEXT]
    while child != 0:
        weight = weight_of(p, child)
        if weight > most:
            best, most = child, weight
        child = I[child + L.NEXT]
    return best


@inlined
def find_leaf(p: L.Pool, root: int, X: Any, e: int) -> int:
    """Return the leaf that predicts an event."""
    node = root
    while p.I[node + L.KIND] != L.LEAF:
        child = next_child(p, node, X, e)
        if child == 0:
            child = common_child(p, node)
        node = child
    return node
