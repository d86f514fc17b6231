"""What a family of River models is to the compiler."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from glasstream.models.compiled import Compiled
from glasstream.models.labels import Labels
from glasstream.models.slots import Slots

Keys = list[Any]


class PartCompiler(Protocol):
    """How the models inside a model are compiled."""

    def compile(self, model: Any, slots: Slots, labels: Labels | None) -> Compiled:
        """The arrays of one of them, of any family; errors as of `compile_model`."""

    def keys(self, model: Any) -> Keys:
        """The keys of a classifier's `predict_proba_one`, in the order of River's dict; errors as of `compile_model`.

        The keys are the same for every row.
        """


@dataclass(frozen=True, slots=True)
class Family:
    """How River models of one exact type are compiled.

    Attributes
    ----------
    compile
        From (model, slots, labels, parts) to arrays.
    keys
        As `PartCompiler.keys`, from (model, parts); None for regressors.
    """

    compile: Callable[[Any, Slots, Any, PartCompiler], Compiled]
    keys: Callable[[Any, PartCompiler], Keys] | None = None


def merged(keys: list[Keys]) -> Keys:
    """The keys of several dicts in the order in which they first appear."""
    return list(dict.fromkeys(key for own in keys for key in own))
