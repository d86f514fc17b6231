"""Fuzz the state of the watch for incidents while a rise of the loss in few rows is located, confirmed or open."""

import random

import numpy as np

from glasstream.base.errors import FrameError
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream_topics.record import refuse_non_finite
from tests.fuzz.mutations import mutated
from tests.fuzz.target import Target
from tests.support.segment_rows import KINDS, NAMES, TEXTS, inputs_of

_ROWS, _AT = 13_000, 8_000
_ENDS = (9_000, 11_800, 12_400)


class LocalRises(Target):
    """Three states of one stream."""

    name = "local_rise"
    refused = (FrameError,)
    share = 0.05

    def __init__(self) -> None:
        draws = np.random.default_rng(9)
        inputs = inputs_of(draws, _ROWS)
        inside = (inputs[:, 2] == 3.0) & (np.arange(_ROWS) >= _AT)
        rows, losses = np.arange(_ROWS), draws.exponential(size=_ROWS) * (1.0 + 2.0 * inside)
        self.rows = Rows(0, rows, [], NAMES, KINDS, inputs, np.zeros(_ROWS), [], losses, "squared", None, TEXTS)
        self.states, watch, begin = [], self.watch(), 0
        for end in (*_ENDS, _ROWS):
            list(watch.update(self.rows.part(slice(begin, end))))
            meta, arrays = watch.state()
            self.states.append((meta, {name: array.copy() for name, array in arrays.items()}))
            self.watch().restore(*self.states[-1], end - 1)
            begin = end
        rises = [meta["local"] for meta, _ in self.states[:3]]
        steps = [bool(rise["box"]) + bool(rise["number"]) for rise in rises]
        assert steps == [0, 1, 2], "located, confirmed, open"

    def watch(self) -> IncidentWatch:
        return IncidentWatch("s", 0, 1, 0.5, learns=False)

    def run(self, random: random.Random) -> str:
        place = random.randrange(len(_ENDS))
        meta, arrays = mutated(random, *self.states[place])
        watch, end = self.watch(), _ENDS[place]
        watch.restore(meta, arrays, end - 1)
        for one in watch.update(self.rows.part(slice(end, _ROWS))):
            refuse_non_finite("a record", one)
        self.watch().restore(*watch.state(), _ROWS - 1)  # what was accepted, and what came of it, can be resumed
        return "ok"
