"""What `intake try` proposes for messages as other programs write them is what a person would choose."""

import random
import tomllib
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from click.testing import CliRunner

from glasstream.app.command import intake as command
from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.configuration import load
from glasstream.app.operate.intake import Trial, attempt, judge
from glasstream.base.errors import InputError
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.events.message import Message
from glasstream.flow.settings import Settings

COUNT = 60
chance = random.Random(7)


def tried(values: Sequence[Any], *assignments: str) -> Trial:
    settings = load(assignments=["intake.topics=t", *assignments])
    messages = [
        Message("t", 0, n, None, value if isinstance(value, bytes) else orjson.dumps(value), 0)
        for n, value in enumerate(values)
    ]
    return judge(settings, messages, {})


def at(n: int) -> datetime:
    return datetime(2026, 1, 2, tzinfo=UTC) + timedelta(minutes=n)


def payment(n: int) -> dict[str, Any]:
    return {
        "transactionId": 80_000 + n, "timestamp": at(n).isoformat(), "amount": chance.choice([9.5, 20.0, 7.25]),
        "merchant": {"id": n % 5, "name": f"shop {n % 5}", "tags": ["a"] * (n % 2)}, "device_id": f"d{n % 7}",
        "isFraud": n % 9 == 0,
    }  # fmt: skip


def sensor(n: int) -> dict[str, Any]:
    return {
        "ts": int(at(n).timestamp() * 1000),
        "sensorId": n % 4,
        "celsius": 20 + n % 5,
        "status": "ok",
        "Class": n % 2,
    }


def order(n: int) -> dict[str, Any]:
    return {
        "uuid": f"{n:032x}", "created_at": int(at(n).timestamp()), "birth_date": "1980-01-0" + str(1 + n % 9),
        "items": [{"sku": "a", "n": 1}], "address": {"zip": "00100", "geo": {}}, "note": f"ring {n}", "Outcome": "kept",
    } | ({"Outcome": "returned"} if n % 3 else {})  # fmt: skip


def envelope(n: int) -> dict[str, Any]:
    fields = [{"type": "int32", "field": "age"}]
    return {
        "schema": {"type": "struct", "fields": fields, "optional": False},
        "payload": {"age": n % 9, "label": n % 2},
    }


def document(n: int) -> dict[str, Any]:
    return {"label": f"text number {n}", "y": 1, "x": n % 5, "target": n % 2}


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (payment, {"target": "isFraud", "id": "transactionId", "ts": "timestamp", "features": "*,-/merchant/tags"}),
        (sensor, {"target": "Class", "ts": "ts"}),
        (order, {"target": "Outcome", "id": "uuid", "ts": "created_at", "ts_unit": "s", "features": "*,-items,-note"}),
        (envelope, {"target": "/payload/label", "features": "*,-schema"}),
        (document, {"target": "target", "features": "*,-label"}),
    ],
)
def test_a_person_would_choose_the_proposal(made: Callable[[int], Any], wanted: dict[str, str]) -> None:
    trial = tried([made(n) for n in range(COUNT)])
    assert trial.proposal == wanted
    assert trial.made == COUNT and trial.rejected == []


def change(n: int) -> dict[str, Any]:
    """Return a change event as Debezium writes it."""
    row = {"id": n, "amount": f"{n % 9}.50", "created_at": int(at(n).timestamp() * 1e6), "approved": n % 2}
    time = int(at(n).timestamp() * 1000)
    return {
        "before": {**row, "amount": "1.25"} if n % 3 else None, "after": row,
        "source": {"db": f"d{n % 2}", "ts_ms": time}, "op": "u" if n % 3 else "c", "ts_ms": time, "transaction": None,
    }  # fmt: skip


def test_a_decimal_number_of_a_change_event_in_bytes_has_a_way_out() -> None:
    rows = [change(n) for n in range(COUNT)]
    for n, row in enumerate(rows):
        row["after"] |= {"price": b64encode((10_000 + 17 * n).to_bytes(2)).decode(), "note": f"call {n}"}
    left_out = tried(rows).left_out
    assert left_out["/after/price"].endswith("set decimal.handling.mode=double in the connector")
    assert left_out["/after/note"] == "a different text in nearly every document"
    plain = [{"price": row["after"]["price"], "y": n % 2} for n, row in enumerate(rows)]
    assert tried(plain).left_out == {"price": "a different text in nearly every document"}


