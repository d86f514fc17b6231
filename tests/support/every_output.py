"""Messages with extreme values in every field, and all outputs that the values of such messages can reach."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from glasstream.app.operate.table_files import write_csv, write_parquet
from glasstream.events.message import Message
from glasstream.flow.learner import stream_state
from glasstream.flow.learner.dead_letters import dead_letter
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.novelty.partition import PartitionDetector
from glasstream.flow.novelty.stream import StreamDetector
from glasstream.flow.reference import Encoded
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.avro import Encoder
from glasstream_topics import ALL, events, frames, progress_learner
from glasstream_topics.consume.tables import Layout
from glasstream_topics.record import Json

_PUBLISHED = {topic.name: topic for topic in ALL if topic.published}
_ENCODERS = {name: Encoder(topic) for name, topic in _PUBLISHED.items()}

KEYS: Sequence[bytes | None] = (
    b"s",
    b"=1+1",
    "é😀".encode(),
    b"\0",
    b"a/b/0/1",
    b"x" * 249,
    b"x" * 250,
    b"\xff",
    b"",
    None,
)
NAMES = (
    "a",
    "b",
    "c",
    "",
    "\0",
    "=1+1",
    "$x$",
    "\n",
    "é" * 300,
    "😀",
    "a" * 1024,
    "a" * 1025,
    "\ud800",
    "features",
    "id",
)
TEXTS = ("", "\0", "text", "=1+1", '"', "\u2028", "é" * 512, "x" * 1024, "x" * 1025, "\ud800", "nan", "1e5", "true")
NUMBERS = (
    *(0, 1, -1, 0.5, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-300, 1e60, -1e60, 1.0000000000000001e60),
    *(1.01e60, 1e61, 1e308, 2**53 + 1, 2**63, 2**64, -(2**64), 10**59, 10**60, 10**61, 10**400, True, False, None),
)
TIMES = (
    *(None, 0, 1, -1, 1_767_225_600_000, 253_402_300_799_999, 253_402_300_800_000, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(2**63, -(2**63) - 1, 2**64 - 1, 2**64, 10**30, -(10**400), 1.5, 1e18, "now", True, []),
)
IDS = (
    *(None, 0, -1, 2**63, 2**64, -(2**64), 10**255, 10**256 - 1, 10**256, -(10**255), -(10**255) + 1, 1.0, True),
    *("", "0", "\0", "=1+1", "a" * 256, "a" * 257, "é" * 128, "é" * 129, "\ud800", "\u2028"),
)
CLASSES = (
    "a",
    "b",
    "",
    "\0",
    "=1+1",
    "é" * 128,
    "é" * 129,
    "x" * 256,
    "x" * 257,
    "\ud800",
    True,
    0,
    2**70,
    10**300,
    None,
)
TARGETS = (*NUMBERS, "a", None)


def extreme_event(chance: random.Random, task: str, *, tame: float = 0.7) -> dict[str, Any]:
    """Return an event, each field of which is extreme with a probability of 1 - `tame`."""

    def one(usual: Any, extreme: Sequence[Any]) -> Any:
        return usual if chance.random() < tame else chance.choice(extreme)

    x = {name: one(chance.random(), (*NUMBERS, *TEXTS)) for name in ("a", "b")}
    x |= {chance.choice(NAMES): chance.choice((*NUMBERS, *TEXTS)) for _ in range(chance.choice((0, 0, 0, 1, 3)))}
    made: dict[str, Any] = {"x": one(x, ({}, None, {"a": [1]}, {"a": {}}, x, x, x))}
    if (event_id := one(chance.randrange(20), IDS)) is not None:
        made["id"] = event_id
    if (ts := one(1_767_225_600_000 + chance.randrange(10**6), TIMES)) is not None:
        made["ts"] = ts
    usual = chance.choice(("a", "b", None)) if task == "classification" else chance.choice((1.5, chance.random(), None))
    if (y := one(usual, CLASSES if task == "classification" else TARGETS)) is not None:
        made["y"] = y
    if chance.random() < 0.3:
        meta = {"m": one(chance.choice("fm"), (*NUMBERS, *TEXTS)), chance.choice(NAMES): chance.choice(TEXTS)}
        made["meta"] = one(meta, ({}, None, [], {"m": [1]}, {"m": {}}))
    if chance.random() < 0.1 and "y" in made:  # a label
        del made["x"]
    return made


def extreme_messages(
    chance: random.Random, count: int, task: str, *, tame: float = 0.7
) -> list[tuple[bytes | None, bytes | None]]:
    """Return messages of events and labels with extreme values, some marks, and some that are no JSON."""
    made: list[tuple[bytes | None, bytes | None]] = []
    for _ in range(count):
        key = b"s" if chance.random() < 0.9 else chance.choice(KEYS)
        kind = chance.random()
        if kind < 0.03:
            made.append((key, chance.choice((None, b"", b"{", events.FLUSH, events.RESET, b"[" * 2_000, b"[]"))))
            continue
        content = [extreme_event(chance, task, tame=tame) for _ in range(chance.choice((1, 4, 16)))]
        made.append((key, json.dumps(content[0] if kind < 0.2 else content, allow_nan=False).encode()))
    return made


def through_every_output(
    settings: Settings, messages: Iterable[tuple[bytes | None, bytes | None]], folder: Path | None = None
) -> Counter[str]:
    """Send messages through all stages, and what they publish and save through everything that encodes it.

    Return the number of records by topic. What cannot be encoded, or does not come back as it was, raises.

    Parameters
    ----------
    folder
        Where to write tables; None to leave them out.
    """
    sent = list(messages)
    records: dict[str, list[bytes]] = {}
    for topic, record in Encoded(settings).run(sent):
        records.setdefault(topic, []).append(record)
    for topic, values in records.items():
        if topic != "events.dead":
            _read_and_copied(topic, values)
    if folder is not None:
        for topic, values in records.items():
            if topic != "events.dead":
                _in_tables(topic, values, folder)
    _saved(settings, sent)
    return Counter({topic: len(values) for topic, values in records.items()})


def _json_of(topic: str) -> Json[..., Any]:
    json_of = _PUBLISHED[topic].json
    assert json_of is not None
    return json_of


def _read_and_copied(topic: str, values: Sequence[bytes]) -> None:
    for value in values:
        _json_of(topic).decode(value)
        _ENCODERS[topic].encode(Message(topic, 0, 0, b"s", value))


def _in_tables(topic: str, values: Sequence[bytes], folder: Path) -> None:
    layout: Layout[Any] = Layout(_json_of(topic).record)
    read = [_json_of(topic).decode(value) for value in values]
    rows = write_csv(folder / f"{topic}.csv", layout, read)
    assert write_parquet(folder / f"{topic}.parquet", layout, read) == rows


def _saved(settings: Settings, messages: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    """Save the states of learner and novelty detector after the messages, and the letters of what is rejected."""
    learner, detector = PartitionLearner(0, settings), PartitionDetector(settings)
    for offset, (key, value) in enumerate(messages):
        message = Message(events.TOPIC.name, 0, offset, key, value, 1_767_225_600_000)
        for _ in learner.consume(message):
            learner.outbox.snapshots.clear()
        for due in detector.consume(message):
            assert due is None, "expected too few events for a map"
    learner.cut()
    _, dead = learner.take_outbox()
    for rejections in dead:
        letter = dead_letter(rejections, settings.limits.dead_bytes)
        copied = Message(events.TOPIC.name, 0, 0, letter.key, letter.value, 0, letter.headers)
        _ENCODERS["events.dead"].encode(copied)
    for name, stream in learner.streams.items():
        state, learned = learner.state(name, at_rest=True), stream.learner
        data = stream_state.encode(state)
        if data is not None:
            of = {"stream": name, "rows": learned.state.next_entry, "seqs": learned.state.seqs, "settings": settings}
            assert stream_state.encode(stream_state.decode(data, **of)) == data
        record = progress_learner.LearnerStreamProgress(
            name, learned.epoch, learned.state.seqs, learned.state.rows, stream.first_offset, stream.after
        )
        assert progress_learner.decode(*progress_learner.encode(record)) == record
    for name, watched in detector.streams.items():
        meta, arrays = watched.detector.state()
        frame = frames.decode(frames.encode("anchor", 1, meta, arrays), "anchor", 1)
        again = StreamDetector.restore(name, watched.detector.settings, frame.meta, frame.arrays)
        assert frames.encode("anchor", 1, *again.state()) == frames.encode("anchor", 1, meta, arrays)
