"""Trees as arrays, and the kernels that walk them.

Everything that the machine code depends on is in this one file. numba's cache only notices changes of a kernel's own
file, so a change of a constant, field or kernel in another file would leave stale code behind.

The kernels do not check bounds. `branches`, `votes` and `means` make arrays that fit, and `tree_arrays` checks those of
a snapshot.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from glasstream.base.jit import bare_kernel, inlined, kernel
from glasstream.models.predictors.arrays import Array, Bytes, Flags, Indices, Numbers
from glasstream.models.predictors.predictor import Floats, Integers

LEAF = 0
NUMERIC_BINARY = 1
NOMINAL_BINARY = 2
NOMINAL_MULTIWAY = 3
NUMERIC_MULTIWAY = 4
UNTESTED = 5


class Branches(NamedTuple):
    """The branches that route a row: the nodes of all trees; a node's descendants come after it.

    Attributes
    ----------
    kind
        int8[N]: LEAF, NUMERIC_BINARY (x <= threshold), NOMINAL_BINARY (x == threshold), NOMINAL_MULTIWAY (a case for
        x), NUMERIC_MULTIWAY (a case for floor(x / threshold)) or UNTESTED (no row has its feature).
    feature
        int32[N]: slot.
    threshold
        float64[N]
    first, last
        int32[N]: the two children of a binary branch, one after the other; the range of a multiway one's cases; of a
        leaf its number.
    common
        int32[N]: the child for rows without the feature, or without a case.
    alternate
        int32[N]: root of the alternate tree that grows beside this branch, or -1.
    case_value, case_child
        float64[C], int32[C]: the cases, in a branch's range sorted by value.
    root
        int32[T]: the root of each tree, -1 for one that has learned nothing.
    """

    kind: Bytes
    feature: Indices
    threshold: Numbers
    first: Indices
    last: Indices
    common: Indices
    alternate: Indices
    case_value: Numbers
    case_child: Indices
    root: Indices


class Votes(NamedTuple):
    """The votes of the L leaves of classification trees.

    A leaf's entries are its classes in the order of its statistics. A class without an entry gets no vote,
    which differs from a log vote of 0. The terms of a naive Bayes leaf are its features in order of appearance.

    Attributes
    ----------
    start
        int32[L + 1]: cuts the entries.
    label, vote
        int32[E], float64[E]: class, as its place in River's dict; share, or log prior in a naive Bayes leaf.
    bayes
        bool[L]: naive Bayes over two classes or more, else the votes are constant.
    error
        float64[L]: mean error of an adaptive tree's naive Bayes leaf, by whose square its votes are divided; else 0.
    term_start
        int32[L + 1]: cuts the terms.
    term_feature
        int32[M]: slot.
    term_first, term_last
        int32[M]: the range of categories of a nominal feature. A feature with a normal distribution per class has
        term_last = -1 and term_first = its first row in the densities, one row an entry.
    term_log
        int32[M]: start of the logs of a nominal feature, one an entry for each category.
    centre, curvature, peak
        float64[G]: the densities: mean, -1 / (2 variance), and log of the density at the mean. Both of the last are 0
        where the class has no density.
    category, log
        float64[V], float64[W]: categories, in a term's range sorted, and log shares (0 for none).
    """

    start: Indices
    label: Indices
    vote: Numbers
    bayes: Flags
    error: Numbers
    term_start: Indices
    term_feature: Indices
    term_first: Indices
    term_last: Indices
    term_log: Indices
    centre: Numbers
    curvature: Numbers
    peak: Numbers
    category: Numbers
    log: Numbers


class Means(NamedTuple):
    """The answers of the L leaves of regression trees: value + the dot product of their weights and the row.

    Attributes
    ----------
    value
        float64[L]: mean of the target, or intercept.
    start
        int32[L + 1]: cuts the weights; a leaf that answers its mean has none.
    slot, weight
        int32[W], float64[W]: in a leaf sorted by slot, the order in which River adds the features of a row.
    """

    value: Numbers
    start: Indices
    slot: Indices
    weight: Numbers


@inlined
def below(values: Floats, first: int, last: int, x: float) -> int:
    """Return the end of the numbers below `x` in the sorted `values[first:last]`."""
    while first < last:
        middle = (first + last) >> 1
        if values[middle] < x:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def find(values: Floats, first: int, last: int, x: float) -> int:
    """Return the position of `x` in the sorted `values[first:last]`, or -1."""
    at = below(values, first, last, x)
    return at if at < last and values[at] == x else -1


@inlined
def step(branches: Branches, node: Any, x: float) -> tuple[Any, Any]:
    """Return the child of a branch to which `x` goes, and whether it is the default child."""
    kind, first, last = branches.kind[node], branches.first[node], branches.last[node]
    if x != x:  # NaN: absent
        return branches.common[node], True
    if kind == NUMERIC_BINARY:
        return (first if x <= branches.threshold[node] else last), False
    if kind == NOMINAL_BINARY:
        return (first if x == branches.threshold[node] else last), False
    if kind == NUMERIC_MULTIWAY:
        x = np.floor(x / branches.threshold[node])
    case = find(branches.case_value, first, last, x)
    if case < 0:
        return branches.common[node], True
    return branches.case_child[case], False


@inlined
def _descend(branches: Branches, node: Any, passed: Any, rows: Floats, i: int) -> tuple[Any, Any]:
    """Return the first node from `node` on that is no plain numeric branch, and whether it was reached by default.

    Most branches are plain numeric ones, so this loop handles no other cases.
    """
    kind, feature, threshold, first, _, common, alternate, _, _, _ = branches
    at = np.uint64(node)
    while kind[at] == NUMERIC_BINARY and alternate[at] < 0:
        x = rows[i, np.uint64(feature[at])]
        passed = x != x
        at = np.uint64(common[at]) if passed else np.uint64(first[at]) + np.uint64(x > threshold[at])
    return np.int64(at), passed


@inlined
def _to_leaf(
    branches: Branches, node: Any, passed: Any, top: int, stack: tuple[Integers, Array], rows: Floats, i: int
) -> tuple[Any, int]:
    """Return the first leaf that row `i` reaches from `node` on, and the number of nodes that wait on the stack."""
    kind = branches.kind
    waiting, waiting_passed = stack
    node, passed = _descend(branches, node, passed, rows, i)
    while kind[node] != LEAF:
        other = branches.alternate[node]
        child, child_passed = step(
            branches, node, np.nan if kind[node] == UNTESTED else rows[i, branches.feature[node]]
        )
        if other >= 0:  # alternates come before the children, as in River's list
            waiting[top], waiting_passed[top] = child, child_passed
            top += 1
            if passed and kind[other] == LEAF:  # River lists a branch that was reached by default twice
                waiting[top], waiting_passed[top] = other, False
                top += 1
            child, child_passed = other, False
        node, passed = _descend(branches, np.int64(child), child_passed, rows, i)
    return branches.first[node], top


@kernel
def _stack(branches: Branches) -> tuple[Integers, Array]:
    """Return room for the nodes that can wait beside the path of one row, and whether they were reached by default."""
    size = 2 * np.count_nonzero(branches.alternate >= 0)
    return np.empty(size, np.int64), np.empty(size, np.bool_)


@inlined
def log_density(x: float, centre: float, curvature: float, peak: float) -> float:
    """Return the log density of a normal distribution.

    If the density is undefined or vanishes, the result is 0, which changes no sum of logs.
    """
    off = x - centre
    log = off * off * curvature + peak
    return log if log > -np.inf else 0.0


@inlined
def to_shares(logs: Floats, first: int, count: int, weight: float) -> None:
    """Turn `count` numbers of `logs` from `first` on into shares of their sum, times `weight`."""
    best = first
    for j in range(first + 1, first + count):
        if logs[j] > logs[best]:
            best = j
    largest = logs[best]
    total = 0.0
    for j in range(first, first + count):
        logs[j] = 1.0 if j == best else math.exp(logs[j] - largest)
        total += logs[j]
    weight = weight / total
    for j in range(first, first + count):
        logs[j] *= weight


@inlined
def leaf_weight(error: float, weight: float) -> float:
    """Return the factor of a naive Bayes leaf's shares: the tree's weight over the leaf's squared error, if any."""
    squared = error * error
    return weight if squared == 0.0 or squared != squared else weight / squared


