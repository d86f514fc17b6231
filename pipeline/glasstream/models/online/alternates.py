"""The nodes of an adaptive tree: their errors, the alternates of branches, and which leaves are active.

An alternate tree is always one leaf: River hands it the parent of the branch that it may replace, so when it splits it
takes that branch's place. The branch, cut off, still learns the event under way and draws from the generator.
"""

from glasstream.base.jit import Kernel, bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.adwin import new_detector, update
from glasstream.models.online.descent import sibling
from glasstream.models.online.leaves import total
from glasstream.models.online.observers import forget_slots
from glasstream.models.online.reductions import attempt_reduction
from glasstream.models.online.splits import attempt
from glasstream.models.online.twister import poisson

WAKE = 0
COUNT = 1
KILL = 2


@bare_kernel
def _visit(p: L.Pool, root: int, what: int) -> int:
    """Go through the nodes below a branch; return how many leaves it has, without alternates.

    To wake them means to activate inactive leaves and alternates, as `_enforce_size_limit` does; to kill them, to take
    them out of the tree's counts and to remove alternates.
    """
    I, path = p.I, p.path
    leaves, level = 0, 0
    path[0, 0], path[1, 0] = root, I[root + L.LEFT]
    while True:
        child = path[1, level]
        if child == 0:
            if level == 0:
                return leaves
            level -= 1
            continue
        path[1, level] = sibling(p, path[0, level], child)
        if I[child + L.KIND] != L.LEAF:
            alternate = I[child + L.ALTERNATE]
            if alternate != 0 and what == WAKE:
                _wake_leaf(p, alternate)
            elif alternate != 0 and what == KILL:
                I[child + L.ALTERNATE] = 0
                p.tree[0, L.PRUNED] += 1
            level += 1
            path[0, level], path[1, level] = child, I[child + L.LEFT]
            continue
        leaves += 1
        if what == WAKE:
            _wake_leaf(p, child)
        elif what == KILL:
            p.tree[0, L.ACTIVE_LEAVES if I[child + L.ACTIVE] == 1 else L.INACTIVE_LEAVES] -= 1


@inlined
def _wake_leaf(p: L.Pool, leaf: int) -> None:
    if p.I[leaf + L.ACTIVE] == 0 and p.I[leaf + L.DEPTH] < p.option[L.MAX_DEPTH]:
        p.I[leaf + L.ACTIVE] = 1
        p.tree[0, L.ACTIVE_LEAVES] += 1
        p.tree[0, L.INACTIVE_LEAVES] -= 1


@bare_kernel
def _wake(p: L.Pool) -> None:
    root = p.tree[0, L.ROOT]
    if p.I[root + L.KIND] == L.LEAF:
        _wake_leaf(p, root)
    else:
        _visit(p, root, WAKE)


@bare_kernel
def _replace(p: L.Pool, parent: int, node: int, by: int) -> None:
    """Put a node in the place of another one; `parent` is 0 for the root."""
    F, I = p.F, p.I
    if parent == 0:
        p.tree[0, L.ROOT] = by
        return
    if I[parent + L.KIND] == L.MULTIWAY:
        F[by + L.CASE] = F[node + L.CASE]
        I[by + L.NEXT] = I[node + L.NEXT]
        if I[parent + L.LEFT] != node:
            before = I[parent + L.LEFT]
            while I[before + L.NEXT] != node and I[before + L.NEXT] != 0:
                before = I[before + L.NEXT]
            I[before + L.NEXT] = by
    if I[parent + L.LEFT] == node:
        I[parent + L.LEFT] = by
    if I[parent + L.RIGHT] == node:
        I[parent + L.RIGHT] = by


@inlined
def _deactivate(p: L.Pool, leaf: int) -> None:
    p.I[leaf + L.ACTIVE] = 0
    forget_slots(p, leaf)
    p.tree[0, L.INACTIVE_LEAVES] += 1
    p.tree[0, L.ACTIVE_LEAVES] -= 1


