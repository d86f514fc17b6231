"""Messages that no stage wrote, made of ones that stages did write: damaged, cut, or contradicting themselves.

What nobody can tell from the real thing is left out: a well-formed block for rows of a real stream that are still to
come. Where a change leaves a message well-formed, it is therefore made one of a stream of its own, a ghost.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any, NamedTuple

import numpy as np
import orjson

from glasstream.events.message import Message
from glasstream.explain.explainer import explain
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.models.codec import snapshot as codec
from glasstream_topics import contributions, events, frames, requests, snapshots
from glasstream_topics.errors import FrameError

GHOSTS = tuple(f"ghost-{number}" for number in range(4))
PHANTOMS = tuple(f"phantom-{number}" for number in range(8))
"""Streams of snapshots that nothing asks for."""
FRAMES = {"explain.requests": ("request", requests), "contributions": ("contributions", contributions)}
KEY = b"of this process only"


class Hostile(NamedTuple):
    """A message to be written."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int


@dataclass
class Genuine:
    """Messages that the stages write for some events, in one process."""

    requests: list[bytes] = field(default_factory=list)
    contributions: list[bytes] = field(default_factory=list)
    snapshots: dict[int, bytes] = field(default_factory=dict)
    """By version."""

    @classmethod
    def of(cls, settings: Settings, key: bytes, values: Iterable[bytes]) -> "Genuine":
        made = cls()
        partition = events.partition(key, settings.topics.events)
        learner = PartitionLearner(partition, settings)
        for offset, value in enumerate(values):
            for _ in learner.consume(Message("events", partition, offset, key, value)):
                for one in learner.outbox.snapshots:
                    made.snapshots[one.version] = codec.encode(
                        one.predictor, stream=one.stream, epoch=settings.epoch, version=one.version, key=KEY
                    )
                learner.outbox.snapshots.clear()
            learner.cut()
            outbox, _ = learner.take_outbox()
            for block in outbox.requests:
                made.requests.append(requests.encode(block))
                model = codec.decode(made.snapshots[block.version], key=KEY) if block.count else None
                made.contributions += [contributions.encode(one) for one in explain(block, model)]
        return made

    def snapshots_of(self, stream: str, epoch: int) -> Iterator[Hostile]:
        """The same models as those of another stream."""
        for version, data in self.snapshots.items():
            frame = frames.decode(codec.inflate(data), codec.KIND, codec.VERSION)
            origin = {"stream": stream, "epoch": epoch, "version": version}
            body = frames.encode(codec.KIND, codec.VERSION, {**frame.meta, "origin": origin}, frame.arrays)
            for key, value in snapshots.split(stream, epoch, version, codec.compress(body)):
                yield Hostile("snapshots", key, value, 0)


# --- bytes -----------------------------------------------------------------------------------------------------------


def flipped(rng: Random, value: bytes) -> bytes:
    changed = bytearray(value)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(changed))
        changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: Random, value: bytes) -> bytes:
    return value[: rng.randrange(len(value))]


def grown(rng: Random, value: bytes) -> bytes:
    return value + rng.randbytes(rng.randrange(1, 64))


def noise(rng: Random, value: bytes) -> bytes:
    return rng.randbytes(rng.randrange(200))


def spliced(rng: Random, value: bytes) -> bytes:
    begin, end = sorted(rng.randrange(len(value)) for _ in range(2))
    return value[:begin] + rng.randbytes(end - begin if rng.random() < 0.5 else 8) + value[end:]


def lengths(rng: Random, value: bytes) -> bytes:
    """A frame that says that it, or its header, is of another length; the checksum is right."""
    huge = rng.choice((0, 1, 2**31, 2**40, 2**63, 2**64 - 1))
    body = struct.pack("<QQ", *rng.choice(((huge, 64), (len(value), huge)))) + value[40:]
    return value[:8] + blake2b(body, digest_size=16).digest() + body


BYTES: tuple[Callable[[Random, bytes], bytes], ...] = (flipped, flipped, cut, grown, noise, spliced)


