"""What the doctor concludes from what it has read. On a real Kafka: `tests/integration/test_doctor.py`."""

from collections.abc import Iterator, Mapping

import pytest

from glasstream.app.configuration import load
from glasstream.app.operate.doctor import workers
from glasstream.app.operate.doctor.finding import DoctorContext, Finding, Level
from glasstream.app.operate.doctor.layout import expansion
from glasstream.app.operate.doctor.progress import _epochs, _remedy, _some, _unexplained
from glasstream.app.operate.state import Place, State, Stream
from glasstream_topics import Topic, checkpoints, events, requests, snapshots
from glasstream_topics.events_dead import DeadLetter, Reason

CORE = {"learner", "explainer", "aggregator"}


def context(*assignments: str, **environment: str) -> DoctorContext:
    return DoctorContext(load(assignments=assignments), environment, lambda: 0.0)


def place(stage: str, epoch: int | None = 0, behind: int = 0, partition: int = 0) -> Place:
    return Place(
        stage=stage, topic="t", partition=partition, epoch=epoch, offset=None, first=0, end=behind, behind=behind
    )


def stream(name: str, failed: int = 0, stalled: str = "", epoch: int = 0) -> Stream:
    said = f"stream {name!r}: {failed} of 900 rows could not be explained; the first because: why" if failed else ""
    return Stream(
        stream=name, partition=0, epoch=epoch, seqs=1_000, rows=1_000, unlabelled=0, first_offset=0, version=None,
        checkpoint=None, aggregated=1_000, published=None, behind=0, stalled=stalled, model="", failed=failed,
        unexplained=said, watched=None, anchor=None,
    )  # fmt: skip


def state(*partitions: Place, streams: list[Stream] | None = None) -> State:
    return State(prefix="p.", partitions=[*partitions], streams=streams or [], notes=[])


def levels(findings: list[Finding]) -> dict[str, Level]:
    assert all(one.do for one in findings if one.level is not Level.OK)
    return {one.check: one.level for one in findings}


