"""Drift indicators of GBMAP, ours beside the authors' code on the same splits. One JSON line a data set and seed.

    python tests/benchmarks/gbmap_drift.py --data DIR [--sets auto_mpg,air_quality] [--seeds 1] [--descending]
        [--python PATH]

Both sides repeat the protocol of `glasstream paper gbmap-drift` (Patron et al. 2024, 4.1 and 4.5): for each numeric
feature they fit the same rows, and the feature with the most drift is the one whose areas count. Ours starts as the
authors' code does (`--start normal`).

- `paper`: the paper's areas of GBMAP and of the Euclidean distance
- `ours`, `theirs`: the dropped feature, its `drift`, the areas `gbmap` and `euclidean`, the share of `positives` in b,
  and the CPU `seconds` of all fits; the kernels are loaded, and theirs compiled, before the time is taken
- `by_feature`: both areas, if a feature is dropped, of ours and of theirs
- `variants`: the Euclidean area of the feature that ours drops, if the distance, the loss to detect or the threshold is
  another: what the text of the paper leaves open. A squared distance has the same area. With `--descending`, the upper
  half of a feature is learned in place of the lower one.

For theirs, see `gbmap.py`: a checkout named by `GLASSTREAM_PEERS`, and a Python with JAX in `--python`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: in it files have the names of packages
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as in Glasstream; on a busy machine, waiting threads take most of the time

import numpy as np

DATA = Path(os.environ.get("GLASSTREAM_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
SETS = "auto_mpg,air_quality,qm9_10k,breast_cancer_wdbc,eeg_eye_state,higgs_10k"
"""Data sets that are compared by default."""
NEIGHBOURS, LEARNERS, BETA, RIDGE, ITERATIONS, TOLERANCE = 5, 20, 5.0, 1e-3, 200, 1e-3
Arrays = dict[str, np.ndarray]


def table_of(folder: Path, name: str, descending: bool) -> Any:
    """Return a data set; descending, with the signs of its numbers turned around, which turns their order around."""
    from glasstream_lab.papers.gbmap_sets import read_set

    table = read_set(folder, name)
    if not descending:
        return table
    numbers = [column for column in range(len(table.names)) if column not in table.categorical]
    rows = table.rows.copy()
    rows[:, numbers] *= -1.0
    return replace(table, rows=rows)


def ours(table: Any, seed: int) -> Arrays:
    """Return the splits of a data set by feature, with f and the indicator of our maps, and their CPU time."""
    from glasstream.detect.gbmap.encoding import scale_of
    from glasstream.detect.gbmap.fit import fit_map
    from glasstream.detect.gbmap.indicator import DriftIndicator
    from glasstream.detect.gbmap.settings import SENSITIVE
    from glasstream_lab.papers.gbmap_drift import split_at

    if table.classes:
        settings, targets = replace(SENSITIVE, loss="logistic", seed=seed), 2.0 * table.targets - 1.0
    else:
        centre, deviation = scale_of(table.targets)
        settings, targets = replace(SENSITIVE, seed=seed), (table.targets - centre) / deviation
    used = (settings.learners, settings.beta, settings.ridge, settings.iterations, settings.tolerance)
    if used != (LEARNERS, BETA, RIDGE, ITERATIONS, TOLERANCE):
        raise SystemExit("the preset is not what theirs is asked for")
    ends = np.argsort(targets, kind="stable")[[*range(25), *range(-25, 0)]]  # of both classes
    fit_map(np.nan_to_num(table.rows[ends, :2]), targets[ends], settings)  # loads the kernels
    draws = np.random.Generator(np.random.PCG64(seed))
    found: Arrays = {"targets": targets}
    seconds = 0.0
    for column, feature in enumerate(table.names):
        if column in table.categorical:
            continue
        started = time.process_time()
        split = split_at(table, targets, column, settings, draws)
        seconds += time.process_time() - started
        if split is None:
            continue
        own = {"rows": split.rows, "known": split.known, "within": split.within, "beyond": split.beyond}
        indicator = DriftIndicator.of(split.map, split.rows[split.known], targets[split.known])
        asked = np.concatenate((split.within, split.beyond))
        own |= {"f": split.map.predict(split.rows), "indicator": indicator.indicator(split.rows[asked])}
        own["euclidean"] = indicator.baseline(split.rows[asked])
        found |= {f"{feature}:{key}": value for key, value in own.items()}
    return found | {"seconds": np.array(seconds)}


def theirs(source: Arrays, seed: int) -> Arrays:
    """Return f and the indicator of their maps on our splits, and their CPU time without compiling."""
    import jax
    import jax.numpy as jnp

    sys.path.insert(0, str(checkout()))
    from gbmap.common import loss_logistic, loss_quadratic
    from gbmap.gbmap import GBMAP, LBFGS, add_intercept, init_network_params1, learn1, predict1
    from scipy.spatial import cKDTree

    targets = source["targets"]
    classes = is_classes(targets)
    loss = loss_logistic if classes else loss_quadratic

    @jax.jit
    def learner(x: Any, y: Any, before: Any, b: float, key: Any) -> tuple[Any, Any]:
        start = init_network_params1(x.shape[1], b, key)
        limits = {"maxiter": ITERATIONS, "tol": TOLERANCE}
        learned = learn1(x, y, before, start, limits, loss, RIDGE, BETA, LBFGS)
        return learned, loss(y, before + predict1(learned, x, BETA))

    def fit(rows: np.ndarray, y: np.ndarray) -> Any:
        x, y, key = jnp.asarray(add_intercept(rows)), jnp.asarray(y), jax.random.PRNGKey(seed)
        before, learners = jnp.zeros(y.shape), []
        for _ in range(LEARNERS):
            key, own = jax.random.split(key)
            (plus, above), (minus, below) = (learner(x, y, before, b, own) for b in (1.0, -1.0))
            learners.append(minus if below < above else plus)
            before = before + predict1(learners[-1], x, BETA)
        return GBMAP.from_params(learners, {"softplus_scale": BETA, "is_classifier": classes})

    found: Arrays = {}
    seconds: list[float] = []
    for feature in features(source):
        rows, known, within, beyond = (source[f"{feature}:{key}"] for key in ("rows", "known", "within", "beyond"))
        if not seconds:
            fit(rows[known], targets[known])  # compiles
        started = time.process_time()
        model = fit(rows[known], targets[known])
        seconds.append(time.process_time() - started)
        f, embedded = np.asarray(model.predict(rows, get_score=True), float), np.asarray(model.transform(rows), float)
        asked = np.concatenate((within, beyond))
        _, near = cKDTree(embedded[known]).query(embedded[asked], NEIGHBOURS, p=1)
        supported = (f if classes else targets)[known][near].mean(axis=1)
        found |= {f"{feature}:f": f, f"{feature}:indicator": np.abs(f[asked] - supported)}
    return found | {"seconds": np.array(sum(seconds))}


def is_classes(targets: np.ndarray) -> bool:
    return set(np.unique(targets)) == {-1.0, 1.0}


def features(source: Arrays) -> list[str]:
    return [key.removesuffix(":known") for key in source if key.endswith(":known")]


def fitted_loss(f: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the loss of each row, logistic or squared: it chooses the feature, and is what the indicators detect."""
    return np.logaddexp(0, -targets * f) if is_classes(targets) else np.square(targets - f)


