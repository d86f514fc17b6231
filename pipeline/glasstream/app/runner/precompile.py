"""Compile every kernel that a stage may run. The image does so when it is built.

numba compiles a kernel for the types of its arguments: the number of dimensions of each array, its layout, and whether
it is writable. This module therefore calls the kernels as the stages do. Small streams go through the whole pipeline,
requests and contributions through their bytes, and the state of each stage through the code of a restart. `CASES` lists
the streams and settings. The tests compare it with the existing settings, and with what the stages compile beyond it.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.explain.attributions import mixtures
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.learner.checkpoint import opened, saved
from glasstream.flow.learner.learner import StreamLearner
from glasstream.flow.learner.warm_up import PER_MESSAGE, ROWS, messages
from glasstream.flow.novelty.stream import StreamDetector
from glasstream.flow.reference import Encoded
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.fitter import warm_up as warm_up_fitter
from glasstream.kafka.stages.warm_up import warm_up_aggregator, warm_up_explainer
from glasstream.models.codec.warm_up import warm_up
from glasstream.models.predictors.arrays import Array
from glasstream_topics import frames
from glasstream_topics.checkpoints import PLAIN, Checkpoint
from glasstream_topics.methods import METHODS

_SMALL: Final = {
    "explain.reservoir": "10",
    "ipdp.window": "40",
    "ipdp.store": "20",
    "publish.every": "20",
    "snapshot.doubling": "32",
    "snapshot.cadence": "40",
    "drift.grace": "20",
    "segments.level": "0.05",
    "novelty.window": "50",
    "novelty.stride": "50",
    "novelty.delay": "20",
    "novelty.held": "0.5",
    "novelty.rate": "0.1",
    "novelty.grace": "20",
    "novelty.iterations": "5",
    "novelty.learners": "2",
}
"""Settings with which a short stream reaches every state that a long one does."""
_KEY: Final = b"what leaves no process needs no secret"


class Case(NamedTuple):
    """Stream, and the settings with which it is explained."""

    target: str
    """Kind of the target: ``two`` or ``three`` classes, or a ``number``."""
    settings: dict[str, str]


_ALL: Final = ",".join(METHODS)

CASES: Final = (
    *(
        Case(target, {"model.name": model, "explain.methods": _ALL, "attributions.pairs": "1"})
        for model in ("forest", "tree", "linear")
        for target in ("two", "three", "number")
    ),
    *(Case(target, {"model.name": "linear", "explain.methods": f"{_ALL},novelty"}) for target in ("three", "number")),
    Case("three", {"model.name": "linear", "explain.methods": _ALL, "model.many_classes": "true"}),
    *(
        Case("two", {"model.name": "linear", "explain.methods": _ALL, **settings})
        for settings in (
            {"explain.sampling": "uniform", "explain.loss": "cross_entropy", "ipdp.grid": "extremes"},
            {
                "explain.sampling": "window",
                "explain.loss": "brier",
                "ipdp.grid": "quantiles",
                "isage.corrected": "false",
            },
            {"isage.removal": "conditional", "drift.detector": "page_hinkley"},
            {"isage.fresh": "true", "drift.detector": "kswin", "drift.values": "smoothed"},
            {"attributions.scale": "prediction"},
            {"drift.values": "smoothed", "drift.pd": "squares"},
        )
    ),
    Case("number", {"model.name": "linear", "explain.methods": _ALL, "explain.loss": "absolute"}),
    Case("two", {"model.name": "linear", "explain.methods": "ipfi,novelty", "novelty.held": "0.2"}),
)
"""Cases that cover every alternative of a setting once, and each bundled model with each task."""


def precompile() -> None:
    """Call every kernel as the stages do. Kernels that numba has on disk are loaded.

    A process of its own calls those of each model, as many at once as there are processors: models have few kernels in
    common. What belongs to no model is shared between the processes.
    """
    models = {case.settings["model.name"] for case in CASES}
    with ProcessPoolExecutor(min(len(models), os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        for _ in pool.map(precompile_model, sorted(models)):
            pass


def precompile_model(model: str) -> None:
    """Call the kernels of the cases of a model, and first its share of those that belong to no case."""
    if model == "forest":
        warm_up(games=True)
        mixtures.warm_up()
    elif model == "linear":
        warm_up_fitter()
    for case in CASES:
        if case.settings["model.name"] == model:
            precompile_case(case)


def precompile_case(case: Case) -> None:
    """Call the kernels that the stages call with the settings of a case, their warm-up included."""
    run(case)
    warm_up_explainer(settings_of(case))
    warm_up_aggregator(settings_of(case))


def settings_of(case: Case) -> Settings:
    """Return all settings of a case."""
    return load(assignments=[f"{key}={value}" for key, value in {**_SMALL, **case.settings}.items()])


def run(case: Case) -> Counter[str]:
    """Run the stream of a case through all stages, restart each half-way, and count the published records by topic."""
    pipeline = _Restarting(settings_of(case))
    return Counter(topic for message in messages(case.target, ROWS) for topic, _ in pipeline.feed(message))


class _Restarting(Encoded):
    """Pipeline in one process that reads messages from bytes and restarts its stages half-way."""

    def feed(self, message: Message) -> Iterator[tuple[str, bytes]]:
        """Process one message, as `Encoded` does."""
        if message.offset == ROWS // PER_MESSAGE // 2:
            self._restart(message.partition)
        yield from super().feed(message)

    def _restart(self, partition: int) -> None:
        """Replace the state of each stage by the state that it reads at a restart."""
        learner, aggregator = self._learners[partition], self._aggregators[partition]
        for name in list(learner.streams):
            checkpoint = saved(learner.state(name, at_rest=True), _place(learner.streams[name].learner), key=_KEY)
            learner.resume(name, opened(checkpoint, learner.settings, key=_KEY), learner.position)
        for name, aggregated in aggregator.streams.items():
            aggregator.streams[name] = StreamAggregator.restore(
                name, aggregated.settings, *_read_back(*aggregated.state())
            )
        detector = self._detectors.get(partition)
        if detector is None:
            return
        for name, watched in list(detector.streams.items()):
            one = watched.detector
            made = StreamDetector.restore(name, one.settings, *_read_back(*one.state()))
            detector.resume(name, made, watched.first_offset, detector.position)


def _place(learner: StreamLearner) -> Checkpoint:
    """Return a checkpoint without state."""
    state = learner.state
    numbers = {"epoch": learner.epoch, "rows": state.next_entry, "seqs": state.seqs, "offset": 0, "used": 0}
    return Checkpoint(stream=learner.stream, **numbers, fingerprint={}, form=PLAIN, state=b"")


def _read_back(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a state as it is read from its record."""
    frame = frames.decode(frames.encode("state", 1, meta, arrays), "state", 1)
    return dict(frame.meta), dict(frame.arrays)


if __name__ == "__main__":
    precompile()
