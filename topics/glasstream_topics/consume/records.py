"""Decode the bytes of a public topic into typed records, with errors that name the record's position.

`schema_version` is the major version of a record. It is raised when an older reader could misunderstand the new
record. Fields may be added within a version: a reader ignores unknown fields, and fills fields that an older record
lacks with the defaults of the type.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from glasstream_topics.errors import RecordError, VersionError
from glasstream_topics.record import Json

T = TypeVar("T", bound=msgspec.Struct)


class _Versioned(msgspec.Struct):
    schema_version: int


_version_of = msgspec.json.Decoder(_Versioned)


@dataclass(frozen=True)
class Records(Generic[T]):
    """Reader of the records of one topic.

    Attributes
    ----------
    json
        Records of the topic.
    """

    json: Json[..., T]

    def read(self, data: bytes, where: str) -> T:
        """Return the record in `data`.

        Parameters
        ----------
        where
            `topic[partition]@offset` of the message, for errors.

        Raises
        ------
        VersionError
            The record has a schema version that this release does not know.
        RecordError
            The record is damaged or malformed.
        """
        try:
            return self.json.decode(data)
        except RecordError as error:
            version = _stated_version(data)
            if version is None or version in self.json.versions:
                raise RecordError(
                    f"{where}: {error}. Another program wrote this record, or it was damaged in transit. To skip it, "
                    'continue the iteration, or read with damaged="skip"'
                ) from error
            known = ", ".join(map(str, self.json.versions))
            raise VersionError(
                f"{where}: expected schema_version {known}, got {version}. A Glasstream of another release writes this "
                f"topic: upgrade this reader to it (its glasstream_topics/schemas/{self.json.topic}.v{version}.json "
                "describes the record)"
            ) from error


def _stated_version(data: bytes) -> int | None:
    """Return the `schema_version` of a record, or None if it has none."""
    try:
        return _version_of.decode(data).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
