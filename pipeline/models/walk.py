"""Trees as arrays, and the kernels that walk them.

Everything that the machine code depends on stands in this one file: numba's cache notices a change of a kernel's own
file only, so a constant, a field or a called kernel elsewhere would leave stale code behind.

The kernels do not check bounds. `branches`, `votes` and `means` make arrays that fit, and check those of a snapshot.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from pipeline.jit import kernel
from pipeline.models.arrays import Array
from pipeline.models.predictor import Floats, Integers

LEAF = 0
NUMERIC_BINARY = 1
NOMINAL_BINARY = 2
NOMINAL_MULTIWAY = 3
NUMERIC_MULTIWAY = 4
UNTESTED = 5

PLAIN = 0
"""One tree; its votes are the result."""
FOREST = 1
"""The sum of the trees' weighted votes, divided by its total."""
ADAPTIVE = 2
"""One tree with alternates; the sum of their votes, multiplied by the inverse of its total."""

MEAN = 0
MEDIAN = 1

HALF_LOG_TAU = 0.5 * math.log(math.tau)


class Branches(NamedTuple):
    """Where a row goes: the nodes of all trees, a node's descendants after it.

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

    kind: Array
    feature: Array
    threshold: Array
    first: Array
    last: Array
    common: Array
    alternate: Array
    case_value: Array
    case_child: Array
    root: Array


class Votes(NamedTuple):
    """What the L leaves of classification trees vote.

    A leaf's entries are its classes in the order of its statistics. A class without an entry gets no vote: that is
    not a log vote of 0. The terms of a naive Bayes leaf are its features in the order in which it saw them.

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
    centre, divisor, log_sigma
        float64[G]: the densities: mean, -2 variance (0 where the class has no density) and half the log variance.
    category, log
        float64[V], float64[W]: categories, in a term's range sorted, and log shares (0 for none).
    """

    start: Array
    label: Array
    vote: Array
    bayes: Array
    error: Array
    term_start: Array
    term_feature: Array
    term_first: Array
    term_last: Array
    term_log: Array
    centre: Array
    divisor: Array
    log_sigma: Array
    category: Array
    log: Array


class Means(NamedTuple):
    """What the L leaves of regression trees say: value + the dot product of their weights and the row.

    Attributes
    ----------
    value
        float64[L]: mean of the target, or intercept.
    start
        int32[L + 1]: cuts the weights; a leaf that answers its mean has none.
    slot, weight
        int32[W], float64[W]: in a leaf sorted by slot, the order in which River adds the features of a row.
    """

    value: Array
    start: Array
    slot: Array
    weight: Array


@kernel
def _find(values: Floats, first: int, last: int, x: float) -> int:
    """Position of `x` in the sorted `values[first:last]`, or -1."""
    stop = last
    while first < last:
        middle = (first + last) // 2
        if values[middle] < x:
            first = middle + 1
        else:
            last = middle
    if first < stop and values[first] == x:
        return first
    return -1


@kernel
def _step(branches: Branches, node: Any, rows: Floats, i: int) -> tuple[Any, Any]:
    """The child of a branch to which row i goes, and whether for want of a way of its own."""
    kind = branches.kind[node]
    common = branches.common[node]
    if kind == UNTESTED:
        return common, True
    x = rows[i, branches.feature[node]]
    if x != x:  # NaN: absent
        return common, True
    first, last = branches.first[node], branches.last[node]
    threshold = branches.threshold[node]
    if kind == NUMERIC_BINARY:
        return (first if x <= threshold else last), False
    if kind == NOMINAL_BINARY:
        return (first if x == threshold else last), False
    if kind == NUMERIC_MULTIWAY:
        x = np.floor(x / threshold)
    case = _find(branches.case_value, first, last, x)
    if case < 0:
        return common, True
    return branches.case_child[case], False


@kernel
def _descend(
    kind: Array,
    feature: Array,
    threshold: Array,
    first: Array,
    common: Array,
    alternate: Array,
    node: Any,
    passed: Any,
    rows: Floats,
    i: int,
) -> tuple[Any, Any]:
    """The first node from `node` on that is no plain numeric branch, and whether it was reached for want of a way.

    Most branches are such; this loop is kept free of all other cases.
    """
    at = np.uint64(node)
    while kind[at] == NUMERIC_BINARY and alternate[at] < 0:
        x = rows[i, np.uint64(feature[at])]
        passed = x != x
        at = np.uint64(common[at]) if passed else np.uint64(first[at]) + np.uint64(x > threshold[at])
    return np.int64(at), passed


@kernel
def _stack_size(branches: Branches) -> int:
    """How much can be left beside the way of one row."""
    size = 0
    for node in range(branches.alternate.size):
        if branches.alternate[node] >= 0:
            size += 2
    return size


@kernel
def _bayes(votes: Votes, leaf: int, rows: Floats, i: int, logs: Floats) -> float:
    """Write the shares of a naive Bayes leaf's classes over `logs`; return what they are to be multiplied by."""
    start = votes.start[leaf]
    count = votes.start[leaf + 1] - start
    for j in range(count):
        logs[j] = votes.vote[start + j]
    for term in range(votes.term_start[leaf], votes.term_start[leaf + 1]):
        x = rows[i, votes.term_feature[term]]
        if x != x:
            continue
        first = votes.term_first[term]
        if votes.term_last[term] < 0:
            for j in range(count):
                divisor = votes.divisor[first + j]
                if divisor != 0.0:
                    off = x - votes.centre[first + j]
                    log = off * off / divisor - HALF_LOG_TAU - votes.log_sigma[first + j]
                    if log > -np.inf:
                        logs[j] += log
        else:
            case = _find(votes.category, first, votes.term_last[term], x)
            if case >= 0:
                base = votes.term_log[term] + (case - first) * count
                for j in range(count):
                    logs[j] += votes.log[base + j]
    largest = logs[0]
    for j in range(1, count):
        if logs[j] > largest:
            largest = logs[j]
    total = 0.0
    for j in range(count):
        total += math.exp(logs[j] - largest)
    log_total = largest + math.log(total)
    total = 0.0
    for j in range(count):
        logs[j] = math.exp(logs[j] - log_total)
        total += logs[j]
    factor = total * votes.error[leaf] * votes.error[leaf]
    return 1.0 if factor == 0.0 or factor != factor else 1.0 / factor


