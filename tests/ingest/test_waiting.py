"""Which event a label is of: the newest that waits under its id, within the window, once."""

import random

import pytest

from glasstream.ingest.admission import Admission
from glasstream.ingest.waiting import Joined, Waiting
from glasstream_topics.events_dead import Reason
from glasstream_topics.labels import Label


def join(waiting: Waiting[str], event_id: str | int, seqs: int, y: object = "a") -> object:
    """Return the waiting event of a label, or the reason why there is none."""
    found = waiting.join(Label(event_id, y), Admission(seq=seqs))
    return found.kept if isinstance(found, Joined) else found[0]


def test_a_label_finds_its_event_among_the_newest_and_no_further_back() -> None:
    for seqs, found in ((3, "x"), (7, "x"), (8, Reason.UNKNOWN_ID)):
        waiting: Waiting[str] = Waiting(5)
        waiting.add("1", 2, "x")
        assert join(waiting, 1, seqs) == found
        assert (waiting.waiting, waiting.joined, waiting.missed) == ((0, 1, 0) if found == "x" else (0, 0, 1))


def test_a_label_that_is_refused_leaves_its_event_waiting() -> None:
    waiting: Waiting[str] = Waiting(5)
    waiting.add("1", 0, "x")
    admission = Admission(seq=1, target_kind=str)
    assert waiting.join(Label("1", 3.0), admission)[0] is Reason.TARGET_KIND
    assert waiting.join(Label("1", "a"), admission) == Joined(0, "x", "a")


def test_a_label_without_an_event_decides_nothing_of_the_stream() -> None:
    admission = Admission()
    assert Waiting(5).join(Label("1", "a"), admission)[0] is Reason.UNKNOWN_ID
    assert (admission.task, admission.target_kind, admission.seq) == (None, None, 0)


def test_a_second_label_is_doubled_as_long_as_the_window_reaches() -> None:
    waiting: Waiting[str] = Waiting(5)
    waiting.add("1", 0, "x")
    assert join(waiting, "1", 1) == "x"
    assert join(waiting, "1", 5) is Reason.DOUBLED_LABEL
    assert join(waiting, "1", 6) is Reason.UNKNOWN_ID


def test_a_label_for_an_event_that_came_with_its_own_is_doubled_once_any_event_has_waited() -> None:
    waiting: Waiting[str] = Waiting(5)
    waiting.labelled("1", 0)
    assert join(waiting, "1", 1) is Reason.UNKNOWN_ID and not waiting.events
    waiting.add("2", 1, "x")
    waiting.labelled("3", 2)
    assert join(waiting, "3", 3) is Reason.DOUBLED_LABEL


def test_of_two_events_under_one_id_the_newer_waits() -> None:
    waiting: Waiting[str] = Waiting(5)
    waiting.add("1", 0, "older")
    waiting.add("1", 1, "newer")
    assert (waiting.waiting, waiting.missed) == (1, 1)
    assert join(waiting, "1", 2) == "newer"
    waiting.add("1", 3, "again")
    assert join(waiting, "1", 4) == "again" and waiting.missed == 1
    waiting.add("2", 5, "waits")
    waiting.labelled("2", 6)
    assert join(waiting, "2", 7) is Reason.DOUBLED_LABEL and waiting.missed == 2


def test_with_a_window_of_0_nothing_waits() -> None:
    waiting: Waiting[str] = Waiting(0)
    waiting.add("1", 0, "x")
    assert join(waiting, "1", 1) is Reason.UNKNOWN_ID and not waiting.events and not waiting.begun


@pytest.mark.parametrize("window", [1, 3, 20])
def test_it_is_what_a_look_at_the_whole_log_says_whenever_the_old_is_forgotten(window: int) -> None:
    """Against a plain reading of the rules, with `expire` called at random moments."""
    chance = random.Random(window)
    waiting: Waiting[int] = Waiting(window)
    log: list[tuple[str, bool]] = []  # (id, labelled) by seq
    begun = 0
    joined = 0
    for _ in range(3_000):
        event_id = str(chance.randrange(12))
        act = chance.random()
        if act < 0.35:
            begun = begun or len(log) + 1
            waiting.add(event_id, len(log), len(log))
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
                assert found == known[-1]
                log[known[-1]] = (event_id, True)
                joined += 1
        assert len(waiting.events) <= window
    assert waiting.joined == joined > 50
    assert waiting.waiting == sum(kept is not None for _, kept in waiting.events.values())
