"""The fold restores the order: however blocks are cut, doubled, reordered or crashed, the records are the same."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.fold.partition import PartitionFold
from pipeline.fold.settings import FoldSettings
from pipeline.fold.stream import StreamFold
from topics import importance
from topics.contributions import Contributions, flush_item

START, ROWS = 5, 60
SETTINGS = FoldSettings(epoch=0, alpha=0.1, sampling="geometric", start=START, every=10)
VALUES = np.random.Generator(np.random.PCG64(7)).normal(size=(ROWS, 3))


def block(first: int, end: int, *, kind: str = "ok", flush_before: bool = False) -> Contributions:
    return Contributions(
        stream="s",
        epoch=0,
        partition=0,
        first_row=first,
        version=first,
        seqs=np.arange(first, end) * 2,
        kind=kind,
        names=["c", "a", "b"],
        values={"ipfi": VALUES[first:end]} if kind == "ok" else {},
        loss="zero_one",
        flush_before=flush_before,
    )


def by_cuts(cuts: list[int]) -> list[Contributions]:
    return [block(a, b) for a, b in pairwise(cuts)]


def folded(blocks: list[Contributions]) -> list[bytes]:
    fold = PartitionFold(0, SETTINGS)
    for offset, one in enumerate(blocks):
        fold.offer(one, offset)
    records = [record for _, record in fold.take_records()]
    assert fold.streams["s"].oldest_waiting is None
    return records


def without_version(records: list[bytes]) -> list[tuple]:
    """What does not depend on the (here made up) versions of blocks."""
    found = [importance.decode(record) for record in records]
    return [(one.row, one.seq, one.n, one.coverage, one.features) for one in found]


QUIET = folded([block(row, row + 1) for row in range(START, ROWS)])

cut_points = st.lists(st.integers(START + 1, ROWS - 1), max_size=8, unique=True).map(
    lambda inner: [START, *sorted(inner), ROWS]
)


def test_records_come_when_row_plus_one_is_a_multiple() -> None:
    assert [importance.decode(record).row for record in QUIET] == [9, 19, 29, 39, 49, 59]
    first = importance.decode(QUIET[0])
    assert first.n == 5 and first.coverage == 1.0 and first.seq == 18
    assert list(first.features) == ["a", "b", "c"]


@given(cut_points, st.permutations(range(9)), st.lists(st.integers(0, 8), max_size=4))
@settings(max_examples=150)
def test_cuts_order_and_doubles_change_nothing(cuts: list[int], order: list[int], doubles: list[int]) -> None:
    blocks = by_cuts(cuts)
    shuffled = [blocks[i] for i in order if i < len(blocks)] + [blocks[i] for i in doubles if i < len(blocks)]
    assert without_version(folded(shuffled)) == without_version(QUIET)


@given(cut_points, cut_points, st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_two_differently_cut_copies_mixed_change_nothing(one: list[int], other: list[int], random: object) -> None:
    blocks = by_cuts(one) + by_cuts(other)
    random.shuffle(blocks)  # type: ignore[attr-defined]
    assert without_version(folded(blocks)) == without_version(QUIET)


@given(cut_points, st.permutations(range(9)), st.integers(0, 9))
@settings(max_examples=150)
def test_a_crash_anywhere_changes_nothing(cuts: list[int], order: list[int], crash_after: int) -> None:
    """State and offset are written, the process dies, a successor reads on from that offset."""
    blocks = by_cuts(cuts)
    log = [blocks[i] for i in order if i < len(blocks)]
    first = PartitionFold(0, SETTINGS)
    for offset, one in enumerate(log[:crash_after]):
        first.offer(one, offset)
    records = [record for _, record in first.take_records()]
    second = PartitionFold(0, SETTINGS, next_offset=first.offset)
    for name, stream in first.streams.items():
        meta, arrays = stream.state()
        second.streams[name] = StreamFold.restore(name, SETTINGS, meta, arrays)
    for offset in range(first.offset, len(log)):
        second.offer(log[offset], offset)
    records += [record for _, record in second.take_records()]
    assert without_version(records) == without_version(QUIET)


def test_a_failed_block_is_counted_and_the_rest_goes_on() -> None:
    records = folded([block(START, 20), block(20, 30, kind="failed"), block(30, ROWS)])
    last = importance.decode(records[-1])
    assert last.n == ROWS - START - 10
    assert last.coverage == (ROWS - START - 10) / (ROWS - START)
    at_29 = next(one for one in map(importance.decode, records) if one.row == 29)
    assert at_29.n == 15 and at_29.features == importance.decode(records[1]).features


def test_nothing_is_published_while_nothing_was_explained() -> None:
    assert folded([block(START, 20, kind="failed"), flush_item(stream="s", epoch=0, partition=0, first_row=20)]) == []


def test_a_flush_mark_publishes_once_in_whatever_order_it_comes() -> None:
    flush = flush_item(stream="s", epoch=0, partition=0, first_row=33)
    before, after = block(START, 33), block(33, ROWS, flush_before=True)
    expected = folded([before, flush, after])
    assert [importance.decode(record).row for record in expected] == [9, 19, 29, 32, 39, 49, 59]
    for order in (
        [before, after],
        [before, after, flush],
        [after, before, flush],
        [flush, after, before],
        [after, flush, before, flush],
        [before, flush, flush, after],
    ):
        assert folded(order) == expected


def test_a_flush_mark_right_after_a_record_publishes_nothing_more() -> None:
    flush = flush_item(stream="s", epoch=0, partition=0, first_row=20)
    assert [importance.decode(r).row for r in folded([block(START, 20), flush, flush])] == [9, 19]


def test_another_epoch_is_not_folded() -> None:
    fold = PartitionFold(0, SETTINGS)
    other = flush_item(stream="s", epoch=1, partition=0, first_row=START)
    fold.offer(other, 0)
    assert fold.streams == {} and fold.offset == 1
