"""Which event a label is of: the newest that waits under its id, within the window, once."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.events.admission import Admission
from glasstream.events.waiting import Joined, Waiting, size_of
from glasstream_topics.events_dead import Reason
from glasstream_topics.labels import Label
from tests.support.examples import examples

MOST = 2**30


class Word(str):
    """Data of a few bytes."""

    size = property(len)


def join(waiting: Waiting[Word], event_id: str | int, seqs: int, y: object = "a") -> object:
    """Return the waiting event of a label, or the reason why there is none."""
    found = waiting.join(Label(event_id, y), Admission(seq=seqs))
    return found.kept if isinstance(found, Joined) else found[0]


def test_a_label_finds_its_event_among_the_newest_and_no_further_back() -> None:
    for seqs, found in ((3, "x"), (7, "x"), (8, Reason.UNKNOWN_ID)):
        waiting: Waiting[Word] = Waiting(5, MOST)
        waiting.add("1", 2, Word("x"))
        assert join(waiting, 1, seqs) == found
        assert (waiting.waiting, waiting.joined, waiting.missed) == ((0, 1, 0) if found == "x" else (0, 0, 1))


def test_a_label_that_is_refused_leaves_its_event_waiting() -> None:
    waiting: Waiting[Word] = Waiting(5, MOST)
    waiting.add("1", 0, Word("x"))
    admission = Admission(seq=1, target_kind=str)
    assert waiting.join(Label("1", 3.0), admission)[0] is Reason.TARGET_KIND
    assert waiting.join(Label("1", "a"), admission) == Joined(0, "x", "a")


def test_a_label_without_an_event_decides_nothing_of_the_stream() -> None:
    admission = Admission()
    assert Waiting(5, MOST).join(Label("1", "a"), admission)[0] is Reason.UNKNOWN_ID
    assert (admission.task, admission.target_kind, admission.seq) == (None, None, 0)


def test_a_second_label_is_doubled_as_long_as_the_window_reaches() -> None:
    waiting: Waiting[Word] = Waiting(5, MOST)
    waiting.add("1", 0, Word("x"))
    assert join(waiting, "1", 1) == "x"
    assert join(waiting, "1", 5) is Reason.DOUBLED_LABEL
    assert join(waiting, "1", 6) is Reason.UNKNOWN_ID


def test_a_second_label_is_doubled_once_any_event_of_the_stream_has_waited() -> None:
    waiting: Waiting[Word] = Waiting(5, MOST)
    waiting.labelled("1", 0)
    assert join(waiting, "1", 1) is Reason.UNKNOWN_ID and not waiting.events
    waiting.add("2", 1, Word("x"))
    waiting.labelled("3", 2)
    assert join(waiting, "3", 3) is Reason.DOUBLED_LABEL


def test_of_two_events_under_one_id_the_newer_waits() -> None:
    waiting: Waiting[Word] = Waiting(5, MOST)
    waiting.add("1", 0, Word("older"))
    waiting.add("1", 1, Word("newer"))
    assert (waiting.waiting, waiting.missed) == (1, 1)
    assert join(waiting, "1", 2) == "newer"
    waiting.add("1", 3, Word("again"))
    assert join(waiting, "1", 4) == "again" and waiting.missed == 1
    waiting.add("2", 5, Word("waits"))
    waiting.labelled("2", 6)
    assert join(waiting, "2", 7) is Reason.DOUBLED_LABEL and waiting.missed == 2


def test_with_a_window_of_0_nothing_waits() -> None:
    waiting: Waiting[Word] = Waiting(0, MOST)
    waiting.add("1", 0, Word("x"))
    assert join(waiting, "1", 1) is Reason.UNKNOWN_ID and not waiting.events and not waiting.begun


@pytest.mark.parametrize("window", [1, 3, 20])
def test_it_is_what_a_look_at_the_whole_log_says_whenever_the_old_is_forgotten(window: int) -> None:
    """Against a plain reading of the rules, with `expire` called at random moments."""
    chance = random.Random(window)
    waiting: Waiting[Word] = Waiting(window, MOST)
    log: list[tuple[str, bool]] = []  # (id, labelled) by seq
    begun = 0
    joined = 0
    for _ in range(3_000):
        event_id = str(chance.randrange(12))
        act = chance.random()
        if act < 0.35:
            begun = begun or len(log) + 1
            waiting.add(event_id, len(log), Word(len(log)))
            log.append((event_id, False))
        elif act < 0.45:
            waiting.labelled(event_id, len(log))
            log.append((event_id, True))
        elif act < 0.55:
            waiting.expire(len(log))
        else:
            known = [seq for seq in range(max(0, len(log) - window, begun - 1), len(log)) if log[seq][0] == event_id]
            found = join(waiting, event_id, len(log))
            if not known or not begun:
                assert found is Reason.UNKNOWN_ID
            elif log[known[-1]][1]:
                assert found is Reason.DOUBLED_LABEL
            else:
                assert found == str(known[-1])
                log[known[-1]] = (event_id, True)
                joined += 1
        assert len(waiting.events) <= window
    assert waiting.joined == joined > 50
    assert waiting.waiting == sum(kept is not None for _, kept in waiting.events.values())


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["add", "labelled", "join", "expire"]), st.integers(0, 900))),
    st.integers(0, 3_000),
)
@examples(300)
def test_the_bytes_are_those_of_what_is_remembered_and_the_oldest_are_forgotten(
    steps: list[tuple[int, str, int]], most: int
) -> None:
    waiting: Waiting[Word] = Waiting(20, most)
    added: dict[str, int] = {}
    for seq, (number, act, size) in enumerate(steps):
        event_id = str(number)
        if act == "add":
            waiting.add(event_id, seq, Word("x" * size))
            added[event_id] = seq
        elif act == "labelled":
            waiting.labelled(event_id, seq)
            added[event_id] = seq
        elif act == "join":
            waiting.join(Label(event_id, "a"), Admission(seq=seq))
        else:
            waiting.expire(seq)
        assert waiting.bytes == sum(size_of(event_id, kept) for event_id, (_, kept) in waiting.events.items()) <= most
        assert waiting.waiting == sum(kept is not None for _, kept in waiting.events.values())
        seqs = [seq for seq, _ in waiting.events.values()]
        assert seqs == sorted(seqs)
    assert waiting.dropped <= waiting.missed
    resumed: Waiting[Word] = Waiting(20, most)
    for event_id, (seq, kept) in waiting.events.items():
        resumed.resume(event_id, seq, kept)
    assert (resumed.bytes, resumed.waiting, resumed.events) == (waiting.bytes, waiting.waiting, waiting.events)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 900)), st.booleans()), max_size=60),
    st.integers(0, 3_000),
    st.integers(0, 20),
)
@examples(300)
def test_events_added_together_are_remembered_like_those_added_one_by_one(
    steps: list[tuple[int, int | None, bool]], most: int, window: int
) -> None:
    alone: Waiting[Word] = Waiting(window, most)
    together: Waiting[Word] = Waiting(window, most)
    open_batch: list[tuple[str, int, Word | None]] = []
    for seq, (number, size, ends) in enumerate(steps):
        kept = None if size is None else Word("x" * size)
        if kept is None:
            alone.labelled(str(number), seq)
        else:
            alone.add(str(number), seq, kept)
        open_batch.append((str(number), seq, kept))
        if ends:
            together.add_all(open_batch)
            open_batch = []
    together.add_all(open_batch)
    assert together == alone


def test_the_label_of_a_forgotten_event_names_the_limit() -> None:
    waiting: Waiting[Word] = Waiting(20, 1_000)
    for number in range(5):
        waiting.add(str(number), number, Word("x" * 100))
    assert (waiting.waiting, waiting.dropped, waiting.missed) == (2, 3, 3)
    reason, detail = waiting.join(Label("0", "a"), Admission(seq=5))
    assert reason is Reason.UNKNOWN_ID and "more than 1,000 bytes (limits.waiting_bytes), as 3 events" in detail
    assert isinstance(waiting.join(Label("4", "a"), Admission(seq=5)), Joined)
