"""Trees that no learner has grown: every kind of branch, alternates everywhere, leaves of every kind."""

import numpy as np

from glasstream.models.predictors.arrays import sealed_tuple
from glasstream.models.predictors.kernels import average, normalise
from glasstream.models.predictors.kernels.trees import ClassificationTrees, RegressionTrees
from glasstream.models.predictors.kernels.walk import (
    LEAF,
    NOMINAL_BINARY,
    NOMINAL_MULTIWAY,
    NUMERIC_BINARY,
    UNTESTED,
    Branches,
    Means,
    Votes,
)

NUMBERS = np.array([0.0, -0.0, 1.0, 2.0, 3.0, -1.0, 0.5, 7.25, 1e-300, np.inf, -np.inf])
_KINDS = (NUMERIC_BINARY, NUMERIC_BINARY, NOMINAL_BINARY, NOMINAL_MULTIWAY, UNTESTED)


def random_trees(random, features):
    """A predictor of up to three trees over so many features, for classification or regression."""
    nodes, cases, leaves = [], [], [0]
    alternates = random.choice([0.0, 0.1, 0.5])
    depth = random.choice([0, 2, 4, 8])
    roots = [_grow(random, features, nodes, cases, leaves, depth, alternates) for _ in range(random.integers(1, 4))]
    columns = np.array(nodes, np.float64).reshape(len(nodes), 7).T
    arrays = (*columns, [value for value, _ in cases], [child for _, child in cases], roots)
    names = [f"f{feature}" for feature in range(features)]
    if random.random() < 0.5:
        given = {**_typed(Branches, arrays), **_means(random, features, leaves[0])}
        given["weights"] = np.arange(1.0, 1.0 + len(roots))
        return RegressionTrees.unpack({"features": names, "rule": str(random.choice(list(average.RULES)))}, given)
    classes = int(random.choice([1, 2, 2, 5]))
    given = {**_typed(Branches, arrays), **_votes(random, features, leaves[0], classes)}
    given |= {"weights": random.random(len(roots)), "column": random.permutation(classes).astype(np.int32)}
    meta = {"features": names, "classes": list("abcde"[:classes]), "rule": str(random.choice(list(normalise.RULES)))}
    return ClassificationTrees.unpack(meta, given)


def _typed(kind, arrays):
    return sealed_tuple(kind, arrays)._asdict()


def _grow(random, features, nodes, cases, leaves, depth, alternates):
    root = len(nodes)
    nodes.append(None)
    waiting = [(root, 0)]
    while waiting:
        at, level = waiting.pop(0)
        if level >= depth or random.random() < 0.1:
            nodes[at] = [LEAF, 0, 0.0, leaves[0], 0, 0, -1]
            leaves[0] += 1
            continue
        kind = random.choice(_KINDS)
        children = list(range(len(nodes), len(nodes) + (2 if kind in _KINDS[:3] else random.integers(1, 4))))
        waiting += [(child, level + 1) for child in children]
        nodes += [None] * len(children)
        first, last, alternate = children[0], children[0] + 1, -1
        if random.random() < alternates:
            alternate = len(nodes)
            nodes.append(None)
            waiting.append((alternate, random.choice([level + 1, depth])))
        if kind == NOMINAL_MULTIWAY:
            own = [(value, random.choice(children)) for value in np.unique(random.choice(NUMBERS, 3))]
            first, last = len(cases), len(cases) + len(own)
            cases += own
        threshold = np.nan if kind == NOMINAL_BINARY and random.random() < 0.2 else random.choice(NUMBERS)
        nodes[at] = [kind, random.integers(features), threshold, first, last, random.choice(children), alternate]
    return root


def _votes(random, features, leaves, classes):
    start, label, vote, bayes, term_start, terms, densities, categories, logs = [0], [], [], [], [0], [], [], [], []
    for _ in range(leaves):
        bayes.append(classes > 1 and random.random() < 0.6)
        count = int(random.integers(2 if bayes[-1] else 0, classes + 1))
        label += random.permutation(classes)[:count].tolist()
        vote += np.log(random.dirichlet(np.ones(count))).tolist() if bayes[-1] else random.random(count).tolist()
        for feature in random.permutation(features)[: random.integers(0, 4) if bayes[-1] else 0]:
            if random.random() < 0.7:
                terms.append((feature, len(densities), -1, 0))
                densities += [(random.normal(), -random.random(), random.normal()) for _ in range(count)]
            else:
                known = np.unique(random.choice(NUMBERS, 3)).tolist()
                terms.append((feature, len(categories), len(categories) + len(known), len(logs)))
                categories += known
                logs += (-random.random(len(known) * count)).tolist()
        start.append(len(label))
        term_start.append(len(terms))
    error = random.choice([0.0, 0.3], leaves)
    columns = np.array(terms, np.float64).reshape(len(terms), 4).T
    densities = np.array(densities, np.float64).reshape(len(densities), 3).T
    return _typed(Votes, (start, label, vote, bayes, error, term_start, *columns, *densities, categories, logs))


def _means(random, features, leaves):
    start, slot = [0], []
    for _ in range(leaves):
        slot += sorted(random.permutation(features)[: random.integers(0, 3)])
        start.append(len(slot))
    return _typed(Means, (random.normal(size=leaves), start, slot, random.normal(size=len(slot))))
