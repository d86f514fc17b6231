"""Fuzz contributions: a mutated block between good ones."""

import random

from glasstream.base.errors import FrameError
from glasstream_topics import frames
from tests.fuzz.aggregator import Aggregated, committed
from tests.fuzz.mutations import mutate_bytes, mutated
from tests.fuzz.target import Target


class AnyContribution(Target):
    """A block that an explainer may have sent. The stream goes on, and its state can be resumed."""

    name = "contribution"
    refused = ()
    share = 0.01

    def __init__(self) -> None:
        self.stream = Aggregated("explain.methods=ipfi,isage,ipdp,attributions")

    def run(self, random: random.Random) -> str:
        stream, which = self.stream, random.randrange(self.stream.half, len(self.stream.blocks))
        data = stream.blocks[which]
        if random.random() < 0.05:
            forged = mutate_bytes(random, data)
        else:
            frame = frames.decode(data, "contributions", 1)
            try:
                forged = frames.encode("contributions", 1, *mutated(random, frame.meta, frame.arrays))
            except FrameError:
                return "unencodable"
        task = stream.task(stream.state)
        stream.feed(task, stream.half, [*stream.blocks[stream.half : which], forged])
        skipped = task.damaged
        stream.feed(task, which + 1, stream.blocks[which:])
        state = committed(task)
        stream.task({**stream.state, **state})
        of = task.core.streams["s"]
        assert task.damaged - skipped < len(stream.blocks) or of.settings.epoch, "one block stops the stream"
        return "skipped" if skipped else "waits" if of.waiting else "ok"
