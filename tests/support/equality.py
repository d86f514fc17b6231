"""River models as values that can be compared, and both ways to learn a stream."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from river import base, drift
from river.proba import Gaussian
from river.tree.splitter.ebst_splitter import EBSTNode
from river.tree.splitter.nominal_splitter_classif import NominalSplitterClassif
from river.utils import VectorDict

from glasstream.models.online.live import ERRORS, Columns, LiveModel, LiveRegressor
from glasstream.models.river.live import to_river

Event = tuple[dict[str, Any], Any]


def described(thing: Any) -> Any:
    """Return all that a River model consists of; the order of dicts counts where River's results depend on it."""
    if isinstance(thing, float | int | str | bool | None):
        return "nan" if isinstance(thing, float) and math.isnan(thing) else thing
    if isinstance(thing, drift.ADWIN):
        return ("ADWIN", thing.drift_detected, thing._helper.__getstate__())
    if isinstance(thing, NominalSplitterClassif):
        weights = {label: dict(sorted(one.items())) for label, one in thing._att_dist_per_class.items()}
        return ("nominal", described(weights), sorted(thing._att_values), thing._total_weight_observed)
    if isinstance(thing, EBSTNode):
        return ("points", list(_points(thing)))
    if isinstance(thing, VectorDict):
        return described(thing.to_dict())
    if isinstance(thing, NormalDist):
        return (thing.mean, thing.stdev)
    if hasattr(thing, "getstate"):
        return thing.getstate()
    if isinstance(thing, Mapping):
        return ("dict", [(described(key), described(value)) for key, value in thing.items()])
    if isinstance(thing, set | frozenset):
        return ("set", sorted(map(repr, thing)))
    if isinstance(thing, Sequence):
        return [described(one) for one in thing]
    if isinstance(thing, type | FunctionType):
        return thing.__name__
    assert isinstance(thing, base.Base), type(thing)
    if type(thing).__name__ == "ConfusionMatrix":
        rows = {truth: dict(sorted(row.items(), key=repr)) for truth, row in thing.data.items()}
        return ("matrix", sorted(rows.items(), key=repr), thing.total_weight, thing.n_samples)
    skipped = {"_warning_tracker", "_drift_tracker"}
    if isinstance(thing, Gaussian):
        skipped.add("_rng")  # unseeded; it serves `sample`, which trees do not call
    fields = sorted((name, described(value)) for name, value in vars(thing).items() if name not in skipped)
    trackers = [
        (name, sorted((getattr(thing, name, None) or {}).items())) for name in ("_drift_tracker", "_warning_tracker")
    ]
    return (type(thing).__name__, fields, trackers)


def _points(root: EBSTNode) -> Iterator[Any]:
    """Yield the nodes of a search tree with their sides; such a tree can be too deep for recursion."""
    waiting = [("root", root)]
    while waiting:
        side, node = waiting.pop()
        yield side, described(node.att_val), described(node.estimator)
        waiting += [(name, child) for name in ("_left", "_right") if (child := getattr(node, name)) is not None]


class Block(NamedTuple):
    columns: Columns
    labels: list[Any]


def blocks(events: Sequence[Event], most: int = 200) -> Iterator[Block]:
    """Cut a stream into blocks of events that name the same features in the same order."""
    first = 0
    while first < len(events):
        names, last = tuple(events[first][0]), first
        while last < len(events) and last - first < most and _is_part(tuple(events[last][0]), names):
            last += 1
        part = events[first:last]
        categories: dict[str, tuple[str, ...]] = {}
        values = np.full((len(part), len(names)), math.nan)
        for place, name in enumerate(names):
            column = [x.get(name) for x, _ in part]
            if any(isinstance(value, str) for value in column):
                texts = categories[name] = tuple(dict.fromkeys(value for value in column if value is not None))
                column = [None if value is None else texts.index(value) for value in column]
            values[:, place] = [math.nan if value is None else float(value) for value in column]
        yield Block(Columns(names, values, categories), [y for _, y in part])
        first = last


def _is_part(names: Sequence[str], of: Sequence[str]) -> bool:
    remaining = iter(of)
    return all(name in remaining for name in names)


def learn_live(live: LiveModel | LiveRegressor, events: Sequence[Event], most: int = 200) -> list[tuple[Any, Any]]:
    """Predict and learn a stream in blocks; per event what River's dict would be, as a list, and its label.

    Of a regressor: per event its prediction, and the error that learning raised, as a text.
    """
    said: list[tuple[Any, Any]] = []
    if isinstance(live, LiveRegressor):
        for columns, targets in blocks(events, most):
            values, outcomes = live.predict_learn_numbers(columns, np.array(targets, np.float64))
            errors = [repr(ERRORS.get(outcome)) for outcome in outcomes.tolist()]
            said += zip(values.tolist(), errors, strict=True)
        return said
    for columns, labels in blocks(events, most):
        numbers = live.numbers_of(labels)
        answers = live.predict_learn_block(columns, numbers)
        classes = live.classes
        for e in range(len(labels)):
            sequence = [c for c in answers.sequence[e].tolist() if c >= 0]
            assert sorted(sequence) == np.flatnonzero(~np.isnan(answers.votes[e])).tolist()
            label = int(answers.labels[e])
            pairs = [(classes[c], float(answers.votes[e, c])) for c in sequence]
            said.append((pairs, classes[label] if label >= 0 else None))
    return said


def learn_river(model: Any, events: Sequence[Event]) -> list[tuple[Any, Any]]:
    """Predict and learn a stream in River; the same form."""
    said: list[tuple[Any, Any]] = []
    for x, y in events:
        if isinstance(model, base.Regressor):
            said.append((model.predict_one(x), "None"))
            try:
                model.learn_one(x, y)
            except tuple(map(type, ERRORS.values())) as error:
                said[-1] = (said[-1][0], repr(error))
            continue
        votes = model.predict_proba_one(x)
        said.append((list(votes.items()), max(votes, key=votes.get) if votes else None))
        model.learn_one(x, y)
    return said


def check_same(live: LiveModel | LiveRegressor, river: Any, events: Sequence[Event], most: int = 200) -> None:
    """Check that both predict and become the same."""
    expected = learn_river(river, events)
    for number, (said, wanted) in enumerate(zip(learn_live(live, events, most), expected, strict=True)):
        assert same(said, wanted), f"event {number}: {said} instead of {wanted}"
    check_equal(to_river(live), river)


def same(a: Any, b: Any) -> bool:
    """Compare two predictions; a regressor's may be NaN, or come with an error."""
    return bool(a == b) or repr(a) == repr(b)


def check_equal(made: Any, river: Any) -> None:
    """Check that two River models are the same in everything that they consist of."""
    found = difference(described(made), described(river))
    assert found is None, found


def difference(a: Any, b: Any, place: str = "model") -> str | None:
    """Return where two descriptions differ first."""
    if a == b:
        return None
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        parts = (
            difference(x, y, f"{place}[{n}:{x[0] if isinstance(x, tuple) else ''}]")
            for n, (x, y) in enumerate(zip(a, b, strict=True))
        )
        return next(part for part in parts if part is not None)
    return f"{place}: {a!s:.300} instead of {b!s:.300}"
