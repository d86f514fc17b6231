"""Errors of iPFI with the forest of an older River, beside those with the forest of this River. JSON lines.

    python tests/benchmarks/older_forest.py --data DIR [--python PATH] [--streams "elec2 fe. 1"] [--seeds 1]

PATH is a Python with River 0.11.1, the version in the requirements of the authors' code, and with a NumPy below 2.
Both forests learn the same events of `glasstream paper ipfi-drift` with the same seed, and our iPFI explains them.

There is a line for each stream, seed and forest:

- `river`, `seed`: version of River; seed of the stream, of the forest and of iPFI
- `correct`: share of the events that the forest predicts correctly before it learns them
- `resets`: number of trees that a detected drift replaced
- `errors`, `paper`: for each sampling and alpha the errors of the whole stream, before and after the drift

The older River runs in a process of its own, which sends its trees as arrays after each block. At the end, its
forest itself predicts the last events too; if the arrays predict otherwise, the program fails.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: in it files have the names of packages

import numpy as np

DATA = Path(os.environ.get("GLASSTREAM_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
OBSERVED, CLASSES = 3, 2
"""Largest number of features that a leaf observes, and number of classes."""
CHECKED = 200
"""Number of the last events that both forms of the forest predict."""


class Served:
    """Forest of the older River in this process, with its trees as arrays."""

    def __init__(self, names: list[str], trees: int, seed: int) -> None:
        from river.ensemble import AdaptiveRandomForestClassifier

        self._names, self._numbers = names, {name: number for number, name in enumerate(names)}
        self._forest = AdaptiveRandomForestClassifier(n_models=trees, binary_split=True, seed=seed)
        self._leaves: dict[int, tuple[Any, float, list[float]]] = {}

    def learn(self, rows: list[list[float]], labels: list[int]) -> list[Any]:
        predicted = []
        for row, label in zip(rows, labels, strict=True):
            x = dict(zip(self._names, row, strict=True))
            predicted.append(self._forest.predict_one(x))
            self._forest.learn_one(x, label)
        return predicted

    def predict(self, rows: list[list[float]]) -> list[Any]:
        return [self._forest.predict_one(dict(zip(self._names, row, strict=True))) for row in rows]

    def resets(self) -> int:
        return sum(tree.n_drifts_detected for tree in self._forest.data)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nodes (feature or -1, threshold, left or leaf, right), leaves, and (root, weight) of each tree."""
        nodes: list[list[float]] = []
        leaves: list[list[float]] = []
        kept: dict[int, tuple[Any, float, list[float]]] = {}

        def add(node: Any) -> int:
            place = len(nodes)
            nodes.append([-1.0, 0.0, 0.0, 0.0])
            if hasattr(node, "children"):
                left, right = (add(child) for child in node.children)
                nodes[place] = [float(self._numbers[node.feature]), node.threshold, left, right]
            else:
                nodes[place][2] = len(leaves)
                known = self._leaves.get(id(node))
                if known is None or known[0] is not node or known[1] != node.total_weight:
                    known = (node, node.total_weight, self._leaf(node))
                kept[id(node)] = known
                leaves.append(known[2])
            return place

        trees = []
        for member in self._forest.data:
            root = member.model._root
            trees.append([-1.0 if root is None else add(root), member.metric.get()])
        self._leaves = kept
        return {"nodes": np.array(nodes), "leaves": np.array(leaves), "trees": np.array(trees)}

    def _leaf(self, node: Any) -> list[float]:
        """Return 1 for naive Bayes, the votes or log priors, and feature, means and variances for each observation."""
        bayes = node._nb_correct_weight >= node._mc_correct_weight
        total = sum(node.stats.values())
        if not bayes:
            votes = [node.stats.get(label, 0.0) / total if total else 0.0 for label in range(CLASSES)]
            return [0.0, *votes] + [-1.0] * (OBSERVED * (1 + 2 * CLASSES))
        priors = [-np.inf] * CLASSES
        for label, weight in node.stats.items():
            if total:
                priors[label] = float(np.log(weight / total)) if weight > 0 else 0.0
        row = [1.0, *priors]
        for name, observer in list(node.splitters.items()):
            row.append(float(self._numbers[name]))
            for label in range(CLASSES):
                found = observer._att_dist_per_class.get(label) if node.stats.get(label, 0.0) > 0 else None
                row += [0.0, 0.0] if found is None else [found.mu, found._var.get()]
        if len(node.splitters) > OBSERVED:
            raise SystemExit("a leaf observes more features than expected")
        return row + [-1.0] * (1 + CLASSES + OBSERVED * (1 + 2 * CLASSES) - len(row))


def serve() -> None:
    """Answer the requests (method, arguments) on the standard input until it ends."""
    import river

    forest: Any = None
    while True:
        try:
            method, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  (from the process that began this one)
        except EOFError:
            return
        if method == "new":
            forest, answer = Served(*arguments), river.__version__
        else:
            answer = getattr(forest, method)(*arguments)
        sys.stdout.buffer.write(pickle.dumps(answer, protocol=4))
        sys.stdout.buffer.flush()


