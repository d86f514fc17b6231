"""Laws of states as plain data: reading restores every bit, and forged data are refused or harmless."""

import copy
import random
import tracemalloc
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import FrameError, ModelError, StateError
from glasstream.events.message import Message, Position
from glasstream.flow.learner import stream_state
from glasstream.flow.learner.checkpoint import opened
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.settings import Settings
from glasstream_topics import frames
from glasstream_topics.checkpoints import Checkpoint
from tests.support import arena_mutations as mutations
from tests.support.examples import some
from tests.support.late_labels import apart, delays
from tests.support.learner import BASE, Collected, message
from tests.support.learner_checkpoints import checkpoint_of
from tests.support.live_models import resealed
from tests.support.onnx_exports import FRAME, exported

GROUPED = ("groups.by=on,town,late", "groups.window=40", "groups.every=7")
MODELS = {
    "linear": ["model.name=linear"],
    "three classes": ["model.name=linear", *GROUPED],
    "tree": ["model.name=tree"],
    "forest": ["model.name=forest", "ipdp.grid=extremes", "snapshot.target=0.05"],
    "regression": ["model.name=tree", *GROUPED],
    "trained": ["explain.reservoir=10"],
}
every_model = pytest.mark.parametrize("model", MODELS)
some_models = pytest.mark.parametrize(
    "model", some([("three classes",), ("regression",), ("trained",)], [(name,) for name in MODELS])
)
READING = mutations.Bound(40, 2**22)
"""Memory to read a state: in proportion to its bytes, and what the settings of the stream take in any case."""


