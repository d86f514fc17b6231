"""Explain trained models of scikit-learn: ours beside `ixai` and `shap`, on the same model and the same rows.

    python tests/benchmarks/trained_peers.py [--events 4000] [--their-events 150] [--repeats 3]

The models are a random forest of 100 trees and a logistic regression, trained on 2,000 events of Agrawal's stream
(River's function 1). Ours is the plain loop of all stages with the model from an ONNX file: from the bytes of messages
of 100 events to the bytes of the records, predictions included. `ixai` (iPFI, iSAGE; `pip install ixai==0.1.3`) gets
events one at a time, through its own wrapper of scikit-learn. `shap` (`pip install shap`) gets all rows at once:
`TreeExplainer`, interventional, with a background of 100 rows, for the loss (`log_loss`), as iSAGE explains it; its
values are exact for that background, whereas iSAGE draws m = 5 rows of it for each event. Neither package is a
dependency of Glasstream; what is not installed is left out, and a line says so.

One JSON line for each model and method, with medians of CPU time, the sides in turns:

- `ours`, `ixai`, `shap`: events per CPU second; `over_ixai`, `over_shap`: ours over theirs
"""

import argparse
import importlib.util
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import numpy as np
import onnx
import orjson
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from glasstream.app.configuration import load
from glasstream.flow.reference import Reference
from glasstream_lab.papers.streams import generated

TRAINED, RESERVOIR, INNER, A_MESSAGE = 2_000, 100, 5, 100

MODELS: dict[str, Callable[[], Any]] = {
    "forest of 100": lambda: RandomForestClassifier(100, random_state=1),
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
}


class Stream:
    """Rows of the stream, a model that was trained on those before them, and its ONNX file."""

    def __init__(self, make: Callable[[], Any], events: int, folder: Path) -> None:
        names, rows, classes = generated("agrawal", 1, TRAINED + events, 1)
        self.names, rows = list(names), rows.astype(np.float32)
        self.rows, self.classes = rows[TRAINED:], classes[TRAINED:]
        self.model = make().fit(rows[:TRAINED], classes[:TRAINED])
        exported = to_onnx(self.model, rows[:1], options={"zipmap": False})
        onnx.helper.set_model_props(exported, {"features": ",".join(self.names)})
        self.file = folder / "model.onnx"
        self.file.write_bytes(exported.SerializeToString())

    def events(self, count: int) -> list[dict[str, Any]]:
        """Return the first events as a user sends them."""
        pairs = zip(self.rows[:count].tolist(), self.classes[:count].tolist(), strict=True)
        return [{"x": dict(zip(self.names, row, strict=True)), "y": str(int(y))} for row, y in pairs]


def ours(stream: Stream, method: str, count: int) -> float:
    """Return the CPU seconds of the plain loop."""
    events = stream.events(count)
    log = [(b"s", orjson.dumps(events[first : first + A_MESSAGE])) for first in range(0, count, A_MESSAGE)]
    loop = Reference(load(assignments=[f"model.name={stream.file}", f"explain.methods={method}", "broker=none"]))
    begin = time.process_time()
    explained = sum(topic == "importance" for topic, _ in loop.run(log))
    seconds = time.process_time() - begin
    assert explained > 0
    return seconds


def ixai(stream: Stream, method: str, count: int) -> float:
    """Return the CPU seconds of the authors' estimators."""
    from ixai.explainer.pfi import IncrementalPFI
    from ixai.explainer.sage import IncrementalSage
    from ixai.storage import GeometricReservoirStorage
    from ixai.utils.wrappers import SklearnWrapper

    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    storage = GeometricReservoirStorage(size=RESERVOIR, store_targets=False)
    kind, inner = (IncrementalPFI, 1) if method == "ipfi" else (IncrementalSage, INNER)
    explainer = kind(
        SklearnWrapper(stream.model.predict_proba), brier, stream.names, n_inner_samples=inner,
        smoothing_alpha=0.001, storage=storage, dynamic_setting=True,
    )  # fmt: skip
    events = stream.events(RESERVOIR + count)
    for event in events[:RESERVOIR]:
        storage.update(event["x"])
    explainer.seen_samples = RESERVOIR
    begin = time.process_time()
    for event in events[RESERVOIR:]:
        explainer.explain_one(event["x"], int(event["y"]))
    return time.process_time() - begin


def brier(y: int, prediction: dict[int, float]) -> float:
    """Return the Brier score of a prediction."""
    return sum((probability - (label == y)) ** 2 for label, probability in prediction.items())


def shap(stream: Stream, count: int) -> float:
    """Return the CPU seconds of `shap` for the forest."""
    import shap as package

    rows, labels = stream.rows[RESERVOIR : RESERVOIR + count], stream.classes[RESERVOIR : RESERVOIR + count]
    begin = time.process_time()
    explainer = package.TreeExplainer(
        stream.model, stream.rows[:RESERVOIR], feature_perturbation="interventional", model_output="log_loss"
    )
    values = explainer.shap_values(rows, y=labels.astype(int), check_additivity=False)
    seconds = time.process_time() - begin
    assert np.shape(values)[:2] == rows.shape
    return seconds


def installed(package: str) -> bool:
    """Return whether a peer is there; say so if it is not."""
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"{package} is not installed, so nothing is compared with it", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=4_000)
    parser.add_argument("--their-events", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    there = [name for name in ("ixai", "shap") if installed(name)]
    for name, make in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            stream = Stream(make, max(given.events, RESERVOIR + given.their_events), Path(folder))
            for method in ("ipfi", "isage"):
                ours(stream, method, 500)  # loads the kernels
                found: dict[str, list[float]] = {}
                for _ in range(given.repeats):
                    found.setdefault("ours", []).append(given.events / ours(stream, method, given.events))
                    if "ixai" in there:
                        theirs = ixai(stream, method, given.their_events)
                        found.setdefault("ixai", []).append(given.their_events / theirs)
                    if "shap" in there and name.startswith("forest") and method == "isage":
                        theirs = shap(stream, given.their_events)
                        found.setdefault("shap", []).append(given.their_events / theirs)
                speeds = {side: median(values) for side, values in found.items()}
                ratios = {f"over_{side}": speeds["ours"] / speed for side, speed in speeds.items() if side != "ours"}
                line = {"model": name, "method": method, **speeds, **ratios}
                print(json.dumps({key: _rounded(value) for key, value in line.items()}), flush=True)


def _rounded(value: Any) -> Any:
    return float(f"{value:.3g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
