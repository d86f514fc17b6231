"""Fuzz snapshots of compiled models: mutated arrays, values and bytes. What is not refused must explain a block.

`tests/models/test_snapshot_fuzz.py` also mutates single bytes, of the snapshots of all families.
"""

import random

from glasstream.base.errors import AuthenticationError, FrameError, ModelError
from glasstream.models.codec import snapshot as codec
from glasstream_topics import frames
from tests.fuzz.explaining import KINDS, answered, requested
from tests.fuzz.mutations import mutate_bytes, mutated
from tests.fuzz.target import Target

_LIMIT = 2**24
"""Bytes that a mutated snapshot may inflate to: the buffer of a damaged one has this size."""


class Snapshots(Target):
    """Snapshots of a forest, a linear model and a regression tree."""

    name = "snapshot"
    refused = (FrameError, AuthenticationError, ModelError)
    share = 4.0
    mib = 1_024

    def __init__(self) -> None:
        self.cases = []
        for model, task in KINDS:
            block, predictor = requested(model, task)
            data = codec.encode(predictor, stream="s", epoch=0, version=block.version, key=None)
            assert answered(block, codec.decode(data, key=None)) == "ok"
            self.cases.append((block, frames.decode(codec.inflate(data), codec.KIND, codec.VERSION)))

    def run(self, random: random.Random) -> str:
        block, frame = random.choice(self.cases)
        try:
            data = frames.encode(codec.KIND, codec.VERSION, *mutated(random, frame.meta, frame.arrays))
        except FrameError:
            return "unencodable"
        forged = codec.compress(data)
        if random.random() < 0.05:
            forged = mutate_bytes(random, forged)
        return answered(block, codec.read(forged, key=None, limit=_LIMIT).predictor)
