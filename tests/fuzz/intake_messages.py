"""Messages of other programs, as the intake reads them."""

import io
import random
from functools import cache
from typing import Any

import fastavro
import orjson

from glasstream.app.configuration import load
from glasstream.events.decode import decode
from glasstream.events.mapping.formats import Format, plain_format
from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.decoders import Plain
from glasstream.kafka.stages.intake import Intake
from glasstream_topics import events_dead
from tests.fuzz.mutations import mutate_bytes
from tests.fuzz.target import Target

_DOCUMENT = {"a": 1.5, "b": "x", "c": {"d": True, "e": {}}, "at": "2026-01-02", "k": 7, "y": "no"}
_TOKENS = (
    b"NaN", b"1e400", b"-1e61", b"9" * 400, b"18446744073709551616", b"-0", b"null", b"{}", b"[]", b'"\\ud800"',
    b'"\xe2\x80\xa8"', b'"\x00"', b"[" * 2_000, b'{"a":' * 500, b"\xff\xfe", b"01067", b"1_0", b"1E5", b'"', b"\r",
    b",,", b"true", b'"' + b"x" * 5_000 + b'"', b"0000-00-00", b"9999-12-31T23:59:59.999+99:99", b"=1+1",
    b"\xef\xbb\xbf", b"[" * 1_010 + b"]" * 1_010, b'{"a":' * 500 + b"1" + b"}" * 500, b'{"N":"7"}',
    b'{"L":[{"NULL":1}]}', '"1.234,5 €"'.encode(),
)  # fmt: skip
_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": ["null", "double"]},
        {"name": "b", "type": "string"},
        {"name": "c", "type": {"type": "map", "values": "long"}},
        {"name": "k", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "p", "type": {"type": "fixed", "name": "f", "size": 8, "logicalType": "decimal", "precision": 18}},
        {"name": "y", "type": {"type": "enum", "name": "e", "symbols": ["no", "yes"]}},
    ],
}


class IntakeMessages(Target):
    """A message becomes events that the learner can decode, or a dead letter; the messages around it arrive."""

    name = "intake_messages"
    refused = ()
    share = 8.0

    def __init__(self) -> None:
        rows = b'1.5,x,2026-01-02,7,no\r\n2.5,"y, z",2026-01-03,8,yes\r\n'
        avro = io.BytesIO()
        fastavro.schemaless_writer(
            avro, _SCHEMA, {"a": 1.5, "b": "x", "c": {"d": 1}, "k": 7, "p": b"\0" * 8, "y": "no"}
        )
        line = orjson.dumps(_DOCUMENT)
        self._cases = [
            ("json", line),
            ("json", b"[" + line + b"," + line + b"]"),
            ("json-lines", line + b"\n" + line),
            ("csv", rows),
            ("avro", avro.getvalue()),
        ]

    def run(self, random: random.Random) -> str:
        name, good = random.choice(self._cases)
        bad = self._mutated(random, good)
        settings = self._settings(random, name)
        stage = Intake(settings, lambda _: _format(settings, name), lambda types: types)
        around = len(self._events(stage, settings, [good]))
        found = self._events(stage, settings, [good, bad, good])
        assert len(found) >= 2 * around, "a message was lost"
        return "ok" if len(found) > 2 * around else "dead letter"

    def _mutated(self, random: random.Random, good: bytes) -> bytes:
        if random.random() < 0.4:
            return mutate_bytes(random, good)
        if random.random() < 0.2:
            return good.replace(b"1.5", random.choice(_TOKENS))
        at = random.randrange(len(good) + 1)
        return good[:at] + random.choice(_TOKENS) + good[at + random.choice((0, 0, 1, 3, 10)) :]

    def _settings(self, random: random.Random, name: str) -> Settings:
        parts = random.choice(((), ("intake.id=k",), ("intake.ts=at",), ("intake.stream=b",), ("intake.ts=k",)))
        types = random.choice(
            (
                *((), ("intake.types=a=number,b=text",), ("intake.types=a=text,k=boolean",)),
                *(("intake.types=a=comma,b=point",), ("intake.where=y=no|yes",), ("intake.unwrap=dynamodb",)),
            )
        )
        return _loaded((f"intake.format={name}", *parts, *types))

    def _events(self, stage: Intake, settings: Settings, values: list[bytes]) -> list[Any]:
        events: list[Any] = []
        for record in stage.handle([Message("t", 0, n, None, value, 0) for n, value in enumerate(values)]):
            if record.topic.endswith("dead"):
                events_dead.decode(record.headers)
                continue
            assert record.value is not None and len(record.value) <= settings.limits.message_bytes
            decoded = decode(record.value, settings.limits.message_bytes)
            assert not decoded.rejected, "the intake made an event that the learner rejects"
            events += [event for _, event in decoded.events]
        return events


@cache
def _loaded(assignments: tuple[str, ...]) -> Settings:
    own = ("intake.topics=t", "intake.target=y", "intake.schema=unused", "intake.columns=a,b,at,k,y", "topics.events=1")
    return load(assignments=[*own, *assignments])


def _format(settings: Settings, name: str) -> Format:
    return plain_format(settings.intake, name) or Plain(_read)


def _read(topic: str, value: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(value), _SCHEMA, None)