@pytest.mark.parametrize("around", ["", "/payload"])
@pytest.mark.parametrize("updates", [False, True])
def test_of_a_change_event_only_the_row_after_the_change_is_used(around: str, updates: bool) -> None:
    rows = [change(n if updates else 3 * n) for n in range(COUNT)]
    trial = tried([{"schema": {"type": "struct"}, "payload": row} if around else row for row in rows])
    after = f"{around}/after"
    assert trial.proposal["target"] == f"{after}/approved"
    assert trial.proposal["id"] == f"{after}/id"
    assert trial.proposal["ts"] == (f"{around}/ts_ms" if around else "ts_ms")
    assert trial.proposal["types"] == f"{after}/amount=number"
    before = f"{around}/before" if around else "before"
    assert trial.left_out[before] == "the row before the change, which would give away the target"
    assert trial.left_out[f"{after}/created_at"] == "a time"
    for _, event in trial.events:
        assert list(orjson.loads(event)["x"]) == [f"{after}/amount".strip("/").replace("/", ".")]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (lambda n: f"ring {n}", "a different text in nearly every document"),
        (lambda n: f"ring {n}" if n else 7, "a different text in nearly every document"),
        (lambda n: orjson.dumps({"n": n}).decode(), "JSON in a text: send the object itself, so that its fields can"),
        (lambda n: f">{n}", "numbers with decimal commas, signs or units: to use them, write them as 1234.5"),
        (
            lambda n: f"{1 + n},500",
            "numbers with decimal commas, signs or units: to use them, set types = z=point, or types = z=comma if a "
            "comma is the decimal mark",
        ),
        (lambda n: [{"n": n}], "an array of objects: if each is to be an event, set records = z"),
        (lambda n: [n], "an array: a feature can be one of its elements, such as first=/z/0"),
    ],
)
def test_it_says_why_a_field_is_left_out(value: Callable[[int], Any], why: str) -> None:
    trial = tried([{"z": value(n), "a": n % 3, "y": n % 2} for n in range(COUNT)])
    assert trial.proposal == {"target": "y", "features": "*,-z"}
    assert trial.left_out["z"].startswith(why)


def test_of_two_fields_with_one_feature_the_second_is_left_out() -> None:
    trial = tried([{"a.b": n % 7, "a": {"b": n % 5}, "y": n % 2} for n in range(COUNT)])
    assert trial.left_out == {"/a/b": "another field also becomes the feature 'a.b'"}
    assert trial.made == COUNT and trial.rejected == []


def test_types_that_lose_less_are_proposed() -> None:
    rows = [
        {
            "price": f"{n % 5}.5", "count": str(n), "zip": str(10_000 + n % 4), "version": "1.0", "userId": f"{n}.0",
            "user": 2**53 + 1 + n % 6, "big": 2**53 - n % 2, "y": n % 2,
        }
        for n in range(COUNT)
    ]  # fmt: skip
    trial = tried(rows, "intake.types=y=text")
    assert trial.proposal == {
        "target": "y", "types": "y=text,price=number,count=number,user=text", "id": "userId"
    }  # fmt: skip
    assert trial.rejected == []
    (_, event), *_ = trial.events
    assert orjson.loads(event)["x"] == {
        "price": 0.5, "count": 0.0, "zip": "10000", "version": "1.0", "user": str(2**53 + 1), "big": 2**53
    }  # fmt: skip


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_units_of_times(unit: str, as_text: bool) -> None:
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    times = [int(at(n).timestamp()) * factor for n in range(COUNT)]
    trial = tried([{"ts": str(time) if as_text else time, "a": n % 3, "y": n % 2} for n, time in enumerate(times)])
    assert trial.proposal == {"target": "y", "ts": "ts"} | ({} if unit == "ms" else {"ts_unit": unit})
    assert [orjson.loads(event)["ts"] for _, event in trial.events] == [
        int(at(n).timestamp()) * 1000 for n in range(len(trial.events))
    ]


