"""HoeffdingAdaptiveTreeClassifier: a block of events in one call.

An alternate tree is always one leaf: River hands it the parent of the branch that it may replace, so when it splits it
takes that branch's place. The branch, cut off, still learns the event under way and draws from the generator.
"""

import math
from typing import Any

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.adwin import new_detector, update
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import common_child, find_leaf, next_child, sibling
from glasstream.models.online.leaves import UNASKED, add_weight, forget_slots, label_of, learn_leaf, new_leaf, total
from glasstream.models.online.splits import append_child, attempt
from glasstream.models.online.sums import add, ended
from glasstream.models.online.twister import poisson
from glasstream.models.online.votes import BAYES_ROW, MAJORITY_ROW, OTHER_ROW, ask_leaf, refuses, says_bayes

Pool = Any

_ANSWER_ROW = 7
"""Row of `room` with a leaf's answer, weighted by its error."""
WAKE = 0
COUNT = 1
KILL = 2


@bare_kernel
def adaptive_block(
    p: Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, votes: Any, sequence: Any, labels: Any
) -> int:
    """Predict, then learn, the events from `first` on; parameters and result as of `tree.tree_block`."""
    for e in range(first, X.shape[0]):
        if not has_room(p, order.size):
            return e
        label = y[e]
        root = p.tree[0, L.ROOT]
        leaf, said, naive, answer = 0, UNASKED, UNASKED, -1
        if root != 0:
            leaf = find_leaf(p, root, X, e)
            said, naive, answer = _ask(p, leaf, X, e, MAJORITY_ROW, BAYES_ROW)
        if says[e]:
            _say(p, leaf, answer, X, e, votes, sequence, labels)
            if says[e] == L.FINITE and refuses(e, votes, sequence, labels):
                continue
        if label >= 0:
            p.seen[0, label] = 1
            _learn(p, leaf, said, naive, answer, X, e, order, label, weight[e])
    return X.shape[0]


@bare_kernel
def _ask(p: Pool, leaf: int, X: Any, e: int, shares: int, by_bayes: int) -> tuple[int, int, int]:
    """Return what a leaf predicts by majority and by naive Bayes, as of `votes.ask_leaf`, and the class it answers."""
    if p.I[leaf + L.CLASSES] == 0:
        return UNASKED, UNASKED, -1
    said, naive = ask_leaf(p, leaf, X, e, shares, by_bayes)
    if said != UNASKED:
        return said, naive, _weigh(p, leaf, shares)
    return said, naive, _weigh(p, leaf, by_bayes) if naive >= 0 else -1


@inlined
def _weigh(p: Pool, leaf: int, row: int) -> int:
    """Write a leaf's answer to `_ANSWER_ROW`: its probabilities, less the larger its error; return its class."""
    count = p.I[leaf + L.CLASSES]
    added, rest = 0.0, 0.0
    for j in range(count):
        added, rest = add(added, rest, p.room[row, j])
    error = p.F[leaf + L.ERROR_MEAN]
    factor = ended(added, rest) * error * error
    scale = 1.0
    if factor != 0.0 and factor == factor:
        scale = 1.0 / factor
    best = -1
    for j in range(count):
        p.room[_ANSWER_ROW, j] = p.room[row, j] * scale
        if best < 0 or p.room[_ANSWER_ROW, j] > p.room[_ANSWER_ROW, best]:
            best = j
    return label_of(p, leaf, best)


@inlined
def _say(p: Pool, leaf: int, answer: int, X: Any, e: int, votes: Any, sequence: Any, labels: Any) -> None:
    classes = p.by_label.size
    count = 0
    for c in range(classes):
        votes[e, c] = np.nan
        sequence[e, c] = -1
        if p.seen[0, c] == 1:
            votes[e, c] = 0.0
            sequence[e, count] = c
            count += 1
    labels[e] = sequence[e, 0] if count > 0 else -1
    if leaf == 0:
        return
    _add_alternates(p, X, e, votes)
    if answer >= 0:
        # The alternates have written to the row of the answer.
        _weigh(p, leaf, BAYES_ROW if says_bayes(p, leaf) else MAJORITY_ROW)
        _add_answer(p, leaf, e, votes)
    added, rest = 0.0, 0.0
    for q in range(count):
        added, rest = add(added, rest, votes[e, sequence[e, q]])
    added = ended(added, rest)
    scale = 1.0
    if added != 0.0 and added == added:
        scale = 1.0 / added
    best = -1
    for q in range(count):
        c = sequence[e, q]
        votes[e, c] *= scale
        if best < 0 or votes[e, c] > votes[e, best]:
            best = c
    labels[e] = best