def labels_of(rows: np.ndarray, nodes: np.ndarray, leaves: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """Return the forest's label of each row, as River 0.11.1 predicts it."""
    labels = np.zeros(len(rows), np.int64)
    for i in range(len(rows)):
        sums = np.zeros(CLASSES)
        for t in range(len(trees)):
            if trees[t, 0] < 0.0:
                continue
            place = int(trees[t, 0])
            while nodes[place, 0] >= 0.0:
                side = 2 if rows[i, int(nodes[place, 0])] <= nodes[place, 1] else 3
                place = int(nodes[place, side])
            leaf = leaves[int(nodes[place, 2])]
            votes = leaf[1 : 1 + CLASSES].copy()
            if leaf[0] > 0.0:
                for k in range(OBSERVED):
                    at = 1 + CLASSES + k * (1 + 2 * CLASSES)
                    if leaf[at] < 0.0:
                        break
                    value = rows[i, int(leaf[at])]
                    for c in range(CLASSES):
                        mean, variance = leaf[at + 1 + 2 * c], leaf[at + 2 + 2 * c]
                        if variance > 0.0:
                            density = np.exp(-((value - mean) ** 2) / (2.0 * variance)) / np.sqrt(2 * np.pi * variance)
                            if density > 0.0:
                                votes[c] += np.log(density)
                top = votes.max()
                votes = np.exp(votes - top) if top > -np.inf else np.zeros(CLASSES)
                votes /= max(votes.sum(), 1e-300)
            sums += votes * (trees[t, 1] if trees[t, 1] > 0.0 else 1.0)
        labels[i] = np.argmax(sums)
    return labels


class Older:
    """Forest of the older River, which learns in the other process. It takes the place of a `StreamLearner`."""

    compiled = True
    task = "classification"
    classes = ("0", "1")

    def __init__(self, python: str, names: tuple[str, ...], trees: int, seed: int) -> None:
        import numba

        self.features = names
        self._labels = numba.njit(labels_of)
        self._process = subprocess.Popen([python, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.version = self._ask("new", list(names), trees, seed)
        self._arrays: dict[str, np.ndarray] | None = None
        self.correct: list[bool] = []

    def _ask(self, method: str, *arguments: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(pickle.dumps((method, arguments), protocol=4))
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)  # noqa: S301  (from a process of this program)

    def learn(self, rows: np.ndarray, targets: np.ndarray) -> None:
        predicted = self._ask("learn", rows.tolist(), targets.tolist())
        self.correct += [label == target for label, target in zip(predicted, targets.tolist(), strict=True)]
        self._arrays = None

    def predictor(self) -> "Older":
        """Return itself. `followed` uses a predictor only until the next block is learned."""
        return self

    def evaluate(self, rows: np.ndarray) -> Any:
        from glasstream.models.predictors.predictor import Output

        if self._arrays is None:
            self._arrays = self._ask("arrays")
        labels = self._labels(np.ascontiguousarray(rows), *(self._arrays[key] for key in ("nodes", "leaves", "trees")))
        return Output(np.eye(CLASSES)[labels], labels)

    def end(self, rows: np.ndarray) -> int:
        """End the other process, and return the number of resets, if both forms of the forest agree on these rows."""
        if self._ask("predict", rows.tolist()) != self.evaluate(rows).labels.tolist():
            raise SystemExit("the arrays do not predict as the forest does")
        resets = int(self._ask("resets"))
        self._process.communicate()  # the end of its input ends it
        return resets


def compared(folder: Path, name: str, seed: int, python: str | None) -> Any:
    """Yield the lines of a stream and seed."""
    from river import __version__, forest

    from glasstream_lab.papers.ipfi_drift import PHASES, STREAMS, TREES, events_of, explainers_of, followed
    from glasstream_lab.papers.models import StreamLearner

    class Ours(StreamLearner):
        version = __version__

        def __init__(self) -> None:
            super().__init__(forest.ARFClassifier(TREES, binary_split=True, seed=seed), names)
            self.correct: list[bool] = []

        def learn(self, rows: np.ndarray, targets: np.ndarray) -> Any:
            self.correct += (super().learn(rows, targets) == targets).tolist()

        def end(self, rows: np.ndarray) -> int:
            return int(self.river().n_drifts_detected())

    stream = STREAMS[name]
    names, rows, targets = events_of(folder, stream, seed, shuffle=True)
    for learner in (Ours(), *([Older(python, names, TREES, seed)] if python else [])):
        found = followed(stream, rows, targets, learner, explainers_of(seed), seed, order="after")
        line = {
            "stream": name,
            "river": learner.version,
            "seed": seed,
            "correct": round(float(np.mean(learner.correct)), 3),
        }
        line |= {"resets": learner.end(rows[-CHECKED:]), "paper": {}, "errors": {}}
        for (sampling, alpha), numbers in stream.paper.items():
            key = f"{sampling} {alpha:g}"
            line["paper"][key] = numbers
            line["errors"][key] = [round(found[f"{key} {phase}"], 4) for phase in PHASES]
        yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--streams", nargs="+", default=["elec2 fe. 1"])
    parser.add_argument("--seeds", default="1", help="seeds, with commas between them")
    parser.add_argument("--python", help="the Python with the older River")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    for name in arguments.streams:
        for seed in map(int, arguments.seeds.split(",")):
            for line in compared(arguments.data, name, seed, arguments.python):
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