@pytest.mark.parametrize(
    ("assignments", "environment", "labelled", "expected"),
    [
        ((), {}, False, set()),
        (("explain.methods=ipfi,novelty",), {}, False, {"novelty"}),
        (("intake.topics=orders",), {}, False, {"intake"}),
        (("avro.registry=http://registry",), {}, False, {"avro"}),
        ((), {"GLASSTREAM_NOTIFY_URL": "https://hooks.example.org/a"}, False, {"notify"}),
        ((), {}, True, {"labels"}),
    ],
)
def test_required_is_what_settings_environment_and_topics_in_use_need(
    assignments: tuple[str, ...],
    environment: Mapping[str, str],
    labelled: bool,
    expected: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_holds_records", lambda settings, name: labelled)
    needed = workers.required(context(*assignments, **environment))
    assert needed.keys() == CORE | expected and all(needed.values())


def test_a_required_stage_without_a_worker_is_a_failure_and_another_one_is_no_finding() -> None:
    settings, needed = load(), dict.fromkeys(CORE, "every deployment needs it")
    assert levels(workers.workers(settings, needed, {"learner": 0, "explainer": 2, "labels": 0, "intake": 1})) == {
        "learner workers": Level.FAIL, "explainer workers": Level.OK, "intake workers": Level.OK,
    }  # fmt: skip
    hidden, rebalancing = workers.workers(
        settings,
        needed,
        {
            "learner": "this client is not authorized to see the group g",
            "explainer": "the group g is rebalancing",
            "labels": "the group h is rebalancing",
        },
    )
    assert hidden.level is rebalancing.level is Level.WARN
    assert "describe the groups" in hidden.do and "wait" in rebalancing.do


def test_lag_without_a_worker_is_a_failure_only_where_the_stage_is_needed() -> None:
    settings, needed = load(), dict.fromkeys(CORE, "every deployment needs it")
    there = state(place("learner", behind=5), place("aggregator", behind=5), place("novelty", behind=9_000))
    found = workers.lag(settings, there, needed, {"learner": 0, "aggregator": 1, "novelty": 0})
    assert levels(found) == {"learner lag": Level.FAIL}
    added = state(place("learner", None, behind=9_000, partition=settings.topics.events))
    assert levels(workers.lag(settings, added, needed, {"learner": 1})) == {"lag": Level.OK}
    busy = state(place("explainer", behind=9_000))
    assert levels(workers.lag(settings, busy, needed, {"explainer": 1})) == {"explainer lag": Level.WARN}


@pytest.mark.parametrize(
    ("learner", "aggregator", "streams", "remedy"),
    [(0, 1, (), 1), (0, 1, (3,), 4), (1, 1, (), None), (2, 1, (), None), (None, 1, (), None), (1, None, (), None)],
)
def test_an_aggregator_in_a_later_epoch_is_a_failure_that_names_the_epoch_to_start(
    learner: int | None, aggregator: int | None, streams: tuple[int, ...], remedy: int | None
) -> None:
    """The aggregator follows a learner that is ahead, block by block."""
    there = state(
        place("learner", learner, partition=1),
        place("aggregator", aggregator, partition=1),
        streams=[stream(f"s{epoch}", epoch=epoch) for epoch in streams],
    )
    found = _epochs(there)
    if remedy is None:
        assert not found
        return
    (one,) = found
    assert one.level is Level.FAIL and "partition 1: the aggregator is in epoch 1, the learner in epoch 0" in one.what
    assert one.do == f"start every stage with --set epoch={remedy}"


def test_rows_that_could_not_be_explained_are_a_failure_if_they_are_all() -> None:
    settings = load(assignments=["explain.reservoir=100"])
    rows = 1_000 - settings.explain.first_row
    found = [_unexplained(settings, stream("s", failed)) for failed in (3, rows)]
    assert [one.level for one in found] == [Level.WARN, Level.FAIL]
    assert all("could not be explained; the first because: why" in one.what and one.do for one in found)


def test_of_many_streams_some_are_reported_and_the_others_counted() -> None:
    def findings(count: int) -> Iterator[Finding]:
        return (Finding("stalled", Level.FAIL, f"stream {number}", "do") for number in range(count))

    assert _some(list(findings(5))) == list(findings(5))
    found = _some(list(findings(4_000)))
    assert len(found) == 6 and found[-1].what == "and 3,995 more streams" and found[-1].level is Level.FAIL


@pytest.mark.parametrize(
    ("topic", "found", "expected", "words"),
    [
        (events.TOPIC, 7, 4, ("continue with the first 4", "topics expand --set topics.events=7", "new epoch")),
        (checkpoints.TOPIC, 4, 7, ("`glasstream topics expand` with topics.events=7",)),
        (checkpoints.TOPIC, 7, 4, ("topics expand --set topics.events=7",)),
        (requests.TOPIC, 4, 8, ("`glasstream topics expand` with topics.requests=8",)),
        (snapshots.TOPIC, 2, 1, ("another --prefix",)),
    ],
)
def test_another_number_of_partitions_has_a_way_out(
    topic: Topic, found: int, expected: int, words: tuple[str, ...]
) -> None:
    do = expansion(topic, found, expected)
    assert all(word in do for word in words) and ("continue" in do) == (topic is events.TOPIC)


@pytest.mark.parametrize(
    ("reason", "topic", "remedy"),
    [
        (Reason.UNKNOWN_ID, "p.labels", "compare ids and streams of these labels"),
        (Reason.NOT_JSON, "p.events", "fix the cause and run `dead replay`"),
        (Reason.BAD_ENCODING, "orders", "fix the cause and send them to orders again"),
    ],
)
def test_the_remedy_for_dead_letters_depends_on_the_reason(reason: Reason, topic: str, remedy: str) -> None:
    letter = DeadLetter(1, 0, reason, topic, 0, 0, 0)
    assert remedy in _remedy(load(assignments=["prefix=p."]), letter)
