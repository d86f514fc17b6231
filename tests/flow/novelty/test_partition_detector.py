"""Laws of the novelty detector: what it says is a function of the log, and a map serves exactly when it must."""

import random
from dataclasses import dataclass

import numpy as np
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import FrameError, SettingsError, StateError
from glasstream.detect.novelty.fit import fit
from glasstream.events.message import Message, Position
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.novelty.partition import PartitionDetector
from glasstream.flow.novelty.stream import StreamDetector
from glasstream_topics import events, frames, novelty, predictions
from tests.support.late_labels import apart, delays
from tests.support.novelty_logs import BASE, mixed, packed, read, told, watch, whole

COUNT = 500
LOG = mixed(COUNT)
WHOLE = whole(LOG, COUNT)


@pytest.mark.parametrize("size", [1, 7, 130])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_how_events_are_cut_changes_no_byte(size: int, classes: int) -> None:
    log = mixed(COUNT, classes=classes)
    assert whole(log, size) == whole(log, COUNT) != []


@pytest.mark.parametrize("size", [1, 7])
def test_how_messages_are_divided_into_runs_changes_no_byte(size: int) -> None:
    """Runs with invalid messages, late labels, another stream and a position where a predecessor has stopped."""
    source = random.Random(size)
    late = packed(apart(mixed(COUNT, labels=0.9), delays("random:80", COUNT)), size)
    other = packed(mixed(200, classes=3), 3, b"t")
    log: list[Message] = []
    for one in late:
        odd = [Message("events", 0, 0, b"s", b"{")] if source.random() < 0.05 else []
        log += [one, *odd, *([other.pop(0)] if other and source.random() < 0.05 else [])]
    log = [Message("events", 0, offset, one.key, one.value) for offset, one in enumerate(log)]

    def runs(sizes: tuple[int, ...], begin: int = 0) -> list[list[Message]]:
        made = []
        while begin < len(log):
            made.append(log[begin : begin + source.choice(sizes)])
            begin += len(made[-1])
        return made

    def records(core: PartitionDetector, division: list[list[Message]], most: int = 10**9) -> list[tuple[str, bytes]]:
        found, stops = [], 0
        for run in division:
            for due in core.consume(*run):
                if due is not None:
                    due.give(fit(due.pending, core.settings.novelty, core.settings.seed))
                elif (stops := stops + 1) == most:
                    return found + core.take_records()
            found += core.take_records()
        return found

    whole = records(PartitionDetector(watch()), [[one] for one in log])
    assert len(whole) > 300 and records(PartitionDetector(watch()), runs((2, 20, 100))) == whole
    for most in (1, 9, 14):
        first = PartitionDetector(watch())
        before = records(first, runs((5, 40)), most)
        successor = PartitionDetector(watch(), silent_until=first.position)
        assert before + records(successor, runs((7, 60))) == whole


@pytest.mark.parametrize("option", ["novelty.age=70", "novelty.delay=1", "novelty.delay=40", "novelty.categories=2",
                                    "novelty.attribution=false", "novelty.classes=2", "seed=5"])  # fmt: skip
def test_no_option_makes_a_record_depend_on_the_cut(option: str) -> None:
    log = mixed(COUNT, classes=3)
    assert whole(log, 9, option) == whole(log, 200, option) != []


def test_labels_right_after_their_events_are_as_if_they_had_come_with_them() -> None:
    assert whole(apart(LOG, delays(0, COUNT)), 9) == WHOLE


@pytest.mark.parametrize("delay", [40, "random:80"])
def test_labels_come_late_and_every_event_is_scored_however_they_are_cut(delay: int | str) -> None:
    late = apart(mixed(COUNT, labels=0.9), delays(delay, COUNT))
    records = whole(late, 1)
    assert records == whole(late, 37) == whole(late, len(late))
    found = read(records)
    assert [record.seq for record in found] == list(range(found[0].seq, COUNT))
    assert len({record.map_version for record in found}) > 2
    core = PartitionDetector(watch())
    told(core, packed([*late, {"id": "0", "y": "a"}, {"id": "nobody", "y": "a"}], 50))
    detector = core.streams["s"].detector
    assert detector.seqs == COUNT and detector.labelled == sum("y" in one for one in late)
    held = [event.seq for event in detector.window.events]
    assert held == [int(one["id"]) for one in late if "y" in one][-60:]


