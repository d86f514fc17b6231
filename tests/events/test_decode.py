"""Every kind of bad input has its reason, and never takes a good event with it."""

from array import array

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.events.admission import CLASSES_BYTES, Accepted, Admission, Task, label
from glasstream.events.decode import decode, decode_one, decode_together
from glasstream.events.features import KeptFeatures
from glasstream.events.limits import IngestLimits
from glasstream.events.waiting import Joined, Waiting
from glasstream_topics.events import Event
from glasstream_topics.events_dead import Reason
from glasstream_topics.labels import Label
from tests.support.examples import examples

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
        (b'{"x": {"a": 1}, "meta": 3}', Reason.BAD_META),
        (b'{"x": {"a": 1}, "meta": [{"a": 1}]}', Reason.BAD_META),
        (b'{"x": {"a": 1}, "meta": {"a": [1]}}', Reason.BAD_META),
        (b'{"x": {"a": 1}, "meta": {"a": {"b": 1}}}', Reason.BAD_META),
        (b'{"x": {"a": 1}, "meta": {"a": 1e61}}', Reason.BAD_META),
        (orjson.dumps({"x": {"a": 1}, "meta": {"a": "b" * 1025}}), Reason.BAD_META),
        (orjson.dumps({"x": {"a": 1}, "meta": {"b" * 257: "a"}}), Reason.BAD_META),
        (orjson.dumps({"x": {"a": 1}, "meta": {f"c{n}": n for n in range(65)}}), Reason.BAD_META),
        (b'{"id": 1, "y": 1, "meta": {"x": 1}}', Reason.BAD_META),
        (b'{"id": 1, "y": 1, "meta": null}', Reason.BAD_META),
    ],
)
def test_a_bad_message_is_rejected_whole_with_its_reason(value: bytes | None, reason: Reason) -> None:
    decoded = decode(value, LIMIT)
    assert decoded.events == []
    assert not decoded.flush
    assert [found.reason for found in decoded.rejected] == [reason]
    assert decoded.rejected[0].index is None
    assert ("not valid JSON" if reason is Reason.NOT_JSON else "expected") in decoded.rejected[0].detail


@pytest.mark.parametrize("beside", ["", ',{"id":1,"y":2}', ",3"], ids=["alone", "a label", "no event"])
def test_meta_is_read_the_same_on_every_path(beside: str) -> None:
    texts = {"name": "a" * 1024, "b" * 256: "c", **{f"c{n}": n for n in range(60)}, "yes": True}
    whole = orjson.dumps({"x": {"a": 1}, "meta": texts | {"none": None}}).decode()
    decoded = decode(f'[{whole},{{"x":{{"a":1}},"meta":null}}{beside}]'.encode(), LIMIT)
    (_, one), (_, none) = decoded.events[:2]
    assert isinstance(one, Event) and one.meta == {**texts, "none": None}
    assert [type(value) for value in (one.meta or {}).values()][2:] == [float] * 60 + [bool, type(None)]
    assert isinstance(none, Event) and none.meta is None


@pytest.mark.parametrize("number", ["NaN", "-NaN", "nan", "Infinity", "-Infinity", "1e400", "-1e400"])
@pytest.mark.parametrize("around", ['{{"x": {{"a": {}}}}}', '[{{"x": {{"note": "NaN", "a": {}}}}}]'])
def test_only_what_is_no_number_of_json_gets_the_advice_to_send_null(number: str, around: str) -> None:
    def advised(text: str) -> bool:
        (rejected,) = decode(text.encode(), LIMIT).rejected
        assert rejected.reason is Reason.NOT_JSON
        return "send null instead" in rejected.detail

    assert advised(around.format(number))
    assert not any(map(advised, (around.format('"NaN"')[:-1], around.format("None"), around.format("'NaN'"), "")))


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
    assert (
        decoded.events
        or decoded.rejected
        or decoded.flush
        or decoded.reset
        or decoded.model
        or orjson.loads(value) == []
    )


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


