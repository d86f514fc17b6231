"""Conclusions from what the brokers report about the topics and the group."""

import re
from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from glasstream.kafka.health import catalogue
from glasstream.kafka.stages.health import StageHealth
from glasstream.kafka.transport.group import Cut, Look, Unknown, View, ends_of, members_of, owners_of
from glasstream.kafka.transport.sequence import Sequence

HERE = {"in": ("first-id", 2)}


def look(owners: Mapping[int, str] | Unknown, **changes: object) -> Look:
    return Look(owners, **{"topics": HERE, **changes})  # type: ignore[arg-type]


def test_a_partition_that_nobody_owns_is_told_when_two_looks_agree() -> None:
    view = View("group", "in")
    view.see(look({0: "a"}))
    assert view.unready is None
    view.see(look({0: "a"}))
    assert view.unready is not None and "partition 1 of in has no owner in the group group" in view.unready
    view.see(look({0: "a", 1: "b"}))
    assert view.unready is None


def test_a_worker_whose_partitions_were_taken_back_is_told_from_one_that_starts() -> None:
    view = View("group", "in")
    assert "has not taken over its partitions yet" in view.unsettled
    view.release()
    assert re.search(r"took back the partitions of this worker at \d\d:\d\d:\d\d", view.unsettled)


def test_a_group_that_rebalances_or_cannot_be_asked_is_not_taken_for_one_without_owners() -> None:
    view = View("group", "in")
    for owners in (Unknown("it rebalances"), Unknown("no answer", away=True)):
        for _ in range(3):
            view.see(look(owners))
            assert view.unready is None
        assert view.away == (owners.reason if owners.away else None)


@pytest.mark.parametrize(("code", "away"), [(KafkaError._UNSUPPORTED_FEATURE, False), (KafkaError._TIMED_OUT, True)])
def test_a_broker_that_lists_no_groups_has_answered(code: int, away: bool) -> None:
    def list_groups(group: str, timeout: float) -> None:
        raise KafkaException(KafkaError(code))

    owners = owners_of(SimpleNamespace(list_groups=list_groups), "group", "in")  # type: ignore[arg-type]
    assert isinstance(owners, Unknown) and owners.away is away


def test_a_topic_that_is_missing_is_told_and_one_that_is_not_known_is_not() -> None:
    view = View("group", "in")
    for topics, said in (({}, False), ({"in": None}, True)):
        for _ in range(2):
            view.see(look({}, topics=topics))
        assert (view.unready is not None and "in is missing" in view.unready) is said


def test_a_topic_that_was_made_anew_is_known_by_its_id() -> None:
    view = View("group", "in")
    owners = {0: "a", 1: "a"}
    view.see(look(owners))
    view.see(look(owners, topics={"in": None}))
    assert view.remade is None
    view.see(look(owners, topics={"in": ("second-id", 2)}))
    assert view.remade is not None and "first-id" in view.remade and "second-id" in view.remade


def test_a_log_that_is_shorter_than_it_was_is_cut_off_when_two_looks_agree() -> None:
    view = View("group", "in")
    owners = {0: "a", 1: "a"}
    ends = [{("in", 0): 10, ("out", 3): 100}, {("in", 0): 12, ("out", 3): 90}, {("out", 3): 120}, {("out", 3): 80}]
    assert [view.see(look(owners, ends=one)) for one in ends] == [[], [], [], []]
    assert view.see(look(owners, ends={("out", 3): 85})) == [Cut("out", 3, 120, 85)]
    assert view.see(look(owners, ends={("out", 3): 85})) == []
    assert view.ends == {0: 12}


class Answered:
    """An admin client whose leaders answer or not."""

    def list_offsets(self, places: Mapping[TopicPartition, object], **options: object) -> dict[TopicPartition, Future]:
        futures: dict[TopicPartition, Future] = {place: Future() for place in places}
        for place, future in futures.items():
            future.set_result(SimpleNamespace(offset=-1001 if place.partition else 7))
        return futures


def test_the_end_of_a_partition_whose_leader_does_not_answer_is_not_known() -> None:
    assert ends_of(Answered(), [("in", 0), ("in", 1)]) == {("in", 0): 7}  # type: ignore[arg-type]


class Lane:
    """A lane as health sees it."""

    def __init__(self, partition: int, next_offset: int, stalled: str | None = None) -> None:
        self.partition, self.stalled = partition, stalled
        self.tp = SimpleNamespace(topic="in", partition=partition)
        self.sequence = Sequence(next_offset)
        self.waiting: list[object] = []
        self.wait = 0.0


def worker(*lanes: Lane, fetched: int | None = None, settled: bool = True) -> SimpleNamespace:
    consumer = SimpleNamespace(end=lambda tp: fetched)
    return SimpleNamespace(
        lanes={lane.partition: lane for lane in lanes}, view=View("group", "in"), settled=settled, failure=None, lost=0,
        waits_for=None, app=SimpleNamespace(consumer=consumer), steps=SimpleNamespace(samples=lambda: []),
    )  # fmt: skip


