"""Mutate checkpoints of live models and go on with each: is there an access out of bounds, a crash, or a hang?

    python tests/learning/mutations.py --family "forest regressor" --seeds 0:400 [--mutations 200]

Each seed makes a small random stream. A model learns the first half, and its checkpoint is mutated many times, with
the checksum made to fit:

- words of the whole frame become small, huge or random numbers
- fields of nodes, slots, tables, search trees and detectors get plausible values, such as the address of another
  object or NaN
- arrays are cut, extended or change their type
- entries of the header are dropped, doubled or replaced

A mutated checkpoint must be refused, or the model must learn the second half, write a checkpoint and become a River
model. The kernels check bounds here, so an access out of bounds is an `IndexError`. `READING` bounds the memory for
reading a checkpoint, and `LEARNING` that for learning the second half, which includes room for what one event can take.
A mutation that takes more than `PATIENCE` seconds ends the program with a traceback.

Progress goes to stderr. One JSON line at the end counts the mutations that were refused, that ran, and the faults. The
program exits with 1 if there are faults.
"""

import argparse
import faulthandler
import json
import os
import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":  # pytest imports this module too, and must not pass these variables on
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[0] = str(ROOT)  # the checkout, of which `tests` is a package
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".cache" / "bounds-checked")  # the cache does not tell such code apart

import numpy as np

from glasstream.errors import FrameError, ModelError
from glasstream.jit import bare_kernel
from glasstream.learning import checkpoint
from glasstream.learning.layout import (
    ALTERNATE,
    BLOCK,
    CASES,
    CLASS_ROOM,
    DETECTOR,
    DETECTOR_HEADER,
    DRIFT,
    ENTRIES,
    ENTRY_COUNT,
    HEADER,
    KIND,
    LEAF,
    LEFT,
    MULTIWAY,
    NEXT,
    NODE,
    PAIR,
    POINT,
    POINT_LEFT,
    POINT_RIGHT,
    RIGHT,
    ROW,
    ROW_ROOM,
    SEARCH,
    SLOTS,
    SUBSET,
    SUBSET_SIZE,
    TABLE,
    TARGET,
    TREE_REGRESSOR,
    WARNING,
    WEIGHTS,
)
from glasstream.learning.layout import (
    ROOT as TREE_ROOT,
)
from glasstream.learning.live import LiveModel, LiveRegressor, take
from glasstream_topics import frames
from tests.learning.equality import Event, blocks
from tests.learning.streams import numbers_only
from tests.learning.test_live import MODELS, resealed
from tests.learning.test_regressors import REGRESSORS

Live = LiveModel | LiveRegressor
FAMILIES: dict[str, Callable[[], Any]] = {**MODELS, **{f"{name} regressor": REGRESSORS[name] for name in MODELS}}
"""What makes a River model of each family."""


class Bound(NamedTuple):
    """A bound of memory."""

    share: int
    """Bytes for each byte of the checkpoint."""
    base: int
    """Bytes for every checkpoint."""


READING = Bound(12, 2**18)
LEARNING = Bound(100, 2**21)
PATIENCE = 120
WORDS = (0, 1, 2, 3, 7, 24, 100, -1, -(2**63), 2**31, 2**53 + 1, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))


class Run(NamedTuple):
    """A word or several of an object in the arena."""

    at: int
    words: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=FAMILIES, required=True)
    parser.add_argument("--seeds", default="0:400", help="first seed and the one after the last")
    parser.add_argument("--mutations", type=int, default=200, help="mutations of each seed")
    options = parser.parse_args()
    check_that_bounds_are_checked()
    faulthandler.enable()
    model = compile_kernels(options.family)
    counts: Counter[str] = Counter()
    most = {"reading": 0.0, "learning": 0.0}
    for seed in range(*map(int, options.seeds.split(":"))):
        for trial, (events, forged) in enumerate(mutated(options.family, seed, options.mutations)):
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            try:
                counts[go_on(type(model), forged, events, most)] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault
                counts["faults"] += 1
                print(f"seed {seed}, mutation {trial}: {type(error).__name__}: {error!s:.300}", file=sys.stderr)
        print(f"seed {seed}: {dict(counts)}", file=sys.stderr, flush=True)
    faulthandler.cancel_dump_traceback_later()
    line = {"family": options.family, "refused": 0, "stopped": 0, "ran": 0, "faults": 0, **counts, "bytes": most}
    print(json.dumps(line))
    sys.exit(1 if counts["faults"] else 0)


@bare_kernel
def _read(values: Any, place: int) -> float:
    return float(values[place])


