"""Explain River models while they learn: estimators for a program of your own, and the stages of a Kafka application.

Explain one event at a time, and learn it afterwards:

>>> from glasstream import IncrementalPFI
>>> from river import linear_model
>>> model = linear_model.LinearRegression()
>>> importance = IncrementalPFI(model, alpha=0.05, reservoir=20)
>>> for t in range(200):
...     x, y = {"used": t % 5, "noise": t % 3}, 2.0 * (t % 5)
...     values = importance.explain_one(x, y)
...     model.learn_one(x, y)
>>> values["used"] > abs(values["noise"])
True

`glasstream.consume` reads what the application publishes. `glasstream.checks` holds the laws that a predictor, a
sampler, an explainer or a detector of your own can be checked against. `glasstream.errors` is the tree of all errors.

Importing this package loads nothing else: a name is imported from its module when it is used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from glasstream.errors import GlasstreamError as GlasstreamError
    from glasstream.estimators.explained_model import ExplainedModel as ExplainedModel
    from glasstream.estimators.ipdp import IncrementalPDP as IncrementalPDP
    from glasstream.estimators.ipfi import IncrementalPFI as IncrementalPFI
    from glasstream.estimators.isage import IncrementalSAGE as IncrementalSAGE
    from glasstream.estimators.live_model import LiveModel as LiveModel
    from glasstream.explain.losses import CustomLoss as CustomLoss
    from glasstream.gbmap.estimators import GBMAPClassifier as GBMAPClassifier
    from glasstream.gbmap.estimators import GBMAPRegressor as GBMAPRegressor
    from glasstream.research.batch_pdp import batch_pdp as batch_pdp
    from glasstream.research.batch_pfi import batch_pfi as batch_pfi
    from glasstream.research.batch_sage import batch_sage as batch_sage
    from glasstream.research.exact_pfi import exact_pfi as exact_pfi
    from glasstream.research.interval_pfi import IntervalPFI as IntervalPFI
    from glasstream.research.mdi import mean_decrease_impurity as mean_decrease_impurity
    from glasstream.research.shapley import exact_sage as exact_sage
    from glasstream.research.window_sage import WindowSAGE as WindowSAGE

_MODULES: Final = {
    "CustomLoss": "glasstream.explain.losses",
    "ExplainedModel": "glasstream.estimators.explained_model",
    "GBMAPClassifier": "glasstream.gbmap.estimators",
    "GBMAPRegressor": "glasstream.gbmap.estimators",
    "GlasstreamError": "glasstream.errors",
    "IncrementalPDP": "glasstream.estimators.ipdp",
    "IncrementalPFI": "glasstream.estimators.ipfi",
    "IncrementalSAGE": "glasstream.estimators.isage",
    "IntervalPFI": "glasstream.research.interval_pfi",
    "LiveModel": "glasstream.estimators.live_model",
    "WindowSAGE": "glasstream.research.window_sage",
    "batch_pdp": "glasstream.research.batch_pdp",
    "batch_pfi": "glasstream.research.batch_pfi",
    "batch_sage": "glasstream.research.batch_sage",
    "exact_pfi": "glasstream.research.exact_pfi",
    "exact_sage": "glasstream.research.shapley",
    "mean_decrease_impurity": "glasstream.research.mdi",
}
__all__ = tuple(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
