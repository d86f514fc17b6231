"""Every kind of bad input has its reason, and never takes a good event with it."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest.admission import Accepted, Admission, Task, label
from pipeline.ingest.decode import decode
from topics.events import Event
from topics.events_dead import Reason
from topics.labels import Label

LIMIT = 1024 * 1024
GOOD = {"x": {"a": 1, "b": "text", "c": True, "d": None}, "y": 1, "id": "one", "ts": 5}


def reasons(value: bytes | None, limit: int = LIMIT) -> list[tuple[int | None, Reason]]:
    return [(found.index, found.reason) for found in decode(value, limit).rejected]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.NULL_MESSAGE),
        (b"", Reason.NOT_JSON),
        (b"\xff\xfe", Reason.NOT_UTF8),
        (b'{"x": {"a": 1}', Reason.NOT_JSON),
        (b'{"x": {"a": NaN}}', Reason.NOT_JSON),
        (b'[{"x": {"a": 1}}, {"x": {"a": Infinity}}]', Reason.NOT_JSON),
        (b'{"x": {"a": 1e400}}', Reason.NOT_JSON),
        (b"3", Reason.NOT_AN_OBJECT),
        (b"null", Reason.NOT_AN_OBJECT),
        (b"{}", Reason.NO_X),
        (b'{"y": 1}', Reason.NO_X),
        (b'{"x": 3}', Reason.NO_X),
        (b'{"x": {}}', Reason.EMPTY_X),
        (b'{"x": {"a": [1]}}', Reason.NESTED_VALUE),
        (b'{"x": {"a": {"b": 1}}}', Reason.NESTED_VALUE),
        (b'{"x": {"a": 1}, "z": 1}', Reason.UNKNOWN_KEY),
        (b'{"flush": false}', Reason.UNKNOWN_KEY),
        (b'{"x": {"a": 1}, "id": 1.5}', Reason.BAD_ID),
        (b'{"x": {"a": 1}, "id": true}', Reason.BAD_ID),
        (orjson.dumps({"x": {"a": 1}, "id": "é" * 129}), Reason.BAD_ID),
        (b'{"x": {"a": 1}, "ts": "now"}', Reason.BAD_TS),
        (b'{"x": {"a": 1}, "y": [1]}', Reason.BAD_TARGET),
        (b'{"id": 1}', Reason.NO_X),
        (b'{"id": null, "y": 1}', Reason.NO_X),
        (b'{"id": 1, "x": null, "y": 1}', Reason.NO_X),
        (b'{"id": 1, "y": null}', Reason.BAD_TARGET),
        (b'{"id": 1, "y": {}}', Reason.BAD_TARGET),
        (b'{"id": 1.5, "y": 1}', Reason.BAD_ID),
        (b'{"id": 1, "y": 1, "ts": "now"}', Reason.BAD_TS),
        (b'{"id": 1, "y": 1, "z": 1}', Reason.UNKNOWN_KEY),
        (orjson.dumps({"id": "é" * 129, "y": 1}), Reason.BAD_ID),
    ],
)
def test_a_bad_message_is_rejected_whole_with_its_reason(value: bytes | None, reason: Reason) -> None:
    decoded = decode(value, LIMIT)
    assert decoded.events == []
    assert not decoded.flush
    assert [found.reason for found in decoded.rejected] == [reason]
    assert decoded.rejected[0].index is None
    assert "expected" in decoded.rejected[0].detail


def test_a_message_over_the_limit_is_rejected_unread() -> None:
    assert reasons(b"[" + b" " * 100 + b"]", limit=100) == [(None, Reason.TOO_LARGE)]
    assert reasons(orjson.dumps(GOOD), limit=len(orjson.dumps(GOOD))) == []


def test_bad_elements_do_not_take_good_ones_with_them() -> None:
    value = orjson.dumps([GOOD, 3, {"x": {}}, GOOD, {"flush": True}, {"x": {"a": [1]}}, GOOD])
    decoded = decode(value, LIMIT)
    assert [index for index, _ in decoded.events] == [0, 3, 6]
    assert [(found.index, found.reason) for found in decoded.rejected] == [
        (1, Reason.NOT_AN_OBJECT),
        (2, Reason.EMPTY_X),
        (4, Reason.UNKNOWN_KEY),
        (5, Reason.NESTED_VALUE),
    ]


def test_the_fast_and_the_slow_path_read_the_same_event() -> None:
    alone = decode(orjson.dumps([GOOD]), LIMIT).events
    beside_a_bad_one = decode(orjson.dumps([GOOD, 3]), LIMIT).events
    assert alone == beside_a_bad_one
    event = alone[0][1]
    assert [type(value) for value in event.x.values()] == [float, str, bool, type(None)]


LABEL = {"id": "one", "y": 2.5, "ts": 7}


def test_a_label_is_read_the_same_alone_beside_events_and_beside_what_is_bad() -> None:
    expected = Label("one", 2.5, 7)
    for content in (LABEL, [LABEL], [GOOD, LABEL], [GOOD, LABEL, 3]):
        decoded = decode(orjson.dumps(content), LIMIT)
        assert decoded.events[-1][1] == expected and decoded.labels
        assert [type(one) for _, one in decoded.events[:-1]] == [Event] * (len(decoded.events) - 1)
    assert not decode(orjson.dumps([GOOD, GOOD]), LIMIT).labels and not decode(orjson.dumps([GOOD, 3]), LIMIT).labels


def test_an_event_beside_a_label_is_the_same_event() -> None:
    assert decode(orjson.dumps([GOOD, LABEL]), LIMIT).events[0] == decode(orjson.dumps([GOOD]), LIMIT).events[0]


def test_the_flush_mark_is_alone_or_nothing() -> None:
    assert decode(b'{"flush": true}', LIMIT).flush
    assert not decode(b'[{"flush": true}]', LIMIT).flush


@given(st.binary(max_size=200))
def test_any_bytes_are_events_or_have_a_reason(value: bytes) -> None:
    decoded = decode(value, LIMIT)
    assert decoded.events or decoded.rejected or decoded.flush or orjson.loads(value) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "id", "a"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=6))
def test_every_element_is_accounted_for(elements: list[object]) -> None:
    try:
        value = orjson.dumps(elements)
    except TypeError:  # integers beyond 64 bits, which orjson does not write
        return
    decoded = decode(value, LIMIT)
    seen = [index for index, _ in decoded.events] + [found.index for found in decoded.rejected]
    assert sorted(seen) == list(range(len(elements)))


def test_seq_counts_accepted_events_only() -> None:
    admission = Admission()
    outcomes = [admission.admit(Event(x={"a": 1.0}, y=y)) for y in ("up", None, 3, "down", True, "up")]
    assert [one.seq for one in outcomes if isinstance(one, Accepted)] == [0, 1, 2, 3]
    assert [one[0] for one in outcomes if not isinstance(one, Accepted)] == [Reason.TARGET_KIND] * 2


@pytest.mark.parametrize(
    ("task", "y", "target"),
    [
        (None, "up", "up"),
        (None, False, "false"),
        (None, 3, 3.0),
        (Task.CLASSIFICATION, 3, "3"),
        (Task.CLASSIFICATION, 3.0, "3"),
        (Task.CLASSIFICATION, -0.0, "0"),
        (Task.REGRESSION, 3, 3.0),
    ],
)
def test_targets(task: Task | None, y: object, target: object) -> None:
    accepted = Admission(task).admit(Event(x={"a": 1.0}, y=y))
    assert isinstance(accepted, Accepted)
    assert accepted.target == target and type(accepted.target) is type(target)


@pytest.mark.parametrize(
    ("task", "y"), [(Task.CLASSIFICATION, 2.5), (Task.REGRESSION, "up"), (Task.REGRESSION, True), (None, 10**400)]
)
def test_targets_that_do_not_fit_the_task(task: Task | None, y: object) -> None:
    outcome = Admission(task).admit(Event(x={"a": 1.0}, y=y))
    assert not isinstance(outcome, Accepted)
    assert outcome[0] is Reason.BAD_TARGET


def test_the_first_label_decides_the_task_and_a_rejected_one_does_not() -> None:
    admission = Admission()
    admission.admit(Event(x={"a": 1.0}))
    assert admission.task is None
    admission.admit(Event(x={"a": 1.0}, y=10**400))
    assert admission.task is None
    admission.admit(Event(x={"a": 1.0}, y=True))
    assert admission.task is Task.CLASSIFICATION


def test_labels_are_text() -> None:
    assert [label(value) for value in ("1", 1, 1.0, True, 2.5)] == ["1", "1", "1", "true", None]