# --- frames ----------------------------------------------------------------------------------------------------------

_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 7, 2**31, 2**53, 2**63 - 1, 2**64 - 1, 0.5, -1e308, 1e308, "", "x", "y" * 300,
    "z" * 5_000, "squared", "cross_entropy", "regression", "classification", "failed", "flush", [], [[]], {}, [0],
    [1, 1], ["a", "a"], [2, 2, True], [2**40, 2**40, True], [1_000, 1, True], [[0, [[0, "a"]]]], [[5, 0, ["a"]]],
)  # fmt: skip
_FILLS = (np.nan, np.inf, -np.inf, 1e308, -1e200, 1e100, -1.0, 0.0, 0.5, 3.0, 2.0**31, 2.0**62)


def _changed_meta(rng: Random, meta: dict[str, Any]) -> dict[str, Any]:
    changed = dict(meta)
    name = rng.choice(sorted(changed))
    match rng.randrange(6):
        case 0:
            changed[rng.choice((name, f"{name}2"))] = rng.choice(_VALUES)
        case 1:
            del changed[name]
        case 2:
            other = rng.choice(sorted(changed))
            changed[name], changed[other] = changed[other], changed[name]
        case 3 if isinstance(changed[name], list) and changed[name]:
            place = rng.randrange(len(changed[name]))
            changed[name] = [*changed[name][:place], *changed[name][place + 1 :]]
        case 4 if isinstance(changed[name], list) and changed[name]:
            changed[name] = [*changed[name], rng.choice(changed[name])]
        case 5 if isinstance(changed[name], int):
            changed[name] = changed[name] + rng.choice((-2, -1, 1, 2, 1_000, 10**9))
        case _:
            changed[name] = rng.choice(_VALUES)
    return changed


def _changed_arrays(rng: Random, arrays: dict[str, frames.Array]) -> dict[str, frames.Array]:
    changed = dict(arrays)
    name = rng.choice(sorted(changed))
    array = changed[name]
    match rng.randrange(8):
        case 0:
            del changed[name]
        case 1:
            other = rng.choice(sorted(changed))
            changed[name], changed[other] = changed[other], changed[name]
        case 2:
            changed[rng.choice((f"{name}2", "values/ipdp", "draws/ipfi", "draws/isage"))] = changed.pop(name)
        case 3:
            with np.errstate(all="ignore"):
                changed[name] = array.astype(rng.choice(("f4", "i8", "i4", "u1", "f8")))
        case 4:
            changed[name] = array[: rng.randrange(len(array) + 1)]
        case 5 if array.ndim > 1:
            changed[name] = array.swapaxes(rng.randrange(array.ndim), rng.randrange(array.ndim))
        case 6:
            shape = list(array.shape)
            shape[rng.randrange(array.ndim)] = 0
            shape[rng.randrange(array.ndim)] = rng.choice((0, 1, 2, 2**20, 2**30))
            if 0 in shape:
                changed[name] = np.empty(shape, array.dtype)
        case _:
            filled = np.array(array)
            places = slice(None) if rng.random() < 0.3 or not filled.size else rng.randrange(filled.size)
            with np.errstate(all="ignore"):
                filled.reshape(-1)[places] = np.array(rng.choice(_FILLS)).astype(array.dtype)
            changed[name] = filled
    return changed


