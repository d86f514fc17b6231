"""JSON Schemas of the public records and Avro schemas of the published ones, generated from their types and checked in.

`python -m glasstream_topics.schema` rewrites `topics/glasstream_topics/schemas/`. The schema of a version never
changes; `digests.json` holds its digest from the first day. To change a record, raise the version of its module, which
adds a file next to the old one. Only descriptions may change within a version.
"""

import re
import sys
from collections.abc import Mapping
from hashlib import sha256
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from glasstream_topics import ALL, avro
from glasstream_topics.contract import Topic
from glasstream_topics.errors import ContractError
from glasstream_topics.events import DIGEST

DIRECTORY: Final = Path(__file__).parent / "schemas"
DIGESTS: Final = "digests.json"

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: Final = "#/$defs/{name}"


def generate() -> dict[str, dict[str, Any]]:
    """Return the schemas of the current types: `predictions.v1` in JSON Schema, `predictions.v1.avsc` in Avro."""
    return {topic.schema_file.removesuffix(".json"): _schema(topic) for topic in ALL if topic.public} | {
        topic.in_avro().schema_file: avro.schema(topic) for topic in ALL if topic.published
    }


def path_of(name: str, directory: Path = DIRECTORY) -> Path:
    """Return the file of a schema."""
    return directory / (name if name.endswith(".avsc") else f"{name}.json")


def digest(schema: Mapping[str, Any]) -> str:
    """Return the sha256 of a schema without its titles and texts. The order of fields counts."""
    return sha256(orjson.dumps(_demands(schema))).hexdigest()


def findings(directory: Path = DIRECTORY) -> list[str]:
    """Return what is wrong with the checked-in schemas, one line each; none if they match the current types."""
    listed = _digests(directory)
    result: list[str] = []
    for name, schema in generate().items():
        path = path_of(name, directory)
        if name not in listed:
            result.append(
                f"{name}: expected its digest in {DIGESTS}, got none; run `python -m glasstream_topics.schema`"
            )
        elif listed[name] != digest(schema):
            result.append(f"{name}: its type changed and its version did not; raise its version in the topic's module")
        elif not path.exists() or path.read_bytes() != _text(schema):
            result.append(f"{name}: the checked-in schema is not today's; run `python -m glasstream_topics.schema`")
    for name, expected in listed.items():
        path = path_of(name, directory)
        if not path.exists():
            result.append(f"{name}: expected the schema of every version on the list, got none for this one")
        elif digest(orjson.loads(path.read_bytes())) != expected:
            result.append(f"{name}: the checked-in schema is not the one that was published under this version")
        before = _before(name)
        if before in listed and path.exists() and path_of(before, directory).exists():
            result += [
                f"{name}: expected a default of {field}, which only one of {name} and {before} has; without it, "
                "a schema registry refuses the new schema"
                for field in _without_default(
                    *(orjson.loads(path_of(one, directory).read_bytes()) for one in (before, name))
                )
            ]
    return result


def write(directory: Path = DIRECTORY) -> list[str]:
    """Rewrite the schemas of the current types, and return the names of those that changed.

    Raises
    ------
    ContractError
        a type changed under a version that was already published.
    """
    listed = _digests(directory)
    schemas = generate()
    changed_types = [name for name, schema in schemas.items() if listed.get(name, digest(schema)) != digest(schema)]
    if changed_types:
        raise ContractError(
            f"expected the schemas published as {', '.join(changed_types)}, got others: a changed record needs a new "
            f"version; raise its version in the topic's module"
        )
    written: list[str] = []
    for name, schema in schemas.items():
        path = path_of(name, directory)
        if not path.exists() or path.read_bytes() != _text(schema):
            path.write_bytes(_text(schema))
            written.append(name)
    listed.update({name: digest(schema) for name, schema in schemas.items()})
    (directory / DIGESTS).write_bytes(_text(dict(sorted(listed.items()))))
    return written


def _schema(topic: Topic) -> dict[str, Any]:
    references, parts = msgspec.json.schema_components(topic.records, ref_template=_REFERENCE)
    for part in parts.values():
        part["description"] = cleandoc(part["description"])  # as Python from 3.13 on does by itself
    record: dict[str, Any] = references[0]
    if not topic.json and topic.codec == "json":  # messages of users: an element, an array of them, or a mark
        element = record if len(references) == 1 else {"anyOf": references}
        marks = (_mark(name, meaning, named=name in topic.named) for name, meaning in topic.marks.items())
        record = {"anyOf": [*references, {"type": "array", "items": element}, *marks]}
    return {"$schema": _DIALECT, "title": topic.title, **record, "$defs": parts}


def _before(name: str) -> str:
    """Return the name of the Avro schema before this one; empty for the first, and for a JSON Schema."""
    found = re.fullmatch(r"(.+)[.]v(\d+)[.]avsc", name)
    return f"{found[1]}.v{int(found[2]) - 1}.avsc" if found else ""


def _without_default(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the fields that only one of two Avro schemas has, in a record that both have, and that have no default."""
    before, after = _records(old), _records(new)
    return sorted(
        f"{record}.{name}"
        for record in before.keys() & after.keys()
        for name, field in (before[record] | after[record]).items()
        if (name in before[record]) != (name in after[record]) and "default" not in field
    )


def _records(schema: Any) -> dict[str, dict[str, Any]]:
    """Return the fields of each record in an Avro schema, by their names."""
    if isinstance(schema, list):
        return dict(pair for one in schema for pair in _records(one).items())
    if not isinstance(schema, dict):
        return {}
    if schema["type"] != "record":
        return _records(schema.get("items", schema.get("values")))
    inner = dict(pair for field in schema["fields"] for pair in _records(field["type"]).items())
    return {schema["name"]: {field["name"]: field for field in schema["fields"]}, **inner}


def _mark(name: str, meaning: str, *, named: bool) -> dict[str, Any]:
    value = {"type": "string", "pattern": DIGEST} if named else {"const": True}
    return {
        "description": meaning,
        "type": "object",
        "properties": {name: value},
        "required": [name],
        "additionalProperties": False,
    }


def _demands(value: object) -> object:
    if isinstance(value, dict):
        # Under `properties` a key is the name of a field, which may be `title`; there its value is a schema.
        return {
            key: _demands(inner)
            for key, inner in value.items()
            if key not in ("title", "description", "doc") or isinstance(inner, dict)
        }
    if isinstance(value, list):
        return [_demands(inner) for inner in value]
    return value


def _digests(directory: Path) -> dict[str, str]:
    path = directory / DIGESTS
    return dict(orjson.loads(path.read_bytes())) if path.exists() else {}


def _text(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    for changed in write():
        sys.stdout.write(f"{changed} written\n")
