"""Formats that need no schema registry: JSON, JSON lines, CSV. A format turns the value of a message into documents."""

import codecs
import csv
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson

from glasstream.events.json_advice import NO_NAN, json_advice
from glasstream.events.mapping.fields import ABSENT, Path, parse_path, path_text, value_at
from glasstream.events.mapping.misfit import Misfit, shown
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.events.mapping.unwrap import Wrapping, unwrap
from glasstream_topics.events_dead import Reason

Documents = Sequence[dict[str, Any] | Misfit]
LEVELS = 100
"""Largest number of objects and arrays inside each other."""


_CSV = re.compile(rb"(?![^\r\n]*=)[^{\[<\xef\r\n][^\r\n]*[,;\t|]")
"""Beginning of a message that can be CSV, rather than pairs of names and values."""
_JSON = re.compile(rb"\s*[{\[\"0-9tfn-]")
"""Beginning of a message that can be JSON."""
_FORMATS = "json, json-lines, csv, avro, protobuf and json-schema"


class Format(ABC):
    """Decoder of the values of one source."""

    prepares = False
    """Whether `prepare` does anything."""

    def prepare(self, messages: Sequence[tuple[str, bytes]]) -> None:  # noqa: B027  # most formats need none
        """Prepare to read these messages, topic and value each, which is cheaper for some formats than one by one.

        Raises
        ------
        UnavailableError
            What is needed to read them cannot be reached now.
        """

    @abstractmethod
    def read(self, topic: str, value: bytes) -> tuple[Documents, bool]:
        """Return the documents of a message, and whether it can hold several.

        Raises
        ------
        Misfit
            The message as a whole cannot be read.
        UnavailableError
            What is needed to read it cannot be reached now.
        """


class Json(Format):
    """An object, or an array of objects.

    Parameters
    ----------
    records
        Path of an array of objects in the object of a message, each of which is a document; None for the message
        itself.
    nan_as_null
        Whether NaN and the infinities are missing values. JSON does not have them.
    wrapping
        See `glasstream.events.mapping.unwrap.unwrap`.
    """

    def __init__(
        self, records: Path | None = None, *, nan_as_null: bool = False, wrapping: Wrapping | None = None
    ) -> None:
        self.records = records
        self.parse = partial(_json, nan_as_null=nan_as_null, wrapping=wrapping)

    def read(self, topic: str, value: bytes) -> tuple[Documents, bool]:
        """Return the documents of a message: see `Format`."""
        found = self.parse(value)
        if self.records is not None:
            found = value_at(found, self.records)
            if not isinstance(found, list):
                raise Misfit(
                    Reason.NOT_AN_OBJECT,
                    f"{path_text(self.records)}: expected an array of objects (intake.records), got "
                    f"{'nothing' if found is ABSENT else shown(found)}",
                )
        if type(found) is dict:
            return (found,), False
        if isinstance(found, list):
            return [one if isinstance(one, dict) else _no_object(one) for one in found], True
        raise _no_object(found)


class JsonLines(Format):
    """One object per line; empty lines are skipped.

    Parameters
    ----------
    nan_as_null, wrapping
        See `Json`.
    """

    def __init__(self, *, nan_as_null: bool = False, wrapping: Wrapping | None = None) -> None:
        self.parse = partial(_json, nan_as_null=nan_as_null, wrapping=wrapping)

    def read(self, topic: str, value: bytes) -> tuple[Documents, bool]:
        """Return the documents of a message: see `Format`."""
        return [_line(line, self.parse) for line in value.splitlines() if line.strip()], True


class Csv(Format):
    """One row per line, in the columns of the settings.

    Parameters
    ----------
    columns
        Names of the columns.
    delimiter
        Character between the columns.
    """

    def __init__(self, columns: Sequence[str], delimiter: str) -> None:
        self.columns = tuple(columns)
        self.delimiter = delimiter
        self._header = list(columns)

    def read(self, topic: str, value: bytes) -> tuple[Documents, bool]:
        """Return the documents of a message: see `Format`.

        Only line feeds and carriage returns outside quotes end a row. Blank rows and a header are skipped.
        """
        documents: list[dict[str, Any] | Misfit] = []
        text = io.StringIO(_text(value).removeprefix("\ufeff"), newline="")
        rows = csv.reader(text, delimiter=self.delimiter, strict=True)
        try:
            for row in rows:
                if len(row) == len(self.columns):
                    if row != self._header and (len(row) > 1 or row[0].strip()):
                        documents.append(dict(zip(self.columns, row, strict=True)))
                elif len(row) > 1 or "".join(row).strip():
                    ends = len(row) > len(self.columns) and not any(map(str.strip, row[len(self.columns) :]))
                    todo = (
                        "; the row ends in a separator: add a name to intake.columns, and leave out this column"
                        if ends
                        else ""
                    )
                    documents.append(
                        Misfit(
                            Reason.BAD_ENCODING,
                            f"expected {len(self.columns)} columns ({', '.join(self.columns)}), got {len(row)}: "
                            f"{shown(self.delimiter.join(row))}{todo}",
                        )
                    )
        except csv.Error as error:
            misfit = Misfit(
                Reason.BAD_ENCODING,
                f"expected CSV, got line {rows.line_num} that cannot be read, so that it and the rows below are "
                f"rejected: {error}",
            )
            if not documents:
                raise misfit from error
            documents.append(misfit)
        return documents, True