@kernel
def classify(rows: Floats, branches: Branches, votes: Votes, weights: Floats, scores: Floats) -> None:
    """Add to `scores` float64[n, c] the votes of the trees on `rows` float64[n, >= d], times `weights` float64[T].

    Tree by tree, so that one tree at a time fills the cache; a row's sum is over the trees in their order all the
    same.
    """
    _classify(rows, branches, votes, weights, scores, _stack(branches), _logs(votes))


@kernel
def _logs(votes: Votes) -> Floats:
    """Return scratch space for the logs of the largest leaf."""
    return np.empty(np.max(np.diff(votes.start))) if votes.start.size > 1 else np.empty(0)


@bare_kernel
def _classify(
    rows: Floats,
    branches: Branches,
    votes: Votes,
    weights: Floats,
    scores: Floats,
    stack: tuple[Integers, Array],
    logs: Floats,
) -> None:
    root = branches.root
    start, label, vote, bayes, error, term_start, term_feature, term_first, term_last, term_log = votes[:10]
    centre, curvature, peak, category, log = votes[10:]
    for tree in range(root.size):
        if root[tree] < 0:
            continue
        weight = weights[tree]
        for i in range(rows.shape[0]):
            node, passed, top = np.int64(root[tree]), False, 0
            while True:
                leaf, top = _to_leaf(branches, node, passed, top, stack, rows, i)
                begin, end = start[leaf], start[leaf + 1]
                if bayes[leaf]:
                    count = end - begin
                    for entry in range(begin, end):
                        logs[entry - begin] = vote[entry]
                    for term in range(term_start[leaf], term_start[leaf + 1]):
                        x = rows[i, term_feature[term]]
                        if x != x:
                            continue
                        low, high = term_first[term], term_last[term]
                        if high < 0:
                            for j in range(count):
                                logs[j] += log_density(x, centre[low + j], curvature[low + j], peak[low + j])
                            continue
                        case = find(category, low, high, x)
                        if case >= 0:
                            base = term_log[term] + (case - low) * count
                            for j in range(count):
                                logs[j] += log[base + j]
                    to_shares(logs, 0, count, leaf_weight(error[leaf], weight))
                    for entry in range(begin, end):
                        scores[i, label[entry]] += logs[entry - begin]
                else:
                    for entry in range(begin, end):
                        scores[i, label[entry]] += vote[entry] * weight
                if top == 0:
                    break
                top -= 1
                node, passed = stack[0][top], stack[1][top]