def test_the_lines_that_are_printed_are_the_settings() -> None:
    settings = load(
        assignments=["intake.topics=t", "intake.format=csv", "intake.columns=a,y", "intake.delimiter=;",
                     "intake.types=a=text", "intake.target=y"]
    ).intake  # fmt: skip
    lines = list(command._lines(settings, {"features": '*,-"x'}))
    assert lines[0] == 'topics = "t"'
    read = tomllib.loads("\n".join(lines))
    assert msgspec.convert(read, IntakeSettings) == msgspec.structs.replace(settings, features='*,-"x')
    assert [line for line in lines if line.startswith("#")] == ['# id = "@place"', '# stream = "@topic"']
    assert [line for line in lines if line.endswith("# proposed")] == ['features = "*,-\\"x"   # proposed']


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"time;amount\n1;2\n", "; if it is CSV, set intake.format=csv, and its columns in intake.columns"),
        (b'"a",1', "; if it is CSV, set intake.format=csv, and its columns in intake.columns"),
        (b'"{\\"a\\": 1}"', "; the object is encoded twice: send it without quotes around it"),
        (b'\xef\xbb\xbf{"a": ', "; the message is not complete"),
        (b"PING", "; intake.format can be json, json-lines, csv, avro, protobuf and json-schema"),
        (
            b"cpu,host=a load=1.5 1700000000",
            "; intake.format can be json, json-lines, csv, avro, protobuf and json-schema",
        ),
        (b"<e><age>38</age></e>", "; intake.format can be json, json-lines, csv, avro, protobuf and json-schema"),
        (b"\x83\xa3age\x26", "avro, protobuf and json-schema; no other binary format is read"),
        (b"\x1f\x8b\x08\x00\x00", "let Kafka compress it (compression.type), or send it unpacked"),
        (
            b'{"name": "Z\xfcrich, and more"}',
            "got byte 0xfc at 11; write the message in UTF-8, not in another encoding such as Windows-1252",
        ),
    ],
)
def test_a_message_that_is_rejected_as_a_whole(value: bytes, says: str) -> None:
    ((_, _, detail),) = tried([value]).rejected
    assert detail.endswith(says)


def test_numbers_in_the_notation_of_people_are_proposed_as_such() -> None:
    rows = [{"price": f"{n},50 €", "size": f"{n} m2", "y": n % 2} for n in range(COUNT)]
    trial = tried(rows)
    assert trial.proposal == {"target": "y", "types": "price=comma,size=point"}
    assert orjson.loads(trial.events[1][1])["x"] == {"price": 1.5, "size": 1.0}
    assert trial.rejected == trial.doubts == []


@pytest.mark.parametrize(
    ("wrapping", "wrap"),
    [
        ("avro", lambda n: {"age": {"long": n} if n % 2 else {"double": n + 0.5}, "city": {"string": f"c{n % 3}"}}),
        ("dynamodb", lambda n: {"age": {"N": str(n)}, "city": {"S": f"c{n % 3}"}}),
        ("mongodb", lambda n: {"age": {"$numberInt": str(n)}, "at": {"$date": at(n).isoformat()}, "city": "c"}),
    ],
)
def test_values_that_are_wrapped_in_their_types_are_proposed_as_such(
    wrapping: str, wrap: Callable[[int], dict[str, Any]]
) -> None:
    trial = tried([wrap(n) for n in range(COUNT)])
    assert trial.proposal["unwrap"] == wrapping
    assert trial.made == COUNT and trial.rejected == []
    assert isinstance(orjson.loads(trial.events[1][1])["x"]["age"], int)