def _resealed(rng: Random, topic: str, value: bytes, versions: Iterable[int]) -> bytes:
    """A frame with a right checksum and changed content; one that is still well-formed is a ghost's."""
    kind, contract = FRAMES[topic]
    frame = frames.decode(value, kind, contract.VERSION)
    while True:
        meta, arrays = frame.meta, frame.arrays
        of_meta, of_arrays = rng.choice(((0, 0), (1, 0), (1, 0), (0, 1), (0, 1), (1, 1), (2, 2)))
        for _ in range(of_meta):
            meta = _changed_meta(rng, meta) if meta else meta
        for _ in range(of_arrays):
            arrays = _changed_arrays(rng, arrays) if arrays else arrays
        named, version = kind, contract.VERSION
        if rng.random() < 0.1:
            named = rng.choice(("model", "explain.requests", "contributions", "snapshot-chunk"))
            version += rng.choice((0, -1, 1, 1_000))
        try:
            made = frames.encode(named, version, meta, arrays)
        except (FrameError, OverflowError, ValueError):  # nobody can write that
            continue
        try:
            read = contract.decode(made)
        except FrameError:
            return made
        stream = rng.choice(GHOSTS)
        meta = {**meta, "stream": stream}
        if topic == "explain.requests" and read.count:  # a version that never comes would be waited for
            chosen = [one for one in versions if one <= read.first_row]
            if not chosen:
                continue
            meta |= {"epoch": frame.meta["epoch"], "version": rng.choice(chosen)}
        if stream != GHOSTS[0]:  # the others stay in their epoch, so that they are aggregated
            meta |= {"epoch": frame.meta["epoch"], "partition": frame.meta["partition"]}
        try:
            return frames.encode(kind, contract.VERSION, meta, arrays)
        except FrameError:
            continue


# --- topics ----------------------------------------------------------------------------------------------------------


def on_frames(rng: Random, topic: str, genuine: Genuine, settings: Settings, home: int) -> Hostile:
    """On `explain.requests` or `contributions`."""
    own, foreign = genuine.requests, genuine.contributions
    if topic == "contributions":
        own, foreign = foreign, own
    value: bytes | None
    choice = rng.random()
    if choice < 0.45:
        value = rng.choice((*BYTES, lengths))(rng, rng.choice(own))
    elif choice < 0.5:
        value = rng.choice((None, b"", b"GLSF", b"{}", rng.choice(list(genuine.snapshots.values())),
                            rng.choice(foreign)))  # fmt: skip
    else:
        value = _resealed(rng, topic, rng.choice(own), genuine.snapshots)
    count = settings.topics.requests if topic == "explain.requests" else settings.topics.events
    partition = home if topic == "contributions" and rng.random() < 0.8 else rng.randrange(count)
    return Hostile(topic, rng.choice((None, b"", b"s", b"s/1000", rng.randbytes(8))), value, partition)


def on_snapshots(rng: Random, genuine: Genuine, settings: Settings) -> Hostile:
    """On `snapshots`: damaged parts of real models, whole ones of streams that are not there, keys that are none."""
    version = rng.choice(list(genuine.snapshots))
    data = genuine.snapshots[version]
    key, value = rng.choice(snapshots.split("s", settings.epoch, version, data, limit=rng.choice((2_000, 2**19))))
    choice = rng.random()
    if choice < 0.4:
        return Hostile("snapshots", key, rng.choice((*BYTES, lengths))(rng, value), 0)
    if choice < 0.6:
        # no key at all: a broker refuses that on a compacted topic
        mangled = rng.choice(
            (b"", b"no key", b"\xff/0/1/0", b"s/0/1", b"s/0/-1/0", b"s/0/01/0", flipped(rng, b"/x/y/z"))
        )
        return Hostile("snapshots", mangled, rng.choice((value, None, b"")), 0)
    stream, number = rng.choice(PHANTOMS), rng.choice((version, 0, 2**63, 10**30))
    if choice < 0.7:
        return Hostile("snapshots", snapshots.Key(stream, settings.epoch, number, 0).encode(), None, 0)
    if choice < 0.85:  # whole, and of another content than its key says
        parts = snapshots.split(
            stream, settings.epoch, number, rng.choice((data, cut(rng, data), b"", noise(rng, b"")))
        )
        return Hostile("snapshots", *rng.choice(parts), 0)
    whole = {"index": 0, "count": 1, "length": len(data), "checksum": "0" * 32}
    whole[rng.choice(sorted(whole))] = rng.choice(_VALUES)
    forged = frames.encode("snapshot-chunk", 1, whole, {"data": np.frombuffer(data, np.uint8)})
    return Hostile("snapshots", snapshots.Key(stream, settings.epoch, number, 0).encode(), forged, 0)