@kernel
def _conclude(scores: Floats, rule: int, column: Array, values: Floats, labels: Integers) -> None:
    """From the sums of votes, float64[n, c], to probabilities and labels."""
    n_classes = column.size
    for i in range(scores.shape[0]):
        total = 0.0
        for c in range(n_classes):
            total += scores[i, c]
        if rule == FOREST:
            if total > 0.0:
                for c in range(n_classes):
                    scores[i, c] = scores[i, c] / total
        elif rule == ADAPTIVE and total != 0.0 and total == total:
            scale = 1.0 / total
            for c in range(n_classes):
                scores[i, c] = scores[i, c] * scale
        best = -1
        for c in range(n_classes):
            if column[c] >= 0:
                values[i, column[c]] = scores[i, c]
                if best < 0 or scores[i, c] > scores[i, best]:
                    best = c
        if best >= 0:
            labels[i] = column[best]


@kernel
def classify(
    rows: Floats,
    branches: Branches,
    votes: Votes,
    weights: Floats,
    column: Array,
    rule: int,
    values: Floats,
    labels: Integers,
) -> None:
    """Fill `values` float64[n, k] and `labels` int64[n], zero and -1 before, for `rows` float64[n, >= d].

    `weights` float64[T] is of the trees, `column` int32[c] the output column of each class in the order of River's
    dict, or -1; `rule` is PLAIN, FOREST or ADAPTIVE. Tree by tree, so that one tree at a time fills the cache; a row's
    sum is over the trees in their order all the same.
    """
    kind, feature, threshold = branches.kind, branches.feature, branches.threshold
    first, common, alternate = branches.first, branches.common, branches.alternate
    size = _stack_size(branches)
    stack = np.empty(size, np.int64)
    stack_passed = np.empty(size, np.bool_)
    start, label, vote, bayes = votes.start, votes.label, votes.vote, votes.bayes
    width = 0
    for leaf in range(bayes.size):
        width = max(width, start[leaf + 1] - start[leaf])
    logs = np.empty(width)
    scores = np.zeros((rows.shape[0], column.size))
    for tree in range(branches.root.size):
        if branches.root[tree] < 0:
            continue
        weight = weights[tree]
        for i in range(rows.shape[0]):
            node, passed, top = np.int64(branches.root[tree]), False, 0
            while True:
                node, passed = _descend(kind, feature, threshold, first, common, alternate, node, passed, rows, i)
                if kind[node] != LEAF:
                    other = alternate[node]
                    child, child_passed = _step(branches, node, rows, i)
                    if other >= 0:  # alternates come before the way on, as River lists them
                        stack[top], stack_passed[top] = child, child_passed
                        top += 1
                        if passed and kind[other] == LEAF:  # River lists a branch twice that was reached by default
                            stack[top], stack_passed[top] = other, False
                            top += 1
                        child, child_passed = other, False
                    node, passed = np.int64(child), child_passed
                    continue
                leaf = first[node]
                begin, end = start[leaf], start[leaf + 1]
                if bayes[leaf]:
                    scale = _bayes(votes, leaf, rows, i, logs)
                    for entry in range(begin, end):
                        scores[i, label[entry]] += logs[entry - begin] * scale * weight
                else:
                    for entry in range(begin, end):
                        scores[i, label[entry]] += vote[entry] * weight
                if top == 0:
                    break
                top -= 1
                node, passed = stack[top], stack_passed[top]
    _conclude(scores, rule, column, values, labels)


