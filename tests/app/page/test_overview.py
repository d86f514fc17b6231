"""Laws of the overview: cheap rows that are built once, and histories of the streams that somebody looks at."""

import random
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

import glasstream_topics
from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.page import overview
from glasstream.app.page.overview import Rows
from glasstream.app.page.reading import Topics, put
from glasstream.app.page.store import Store
from glasstream.app.page.stream import StreamHistory
from glasstream.app.page.summary import Rate, Summary
from glasstream.app.page.viewer import Channel, View, Viewer
from glasstream.kafka.transport.connection import Connection
from glasstream_topics import importance, incidents, predictions
from tests.support.page_records import (
    drift_record,
    effect_record,
    importance_record,
    incident_record,
    prediction_record,
)
from tests.support.viewer import put as put_record
from tests.support.viewer import sent, store
from tests.support.waiting import wait_for


def row(known: Store, stream: str) -> dict[str, Any]:
    message = sent(Viewer(Rows(known), View()))
    assert message is not None
    return next(one for one in message["rows"] if one["stream"] == stream)


def two() -> Store:
    known = store()
    put_record(known, "predictions", prediction_record(0, 1.0, stream="a"))
    put_record(known, "predictions", prediction_record(0, 1.0, stream="b"))
    return known


def test_home_is_the_only_stream_and_all_streams_once_there_are_two() -> None:
    known = store()
    viewer = Viewer(Rows(known), View())
    assert (sent(viewer) or {})["epoch"] is None
    put_record(known, "predictions", prediction_record(0, 1.0, stream="a"))
    message = sent(viewer, 1.0) or {}
    assert (message["stream"], message["epoch"]) == ("a", 0) and "rows" not in message
    put_record(known, "predictions", prediction_record(0, 1.0, stream="b"))
    message = sent(viewer, 2.0) or {}
    assert (message["type"], message["stream"]) == ("state", None)
    assert [one["stream"] for one in message["rows"]] == ["a", "b"]


def test_a_state_and_the_changed_rows_come_to_what_a_new_viewer_is_sent() -> None:
    known = two()
    chance = random.Random(5)
    viewer = Viewer(Rows(known), View())
    rows = {one["stream"]: one for one in (sent(viewer) or {})["rows"]}
    for turn in range(1, 40):
        changed = {f"stream {chance.randrange(10)}" for _ in range(chance.randrange(4))}
        for name in changed:
            put_record(known, "predictions", prediction_record(turn, 1.0, stream=name))
            put_record(known, "importance", importance_record(turn, {"x": 0.1, "y": turn / 10}, stream=name))
        message = sent(viewer, 2.0 * turn)
        assert (message is None) == (not changed)
        if message is not None:
            assert message["type"] == "rows" and {one["stream"] for one in message["rows"]} == changed
            rows |= {one["stream"]: one for one in message["rows"]}
    fresh = sent(Viewer(Rows(known), View())) or {}
    assert {one["stream"]: one for one in fresh["rows"]} == rows and len(rows) == 12


def test_a_message_comes_every_two_seconds_at_most() -> None:
    known = two()
    viewer = Viewer(Rows(known), View())
    assert sent(viewer, 0.0) is not None
    times = []
    for tenth in range(1, 100):
        put_record(known, "predictions", prediction_record(tenth, 1.0, stream="a"))
        if viewer.message(tenth / 10) is not None:
            times.append(tenth)
    assert times == [20, 40, 60, 80]


def test_a_row_is_built_once_for_all_viewers_of_all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    part = overview.row_part
    monkeypatch.setattr(overview, "row_part", lambda summary: built.append(summary.name) or part(summary))
    known = two()
    rows = Rows(known)
    channels = [Channel(rows, View(top=top)) for top in range(20)]
    seats = [channel.join(lambda: None, 0.0) for channel in channels for _ in range(5)]
    assert sorted(built) == ["a", "b"]
    put_record(known, "predictions", prediction_record(1, 1.0, stream="a"))
    for channel in channels:
        channel.turn(3.0)
    assert sorted(built) == ["a", "a", "b"]
    assert all(orjson.loads(seat.queue[-1])["rows"][0]["events"] == 2 for seat in seats)


