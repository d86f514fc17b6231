"""Kernels are compiled ahead for the types that River's models have now.

`python -m tests.models.test_warm_up` writes the samples anew, after a change of the snapshot's format.
"""

import re
from pathlib import Path
from typing import Any

import orjson
from river import base, forest, linear_model, multiclass, naive_bayes, preprocessing

from glasstream.events.features import FeatureTable
from glasstream.models.codec import serialization, snapshot
from glasstream.models.codec.warm_up import SAMPLES, warm_up
from glasstream.models.predictors.compiled import Compiled
from glasstream.models.predictors.kernels.scored import Ending
from glasstream.models.predictors.kernels.scored_forms import ScoredForms
from glasstream.models.predictors.kernels.scored_trees import ScoredTrees
from glasstream.models.river.compile import compile_model
from glasstream_topics import frames

FILE = Path(snapshot.__file__).with_name(SAMPLES)
MODELS = (
    forest.ARFClassifier(n_models=1, seed=0),
    forest.AMFClassifier(n_estimators=1, seed=0),
    linear_model.SoftmaxRegression(),
    naive_bayes.GaussianNB(),
    multiclass.OneVsRestClassifier(preprocessing.MinMaxScaler() | naive_bayes.GaussianNB()),
    forest.ARFRegressor(n_models=1, seed=0),
    linear_model.LinearRegression(),
)


FIXED = (
    ScoredTrees(
        ("x",), ("y", "z"), Ending(label="above half"),
        ([0], [0], [0], [0], [0], [0], [-1], [], [], [0], [0, 1], [0], [1], [0], [1]),
    ),
    ScoredForms(("x",), (), Ending(), ([[1.0]], [0.0])),
)  # fmt: skip
"""What models of ONNX files become."""


def learned(model: Any, table: FeatureTable) -> Compiled:
    classifies = isinstance(model, base.Classifier)
    model.learn_one({"x": 0.0}, "y" if classifies else 1.0)
    return compile_model(model, table, {"y": "y"} if classifies else None)


def samples() -> bytes:
    table = FeatureTable()
    table.encode({"x": 0.0})
    found: list[Any] = []
    for predictor in (*(learned(one.clone(), table) for one in MODELS), *FIXED):
        data = snapshot.encode(predictor, stream="", epoch=0, version=1, key=None)
        frame = frames.decode(snapshot.inflate(data), snapshot.KIND, snapshot.VERSION)
        arrays = {name: (one.dtype.str, one.shape, one.ravel().tolist()) for name, one in frame.arrays.items()}
        found.append((frame.meta, arrays))
    return b"[\n" + b",\n".join(orjson.dumps(one, option=orjson.OPT_SORT_KEYS) for one in found) + b"\n]\n"


def test_the_samples_are_those_of_rivers_models() -> None:
    assert FILE.read_bytes() == samples()


def test_every_form_with_kernels_of_its_own_is_among_them() -> None:
    named = set(re.findall(r'"form":"([^"]+)"', FILE.read_text()))
    assert named == set(serialization.FORMS) - {"averaging committee"}
    warm_up()


if __name__ == "__main__":
    FILE.write_bytes(samples())
