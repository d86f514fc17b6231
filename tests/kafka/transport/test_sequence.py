"""The watch over offsets: nothing is used twice, nothing is skipped that was delivered once."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from glasstream.kafka.transport.sequence import Sequence, Verdict


@given(
    log=st.sets(st.integers(0, 60), min_size=1),
    start=st.integers(0, 60),
    data=st.data(),
)
def test_whatever_is_lost_or_repeated_on_the_way_every_record_is_used_once_in_order(
    log: set[int], start: int, data: st.DataObject
) -> None:
    """A log with holes, a way that loses and repeats, and a reader that seeks back when it is told to."""
    records = sorted(offset for offset in log if offset >= start)
    watch = Sequence(start)
    used: list[int] = []
    position, follows = 0, start  # where the consumer is in the log, and what it handed out last
    for step in itertools.count():
        if position == len(records):
            if watch.next_offset > max(records, default=-1):
                break
            # The tail was lost: the stage sees that more was handed out than came, and seeks back.
            position, follows = _seek(records, watch.next_offset)
            continue
        offset = records[position]
        if step > 200 or data.draw(st.integers(0, 3), label="0 is a loss"):
            verdict = watch.judge(offset, follows)
            if verdict is Verdict.NEXT:
                used.append(offset)
            if verdict is Verdict.MISSING and (step > 200 or data.draw(st.booleans(), label="the seek comes now")):
                position, follows = _seek(records, watch.next_offset)
                continue
        position, follows = position + 1, offset + 1
    assert used == records


def _seek(records: list[int], offset: int) -> tuple[int, int]:
    return sum(record < offset for record in records), offset


def test_a_hole_that_the_client_has_read_is_accepted() -> None:
    watch = Sequence(0)
    assert watch.judge(last=2, follows=0) is Verdict.NEXT
    assert watch.judge(last=7, follows=3) is Verdict.NEXT
    assert (watch.next_offset, watch.lost) == (8, 0)


def test_a_batch_that_begins_before_the_next_message_and_ends_after_it_is_used() -> None:
    watch = Sequence(5)
    assert watch.judge(last=4, follows=0) is Verdict.SEEN
    assert watch.judge(last=7, follows=0) is Verdict.NEXT
    assert watch.judge(last=9, follows=None) is Verdict.NEXT


def test_a_hole_that_was_made_on_the_way_is_not() -> None:
    watch = Sequence(0)
    assert watch.judge(last=5, follows=5) is Verdict.MISSING
    assert watch.judge(last=6, follows=6) is Verdict.MISSING
    assert (watch.next_offset, watch.lost) == (0, 2)
    assert watch.judge(last=0, follows=0) is Verdict.NEXT