def on_events(rng: Random, values: list[bytes], settings: Settings, home: int) -> Hostile:
    """On `events`: what is still an event is one, and learned."""
    base = rng.choice(values)
    value: bytes | None
    choice = rng.random()
    if choice < 0.7:
        value = rng.choice(BYTES)(rng, base)
    elif choice < 0.9:
        event = orjson.loads(base)[0]
        part = rng.choice((event, event["x"]))
        part[rng.choice(sorted(part))] = rng.choice((*_VALUES, 1e61, 1e59, "text", [1]))
        value = orjson.dumps([event, *orjson.loads(base)[1:]])
    else:
        value = rng.choice((None, b"", b"[]", b"[[]]", b"null", b"{}", b'{"flush":1}', b"[" * 5_000, b"\xef\xbb\xbf{}",
                            b'{"x":{"a":NaN}}', b'{"x":{"a":1e999}}', rng.choice(values)[1:-1]))  # fmt: skip
    if rng.random() < 0.9:
        return Hostile("events", b"s", value, home)
    key = rng.choice((None, b"", b"\xff\xfe", b"k" * 300, b"ghost", b"s"))
    return Hostile("events", key, value, rng.randrange(settings.topics.events))


def hostile(
    rng: Random, count: int, genuine: Genuine, values: list[bytes], settings: Settings, key: bytes
) -> Iterator[Hostile]:
    """Return this number of messages, over all four topics."""
    home = events.partition(key, settings.topics.events)
    for _ in range(count):
        topic = rng.choice(("events", "explain.requests", "contributions", "snapshots"))
        if topic == "events":
            yield on_events(rng, values, settings, home)
        elif topic == "snapshots":
            yield on_snapshots(rng, genuine, settings)
        else:
            yield on_frames(rng, topic, genuine, settings, home)


# --- what a mistake of a user sends ----------------------------------------------------------------------------------


class Mistake(NamedTuple):
    """A message that a broker takes by default, and the reason that it is rejected for."""

    reason: str
    key: bytes
    value: bytes


def mistakes() -> Iterator[Mistake]:
    """Messages to `events` that are small where they lie, because a client compresses them, or that are just odd."""
    yield Mistake("rejected_elements", b"numbers", b"[" + b",".join([b"1"] * 450_000) + b"]")
    yield Mistake("too_large", b"zeros", b"0" * 140_000_000)
    yield Mistake("bad_stream", b"k" * 9_000_000, b"{}")
    for number in range(3):
        text = f"{number}" + "long text " * 40_000
        yield Mistake("label_too_long", b"texts", orjson.dumps({"x": {"a": number}, "y": text}))
    many = [{"x": {"a": number}, "y": f"a unique id as the target {number}"} for number in range(300)]
    yield Mistake("rejected_elements", b"ids", orjson.dumps(many))
    big = b'{"id":18446744073709551617,"x":{"a":1},"y":"a"}'
    yield Mistake("rejected_elements", b"integers", b"[" + big + b",3]")
    yield Mistake("bad_id", b"integers", b'{"id":' + b"9" * 300 + b',"x":{"a":1}}')
    for number in range(5):
        names = {f"{number} {place} {'random name ' * 20}": 1.0 for place in range(2_000)}
        yield Mistake("", b"names", orjson.dumps({"x": names, "y": "a"}))
    yield Mistake("not_json", b"broken", b'{"x":' + b"y" * 1_048_500)


class Log:
    """Messages on `events`, and the output of a quiet run over them."""

    def __init__(self, settings: Settings) -> None:
        self._reference = Reference(settings)
        self._offsets: dict[int, int] = {}
        self.published: list[tuple[str, bytes]] = []

    def add(self, key: bytes | None, value: bytes | None, partition: int) -> None:
        offset = self._offsets.get(partition, 0)
        self._offsets[partition] = offset + 1
        self.published += self._reference.feed(Message("events", partition, offset, key, value))
