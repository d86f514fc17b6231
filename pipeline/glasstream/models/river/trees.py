"""From a River classifier to arrays and back."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from river.forest.adaptive_random_forest import BaseTreeClassifier
from river.proba import Gaussian
from river.stats import Mean
from river.tree.nodes import hatc_nodes, htc_nodes
from river.tree.nodes.branch import NominalBinaryBranch, NominalMultiwayBranch, NumericBinaryBranch
from river.tree.splitter import GaussianSplitter
from river.tree.splitter.nominal_splitter_classif import NominalSplitterClassif

from glasstream.base.errors import NotCompilable
from glasstream.models.online import layout as L
from glasstream.models.online import parameters as supported
from glasstream.models.online.arena import detector_words
from glasstream.models.online.copying import copy_trees
from glasstream.models.online.layout import Pool, empty_arena
from glasstream.models.online.state import Label, State, check_labels
from glasstream.models.online.sums import COMPENSATED
from glasstream.models.river import adwin
from glasstream.models.river import parameters as of_river
from glasstream.models.river.catalogue import ClassesInOrder
from glasstream.models.river.leaves import OF_CLASSIFIERS

_LARGEST_EXACT: Final = 2**53
_TWISTER: Final = 3
"""The version of `random.Random`'s state."""

BRANCHES: Final = {NumericBinaryBranch: L.NUMERIC, NominalBinaryBranch: L.NOMINAL, NominalMultiwayBranch: L.MULTIWAY}
_ADAPTIVE_BRANCHES: Final = {
    hatc_nodes.AdaNumBinaryBranchClass: L.NUMERIC,
    hatc_nodes.AdaNomBinaryBranchClass: L.NOMINAL,
    hatc_nodes.AdaNomMultiwayBranchClass: L.MULTIWAY,
}


