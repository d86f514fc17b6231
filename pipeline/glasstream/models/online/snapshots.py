"""Snapshots: the arrays that explainers evaluate, made from the arena without a River model.

The arrays equal those that `glasstream.models.river.compile` makes of the River model, bit for bit.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from glasstream.base.errors import NotCompilable
from glasstream.base.jit import bare_kernel, inlined
from glasstream.events.features import Kind
from glasstream.models.online import layout as L
from glasstream.models.online.descent import sibling
from glasstream.models.online.layout import Array, Pool
from glasstream.models.online.leaves import total
from glasstream.models.online.state import State
from glasstream.models.online.sums import add, ended
from glasstream.models.online.targets import answers_mean
from glasstream.models.online.votes import says_bayes
from glasstream.models.predictors.arrays import fields, sealed, sealed_tuple
from glasstream.models.predictors.kernels import walk
from glasstream.models.predictors.kernels.average import weights_of_losses
from glasstream.models.predictors.kernels.trees import ClassificationTrees, RegressionTrees
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.slots import ABSENT, Slots

_LOG_TAU: Final = math.log(math.tau)
_RULES: Final = {L.ADAPTIVE_FAMILY: "scaled", L.FOREST_FAMILY: "shares"}

_FORMS: Final[tuple[Any, Any]] = walk.Branches, walk.Votes

_BRANCHES, _CASES, _LEAVES, _ENTRIES, _TERMS, _DENSITIES, _CATEGORIES, _LOGS = range(8)
"""Places of `_Written.used`."""


class _Written(NamedTuple):
    """What the kernel has written, with room at the ends of arrays."""

    branches: walk.Branches
    votes: walk.Votes
    """Of a regressor, `start`, `label`, `vote` and `error` hold the fields of `walk.Means`."""
    address: Array
    """int64[nodes]: where each node lies in the arena."""
    weight: Array
    """float64[nodes]: the weight that it has seen, without alternates."""
    place: Array
    """int64[categories]: the place of each category in its table."""
    used: Array
    """int64[8]: how many there are of each kind."""


def compile_live(state: State, pool: Pool, slots: Slots, labels: Labels) -> ClassificationTrees:
    """Return the arrays of a live model as it is now; what it learns later does not change them.

    Raises
    ------
    NotCompilable
        A feature of the model is text and one of the row is not, or the reverse.
    """
    trees = [t for t in range(state.parameters.get("n_models", 1)) if pool.tree[t, L.EXISTS]]
    places: dict[int, int] = {}
    for t in trees:
        order = range(len(state.labels)) if state.shape == L.ADAPTIVE_FAMILY else pool.by_label.tolist()
        for number in order:
            if pool.seen[t, number]:
                places.setdefault(number, len(places))
    place = np.full(len(state.labels), -1, np.int64)
    place[list(places)] = list(places.values())
    names = list(state.labels)
    slot_of, starts, values = _inputs(state, slots)
    written = _room(int(pool.control[L.USED]))
    roots = pool.tree[trees, L.ROOT]
    _write_trees(pool, roots, place, slot_of, starts, values, _LOG_TAU, written)
    weights = [1.0] * len(trees)
    if state.shape == L.FOREST_FAMILY and not state.parameters["disable_weighted_vote"]:
        accuracies = [right / seen if seen > 0 else 0.0 for right, seen in pool.scores[trees].tolist()]
        weights = [accuracy if accuracy > 0.0 else 1.0 for accuracy in accuracies]
    branches, votes = _taken(written, roots)
    columns = labels.columns(names[number] for number in places)
    rule = _RULES.get(state.family, "as they are")
    return ClassificationTrees(slots.names, labels.classes, columns, branches, votes, weights, rule)


def compile_live_regressor(state: State, pool: Pool, slots: Slots) -> RegressionTrees:
    """Return the arrays of a live regressor as it is now; errors as of `compile_live`."""
    slot_of, starts, values = _inputs(state, slots)
    written = _room(int(pool.control[L.USED]))
    trees = [t for t in range(state.parameters.get("n_models", 1)) if pool.tree[t, L.EXISTS]]
    roots = pool.tree[trees, L.ROOT]
    _write_trees(pool, roots, np.zeros(0, np.int64), slot_of, starts, values, _LOG_TAU, written)
    leaves, entries = int(written.used[_LEAVES]), int(written.used[_ENTRIES])
    votes = written.votes
    arrays = (votes.error[:leaves], votes.start[: leaves + 1], votes.label[:entries], votes.vote[:entries])
    means = sealed_tuple(walk.Means, [array.copy() for array in arrays])
    rule, weights = state.parameters.get("aggregation_method", "mean"), [1.0] * len(trees)
    if pool.option[L.WEIGHTED] and state.shape == L.FOREST_FAMILY:
        weights = weights_of_losses(pool.scores[trees, L.LOSS].tolist())
    return RegressionTrees(slots.names, _taken(written, roots)[0], means, weights, rule)


def _inputs(state: State, slots: Slots) -> tuple[Array, Array, Array]:
    """Return the slot of each feature of the model, and the numbers in a row that represent its texts."""
    slot_of = np.full(len(state.features), ABSENT, np.int64)
    starts = np.zeros(len(state.features) + 1, np.int64)
    values: list[float] = []
    for number, name in enumerate(state.features):
        slot_of[number] = slots.slot(name)
        if slot_of[number] != ABSENT:
            if (state.kinds[number] == L.IS_TEXT) != (slots.kind(name) is Kind.TEXT) and state.kinds[number] >= 0:
                raise NotCompilable(f"feature {name!r} is text in the model or in the row, and not in the other")
            for text in state.categories[number]:
                value = slots.value(int(slot_of[number]), text)
                values.append(math.nan if value is None else value)
        starts[number + 1] = len(values)
    return slot_of, starts, np.array(values, np.float64)


def _sizes(*counts: int) -> tuple[list[int], list[int]]:
    """Return the sizes of the arrays in `walk.Branches` and `walk.Votes`, without roots."""
    nodes, cases, leaves, entries, terms, densities, categories, logs = counts
    votes = [leaves + 1, entries, entries, leaves, leaves, leaves + 1, *[terms] * 4, *[densities] * 3, categories, logs]
    return [*[nodes] * 7, cases, cases, 0], votes


def _room(words: int) -> _Written:
    """Return arrays that are long enough for an arena of `words` words. Pages that are not written cost nothing."""
    nodes, rows, pairs = words // L.NODE + 1, words // L.ROW + 1, words // L.PAIR + 1
    branches, votes = (
        kind._make(np.empty(size, dtype) for size, (_, dtype, _) in zip(sizes, fields(kind), strict=True))
        for kind, sizes in zip(_FORMS, _sizes(nodes, nodes, nodes, pairs, rows, rows, words, words), strict=True)
    )
    votes.start[0] = votes.term_start[0] = 0
    rest = np.empty(nodes, np.int64), np.empty(nodes), np.empty(words, np.int64), np.zeros(8, np.int64)
    return _Written(branches, votes, *rest)


def _taken(written: _Written, roots: Array) -> tuple[walk.Branches, walk.Votes]:
    branches, votes = (
        kind._make(sealed(array[:size].copy(), array.dtype) for array, size in zip(arrays, sizes, strict=True))
        for kind, arrays, sizes in zip(_FORMS, written[:2], _sizes(*written.used.tolist()), strict=True)
    )
    return branches._replace(root=sealed(roots, np.int32)), votes


@bare_kernel
def _write_trees(
    p: L.Pool, roots: Any, place: Any, slot_of: Any, starts: Any, values: Any, log_tau: float, out: Any
) -> None:
    """Write trees one after the other, and replace the address of each root by its number, -1 for an empty tree."""
    for t in range(roots.size):
        roots[t] = _write_tree(p, roots[t], place, slot_of, starts, values, log_tau, out)


@bare_kernel
def _write_tree(
    p: L.Pool, root: int, place: Any, slot_of: Any, starts: Any, values: Any, log_tau: float, out: Any
) -> int:
    """Write a tree after those that are written; return the number of its root, or -1 for an empty tree."""
    branches = out.branches
    if root == 0:
        return -1
    F, I = p.F, p.I
    begin = out.used[_BRANCHES]
    out.address[begin] = root
    end = begin + 1
    at = begin
    while at < end:  # grows in the loop: a level after the other
        node = out.address[at]
        kind = I[node + L.KIND]
        branches.alternate[at] = -1
        branches.common[at] = -1
        branches.threshold[at] = 0.0
        branches.feature[at] = 0
        if kind == L.LEAF:
            branches.kind[at] = walk.LEAF
            branches.first[at], branches.last[at], branches.common[at] = out.used[_LEAVES], 0, 0
            out.weight[at] = total(p, node)
            if p.option[L.REGRESSION] == 1:
                _write_target_leaf(p, node, slot_of, out)
            else:
                _write_leaf(p, node, place, slot_of, starts, values, log_tau, out)
            at += 1
            continue
        first = end
        child = I[node + L.LEFT]
        while child != 0:
            out.address[end] = child
            end += 1
            child = sibling(p, node, child)
        branches.first[at], branches.last[at] = first, first + 1
        branches.common[at] = end - first  # the number of children until all weights are known
        feature = I[node + L.FEATURE]
        slot = slot_of[feature]
        if kind == L.NUMERIC:
            branches.kind[at] = walk.NUMERIC_BINARY
            branches.threshold[at] = F[node + L.VALUE]
        elif kind == L.NOMINAL:
            branches.kind[at] = walk.NOMINAL_BINARY
            branches.threshold[at] = np.nan if slot < 0 else _value(p, feature, F[node + L.VALUE], starts, values)
        elif slot >= 0:
            branches.kind[at] = walk.NOMINAL_MULTIWAY
            _write_cases(p, at, first, end, feature, starts, values, out)
        if slot < 0:
            branches.kind[at] = walk.UNTESTED
        else:
            branches.feature[at] = slot
        if I[node + L.ALTERNATE] != 0:
            out.address[end] = I[node + L.ALTERNATE]
            branches.alternate[at] = end
            end += 1
        at += 1
    out.used[_BRANCHES] = end
    _write_common(p, begin, end, out)
    return begin


@inlined
def _value(p: L.Pool, feature: int, category: float, starts: Any, values: Any) -> float:
    """Return the number in a row that represents a category, or NaN if no row can hold it."""
    if p.kind[feature] == L.IS_TEXT:
        return values[starts[feature] + np.int64(category)]
    return category


@bare_kernel
def _write_cases(p: L.Pool, at: int, first: int, end: int, feature: int, starts: Any, values: Any, out: Any) -> None:
    """Write the cases of a multiway branch, sorted by value."""
    branches = out.branches
    begin = to = out.used[_CASES]
    for child in range(first, end):
        value = _value(p, feature, p.F[out.address[child] + L.CASE], starts, values)
        if value == value:
            branches.case_value[to], branches.case_child[to] = value, child
            to += 1
    _sort(branches.case_value, branches.case_child, begin, to)
    branches.first[at], branches.last[at] = begin, to
    out.used[_CASES] = to


@inlined
def _sort(values: Any, numbers: Any, begin: int, end: int) -> None:
    """Sort different values in place, and the numbers beside them alike."""
    gap = (end - begin) // 2
    while gap > 0:
        for at in range(begin + gap, end):
            value, number = values[at], numbers[at]
            to = at
            while to - gap >= begin and values[to - gap] > value:
                values[to], numbers[to] = values[to - gap], numbers[to - gap]
                to -= gap
            values[to], numbers[to] = value, number
        gap //= 2


@bare_kernel
def _write_common(p: L.Pool, begin: int, end: int, out: Any) -> None:
    """Write the children that have seen most. A branch has seen the sum of its children, in their order."""
    branches = out.branches
    child = end
    for at in range(end - 1, begin - 1, -1):
        if branches.kind[at] == walk.LEAF:
            continue
        if branches.alternate[at] >= 0:
            child -= 1
        count = branches.common[at]
        child -= count
        added, rest = 0.0, 0.0
        best = child
        for one in range(child, child + count):
            added, rest = add(added, rest, out.weight[one])
            if out.weight[one] > out.weight[best]:
                best = one
        out.weight[at] = ended(added, rest)
        branches.common[at] = best


@bare_kernel
def _write_target_leaf(p: L.Pool, node: int, slot_of: Any, out: Any) -> None:
    """Write the mean of a leaf as `error`, or its linear model: the intercept, and the weights sorted by slot."""
    votes = out.votes
    F, I = p.F, p.I
    leaf, target, begin = out.used[_LEAVES], I[node + L.WEIGHTS], out.used[_ENTRIES]
    end = begin
    if answers_mean(p, node):
        votes.error[leaf] = F[target + L.AVERAGE]
    else:
        votes.error[leaf] = F[target + L.INTERCEPT]
        for q in range(I[target + L.ENTRY_COUNT]):
            entry = I[target + L.ENTRIES] + L.PAIR * q
            slot = slot_of[I[entry + L.CLASS]]
            if slot >= 0:
                votes.label[end], votes.vote[end] = slot, F[entry]
                end += 1
        _sort(votes.label, votes.vote, begin, end)
    out.used[_LEAVES], out.used[_ENTRIES] = leaf + 1, end
    votes.start[leaf + 1] = end
    votes.term_start[leaf + 1] = 0


@bare_kernel
def _write_leaf(
    p: L.Pool, node: int, place: Any, slot_of: Any, starts: Any, values: Any, log_tau: float, out: Any
) -> None:
    votes = out.votes
    F, I = p.F, p.I
    leaf = out.used[_LEAVES]
    seen = total(p, node)
    adaptive = p.option[L.FAMILY] == L.ADAPTIVE_FAMILY
    error = F[node + L.ERROR_MEAN] if adaptive else 0.0
    votes.bayes[leaf], votes.error[leaf] = False, 0.0
    if not says_bayes(p, node):
        _write_shares(p, node, seen, adaptive, error, place, out)
    elif seen == 0.0:
        pass  # no votes
    elif I[node + L.CLASSES] == 1:
        entry = out.used[_ENTRIES]
        votes.label[entry] = place[I[I[node + L.WEIGHTS] + L.CLASS]]
        votes.vote[entry] = 1.0 * _scale(error * error)
        out.used[_ENTRIES] += 1
    else:
        votes.bayes[leaf], votes.error[leaf] = True, error
        weights = I[node + L.WEIGHTS]
        for j in range(I[node + L.CLASSES]):
            entry = out.used[_ENTRIES]
            weight = F[weights + L.PAIR * j]
            votes.label[entry] = place[I[weights + L.PAIR * j + L.CLASS]]
            votes.vote[entry] = math.log(weight / seen) if weight > 0.0 else 0.0
            out.used[_ENTRIES] += 1
        for s in range(I[node + L.SLOTS]):
            slot = I[node + L.BLOCK] + s * (L.HEADER + L.ROW * I[node + L.CLASS_ROOM])
            if slot_of[I[slot + L.SLOT_FEATURE]] >= 0:
                _write_term(p, node, slot, slot_of, starts, values, log_tau, out)
    out.used[_LEAVES] = leaf + 1
    votes.start[leaf + 1] = out.used[_ENTRIES]
    votes.term_start[leaf + 1] = out.used[_TERMS]


@inlined
def _scale(factor: float) -> float:
    """Return what River multiplies shares by to normalise them."""
    if factor == 0.0 or factor != factor:
        return 1.0
    return 1.0 / factor


@inlined
def _write_shares(p: L.Pool, node: int, seen: float, adaptive: bool, error: float, place: Any, out: Any) -> None:
    """Write the votes of a leaf that predicts by majority."""
    votes = out.votes
    weights = p.I[node + L.WEIGHTS]
    begin = out.used[_ENTRIES]
    added, rest = 0.0, 0.0
    scale = _scale(seen)
    for j in range(p.I[node + L.CLASSES]):
        share = p.F[weights + L.PAIR * j] * scale
        votes.label[begin + j] = place[p.I[weights + L.PAIR * j + L.CLASS]]
        votes.vote[begin + j] = share
        added, rest = add(added, rest, share)
    out.used[_ENTRIES] += p.I[node + L.CLASSES]
    if adaptive:
        scale = _scale(ended(added, rest) * error * error)
        for entry in range(begin, out.used[_ENTRIES]):
            votes.vote[entry] *= scale


@bare_kernel
def _write_term(
    p: L.Pool, node: int, slot: int, slot_of: Any, starts: Any, values: Any, log_tau: float, out: Any
) -> None:
    """Write what a naive Bayes leaf knows of a feature."""
    votes = out.votes
    F, I = p.F, p.I
    term = out.used[_TERMS]
    out.used[_TERMS] = term + 1
    feature = I[slot + L.SLOT_FEATURE]
    weights = I[node + L.WEIGHTS]
    votes.term_feature[term] = slot_of[feature]
    if I[slot + L.TABLE] == 0:
        votes.term_first[term], votes.term_last[term], votes.term_log[term] = out.used[_DENSITIES], -1, 0
        for j in range(I[node + L.CLASSES]):
            row = slot + L.HEADER + L.ROW * j
            density = out.used[_DENSITIES]
            out.used[_DENSITIES] = density + 1
            votes.centre[density], votes.curvature[density], votes.peak[density] = 0.0, 0.0, 0.0
            if F[weights + L.PAIR * j] > 0.0 and F[row + L.COUNT] > 0.0:
                votes.centre[density] = F[row + L.MEAN]
                freedom = F[row + L.COUNT] - 1.0
                variance = F[row + L.SQUARES] / freedom if freedom > 0.0 else 0.0
                if variance > 0.0:
                    votes.curvature[density] = -0.5 / variance
                    votes.peak[density] = -0.5 * (log_tau + math.log(variance))
        return
    table, room = I[slot + L.TABLE], I[slot + L.CATEGORY_ROOM]
    first = to = out.used[_CATEGORIES]
    for q in range(I[slot + L.CATEGORIES]):
        value = _value(p, feature, F[table + q], starts, values)
        if value == value and _is_known(p, node, slot, q):
            votes.category[to], out.place[to] = value, q
            to += 1
    _sort(votes.category, out.place, first, to)
    votes.term_first[term], votes.term_last[term], votes.term_log[term] = first, to, out.used[_LOGS]
    for entry in range(first, to):
        for j in range(I[node + L.CLASSES]):
            share = _share(p, slot, weights, table, room, j, out.place[entry])
            votes.log[out.used[_LOGS]] = math.log(share) if share > 0.0 else 0.0
            out.used[_LOGS] += 1
    out.used[_CATEGORIES] = to


@inlined
def _is_known(p: L.Pool, node: int, slot: int, q: int) -> bool:
    """Return whether a category has a share in any class."""
    weights, table, room = p.I[node + L.WEIGHTS], p.I[slot + L.TABLE], p.I[slot + L.CATEGORY_ROOM]
    for j in range(p.I[node + L.CLASSES]):  # noqa: SIM110 - numba knows no `any`
        if _share(p, slot, weights, table, room, j, q) > 0.0:
            return True
    return False


@inlined
def _share(p: L.Pool, slot: int, weights: int, table: int, room: int, j: int, q: int) -> float:
    """Return the share of a category in a class; 0 if the leaf does not know it."""
    row = slot + L.HEADER + L.ROW * j
    if p.F[weights + L.PAIR * j] > 0.0 and p.F[row + L.KNOWN] == 1.0 and p.F[row + L.COUNT] != 0.0:
        return p.F[table + (1 + j) * room + q] / p.F[row + L.COUNT]
    return 0.0
