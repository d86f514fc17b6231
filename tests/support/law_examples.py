"""An example of every predictor, sampler, explainer and detector: what is found and has none here fails a test."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import msgspec
import numpy as np
from river import drift, linear_model

from glasstream.base.draws import stream_key
from glasstream.base.errors import NotCompilable
from glasstream.detect.drift import settings as drift_settings
from glasstream.detect.drift.adwin import Adwin
from glasstream.detect.drift.kswin import Kswin
from glasstream.detect.drift.page_hinkley import PageHinkley
from glasstream.detect.drift.settings import DriftSettings
from glasstream.detect.model_monitor import ModelMonitor
from glasstream.explain.background import Background
from glasstream.explain.estimators.ipdp import IncrementalPDP
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.sampling import knots
from glasstream.explain.sampling.categories import Categories
from glasstream.explain.sampling.extremes import Extremes
from glasstream.explain.sampling.frequency_store import FrequencyStore
from glasstream.explain.sampling.grids import Grids
from glasstream.explain.sampling.orders import orders
from glasstream.explain.sampling.reservoir import SAMPLINGS, Reservoir, Wanted
from glasstream.explain.sampling.settings import GRIDS, GridSettings, StorageSettings
from glasstream.explain.sampling.storage import ConditionalStorage
from glasstream.explain.settings import ExplainSettings, IpdpSettings, IsageSettings
from glasstream.flow.settings import Settings
from glasstream.models.onnx.runtime import OnnxPredictor
from glasstream.models.onnx.translate import known_texts, translate
from glasstream.models.predictors.predictor import CLASSIFICATION, Predictor
from glasstream.testing.banks import Feeding
from glasstream.testing.explainers import Explaining
from glasstream.testing.samplers import Sampling
from glasstream.testing.streams import KINDS
from glasstream_lab.interval_pfi import IntervalPFI
from glasstream_lab.window_sage import WindowSAGE
from tests.models.conftest import Watched, _odd, example_events, mixed
from tests.support.model_examples import EXAMPLES, numbers, scaled
from tests.support.onnx_exports import described, rows_for

KEY = stream_key(7, "checks")


# Predictors: every example of tests/models, compiled, and one that is not.


@cache
def learned(name: str) -> tuple[Predictor, np.ndarray]:
    """The predictor of an example after a short stream, and rows such as it has met."""
    example = EXAMPLES[name]
    watched = Watched(example.make(), example.classification)
    stream = list(_odd(240, not example.classification, example.text))
    events = example_events(example, stream)
    for x, y in events:
        watched.learn(x, y)
    return watched.compiled(), watched.rows(mixed([x for x, _ in events], 1, 40))


@cache
def softmax() -> tuple[Predictor, np.ndarray]:
    """A softmax with nothing before it."""
    watched = Watched(linear_model.SoftmaxRegression(), True)
    events = list(_odd(100, False, False))
    for x, y in events:
        watched.learn(x, y)
    return watched.compiled(), watched.rows([x for x, _ in events[-40:]])


@cache
def called() -> tuple[Predictor, np.ndarray]:
    """A predictor that calls its River model."""
    watched = Watched(numbers() | scaled(linear_model.SoftmaxRegression()), True)
    events = list(_odd(100, False, True))
    for x, y in events:
        watched.learn(x, y)
    return watched.generic(), watched.rows([x for x, _ in events[-40:]])


@cache
def fixed(name: str) -> tuple[Predictor, np.ndarray]:
    """The predictor of an ONNX file."""
    file = described(name)
    try:
        predictor: Predictor = translate(file)
    except NotCompilable:
        predictor = OnnxPredictor.of(file, known_texts(file))
    return predictor, rows_for(file, 40)


PREDICTORS: Mapping[str, Callable[[], tuple[Predictor, np.ndarray]]] = {
    "called model": called,
    "bare softmax": softmax,
    **{f"fixed {name}": partial(fixed, name) for name in ("forest", "line", "network")},
    **{name: lambda name=name: learned(name) for name in EXAMPLES},
}
REPRESENTATIVE = {
    "fixed forest", "fixed line", "fixed network",
    "called model", "bare softmax", "tree", "forest", "patches of trees", "Mondrian forest", "naive Bayes", "logistic",
    "numbered tree", "one vs rest, passive-aggressive", "regression tree", "regression forest", "line",
    "patches of scaled lines", "encoded regression tree",
    "iPFI", "iPFI of snapshots", "iSAGE", "iPDP of a classifier", "interval PFI", "window SAGE", "monitor",
    "ADWIN", "Page-Hinkley",
}  # fmt: skip
"""One or two predictors and explainers of each class. The slow tier checks the others, and KSWIN."""


# Samplers: how each gives what it draws as float64[rows, ..., d].


def _drawn(values: Mapping[str, np.ndarray] | tuple, width: int) -> np.ndarray:
    """Several arrays, each (rows, ..., d), side by side."""
    arrays = list(values.values() if isinstance(values, Mapping) else values)
    count = len(arrays[0])
    return np.concatenate(
        [array.reshape(count, int(np.prod(array.shape[1:-1])), width) for array in arrays if array.size], axis=1
    ) if count else np.empty((0, 1, width))  # fmt: skip


def _serve(wanted: Wanted) -> Callable[..., np.ndarray]:
    def draw(reservoir: Reservoir, block: np.ndarray, first_row: int, start: int) -> np.ndarray:
        return _drawn(tuple(reservoir.serve(block, first_row, start, wanted)), block.shape[1])

    return draw


def _written(places: int, *more: Any) -> Callable[..., np.ndarray]:
    """Return how to draw with a sampler that writes its result into an array of the caller."""

    def draw(sampler: Any, block: np.ndarray, first_row: int, start: int) -> np.ndarray:
        count, width = block.shape
        out = np.full((min(count, max(0, first_row + count - start)), places, width), np.nan)
        sampler.widen(width)
        sampler.pass_through(np.ascontiguousarray(block), np.arange(width), first_row, start, *more, out)
        return out

    return draw


def _conditional(storage: ConditionalStorage, block: np.ndarray, first_row: int, start: int) -> np.ndarray:
    """Only what is drawn: the values of the row itself are left out."""
    count, width = block.shape
    explained = min(count, max(0, first_row + count - start))
    order = orders(KEY, first_row + count - explained, explained, width)
    drawn = storage.pass_through(block, first_row, start, order, 3, KINDS[:width])
    for i in range(explained):
        for step in range(width - 1):
            drawn[i, step][:, order[i, : step + 1]] = np.nan
    return drawn


def _background(background: Background, block: np.ndarray, first_row: int, start: int) -> np.ndarray:
    width = block.shape[1]
    taken = background.pass_through(block, KINDS[:width], first_row)
    changes = knots.Changes(*(taken.pop(f"ipdp.{name}") for name in ("row", "place", "value")))
    taken.pop("isage.order")
    count = len(taken["ipfi"])
    taken["ipdp"] = knots.unchanged(changes, count, SMALL_GRID.knots, width)
    return _drawn(taken, width)


SMALL_GRID = GridSettings(grid="extremes", points=4, categories=6, window=30, store=10)
BACKGROUND = Settings(
    seed=7,
    explain=ExplainSettings(methods="ipfi,isage,ipdp", reservoir=10, start=20, draws=2),
    isage=IsageSettings(inner_samples=3, fresh=True),
    ipdp=IpdpSettings(**msgspec.structs.asdict(SMALL_GRID)),
)


def _grids(grid: str) -> Sampling:
    settings = GridSettings(grid=grid, points=4, categories=6, window=30, store=10)
    return Sampling(
        make=lambda: Grids.empty(settings, KEY),
        draw=lambda grids, block, row, start: grids.pass_through(block, KINDS[: block.shape[1]], row, start),
        again=lambda grids: Grids.restore(settings, KEY, grids.state()),
    )


def _reservoir(sampling: str, wanted: Wanted) -> Sampling:
    return Sampling(make=lambda: Reservoir.empty(10, sampling, KEY), draw=_serve(wanted))


SAMPLERS: Mapping[str, Sampling] = {
    **{f"reservoir, {one}": _reservoir(one, Wanted(values=2, rows=2)) for one in SAMPLINGS},
    "reservoir, fresh rows": _reservoir("geometric", Wanted(rows=2, fresh=True)),
    "reservoir, sets": _reservoir("geometric", Wanted(values=2, sets=3)),
    **{f"grids, {one}": _grids(one) for one in GRIDS},
    "extremes": Sampling(make=lambda: Extremes.empty(30), draw=_written(2)),
    "frequency store": Sampling(
        make=lambda: FrequencyStore.empty(10, 0.3, KEY), draw=_written(2, np.array([0.1, 0.8]))
    ),
    "categories": Sampling(make=lambda: Categories.empty(6, 30), draw=_written(6)),
    "storage trees": Sampling(
        make=lambda: ConditionalStorage.empty(StorageSettings(size=8, marginal=10), KEY), draw=_conditional
    ),
    "background of all methods": Sampling(make=lambda: Background(BACKGROUND, "checks"), draw=_background),
}


# Explainers.


def _sage(model: Any, **settings: Any) -> IncrementalSAGE:
    task = getattr(model, "task", None) or LiveModel(model).task
    loss = "brier" if task == CLASSIFICATION else "squared"
    return IncrementalSAGE(model, loss, alpha=0.01, reservoir=20, **{"inner": 20, "corrected": True, **settings})


def _window_sage(model: Any) -> WindowSAGE:
    loss = "brier" if LiveModel(model).task == CLASSIFICATION else "squared"
    return WindowSAGE(model, loss, window=100, stride=50, inner=20, corrected=True)


SHARE = 0.1
"""What SAGE leaves to features that count nothing: the first of an order is compared with the mean prediction, so its
contribution is the noise of the mean over m rows. The mean of it is 0 (`corrected`)."""
POINTS = 1e-3
"""What iPDP leaves to categories that count nothing: the point of one that was met later is a mean over fewer rows."""

EXPLAINERS: Mapping[str, Explaining] = {
    "iPFI": Explaining(make=lambda model: IncrementalPFI(model, alpha=0.01, reservoir=20)),
    "monitor": Explaining(make=lambda model: ModelMonitor(IncrementalPFI(model, alpha=0.01, reservoir=20))),
    "iPFI, several realisations": Explaining(
        make=lambda model: IncrementalPFI(model, alpha=0.01, reservoir=20, realisations=2, draws=2, sampling="uniform")
    ),
    "iPFI, shared rows": Explaining(
        make=lambda model: IncrementalPFI(model, alpha=0.01, reservoir=20, shared=True, sampling="window")
    ),
    "iPFI of a classifier": Explaining(
        make=lambda model: IncrementalPFI(model, alpha=0.01, reservoir=20), task=CLASSIFICATION
    ),
    "iPFI of snapshots": Explaining(
        make=lambda model: IncrementalPFI(LiveModel(model), alpha=0.01, reservoir=20), task=CLASSIFICATION
    ),
    "iSAGE": Explaining(make=_sage, tolerance=SHARE),
    "iSAGE of a classifier": Explaining(make=_sage, task=CLASSIFICATION, tolerance=SHARE),
    "iSAGE, conditional": Explaining(
        make=lambda model: _sage(model, removal="conditional", storage=StorageSettings(size=30), inner=10),
        tolerance=0.2,
    ),
    "iPDP": Explaining(make=lambda model: IncrementalPDP(model, alpha=0.01), tolerance=POINTS),
    "iPDP on quantiles": Explaining(
        make=lambda model: IncrementalPDP(model, alpha=0.01, grid=SMALL_GRID, pairs=[("used", "late")]),
        tolerance=POINTS,
    ),
    "iPDP of a classifier": Explaining(
        make=lambda model: IncrementalPDP(model, alpha=0.01), task=CLASSIFICATION, tolerance=POINTS
    ),
    "interval PFI": Explaining(make=lambda model: IntervalPFI(model, interval=50)),
    "interval PFI of a classifier": Explaining(make=lambda model: IntervalPFI(model, interval=50), task=CLASSIFICATION),
    "window SAGE": Explaining(make=_window_sage, tolerance=SHARE),
    "window SAGE of a classifier": Explaining(make=_window_sage, task=CLASSIFICATION, tolerance=SHARE),
}


# Detectors: ours come in banks, one for each series; River's are users' own.

DETECTORS: Mapping[str, Callable[[], Any]] = {
    "River's ADWIN": drift.ADWIN,
    "River's PageHinkley": drift.PageHinkley,
}

_COMPILED: Mapping[str, Feeding] = {
    "ADWIN": Feeding(
        make=Adwin.empty,
        parameters={"delta": 0.002, "clock": 32, "max_buckets": 5, "min_window_length": 5, "grace_period": 10},
    ),
    "Page-Hinkley": Feeding(
        make=PageHinkley.empty, parameters={"min_instances": 30, "delta": 0.005, "threshold": 50.0, "alpha": 0.9999}
    ),
    "KSWIN": Feeding(
        make=Kswin.empty,
        parameters={"alpha": 0.0001, "window_size": 60, "stat_size": 20, "seed": 1},
        rows=Feeding(make=Kswin.empty).rows[:240, :2],
    ),
}
BANKS: Mapping[str, Feeding] = _COMPILED | {
    name: Feeding(make=bank.empty, parameters=DriftSettings(detector=name, threshold=10.0).parameters(1, 4))
    for name, bank in drift_settings.DETECTORS.items()
    if bank not in (Adwin, PageHinkley, Kswin)
}
"""A detector of plain Python needs no example of its own."""
