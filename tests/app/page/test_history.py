"""Laws of what is kept: bounded, a function of what came, whole at the end and exact in its means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.page.history import Bins, Thinned


@given(st.integers(0, 3_000), st.integers(1, 40), st.integers(1, 40))
def test_what_is_kept_is_bounded_in_order_and_ends_with_the_newest(count: int, older: int, newest: int) -> None:
    kept = Thinned[int](older, newest)
    for item in range(count):
        kept.add(item)
        assert len(kept) <= older + newest
    items = list(kept)
    assert items == sorted(set(items)) and kept.total == count
    assert items[-newest:] == list(range(max(0, count - newest), count))
    if count:
        assert items[0] == 0
    aged = items[: len(items) - min(count, newest)]
    assert aged == [item for item in range(count - min(count, newest)) if item % kept.stride == 0]


@given(st.integers(1, 500), st.integers(0, 500))
def test_since_gives_all_that_was_added_or_says_that_it_cannot(count: int, position: int) -> None:
    kept = Thinned[int](10, 20)
    for item in range(count):
        kept.add(item)
    found = kept.since(position)
    assert found == (list(range(position, count)) if position >= max(0, count - 20) else None)


def test_a_bound_that_is_lowered_holds_from_the_next_item_on() -> None:
    kept = Thinned[int](100, 100)
    for item in range(200):
        kept.add(item)
    kept.limit(5, 5)
    kept.add(200)
    assert len(kept) <= 10 and list(kept)[-5:] == [196, 197, 198, 199, 200]


def test_nothing_kept_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        Thinned[int](0, 1)


@given(st.lists(st.tuples(st.integers(1, 9), st.one_of(st.none(), st.integers(-5, 5))), max_size=400))
def test_means_are_those_of_the_events_in_each_bin(events: list[tuple[int, int | None]]) -> None:
    bins = Bins(width=4, most=6)
    values: dict[int, int | None] = {}
    seq = -1
    for step, value in events:
        seq += step
        values[seq] = value
        bins.add(seq, value, None if value is None else float(seq))
        assert len(bins) <= 6
    assert sum(one.last - one.first + 1 for one in bins) <= max(0, seq + 1)
    for one in bins:
        inside = {at: value for at, value in values.items() if at // bins.width == one.index}
        numbers = [value for value in inside.values() if value is not None]
        assert (one.first, one.last) == (min(inside), max(inside))
        assert (one.count, one.total) == (len(numbers), sum(numbers))
        assert one.note == max((at for at, value in inside.items() if value is not None), default=None)
    assert sum(one.count for one in bins) == sum(value is not None for value in values.values())


def test_an_event_that_was_counted_is_not_counted_again() -> None:
    bins = Bins(width=10, most=5)
    for seq in (0, 1, 1, 0, 2):
        bins.add(seq, 1.0)
    assert [one.count for one in bins] == [3]


def test_a_bin_with_few_events_is_not_shown_beside_full_ones() -> None:
    bins = Bins(width=10, most=5)
    bins.add(0, 1.0)
    assert len(bins.shown()) == 1
    for seq in range(1, 12):
        bins.add(seq, 0.0)
    assert [one.last for one in bins.shown()] == [9]
    for seq in range(12, 16):
        bins.add(seq, 0.0)
    assert [one.last for one in bins.shown()] == [9, 15]
