"""Fuzz the anchors of the novelty detector: windows, waiting events, detectors, requests, and maps."""

import json
import random
from collections.abc import Sequence

import numpy as np
import orjson

from glasstream.app.configuration import load
from glasstream.base.errors import FrameError, StateError
from glasstream.detect.novelty.fit import fit
from glasstream.events.message import Message, Position
from glasstream.flow.novelty.partition import PartitionDetector
from glasstream.flow.novelty.stream import StreamDetector
from glasstream_topics import frames
from tests.fuzz.mutations import mutate_array, mutated
from tests.fuzz.target import Target

_SIZE = 20
_HALF = 20


def _element(draws: random.Random, number: int, regression: bool) -> dict[str, object]:
    a, b = draws.random(), draws.random()
    x = {"a": a, "b": b, "t": draws.choice("uvw"), "flag": draws.random() < 0.5, "c": draws.gauss(0, 1)}
    y: object = a - b if regression else "p" if a > 0.5 else "q" if b > 0.3 else "r"
    return {"id": number, "x": x} if number % 5 == 0 else {"id": number, "x": x, "y": y}


class NoveltyStates(Target):
    """The state of one stream in the middle of its events, with late labels and a map that is pending."""

    name = "novelty_state"
    refused = (StateError,)
    share = 0.05
    regression = False

    def __init__(self) -> None:
        self.settings = load(
            assignments=[
                "topics.events=1",
                "novelty.window=120",
                "novelty.stride=60",
                "novelty.delay=30",
                "novelty.learners=2",
                "novelty.rate=0.05",
                "novelty.iterations=5",
            ]
        )
        draws = random.Random(2)
        self.messages = [self._message(draws, number) for number in range(30)]
        core = PartitionDetector(self.settings)
        self._drive(core, self.messages[:_HALF])
        self.meta, self.arrays = core.streams["s"].detector.state()
        self.unharmed = self._outcome(_written(self.meta, self.arrays))

    def _message(self, draws: random.Random, number: int) -> Message:
        elements = [_element(draws, place, self.regression) for place in range(_SIZE * number, _SIZE * (number + 1))]
        if number > 2:
            elements.append({"id": _SIZE * number - 15, "y": 0.5 if self.regression else "p"})
        return Message("events", 0, number, b"s", orjson.dumps(elements))

    def _drive(self, core: PartitionDetector, messages: Sequence[Message]) -> None:
        maps = {}

        def answer() -> None:
            for request in core.take_requests():
                maps[request.stream, request.seq] = fit(request, self.settings.novelty, self.settings.seed)

        answer()
        for message in messages:
            for due in core.consume(message):
                answer()
                if due is not None and due.pending is not None:
                    due.give(maps[due.stream, due.pending.seq])
        answer()

    def _outcome(self, data: bytes) -> list[bytes]:
        frame = frames.decode(data, "state", 1)
        detector = StreamDetector.restore("s", self.settings, frame.meta["state"], frame.arrays)
        core = PartitionDetector(self.settings, first_offset=_HALF)
        core.resume("s", detector, 0, Position(_HALF, 0))
        self._drive(core, self.messages[_HALF:])
        StreamDetector.restore("s", self.settings, *detector.state())
        return [record for _, record in core.take_records()]

    def run(self, random: random.Random) -> str:
        try:
            data = self._forged(random)
        except FrameError:
            return "unencodable"
        return "equal" if self._outcome(data) == self.unharmed else "ok"

    def _forged(self, random: random.Random) -> bytes:
        if random.random() < 0.3:
            return _written(self.meta, self._with_other_map(random))
        return _written(*mutated(random, json.loads(json.dumps(self.meta)), self.arrays))

    def _with_other_map(self, random: random.Random) -> dict[str, np.ndarray]:
        """Return the arrays with a map whose checksums fit although its content was mutated."""
        outer = frames.decode(self.arrays["map"].tobytes(), "novelty-map", 1)
        meta, arrays = dict(outer.meta), dict(outer.arrays)
        if random.random() < 0.5:
            inner = frames.decode(arrays["maps"].tobytes(), "gbmap", 1)
            data = frames.encode("gbmap", 1, *mutated(random, inner.meta, inner.arrays))
            arrays["maps"] = np.frombuffer(data, np.uint8)
        else:
            name = random.choice(sorted(arrays))
            arrays[name] = mutate_array(random, arrays[name])
        return {**self.arrays, "map": np.frombuffer(frames.encode("novelty-map", 1, meta, arrays), np.uint8)}


def _written(meta: object, arrays: dict[str, np.ndarray]) -> bytes:
    return frames.encode("state", 1, {"state": meta}, arrays)


class NoveltyStatesOfNumbers(NoveltyStates):
    """The same of a regression."""

    name = "novelty_state_regression"
    share = 0.03
    regression = True
