"""Fuzz the state of the aggregator: each value of each array and of the JSON beside them."""

import random

from glasstream.base.errors import FrameError, StateError
from glasstream_topics import progress_aggregator
from glasstream_topics.progress_aggregator import AggregatorState
from tests.fuzz.aggregator import Aggregated, committed
from tests.fuzz.mutations import mutated
from tests.fuzz.target import Target


class AggregatorStates(Target):
    """The state of one stream, with iPFI, iSAGE, iPDP, drift detectors and an incident."""

    name = "aggregator_state"
    share = 0.1
    refused = (StateError,)
    assignments: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.stream = Aggregated(*self.assignments)
        self.whole = progress_aggregator.restore(dict(self.stream.state)).state("s")

    def run(self, random: random.Random) -> str:
        meta, arrays = mutated(random, self.whole.meta, self.whole.arrays)
        try:
            forged = AggregatorState(progress=self.whole.progress, meta=meta, arrays=arrays)
            records = progress_aggregator.encode_stream(forged)
        except FrameError:
            return "unencodable"
        stream = self.stream
        task = stream.task({**stream.state, **{key: value for key, value in records if value is not None}})
        stream.feed(task, stream.half, stream.blocks[stream.half :])
        skipped = task.damaged
        stream.task({**stream.state, **committed(task)})  # what was accepted, and what came of it, can be resumed
        return "skipped" if skipped else "ok"


class AggregatorStatesOfPageHinkley(AggregatorStates):
    """The same with other detectors, of smoothed values."""

    name = "aggregator_state_page_hinkley"
    share = 0.03
    assignments = ("drift.detector=page_hinkley", "drift.values=smoothed", "drift.pd=squares")


class AggregatorStatesOfKswin(AggregatorStates):
    """The same with the detector of River."""

    name = "aggregator_state_kswin"
    share = 0.01
    assignments = ("drift.detector=kswin", "drift.watch=loss", "explain.methods=ipfi")
