"""Checkpoints of models that learn in compiled code: trees, forests and linear models of both tasks."""

import random as _random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from river import compose, drift, forest, linear_model, multiclass, optim, preprocessing, tree

from glasstream.base.errors import FrameError, ModelError
from glasstream.models.online import checkpoint, families
from glasstream.models.online.families import Live
from glasstream.models.online.layout import TREE_REGRESSOR, USED
from glasstream.models.online.linear import checkpoint as linear_checkpoint
from glasstream.models.online.linear.kernels import REGRESSION
from glasstream.models.online.linear.live import LiveLinear
from glasstream.models.online.live import Columns, LiveRegressor
from glasstream.models.river.catalogue import ClassesInOrder
from glasstream.models.river.implicit import ImplicitRegression
from glasstream.models.river.live import take, to_river
from glasstream_topics import frames
from tests.fuzz.mutations import mutate_bytes, mutated
from tests.fuzz.target import Target
from tests.support.arena_mutations import Run, change_field, objects_of

_EAGER = {"grace_period": 15, "delta": 0.2, "tau": 0.3}
_SUDDEN = {"drift_detector": drift.ADWIN(delta=0.5, clock=5), "warning_detector": drift.ADWIN(delta=0.9, clock=3)}
_RESTLESS = {
    "seed": 1,
    "drift_window_threshold": 5,
    "switch_significance": 0.9,
    "drift_detector": drift.ADWIN(delta=0.9, clock=5, min_window_length=3, grace_period=5),
}
"""Parameters with which adaptive trees have alternates after few events."""


def _adaptive(**parameters: Any) -> Any:
    model = tree.HoeffdingAdaptiveTreeClassifier(**_EAGER, **_RESTLESS, **parameters)
    model.classes = ClassesInOrder()
    return model


def _scaled(model: Any) -> Any:
    return compose.Pipeline(preprocessing.StandardScaler(), model)


_MODELS: Mapping[str, Callable[[], Any]] = {
    "tree": lambda: tree.HoeffdingTreeClassifier(**_EAGER, nominal_attributes=["f5"]),
    "tree of many branches": lambda: tree.HoeffdingTreeClassifier(
        **_EAGER, nominal_attributes=["f5"], binary_split=False, leaf_prediction="nb", split_criterion="hellinger"
    ),
    "adaptive": lambda: _adaptive(nominal_attributes=["f5"]),
    "forest": lambda: forest.ARFClassifier(**_EAGER, n_models=3, seed=1, **_SUDDEN),
    "forest of all features": lambda: forest.ARFClassifier(**_EAGER, n_models=2, seed=1, max_features=None),
    "tree regressor": lambda: tree.HoeffdingTreeRegressor(**_EAGER, nominal_attributes=["f5"]),
    "tree regressor of means": lambda: tree.HoeffdingTreeRegressor(**_EAGER, leaf_prediction="mean"),
    "adaptive regressor": lambda: tree.HoeffdingAdaptiveTreeRegressor(**_EAGER, **_RESTLESS),
    "forest regressor": lambda: forest.ARFRegressor(**_EAGER, n_models=3, seed=1, **_SUDDEN),
    "binary": lambda: _scaled(linear_model.LogisticRegression()),
    "one vs rest": lambda: multiclass.OneVsRestClassifier(_scaled(linear_model.LogisticRegression())),
    "linear regressor": lambda: _scaled(linear_model.LinearRegression()),
    "implicit regressor": lambda: _scaled(ImplicitRegression(intercept_lr=optim.schedulers.InverseScaling(0.5))),
}
_EVENTS, _FEATURES = 700, 7
_LEARNED, _CHANGE = 400, 380
"""Number of events that are learned before the checkpoint, and before a change that gives a regressor an alternate."""
_NAMES = tuple(f"f{place}" for place in range(_FEATURES))
_TEXTS = ("a", "b", "c", "d")


class _Sound(NamedTuple):
    """An unharmed checkpoint."""

    family: str
    data: bytes
    form: tuple[str, int]
    meta: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    objects: list[Run]