def test_messages_of_several_kinds_are_to_be_checked() -> None:
    kinds = [
        {"kind": "request", "no": 1, "age": 3},
        {"kind": "outcome", "no": 1, "paid": "y"},
        {"kind": "ping", "no": 1},
    ]
    rows = [kinds[n % 3] for n in range(COUNT)]
    (doubt,) = (one for one in tried(rows).doubts if one.startswith("kind: "))
    assert "messages with 'request' and 'outcome' have other fields" in doubt and "where = kind=request" in doubt
    assert not [one for one in tried(rows, "intake.where=kind=request").doubts if one.startswith("kind: ")]
    optional = [{"kind": "ab"[n % 2], "a": n % 5, **({"b": 1} if n % 4 == 0 else {})} for n in range(COUNT)]
    assert not [one for one in tried(optional).doubts if one.startswith("kind: ")]


def test_a_trial_is_of_the_selected_messages() -> None:
    rows = [{"type": "request" if n % 3 else "outcome", "a": n % 5, "y": n % 2} for n in range(COUNT)]
    trial = tried(rows, "intake.where=type=request")
    assert (trial.messages, trial.documents, trial.made) == (COUNT, 40, 40)


def test_messages_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps({"a": n % 5, "y": n % 2}) for n in range(30)) + b"\n\nbroken\r\n")
    found = CliRunner().invoke(command.intake, ["try", "--file", str(file)], standalone_mode=False)
    assert "31 messages with 30 documents" in found.output
    assert 'topics = "my-topic"' in found.output and 'target = "y"   # proposed' in found.output
    assert "my-topic[0]@31: not_json: expected JSON, got b'broken'" in found.output
    assert found.return_value == 0
    with pytest.raises(InputError, match=r"expected messages on .*none\.jsonl, found none"):
        (tmp_path / "none.jsonl").touch()
        attempt(load(assignments=["intake.topics=t"]), 10, tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        attempt(load(assignments=["intake.topics=t"]), 10, tmp_path / "other.jsonl")


@pytest.mark.parametrize("given", ["intake.ts=when", "intake.id=/no/ID", "intake.target=z", "intake.records=rows"])
def test_a_mapping_that_fits_no_message_fails(given: str, tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps({"a": n % 5, "y": n % 2}) for n in range(30)))
    found = CliRunner().invoke(command.intake, ["try", "--file", str(file), "--set", given], standalone_mode=False)
    assert found.return_value == DIFFERS, found.output


def test_what_is_set_is_not_proposed() -> None:
    trial = tried(
        [payment(n) for n in range(COUNT)], "intake.target=amount", "intake.id=@key", "intake.features=*,-merchant"
    )
    assert trial.proposal == {"ts": "timestamp"}


@pytest.mark.parametrize("count", [COUNT, 2_500])
def test_an_id_is_left_out_however_many_messages_there_are(count: int) -> None:
    trial = tried(
        [{"userId": n, "code": f"c{n}", "a": n % 3, "n": n, "y": n % 2} for n in range(count)], "intake.id=@key"
    )
    assert trial.proposal == {"target": "y", "features": "*,-userId,-code"}


def test_objects_that_are_empty_in_some_messages_are_kept() -> None:
    lines = [
        {"age": 20, "addr": {"zip": "00100", "geo": {"lat": 60.1}}, "ok": "y"},
        {"age": 21, "addr": {"zip": "00100", "geo": {}}, "ok": "n"},
        {"age": 22, "addr": {}, "ok": "y"},
        {"age": 23, "addr": {"zip": "00200", "geo": {"lat": 61.5}}, "ok": "n"},
    ]
    trial = tried([lines[n % 4] for n in range(COUNT)], "intake.target=ok", "intake.features=*")
    assert trial.proposal == {} and trial.rejected == [] and trial.made == COUNT
    assert [one.name for one in trial.fields] == ["age", "/addr/zip", "/addr/geo/lat", "ok"]


def test_several_objects_in_a_message_are_lines() -> None:
    trial = tried([b'{"a": 1, "y": 2}\n{"a": 2, "y": 3}\n'] * 30)
    assert trial.proposal == {"format": "json-lines", "target": "y"} and trial.made == 60
    assert tried([b'{"a": 1, "y": 2}\noops\n'] * 30).proposal == {}