def check_that_bounds_are_checked() -> None:
    """End the program if kernels do not check bounds."""
    with suppress(IndexError):
        _read(np.zeros(1), 1)
        sys.exit("expected kernels that check bounds: NUMBA_BOUNDSCHECK has no effect")


def go_on(kind: type[Live], data: bytes, events: list[Event], most: dict[str, float]) -> str:
    """Read a checkpoint and go on with it; return whether it was refused, ran to its end, or stopped before.

    Raises
    ------
    MemoryError
        More memory was taken than the bounds allow.
    """
    try:
        model = within(READING, len(data), lambda: kind.from_bytes(data), most, "reading")
    except FrameError:
        return "refused"
    try:
        within(LEARNING, len(data), lambda: learn(model, events), most, "learning")
        kind.from_bytes(model.to_bytes())
        model.to_river()
    except (ModelError, FrameError):  # such as texts of a feature that a forged header calls numeric
        return "stopped"
    return "ran"


def learn(model: Live, events: list[Event]) -> None:
    for columns, labels in blocks(events):
        if isinstance(model, LiveRegressor):
            model.predict_learn_numbers(columns, np.array(labels, np.float64))
        else:
            model.predict_learn_block(columns, model.numbers_of(labels))


def within(bound: Bound, size: int, call: Callable[[], Any], most: dict[str, float], name: str) -> Any:
    """Return what `call` returns, and check the memory that it takes."""
    tracemalloc.start()
    try:
        return call()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        most[name] = max(most[name], round((peak - bound.base) / size, 2))
        if peak > bound.share * size + bound.base:
            raise MemoryError(f"{name} a checkpoint of {size} bytes took {peak}")


def compile_kernels(family: str) -> Live:
    """Compile the kernels, or load them, which takes memory that does not count; return a model of the family."""
    model: Live = take(FAMILIES[family]())
    events = [({"f0": float(number), "f1": "abc"[number % 3]}, number % 2) for number in range(100)]
    events = events_for(model, events)
    learn(model, events)
    successor = type(model).from_bytes(model.to_bytes())
    learn(successor, events)
    successor.to_river()
    return model


# --- Streams ----------------------------------------------------------------------------------------------------------
def stream(source: random.Random) -> list[Event]:
    """Make a short stream with numbers, texts and missing values."""
    texts = [source.random() < 0.3 for _ in range(source.randint(1, 5))]
    classes = source.choice((2, 3, 5, 12))
    events = []
    for _ in range(source.randint(20, 120)):
        x: dict[str, Any] = {}
        for feature, is_text in enumerate(texts):
            if source.random() < 0.9:
                number = source.choice((source.gauss(0, 1), float(source.randint(0, 3))))
                x[f"f{feature}"] = source.choice("abcdefgh") if is_text else number
        events.append((x, source.randrange(classes)))
    return events


def events_for(model: Live, events: list[Event]) -> list[Event]:
    """Return the events without the texts that the model does not take."""
    return events if model.takes_text else numbers_only(events)


# --- Mutations --------------------------------------------------------------------------------------------------------
def mutated(family: str, seed: int, count: int) -> Iterator[tuple[list[Event], bytes]]:
    """Make mutated checkpoints of a model; each comes with the events that follow."""
    source = random.Random(seed)
    model: Live = take(FAMILIES[family]())
    events = events_for(model, stream(source))
    half = len(events) // 2
    learn(model, events[:half])
    data = model.to_bytes()
    frame = frames.decode(data, checkpoint.KIND, checkpoint.VERSION)
    objects = list(objects_of(frame.arrays["arena"], frame.arrays["tree"], frame.meta["family"] >= TREE_REGRESSOR))
    for _ in range(count):
        if source.random() < 0.4:
            yield events[half:], with_other_words(data, source)
            continue
        meta = json.loads(json.dumps(frame.meta))
        arrays = {name: array.copy() for name, array in frame.arrays.items()}
        for _ in range(source.choice((1, 1, 2, 5))):
            if source.random() < 0.8 and objects:
                change_field(arrays["arena"], objects, source)
            else:
                change_value(arrays[source.choice(sorted(arrays))], source)
        if source.random() < 0.15:
            name = source.choice(sorted(arrays))
            arrays[name] = reshaped(arrays[name], source)
        if source.random() < 0.15:
            change_meta(meta, source)
        with suppress(FrameError):  # what no frame can hold
            yield events[half:], frames.encode(checkpoint.KIND, checkpoint.VERSION, meta, arrays)