class LiveModels(Target):
    """A mutated checkpoint is refused, or its model predicts, learns, writes a checkpoint and becomes one of River."""

    name = "live_model"
    refused = (FrameError,)
    share = 1.0
    mib = 256

    def __init__(self) -> None:
        source = np.random.default_rng(1)
        self._X = source.normal(size=(_EVENTS, _FEATURES))
        self._X[:, 5] = source.integers(0, 6, _EVENTS)
        self._X[source.random(self._X.shape) < 0.05] = np.nan
        self._text = source.integers(0, len(_TEXTS), _EVENTS).astype(float)
        clean = np.nan_to_num(self._X)
        self._classes = (clean[:, 0] > 0).astype(int) + (clean[:, 1] > 0.8)
        self._numbers = 2 * clean[:, 0] + clean[:, 1] ** 2
        self._numbers[_CHANGE:] *= -1
        self._sound = [self._make(name) for name in _MODELS]

    def _make(self, name: str) -> _Sound:
        live = take(_MODELS[name]())
        self._feed(live, 0, _LEARNED)
        family, data = families.write(live)
        written = linear_checkpoint if isinstance(live, LiveLinear) else checkpoint
        form = written.KIND, written.VERSION
        frame = frames.decode(data, *form)
        objects: list[Run] = []
        if written is checkpoint:
            regression = frame.meta["family"] >= TREE_REGRESSOR
            objects = list(objects_of(frame.arrays["arena"], frame.arrays["tree"], regression))
        warm = families.read(family, data)  # compiles what is left to compile
        self._live_on(warm)
        return _Sound(family, data, form, frame.meta, frame.arrays, objects)

    def run(self, random: _random.Random) -> str:
        sound = random.choice(self._sound)
        try:
            live = families.read(sound.family, self._mutate(random, sound))
        except _Unencodable:
            return "unencodable"
        try:
            self._live_on(live)
        except ModelError:  # such as texts of a feature that a forged header calls a number
            return "stopped"
        return "ok"

    def _mutate(self, random: _random.Random, sound: _Sound) -> bytes:
        way = random.random()
        if way < 0.05:
            return mutate_bytes(random, sound.data)
        if sound.objects and way < 0.6:
            meta: Mapping[str, Any] = sound.meta
            arena = sound.arrays["arena"].copy()
            for _ in range(random.choice((1, 1, 2, 4))):
                change_field(arena, sound.objects, random)
            arrays: Mapping[str, np.ndarray] = {**sound.arrays, "arena": arena}
        else:
            meta, arrays = mutated(random, sound.meta, sound.arrays)
        try:
            return frames.encode(*sound.form, meta, arrays)
        except (FrameError, TypeError, OverflowError) as error:
            raise _Unencodable from error

    def _live_on(self, live: Live) -> None:
        """Learn events with few features, then with all; write a checkpoint, read it, and become a model of River."""
        self._feed(live, _LEARNED, _LEARNED + 10, few=True)
        self._feed(live, _LEARNED + 10, _LEARNED + 240)
        successor = type(live).from_bytes(live.to_bytes())
        self._feed(successor, _EVENTS - 10, _EVENTS)
        if not isinstance(live, LiveLinear):
            assert live.pool.control[USED] <= live.pool.F.size, "words were written beyond the arena"
        to_river(live)

    def _feed(self, live: Live, first: int, last: int, *, few: bool = False) -> None:
        columns = Columns(_NAMES[:1], self._X[first:last, :1].copy())
        if not few:
            columns = Columns(_NAMES, self._X[first:last].copy())
            if live.takes_text:
                values = np.column_stack([self._X[first:last], self._text[first:last]])
                columns = Columns((*_NAMES, "t"), values, {"t": _TEXTS})
        if isinstance(live, LiveRegressor) or (isinstance(live, LiveLinear) and live.kind == REGRESSION):
            live.predict_learn_numbers(columns, self._numbers[first:last])
            return
        binary = isinstance(live, LiveLinear) and live.classes == [False, True]
        labels: list[Any] = [bool(one) if binary else f"c{one}" for one in self._classes[first:last].tolist()]
        live.predict_learn_block(columns, live.numbers_of(labels))


class _Unencodable(Exception):
    """No frame can hold the mutation."""