@kernel
def _mean(values: Floats) -> Any:
    """The mean as numpy adds it: eight running sums for 8 to 128 values."""
    n = values.size
    total = 0.0
    done = 0
    if 8 <= n <= 128:
        done = n - n % 8
        sums = np.zeros(8)
        for j in range(done):
            sums[j % 8] += values[j]
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for j in range(done, n):
        total += values[j]
    return total / n


@kernel
def _median(values: Floats) -> Any:
    """The median; NaN when there is one. Sorts `values`."""
    n = values.size
    for j in range(n):
        if values[j] != values[j]:
            return np.nan
    for j in range(1, n):
        value = values[j]
        k = j - 1
        while k >= 0 and values[k] > value:
            values[k + 1] = values[k]
            k -= 1
        values[k + 1] = value
    if n % 2:
        return values[n // 2]
    return (values[n // 2 - 1] + values[n // 2]) / 2.0


@kernel
def regress(rows: Floats, branches: Branches, means: Means, weights: Floats, rule: int, values: Floats) -> None:
    """Fill `values` float64[n, 1], zero before, for `rows` float64[n, >= d].

    A tree says the mean of the leaves that a row reaches (its own and those of alternate trees), times its weight;
    the trees together say their MEAN or MEDIAN, as `rule` says.
    """
    n_trees = branches.root.size
    if n_trees == 0:
        return
    kind, feature, threshold = branches.kind, branches.feature, branches.threshold
    first, common, alternate = branches.first, branches.common, branches.alternate
    size = _stack_size(branches)
    stack = np.empty(size, np.int64)
    stack_passed = np.empty(size, np.bool_)
    start, slot, factor = means.start, means.slot, means.weight
    said = np.zeros((rows.shape[0], n_trees))
    for tree in range(n_trees):
        if branches.root[tree] < 0:
            continue
        for i in range(rows.shape[0]):
            node, passed, top = np.int64(branches.root[tree]), False, 0
            total = 0.0
            reached = 0
            while True:
                node, passed = _descend(kind, feature, threshold, first, common, alternate, node, passed, rows, i)
                if kind[node] != LEAF:
                    other = alternate[node]
                    child, child_passed = _step(branches, node, rows, i)
                    if other >= 0:  # alternates come before the way on, as River lists them
                        stack[top], stack_passed[top] = child, child_passed
                        top += 1
                        if passed and kind[other] == LEAF:  # River lists a branch twice that was reached by default
                            stack[top], stack_passed[top] = other, False
                            top += 1
                        child, child_passed = other, False
                    node, passed = np.int64(child), child_passed
                    continue
                leaf = first[node]
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
                node, passed = stack[top], stack_passed[top]
            said[i, tree] = total / reached * weights[tree]
    for i in range(rows.shape[0]):
        values[i, 0] = _median(said[i]) if rule == MEDIAN else _mean(said[i])