# What stands in a message as JSON, written by hand: no encoder writes all of it.
ATOMS = st.one_of(
    st.sampled_from(
        ["null", "true", "1", "-0", "-0.0", "1.0", "1e400", "-1e400", "1e60", "1.1e60", "18446744073709551617",
         "-18446744073709551617", "9" * 256, "9" * 257, "-" + "9" * 255, "-" + "9" * 256, "9" * 400, "9" * 5_000,
         '"a"', '""', '"' + "é" * 128 + '"', '"' + "é" * 129 + '"', r'"\ud83d\ude00"', "[]", "{}", "[[1]]"]
    ),
    st.integers(-(2**80), 2**80).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text(max_size=4).map(lambda text: orjson.dumps(text).decode()),
)  # fmt: skip
FEATURES = st.lists(st.tuples(st.sampled_from(["a", "b", "a"]), ATOMS), max_size=3).map(
    lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"
)
ELEMENTS = st.one_of(
    ATOMS,
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["x", "x", "meta"]), FEATURES | ATOMS),
            st.tuples(st.sampled_from(["id", "y", "ts", "x", "z", "meta"]), ATOMS),
        ),
        max_size=5,
    ).map(lambda pairs: "{" + ",".join(f'"{name}" : {value}' for name, value in pairs) + "}"),
)
DEEP = '{"x":' + "[" * 900 + "]" * 900 + "}"


def outcome(value: str, place: int) -> object:
    """Return the result for one element of an array as text, because 1, 1.0 and True must differ here."""
    decoded = decode(value.encode(), LIMIT)
    for index, event in decoded.events:
        if index == place:
            return repr(event)
    (found,) = [found for found in decoded.rejected if found.index == place]
    return found.reason, found.detail


@given(ELEMENTS, st.lists(ELEMENTS | st.just(DEEP), max_size=4), st.lists(ELEMENTS, max_size=4))
@examples(400)
def test_one_event_is_judged_alike_in_any_company(element: str, before: list[str], after: list[str]) -> None:
    alone = outcome(f"[{element}]", 0)
    assert outcome("[" + " , ".join([*before, element, *after]) + "]", len(before)) == alone
    bare = decode(element.encode(), LIMIT)
    if element.startswith("[") or bare.flush or bare.reset or bare.model:
        return
    assert [repr(event) for _, event in bare.events] or (bare.rejected[0].reason, bare.rejected[0].detail) in (
        [alone],
        alone,
    )


@pytest.mark.parametrize(("beside", "index"), [([], 0), (["3"], 1), (['{"x":{"a":[]}}', '{"x":{"a":1e400}}'], 2)])
def test_integers_beyond_64_bits_are_themselves(beside: list[str], index: int) -> None:
    big = 2**64 + 1
    event = f'{{"x":{{"a":1}},"id":{big},"y":{big},"ts":{2**63 - 1}}}'
    decoded = decode(f"[{','.join([*beside, event])}]".encode(), LIMIT)
    assert decoded.events == [(index, Event({"a": 1.0}, big, 2**63 - 1, big))]
    accepted = Admission(Task.CLASSIFICATION).admit(decoded.events[0][1])
    assert isinstance(accepted, Accepted) and accepted.target == str(big)


@pytest.mark.parametrize("beside", [[], ["3"]])
@pytest.mark.parametrize(("wanted", "given_id"), [(True, "9" * 256), (False, "9" * 257), (False, "-" + "9" * 256)])
@pytest.mark.parametrize("rest", ['"x":{"a":1}', '"y":1'])
def test_integer_ids_are_bounded_as_texts_are(wanted: bool, given_id: str, rest: str, beside: list[str]) -> None:
    element = f'{{"id":{given_id},{rest}}}'
    decoded = decode(f"[{','.join([*beside, element])}]".encode(), LIMIT)
    assert bool(decoded.events) is wanted
    assert (Reason.BAD_ID in [found.reason for found in decoded.rejected]) is not wanted


def test_a_number_beyond_a_double_does_not_take_good_events_with_it() -> None:
    decoded = decode(b'[{"x":{"a":1e400}},{"x":{"a":1}}]', LIMIT)
    assert [index for index, _ in decoded.events] == [1]
    assert reasons(b'[{"x":{"a":1e400}},{"x":{"a":1}}]') == [(0, Reason.NOT_JSON)]


def class_label(number: int, y: object) -> Event:
    return Event(x={"a": 1.0}, id=number, y=y)


