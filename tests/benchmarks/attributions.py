"""Cost of the Shapley values of one prediction, and the same by shap.

    python tests/benchmarks/attributions.py [--learned 50000] [--rows 100] [--events 1000] [--repeats 5]

One JSON line a model: `us`, the CPU time in µs for an event by a model of which other events were explained before,
`first_us` by a new version of the model (250 events, the preparation included), and `residual`, the largest difference
between the sum of the values and what they explain. The models have learned Agrawal's stream; those from ONNX files
were trained on it. For these there is also `shap_us`, of `shap.TreeExplainer` with the same background rows, `ratio`,
`shap_us` over `us`, and `difference`, the largest of a value. All is computed on one thread; medians.

shap 0.51 and the libraries are asked of the index (`pip install shap lightgbm xgboost onnxmltools`).
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from river.datasets import synth

from glasstream.events.admission import Task
from glasstream.events.features import FeatureTable
from glasstream.explain.attributions.game import Attributor
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.translate import translate
from glasstream.models.predictors.predictor import Floats, Predictor
from glasstream.models.river.catalogue import BUNDLED
from glasstream.models.river.compile import compile_model

KEY = np.array([1, 2], np.uint64)
NAMES = "salary,commission,age,elevel,car,zipcode,hvalue,hyears,loan"
FIRST = 250
"""Number of events between two snapshots, by default."""


def median(work: Callable[[], object], repeats: int, count: int) -> float:
    """Return the median CPU time in µs for each of `count` events."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return 1e6 * statistics.median(times) / count


def learned(name: str, stream: list[tuple[dict[str, float], Any]]) -> Predictor:
    """Return a bundled model that has learned a stream."""
    model, table, labels = BUNDLED[name](Task.CLASSIFICATION, 1), FeatureTable(), {}
    for x, y in stream:
        _, given = table.encode(x)
        labels.setdefault(y, str(y))
        model.learn_one(dict(given), y)
    return compile_model(model, table, labels, given=table.given())


def trained(rows: Floats, labels: Any) -> dict[str, tuple[Any, Predictor]]:
    """Return models of other libraries, and the predictors of their ONNX files."""
    from lightgbm import LGBMClassifier
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx import convert_sklearn, update_registered_converter
    from skl2onnx.common.data_types import FloatTensorType
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes as shapes
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBClassifier

    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    update_registered_converter(LGBMClassifier, "LightGbm", shapes, convert_lightgbm, options=options)
    update_registered_converter(XGBClassifier, "XGBoost", shapes, convert_xgboost, options=options)
    made = {}
    for name, model in {
        "forest of 100 (scikit-learn)": RandomForestClassifier(100, max_depth=6, random_state=1),
        "boosting (XGBoost)": XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=1),
        "boosting (LightGBM)": LGBMClassifier(n_estimators=100, num_leaves=31, n_jobs=1, verbose=-1),
    }.items():
        model.fit(rows, labels)
        converted = convert_sklearn(
            model, initial_types=[("x", FloatTensorType([None, rows.shape[1]]))], target_opset={"": 15, "ai.onnx.ml": 3}
        )
        made[name] = model, translate(parse(converted.SerializeToString(), NAMES))
    return made


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learned", type=int, default=50_000)
    parser.add_argument("--rows", type=int, default=100, help="background rows")
    parser.add_argument("--events", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    stream = [
        ({name: float(value) for name, value in x.items()}, y)
        for x, y in synth.Agrawal(seed=42).take(given.learned + given.rows + given.events)
    ]
    values = np.array([list(x.values()) for x, _ in stream], np.float32).astype(np.float64)
    learn, background, events = np.split(values, [given.learned, given.learned + given.rows])
    numbers = np.arange(len(events))
    print(json.dumps({"load": os.getloadavg()[0], **vars(given)}))

    def measured(predictor: Predictor) -> tuple[dict[str, Any], Floats]:
        outputs = predictor.evaluate(events).labels
        attributor = Attributor(predictor, background, key=KEY)
        attributor.explain(events, outputs, numbers)
        us = median(lambda: attributor.explain(events, outputs, numbers), given.repeats, len(events))

        def begin() -> None:
            Attributor(predictor, background, key=KEY).explain(events[:FIRST], outputs[:FIRST], numbers[:FIRST])

        said = attributor.explain(events, outputs, numbers)
        line = {"us": us, "first_us": median(begin, given.repeats, FIRST), "residual": float(said.residual.max())}
        signs = np.where(outputs > 0, 1.0, -1.0)[:, np.newaxis]
        return line, said.values * signs

    for name in BUNDLED:
        print(json.dumps({"model": name, **measured(learned(name, stream[: given.learned]))[0]}), flush=True)
    try:
        import shap
    except ImportError:
        print("shap is not installed: no comparison", file=sys.stderr)
        return
    for name, (model, predictor) in trained(learn, [y for _, y in stream[: given.learned]]).items():
        line, ours = measured(predictor)
        peer = shap.TreeExplainer(model, data=background, feature_perturbation="interventional")
        few = min(len(events), 200)
        theirs = peer.shap_values(events[:few], check_additivity=False)
        theirs = theirs[..., 1] if np.ndim(theirs) == 3 else theirs
        line["difference"] = float(np.abs(theirs - ours[:few]).max())
        work = partial(peer.shap_values, events[:few], check_additivity=False)
        line["shap_us"] = median(work, given.repeats, few)
        print(json.dumps({"model": name, **line, "ratio": line["shap_us"] / line["us"]}), flush=True)


if __name__ == "__main__":
    main()
