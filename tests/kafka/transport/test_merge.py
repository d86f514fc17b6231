"""Messages of a backlog come by their timestamps; those of a partition always in its order, each once."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from glasstream.events.message import Message
from glasstream.kafka.transport.merge import LEAST_AHEAD_BYTES, PATIENCE, Merge, Place

TOPIC, ALL = "orders", 1 << 40


def log_of(partition: int, times: list[int | None]) -> list[Message]:
    return [Message(TOPIC, partition, offset, None, b"{}", time) for offset, time in enumerate(times)]


def expecting(logs: list[list[Message]]) -> tuple[Merge, dict[Place, int]]:
    merge = Merge()
    merge.begin({(TOPIC, partition): 0 for partition in range(len(logs))}, 0.0)
    return merge, {(TOPIC, partition): len(log) for partition, log in enumerate(logs)}


def merged(logs: list[list[Message]], fetches: Any, count: int = ALL) -> list[Message]:
    """Fetch from one partition after another, and return what is handed on."""
    merge, ends = expecting(logs)
    found: list[Message] = []
    rest = [list(log) for log in logs]
    while any(rest):
        partition = fetches(rest)
        for _ in range(1 + partition % 3):
            if rest[partition]:
                assert merge.add(rest[partition].pop(0), 0.0) > 0
        found += merge.take(ends, 0.0, count, ALL)
    while more := merge.take(ends, 0.0, count, ALL):
        found += more
    return found


TIMES = st.lists(st.lists(st.integers(0, 50), max_size=20), min_size=1, max_size=4)


@given(TIMES, st.data(), st.sampled_from([1, 3, ALL]))
def test_a_backlog_comes_in_the_order_of_time_however_it_is_fetched(
    times: list[list[int]], data: st.DataObject, count: int
) -> None:
    logs = [log_of(partition, sorted(some)) for partition, some in enumerate(times)]
    fetches = lambda rest: data.draw(st.sampled_from([p for p, some in enumerate(rest) if some]))  # noqa: E731
    found = merged(logs, fetches, count)
    # One offset before the end may be the marker of a transaction, so the last message of a log may come too late.
    known = [one for one in found if one.offset < len(logs[one.partition]) - 1]
    assert all(before.timestamp <= after.timestamp for before, after in pairwise(known))  # type: ignore[operator]
    assert sorted((one.partition, one.offset) for one in found) == sorted(
        (one.partition, one.offset) for log in logs for one in log
    )


@given(st.lists(st.lists(st.none() | st.integers(0, 50), max_size=20), min_size=1, max_size=4), st.data())
def test_whatever_the_timestamps_the_order_of_a_partition_stays(
    times: list[list[int | None]], data: st.DataObject
) -> None:
    logs = [log_of(partition, some) for partition, some in enumerate(times)]
    fetches = lambda rest: data.draw(st.sampled_from([p for p, some in enumerate(rest) if some]))  # noqa: E731
    found = merged(logs, fetches)
    for partition, log in enumerate(logs):
        assert [one for one in found if one.partition == partition] == log


def test_a_partition_that_sends_nothing_is_waited_for_and_not_for_ever() -> None:
    logs = [log_of(0, [10, 20, 30]), log_of(1, [1, 2, 3])]
    merge, ends = expecting(logs)
    for message in logs[0]:
        merge.add(message, 1.0)
    assert merge.take(ends, PATIENCE - 0.1, ALL, ALL) == []
    assert merge.take(ends, PATIENCE + 0.1, ALL, ALL) == logs[0]


def test_a_partition_at_its_end_is_not_waited_for() -> None:
    """Aborted messages are at the end of this log: only the broker's word tells that nothing follows."""
    logs = [log_of(0, [10]), log_of(1, [])]
    merge, ends = expecting(logs)
    ends[TOPIC, 1] = 40
    merge.add(logs[0][0], 0.0)
    assert merge.take(ends, 0.0, ALL, ALL) == []
    merge.reach_end((TOPIC, 1))
    assert merge.take(ends, 0.0, ALL, ALL) == logs[0]


def test_what_waits_is_bounded_and_a_paused_partition_keeps_the_order() -> None:
    full = log_of(0, [*range(LEAST_AHEAD_BYTES // 20)])
    merge = Merge()
    places = {(TOPIC, partition): 0 for partition in range(40)}
    merge.begin(places, 0.0)
    ends = dict.fromkeys(places, len(full))
    for partition in range(2, 40):
        merge.reach_end((TOPIC, partition))
    taken = 0
    while not (turn := merge.turn(0.0))[0]:
        merge.add(full[taken], 0.0)
        taken += 1
    assert turn == ([(TOPIC, 0)], []) and LEAST_AHEAD_BYTES / 300 < taken < LEAST_AHEAD_BYTES / 100
    # However long it is paused, nothing of the other may pass that is later than what comes next.
    assert merge.add(Message(TOPIC, 1, 0, None, b"{}", 10 * len(full)), 10 * PATIENCE) > 0
    merge.reach_end((TOPIC, 1))
    assert merge.take(ends, 10 * PATIENCE, ALL, ALL) == full[:taken]
    assert merge.turn(10 * PATIENCE) == ([], [(TOPIC, 0)])
    assert merge.take(ends, 11 * PATIENCE - 0.1, ALL, ALL) == []


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 5), st.integers(1, 1_500))
def test_a_part_has_no_more_messages_and_bytes_than_asked_for(times: list[int], count: int, size: int) -> None:
    logs = [log_of(0, sorted(times)), log_of(1, sorted(times))]
    merge, ends = expecting(logs)
    for log in logs:
        for message in log:
            merge.add(message, 0.0)
    found: list[Message] = []
    while part := merge.take(ends, 0.0, count, size):
        assert len(part) <= count and (len(part) == 1 or sum(one.size for one in part) <= size)
        found += part
    assert found == sorted([*logs[0], *logs[1]], key=lambda one: one.timestamp or 0)


def test_messages_that_are_fetched_again_or_not_expected_are_left_out() -> None:
    log = log_of(0, [1, 2])
    merge, ends = expecting([log])
    assert merge.add(log[1], 0.0) > 0
    assert merge.add(log[0], 0.0) == merge.add(log[1], 0.0) == merge.add(log_of(5, [1])[0], 0.0) == 0
    assert merge.reach_end((TOPIC, 0)) == 2 and merge.reach_end((TOPIC, 5)) is None
    assert merge.take(ends, 0.0, ALL, ALL) == log[1:]
