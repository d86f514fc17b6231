"""Fuzz requests: mutated arrays, values and bytes. What is not refused must be answered."""

import random

from glasstream.base.errors import FrameError
from glasstream.explain.sizes import bounded
from glasstream_topics import frames, requests
from tests.fuzz.explaining import KINDS, answered, requested
from tests.fuzz.mutations import mutate_bytes, mutated
from tests.fuzz.target import Target


class AnyRequest(Target):
    """Requests to explainers that have the model."""

    name = "request"
    refused = (FrameError,)
    share = 4.0
    mib = 512

    def __init__(self) -> None:
        self.cases = []
        for model, task in KINDS:
            block, predictor = requested(model, task)
            data = requests.encode(block)
            assert answered(bounded(requests.decode(data)), predictor) == "ok"
            self.cases.append((data, predictor))

    def run(self, random: random.Random) -> str:
        data, predictor = random.choice(self.cases)
        if random.random() < 0.05:
            forged = mutate_bytes(random, data)
        else:
            frame = frames.decode(data, "request", 1)
            try:
                forged = frames.encode("request", 1, *mutated(random, frame.meta, frame.arrays))
            except FrameError:
                return "unencodable"
        return answered(bounded(requests.decode(forged)), predictor)