# --- River to arrays --------------------------------------------------------------------------------------------------
class Reader:
    """Writes one model into an arena of its own, which is then copied into the pool."""

    adaptive_branches: Mapping[type, int] = _ADAPTIVE_BRANCHES
    tree_of_forest: Any = BaseTreeClassifier
    alike: Iterable[str] = supported.OF_TREES.keys() - {"splitter", "max_depth", "nominal_attributes"}
    """Parameters that the trees of a forest share; others are compared where they are used."""

    def __init__(self, model: Any, state: State) -> None:
        self.model = model
        self.state = state
        self.of_trees = supported.of_trees(state.family, state.parameters)
        self.F, self.I = empty_arena(1 << 16)
        self.used = L.FIRST
        self.trees: list[tuple[int, Any]] = []

    def read(self) -> Pool:
        model, state = self.model, self.state
        forest_of = model.data if state.shape == L.FOREST_FAMILY else [model]
        background = (model._background or []) if state.shape == L.FOREST_FAMILY else []
        self.trees = list(enumerate(forest_of))
        models = state.parameters.get("n_models", 1)
        self.trees += [(models + t, one) for t, one in enumerate(background) if one is not None]
        if len(forest_of) not in (0, models) or len(background) not in (0, models):
            raise NotCompilable(f"expected {models} trees, got {len(forest_of)}")
        self.read_labels()
        if state.shape == L.FOREST_FAMILY and forest_of:
            if type(model.max_features) is not int or model.max_features < 0:
                raise NotCompilable(f"max_features: expected a whole number, got {model.max_features!r}")
            state.subset_most = model.max_features
        roots = {t: self._tree(one) for t, one in self.trees}
        pool = state.pool(2 * self.used + 4_096)
        for t, one in self.trees:
            row = pool.tree[t]
            row[L.ROOT], row[L.EXISTS] = roots[t], 1
            row[L.ACTIVE_LEAVES], row[L.INACTIVE_LEAVES] = one._n_active_leaves, one._n_inactive_leaves
            row[L.LEARNED] = exact(one._train_weight_seen_by_model, "the weight that a tree has learned")
            for label in self.classes_of(one):
                pool.seen[t, state.labels[label]] = 1
        if state.shape == L.ADAPTIVE_FAMILY:
            pool.tree[0, L.ALTERNATES] = model._n_alternate_trees
            pool.tree[0, L.PRUNED] = model._n_pruned_alternate_trees
            pool.tree[0, L.SWITCHED] = model._n_switch_alternate_trees
        if state.shape == L.FOREST_FAMILY:
            self._read_forest(pool)
            F, I = empty_arena(2 * self.used + 4_096)  # detectors have been added
            pool = pool._replace(F=F, I=I)
        if hasattr(model, "_rng"):
            version, words, gauss = model._rng.getstate()
            if version != _TWISTER or gauss is not None:
                raise NotCompilable("the random generator is in a state that River does not bring it to")
            pool.twister[:] = words[:-1]
            pool.position[0] = words[-1]
        if not copy_trees(self.F, self.I, self.used, pool):
            raise NotCompilable("a tree is not as River grows it")
        return pool

    def classes_of(self, tree: Any) -> Iterable[Label]:
        """Return the classes that a tree has learned."""
        classes: Iterable[Label] = tree.classes
        return classes

    def read_labels(self) -> None:
        """Number the classes that the model knows."""
        state = self.state
        found: dict[Label, None] = {}
        for _, one in self.trees:
            found.update(dict.fromkeys(self.classes_of(one)))
        if state.shape == L.FOREST_FAMILY:
            for metric in self.model._metrics:
                found.update(dict.fromkeys(label for label in metric.cm.data if label is not None))
        check_labels(found)
        labels = found if state.shape == L.ADAPTIVE_FAMILY else sorted(found)
        state.labels.update({label: number for number, label in enumerate(labels)})

    def take(self, words: int) -> int:
        """Return the address of `words` zeroed words."""
        at = self.used
        self.used += words
        if self.used > self.F.size:
            F, self.I = empty_arena(2 * self.used)
            F[: self.F.size] = self.F
            self.F = F
            self.I = F.view(np.int64)
        return at

    def _tree(self, one: Any) -> int:
        model, state = self.model, self.state
        if state.shape == L.FOREST_FAMILY:
            kind = type(one)
            if kind is not self.tree_of_forest or one.rng is not model._rng:
                raise NotCompilable(f"a forest holds a {kind.__name__} that is not its own")
            for name in self.alike:
                wanted, has = self.of_trees[name], of_river.plain(getattr(one, name))
                if wanted != has:
                    raise NotCompilable(f"{name}: expected {wanted!r} in each tree, got {has!r}")
            if one.max_features != state.subset_most or one.max_depth != state.max_depth:
                raise NotCompilable("max_features, max_depth: expected the forest's in each tree")
        if not one._growth_allowed:
            raise NotCompilable("a tree has reached its limit of memory")
        return self._node(one._root, one) if one._root is not None else 0

    def _node(self, node: Any, owner: Any) -> int:
        at = self.take(L.NODE)
        adaptive = self.state.shape == L.ADAPTIVE_FAMILY
        kinds = self.adaptive_branches if adaptive else BRANCHES
        kind = kinds.get(type(node), L.LEAF)
        self.I[at + L.KIND], self.I[at + L.DEPTH] = kind, node.depth
        self.statistics(at, node)
        if adaptive:
            self.error(at, node)
            self.I[at + L.DETECTOR] = self.detector(node.drift_detector, "drift_detector")
        if kind == L.LEAF:
            self.leaf(at, node, owner)
        else:
            self._branch(at, kind, node, owner)
        return at

    def statistics(self, at: int, node: Any) -> None:
        """Write what a node has seen."""
        room = max(len(node.stats), 2)
        weights = self.take(L.PAIR * room)
        self.I[at + L.WEIGHTS], self.I[at + L.CLASSES], self.I[at + L.CLASS_ROOM] = weights, len(node.stats), room
        floats = sum(type(weight) is float for weight in node.stats.values())
        if self.state.family == L.FOREST_FAMILY:
            self.I[at + L.FLOATS] = floats
        for j, (label, weight) in enumerate(node.stats.items()):
            if COMPENSATED and (type(weight) is float) != (j < floats or self.state.family != L.FOREST_FAMILY):
                raise NotCompilable(f"expected another type as the weight of class {label!r}, got {weight!r}")
            self.F[weights + L.PAIR * j] = weight
            self.I[weights + L.PAIR * j + L.CLASS] = self._label(label)

    def error(self, at: int, node: Any) -> None:
        """Write the error of a node of an adaptive tree."""
        if type(node._mean_error) is not Mean:
            raise NotCompilable("expected the mean error of a node to be a Mean")
        self.F[at + L.ERROR_COUNT], self.F[at + L.ERROR_MEAN] = node._mean_error.n, node._mean_error._mean

    def _label(self, label: Label) -> int:
        number = self.state.labels.get(label)
        if number is None:
            raise NotCompilable(f"class {label!r} is not among the classes of the tree")
        return number

    def _branch(self, at: int, kind: int, node: Any, owner: Any) -> None:
        name = feature_name(node.feature)
        if kind == L.NUMERIC:
            feature = self.feature(name, False)
            self.F[at + L.VALUE] = node.threshold
        else:
            values = [node.value] if kind == L.NOMINAL else list(node._mapping)
            feature = self.feature(name, isinstance(values[0], str))
            codes = [self.category(feature, value) for value in values]
            if kind == L.NOMINAL:
                self.F[at + L.VALUE] = codes[0]
        self.I[at + L.FEATURE] = feature
        if kind != L.MULTIWAY:
            left, right = node.children
            for field, child in ((L.LEFT, left), (L.RIGHT, right)):
                self.I[at + field] = self._node(child, owner)
        else:
            before = 0
            for code, child in zip(codes, node.children, strict=True):
                address = self._node(child, owner)
                self.F[address + L.CASE] = code
                self.I[at + L.LEFT if before == 0 else before + L.NEXT] = address
                before = address
            self.I[at + L.RIGHT] = before
        if self.state.shape == L.ADAPTIVE_FAMILY and node._alternate_tree is not None:
            self.I[at + L.ALTERNATE] = self._node(node._alternate_tree, owner)

    def leaf(self, at: int, leaf: Any, owner: Any) -> None:
        """Write what only a leaf has."""
        adaptive = self.state.shape == L.ADAPTIVE_FAMILY
        leaves = OF_CLASSIFIERS[self.state.parameters["leaf_prediction"]]
        wanted = hatc_nodes.AdaLeafClassifier if adaptive else leaves[self.state.shape == L.FOREST_FAMILY]
        self.of_every_leaf(at, leaf, wanted)
        self.F[at + L.MAJORITY_RIGHT] = getattr(leaf, "_mc_correct_weight", 0.0)
        self.F[at + L.BAYES_RIGHT] = getattr(leaf, "_nb_correct_weight", 0.0)
        splitters = leaf.splitters or {}
        room = int(self.I[at + L.CLASS_ROOM])
        words = L.HEADER + L.ROW * room
        if splitters:
            block = self.take(len(splitters) * words)
            self.I[at + L.BLOCK], self.I[at + L.SLOTS], self.I[at + L.SLOT_ROOM] = block, len(splitters), len(splitters)
            places = {label: j for j, label in enumerate(leaf.stats)}
            for s, (name, splitter) in enumerate(splitters.items()):
                self._slot(block + s * words, feature_name(name), splitter, places, room)

    def of_every_leaf(self, at: int, leaf: Any, wanted: Any) -> None:
        """Write what leaves of classifiers and of regressors share, and refuse a leaf that is not one of `wanted`."""
        state = self.state
        shared = state.shape == L.TREE_FAMILY or leaf.rng is self.model._rng
        if state.shape == L.FOREST_FAMILY:
            shared &= leaf.max_features == state.subset_most
        if type(leaf) is not wanted or not shared or leaf._disabled_attrs:
            raise NotCompilable(f"expected a {wanted.__name__} of the model itself, got a {type(leaf).__name__}")
        active = leaf.splitters is not None
        if not active and state.shape != L.ADAPTIVE_FAMILY and leaf.depth < state.max_depth:
            raise NotCompilable("a leaf is inactive because the tree has reached its limit of memory")
        self.I[at + L.ACTIVE] = active
        self.F[at + L.LAST] = leaf._last_split_attempt_at
        if state.shape == L.FOREST_FAMILY and leaf.feature_indices:
            features = [state.unknown_feature(feature_name(name)) for name in leaf.feature_indices]
            subset = self.take(len(features))
            self.I[subset : subset + len(features)] = features
            self.I[at + L.SUBSET], self.I[at + L.SUBSET_SIZE] = subset, len(features)

    def _slot(self, slot: int, name: str, splitter: Any, places: dict[Label, int], room: int) -> None:
        if type(splitter) is GaussianSplitter:
            self._numeric_slot(slot, name, splitter, places)
        elif type(splitter) is NominalSplitterClassif:
            self._nominal_slot(slot, name, splitter, places, room)
        else:
            raise NotCompilable(f"feature {name!r} is watched by a {type(splitter).__name__}")

    def _known(self, slot: int, labels: Iterable[Label], places: dict[Label, int]) -> Iterable[int]:
        for q, label in enumerate(labels):
            if label not in places:
                raise NotCompilable(f"a splitter knows class {label!r}, which its leaf has not seen")
            self.I[slot + L.HEADER + L.ROW * q + L.ORDER] = places[label]
            self.I[slot + L.SLOT_CLASSES] = q + 1
            yield slot + L.HEADER + L.ROW * places[label]

    def _numeric_slot(self, slot: int, name: str, splitter: Any, places: dict[Label, int]) -> None:
        wanted = self.state.parameters["splitter"]
        if splitter.n_splits != (GaussianSplitter().n_splits if wanted is None else wanted):
            raise NotCompilable(f"feature {name!r}: expected a splitter with {wanted} splits, got {splitter.n_splits}")
        self.I[slot + L.SLOT_FEATURE] = self.feature(name, False)
        distributions = splitter._att_dist_per_class
        for row, (label, one) in zip(self._known(slot, distributions, places), distributions.items(), strict=True):
            if type(one) is not Gaussian or one._var.ddof != 1:
                raise NotCompilable(f"feature {name!r}: expected a Gaussian with ddof 1")
            least, most = splitter._min_per_class[label], splitter._max_per_class[label]
            values = (one._var.mean.n, one._var.mean._mean, one._var._S, float(least), float(most))
            if values[3] != least or values[4] != most or values[0] == 0.0:
                raise NotCompilable(f"feature {name!r}: a value is no float, or has no weight")
            for field, value in zip((L.COUNT, L.MEAN, L.SQUARES, L.LEAST, L.MOST), values, strict=True):
                self.F[row + field] = value

    def _nominal_slot(self, slot: int, name: str, splitter: Any, places: dict[Label, int], room: int) -> None:
        values = list(splitter._att_values)
        weights = splitter._att_dist_per_class
        if not values or splitter._missing_weight_observed:
            raise NotCompilable(f"feature {name!r}: the leaf has learned a missing value")
        feature = self.feature(name, isinstance(values[0], str))
        codes = {value: q for q, value in enumerate(values)}
        place = max(len(values), L.FIRST_CATEGORIES)
        table = self.take(place * (1 + room))
        self.I[slot + L.SLOT_FEATURE], self.I[slot + L.TABLE] = feature, table
        self.I[slot + L.CATEGORIES], self.I[slot + L.CATEGORY_ROOM] = len(values), place
        for q, value in enumerate(values):
            self.F[table + q] = self.category(feature, value)
        for row, (label, one) in zip(self._known(slot, weights, places), weights.items(), strict=True):
            self.F[row + L.KNOWN] = 1.0
            self.F[row + L.COUNT] = sum(one.values())
            for value, weight in one.items():
                exact(weight, f"feature {name!r}: the weight of a category")
                self.F[table + (1 + places[label]) * place + codes[value]] = weight

    def feature(self, name: str, is_text: bool) -> int:
        """Return the number of a feature."""
        number = self.state.features.get(name)
        if number is not None and (self.state.kinds[number] == L.IS_TEXT) != is_text and self.state.kinds[number] >= 0:
            raise NotCompilable(f"feature {name!r} has texts and numbers")
        return self.state.feature(name, is_text)

    def category(self, feature: int, value: Any) -> float:
        """Return the number that stands for a category of a feature."""
        kind = self.state.kinds[feature]
        if isinstance(value, str) != (kind == L.IS_TEXT) or kind == L.IS_NUMBER:
            raise NotCompilable("a nominal feature has texts and numbers, or is not among nominal_attributes")
        if kind == L.IS_TEXT:
            texts = self.state.categories[feature]
            return float(texts.setdefault(value, len(texts)))
        if float(value) != value:
            raise NotCompilable(f"category {value!r} is no float")
        return float(value)

    def detector(self, one: Any, name: str) -> int:
        """Write a detector, and return its address; 0 for NoDrift."""
        parameters = self.state.parameters[name]
        if of_river.plain(one) != parameters:
            raise NotCompilable(f"{name}: expected the model's parameters in each node and tree")
        if parameters is None:
            return 0
        at = self.take(detector_words(parameters[supported.ADWIN.index("max_buckets")], L.MANY_ROWS))
        try:
            adwin.read_river(one._helper.__getstate__(), self.F, self.I, at)
        except Exception as error:  # struct.error is no ValueError
            raise NotCompilable(f"{name}: River keeps its state in another form: {error}") from error
        self.I[at + L.DETECTED] = one.drift_detected
        return at

    def _read_forest(self, pool: Pool) -> None:
        model = self.model
        for t in range(self.state.parameters["n_models"]):
            for field, name, each, tracker, count in (
                (L.WARNING, "warning_detector", "_warning_detectors", model._warning_tracker, L.WARNED),
                (L.DRIFT, "drift_detector", "_drift_detectors", model._drift_tracker, L.DRIFTED),
            ):
                if self.state.parameters[name] is not None:
                    pool.tree[t, field] = self.detector(getattr(model, each)[t], name)
                    pool.tree[t, count] = tracker.get(t, 0)
            self.scores(pool, t)

    def scores(self, pool: Pool, t: int) -> None:
        """Write how well a tree of a forest has predicted."""
        labels, matrix = self.state.labels, self.model._metrics[t].cm
        for truth, row in matrix.data.items():
            for said, weight in row.items():
                column = len(labels) if said is None else labels[said]
                pool.confusion[t, labels[truth], column] = exact(weight, "a confusion matrix")
        pool.scores[t, L.RIGHT_EVENTS], pool.scores[t, L.EVENTS] = matrix._total_true_positives, matrix.total_weight


