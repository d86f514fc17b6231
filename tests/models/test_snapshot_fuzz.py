"""Snapshots of every form, damaged byte by byte: each is refused with the documented error, or says what it said.

One in five is damaged as it travels: the packed bytes, or the frame inside. In the others the checksum is mended, so
that the checks of the arrays themselves are reached; those are other snapshots, and what is not refused must evaluate.
`GLASSTREAM_FUZZ=1000000 pytest --slow -s tests/models/test_snapshot_fuzz.py` makes as many as it says, and prints what
came of them. With NUMBA_BOUNDSCHECK=1 (and a NUMBA_CACHE_DIR of its own) a kernel that reads beyond an array raises.
"""

import json
import os
import random
import resource
import struct
import time
from collections import Counter
from hashlib import blake2b
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from numba import TypingError

from glasstream.base.errors import AuthenticationError, FrameError, ModelError
from glasstream.explain import variants
from glasstream.models.codec import snapshot
from glasstream.models.predictors.kernels import tables
from glasstream.models.predictors.predictor import Output
from glasstream.models.river.compile import compile_model
from glasstream_topics import frames
from tests.fuzz.mutations import mutate_bytes
from tests.support.model_examples import EXAMPLES

ASKED = int(os.environ.get("GLASSTREAM_FUZZ", "0"))
FAST, SLOW = 1_500, ASKED or 20_000
SEEDS = (2, 3)
LIMIT = 2**20
"""Bytes that a damaged snapshot may inflate to; the whole ones are a tenth of it."""
SECONDS = 1.0
"""CPU for one snapshot to be refused, or to be read and evaluated on three rows; whole ones need a thousandth."""
KEY = b"k" * 32
CHECKSUM = slice(8, 24)
LENGTHS = struct.Struct("<QQ")
TOTAL = 24


@pytest.fixture(scope="module")
def whole(learned_examples):
    """By example: the frame of its snapshot, three rows, what it says of them. One is a generic predictor's pickle."""
    predictors = {}
    for name in EXAMPLES:
        watched = learned_examples[name]
        labels = watched.labels if watched.classification else None
        predictors[name] = compile_model(watched.model, watched.table, labels)
    predictors["generic"] = learned_examples["logistic"].generic()
    made = {}
    for name, predictor in predictors.items():
        rows = _rows(predictor)
        made[name] = _frame(predictor), rows, _bits(predictor.evaluate(rows))
    return made


def _frame(predictor):
    return snapshot.inflate(snapshot.encode(predictor, stream="s", epoch=1, version=300, key=KEY))


def _rows(predictor):
    width = len(predictor.features)
    return np.array([np.full(width, np.nan), np.linspace(-1.0, 1.0, width), np.arange(width) % 3])


def _mended(data: bytes) -> bytearray:
    """The frame with the length that it has, and its checksum."""
    frame = bytearray(data)
    if len(frame) >= TOTAL + LENGTHS.size:
        struct.pack_into("<Q", frame, TOTAL, len(frame))
        frame[CHECKSUM] = blake2b(frame[TOTAL:], digest_size=16).digest()
    return frame