def with_other_words(data: bytes, source: random.Random) -> bytes:
    forged = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 8))):
        place = source.randrange(len(forged) // 8) * 8
        word = source.choice((*WORDS, source.getrandbits(63), source.randrange(len(data) // 8)))
        forged[place : place + 8] = word.to_bytes(8, "little", signed=True)
    return resealed(bytes(forged))


def objects_of(arena: np.ndarray, trees: np.ndarray, regression: bool) -> Iterator[Run]:
    """Find the objects of a sound arena."""
    nodes = [int(at) for at in trees[:, TREE_ROOT] if at]
    detectors = [int(at) for at in trees[:, [WARNING, DRIFT]].flat if at]
    while nodes:
        node = nodes.pop()
        field = arena[node : node + NODE].tolist()
        yield Run(node, NODE)
        yield Run(field[WEIGHTS], TARGET if regression else PAIR * field[CLASS_ROOM])
        if regression and (entries := int(arena[field[WEIGHTS] + ENTRY_COUNT])):
            yield Run(int(arena[field[WEIGHTS] + ENTRIES]), PAIR * entries)
        if field[DETECTOR]:
            detectors.append(field[DETECTOR])
        if field[KIND] == LEAF:
            words = HEADER + (0 if regression else ROW * field[CLASS_ROOM])
            for slot in range(field[BLOCK], field[BLOCK] + field[SLOTS] * words, words):
                yield Run(slot, words)
                if arena[slot + TABLE]:
                    yield Run(int(arena[slot + TABLE]), CASES)
                points = [int(arena[slot + SEARCH])] if regression else []
                for point in filter(None, points):
                    yield Run(point, POINT)
                    points += [int(arena[point + side]) for side in (POINT_LEFT, POINT_RIGHT)]
            if field[SUBSET_SIZE]:
                yield Run(field[SUBSET], field[SUBSET_SIZE])
            continue
        child = field[LEFT]
        while child:
            nodes.append(child)
            child = int(arena[child + NEXT]) if field[KIND] == MULTIWAY else field[RIGHT] * (child != field[RIGHT])
        if field[ALTERNATE]:
            nodes.append(field[ALTERNATE])
    for at in detectors:
        yield Run(at, DETECTOR_HEADER)
        yield Run(at + DETECTOR_HEADER, int(arena[at + ROW_ROOM]))


def change_field(arena: np.ndarray, objects: list[Run], source: random.Random) -> None:
    """Give a field of an object a plausible value."""
    run = source.choice(objects)
    at = run.at + source.randrange(run.words)
    if at < arena.size:  # an object at the end has no spare room
        other = source.choice(objects)
        change_word(arena, at, source, (other.at, int(arena[other.at + source.randrange(other.words) - 1]), arena.size))


def change_value(array: np.ndarray, source: random.Random) -> None:
    if array.size == 0:
        return
    flat, place = array.reshape(-1), source.randrange(array.size)
    if array.dtype == np.int64:
        change_word(flat, place, source, (source.randrange(2**12),))
    elif array.dtype == np.float64:
        change_word(flat.view(np.int64), place, source, ())
    else:
        flat[place] = source.choice((0, 1, 2, 100, 127))


def change_word(words: np.ndarray, place: int, source: random.Random, values: tuple[int, ...]) -> None:
    before = int(words[place])
    near = (min(before + 1, 2**63 - 1), max(before - 1, -(2**63)), before // 2)
    number = source.choice(FLOATS)
    words[place] = source.choice((*WORDS, *near, *near, *values, *values, int(np.float64(number).view(np.int64))))


def reshaped(array: np.ndarray, source: random.Random) -> np.ndarray:
    """Return an array cut, extended, or of another type or shape."""
    kind = source.randrange(5)
    if kind == 0:
        return array.astype(source.choice(("f8", "i8", "i4", "u1", "u4")))
    if kind == 1:
        return array.reshape(-1)
    axis, by = source.randrange(array.ndim), source.choice((1, 1, 2, 8, 100))
    if kind == 2:
        return np.take(array, range(max(array.shape[axis] - by, 0)), axis)
    shape = [by if a == axis else size for a, size in enumerate(array.shape)]
    return np.concatenate((array, np.full(shape, source.choice((0, 0, 1, 24)), array.dtype)), axis)


def change_meta(meta: dict[str, Any], source: random.Random) -> None:
    """Change an entry of the header, at any depth."""
    place: Any = meta
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = source.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and source.random() < 0.8:
            place = place[key]
            continue
        kind = source.randrange(4)
        if kind == 0:
            del place[key]
        elif kind == 1 and isinstance(place, list):
            place.append(place[key])
        else:
            place[key] = source.choice((*WORDS[:-1], *FLOATS[:8], None, True, False, "", "f0", "gini", [], {}, [0, 1]))
        return


if __name__ == "__main__":
    main()
