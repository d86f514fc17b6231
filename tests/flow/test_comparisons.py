"""Comparisons of two streams: the rows do not depend on when records become readable, and no event is lost or wrong."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.base.errors import InputError, LostInputError
from glasstream.detect.comparison import Comparison
from glasstream.flow import comparisons as flow
from glasstream.flow.comparisons import Element, Measure, Pairs, Records, Row
from glasstream_topics import predictions
from glasstream_topics.comparisons import Other
from glasstream_topics.events import Event
from glasstream_topics.labels import Label
from glasstream_topics.predictions import Prediction
from tests.support.examples import examples
from tests.support.golden_records import checked_in

GOLDEN = predictions.decode(checked_in("predictions.v1.json"))
BRIER = Measure("brier", 2.0)
LABELS = st.sampled_from(["now", "late", "never"])


def chance(stream: str, name: str) -> float:
    """Return the probability of the right label, which is always `up`."""
    return np.random.default_rng([len(stream), int(name)]).uniform(0.3, 0.9)


def share(stream: str, name: str) -> float:
    return (1.0 - chance(stream, name)) ** 2


def answers(stream: str, names: Sequence[str], labelled: Sequence[bool], **changes: Any) -> list[Prediction]:
    """Return predictions, with labels for some of them."""
    found = []
    for seq, (name, known) in enumerate(zip(names, labelled, strict=True)):
        p = chance(stream, name)
        fields: dict[str, Any] = {
            "stream": stream,
            "seq": seq,
            "id": name,
            "prediction": "up" if p > 0.5 else "down",
            "probabilities": {"up": p, "down": 1.0 - p},
            "target": "up" if known else None,
            "loss": 2.0 * (1.0 - p) ** 2 if known else None,
            "loss_name": "brier",
        }
        found.append(msgspec.structs.replace(GOLDEN, **(fields | changes)))
    return found


def rows(
    first: Sequence[Prediction],
    second: Sequence[Prediction],
    log: Sequence[Element] = (),
    measure: Measure = BRIER,
) -> tuple[list[Row], int]:
    pairs = Pairs(iter(first), iter(second), lambda: iter(log), measure)
    return list(pairs), pairs.left_out


def event(name: str) -> Element:
    return name, Event(x={}, id=name)


def label(name: str) -> Element:
    return name, Label(id=name, y="up")


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Prediction], list[Prediction], list[Element]]:
    """Two streams that lack some events of each other, with labels at once, late or never, and rejected events."""
    kinds = draw(st.lists(LABELS, min_size=1, max_size=30))
    here, there = (draw(st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds))) for _ in range(2))
    names = [str(number) for number in range(len(kinds))]
    order = draw(st.permutations([name for name, kind in zip(names, kinds, strict=True) if kind == "late"]))
    log = [event(name) for name in names]
    for name in order:
        at = next(place for place, one in enumerate(log) if one == event(name))
        log.insert(draw(st.integers(at + 1, len(log))), label(name))
    first = [name for name, has in zip(names, here, strict=True) if has]
    second = [name for name, has in zip(names, there, strict=True) if has]
    now = [name for name, kind in zip(names, kinds, strict=True) if kind == "now"]
    of = [
        answers(*one) for one in (("a", first, [x in now for x in first]), ("bb", second, [x in now for x in second]))
    ]
    return of[0], of[1], log


@given(streams())
@examples(200)
def test_every_event_of_both_streams_with_a_label_is_a_row_once(
    given: tuple[list[Prediction], list[Prediction], list[Element]],
) -> None:
    first, second, log = given
    common = {one.id for one in first} & {one.id for one in second}
    labelled = {one.id for one in first if one.target} | {one[0] for one in log if one and isinstance(one[1], Label)}
    # Where a stream ends, the other one may not have been read so far: the rest of both is empty here.
    end = [f"{1_000 + number}" for number in range(40)]
    more = [answers(stream, end, [True] * len(end)) for stream in ("a", "bb")]
    found, _ = rows([*first, *_numbered(more[0], first)], [*second, *more[1]], [*log, *map(event, end)])
    by_seq = {one.seq: one.id for one in first}
    of_these = [one for one in found if one.seq in by_seq]
    assert sorted(by_seq[one.seq] for one in of_these) == sorted(common & labelled)
    for one in of_these:
        name = by_seq[one.seq]
        assert (one.first, one.second) == pytest.approx((share("a", name), share("bb", name)))


def _numbered(more: list[Prediction], first: list[Prediction]) -> list[Prediction]:
    return [msgspec.structs.replace(one, seq=len(first) + number) for number, one in enumerate(more)]


@given(streams(), st.randoms(use_true_random=False))
@examples(200)
def test_rows_do_not_depend_on_when_records_become_readable(
    given: tuple[list[Prediction], list[Prediction], list[Element]], random: Any
) -> None:
    """Whatever is readable so far, the rows are the first ones of the final rows."""
    first, second, log = given
    final, _ = rows(first, second, log)
    for _ in range(5):
        parts = [one[: random.randint(0, len(one))] for one in (first, second)]
        known = log[: random.randint(0, len(log))]
        try:
            found, _ = rows(*parts, known)
        except LostInputError:
            continue  # an event that was predicted is on `events`
        assert found == final[: len(found)]


def test_labels_keep_their_order_and_the_first_one_counts() -> None:
    names = ["0", "1", "2"]
    none = [False] * 3
    first, second = answers("a", names, none), answers("bb", names, none)
    late = [label("2"), ("2", Label(id="2", y="down")), label("0"), ("1", Label(id="1", y=None)), label("1")]
    found, left_out = rows(first, second, [event("9"), *map(event, names), None, *late])
    assert ([one.seq for one in found], left_out) == ([2, 0, 1], 0)


def test_a_label_that_comes_before_the_second_prediction_counts() -> None:
    none = [False] * 4
    first, second = answers("a", ["0", "1", "2", "3"], none), answers("bb", ["1", "0", "2", "3"], none)
    log = [event("0"), label("0"), event("1"), label("1"), event("2"), event("3"), label("3")]
    found, left_out = rows(first, second, log)
    assert ([one.seq for one in found], left_out) == ([1, 0, 3], 0)


def test_the_label_of_either_stream_counts_and_two_labels_must_agree() -> None:
    found, _ = rows(answers("a", ["0"], [False]), answers("bb", ["0"], [True]), [event("0")])
    assert [one.seq for one in found] == [0]
    with pytest.raises(InputError, match="expected the same label for event '0' in both streams, got 'up' and 'down'"):
        rows(answers("a", ["0"], [True]), answers("bb", ["0"], [True], target="down"))


def test_events_without_a_prediction_and_ids_that_come_again_are_left_out() -> None:
    first = answers("a", ["0", "0", "1", "2"], [True] * 4)
    second = answers("bb", ["9", "0", "1", "2"], [True] * 4)
    second[2] = msgspec.structs.replace(second[2], prediction=None)
    found, left_out = rows(first, second)
    assert [one.seq for one in found] == [0, 3]
    assert left_out == 2  # the second "0", and "1"


def test_streams_may_lack_many_events_but_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "MOST_APART", 50)
    names = [str(number) for number in range(200)]
    whole = answers("a", names, [True] * 200)
    gap = [*names[:20], *names[60:]]
    found, left_out = rows(whole, answers("bb", gap, [True] * len(gap)))
    assert [one.seq for one in found] == [*range(20), *range(60, 200)]
    assert left_out == 40
    swapped, _ = rows(answers("a", gap, [True] * len(gap)), answers("bb", names, [True] * 200))
    assert len(swapped) == 160
    with pytest.raises(InputError, match=r"expected an event that both streams have, got none among the last 50"):
        rows(whole, answers("bb", [str(number) for number in range(500, 700)], [True] * 200))


def test_what_waits_for_a_label_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "MOST_WAITING", 10)
    names = [str(number) for number in range(30)]
    late = [*map(event, names), *map(label, names)]
    found, left_out = rows(answers("a", names, [False] * 30), answers("bb", names, [False] * 30), late)
    assert ([one.seq for one in found], left_out) == ([*range(20, 30)], 20)


def test_labels_that_have_expired_end_the_comparison() -> None:
    with pytest.raises(LostInputError, match="expected event '0' on the topic `events`"):
        rows(answers("a", ["0"], [False]), answers("bb", ["0"], [False]), [event("1"), None, event("0")])


def test_losses_of_numbers_and_classes() -> None:
    numbers = [
        answers(stream, ["0", "1"], [True, True], prediction=value, target=3.0, probabilities=None, loss=None)
        for stream, value in (("a", 1.0), ("bb", 9.0))
    ]
    found, _ = rows(*numbers, measure=Measure("absolute", 4.0))
    assert [(one.first, one.second) for one in found] == [(0.5, 1.0)] * 2
    with pytest.raises(InputError, match=r"expected two classifications, got the number 1\.0 and the label 3\.0"):
        rows(*numbers)
    classes = [answers(stream, ["0"], [True]) for stream in ("a", "bb")]
    with pytest.raises(InputError, match="expected two regressions, got the class"):
        rows(*classes, measure=Measure("absolute", 4.0))
    found, _ = rows(*classes, measure=Measure("zero_one", 1.0))
    assert (found[0].first, found[0].second) == tuple(float(chance(one, "0") <= 0.5) for one in ("a", "bb"))
    cut = [msgspec.structs.replace(one[0], others=predictions.Others(2, 0.1), loss=None) for one in classes]
    with pytest.raises(InputError, match="expected the probabilities of all classes"):
        rows([cut[0]], [cut[1]])


def test_records_are_statements_about_all_rows_so_far() -> None:
    names = [str(number) for number in range(2_350)]
    first, second = (answers(stream, names, [True] * len(names)) for stream in ("a", "bb"))
    second = [
        msgspec.structs.replace(one, loss=one.loss and one.loss * (1.0 if one.seq < 800 else 0.5)) for one in second
    ]

    def pairs() -> Pairs:
        return Pairs(iter(first), iter(second), lambda: iter(()), BRIER)

    other = Other("p.", "bb", 2, 5)
    found = list(Records(pairs(), BRIER, 1, "a", 3, other))
    assert [one.rows for one in found] == [*range(100, 1_001, 100), 2_000]
    every = list(pairs())
    for one in found:
        comparison = Comparison(flow.ALPHA)
        for row in every[: one.rows]:
            comparison.add(np.array([row.first]), np.array([row.second]))
        standing = comparison.standing()
        assert (one.own_loss, one.other_loss, one.difference) == (
            2.0 * standing.first,
            2.0 * standing.second,
            2.0 * standing.difference,
        )
        assert (one.better, one.since_row) == ((None, "stream", "other")[standing.better], standing.since)
        assert one.since_seq == (None if standing.since is None else every[standing.since - 1].seq)
        assert (one.low, one.high, one.visible) == (2 * standing.low, 2 * standing.high, 2 * standing.visible)
        assert (one.epoch, one.stream, one.start, one.other, one.seq) == (1, "a", 3, other, one.rows - 1)
    assert found[-1].better == "other" and found[-1].since_row is not None


def test_a_record_is_due_as_soon_as_its_last_row_has_been_read() -> None:
    names = [str(number) for number in range(100)]

    def endless(stream: str) -> Iterator[Prediction]:
        yield from answers(stream, names, [True] * len(names))
        pytest.fail("a record waited for another event")

    pairs = Pairs(endless("a"), endless("bb"), lambda: iter(()), BRIER)
    assert len(list(islice(Records(pairs, BRIER, 0, "a", 0, Other("p.", "bb", 0, 0)), 1))) == 1