def log_of(model: str) -> list[Message]:
    """A stream with late labels, missing values, texts and booleans, features and classes that appear, bad targets."""
    source = random.Random(model)
    events = []
    for number in range(160):
        x: dict[str, object] = {"a": source.gauss(0, 1), "b": number % 3, "on": number % 4 == 0}
        if number % 5:
            x["town"] = f"t{source.randrange(2 + number // 30)}"
        if model == "trained":
            x |= {name: float(FRAME.iloc[number][name]) for name in ("a", "b", "c", "d", "visits")}
            x["town"] = FRAME.iloc[number]["town"] if number % 5 else f"new {number % 3}"
        if number > 70:
            x["late"] = source.choice((None, 1.5, "a text instead"))
        label: object = "yes" if x["a"] > 0 else "no"  # type: ignore[operator]
        if model == "regression":
            label = 3 * x["a"] + number  # type: ignore[operator]
        elif model == "three classes" and number > 60 and number % 3 == 0:
            label = "perhaps"
        events.append({"id": number, "x": x, "y": label if number % 23 else ["bad"]})
    every = [{**one, "y": 1} if one.get("y") == ["bad"] else one for one in apart(events, delays("random:12", 160))]
    return [message(offset, every[8 * offset : 8 * offset + 8]) for offset in range(len(every) // 8)]


def settings_of(model: str) -> Settings:
    of = [*MODELS[model], *([f"model.name={trained()}"] if model == "trained" else [])]
    return load(assignments=[*BASE, "explain.methods=ipfi,isage,ipdp", "snapshot.shortest=10", *of])


@cache
def trained() -> Path:
    """Return the ONNX file of a model with texts that it knows."""
    path = Path(mkdtemp()) / "trained.onnx"
    path.write_bytes(exported("encoded forest"))
    return path


def made(model: str, messages: int, *, at_rest: bool = True) -> Checkpoint:
    """The checkpoint after so many messages, or the newest at a snapshot before."""
    learner, newest = PartitionLearner(0, settings_of(model)), None
    for one in log_of(model)[:messages]:
        for stream in learner.consume(one):
            if stream.at_snapshot:
                newest = checkpoint_of(learner)
    learner.cut()
    checkpoint = checkpoint_of(learner, at_rest=True) if at_rest else newest
    assert checkpoint is not None
    return checkpoint


def state_of(checkpoint: Checkpoint, settings: Settings) -> stream_state.StreamState:
    return opened(checkpoint, settings, key=None)


@every_model
@pytest.mark.parametrize("at_rest", [True, False])
def test_reading_restores_every_bit(model: str, at_rest: bool) -> None:
    for messages in (1, 5, 12, 19):
        if not at_rest and messages == 1:
            continue
        checkpoint = made(model, messages, at_rest=at_rest)
        state = state_of(checkpoint, settings_of(model))
        assert stream_state.encode(state) == checkpoint.state
        again = copy.deepcopy(state)  # a state can be kept while the learner goes on from it
        go_on(checkpoint, state, model)
        assert stream_state.encode(again) == checkpoint.state


def go_on(checkpoint: Checkpoint, state: stream_state.StreamState, model: str) -> None:
    """Learn the rest of the log from a state."""
    at = Position(checkpoint.offset, checkpoint.used)
    learner, collected = PartitionLearner(0, settings_of(model), first_offset=at.offset), Collected()
    learner.resume("s", state, at)
    for one in log_of(model)[at.offset :]:
        list(learner.consume(one))
    collected.take(learner)
    checkpoint_of(learner, at_rest=True)


@some_models
def test_a_state_fits_its_own_checkpoint_and_settings_only(model: str) -> None:
    checkpoint, settings = made(model, 12), settings_of(model)
    other = "tree" if settings.model.name == "linear" else "linear"
    for moved, under in (
        (replace(checkpoint, rows=checkpoint.rows + 1_000), settings),
        (replace(checkpoint, seqs=3), settings),
        (checkpoint, load(assignments=[*BASE, "explain.methods=ipfi,isage,ipdp", f"model.name={other}"])),
        (checkpoint, load(assignments=[*BASE, "explain.methods=ipfi", *MODELS[model]])),
    ):
        with pytest.raises(StateError, match=r"at row \d+ cannot be used: .*start a new epoch"):
            state_of(moved, under)


# --- Forged data ------------------------------------------------------------------------------------------------------
def forged(checkpoint: Checkpoint, source: random.Random) -> Checkpoint | None:
    """Change words, arrays or values of a state, and make the checksums fit; None for what no frame can hold."""
    if source.random() < 0.3:
        return replace(checkpoint, state=mutations.with_other_words(checkpoint.state, source))
    frame = frames.decode(checkpoint.state, stream_state.KIND, stream_state.VERSION)
    meta, arrays = copy.deepcopy(frame.meta), {name: array.copy() for name, array in frame.arrays.items()}
    for _ in range(source.choice((1, 1, 2, 5))):
        what = source.random()
        if what < 0.5:
            mutations.change_meta(meta, source)
        else:
            name = source.choice(sorted(arrays))
            if name == "model" and what < 0.9:
                arrays[name] = _with_other_model(arrays[name].tobytes(), source)
            elif what < 0.8:
                mutations.change_value(arrays[name], source)
            elif what < 0.9:
                arrays[name] = mutations.reshaped(arrays[name], source)
            else:
                del arrays[name]
                if not arrays:
                    return None
    with suppress(FrameError):
        return replace(checkpoint, state=frames.encode(stream_state.KIND, stream_state.VERSION, meta, arrays))
    return None


def _with_other_model(data: bytes, source: random.Random) -> np.ndarray:
    return np.frombuffer(mutations.with_other_words(data, source), "u1")


def mutate(model: str, seed: int, count: int) -> Counter[str]:
    """Read mutated states and go on with each; count what was refused, what stopped with an error, and what ran."""
    source, counts = random.Random(seed), Counter[str]()
    settings = settings_of(model)
    sound = made(model, source.randint(3, 19), at_rest=source.random() < 0.7)
    go_on(sound, state_of(sound, settings), model)
    for _ in range(count):
        with np.errstate(all="ignore"):
            checkpoint = forged(sound, source)
        if checkpoint is None:
            continue
        tracemalloc.start()
        try:
            state = state_of(checkpoint, settings)
        except StateError:
            counts["refused"] += 1
            continue
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak <= READING.share * len(checkpoint.state) + READING.base, (peak, len(checkpoint.state))
        try:
            go_on(checkpoint, state, model)
        except ModelError:
            counts["stopped"] += 1
        else:
            counts["ran"] += 1
    return counts


@some_models
def test_forged_states_are_refused_or_harmless(model: str) -> None:
    counts = Counter[str]()
    for seed in range(6):
        counts += mutate(model, seed, 25)
    assert counts["refused"] > 20 and counts["ran"] > 5, counts


@some_models
def test_damaged_states_are_refused(model: str) -> None:
    """A changed byte is noticed by a checksum, wherever it is."""
    checkpoint, settings = made(model, 12), settings_of(model)
    source = random.Random(3)
    for _ in range(150):
        damaged = bytearray(checkpoint.state)
        damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        with pytest.raises(StateError, match="cannot be used"):
            state_of(replace(checkpoint, state=bytes(damaged)), settings)
    with pytest.raises(StateError, match="cannot be used"):
        state_of(replace(checkpoint, state=resealed(checkpoint.state[:-8])), settings)
