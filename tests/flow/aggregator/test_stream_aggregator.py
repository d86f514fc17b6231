"""The aggregator restores the order: however blocks are cut, doubled or reordered, the records are the same."""

from dataclasses import replace
from itertools import pairwise

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.flow.aggregator import stream as module
from glasstream.flow.aggregator.partition import PartitionAggregator
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream_topics import effects, importance
from glasstream_topics.contributions import Contributions, flush_item
from glasstream_topics.errors import FrameError
from tests.support.contributions import ROWS, START, block
from tests.support.examples import examples

SETTINGS = load(
    assignments=[
        "explain.methods=ipfi,isage,ipdp", "explain.alpha=0.1", f"explain.reservoir={START}", "publish.every=10",
        "ipdp.ice=2", "drift.watch=none",
    ]
)  # fmt: skip


def by_cuts(cuts: list[int]) -> list[Contributions]:
    return [block(a, b) for a, b in pairwise(cuts)]


def published(aggregator: PartitionAggregator) -> list[bytes]:
    return [record.value for record in aggregator.take_records()]


def aggregated(blocks: list[Contributions]) -> list[bytes]:
    aggregator = PartitionAggregator(0, SETTINGS)
    for offset, one in enumerate(blocks):
        aggregator.offer(one, offset)
    assert aggregator.streams["s"].oldest_waiting is None
    return published(aggregator)


def estimates(records: list[bytes], method: str = "ipfi") -> list[importance.Importance]:
    found = [importance.decode(record) for record in records if b'"method"' in record]
    return [one for one in found if one.method == method]


def without_version(records: list[bytes]) -> list[dict]:
    """Return the fields that do not depend on the versions of blocks, which are invented here."""
    return [{**orjson.loads(record), "model_version": 0, "lag": 0} for record in records]


QUIET = aggregated([block(row, row + 1) for row in range(START, ROWS)])

cut_points = st.lists(st.integers(START + 1, ROWS - 1), max_size=8, unique=True).map(
    lambda inner: [START, *sorted(inner), ROWS]
)


def test_records_come_when_row_plus_one_is_a_multiple() -> None:
    for method in ("ipfi", "isage"):
        assert [one.row for one in estimates(QUIET, method)] == [9, 19, 29, 39, 49, 59]
    first = estimates(QUIET)[0]
    assert first.n == 5 and first.coverage == 1.0 and first.seq == 18
    assert list(first.features) == ["a", "b", "c"]


def test_every_method_has_its_records_of_a_row_side_by_side() -> None:
    at_9 = [record for record in map(orjson.loads, QUIET) if record["row"] == 9]
    assert [record.get("method", record.get("feature")) for record in at_9] == ["ipfi", "isage", "c", "a", "b"]
    categories = effects.decode(QUIET[3])
    assert (categories.kind, categories.grid, categories.output) == ("categorical", ["one", "zero"], "yes")
    assert categories.ice is not None and len(categories.ice) == 2


def test_what_isage_publishes_adds_up() -> None:
    for one in estimates(QUIET, "isage"):
        assert one.total is not None and one.marginal_loss is not None and one.model_loss is not None
        assert one.total == one.marginal_loss - one.model_loss
        assert abs(sum(feature.value for feature in one.features.values()) - one.total) < 1e-9


@given(cut_points, st.permutations(range(9)), st.lists(st.integers(0, 8), max_size=4))
@examples(150)
def test_cuts_order_and_doubles_change_nothing(cuts: list[int], order: list[int], doubles: list[int]) -> None:
    blocks = by_cuts(cuts)
    shuffled = [blocks[i] for i in order if i < len(blocks)] + [blocks[i] for i in doubles if i < len(blocks)]
    assert without_version(aggregated(shuffled)) == without_version(QUIET)


@given(cut_points, cut_points, st.randoms(use_true_random=False))
@examples(150)
def test_two_differently_cut_copies_mixed_change_nothing(one: list[int], other: list[int], random: object) -> None:
    blocks = by_cuts(one) + by_cuts(other)
    random.shuffle(blocks)  # type: ignore[attr-defined]
    assert without_version(aggregated(blocks)) == without_version(QUIET)


@given(cut_points, st.permutations(range(9)), st.integers(0, 9))
@examples(150)
def test_a_crash_anywhere_changes_nothing(cuts: list[int], order: list[int], crash_after: int) -> None:
    """State and offset are written, the process dies, a successor reads on from that offset."""
    blocks = by_cuts(cuts)
    log = [blocks[i] for i in order if i < len(blocks)]
    first = PartitionAggregator(0, SETTINGS)
    for offset, one in enumerate(log[:crash_after]):
        first.offer(one, offset)
    records = published(first)
    second = PartitionAggregator(0, SETTINGS, next_offset=first.offset)
    for name, stream in first.streams.items():
        meta, arrays = stream.state()
        second.streams[name] = StreamAggregator.restore(name, SETTINGS, meta, arrays)
    for offset in range(first.offset, len(log)):
        second.offer(log[offset], offset)
    records += published(second)
    assert without_version(records) == without_version(QUIET)


