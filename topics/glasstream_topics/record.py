"""Encoding of the JSON records: fields in a fixed order, strict decoding, no NaN."""

import math
from typing import Final, TypeVar

import msgspec
import orjson

from glasstream_topics.errors import RecordError

T = TypeVar("T")

_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY  # records may hold numpy scalars: converting them costs more


def encode_record(topic: str, record: object, nulls: int = 0) -> bytes:
    """Return the bytes of a record, with its keys in their order.

    Parameters
    ----------
    topic
        name of the topic, for error messages.
    record
        JSON values and numpy scalars.
    nulls
        number of values that are None, if it is known.

    Raises
    ------
    RecordError
        JSON cannot hold a value.
    """
    try:
        data = orjson.dumps(record, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        raise RecordError(f"{topic}: expected JSON values: {error}") from error
    if data.count(b"null") != nulls:  # orjson writes NaN and the infinities as null
        refuse_non_finite(topic, record)
    return data


def decode_record(topic: str, data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a record. Fields that a later release adds under the same version are skipped.

    Raises
    ------
    RecordError
        the bytes are not JSON or not such a record.
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{topic}: expected a record of a version this reader knows: {error}") from error


def refuse_non_finite(topic: str, value: object, where: str = "$") -> None:
    """Raise RecordError if a JSON value contains a NaN or an infinity."""
    if isinstance(value, float) or hasattr(value, "dtype"):
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise RecordError(f"{topic}: expected a finite number at {where}, got {value}")
    elif isinstance(value, dict):
        for name, inner in value.items():
            refuse_non_finite(topic, inner, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            refuse_non_finite(topic, inner, f"{where}[{index}]")
