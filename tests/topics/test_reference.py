"""The generated references match the contracts and the settings, and describe each field of a record."""

import msgspec
import orjson

from glasstream.app.reference import DIRECTORY, findings, generate
from glasstream_topics import ALL, AVRO, incidents, reference


def test_the_documents_are_todays() -> None:
    assert findings() == [], "run `python -m glasstream.app.reference`"


def test_another_document_would_be_found(tmp_path) -> None:
    for name, content in generate().items():
        (tmp_path / name).write_bytes(content.replace(b"importance", b"relevance"))
    assert findings(tmp_path) == [*generate()]


def test_every_field_of_a_public_record_has_a_meaning() -> None:
    assert [topic for topic in ALL if topic.records] == [topic for topic in ALL if topic.public]
    page = reference.page()
    for topic in ALL:
        for record in topic.records:
            for part in (record, *reference.parts(record)):
                names = {field.name for field in msgspec.structs.fields(part)}
                assert names == set(reference._meanings(part)), part
                assert f"**{part.__name__}**" in page


def test_the_parts_of_a_record_are_those_of_its_schema() -> None:
    for record in (record for topic in ALL for record in topic.records):
        _, components = msgspec.json.schema_components([record])
        assert {record.__name__, *(part.__name__ for part in reference.parts(record))} == components.keys()
    assert reference.parts(incidents.Incident)[incidents.Condition] == ["`conditions` of Segment"]


def test_what_the_asyncapi_document_refers_to_is_there() -> None:
    document = orjson.loads((DIRECTORY / "asyncapi.json").read_bytes())
    assert len(document["channels"]) == len(document["operations"]) == sum(topic.public for topic in (*ALL, *AVRO))
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in document["channels"]
    for channel in document["channels"].values():
        message = channel["messages"]["record"]
        schema = message.get("payload", message.get("headers"))["schema"]["$ref"]
        assert (DIRECTORY / schema).is_file()
