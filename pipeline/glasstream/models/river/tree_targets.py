"""From a River regressor to arrays and back."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from river import linear_model, metrics
from river.forest.adaptive_random_forest import BaseTreeRegressor
from river.stats import Mean, Var
from river.tree.nodes import hatr_nodes, htr_nodes
from river.tree.splitter.ebst_splitter import EBSTNode
from river.tree.splitter.nominal_splitter_reg import NominalSplitterReg

from glasstream.base.errors import NotCompilable
from glasstream.models.online import layout as L
from glasstream.models.online import parameters as supported
from glasstream.models.online.layout import Pool
from glasstream.models.online.state import Label
from glasstream.models.river import parameters as of_river
from glasstream.models.river.leaves import OF_REGRESSORS
from glasstream.models.river.trees import Reader, Writer, exact, feature_name

_ADAPTIVE_BRANCHES: Final = {
    hatr_nodes.AdaNumBinaryBranchReg: L.NUMERIC,
    hatr_nodes.AdaNomBinaryBranchReg: L.NOMINAL,
    hatr_nodes.AdaNomMultiwayBranchReg: L.MULTIWAY,
}


class TargetReader(Reader):
    """Writes one regressor into an arena of its own."""

    adaptive_branches = _ADAPTIVE_BRANCHES
    tree_of_forest = BaseTreeRegressor
    alike = supported.OF_REGRESSORS.keys() - {"max_depth", "nominal_attributes"}

    def read_labels(self) -> None:
        pass

    def classes_of(self, tree: Any) -> Iterable[Label]:
        return ()

    def scores(self, pool: Pool, t: int) -> None:
        metric = self.model._metrics[t]
        if type(metric) is not metrics.MSE or type(metric._mean) is not Mean:
            raise NotCompilable("expected the metric of a tree to be the mean of squared errors")
        pool.scores[t, L.SCORED], pool.scores[t, L.LOSS] = exact(metric._mean.n, "a metric"), metric._mean._mean
        pool.scores[t, L.NORM :] = _words(self.model._drift_norm[t], "the errors of a tree")

    def statistics(self, at: int, node: Any) -> None:
        target = self.take(L.TARGET)
        self.I[at + L.WEIGHTS], self.I[at + L.CLASSES], self.I[at + L.CLASS_ROOM] = target, 1, 0
        self.F[target : target + 3] = _words(node.stats, "a node")

    def error(self, at: int, node: Any) -> None:
        target = int(self.I[at + L.WEIGHTS])
        words = _words(node._error_tracker, "the error of a node")
        self.F[at + L.ERROR_COUNT], self.F[at + L.ERROR_MEAN], self.F[target + L.ERROR_DEVIATION] = words

    def leaf(self, at: int, leaf: Any, owner: Any) -> None:
        self.of_every_leaf(at, leaf, OF_REGRESSORS[self.state.parameters["leaf_prediction"]][self.state.shape])
        target = int(self.I[at + L.WEIGHTS])
        self.F[target + L.MEAN_LOSS] = getattr(leaf, "_fmse_mean", 0.0)
        self.F[target + L.MODEL_LOSS] = getattr(leaf, "_fmse_model", 0.0)
        if isinstance(leaf, htr_nodes.LeafModel):
            self._model(target, leaf._leaf_model)
        splitters = leaf.splitters or {}
        if splitters:
            block = self.take(L.HEADER * len(splitters))
            self.I[at + L.BLOCK], self.I[at + L.SLOTS], self.I[at + L.SLOT_ROOM] = block, len(splitters), len(splitters)
            for s, (name, splitter) in enumerate(splitters.items()):
                self._observer(block + L.HEADER * s, feature_name(name), splitter)

    def _model(self, target: int, model: Any) -> None:
        if type(model) is not linear_model.LinearRegression or not of_river.is_plain(model):
            raise NotCompilable("a leaf has a model of another kind than the tree's")
        if of_river.rates(model) != self.of_trees["leaf_model"]:
            raise NotCompilable("a leaf has a model with other parameters than the tree's")
        entries = self.take(L.PAIR * len(model.weights))
        self.F[target + L.INTERCEPT], self.I[target + L.STEPS] = model.intercept, model.optimizer.n_iterations
        if model.weights:
            self.I[target + L.ENTRIES] = entries
            self.I[target + L.ENTRY_COUNT] = self.I[target + L.ENTRY_ROOM] = len(model.weights)
        for q, (name, weight) in enumerate(model.weights.items()):
            self.F[entries + L.PAIR * q] = weight
            self.I[entries + L.PAIR * q + L.CLASS] = self.feature(feature_name(name), False)

    def _observer(self, slot: int, name: str, splitter: Any) -> None:
        if type(splitter) is NominalSplitterReg:
            self._categories(slot, name, splitter)
            return
        wanted = of_river.search_tree(self.of_trees["splitter"])
        if type(splitter) is not type(wanted) or vars(splitter).get("digits") != vars(wanted).get("digits"):
            raise NotCompilable(f"feature {name!r} is watched by another splitter than the tree's")
        self.I[slot + L.SLOT_FEATURE] = self.feature(name, False)
        self.I[slot + L.SEARCH] = self._search(name, splitter._root)

    def _search(self, name: str, root: Any) -> int:
        waiting = [(root, 0, 0)] if root is not None else []
        first = 0
        while waiting:
            node, above, side = waiting.pop()
            if type(node) is not EBSTNode or float(node.att_val) != node.att_val:
                raise NotCompilable(f"feature {name!r}: a value is no float")
            point = self.take(L.POINT)
            self.F[point + L.POINT_VALUE] = node.att_val
            self.F[point + L.POINT_SEEN : point + L.POINT_SEEN + 3] = _words(node.estimator, f"feature {name!r}")
            self.I[point + L.POINT_ABOVE] = above
            if above:
                self.I[above + side] = point
            else:
                first = point
            for child, place in ((node._left, L.POINT_LEFT), (node._right, L.POINT_RIGHT)):
                if child is not None:
                    waiting.append((child, point, place))
        return first

    def _categories(self, slot: int, name: str, splitter: Any) -> None:
        statistics = splitter._statistics
        if not statistics:
            raise NotCompilable(f"feature {name!r}: a splitter has no category")
        feature = self.feature(name, isinstance(next(iter(statistics)), str))
        room = max(len(statistics), L.FIRST_CATEGORIES)
        table = self.take(L.CASES * room)
        self.I[slot + L.SLOT_FEATURE], self.I[slot + L.TABLE] = feature, table
        self.I[slot + L.CATEGORIES], self.I[slot + L.CATEGORY_ROOM] = len(statistics), room
        for q, (value, one) in enumerate(statistics.items()):
            self.F[table + L.CASES * q] = self.category(feature, value)
            self.F[table + L.CASES * q + 1 : table + L.CASES * (q + 1)] = _words(one, f"feature {name!r}")


def _words(one: Any, what: str) -> tuple[float, float, float]:
    if type(one) is not Var or one.ddof != 1:
        raise NotCompilable(f"{what}: expected the variance of one target, with ddof 1")
    return exact(one.mean.n, what), one.mean._mean, one._S


def _var(count: float, mean: float, deviation: float) -> Var:
    one = Var()
    one.mean, one._S = Mean._from_state(count, mean), deviation
    return one


class TargetWriter(Writer):
    """Makes a River regressor of a model's arrays."""

    adaptive_branches = _ADAPTIVE_BRANCHES

    def statistics(self, at: int) -> Var:
        return self._variance(int(self.I[at + L.WEIGHTS]))

    def write_scores(self, t: int) -> None:
        scores = self.pool.scores[t].tolist()
        self.model._metrics[t]._mean = Mean._from_state(scores[L.SCORED], scores[L.LOSS])
        self.model._drift_norm[t] = _var(*scores[L.NORM :])

    def _variance(self, at: int) -> Var:
        return _var(*self.F[at : at + 3].tolist())

    def write_error(self, at: int, node: Any) -> None:
        target = int(self.I[at + L.WEIGHTS])
        words = (self.F[at + L.ERROR_COUNT], self.F[at + L.ERROR_MEAN], self.F[target + L.ERROR_DEVIATION])
        node._error_tracker = _var(*map(float, words))

    def leaf(self, at: int, stats: Var, owner: Any) -> Any:
        F, I = self.F, self.I
        depth, target = int(I[at + L.DEPTH]), int(I[at + L.WEIGHTS])
        prediction = self.state.parameters["leaf_prediction"]
        more: dict[str, Any] = {} if prediction == "mean" else {"leaf_model": self._model(target)}
        if self.state.shape == L.ADAPTIVE_FAMILY:
            more |= {"drift_detector": self.detector(int(I[at + L.DETECTOR]), 1), "rng": self.model._rng}
        elif self.state.shape == L.FOREST_FAMILY:
            more |= {"max_features": self.state.subset_most, "rng": self.model._rng}
        leaf = OF_REGRESSORS[prediction][self.state.shape](stats, depth, owner.splitter, **more)
        self.write_to_every_leaf(at, leaf)
        if prediction == "adaptive":
            leaf._fmse_mean, leaf._fmse_model = float(F[target + L.MEAN_LOSS]), float(F[target + L.MODEL_LOSS])
        for s in range(I[at + L.SLOTS]):
            slot = int(I[at + L.BLOCK]) + L.HEADER * s
            leaf.splitters[self.names[I[slot + L.SLOT_FEATURE]]] = self._observed(slot, owner)
        if not I[at + L.ACTIVE]:
            leaf.deactivate()
        return leaf

    def _model(self, target: int) -> linear_model.LinearRegression:
        model = of_river.linear_regression(self.of_trees["leaf_model"])
        entries = int(self.I[target + L.ENTRIES])
        for q in range(self.I[target + L.ENTRY_COUNT]):
            name = self.names[self.I[entries + L.PAIR * q + L.CLASS]]
            model._weights[name] = float(self.F[entries + L.PAIR * q])
        model.intercept, model.optimizer.n_iterations = (
            float(self.F[target + L.INTERCEPT]),
            int(self.I[target + L.STEPS]),
        )
        return model

    def _observed(self, slot: int, owner: Any) -> Any:
        F, I = self.F, self.I
        if I[slot + L.TABLE]:
            nominal = NominalSplitterReg()
            for q in range(I[slot + L.CATEGORIES]):
                category = int(I[slot + L.TABLE]) + L.CASES * q
                value = self.value(int(I[slot + L.SLOT_FEATURE]), F[category])
                nominal._statistics[value] = self._variance(category + 1)
            return nominal
        numeric = owner.splitter.clone()
        made: dict[int, Any] = {}
        for point in self._points(int(I[slot + L.SEARCH])):
            node = made[point] = EBSTNode(float(F[point + L.POINT_VALUE]), 0.0, 1.0)
            node.estimator = self._variance(point + L.POINT_SEEN)
            above = int(I[point + L.POINT_ABOVE])
            if not above:
                numeric._root = node
            elif I[above + L.POINT_LEFT] == point:
                made[above]._left = node
            else:
                made[above]._right = node
        return numeric

    def _points(self, root: int) -> Iterator[int]:
        waiting = [root] if root else []
        while waiting:
            point = waiting.pop()
            yield point
            waiting += [int(self.I[point + side]) for side in (L.POINT_LEFT, L.POINT_RIGHT) if self.I[point + side]]
