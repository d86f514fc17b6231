"""Compiling the kernels ahead, so that the first block does not wait for it."""

import numpy as np
from river import forest, linear_model

from pipeline.ingest.features import FeatureTable
from pipeline.models import snapshot
from pipeline.models.compile import compile_model
from pipeline.models.predictor import Predictor


def warm_up() -> None:
    """Compile every kernel that evaluates a predictor, or load it from numba's cache on disk.

    Goes the way of a snapshot's bytes: numba compiles anew for arrays of another kind, and those of a snapshot are
    what an explainer has (a learner's are made alike; see `arrays.sealed`).
    """
    table = FeatureTable()
    table.encode({"x": 0.0})
    x = {"x": 0.0}
    classifier = forest.ARFClassifier(n_models=1, seed=0)
    regressor = forest.ARFRegressor(n_models=1, seed=0)
    linear = linear_model.LinearRegression()
    classifier.learn_one(x, "y")
    regressor.learn_one(x, 1.0)
    linear.learn_one(x, 1.0)
    for predictor in (
        compile_model(classifier, table, {"y": "y"}),
        compile_model(regressor, table, None),
        compile_model(linear, table, None),
    ):
        data = snapshot.encode(predictor, stream="", epoch=0, version=1, key=None)
        read: Predictor = snapshot.decode(data, key=None)
        read.evaluate(np.zeros((1, 1)))
