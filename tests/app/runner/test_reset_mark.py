"""A reset mark in the log: what comes after it is, to the byte, what a stream of its own says in the next epoch."""

from collections import defaultdict
from typing import Any

import orjson

from glasstream.app.configuration import load
from glasstream.flow.reference import Reference
from glasstream_topics import events, predictions
from tests.support.late_labels import apart, delays
from tests.support.mixed_streams import BASE, mixed
from tests.support.novelty_logs import BASE as NOVELTY

NOVELTY = [*NOVELTY, "explain.methods=ipfi,isage,ipdp,novelty"]
Log = list[tuple[bytes, bytes]]


def packed(of: list[dict[str, Any]], size: int, key: bytes = b"s") -> Log:
    return [(key, events.encode(of[n : n + size])) for n in range(0, len(of), size)]


def published(log: Log, *assignments: str) -> dict[str, dict[str, list[bytes]]]:
    """By stream and topic; of dead letters only why."""
    found: dict[str, dict[str, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for topic, record in Reference(load(assignments=[*BASE, "model.name=tree", *assignments])).run(log):
        one = orjson.loads(record)
        if topic == "events.dead":
            found[one["key"]][topic].append(one["reason"].encode())
        else:
            found[one["stream"]][topic].append(record)
    return found


FIRST, SECOND = mixed(230, classes=2), mixed(400, classes=3)[230:]
RESET, FLUSH = (b"s", events.RESET), (b"s", events.FLUSH)


def test_after_the_mark_it_is_a_stream_of_its_own_in_the_next_epoch() -> None:
    """However it is packed."""
    whole = published([*packed(FIRST, 11), RESET, *packed(SECOND, 17), FLUSH], *NOVELTY)["s"]
    before = published([*packed(FIRST, 30), FLUSH], *NOVELTY)["s"]
    after = published([*packed(SECOND, 30), FLUSH], *NOVELTY, "epoch=1")["s"]
    assert set(before) == {"predictions", "importance", "effects", "drift", "novelty"}
    for topic in before:
        assert whole[topic] == before[topic] + after[topic], topic
    assert [len(after[topic]) > 0 for topic in ("predictions", "importance", "effects", "novelty")] == [True] * 4
    assert orjson.loads(after["predictions"][0])["seq"] == 0


def test_a_stream_of_another_task_may_follow() -> None:
    numbers = mixed(90, classes=0)
    whole = published([*packed(FIRST, 30), RESET, *packed(numbers, 30), FLUSH])["s"]
    assert "events.dead" not in whole
    assert whole["importance"][-1] == published([*packed(numbers, 30), FLUSH], "epoch=1")["s"]["importance"][-1]


def test_other_streams_are_as_without_it() -> None:
    def log(*marks: tuple[bytes, bytes]) -> Log:
        pairs = zip(packed(FIRST, 23), packed(SECOND, 17, b"other"), strict=True)
        mixed_up = [one for pair in pairs for one in pair]
        return [*mixed_up[:9], *marks, *mixed_up[9:], FLUSH, (b"other", events.FLUSH)]

    with_mark, without = (published(log(*marks), *NOVELTY, "topics.events=1") for marks in ([RESET], []))
    assert with_mark["other"] == without["other"] and with_mark["s"] != without["s"]
    assert with_mark["s"]["predictions"][-1] != without["s"]["predictions"][-1]


def test_marks_count_epochs_and_a_stream_that_has_not_begun_has_none_to_end() -> None:
    log = [RESET, *packed(FIRST[:40], 40), FLUSH, RESET, RESET, *packed(SECOND[:40], 40), FLUSH]
    found = published(log, *NOVELTY)
    epochs = [orjson.loads(one)["epoch"] for one in found["s"]["predictions"]]
    assert epochs == [0] * 40 + [2] * 40
    assert published([RESET]) == {}


def test_what_waits_for_its_label_waits_no_more() -> None:
    late = apart(FIRST[:60], delays(20, 60))
    at = next(n for n, one in enumerate(late) if one.get("id") == "50" and "x" in one)
    log = [*packed(late[:at], 7), RESET, *packed(late[at:], 7), FLUSH]
    for setting in ((), NOVELTY):
        dead = published(log, *setting)["s"]["events.dead"]
        assert dead and set(dead) <= {b"unknown_id", b"rejected_elements"}
    found = [predictions.decode(one) for one in published(log)["s"]["predictions"]]
    assert [one.seq for one in found] == [*range(50), *range(10)]


def test_what_is_nearly_a_mark_is_a_dead_letter_with_the_reason() -> None:
    near = [b'{"reset": false}', b'{"reset": true, "y": 1}', b'[{"reset": true}]', b'{"reset": true, "flush": true}']
    found = published([*packed(FIRST[:40], 40), *((b"s", one) for one in near), *packed(FIRST[40:60], 20)])["s"]
    assert found.pop("events.dead") == [b"unknown_key", b"unknown_key", b"rejected_elements", b"unknown_key"]
    assert found == published(packed(FIRST[:60], 20))["s"]