def test_classes_are_bounded_in_number_and_a_known_one_goes_on() -> None:
    admission = Admission(limits=IngestLimits(classes=3))
    outcomes = [admission.admit(class_label(n, y)) for n, y in enumerate(["a", "b", "c", "d", "a", None, "d", "c"])]
    reasons_of = [one[0] for one in outcomes if not isinstance(one, Accepted)]
    assert reasons_of == [Reason.TOO_MANY_CLASSES] * 2 and "limits.classes" in outcomes[3][1]
    assert "--task regression" in outcomes[3][1]
    assert [one.seq for one in outcomes if isinstance(one, Accepted)] == list(range(6))
    assert list(admission.classes) == ["a", "b", "c"]


def test_class_names_are_bounded_each_and_together() -> None:
    admission = Admission(Task.CLASSIFICATION, limits=IngestLimits(classes=10_000, label_bytes=1_024))
    for y in ("é" * 513, 10**1_024, -(10**1_024), 10**4_000):
        outcome = admission.admit(class_label(0, y))
        assert not isinstance(outcome, Accepted)
        assert outcome[0] is Reason.LABEL_TOO_LONG and "limits.label_bytes" in outcome[1] and len(outcome[1]) < 400
    assert not admission.classes and admission.seq == 0 and admission.target_kind is None
    for number in range(1_000):
        admission.admit(class_label(number, f"{number:04}" + "é" * 500))
    together = sum(len(orjson.dumps(name)) for name in admission.classes)
    assert CLASSES_BYTES - 2_000 < together <= CLASSES_BYTES
    assert Admission(classes=dict(admission.classes))._classes_bytes == together


def test_a_late_label_is_bounded_like_another() -> None:
    admission = Admission(limits=IngestLimits(classes=2))
    waiting: Waiting[KeptFeatures] = Waiting(10, 10_000)
    for number in range(3):
        admission.admit(class_label(number, None))
        waiting.add(str(number), number, KeptFeatures(None, array("d", [1.0])))
    found = [waiting.join(Label(number, f"class {number}"), admission) for number in range(3)]
    assert [type(one) is Joined for one in found] == [True, True, False]
    assert found[2][0] is Reason.TOO_MANY_CLASSES and waiting.waiting == 1


def test_numbers_to_predict_are_no_classes() -> None:
    admission = Admission(Task.REGRESSION, limits=IngestLimits(classes=2))
    assert all(isinstance(admission.admit(class_label(n, float(n))), Accepted) for n in range(50))
    assert not admission.classes


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
    assert ("--task regression" in outcome[1]) == (task is Task.CLASSIFICATION)


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


PIECES = [
    *(b'{"x":{"a":1}}', b'{"x":{"a":1},"y":"b","id":"c"}', b'{"id":7,"y":"b"}', b'{"x":{"a":"\\n"}}', b"{}"),
    *(b'{"x":{"a":1}},{"x":{"a":2}}', b'{"x":{"a":1}},\n{"id":7,"y":"b"}', b'[{"x":{"a":1}}]', b'{"flush":true}'),
    *(b'{"x":{"a":1}', b'{"b":2}}', b'{"x":{"a":[{}', b"{}]}}", b'{"id":"}', b'{","x":{"a":1}}', b'{"x":{"a":"}'),
    *(b'{"}}', b"}", b"{", b'"}', b'{"', b"", b" ", b"\xff", b'{"x":{"a":1}} ', b' {"x":{"a":1}}'),
    *(b'{"x":{"a":1},"id":"%b"}' % (b"c" * 300), b'{"x":{"a":1e400}}', b'{"x":{"a":1},"ts":99999999999999999999}'),
    *(b'{"x":{"a":1},"id":%b}' % (b"9" * 257), b'{"id":-%b,"y":"b"}' % (b"9" * 256)),
    *(b'{"x":{"a":1},"meta":{"x":"b"}}', b'{"id":7,"y":"b","meta":{"x":1}}', b'{"x":{"a":1},"meta":{"a":1}'),
    b'{"x":{"a":"%b"}}' % (b"b" * 400),
]  # fmt: skip
"""Messages, and parts of them that are messages of a client that means harm."""


@given(st.lists(st.sampled_from(PIECES), max_size=5))
@examples(1_500)
def test_messages_that_are_decoded_together_are_those_that_are_decoded_alone(values: list[bytes]) -> None:
    alone = [decode_one(value, 350) for value in values]
    together = decode_together(values, 350)
    if None in alone:
        assert together is None
    else:
        spaced = any(value[-1:] != b"}" for value in values)
        assert together == alone or (spaced and together is None)