def test_a_row_tells_quality_reliance_and_incident() -> None:
    known = two()
    for seq in range(1, 11):
        target = "no" if seq % 5 else "yes"
        put_record(known, "predictions", prediction_record(seq, 0.0, prediction=target, target=target, stream="a"))
    put_record(known, "importance", importance_record(9, {"p": 0.1, "q": 0.5, "r": -0.2, "t": 0.3}, stream="a"))
    put_record(known, "importance", importance_record(9, {"p": 9.0}, method="isage", stream="a"))
    put_record(known, "incidents", incident_record(9, 1, onset=3, verdict="data_moved", stream="a"))
    told = row(known, "a")
    standing = told["standing"]
    assert (standing["events"], standing["model"], standing["beaten"]) == (10, 1.0, True)
    assert (standing["constant"], standing["most_frequent"]) == (0.8, "no")
    assert told["leading"] == [["q", 0.5], ["t", 0.3], ["p", 0.1]] and told["method"] == "iPFI"
    assert (told["open"], told["incident"]["since"], told["incident"]["status"]) == (1, "row 3", "open")
    assert told["incident"]["title"] == incidents.VERDICTS["data_moved"] and told["events"] == 11


def test_an_open_incident_is_told_before_a_newer_one_that_is_over() -> None:
    summary = Summary("s")

    def add(row: int, number: int, status: str, written: int) -> None:
        summary.take(incidents.decode(incident_record(row, number, status=status)), written)

    def told() -> tuple[int, str, int, int]:
        assert summary.incident is not None
        return summary.incident.incident, summary.incident.status, summary.incident.written, summary.open_incidents

    add(100, 1, "open", 10)
    add(200, 2, "open", 20)
    assert told() == (2, "open", 20, 2)
    add(300, 2, "over", 30)
    assert told() == (1, "open", 10, 1)
    add(400, 1, "normal", 40)
    assert told() == (2, "over", 20, 0)
    add(250, 2, "open", 50)  # an older record, which came late
    assert told() == (2, "over", 20, 0)
    for number in range(3, 60):
        add(1_000 + number, number, "open", 60)
    assert told() == (59, "open", 60, 20)


def test_a_new_epoch_begins_anew_and_an_older_one_is_passed_over() -> None:
    summary = Summary("s")
    for record in (prediction_record(5, 1.0), prediction_record(0, 1.0, epoch=1), prediction_record(6, 1.0)):
        summary.take(predictions.decode(record), 1)
    assert (summary.epoch, summary.last_seq) == (1, 0)


