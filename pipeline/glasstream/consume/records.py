"""Decode the bytes of a public topic into typed records, with errors that name the record's position.

`schema_version` is the major version of a record. It is raised when an older reader could misunderstand the new
record. Fields may be added within a version: a reader ignores unknown fields, and fills fields that an older record
lacks with the defaults of the type.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, get_args, get_type_hints

import msgspec

from glasstream_topics.contract import Topic
from glasstream_topics.errors import RecordError, VersionError

T = TypeVar("T")


class _Versioned(msgspec.Struct):
    schema_version: int


_version_of = msgspec.json.Decoder(_Versioned)


@dataclass(frozen=True)
class Records(Generic[T]):
    """The contract for reading one topic.

    Attributes
    ----------
    topic
        Topic and its contract.
    decode
        Function from bytes to a record; raises RecordError.
    kind
        Type of a record. Its field `schema_version` lists the versions that it can hold.
    """

    topic: Topic
    decode: Callable[[bytes], T]
    kind: type[T]

    @property
    def versions(self) -> tuple[int, ...]:
        """Return the schema versions that this release can read."""
        return get_args(get_type_hints(self.kind)["schema_version"])

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
            return self.decode(data)
        except RecordError as error:
            version = _stated_version(data)
            if version is None or version in self.versions:
                raise RecordError(
                    f"{where}: {error}. Whoever wrote it is not Glasstream, or it was damaged on the way; it can be "
                    'passed over: go on with the iteration, or read with damaged="skip"'
                ) from error
            known = ", ".join(map(str, self.versions))
            raise VersionError(
                f"{where}: expected schema_version {known}, got {version}. A Glasstream of another release writes this "
                f"topic: upgrade this reader to it (its glasstream_topics/schemas/{self.topic.name}.v{version}.json "
                "describes the record)"
            ) from error


def _stated_version(data: bytes) -> int | None:
    """Return the `schema_version` of a record, or None if it has none."""
    try:
        return _version_of.decode(data).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
