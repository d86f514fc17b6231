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

`glasstream_topics.consume` reads what the application publishes. `glasstream.testing` holds the laws that a predictor,
a sampler, an explainer or a detector of your own can be checked against. `glasstream.base.errors` is the tree of all
errors.

Importing this package loads nothing else: a name is imported from its module when it is used first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from glasstream.base.errors import GlasstreamError as GlasstreamError
    from glasstream.detect.gbmap.estimators import GBMAPClassifier as GBMAPClassifier
    from glasstream.detect.gbmap.estimators import GBMAPRegressor as GBMAPRegressor
    from glasstream.detect.model_monitor import ModelMonitor as ModelMonitor
    from glasstream.explain.estimators.explained_model import ExplainedModel as ExplainedModel
    from glasstream.explain.estimators.ipdp import IncrementalPDP as IncrementalPDP
    from glasstream.explain.estimators.ipfi import IncrementalPFI as IncrementalPFI
    from glasstream.explain.estimators.isage import IncrementalSAGE as IncrementalSAGE
    from glasstream.explain.estimators.live_model import LiveModel as LiveModel
    from glasstream.explain.estimators.local_shapley import LocalShapley as LocalShapley
    from glasstream.explain.losses import CustomLoss as CustomLoss

_MODULES: Final = {
    "CustomLoss": "glasstream.explain.losses",
    "ExplainedModel": "glasstream.explain.estimators.explained_model",
    "GBMAPClassifier": "glasstream.detect.gbmap.estimators",
    "GBMAPRegressor": "glasstream.detect.gbmap.estimators",
    "GlasstreamError": "glasstream.base.errors",
    "IncrementalPDP": "glasstream.explain.estimators.ipdp",
    "IncrementalPFI": "glasstream.explain.estimators.ipfi",
    "IncrementalSAGE": "glasstream.explain.estimators.isage",
    "LiveModel": "glasstream.explain.estimators.live_model",
    "LocalShapley": "glasstream.explain.estimators.local_shapley",
    "ModelMonitor": "glasstream.detect.model_monitor",
}
__all__ = tuple(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