def feature_name(name: Any) -> str:
    """Refuse the name of a feature that is no text."""
    if not isinstance(name, str):
        raise NotCompilable(f"expected the names of features to be texts, got {name!r}")
    return name


def exact(weight: float, what: str) -> int:
    """Refuse a weight that is no whole number."""
    if not (weight == int(weight) and 0 <= weight <= _LARGEST_EXACT):
        raise NotCompilable(f"{what}: expected whole numbers, got {weight}")
    return int(weight)


# --- Arrays to River --------------------------------------------------------------------------------------------------
class Writer:
    """Makes a River model of a model's arrays."""

    adaptive_branches: Mapping[type, int] = _ADAPTIVE_BRANCHES

    def __init__(self, state: State, pool: Pool) -> None:
        self.state = state
        self.pool = pool
        self.of_trees = supported.of_trees(state.family, state.parameters)
        self.F, self.I = pool.F, pool.I
        self.names = list(state.features)
        self.labels = list(state.labels)
        self.texts = [list(texts) for texts in state.categories]
        makes = {number: kind for kind, number in of_river.FAMILIES.items()}
        self.model = makes[state.family](**of_river.river_arguments(state.parameters))

    def write(self) -> Any:
        state, pool, model = self.state, self.pool, self.model
        if hasattr(model, "_rng"):
            words = (*pool.twister.tolist(), int(pool.position[0]))
            model._rng.setstate((_TWISTER, words, None))
        if state.shape == L.FOREST_FAMILY:
            self._write_forest()
            return model
        model.max_depth = state.max_depth
        if state.shape == L.ADAPTIVE_FAMILY:
            if not state.is_regression:
                model.classes = ClassesInOrder()
            model._n_alternate_trees = int(pool.tree[0, L.ALTERNATES])
            model._n_pruned_alternate_trees = int(pool.tree[0, L.PRUNED])
            model._n_switch_alternate_trees = int(pool.tree[0, L.SWITCHED])
        self._fill(model, 0)
        return model

    def _fill(self, one: Any, t: int) -> None:
        row = self.pool.tree[t]
        for label, seen in zip(self.labels, self.pool.seen[t], strict=True):
            if seen:
                one.classes.add(label)
        one._n_active_leaves, one._n_inactive_leaves = int(row[L.ACTIVE_LEAVES]), int(row[L.INACTIVE_LEAVES])
        one._train_weight_seen_by_model = float(row[L.LEARNED])
        if row[L.ROOT]:
            one._root = self._node(int(row[L.ROOT]), one)

    def _write_forest(self) -> None:
        state, pool, model = self.state, self.pool, self.model
        models = state.parameters["n_models"]
        if pool.tree[0, L.EXISTS]:
            model.max_features = state.subset_most
        for t in range(2 * models):
            if not pool.tree[t, L.EXISTS]:
                continue
            one = model._new_base_model()
            one.max_depth = state.max_depth
            self._fill(one, t)
            if t < models:
                model.data.append(one)
            else:
                model._background[t - models] = one
        for t in range(models):
            row = pool.tree[t]
            for field, each, tracker, count in (
                (L.WARNING, "_warning_detectors", model._warning_tracker, L.WARNED),
                (L.DRIFT, "_drift_detectors", model._drift_tracker, L.DRIFTED),
            ):
                if row[field]:
                    getattr(model, each)[t] = self.detector(int(row[field]), 0 if field == L.WARNING else 1)
                if row[count]:
                    tracker[t] = int(row[count])
            self.write_scores(t)

    def write_scores(self, t: int) -> None:
        """Set how well a tree of a forest has predicted."""
        confusion, matrix = self.pool.confusion[t], self.model._metrics[t].cm
        for truth, said in np.argwhere(confusion).tolist():
            prediction = None if said == len(self.labels) else self.labels[said]
            matrix.update(self.labels[truth], prediction, float(confusion[truth, said]))
        matrix.n_samples = matrix.total_weight = int(self.pool.scores[t, L.EVENTS])

    def _node(self, at: int, owner: Any) -> Any:
        kind = int(self.I[at + L.KIND])
        stats = self.statistics(at)
        node = self.leaf(at, stats, owner) if kind == L.LEAF else self._branch(at, kind, stats, owner)
        if self.state.shape == L.ADAPTIVE_FAMILY:
            self.write_error(at, node)
        return node

    def statistics(self, at: int) -> Any:
        """Return what a node has seen."""
        weights = int(self.I[at + L.WEIGHTS])
        places = [weights + L.PAIR * j for j in range(self.I[at + L.CLASSES])]
        stats = {self.labels[self.I[place + L.CLASS]]: float(self.F[place]) for place in places}
        if self.state.family == L.FOREST_FAMILY:
            for label in list(stats)[self.I[at + L.FLOATS] :]:
                if stats[label].is_integer():  # as in all that was not forged
                    stats[label] = int(stats[label])
        return stats

    def write_error(self, at: int, node: Any) -> None:
        """Set the error of a node of an adaptive tree."""
        node._mean_error = Mean._from_state(float(self.F[at + L.ERROR_COUNT]), float(self.F[at + L.ERROR_MEAN]))

    def _branch(self, at: int, kind: int, stats: Any, owner: Any) -> Any:
        feature = int(self.I[at + L.FEATURE])
        children, values = [], []
        child = int(self.I[at + L.LEFT])
        if kind == L.MULTIWAY:
            while child:
                children.append(self._node(child, owner))
                values.append(self.value(feature, self.F[child + L.CASE]))
                child = int(self.I[child + L.NEXT])
        else:
            children = [self._node(child, owner), self._node(int(self.I[at + L.RIGHT]), owner)]
        info: Any = values
        if kind == L.NOMINAL:
            info = self.value(feature, self.F[at + L.VALUE])
        elif kind == L.NUMERIC:
            info = float(self.F[at + L.VALUE])
        adaptive = self.state.shape == L.ADAPTIVE_FAMILY
        makes = {number: one for one, number in (self.adaptive_branches if adaptive else BRANCHES).items()}
        attributes = {"drift_detector": self.detector(int(self.I[at + L.DETECTOR]), 1)} if adaptive else {}
        depth = int(self.I[at + L.DEPTH])
        node = makes[kind](stats, self.names[feature], info, depth, *children, **attributes)
        if adaptive and self.I[at + L.ALTERNATE]:
            node._alternate_tree = self._node(int(self.I[at + L.ALTERNATE]), owner)
        return node

    def leaf(self, at: int, stats: Any, owner: Any) -> Any:
        """Return a leaf."""
        state, depth = self.state, int(self.I[at + L.DEPTH])
        if state.shape == L.ADAPTIVE_FAMILY:
            detector = self.detector(int(self.I[at + L.DETECTOR]), 1)
            leaf = hatc_nodes.AdaLeafClassifier(stats, depth, owner.splitter, detector, self.model._rng)
        elif state.shape == L.FOREST_FAMILY:
            make = OF_CLASSIFIERS[state.parameters["leaf_prediction"]][1]
            leaf = make(stats, depth, owner.splitter, state.subset_most, self.model._rng)
        else:
            leaf = OF_CLASSIFIERS[state.parameters["leaf_prediction"]][0](stats, depth, owner.splitter)
        self.write_to_every_leaf(at, leaf)
        if isinstance(leaf, htc_nodes.LeafNaiveBayesAdaptive):
            leaf._mc_correct_weight = float(self.F[at + L.MAJORITY_RIGHT])
            leaf._nb_correct_weight = float(self.F[at + L.BAYES_RIGHT])
        words = L.HEADER + L.ROW * int(self.I[at + L.CLASS_ROOM])
        for s in range(self.I[at + L.SLOTS]):
            slot = int(self.I[at + L.BLOCK]) + s * words
            name = self.names[self.I[slot + L.SLOT_FEATURE]]
            leaf.splitters[name] = self._splitter(slot, list(stats), owner)
        if not self.I[at + L.ACTIVE]:
            leaf.deactivate()
        return leaf

    def write_to_every_leaf(self, at: int, leaf: Any) -> None:
        """Set what leaves of classifiers and of regressors share."""
        leaf._last_split_attempt_at = float(self.F[at + L.LAST])
        if self.state.shape == L.FOREST_FAMILY:
            subset = int(self.I[at + L.SUBSET])
            leaf.feature_indices = [self.names[f] for f in self.I[subset : subset + self.I[at + L.SUBSET_SIZE]]]

    def _splitter(self, slot: int, labels: list[Label], owner: Any) -> Any:
        F, I = self.F, self.I
        known = [int(I[slot + L.HEADER + L.ROW * q + L.ORDER]) for q in range(I[slot + L.SLOT_CLASSES])]
        if I[slot + L.TABLE] == 0:
            numeric = owner.splitter.clone()
            for j in known:
                row = slot + L.HEADER + L.ROW * j
                one = Gaussian()
                one._var.mean = Mean._from_state(float(F[row + L.COUNT]), float(F[row + L.MEAN]))
                one._var._S = float(F[row + L.SQUARES])
                numeric._att_dist_per_class[labels[j]] = one
                numeric._min_per_class[labels[j]] = float(F[row + L.LEAST])
                numeric._max_per_class[labels[j]] = float(F[row + L.MOST])
            return numeric
        nominal = NominalSplitterClassif()
        feature, table, place = int(I[slot + L.SLOT_FEATURE]), int(I[slot + L.TABLE]), int(I[slot + L.CATEGORY_ROOM])
        values = [self.value(feature, F[table + q]) for q in range(I[slot + L.CATEGORIES])]
        for value in values:
            nominal._att_values.add(value)
        for j in known:
            weights = F[table + (1 + j) * place :][: len(values)].tolist()
            nominal._att_dist_per_class[labels[j]] = {
                value: weight for value, weight in zip(values, weights, strict=True) if weight
            }
            nominal._total_weight_observed += float(F[slot + L.HEADER + L.ROW * j + L.COUNT])
        return nominal

    def value(self, feature: int, code: float) -> Any:
        """Return the category that a number stands for."""
        return self.texts[feature][int(code)] if self.state.kinds[feature] == L.IS_TEXT else float(code)

    def detector(self, at: int, which: int) -> Any:
        """Return a detector: 0 is one of warnings, 1 one of drifts."""
        parameters = self.state.parameters["warning_detector" if which == 0 else "drift_detector"]
        made = of_river.adwin(parameters)
        made._helper.__setstate__(adwin.write_river(self.pool.detector[which], self.F, self.I, at))
        made._drift_detected = bool(self.I[at + L.DETECTED])
        return made
