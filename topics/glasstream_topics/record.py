"""What the JSON records have in common: bytes of a fixed order, strictly decoded, never a NaN."""

import math
from typing import Final, TypeVar

import msgspec
import orjson

from glasstream_topics.errors import RecordError

T = TypeVar("T")

_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY  # numpy scalars reach records; their Python types cost more to make


def encode_record(topic: str, record: object, nulls: int = 0) -> bytes:
    """Bytes of a record in the order of its keys.

    Parameters
    ----------
    topic
        name for messages.
    record
        JSON values and numpy scalars.
    nulls
        how many of them are None, if that is known.

    Raises
    ------
    RecordError
        a value that JSON cannot hold.
    """
    try:
        data = orjson.dumps(record, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        raise RecordError(f"{topic}: expected JSON values: {error}") from error
    if data.count(b"null") != nulls:  # orjson writes NaN and the infinities as null: else there is none
        refuse_non_finite(topic, record)
    return data


def decode_record(topic: str, data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The record in `data`. Fields that a later release adds under the same version are skipped.

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
    """Raise RecordError if there is a NaN or an infinity anywhere in a JSON value."""
    if isinstance(value, float) or hasattr(value, "dtype"):
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise RecordError(f"{topic}: expected a finite number at {where}, got {value}")
    elif isinstance(value, dict):
        for name, inner in value.items():
            refuse_non_finite(topic, inner, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            refuse_non_finite(topic, inner, f"{where}[{index}]")