def test_many_labels_at_once_ask_for_one_map_at_a_time() -> None:
    made = mixed(COUNT, labels=1.0)
    core = PartitionDetector(watch())
    records = told(core, packed([*apart(made[:400], [400] * 400), *made[400:]], 50))
    asked = [request.seq for request in core.take_requests()]
    assert asked[0] == 399 and sorted(set(asked)) == asked
    assert [one.seq for one in read(records)] == list(range(399 + watch().novelty.delay, COUNT))


def test_learner_and_novelty_detector_count_the_same_events_where_classes_are_refused() -> None:
    """Through a restart of the novelty detector too: what it goes on with says which classes there are."""
    made = [{**one, "y": f"class {n % (1 + n // 30)}"} for n, one in enumerate(mixed(300))]
    log = [*packed(made, 7), Message("events", 0, 1_000, b"s", b'{"x":{"a":1},"y":"%s"}' % (b"y" * 300))]
    limits = ("limits.classes=5", "novelty.window=10000")
    learner = PartitionLearner(0, load(assignments=[*BASE, *limits]))
    core = PartitionDetector(watch(*limits))
    for one in log:
        for _ in learner.consume(one):
            pass
        for _ in core.consume(one):
            pass
        watched = core.streams["s"]
        assert watched.detector.seqs == learner.streams["s"].learner.state.seqs
        meta, arrays = watched.detector.state()
        watched.detector = StreamDetector.restore("s", core.settings, orjson.loads(orjson.dumps(meta)), arrays)
    assert learner.rejected > 50 and list(watched.detector.admission.classes) == [f"class {n}" for n in range(5)]


def requested(log: list[Message]) -> list[int]:
    """seq of each window that a map was asked for."""
    core = PartitionDetector(watch())
    told(core, log)
    return [request.seq for request in core.take_requests()]


def test_a_map_serves_exactly_from_its_delay_on() -> None:
    """Whatever map an event was scored with: it is the newest whose window ended D events earlier, or more."""
    asked, records = requested(packed(LOG, 3)), read(WHOLE)
    labelled = [n for n, event in enumerate(LOG) if "y" in event]
    assert asked == labelled[59::40]
    delay = watch().novelty.delay
    assert [record.seq for record in records] == list(range(asked[0] + delay, COUNT))
    for record in records:
        assert record.map_version == max(seq for seq in asked if seq + delay <= record.seq)


def test_scoring_waits_where_the_map_is_due_and_nowhere_else() -> None:
    core = PartitionDetector(watch())
    asked = requested(packed(LOG, COUNT))
    waited = []
    for due in core.consume(packed(LOG, COUNT)[0]):
        if due is not None:
            waited.append(due.seqs)
            assert core.position == Position(0, due.seqs), "what lies before has been used, nothing after"
            before = list(core.records)
            assert due.take([]) == (0, []) and core.records == before
            due.give(fit(due.pending, core.settings.novelty, core.settings.seed))
    assert waited == [seq + watch().novelty.delay for seq in asked if seq + watch().novelty.delay < COUNT]


def test_a_stream_that_is_due_takes_nothing_until_it_has_its_map() -> None:
    core = PartitionDetector(watch())
    stops = core.consume(packed(LOG, COUNT)[0])
    due = next(stop for stop in stops if stop is not None)
    assert next(stops) is None and core.position.used == due.seqs == requested(packed(LOG, COUNT))[0] + 25


def test_events_without_a_label_are_scored_and_enter_no_window() -> None:
    unlabelled = {str(n) for n, event in enumerate(LOG) if "y" not in event}
    assert {record.id for record in read(WHOLE)} & unlabelled
    core = PartitionDetector(watch())
    told(core, packed(LOG, 10))
    held = core.streams["s"].detector.window.events
    assert len(held) == 60 and all("y" in LOG[event.seq] for event in held)


def test_events_that_are_too_old_are_left_out_of_a_window() -> None:
    core = PartitionDetector(watch("novelty.age=70"))
    told(core, packed(LOG, 10))
    for request in core.take_requests():
        young = [n for n in range(request.seq - 69, request.seq + 1) if "y" in LOG[n]]
        assert len(request.rows) == len(young[-60:])


def test_what_is_asked_of_a_map_never_holds_a_later_event() -> None:
    core = PartitionDetector(watch())
    told(core, packed([{"x": {"now": float(n)}, "y": n % 3 > 0} for n in range(300)], 300))
    for request in core.take_requests():
        assert request.rows.max() == request.seq


