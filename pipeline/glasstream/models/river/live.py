"""Live models of River models, and River models of live models."""

from typing import Any

from glasstream.base.errors import NotCompilable
from glasstream.models.online import layout as L
from glasstream.models.online.families import Live
from glasstream.models.online.layout import Pool
from glasstream.models.online.linear.live import LiveLinear
from glasstream.models.online.live import LiveModel, LiveRegressor
from glasstream.models.online.state import State
from glasstream.models.river import linear_pipelines, parameters
from glasstream.models.river.tree_targets import TargetReader, TargetWriter
from glasstream.models.river.trees import Reader, Writer


def take(model: Any) -> Any:
    """Return a live model in the state of a River model, which does not change.

    Raises
    ------
    NotCompilable
        The model has to stay with River; the message says why.
    """
    if linear_pipelines.is_linear(model):
        return LiveLinear(linear_pipelines.read_model(model))
    state, pool = read_trees(model)
    return (LiveRegressor if state.is_regression else LiveModel)(state, pool)


def to_river(live: Live) -> Any:
    """Return a new River model that is what River's own would be now."""
    if isinstance(live, LiveLinear):
        return linear_pipelines.write_model(live.state)
    return (TargetWriter if live.is_regression else Writer)(live.state, live.pool).write()


def read_trees(model: Any) -> tuple[State, Pool]:
    """Return a tree or a forest of River as arrays; errors as of `take`."""
    found = parameters.read(model)
    family = parameters.FAMILIES[type(model)]
    if family == L.ADAPTIVE_FAMILY and not isinstance(model.classes, dict):
        raise NotCompilable("classes: expected them in order, as `ClassesInOrder` keeps them, got a set")
    is_forest = family in (L.FOREST_FAMILY, L.FOREST_REGRESSOR)
    max_depth = model._new_base_model().max_depth if is_forest else model.max_depth
    if max_depth > L.DEEPEST - 2:
        raise NotCompilable(f"max_depth: expected at most {L.DEEPEST - 2}, got {max_depth}")
    state = State(family, found, max_depth)
    return state, (TargetReader if state.is_regression else Reader)(model, state).read()
