"""From a River model of any family to arrays and back."""

from typing import Any

from glasstream.base.errors import NotCompilable
from glasstream.models.online import parameters as supported
from glasstream.models.online.layout import ADAPTIVE_FAMILY, DEEPEST, FOREST_FAMILY, Pool
from glasstream.models.online.river import Reader, Writer
from glasstream.models.online.river_targets import TargetReader, TargetWriter
from glasstream.models.online.state import State


def read_model(model: Any) -> tuple[State, Pool]:
    """Return a River model as arrays; the model itself does not change.

    Raises
    ------
    NotCompilable
        The model has to stay with River; the message says why.
    """
    parameters = supported.read(model)
    family = supported.FAMILIES[type(model)]
    if family == ADAPTIVE_FAMILY and not isinstance(model.classes, dict):
        raise NotCompilable("classes: expected them in order, as `ClassesInOrder` keeps them, got a set")
    is_forest = supported.shape(family) == FOREST_FAMILY
    max_depth = model._new_base_model().max_depth if is_forest else model.max_depth
    if max_depth > DEEPEST - 2:
        raise NotCompilable(f"max_depth: expected at most {DEEPEST - 2}, got {max_depth}")
    state = State(family, parameters, max_depth)
    return state, (TargetReader if state.is_regression else Reader)(model, state).read()


def write_model(state: State, pool: Pool) -> Any:
    """Return a new River model in the state of the arrays."""
    return (TargetWriter if state.is_regression else Writer)(state, pool).write()