@dataclass
class Anchor:
    """All streams of a partition as of a position, as bytes."""

    at: Position
    seqs: int
    streams: dict[str, tuple[bytes, int]]

    @classmethod
    def of(cls, core: PartitionDetector) -> "Anchor":
        states = {}
        for name, watched in core.streams.items():
            meta, arrays = watched.detector.state()
            states[name] = frames.encode("t", 1, {"state": meta}, arrays), watched.first_offset
        return cls(core.position, core.streams["s"].detector.seqs, states)

    def successor(self, sent: Position) -> PartitionDetector:
        made = PartitionDetector(watch(), first_offset=self.at.offset, silent_until=sent)
        for name, (data, first_offset) in self.streams.items():
            frame = frames.decode(data, "t", 1)
            detector = StreamDetector.restore(name, watch(), frame.meta["state"], frame.arrays)
            made.resume(name, detector, first_offset, self.at)
        return made


@pytest.mark.parametrize(
    ("classes", "delay"),
    [
        (0, None),
        pytest.param(2, None, marks=pytest.mark.slow),
        pytest.param(3, None, marks=pytest.mark.slow),
        (2, "random:60"),
    ],
)
@pytest.mark.parametrize("distance", [0, 90])
def test_a_crash_anywhere_changes_no_byte(classes: int, delay: str | None, distance: int) -> None:
    """Killed at stops of the log, in the middle of messages too; the anchor is `distance` events older, or there is
    none yet."""
    made = mixed(COUNT, classes=classes)
    log = packed(made if delay is None else apart(made, delays(delay, COUNT)), 31)
    expected = told(PartitionDetector(watch()), log)
    core = PartitionDetector(watch())
    sent: list[bytes] = []
    anchors: list[Anchor] = []
    stops = 0
    for message in log:
        for due in core.consume(message):
            sent += [record for _, record in core.take_records()]
            anchors.append(Anchor.of(core))
            stops += 1
            if stops % 5 == 0:
                old = [anchor for anchor in anchors if anchor.seqs <= anchors[-1].seqs - distance]
                made = PartitionDetector(watch(), silent_until=core.position)
                if old:
                    made = old[-1].successor(core.position)
                assert sent + told(made, log[made.position.offset :]) == expected, f"killed at {core.position}"
            if due is not None:
                due.give(fit(due.pending, core.settings.novelty, core.settings.seed))
    assert sent == expected


def test_a_map_of_another_window_is_refused() -> None:
    core = PartitionDetector(watch())
    told(core, packed(LOG, 50))
    detector = core.streams["s"].detector
    data = detector.state()[1]["map"].tobytes()
    with pytest.raises(FrameError, match=r"expected (no map|the map of seq \d+), got the one of seq \d+"):
        detector.give(data)


def test_state_that_is_not_whole_is_refused() -> None:
    core = PartitionDetector(watch())
    told(core, packed(LOG, 50))
    meta, arrays = core.streams["s"].detector.state()
    for name in meta:
        with pytest.raises(StateError, match=r"progress\.novelty"):
            StreamDetector.restore("s", watch(), {key: value for key, value in meta.items() if key != name}, arrays)
    for name in arrays:
        if name != "map":
            with pytest.raises(StateError, match=r"progress\.novelty"):
                StreamDetector.restore("s", watch(), meta, {key: one for key, one in arrays.items() if key != name})
    with pytest.raises(StateError):
        StreamDetector.restore("s", watch(), meta, {**arrays, "map": np.frombuffer(b"no map", np.uint8)})


BAD: list[object] = [
    b"\xff\xfe", b'{"x": {"a": NaN}}', [{"x": {"size": 1.0}}, 3, {"x": {}}, {"x": {"size": 2.0}, "y": 1.5}], 3, {},
    {"x": {"size": [1]}}, None, {"x": {"size": 0.5}, "y": 3.5}, {"flush": True}, [], {"x": {"size": "text"}, "id": "r"},
    {"x": {"size": 1e61}}, {"x": {"size": 1.0}, "z": 1},
]  # fmt: skip


def test_an_event_has_the_learners_seq_whatever_comes_between() -> None:
    settings = load(assignments=[*BASE, "topics.events=2", "limits.streams=2", "model.name=linear"])
    home = events.partition(b"s", 2)
    contents: list[tuple[bytes | None, object]] = []
    good = iter(mixed(300))
    for turn in range(60):
        contents += [(b"s", [next(good) for _ in range(5)]), (b"s", BAD[turn % len(BAD)])]
        contents += [
            (key, {"x": {"size": 1.0}, "y": "a"}) for key in (b"t", b"u", b"v", None, b"", b"\xff", b"w" * 999)
        ]
    log = [
        Message("events", home, offset, key, one if isinstance(one, bytes) or one is None else orjson.dumps(one))
        for offset, (key, one) in enumerate(contents)
    ]
    learner = PartitionLearner(home, settings)
    for message in log:
        for _ in learner.consume(message):
            pass
    learner.cut()
    predicted = {}
    for stream, record in learner.take_outbox()[0].predictions:
        found = predictions.decode(record)
        predicted[stream, found.seq] = found.id
    core = PartitionDetector(settings)
    records = read(told(core, log))
    assert core.streams.keys() == learner.streams.keys() and 0 < len(core.streams) <= 2
    for name, watched in core.streams.items():
        assert watched.detector.seqs == learner.streams[name].learner.state.seqs
    assert records
    for record in records:
        assert predicted[record.stream, record.seq] == record.id