def _in_words(frame: bytes, rng: random.Random) -> bytearray:
    """The frame with one whole number in the place of another, as an index that leads astray would stand there."""
    made = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2))):
        size = rng.choice((1, 4, 4, 8))
        at = rng.randrange(TOTAL + LENGTHS.size, len(made) - 8) // size * size
        value = rng.choice((-1, 0, 1, 2, 3, 9, 127, 2**15, 2**30, 2**31 - 1, -(2**31), rng.randrange(200)))
        made[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
    return made


def _damaged(frame: bytes, rng: random.Random) -> tuple[bytes, bool]:
    """A mutation, and whether its checksum is mended."""
    what = rng.randrange(10)
    if what == 0:
        return mutate_bytes(rng, snapshot.compress(frame)), False
    if what == 1:
        return snapshot.compress(mutate_bytes(rng, frame)), False
    if what <= 5:
        return snapshot.compress(_mended(mutate_bytes(rng, frame, TOTAL + LENGTHS.size))), True
    return snapshot.compress(_mended(_in_words(frame, rng))), True


def _outcome(data: bytes, rows: np.ndarray, equal: bytes | None = None) -> str:
    """Decode `data`. Unless it is refused, its answers to the rows must be `equal`."""
    try:
        predictor = snapshot.read(data, key=KEY, limit=LIMIT).predictor
    except (FrameError, AuthenticationError, ModelError) as error:
        return type(error).__name__
    width = len(predictor.features)
    n, classes = len(rows), max(len(predictor.classes), 1)
    said = [(predictor.evaluate(rows), n)]
    if width == rows.shape[1]:  # as an explainer asks
        said += [
            (one, n * k) for one, k in zip(variants.replaced(predictor, rows, rows[:, None]), (1, width), strict=True)
        ]
        order = np.tile(np.arange(width), (n, 1))
        said.append((variants.built_up(predictor, rows, order, rows[::-1][:, None, None]), n * max(width - 1, 0)))
    for one, count in said:
        assert one.values.shape == (count, classes)
        assert np.all((one.labels >= -1) & (one.labels < classes))
    if equal is None:
        return "evaluated"
    assert _bits(said[0][0]) == equal, "damage that no checksum told says something else"
    return "equal"


def _bits(said: Output) -> bytes:
    return said.values.tobytes() + said.labels.tobytes()


def _fuzz(whole, count: int, seed: int) -> dict[str, object]:
    """Counts of what came of `count` mutations; each can be made again from its seed and number alone."""
    outcomes: Counter[str] = Counter()
    names = list(whole)
    slowest = 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        name = names[number % len(names)]
        frame, rows, said = whole[name]
        data, mended = _damaged(frame, random.Random(seed << 32 | number))
        started = time.process_time()
        try:
            outcomes[_outcome(data, rows, None if mended else said)] += 1
        except BaseException as error:
            error.add_note(f"mutation {number} of seed {seed}, of {name!r}")
            raise
        took = time.process_time() - started
        assert took < SECONDS, f"{took:.1f} s for mutation {number} of seed {seed}, of {name!r}"
        slowest = max(slowest, took)
        if number and number % 25_000 == 0:
            print(number, dict(outcomes), flush=True)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 256, f"{grown:.0f} MiB more in memory"
    return {
        "mutations": count,
        "snapshots": len(names),
        **dict(sorted(outcomes.items())),
        "slowest_ms": round(1e3 * slowest, 1),
        "grown_mib": round(grown, 1),
    }


def _summary(whole, count: int, seed: int) -> None:
    for frame, rows, said in whole.values():  # compile the kernels first
        assert _outcome(snapshot.compress(frame), rows, said) == "equal"
        assert len(frame) < LIMIT
    found = _fuzz(whole, count, seed)
    print(json.dumps(found))
    assert found["FrameError"] > count // 4
    assert found["evaluated"] > count // 20, "some damage is not to be told: another number is a number"


def test_damaged_snapshots_are_refused_or_evaluate(whole):
    _summary(whole, FAST, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_many_damaged_snapshots_are_refused_or_evaluate(seed, whole):
    _summary(whole, SLOW // len(SEEDS), seed)


def test_a_reader_that_believes_any_checksum_is_found(whole, monkeypatch):
    monkeypatch.setattr(frames, "blake2b", lambda view, digest_size: _Believed())
    with pytest.raises(AssertionError, match="no checksum told"):
        _fuzz(whole, FAST, 1)


class _Believed:
    """A checksum that equals any other."""

    def digest(self) -> Any:
        return ANY


def test_a_reader_that_does_not_check_its_arrays_is_found(whole, monkeypatch):
    """An error of another kind than the documented one."""
    monkeypatch.setattr(tables, "read_tuple", lambda kind, arrays: kind(*map(arrays.__getitem__, kind._fields)))
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError, IndexError, TypingError)) as caught:
        _fuzz({"softmax": whole["softmax"]}, FAST, 1)
    assert "of seed 1" in caught.value.__notes__[0]
