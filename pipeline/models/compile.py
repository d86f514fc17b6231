"""From a River model to a predictor of arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

from river import base, linear_model, multiclass

from pipeline.errors import ModelError, NotCompilable
from pipeline.ingest.features import FeatureTable
from pipeline.models.form import Compiled
from pipeline.models.hoeffding import CLASSIFIERS, REGRESSORS
from pipeline.models.labels import Labels
from pipeline.models.linear import compile_linear, split_scaler
from pipeline.models.slots import Slots

_LINEAR_CLASSIFIERS = frozenset({linear_model.LogisticRegression, multiclass.OneVsRestClassifier})


def compile_model(
    model: Any, table: FeatureTable, labels: Mapping[Any, str] | None, *, given: Sequence[bool] | None = None
) -> Compiled:
    """The arrays of `model` as it is now; what it learns later does not change them.

    Compiled are, with any parameters unless said otherwise: ARFClassifier and ARFRegressor; HoeffdingTreeClassifier,
    -Regressor, HoeffdingAdaptiveTreeClassifier and -Regressor (naive Bayes leaves with normal distributions, leaf
    models that are linear regressions); LogisticRegression, LinearRegression and OneVsRestClassifier over the first,
    each alone or behind a StandardScaler. Types are compared exactly: a subclass may predict otherwise.

    Where River itself raises (an adaptive leaf without statistics, numbers that overflow) the predictor answers
    something finite or nothing instead; everywhere else it equals River to 1e-9.

    Parameters
    ----------
    model
        A River model.
    table
        The stream's features as of now.
    labels
        The text of each River class key, in the order of the predictor's classes; None for regression.
    given
        Per slot of `table`, whether the model is given the feature at all; None: all are. Others are ignored.

    Raises
    ------
    NotCompilable
        The model has no compiled form; the message says why, and `GenericPredictor` serves it.
    ModelError
        `labels` does not fit the model's task.
    """
    scaler, last = split_scaler(model)
    kind = type(last)
    if isinstance(last, base.Classifier | base.Regressor) and isinstance(last, base.Classifier) == (labels is None):
        raise ModelError(f"{kind.__name__}: expected labels for a classifier and none for a regressor, got {labels}")
    slots = Slots(table, given)
    if kind in CLASSIFIERS or kind in REGRESSORS:
        if scaler is not None:
            raise NotCompilable(f"a StandardScaler before {kind.__name__} has no compiled form")
        if labels is None:
            return REGRESSORS[kind](last, slots)
        return CLASSIFIERS[kind](last, slots, Labels(labels))
    if kind in _LINEAR_CLASSIFIERS or kind is linear_model.LinearRegression:
        return compile_linear(last, scaler, slots, Labels(labels) if labels is not None else None)
    raise NotCompilable(f"{kind.__name__} has no compiled form (exact types only; subclasses may predict otherwise)")
