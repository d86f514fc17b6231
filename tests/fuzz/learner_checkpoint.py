"""States from which a stream's learner resumes, as plain data, for models that learn in compiled code."""

import json
import random as _random
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from glasstream.app.configuration import load
from glasstream.base.errors import GlasstreamError
from glasstream.events.message import Message, Position
from glasstream.flow.learner import stream_state
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.settings import Settings
from glasstream_topics import frames, requests
from glasstream_topics.errors import FrameError
from tests.fuzz.mutations import mutate_array, mutate_bytes, mutate_meta
from tests.fuzz.target import Target

_MODELS = ("forest", "tree", "linear")
_MESSAGES, _BEFORE = 30, 20


class _Sound(NamedTuple):
    """An unharmed state, and what its checkpoint says beside it."""

    settings: Settings
    data: bytes
    meta: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    rows: int
    seqs: int


class LearnerCheckpoints(Target):
    """A mutated state is refused, or the stream goes on with it, and its events become rows or dead letters."""

    name = "learner_checkpoint"
    refused = (GlasstreamError,)
    share = 0.5

    def __init__(self) -> None:
        self._messages = _messages()
        self._sound = [self._make(model, unlabelled) for model in _MODELS for unlabelled in (False, True)]

    def _make(self, model: str, unlabelled: bool) -> _Sound:
        methods = "ipfi,ipdp,attributions" if unlabelled else "ipfi,isage,ipdp"
        settings = load(
            assignments=[
                *(f"explain.methods={methods}", "explain.reservoir=20", "topics.events=1", f"model.name={model}"),
                *("labels.estimate=50", "model.task=classification", f"explain.unlabelled={str(unlabelled).lower()}"),
                *("groups.by=t,flag", "groups.every=50", "groups.window=60"),
            ]
        )
        core = PartitionLearner(0, settings)
        for message in self._messages[:_BEFORE]:
            for _ in core.consume(message):
                pass
        core.cut()
        learner = core.streams["s"].learner
        data = stream_state.encode(core.state("s", at_rest=True))
        assert data is not None
        frame = frames.decode(data, stream_state.KIND, stream_state.VERSION)
        sound = _Sound(settings, data, frame.meta, frame.arrays, learner.state.next_entry, learner.state.seqs)
        self._go_on(sound, data)  # compiles what is left to compile
        return sound

    def run(self, random: _random.Random) -> str:
        sound = random.choice(self._sound)
        if random.random() < 0.1:
            return self._go_on(sound, mutate_bytes(random, sound.data))
        meta, arrays = sound.meta, dict(sound.arrays)
        names = sorted(arrays.keys() - {"model"})  # `live_model` fuzzes this one
        for _ in range(random.choice((1, 1, 2))):
            if random.random() < 0.5:
                name = random.choice(names)
                arrays[name] = mutate_array(random, arrays[name])
            else:
                meta = mutate_meta(random, meta)
        try:
            forged = frames.encode(stream_state.KIND, stream_state.VERSION, meta, arrays)
        except (FrameError, TypeError, OverflowError):
            return "unencodable"
        return self._go_on(sound, forged)

    def _go_on(self, sound: _Sound, data: bytes) -> str:
        """Resume from a state, and process the other messages."""
        state = stream_state.decode(data, stream="s", rows=sound.rows, seqs=sound.seqs, settings=sound.settings)
        core = PartitionLearner(0, sound.settings, first_offset=_BEFORE)
        core.resume("s", state, Position(_BEFORE, 0))
        for message in self._messages[_BEFORE:]:
            for _ in core.consume(message):
                pass
        core.cut()
        outbox, dead = core.take_outbox()
        for request in outbox.requests:
            requests.encode(request)
        again = core.state("s", at_rest=True)
        successor = stream_state.encode(again)
        assert successor is not None
        learner = core.streams["s"].learner
        stream_state.decode(
            successor, stream="s", rows=learner.state.next_entry, seqs=learner.state.seqs, settings=sound.settings
        )
        return "rejected" if len(dead) > _MESSAGES - _BEFORE else "ok"


def _messages() -> list[Message]:
    source = _random.Random(2)

    def element(number: int) -> dict[str, Any]:
        x = {
            "a": source.random(),
            "b": source.random(),
            "t": source.choice("uvw"),
            "flag": source.random() < 0.5,
            "c": source.gauss(0, 1),
        }
        event: dict[str, Any] = {"id": number, "x": x}
        if number % 5:
            event["y"] = "p" if x["a"] > 0.5 else "q" if x["b"] > 0.3 else "r"
        return event

    made = []
    for offset in range(_MESSAGES):
        content = [element(number) for number in range(20 * offset, 20 * offset + 20)]
        content += [{"id": 20 * offset - 15, "y": "p"}] * (offset > 2)
        made.append(Message("events", 0, offset, b"s", json.dumps(content).encode()))
    return made
