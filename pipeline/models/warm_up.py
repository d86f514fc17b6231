"""Compiling the kernels ahead, so that the first block does not wait for it."""

import numpy as np
from river import base, forest, linear_model, multiclass, naive_bayes, preprocessing

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
    classifiers = (
        forest.ARFClassifier(n_models=1, seed=0),
        forest.AMFClassifier(n_estimators=1, seed=0),
        linear_model.SoftmaxRegression(),
        naive_bayes.GaussianNB(),
        multiclass.OneVsRestClassifier(preprocessing.MinMaxScaler() | naive_bayes.GaussianNB()),
    )
    regressors = (forest.ARFRegressor(n_models=1, seed=0), linear_model.LinearRegression())
    for model in (*classifiers, *regressors):
        model.learn_one(x, "y" if isinstance(model, base.Classifier) else 1.0)
        predictor = compile_model(model, table, {"y": "y"} if isinstance(model, base.Classifier) else None)
        data = snapshot.encode(predictor, stream="", epoch=0, version=1, key=None)
        read: Predictor = snapshot.decode(data, key=None)
        read.evaluate(np.zeros((1, 1)))
