"""The topic reference and the AsyncAPI document, generated from the contracts.

`python -m glasstream.app.reference` writes them to `ops/docs`.
"""

import re
from collections.abc import Iterator
from inspect import getdoc
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, get_args

import msgspec
import orjson

from glasstream_topics import ALL, AVRO
from glasstream_topics.contract import DEFAULT_PREFIX, Topic

_SCHEMAS: Final = "../../topics/glasstream_topics/schemas"
_ASYNCAPI: Final = "3.0.0"
_JSON: Final = "application/schema+json;version=draft-2020-12"
_FORMATS: Final = {"json": _JSON, "raw": _JSON, "avro": "application/vnd.apache.avro+json;version=1.9.0"}


def generate() -> dict[str, bytes]:
    """Return the documents by their file names."""
    document = orjson.dumps(asyncapi(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    return {"topics.md": page().encode(), "asyncapi.json": document}


def page() -> str:
    """Return the topic reference as Markdown."""
    lines = [
        "# Topics",
        "",
        "This page is the reference of every topic and its records, for authors of producers and consumers and for",
        "operators. [asyncapi.json](asyncapi.json) is its machine-readable form. `python -m glasstream.app.reference`",
        "generates both from the contracts in `topics/`. Topic names begin with the prefix, which is `glasstream.` by",
        "default. The operator chooses all configuration that is not listed.",
        "",
        "| topic | holds | key | for |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| [{topic.name}](#{_anchor(topic.name)}) | {topic.holds} | {topic.key} | {', '.join(topic.read_by)} |"
        for topic in ALL
    ]
    for topic in ALL:
        lines += ["", f"## {topic.name}", "", *_facts(topic)]
        for record in topic.records:
            lines += ["", *_fields(record, f"**{record.__name__}**")]
            for part, places in parts(record).items():
                lines += ["", *_fields(part, f"**{part.__name__}**: {', '.join(places)}")]
    return "\n".join(lines) + "\n"


def asyncapi() -> dict[str, Any]:
    """Return the public topics as an AsyncAPI document."""
    public = [*(topic for topic in ALL if topic.public), *AVRO]
    return {
        "asyncapi": _ASYNCAPI,
        "info": {
            "title": "Glasstream",
            "version": "1",
            "description": "The topics that Glasstream reads and publishes. Consume with isolation.level="
            "read_committed; keys are UTF-8 text.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {_anchor(topic.name): _channel(topic) for topic in public},
        "operations": {
            f"{action}-{_anchor(topic.name)}": {
                "action": action,
                "channel": {"$ref": f"#/channels/{_anchor(topic.name)}"},
            }
            for topic in public
            for action in ("receive" if topic.received else "send",)
        },
    }


def _channel(topic: Topic) -> dict[str, Any]:
    schema = {"schemaFormat": _FORMATS[topic.codec], "schema": {"$ref": f"{_SCHEMAS}/{topic.schema_file}"}}
    # We define the headers of a dead letter; its value is the rejected message.
    message = {
        "name": topic.name,
        "title": topic.title,
        "summary": topic.holds,
        "bindings": {"kafka": {"key": {"type": "string"}}},
    }
    message |= {"headers": schema} if topic.codec == "raw" else {"payload": schema}
    if topic.codec == "avro":
        kafka = {"key": {"type": "string"}, "schemaIdLocation": "payload", "schemaIdPayloadEncoding": "confluent"}
        message |= {"contentType": "avro/binary", "bindings": {"kafka": kafka}}
    return {
        "address": topic.full_name(DEFAULT_PREFIX),
        "description": f"Key: {topic.key}. Partition: {topic.partitioning}.",
        "messages": {"record": message},
        "bindings": {"kafka": {"topic": topic.full_name(DEFAULT_PREFIX)}},
    }


def _facts(topic: Topic) -> Iterator[str]:
    kind = "public" if topic.public else "internal"
    yield f"{topic.holds[0].upper()}{topic.holds[1:]}; {kind}."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| key | {topic.key} |"
    yield f"| partition | {topic.partitioning} |"
    yield f"| partitions | {'1' if topic.partitions == 'one' else f'as many as `topics.{topic.partitions}`'} |"
    yield f"| written by | {', '.join(topic.written_by)} |"
    yield f"| read by | {', '.join(topic.read_by)} |"
    if topic.records:
        yield f"| schema | [{topic.schema_file}]({_SCHEMAS}/{topic.schema_file}) |"
    else:
        yield f"| form | {topic.codec}, version {topic.schema_version} |"
    if topic.published:
        copy = topic.in_avro()
        yield (
            f"| in [Avro](consuming.md#records-in-avro-with-registered-schemas) | `{copy.name}`, with the schema "
            f"[{copy.schema_file}]({_SCHEMAS}/{copy.schema_file}) |"
        )
    settings = ", ".join(f"`{name}={value}`" for name, value in sorted(topic.config.items()))
    yield f"| configuration | {settings} |"


def parts(record: type[msgspec.Struct]) -> dict[type[msgspec.Struct], list[str]]:
    """Return the types inside of a record, nearest first, each with the fields that hold it."""
    found: dict[type[msgspec.Struct], list[str]] = {}
    waiting = [record]
    while waiting:
        owner = waiting.pop(0)
        for field in msgspec.structs.fields(owner):
            for part in _structs(field.type):
                if part not in found:
                    waiting.append(part)
                found.setdefault(part, []).append(f"`{field.encode_name}` of {owner.__name__}")
    return found


def _structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the records in a type such as `list[Segment] | None`."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for argument in get_args(kind):
        yield from _structs(argument)


def _fields(record: type[msgspec.Struct], title: str) -> Iterator[str]:
    meanings = _meanings(record)
    yield title
    yield ""
    yield "| field | | meaning |"
    yield "|---|---|---|"
    described = (
        (field.encode_name, "" if field.required else "may be left out", _cell(meanings.get(field.name, "")))
        for field in msgspec.structs.fields(record)
    )
    for (need, meaning), fields in groupby(described, key=itemgetter(1, 2)):  # `low` and `high` share a description
        yield f"| {', '.join(f'`{name}`' for name, _, _ in fields)} | {need} | {meaning} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _meanings(record: type[msgspec.Struct]) -> dict[str, str]:
    """Return the description of each field of a record."""
    versions = {"schema_version": "version of this record's schema."}
    return (versions if "schema_version" in record.__struct_fields__ else {}) | meanings(getdoc(record) or "")


def meanings(docstring: str) -> dict[str, str]:
    """Return the description of each attribute in a numpydoc docstring, on one line."""
    attributes = docstring.partition("Attributes\n----------\n")[2]
    attributes = re.split(r"^.+\n-{3,}$", attributes, maxsplit=1, flags=re.MULTILINE)[0]
    described: dict[str, str] = {}
    names: list[str] = []
    for line in attributes.splitlines():
        if re.match(r"[a-z_]+(, [a-z_]+)*$", line):
            names = line.split(", ")
        elif line.strip():
            for name in names:
                described[name] = f"{described.get(name, '')} {line.strip()}".strip()
    return described


def _anchor(name: str) -> str:
    return name.replace(".", "")