@inlined
def _add_answer(p: Pool, leaf: int, e: int, votes: Any) -> None:
    for j in range(p.I[leaf + L.CLASSES]):
        votes[e, label_of(p, leaf, j)] += p.room[_ANSWER_ROW, j]


@bare_kernel
def _add_alternates(p: Pool, X: Any, e: int, votes: Any) -> None:
    """Add the answers of the alternates of the branches on the way.

    Where an event lacks the feature of a branch, River visits the child that it then takes twice.
    """
    node, visits = p.tree[0, L.ROOT], 1
    while p.I[node + L.KIND] != L.LEAF:
        alternate = p.I[node + L.ALTERNATE]
        if alternate != 0:
            _, _, answer = _ask(p, alternate, X, e, OTHER_ROW, OTHER_ROW)
            if answer >= 0:
                for _ in range(visits):
                    _add_answer(p, alternate, e, votes)
        child, visits = next_child(p, node, X, e), 1
        if child == 0:
            child, visits = common_child(p, node), 2
        node = child


# --- Learning ---------------------------------------------------------------------------------------------------------
@inlined
def _observe(p: Pool, node: int, wrong: float) -> bool:
    """Update a node's detector and error; return whether its error has risen."""
    F, I = p.F, p.I
    before = F[node + L.ERROR_MEAN]
    I[node + L.DETECTOR] = update(F, I, p.control, p.detector, I[node + L.DETECTOR], 1, wrong)
    F[node + L.ERROR_COUNT] += 1.0
    F[node + L.ERROR_MEAN] += (1.0 / F[node + L.ERROR_COUNT]) * (wrong - F[node + L.ERROR_MEAN])
    changed = I[I[node + L.DETECTOR] + L.DETECTED] == 1
    if changed and before > F[node + L.ERROR_MEAN]:
        F[node + L.ERROR_COUNT] = 0.0
        F[node + L.ERROR_MEAN] = 0.0
        changed = False
    return changed


@bare_kernel
def visit(p: Pool, root: int, what: int) -> int:
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
def _wake_leaf(p: Pool, leaf: int) -> None:
    if p.I[leaf + L.ACTIVE] == 0 and p.I[leaf + L.DEPTH] < p.option[L.MAX_DEPTH]:
        p.I[leaf + L.ACTIVE] = 1
        p.tree[0, L.ACTIVE_LEAVES] += 1
        p.tree[0, L.INACTIVE_LEAVES] -= 1


@bare_kernel
def wake(p: Pool) -> None:
    root = p.tree[0, L.ROOT]
    if p.I[root + L.KIND] == L.LEAF:
        _wake_leaf(p, root)
    else:
        visit(p, root, WAKE)


@bare_kernel
def replace(p: Pool, parent: int, node: int, by: int) -> None:
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
def _learn(
    p: Pool, leaf: int, said: int, naive: int, answer: int, X: Any, e: int, order: Any, label: int, weight: float
) -> None:
    F, I = p.F, p.I
    p.tree[0, L.LEARNED] += int(weight)
    node, parent = p.tree[0, L.ROOT], 0
    if node == 0:
        node = leaf = new_leaf(p, 0, 0)
        p.tree[0, L.ROOT] = node
        p.tree[0, L.ACTIVE_LEAVES] = 1
    active = I[leaf + L.ACTIVE]
    while I[node + L.KIND] != L.LEAF:
        if I[leaf + L.ACTIVE] != active:  # an alternate that learned above has woken the leaf
            active = I[leaf + L.ACTIVE]
            said, naive, answer = _ask(p, leaf, X, e, MAJORITY_ROW, BAYES_ROW)
        add_weight(p, node, label, weight)
        alternate = I[node + L.ALTERNATE]
        if _observe(p, node, 0.0 if answer == label else 1.0):
            F[node + L.ERROR_COUNT], F[node + L.ERROR_MEAN] = 0.0, 0.0
            alternate = new_leaf(p, I[node + L.DEPTH], 0)
            I[node + L.ALTERNATE] = alternate
            p.tree[0, L.ALTERNATES] += 1
        elif alternate != 0:
            alternate = _compare(p, node, parent, alternate)
        if alternate != 0:
            others = _ask(p, alternate, X, e, OTHER_ROW, OTHER_ROW)
            _learn_leaf(p, alternate, others[0], others[1], others[2], X, e, order, label, weight, True, node, parent)
        child = next_child(p, node, X, e)
        if child == 0:
            value = X[e, I[node + L.FEATURE]]
            if I[node + L.KIND] == L.MULTIWAY and value == value:
                child = new_leaf(p, I[node + L.DEPTH] + 1, 0)
                append_child(p, node, child, value)
                p.tree[0, L.ACTIVE_LEAVES] += 1
            else:
                child = common_child(p, node)
        parent, node = node, child
    if node != leaf or I[node + L.ACTIVE] != active:
        said, naive, answer = _ask(p, node, X, e, MAJORITY_ROW, BAYES_ROW)
    _learn_leaf(p, node, said, naive, answer, X, e, order, label, weight, False, 0, parent)