def test_windows_that_no_map_can_be_fitted_to_leave_the_one_before_in_force() -> None:
    log = mixed(400)
    for event in log[150:]:
        if "y" in event:
            event["y"] = "b"
    core = PartitionDetector(watch())
    records = read(told(core, packed(log, 20)))
    detector = core.streams["s"].detector
    assert detector.unfitted > 0 and "one class" in detector.reason
    assert [record.seq for record in records] == list(range(records[0].seq, 400))
    one_class = PartitionDetector(watch())
    assert told(one_class, packed([{**event, "y": "b"} for event in log], 20)) == []
    assert one_class.streams["s"].detector.unfitted > 0


def test_a_target_that_is_constant_and_columns_that_are() -> None:
    log = [{"x": {"a": 1.0, "b": None, "c": "z", "d": float(n % 5)}, "y": 3.5} for n in range(200)]
    log += [{"x": {"a": 2.0, "b": 7.0, "c": "new", "e": 1.0}} for _ in range(20)]
    records = read(whole(log, 40))
    assert len(records) == 220 - 84 and all(np.isfinite([one.indicator, one.baseline]).all() for one in records)


def test_numbers_of_any_size_stop_nothing() -> None:
    log = mixed(300, classes=0)
    for n, event in enumerate(log):
        event["x"]["huge"] = (-1) ** n * 10.0 ** (n % 60)
        if "y" in event and n % 9 == 0:
            event["y"] = 1e60
    assert len(whole(log, 50)) > 100


def test_what_is_flagged_says_where_the_map_is_steep() -> None:
    records = read(whole(mixed(COUNT, classes=0, shift=400), 50))
    flagged = [record for record in records if record.flagged]
    assert flagged and all(record.flagged == (record.indicator > record.threshold) for record in records)
    for record in records:
        assert (record.attribution is not None) == record.flagged
    for record in flagged:
        assert record.attribution is not None and set(record.attribution) >= {"open", "rooms", "size", "town"}
    assert all(one.attribution is None for one in read(whole(LOG, 50, "novelty.attribution=false")))


def test_settings_that_contradict_each_other_are_all_named() -> None:
    with pytest.raises(SettingsError) as caught:
        load(assignments=["novelty.delay=3000", "novelty.held=0.01", "novelty.neighbours=999"])
    findings = caught.value.findings
    assert len(findings) == 3
    for key, line in zip(("delay", "held", "neighbours"), findings, strict=True):
        assert line.startswith(f"novelty.{key}: expected")


def test_a_window_that_ageing_keeps_too_small_for_a_map_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"held: expected at least 99 held-out events .* got 50 .* novelty\.age = 200"
    ):
        load(assignments=["novelty.age=200"])
    with pytest.raises(SettingsError, match=r"novelty\.neighbours: expected at most the 50 .* novelty\.age = 200"):
        load(assignments=["novelty.age=200", "novelty.held=0.75", "novelty.neighbours=51"])
    load(assignments=["novelty.age=400"])


def test_no_setting_of_the_novelty_detector_is_one_of_the_others_state() -> None:
    plain, other = load(), load(assignments=["explain.methods=ipfi,novelty", "novelty.window=500"])
    assert plain.fingerprint() == other.fingerprint()
    assert (plain.explain.detects_novelty, other.explain.detects_novelty, other.explain.names) == (
        False,
        True,
        ("ipfi",),
    )
    assert plain.novelty_fingerprint() != other.novelty_fingerprint()
    assert load(assignments=["novelty.anchor=5"]).novelty_fingerprint() == plain.novelty_fingerprint()
    for methods in ("novelty", "", "ipfi,", "novelty,novelty"):
        with pytest.raises(SettingsError):
            load(assignments=[f"explain.methods={methods}"])


def test_every_record_is_one_of_the_contract() -> None:
    for record in WHOLE:
        assert novelty.decode(record).stream == "s"
