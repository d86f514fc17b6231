"""Linear models on the components of GBMAP, ours beside the authors' code. One JSON line for each split.

    python tests/benchmarks/gbmap_features.py --data DIR [--sets qm9_10k] [--splits 5] [--starts 1] [--shares 0.5]
        [--python PATH]

Both sides fit the splits of `glasstream paper gbmap-table5` (Patron et al. 2024, 4.4) with the β that its search
chooses for ours.

- `paper`, `ours`, `theirs`: test scores (R² or accuracy) by number of components
- `rows`: number of training rows; `--shares` lists the shares of the rows to train with
- `seconds`: CPU seconds of ours, with the search for β and PCA, and of theirs, with compiling but without a search

`--starts` is the number of starts: of each learner in ours, of the whole map in theirs; both keep the best. The
experiment has five. For theirs, see `gbmap.py`: a checkout named by `GLASSTREAM_PEERS`, and a Python with JAX in
`--python`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: in it files have the names of packages
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as in Glasstream; on a busy machine, waiting threads take most of the time

import numpy as np

DATA = Path(os.environ.get("GLASSTREAM_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
SIZES = (2, 8, 12, 16, 32)
RIDGE, ITERATIONS, TOLERANCE = 1e-3, 400, 1e-3
Arrays = dict[str, np.ndarray]


def ours(table: Any, split: int, share: float, starts: int) -> tuple[Arrays, dict[int, float]]:
    """Return the encoded rows, the targets and the β of a split, and our scores by number of components."""
    from glasstream.detect.gbmap.encoding import Encoding
    from glasstream_lab.papers import gbmap_table5 as experiment
    from glasstream_lab.papers.gbmap_contestants import parted

    used = (experiment.PAPER_FEATURES.ridge, experiment.PAPER_FEATURES.iterations)
    if used != (RIDGE, ITERATIONS):
        raise SystemExit("the preset is not what theirs is asked for")
    found = experiment.scores(table, SIZES, split, experiment.CANDIDATES, starts=starts, tested=1.0 - share)
    train, test = parted(len(table.targets), split, 0, 1.0 - share)
    encoding = Encoding.learn(table.rows[train], table.categorical)
    arrays = {"train": encoding.encode(table.rows[train]), "test": encoding.encode(table.rows[test])}
    arrays |= {"train_targets": table.targets[train], "test_targets": table.targets[test]}
    arrays["betas"] = np.array(found["betas"])
    return arrays, {size: found[f"gbmap {size}"] for size in SIZES}


def theirs(source: Arrays, seed: int, starts: int, *, classes: bool) -> dict[int, float]:
    """Return the scores of their maps by number of components."""
    sys.path.insert(0, str(checkout()))
    from gbmap.gbmap import GBMAP
    from sklearn.linear_model import LinearRegression, LogisticRegression

    y, tested = source["train_targets"], source["test_targets"]
    centre, deviation = (0.5, 0.5) if classes else (y.mean(), y.std())
    y, tested = (y - centre) / deviation, (tested - centre) / deviation
    found = {}
    for beta in np.unique(source["betas"]).tolist():
        model = GBMAP(
            n_boosts=max(SIZES), optim_maxiter=ITERATIONS, optim_tol=TOLERANCE, penalty_ridge=RIDGE,
            softplus_scale=beta, is_classifier=classes, random_state=seed, n_fit=starts,
        ).fit(source["train"], y)  # fmt: skip
        train, test = (np.asarray(model.transform(source[part]), float) for part in ("train", "test"))
        for size in (size for size, own in zip(SIZES, source["betas"], strict=True) if own == beta):
            linear = LogisticRegression(max_iter=1_000) if classes else LinearRegression()
            found[size] = float(linear.fit(train[:, :size], y).score(test[:, :size], tested))
    return found


def compared(table: Any, name: str, split: int, share: float, starts: int, python: str | None) -> dict[str, Any]:
    """Return the line of a split."""
    from glasstream_lab.papers.gbmap_table5 import PAPER

    started = time.process_time()
    source, own = ours(table, split, share, starts)
    line: dict[str, Any] = {"data": name, "split": split, "rows": len(source["train"]), "starts": starts}
    line["paper"] = {size: mean for size, (mean, _) in zip(SIZES, PAPER[name]["gbmap"], strict=True)}
    line["ours"] = {size: round(score, 3) for size, score in own.items()}
    line["seconds"] = [round(time.process_time() - started, 1)]
    if python is not None:
        with tempfile.TemporaryDirectory() as place:
            np.savez(Path(place) / "split.npz", **source)
            command = [python, __file__, "--one", place, str(split), str(starts), str(int(bool(table.classes)))]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"theirs failed on {name}: {done.stderr[-500:]}")
            answer = json.loads(done.stdout.splitlines()[-1])
            line["theirs"] = {int(size): round(score, 3) for size, score in answer["scores"].items()}
            line["seconds"].append(round(answer["seconds"], 1))
    return line


def checkout() -> Path:
    return Path(os.environ.get("GLASSTREAM_PEERS", "")) / "gbmap"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--sets", default="superconductor_sample,qm9_10k", help="data sets, with commas between them")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--shares", default="0.5", help="shares of the rows to train with, with commas between them")
    parser.add_argument("--python", default=sys.executable, help="the Python that has JAX")
    parser.add_argument("--one", nargs=4, metavar=("PLACE", "SPLIT", "STARTS", "CLASSES"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        place, split, starts, classes = arguments.one
        with np.load(Path(place) / "split.npz") as arrays:
            started = time.process_time()
            scores = theirs(dict(arrays), int(split), int(starts), classes=classes == "1")
        print(json.dumps({"scores": scores, "seconds": time.process_time() - started}))
        return
    from glasstream_lab.papers.gbmap_sets import read_set

    python = arguments.python if (checkout() / "gbmap" / "gbmap.py").is_file() else None
    if python is None:
        print("theirs is left out: see GLASSTREAM_PEERS in gbmap.py", file=sys.stderr)
    for name in arguments.sets.split(","):
        table = read_set(arguments.data, name)
        for share in map(float, arguments.shares.split(",")):
            for split in range(arguments.splits):
                line = compared(table, name, split, share, arguments.starts, python)
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