def test_a_failed_block_is_counted_and_the_rest_goes_on() -> None:
    records = estimates(aggregated([block(START, 20), block(20, 30, kind="failed"), block(30, ROWS)]))
    assert records[-1].n == ROWS - START - 10
    assert records[-1].coverage == (ROWS - START - 10) / (ROWS - START)
    at_29 = next(one for one in records if one.row == 29)
    assert at_29.n == 15 and at_29.features == records[1].features


def test_nothing_is_published_while_nothing_was_explained() -> None:
    assert (
        aggregated([block(START, 20, kind="failed"), flush_item(stream="s", epoch=0, partition=0, first_row=20)]) == []
    )


def test_a_flush_mark_publishes_once_in_whatever_order_it_comes() -> None:
    flush = flush_item(stream="s", epoch=0, partition=0, first_row=33)
    before, after = block(START, 33), block(33, ROWS, flush_before=True)
    expected = aggregated([before, flush, after])
    assert [one.row for one in estimates(expected)] == [9, 19, 29, 32, 39, 49, 59]
    for order in (
        [before, after],
        [before, after, flush],
        [after, before, flush],
        [flush, after, before],
        [after, flush, before, flush],
        [before, flush, flush, after],
    ):
        assert aggregated(order) == expected


def test_a_flush_mark_right_after_a_record_publishes_nothing_more() -> None:
    flush = flush_item(stream="s", epoch=0, partition=0, first_row=20)
    assert [one.row for one in estimates(aggregated([block(START, 20), flush, flush]))] == [9, 19]


def test_an_earlier_epoch_is_over_and_a_later_one_begins_anew() -> None:
    aggregator = PartitionAggregator(0, msgspec.structs.replace(SETTINGS, epoch=1))
    aggregator.offer(replace(block(START, START + 40), epoch=0), 0)
    assert aggregator.streams == {} and aggregator.offset == 1
    aggregator.offer(replace(block(START, START + 40), epoch=1), 1)
    aggregator.offer(replace(block(START, START + 30), epoch=2), 2)
    aggregator.offer(replace(block(START + 40, START + 60), epoch=1), 3)
    assert aggregator.streams["s"].next_row == START + 30
    epochs = [
        orjson.loads(record.value)["epoch"] for record in aggregator.take_records() if record.topic == "importance"
    ]
    alone = StreamAggregator.empty("s", msgspec.structs.replace(SETTINGS, epoch=1))
    alone.offer(replace(block(START, START + 40), epoch=1), 1)
    assert epochs.count(1) == sum(record.topic == "importance" for record in alone.records) > 0
    assert epochs == sorted(epochs) and epochs.count(2) > 0


@given(st.sampled_from(["kinds", "names"]), st.permutations(range(4)), st.integers(1, 3))
def test_a_block_of_other_features_is_not_used_and_changes_nothing(what: str, order: list[int], place: int) -> None:
    blocks = by_cuts([START, 17, 18, 30, ROWS])
    forged = replace(block(20, 25, kind="failed"), reason="forged")
    other = {"kinds": [2, 2, 0], "names": ["c", "z", "b"]}
    forged = replace(forged, **{what: other[what]})
    aggregator, refused = PartitionAggregator(0, SETTINGS), 0
    for offset, one in enumerate(order):
        if offset == place:
            try:
                aggregator.offer(forged, offset)
            except FrameError as error:
                assert "expected feature" in str(error)
                refused += 1
        aggregator.offer(blocks[one], offset)
    assert published(aggregator) == aggregated(blocks)
    assert refused + aggregator.dropped == 1, "refused if there are earlier rows, or else when they are there"
    assert aggregator.waiting_bytes == 0
    again = StreamAggregator.restore("s", SETTINGS, *aggregator.streams["s"].state())
    with pytest.raises(FrameError):
        again.offer(forged, 9)


def test_a_stream_is_not_explained_while_no_row_or_none_of_the_newest_could_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOTHING", 20)
    stream = StreamAggregator.empty("s", SETTINGS)
    assert stream.unexplained() is None
    states = []
    for row in range(START, ROWS):
        failed = row == START or 10 <= row < 40
        one = block(row, row + 1, kind="failed" if failed else "ok")
        stream.offer(replace(one, reason=f"row {row}") if failed else one, row)
        states.append(stream.explains_nothing)
    expected = [row == START or 29 <= row < 40 for row in range(START, ROWS)]
    assert states == expected
    said = f"stream 's': 31 of {ROWS - START} rows could not be explained; the first because: row {START}"
    assert stream.unexplained() == said