@given(st.lists(st.integers(min_value=0, max_value=5_000), min_size=1, max_size=300))
def test_a_rate_is_the_events_of_the_last_minute_over_their_time(gaps: list[int]) -> None:
    rate, times, now = Rate(), [], 1_700_000_000_000
    for gap in gaps:
        now += gap
        times.append(now)
        rate.add(now)
    start = max((now // 5_000 - 11) * 5_000, times[0])
    assert rate.value == pytest.approx(1_000 * sum(one >= start for one in times) / max(1_000, now - start))


def sizes(value: object, seen: set[int]) -> int:
    """Bytes of a value and of all that it refers to, without classes."""
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    inner: list[object] = []
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, list | tuple | set) or type(value).__name__ == "deque":
        inner = list(value)  # type: ignore[call-overload]
    elif hasattr(value, "__dict__"):
        inner = [vars(value)]
    return sys.getsizeof(value) + sum(sizes(one, seen) for one in inner)


def test_a_summary_takes_bounded_memory() -> None:
    summary = Summary("s")
    sizes_then = []
    for seq in range(6_000):
        target = float(seq % 7)
        summary.take(predictions.decode(prediction_record(seq, 1.0, prediction=1.5, target=target)), seq * 1_000)
        if seq % 10 == 0:
            values = {f"{at}{'x' * 3_000}": at / 10 for at in range(10)}
            summary.take(importance.decode(importance_record(seq, values)), seq)
            long = incident_record(seq, 1 + seq // 10, summary="y" * 9_000)
            summary.take(incidents.decode(long), seq)
        if seq % 2_000 == 1_999:
            sizes_then.append(sizes(summary, set()))
    assert max(sizes_then) < 64 * 1024 and max(sizes_then) < 1.1 * min(sizes_then)


def test_there_is_room_for_a_stream_that_somebody_looks_at_while_others_do_not() -> None:
    known = store()
    for name in ("a", "b", "c", "d"):
        put_record(known, "predictions", prediction_record(0, 1.0, stream=name))
    assert list(known.streams) == ["a", "b"] and known.wanted(0.0) is None
    viewer = Viewer(Rows(known), View(stream="c"))
    assert (sent(viewer) or {})["behind"] == "reading"
    known.look("a", 0.0)
    assert known.wanted(0.0) == "c"
    known.admit(StreamHistory("c", 10))
    assert list(known.streams) == ["a", "c"] and not known.crowded("c")
    other = Viewer(Rows(known), View(stream="d"))
    assert (sent(other) or {})["behind"] == "crowded" and known.wanted(1.0) is None
    assert known.look("c", 9.0) is not None and known.look("d", 9.0) is None
    assert known.wanted(9.0) == "d"  # nobody looks at "a" any more
    known.admit(StreamHistory("d", 10))
    assert list(known.streams) == ["c", "d"]


@pytest.fixture
def topics(embedded: EmbeddedKafka, prefix: str) -> Iterator[tuple[Topics, Producer, str]]:
    for topic in glasstream_topics.ALL:
        embedded.create_topic(topic.full_name(prefix), 3)
    producer = Producer(Connection(embedded.bootstrap).producer())
    made = Topics(Connection(embedded.bootstrap), [prefix], history=10_000)
    yield made, producer, prefix
    made.close()


def test_a_history_that_is_read_back_is_what_it_would_have_been_from_the_start(
    topics: tuple[Topics, Producer, str],
) -> None:
    """While records keep coming, between the reads of both readers; other streams leave no trace."""
    reader, producer, prefix = topics
    known, late = Store(2, 100, 10), Store(1, 100, 10)
    chance = random.Random(7)

    def write(seq: int) -> None:
        for stream in ("other", "late", "late/a"):
            key = stream.encode()
            loss = float(chance.random() < 0.3)
            producer.produce(f"{prefix}predictions", prediction_record(seq, loss, stream=stream), key)
            if seq % 10 == 9:
                values = {"a": chance.random(), "b": 0.2}
                producer.produce(f"{prefix}importance", importance_record(seq, values, stream=stream), key)
                curve = [0.1, chance.random()]
                producer.produce(f"{prefix}effects", effect_record(seq, "a", curve, stream=stream), key + b"/a")
                producer.produce(f"{prefix}drift", drift_record(seq, "a", 0.1, 0.5, stream=stream), key)
        producer.flush(30.0)

    def read() -> None:
        taken = reader.read()
        put(taken, known)
        put(taken, late)

    for seq in range(50):
        write(seq)
    wait_for("the first records", lambda: read() or len(known.summaries) == 3)
    known.streams["late"] = StreamHistory("late", 100)  # from here on it would miss what came before
    late.streams.clear()
    seq, done = 50, False
    partition = late.summaries["late"].partition
    back = reader.back("late", partition, 100)
    while not done:
        write(seq)
        seq += 1
        read()
        done = seq > 60 and back.read()
    late.admit(back.history)
    back.close()
    for more in range(seq, seq + 10):
        write(more)
    wait_for(
        "the newest records",
        lambda: read() or late.summaries["late"].last_seq == seq + 9 == late.streams["late"].quality.last_seq,
    )
    whole = Store(3, 100, 10)
    again = Topics(reader._connection, [prefix], history=10_000)
    wait_for("all records", lambda: put(again.read(), whole) or not again.left)
    again.close()
    wait_for("the last of them", lambda: read() or not reader.left)
    views = [Viewer(Rows(one), View(stream="late")).message(0.0) for one in (late, whole)]
    messages = [orjson.loads(one or b"") for one in views]
    for message in messages:
        del message["newest"], message["streams"], message["reading"]
    assert messages[0] == messages[1] and messages[0]["alarms_total"] == len(messages[0]["alarms"]) > 5


def test_streams_of_deployments_beside_each_other_are_told_apart(
    topics: tuple[Topics, Producer, str], embedded: EmbeddedKafka
) -> None:
    """Even if a stream is called like one of the other deployment, and a prefix begins like the other one."""
    _, producer, prefix = topics
    other = f"{prefix}events."
    for topic in glasstream_topics.ALL:
        embedded.create_topic(topic.full_name(other), 3)
    names = ["loans", f"loans @ {other}"]
    for number, (one, name) in enumerate((one, name) for one in (prefix, other) for name in names):
        for seq in range(number + 1):
            producer.produce(f"{one}predictions", prediction_record(seq, 0.1, stream=name), name.encode())
    producer.flush(30.0)
    reader = Topics(Connection(embedded.bootstrap), [prefix, other, prefix], history=10_000)
    known = Store(1, 100, 10)
    wait_for("all records", lambda: put(reader.read(), known) or not reader.left)
    shown = [f"{name} @ {one}" for one in (prefix, other) for name in names]
    assert {name: one.last_seq for name, one in known.summaries.items()} == dict(zip(shown, range(4), strict=True))
    for number, name in enumerate(shown):
        assert reader.shown(name) == name
        back = reader.back(name, known.summaries[name].partition, 100)
        wait_for("its records", back.read)
        assert back.history.name == name and back.history.quality.last_seq == number
        back.close()
    assert reader.shown("loans") == shown[0]
    reader.close()
