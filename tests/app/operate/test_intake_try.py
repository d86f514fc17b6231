"""What `intake try` proposes for messages as other programs write them is what a person would choose."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.app.operate.intake import Trial, judge
from glasstream.events.message import Message
from glasstream.kafka.stages.schemas import format_maker

COUNT = 60
chance = random.Random(7)


def tried(values: Sequence[Any], *assignments: str) -> Trial:
    settings = load(assignments=["intake.topics=t", *assignments])
    messages = [
        Message("t", 0, n, None, value if isinstance(value, bytes) else orjson.dumps(value), 0)
        for n, value in enumerate(values)
    ]
    return judge(settings, messages, format_maker(settings.intake, {}))


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