@kernel
def regress(rows: Floats, branches: Branches, means: Means, weights: Floats, answers: Floats) -> None:
    """Fill `answers` float64[n, T], zero before, with the answer of each tree for `rows` float64[n, >= d].

    The answer is the mean of the leaves that a row reaches (its own and those of alternate trees), times the tree's
    weight.
    """
    _regress(rows, branches, means, weights, answers, _stack(branches))


@bare_kernel
def _regress(
    rows: Floats, branches: Branches, means: Means, weights: Floats, answers: Floats, stack: tuple[Integers, Array]
) -> None:
    root = branches.root
    start, slot, factor = means.start, means.slot, means.weight
    for tree in range(root.size):
        if root[tree] < 0:
            continue
        for i in range(rows.shape[0]):
            node, passed, top = np.int64(root[tree]), False, 0
            total = 0.0
            reached = 0
            while True:
                leaf, top = _to_leaf(branches, node, passed, top, stack, rows, i)
                dot = 0.0
                for entry in range(start[leaf], start[leaf + 1]):
                    x = rows[i, slot[entry]]
                    if x == x:
                        dot += x * factor[entry]
                total += dot + means.value[leaf]
                reached += 1
                if top == 0:
                    break
                top -= 1
                node, passed = stack[0][top], stack[1][top]
            answers[i, tree] = total / reached * weights[tree]