@inlined
def begin_alternate(p: L.Pool, node: int, alternate: int) -> None:
    """Let a new leaf be the alternate of a branch."""
    p.I[node + L.ALTERNATE] = alternate
    p.tree[0, L.ALTERNATES] += 1


@inlined
def drop_alternate(p: L.Pool, node: int) -> None:
    """Cut off the alternate of a branch, which is worse."""
    p.I[node + L.ALTERNATE] = 0
    p.tree[0, L.PRUNED] += 1


@inlined
def switch(p: L.Pool, node: int, parent: int, alternate: int) -> int:
    """Let an alternate take the place of its branch; return the alternate if it still learns the event, or 0."""
    p.tree[0, L.ACTIVE_LEAVES] += 1 - _visit(p, node, COUNT)
    _visit(p, node, KILL)
    _replace(p, parent, node, alternate)
    p.I[node + L.ALTERNATE] = 0
    p.tree[0, L.SWITCHED] += 1
    return alternate if parent == 0 else 0


@inlined
def drawn_weight(p: L.Pool, weight: float) -> float:
    """Return the weight with which a leaf learns an event: with bootstrap sampling, it is drawn."""
    if p.option[L.BOOTSTRAP] == 1:
        draw = poisson(p.twister, p.position, p.number[L.POISSON_LIMIT])
        if draw > 0:
            weight *= draw
    return weight


def _judging(regression: bool) -> tuple[Kernel, Kernel, Kernel]:
    """Return kernels that watch the errors of nodes and let leaves grow, for regressors or for classifiers."""

    @inlined
    def forget_error(p: L.Pool, node: int) -> None:
        """Begin the statistics of a node's error again."""
        p.F[node + L.ERROR_COUNT], p.F[node + L.ERROR_MEAN] = 0.0, 0.0
        if regression:
            p.F[p.I[node + L.WEIGHTS] + L.ERROR_DEVIATION] = 0.0

    @inlined
    def observe_error(p: L.Pool, node: int, error: float) -> bool:
        """Update a node's detector and the statistics of its error; return whether the error has risen."""
        F, I = p.F, p.I
        before = F[node + L.ERROR_MEAN]
        I[node + L.DETECTOR] = update(F, I, p.control, p.detector, I[node + L.DETECTOR], 1, error)
        F[node + L.ERROR_COUNT] += 1.0
        F[node + L.ERROR_MEAN] += (1.0 / F[node + L.ERROR_COUNT]) * (error - before)
        if regression:
            F[I[node + L.WEIGHTS] + L.ERROR_DEVIATION] += (error - before) * (error - F[node + L.ERROR_MEAN])
        changed = I[I[node + L.DETECTOR] + L.DETECTED] == 1
        if changed and F[node + L.ERROR_MEAN] < before:
            forget_error(p, node)
            changed = False
        return changed

    @inlined
    def grow(p: L.Pool, leaf: int, is_alternate: bool, owner: int, parent: int) -> None:
        """Split a leaf that has learned enough. An alternate that splits takes the place of `owner` below `parent`."""
        F, I = p.F, p.I
        seen = total(p, leaf)
        if not seen - F[leaf + L.LAST] >= p.number[L.GRACE]:
            return
        if I[leaf + L.DEPTH] >= p.option[L.MAX_DEPTH]:
            _deactivate(p, leaf)
        elif I[leaf + L.ACTIVE] == 1:
            children = attempt_reduction(p, leaf, seen) if regression else attempt(p, leaf, seen)
            if children > 0:
                p.tree[0, L.ACTIVE_LEAVES] += children - 1
                I[leaf + L.DETECTOR] = new_detector(p, 1)
                forget_error(p, leaf)
                if is_alternate:
                    _replace(p, parent, owner, leaf)
                    I[owner + L.ALTERNATE] = 0
                _wake(p)
                return
            F[leaf + L.LAST] = seen
            if children < 0:
                _deactivate(p, leaf)
                _wake(p)

    return forget_error, observe_error, grow


forget_class_error, observe_class_error, grow_class_leaf = _judging(regression=False)
forget_target_error, observe_target_error, grow_target_leaf = _judging(regression=True)