@bare_kernel
def _compare(p: Pool, node: int, parent: int, alternate: int) -> int:
    """Let an alternate take its branch's place, or drop it; return the alternate that still learns, or 0."""
    F = p.F
    window = p.number[L.SWITCH_WINDOW]
    if not (F[alternate + L.ERROR_COUNT] > window and F[node + L.ERROR_COUNT] > window):
        return alternate
    error, other = F[node + L.ERROR_MEAN], F[alternate + L.ERROR_MEAN]
    reciprocal = 1.0 / F[alternate + L.ERROR_COUNT] + 1.0 / F[node + L.ERROR_COUNT]
    bound = math.sqrt(2.0 * error * (1.0 - error) * p.number[L.SWITCH_LOG] * reciprocal)
    if bound < error - other:
        p.tree[0, L.ACTIVE_LEAVES] += 1 - visit(p, node, COUNT)
        visit(p, node, KILL)
        replace(p, parent, node, alternate)
        p.I[node + L.ALTERNATE] = 0
        p.tree[0, L.SWITCHED] += 1
        return alternate if parent == 0 else 0
    if bound < other - error:
        p.I[node + L.ALTERNATE] = 0
        p.tree[0, L.PRUNED] += 1
        return 0
    return alternate


@bare_kernel
def _learn_leaf(
    p: Pool, leaf: int, said: int, naive: int, answer: int, X: Any, e: int, order: Any, label: int, weight: float,
    is_alternate: bool, owner: int, parent: int,
) -> None:  # fmt: skip
    """`learn_one` of a leaf. Where an alternate splits, it takes the place of `owner` below `parent`."""
    F, I = p.F, p.I
    if p.option[L.BOOTSTRAP] == 1:
        draw = poisson(p.twister, p.position, p.number[L.POISSON_LIMIT])
        if draw > 0:
            weight *= draw
    _observe(p, leaf, 0.0 if answer == label else 1.0)
    learn_leaf(p, leaf, X, e, order, label, weight, said, naive)
    seen = total(p, leaf)
    if not seen - F[leaf + L.LAST] >= p.number[L.GRACE]:
        return
    if I[leaf + L.DEPTH] >= p.option[L.MAX_DEPTH]:
        deactivate(p, leaf)
    elif I[leaf + L.ACTIVE] == 1:
        children = attempt(p, leaf, seen)
        if children > 0:
            p.tree[0, L.ACTIVE_LEAVES] += children - 1
            I[leaf + L.DETECTOR] = new_detector(p, 1)
            F[leaf + L.ERROR_COUNT], F[leaf + L.ERROR_MEAN] = 0.0, 0.0
            if is_alternate:
                replace(p, parent, owner, leaf)
                I[owner + L.ALTERNATE] = 0
            wake(p)
            return
        F[leaf + L.LAST] = seen
        if children < 0:
            deactivate(p, leaf)
            wake(p)


@inlined
def deactivate(p: Pool, leaf: int) -> None:
    p.I[leaf + L.ACTIVE] = 0
    forget_slots(p, leaf)
    p.tree[0, L.INACTIVE_LEAVES] += 1
    p.tree[0, L.ACTIVE_LEAVES] -= 1
