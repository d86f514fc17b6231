"""Encoding of the JSON records: fields in a fixed order, strict decoding, no NaN."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
import orjson
from msgspec.structs import asdict

from glasstream_topics.errors import RecordError

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R", bound=msgspec.Struct)

OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY  # records may hold numpy scalars: converting them costs more
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Json(Generic[P, R]):
    """The JSON records of one output topic.

    The type states each field once. Its first field is `schema_version`.

    Parameters
    ----------
    topic
        name of the topic, for error messages.
    record
        type of a record.
    last
        name of a field that follows the optional fields in the bytes, and not in the type.

    Attributes
    ----------
    versions
        schema versions that the type can hold, oldest first; new records have the newest.
    """

    def __init__(self, topic: str, record: Callable[Concatenate[Any, P], R], last: str = "") -> None:
        self.topic = topic
        self.record = cast("type[R]", record)
        self.versions: tuple[int, ...] = get_args(get_type_hints(record)["schema_version"])
        fields = msgspec.structs.fields(self.record)
        self._always: dict[str, Any] = {field.name: None for field in fields if field.required}
        self._always["schema_version"] = self.versions[-1]
        self._optional = tuple(field.name for field in fields if not field.required)
        self._objects = tuple(name for name, kind in get_type_hints(self.record).items() if _is_object(kind))
        self._last = last
        self._decoder = msgspec.json.Decoder(self.record)

    def encode(self, *_: P.args, **fields: P.kwargs) -> bytes:
        """Return the bytes of a record: objects sorted by name, and no optional field that is None.

        Raises
        ------
        RecordError
            NaN, an infinity, another value that JSON cannot hold, or a field that is missing or unknown.
        """
        given: dict[str, Any] = fields
        for name in self._objects:
            if given.get(name):
                given[name] = dict(sorted(given[name].items()))
        return self.write(given)

    def write(self, fields: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record, as `encode` does, from fields with sorted objects that mypy does not check."""
        record = {**self._always, **fields}
        required, length = len(fields), len(self._always)
        for name in self._optional:
            if name in fields:
                required -= 1
                if (value := record.pop(name)) is not None:
                    record[name] = value
                    length += 1
        if len(record) != length or required != len(self._always) - 1:
            names = ", ".join(self.record.__struct_fields__[1:])
            raise RecordError(f"{self.topic}: expected the fields {names}, got {', '.join(fields)}")
        if self._last:
            record[self._last] = record.pop(self._last)
        return encode_record(self.topic, record)

    def decode(self, data: bytes) -> R:
        """Decode a record.

        Raises
        ------
        RecordError
            the bytes are not such a record.
        """
        try:
            return self._decoder.decode(data)
        except _UNREADABLE as error:
            raise _unreadable(self.topic, error) from error


def _is_object(kind: object) -> bool:
    return dict in [get_origin(one) for one in (kind, *get_args(kind))]


class Messages(Generic[T]):
    """JSON messages that users send: one element, or an array of elements.

    Parameters
    ----------
    expected
        what a message is, for errors.
    element
        type of an element.
    """

    def __init__(self, expected: str, element: type[T]) -> None:
        self._expected = expected
        self._one = msgspec.json.Decoder(element)
        self._many = msgspec.json.Decoder(list[element])  # type: ignore[valid-type]

    def decode(self, data: bytes) -> list[T]:
        """Decode a valid message.

        Raises
        ------
        RecordError
            an element is not one of these.
        """
        try:
            return self._many.decode(data) if data[:1] == b"[" else [self._one.decode(data)]
        except _UNREADABLE as error:
            raise RecordError(f"{self._expected}: {error}") from error


def encode_record(topic: str, record: object, nulls: int = 0) -> bytes:
    """Return the bytes of a record, with its keys in their order.

    Parameters
    ----------
    topic
        name of the topic, for error messages.
    record
        JSON values, numpy scalars and structs.
    nulls
        number of values that are None, if it is known.

    Raises
    ------
    RecordError
        JSON cannot hold a value.
    """
    try:
        data = orjson.dumps(record, _fields, OPTIONS)
    except orjson.JSONEncodeError as error:
        raise RecordError(f"{topic}: expected JSON values: {error}") from error
    if data.count(b"null") != nulls:  # orjson writes NaN and the infinities as null
        refuse_non_finite(topic, record)
    return data


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a nested struct, with `omit_defaults` without the optional ones that are None."""
    fields = asdict(value)
    if value.__struct_config__.omit_defaults:
        for name in value.__struct_fields__[-len(value.__struct_defaults__) :]:
            if fields[name] is None:
                del fields[name]
    return fields


def decode_record(topic: str, data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a record. Fields that a later release adds under the same version are skipped.

    Raises
    ------
    RecordError
        the bytes are not JSON or not such a record.
    """
    try:
        return decoder.decode(data)
    except _UNREADABLE as error:
        raise _unreadable(topic, error) from error


def _unreadable(topic: str, error: Exception) -> RecordError:
    return RecordError(f"{topic}: expected a record of a version this reader knows: {error}")


def refuse_non_finite(topic: str, value: object, where: str = "$") -> None:
    """Raise RecordError if a JSON value contains a NaN or an infinity."""
    if isinstance(value, float) or hasattr(value, "dtype"):
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise RecordError(f"{topic}: expected a finite number at {where}, got {value}")
    elif isinstance(value, msgspec.Struct):
        refuse_non_finite(topic, asdict(value), where)
    elif isinstance(value, dict):
        for name, inner in value.items():
            refuse_non_finite(topic, inner, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            refuse_non_finite(topic, inner, f"{where}[{index}]")