def test_nothing_follows_from_names_alone() -> None:
    trial = tried([{"id": n % 2, "ts": "soon", "label": None, "at": True, "y": [1]} for n in range(COUNT)])
    assert trial.proposal == {"features": "*,-y"}


def test_what_only_a_person_can_decide_is_to_be_checked() -> None:
    rows = [
        {"age": str(20 + n % 9), "id": n % 40, "at_sea": 1_700_000_000_000 + n, "x": n % 3, "y": n % 2}
        for n in range(COUNT)
    ]
    assert tried(rows).doubts == [
        'age: texts of whole numbers, such as "20", are categories; if they are numbers, state it: types = age=number',
        "id: is a feature, because its values repeat; if it names the event or its object, leave it out: "
        "features = *,-id",
        "at_sea: is a feature, although its values can be times (ms); if they are, leave it out: features = *,-at_sea",
    ]
    assert tried(rows, "intake.types=age=text", "intake.features=*,-id,-at_sea").doubts == []


def test_messages_without_content_are_to_be_checked() -> None:
    inside = {"batch": [{"a": 1}], "data": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9w"}
    trial = tried([{**inside, "data": f"{inside['data']}{n:04}", "source": "s"} for n in range(COUNT)])
    assert trial.left_out["data"] == "base64: send what it contains, so that its fields can become features"
    (doubt,) = trial.doubts
    assert doubt.startswith("no feature has two values, so a model can learn nothing")


def test_labels_in_messages_of_their_own_are_to_be_checked() -> None:
    rows = [{"id": n // 2, "a": n % 7} if n % 2 else {"id": n // 2, "label": "up"} for n in range(COUNT)]
    assert any("label: is probably in other messages" in doubt for doubt in tried(rows, "intake.target=label").doubts)


def test_labels_that_share_fields_with_the_events_are_to_be_checked() -> None:
    """Requests and their outcomes on one topic, with a type and the id of the request in both."""
    rows = [
        {"type": "outcome", "request_id": f"q{n // 2}", "approved": n % 4 == 1}
        if n % 2
        else {"type": "request", "request_id": f"q{n // 2}", "age": n % 7, "note": None if n % 3 else "x"}
        for n in range(COUNT)
    ]
    assert any("approved: is probably in other messages" in doubt for doubt in tried(rows).doubts)
    optional = [{"a": n % 7, "b": n % 3 or None, "approved": n % 5 == 0 if n % 2 else None} for n in range(COUNT)]
    (doubt,) = tried(optional).doubts
    assert doubt.startswith(f"approved: {COUNT // 2} of {COUNT} messages have no value; such an event is predicted")
    assert tried(optional, "intake.labels_topics=l", "intake.labels_id=a", "intake.labels_target=b").doubts == []


def test_texts_that_repeat_and_stand_for_numbers_or_times_are_to_be_checked() -> None:
    rows = [
        {"rate": f"{n % 9}%", "day": f"{1 + n % 9:02}.03.2026", "level": f">{n % 3}", "y": n % 2} for n in range(COUNT)
    ]
    assert tried(rows).doubts == [
        'rate: texts such as "0%" are categories; if they are numbers, set types = rate=point',
        'day: dates or times, such as "01.03.2026", are categories; to leave it out: features = *,-day',
    ]


def test_a_column_without_values_is_left_out() -> None:
    rows = [f"{n % 7};{n % 2};".encode() for n in range(COUNT)]
    trial = tried(rows, "intake.format=csv", "intake.columns=a,y,end", "intake.delimiter=;")
    assert trial.left_out == {"end": "no value in any message"} and trial.rejected == []


def test_names_that_are_values_are_to_be_checked() -> None:
    rows = [{"a": n % 7, "spent": {f"user{n}": 1.5 + n}, "y": n % 2} for n in range(COUNT)]
    (doubt,) = tried(rows).doubts
    assert doubt == (
        f"spent: {COUNT} of its fields, such as /spent/user0, are in few messages each, and each is a feature; if "
        "their names are values, leave them out: features = *,-spent"
    )


def test_times_of_open_telemetry_are_proposed() -> None:
    start = int(at(0).timestamp()) * 10**9
    trial = tried([{"timeUnixNano": str(start + n), "a": n % 3, "y": n % 2} for n in range(COUNT)])
    assert trial.proposal == {"target": "y", "ts": "timeUnixNano", "ts_unit": "ns"}


def test_events_in_an_array_inside_an_object_are_events() -> None:
    rows = [[{"a": n % 3, "y": n % 2}, {"a": 1, "y": 0}] for n in range(COUNT)]
    for path, around in (("batch", lambda row: {"batch": row}), ("/a/b", lambda row: {"a": {"b": row}, "count": 2})):
        trial = tried([around(row) for row in rows], f"intake.records={path}")
        assert (trial.documents, trial.made, trial.rejected) == (2 * COUNT, 2 * COUNT, [])
        assert trial.proposal == {"target": "y"} and "count" not in [one.name for one in trial.fields]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": 1}, "batch: expected an array of objects (intake.records), got nothing"),
        ({"batch": 1}, "batch: expected an array of objects (intake.records), got 1"),
        ([1], "batch: expected an array of objects (intake.records), got nothing"),
        ({"batch": [1]}, "expected an object with fields, got 1"),
    ],
)
def test_messages_without_the_array_are_rejected(value: Any, says: str) -> None:
    ((_, _, detail),) = tried([value], "intake.records=batch").rejected
    assert detail == says


def test_labels_of_another_topic_are_no_missing_target(tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_bytes(b"".join(orjson.dumps({"order": n, "amount": n % 7}) + b"\n" for n in range(COUNT)))
    labels = ("intake.labels_topics=paid", "intake.labels_target=paid", "intake.labels_id=order", "intake.id=order")
    for given, line in (
        ((), "# target: no field has the name of a target; without one, events have no labels, unless labels_topics"),
        (labels, "# target: labels come from labels_topics"),
    ):
        words = ["try", "--file", str(file), *(word for one in given for word in ("--set", one))]
        found = CliRunner().invoke(command.intake, words, standalone_mode=False)
        assert line in found.output and "labels: " not in found.output  # the file has only events


@pytest.mark.parametrize(("of_label", "belonging"), [(lambda n: n // 2, COUNT), (lambda n: f"no. {n}", 0)])
def test_labels_of_another_topic_are_tried_with_the_events(
    of_label: Callable[[int], Any], belonging: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def messages(_: Settings, name: str, count: int) -> list[Message]:
        orders = [{"order": n, "amount": n % 7} for n in range(COUNT)]
        outcomes = [{"of": {"order": of_label(n)}, "paid": "yes", "amount": "text"} for n in range(COUNT)]
        sent = {"orders": orders, "paid": [*outcomes, {"paid": "no"}]}[name]
        return [Message(name, 0, n, None, orjson.dumps(one), 0) for n, one in enumerate(sent[:count])]

    monkeypatch.setattr("glasstream.app.operate.intake._sample", messages)
    monkeypatch.setattr("glasstream.app.command.expect.expect_broker", lambda settings: None)
    given = ("topics=orders", "id=order", "labels_topics=paid", "labels_id=/of/order")
    words = ["try", *(word for one in given for word in ("--set", f"intake.{one}")), "--set"]
    nothing = CliRunner().invoke(command.intake, [*words, "intake.labels_target=cart"], standalone_mode=False)
    assert "labels: 0, " in nothing.output and nothing.return_value == DIFFERS
    found = CliRunner().invoke(command.intake, [*words, "intake.labels_target=paid"], standalone_mode=False)
    said = found.output
    assert found.return_value == 0
    assert f"{COUNT} messages with {COUNT} documents" in said and f"events: {COUNT}\n    orders: " in said
    assert f"labels: {COUNT}, of which {belonging} belong to these events\n    orders: " in said
    assert ("raise --messages" in said) == (belonging == 0)
    assert f"rejected: 1\n    paid[0]@{COUNT}: " in said
