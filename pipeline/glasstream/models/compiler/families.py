"""The interface between a family of River models and the compiler."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from glasstream.models.compiler.slots import Slots
from glasstream.models.contract.compiled import Compiled
from glasstream.models.contract.labels import Labels

Keys = list[Any]


class PartCompiler(Protocol):
    """Compiles the models inside a model."""

    def compile(self, model: Any, slots: Slots, labels: Labels | None) -> Compiled:
        """Return the arrays of an inner model of any family; errors are those of `compile_model`."""

    def keys(self, model: Any) -> Keys:
        """Return the keys of a classifier's `predict_proba_one`, in the order of River's dict.

        The keys are the same for every row. Errors are those of `compile_model`.
        """


@dataclass(frozen=True, slots=True)
class Family:
    """The compiler of River models of one exact type.

    Attributes
    ----------
    compile
        Function from (model, slots, labels, parts) to arrays.
    keys
        Function from (model, parts) to the keys of `PartCompiler.keys`; None for regressors.
    """

    compile: Callable[[Any, Slots, Any, PartCompiler], Compiled]
    keys: Callable[[Any, PartCompiler], Keys] | None = None


def merged(keys: list[Keys]) -> Keys:
    """Return the keys of several dicts in order of first appearance."""
    return list(dict.fromkeys(key for own in keys for key in own))
