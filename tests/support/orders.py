"""Schemas of an order in several versions, for the tests of formats with schemas."""

import json
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def record(*fields: dict[str, Any]) -> str:
    """Return the Avro schema of an order."""
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


AGE = {"name": "age", "type": "int"}
INCOME = {"name": "income", "type": "double"}
V1 = record(AGE, INCOME)
ADDED = record(AGE, INCOME, {"name": "town", "type": ["null", "string"], "default": None})
REMOVED = record(AGE)
RENAMED = record(AGE, {"name": "salary", "type": "double", "aliases": ["income"]})
READER = record(
    {**AGE, "aliases": ["years"]}, {"name": "income", "type": "double", "aliases": ["salary"], "default": 0.0}
)


def json_schema(**properties: str) -> str:
    """Return the JSON Schema of an order whose properties have these types."""
    of = {name: {"type": kind} for name, kind in properties.items()}
    return json.dumps({"title": "Order", "type": "object", "properties": of})


def message(*fields: tuple[str, int, int], path: Path | None = None) -> Any:
    """Return the class of a message `shop.Order`, and write its descriptor set."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    for name, number, kind in fields:
        order.field.add(name=name, number=number, type=kind, label=1)  # type: ignore[arg-type]
    if path is not None:
        path.write_bytes(files.SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


LONG, DOUBLE, TEXT = 3, 1, 9
OF_AGE, OF_INCOME = ("age", 1, LONG), ("income", 2, DOUBLE)