def lag(stage: SimpleNamespace) -> list[float]:
    samples = StageHealth(stage, lambda: []).samples()  # type: ignore[arg-type]
    return [sample.value for sample in samples if sample.metric is catalogue.INPUT_LAG]


@pytest.mark.parametrize(("fetched", "asked", "expected"), [(301, 29_301, 29_300), (301, None, 300), (301, 200, 300)])
def test_the_lag_goes_on_growing_while_nothing_is_fetched(fetched: int, asked: int | None, expected: int) -> None:
    stage = worker(Lane(0, 1), fetched=fetched)
    if asked is not None:
        stage.view.see(look({0: "a", 1: "a"}, ends={("in", 0): asked}))
    assert lag(stage) == [expected]


def test_a_standby_is_ready_unless_a_partition_has_no_owner() -> None:
    standby = worker()
    health = StageHealth(standby, lambda: [])  # type: ignore[arg-type]
    standby.view.see(look({0: "a", 1: "b"}))
    assert health.unready() is None
    for _ in range(2):
        standby.view.see(look({0: "a"}))
    assert "partition 1 of in has no owner" in (health.unready() or "")


def test_a_worker_logs_once_that_brokers_are_away_and_once_that_they_are_back(caplog: pytest.LogCaptureFixture) -> None:
    view, away = View("group", "in"), Unknown("no broker answered within 8 s", away=True)
    with caplog.at_level("INFO"):
        for one in (look({0: "a", 1: "a"}, ends={("in", 0): 1}), look(away), look(away)):
            view.see(one)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "brokers do not answer: no broker answered within 8 s; this worker waits" in caplog.text
        for _ in range(2):
            view.see(look({0: "a", 1: "a"}, ends={("in", 0): 1}))
    assert [record.message for record in caplog.records[1:]] == ["connection to brokers restored"]


def test_a_worker_is_not_ready_while_brokers_are_away() -> None:
    stage = worker(Lane(0, 1))
    away = Unknown("no broker answered within 8 s", away=True)
    stage.view.see(look(away, ends={("in", 0): 1}))
    assert StageHealth(stage, lambda: []).unready() is None, "leaders answer"  # type: ignore[arg-type]
    stage.view.see(look(away))
    assert "brokers do not answer" in (StageHealth(stage, lambda: []).unready() or "")  # type: ignore[arg-type]
    stage.view.see(look({0: "a", 1: "a"}))
    assert StageHealth(stage, lambda: []).unready() is None  # type: ignore[arg-type]


@pytest.mark.parametrize("states", [[], ["Dead"], ["PreparingRebalance"], ["Empty", "Dead"]])
def test_a_group_that_no_coordinator_vouches_for_is_not_taken_for_one_without_owners(states: list[str]) -> None:
    groups = [SimpleNamespace(state=state, members=[]) for state in states]
    admin = SimpleNamespace(list_groups=lambda group, timeout: groups)
    assert isinstance(owners_of(admin, "group", "in"), Unknown)  # type: ignore[arg-type]


def test_a_group_that_everybody_has_left_owns_nothing() -> None:
    groups = [SimpleNamespace(state="Empty", members=[])]
    assert owners_of(SimpleNamespace(list_groups=lambda group, timeout: groups), "group", "in") == {}  # type: ignore[arg-type]


def test_the_members_of_a_group_are_counted_whoever_owns_partitions() -> None:
    def count(*groups: SimpleNamespace) -> int | Unknown:
        return members_of(SimpleNamespace(list_groups=lambda group, timeout: list(groups)), "group")  # type: ignore[arg-type]

    assert count() == 0 == count(SimpleNamespace(state="Empty", members=[]))
    assert count(SimpleNamespace(state="Stable", members=["a", "b"])) == 2
    assert count(SimpleNamespace(state="PreparingRebalance", members=["a"])) == Unknown(
        "the group group is rebalancing"
    )


def test_a_group_that_cannot_be_asked_for_has_a_reason_that_is_never_empty() -> None:
    def list_groups(group: str, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, ""))

    found = members_of(SimpleNamespace(list_groups=list_groups), "group")  # type: ignore[arg-type]
    assert isinstance(found, Unknown) and not found.reason.endswith(": ")


def test_a_message_can_have_waited_since_the_last_report_without_it() -> None:
    now = [100.0]
    view = View("group", "in", lambda: now[0])
    now[0] = 103.0
    assert view.longest_wait(0, 5) == 3.0, "nothing is known but when the worker began"
    now[0] = 100.0
    for end in (5, 5, 8, 20):  # at 100, 110, 120 and 130
        view.see(look({0: "a", 1: "a"}, ends={("in", 0): end}))
        now[0] += 10.0
    assert now[0] == 140.0
    assert [view.longest_wait(0, offset) for offset in (4, 5, 7, 8, 19, 20)] == [40.0, 30.0, 30.0, 20.0, 20.0, 10.0]
    assert view.longest_wait(1, 0) == 40.0


def test_the_reports_that_are_kept_are_bounded() -> None:
    view = View("group", "in")
    for _ in range(2_000):
        view.see(look({0: "a", 1: "a"}, ends={("in", 0): 1}))
    assert len(view._looks[0]) == 360