def positives(losses: np.ndarray, limit: np.ndarray, split: Arrays) -> np.ndarray:
    """Return which rows of a2 and b have a loss above the 95 % quantile of the rows `limit`."""
    asked = np.concatenate((split["within"], split["beyond"]))
    return np.asarray(losses[asked] > np.quantile(losses[limit], 0.95))


def area(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """Return the area under the ROC curve, or None if the rows are all of one sort."""
    from glasstream_lab.papers import gbmap_drift

    return round(gbmap_drift.area(scores, positive), 4) if 0 < positive.sum() < len(positive) else None


def judged(source: Arrays, side: Arrays) -> dict[str, Any]:
    """Return what a side found by the protocol, and both areas by feature."""
    targets = source["targets"]
    drifts, areas, shares = {}, {}, {}
    for feature in features(source):
        split, f = split_of(source, feature), side[f"{feature}:f"]
        losses = fitted_loss(f, targets)
        drifts[feature] = float(losses[split["beyond"]].mean() - losses[split["within"]].mean())
        positive = positives(losses, split["within"], split)
        shares[feature] = round(float(positive[len(split["within"]) :].mean()), 3)
        areas[feature] = [area(side[f"{feature}:indicator"], positive), area(split["euclidean"], positive)]
    most = max(drifts, key=lambda feature: drifts[feature])
    chosen = {"feature": most, "drift": round(drifts[most], 4), "gbmap": areas[most][0], "euclidean": areas[most][1]}
    return chosen | {"positives": shares[most], "seconds": round(float(side["seconds"]), 2), "by_feature": areas}


def split_of(source: Arrays, feature: str) -> Arrays:
    return {key.partition(":")[2]: value for key, value in source.items() if key.startswith(f"{feature}:")}


def variants(table: Any, source: Arrays, feature: str, scores: np.ndarray | None) -> dict[str, Any]:
    """Return the Euclidean area by variant of the distance, the loss, and the threshold."""
    from glasstream.detect.gbmap.neighbours import Neighbours

    split, targets = split_of(source, feature), source["targets"]
    asked = np.concatenate((split["within"], split["beyond"]))
    f, encoded, known = split["f"], split["rows"], split["known"]
    losses = fitted_loss(f, targets)
    positive = positives(losses, split["within"], split)

    def distances(rows: np.ndarray, k: int = NEIGHBOURS) -> np.ndarray:
        return Neighbours.of(rows[known], "euclidean").nearest(rows[asked], k)[1]

    def scaled(rows: np.ndarray, by: np.ndarray) -> np.ndarray:
        deviations = by.std(axis=0)
        return (rows - by.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)

    column = table.names.index(feature)
    whole = np.column_stack((encoded, scaled(table.rows[:, [column]], table.rows[:, [column]])))
    raw = np.nan_to_num(np.delete(table.rows, column, axis=1))
    tried = {
        "as in gbmap-drift": split["euclidean"],
        "nearest": distances(encoded, 1)[:, 0],
        "20th": distances(encoded, 20)[:, -1],
        "mean of 5": distances(encoded).mean(axis=1),
        "scaled by a1": distances(scaled(encoded, encoded[known]))[:, -1],
        "not scaled": distances(raw)[:, -1],
        "with the dropped feature": distances(whole)[:, -1],
    }
    if table.categorical:
        tried["categories scaled too"] = distances(scaled(encoded, encoded))[:, -1]
        tried["categories as numbers"] = distances(scaled(raw, raw))[:, -1]
    found: dict[str, Any] = {variant: area(one, positive) for variant, one in tried.items()}
    plain = split["euclidean"]
    found["threshold from a1"] = area(plain, positives(losses, known, split))
    found["rows of b are positive"] = area(plain, np.arange(len(asked)) >= len(split["within"]))
    if scores is not None:
        from sklearn.linear_model import LogisticRegression

        penalised = LogisticRegression(max_iter=1_000).fit(encoded, targets).decision_function(encoded)
        others = {
            "squared distance from the score": np.square(scores - f),
            "squared distance from the class": np.square(targets - f),
            "penalised score": np.square(penalised - f),
        }
        found |= {variant: area(plain, positives(one, split["within"], split)) for variant, one in others.items()}
    return found


def compared(table: Any, name: str, seed: int, python: str | None) -> dict[str, Any]:
    """Return the line of a data set and seed."""
    from glasstream_lab.papers.gbmap_drift import scores_of
    from glasstream_lab.papers.gbmap_sets import SETS as PAPER

    scores = scores_of(table) if table.classes else None
    source = ours(table, seed)
    own = judged(source, source)
    by_feature = {"ours": own.pop("by_feature")}
    line: dict[str, Any] = {"data": name, "seed": seed, "paper": [PAPER[name].auc, PAPER[name].auc_euclidean]}
    line["ours"] = own
    if python is not None:
        with tempfile.TemporaryDirectory() as place:
            np.savez(Path(place) / "splits.npz", **source)
            command = [python, __file__, "--one", place, "--seeds", str(seed)]
            if subprocess.run(command, check=False).returncode:
                raise SystemExit(f"theirs failed on {name}")
            with np.load(Path(place) / "theirs.npz") as arrays:
                line["theirs"] = judged(source, dict(arrays))
        by_feature["theirs"] = line["theirs"].pop("by_feature")
    return line | {"variants": variants(table, source, own["feature"], scores), "by_feature": by_feature}


def checkout() -> Path:
    return Path(os.environ.get("GLASSTREAM_PEERS", "")) / "gbmap"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--sets", default=SETS, help="data sets, with commas between them")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--descending", action="store_true", help="learn the upper half of a feature")
    parser.add_argument("--python", default=sys.executable, help="the Python that has JAX")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        with np.load(arguments.one / "splits.npz") as arrays:
            found = theirs(dict(arrays), arguments.seeds)
        np.savez(arguments.one / "theirs.npz", **found)
        return
    python = arguments.python if (checkout() / "gbmap" / "gbmap.py").is_file() else None
    if python is None:
        print("theirs is left out: see GLASSTREAM_PEERS in gbmap.py", file=sys.stderr)
    for name in arguments.sets.split(","):
        table = table_of(arguments.data, name, arguments.descending)
        for seed in range(arguments.seeds):
            print(json.dumps(compared(table, name, seed, python)), flush=True)


if __name__ == "__main__":
    main()
