"""Bytes of a public topic to typed records, with errors that say where the bytes were.

`schema_version` is the major version of a record: it is raised when a reader could misunderstand what came before.
Within a version fields may be added; a reader passes over those it does not know, and fills those that an older
record lacks with the defaults of the type.
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
    """The records of one topic.

    Attributes
    ----------
    topic
        Its contract.
    decode
        Bytes to a record; raises RecordError.
    kind
        The type of a record. Its field `schema_version` lists the versions that it can hold.
    """

    topic: Topic
    decode: Callable[[bytes], T]
    kind: type[T]

    @property
    def versions(self) -> tuple[int, ...]:
        """The schema versions that can be read."""
        return get_args(get_type_hints(self.kind)["schema_version"])

    def read(self, data: bytes, where: str) -> T:
        """The record in `data`.

        Parameters
        ----------
        where
            `topic[partition]@offset` for messages.

        Raises
        ------
        VersionError
            It has a schema version that this release does not know.
        RecordError
            It is damaged, or is no such record.
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
    """The version that a record states; None where it states none."""
    try:
        return _version_of.decode(data).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