def plain_format(settings: IntakeSettings, name: str) -> Format | None:
    """Return the format of this name, or None if it needs a schema."""
    nan_as_null = settings.nan == "null"
    if name == "json":
        records = None if settings.records is None else parse_path(settings.records)
        return Json(records, nan_as_null=nan_as_null, wrapping=settings.unwrap)
    if name == "json-lines":
        return JsonLines(nan_as_null=nan_as_null, wrapping=settings.unwrap)
    if name == "csv":
        return Csv([column.strip() for column in (settings.columns or "").split(",")], settings.delimiter)
    return None


def _json(value: bytes, *, nan_as_null: bool, wrapping: Wrapping | None) -> Any:
    value = value.removeprefix(codecs.BOM_UTF8)
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        _text(value)
        advice = json_advice(error)
        if advice != NO_NAN or not nan_as_null:
            todo = f"{advice}, or set intake.nan=null" if advice == NO_NAN else advice
            raise Misfit(
                Reason.NOT_JSON,
                f"expected JSON, got {shown(value)}: {error}{_advice(value) or todo}",
            ) from error
        value = _NO_NUMBER.sub(lambda found: found["string"] or b"null", value)
        found = _json(value, nan_as_null=False, wrapping=None)
    if value.count(b"{") + value.count(b"[") > LEVELS:
        expect_flat(found)
    return found if wrapping is None else unwrap(found, wrapping, nan_as_null=nan_as_null)


def expect_flat(found: Any) -> None:
    """Check that objects and arrays are not too deep inside each other for functions that call themselves.

    Raises
    ------
    Misfit
        There are more than `LEVELS`.
    """
    level = [found]
    for _ in range(LEVELS + 1):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise Misfit(Reason.NESTED_VALUE, f"expected at most {LEVELS} objects and arrays inside each other, got more")


_NO_NUMBER = re.compile(rb'(?P<string>"(?:[^"\\]++|\\.)*+"?)|-?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE | re.DOTALL)
"""Numbers that JSON does not have. Strings are found, too, so that nothing inside of them is."""


def _advice(value: bytes) -> str:
    """Return what to do about a message that seems to be CSV."""
    if _CSV.match(value):
        return "; if it is CSV, set intake.format=csv, and its columns in intake.columns"
    return "" if _JSON.match(value) else f"; intake.format can be {_FORMATS}"


def _line(line: bytes, parse: Callable[[bytes], Any]) -> dict[str, Any] | Misfit:
    try:
        found = parse(line)
    except Misfit as misfit:
        return misfit
    return found if isinstance(found, dict) else _no_object(found)


def _no_object(found: Any) -> Misfit:
    todo = "; the object is encoded twice: send it without quotes around it" if _is_json(found) else ""
    return Misfit(Reason.NOT_AN_OBJECT, f"expected an object with fields, got {shown(found)}{todo}")


def _is_json(found: Any) -> bool:
    return isinstance(found, str) and found.lstrip()[:1] in ("{", "[")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        binary = error.start == 0 or _CONTROL.search(value[:_BEGINNING])
        todo = (
            _binary(value) if binary else "; write the message in UTF-8, not in another encoding such as Windows-1252"
        )
        raise Misfit(
            Reason.NOT_UTF8, f"expected UTF-8, got byte 0x{value[error.start]:02x} at {error.start}{todo}"
        ) from None


_BEGINNING = 16
"""Number of bytes at the beginning of a message in which to look for bytes that no text has."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def _binary(value: bytes) -> str:
    """Return what to do about a message that is no text."""
    if value.startswith(b"\x1f\x8b"):
        return "; the message is packed with gzip: let Kafka compress it (compression.type), or send it unpacked"
    return f"; if the message is binary, set intake.format, which can be {_FORMATS}; no other binary format is read"
