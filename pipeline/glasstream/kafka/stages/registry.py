"""Clients of a schema registry with Confluent's API, and its errors. A registry that fails is waited for."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from glasstream.base.errors import SettingsError, UnavailableError
from glasstream.flow.settings import Settings
from glasstream.kafka.secret import registry_login
from glasstream_topics import Topic

LOGIN = "GLASSTREAM_REGISTRY_LOGIN"
INSTALL = "install it with `pip install 'glasstream[registry]'`, or build the image with `--build-arg EXTRAS=registry`"

HEADER_BYTES = 5
"""Size of the header of Confluent's wire format: a zero byte, and the id of the schema in four bytes."""

NOT_FOUND = 404
_OF_A_SUBJECT = range(400, 500)
_OF_ALL = (401, 408, 429)
"""Answers that do not depend on the subject: the login is wrong, or the registry has no time."""
_SECONDS = 5.0
"""Seconds for the registry to answer. The client repeats requests; the stage repeats all of it."""
_OF_HTTP = ("httpx", "httpx2", "httpcore", "httpcore2", "anyio", "authlib")
"""Packages whose errors mean that the registry did not answer."""


class SubjectError(UnavailableError):
    """The registry answers, but refuses or lacks the schema of one subject."""


def client(section: str, address: str | None, ca: str | None, login: str | None) -> Any:
    """Return a client of the registry.

    Parameters
    ----------
    section
        Section of the settings that names the registry, for errors.
    address, ca
        Its address, and the PEM file of its certificate authority; without it, the system's authorities are used.
    login
        `user:password`.

    Raises
    ------
    SettingsError
        The client refuses these settings.
    ImportError
        The extra `registry` is not installed.
    """
    from confluent_kafka.schema_registry import SchemaRegistryClient

    options: dict[str, Any] = {"url": address, "timeout": _SECONDS, "max.retries": 1}
    if login is not None:
        options["basic.auth.user.info"] = login
    if ca is not None:
        options["ssl.ca.location"] = ca
    try:
        return SchemaRegistryClient(options)
    except (OSError, ValueError) as error:
        raise SettingsError([f"{section}.registry: the client of the schema registry refuses it: {error}"]) from error


def failure(error: Exception) -> str | None:
    """Return what the registry answered, or why it did not answer; None if the error has another cause."""
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    if isinstance(error, SchemaRegistryError):
        return f"{error.http_status_code}, {error.error_message}"
    if isinstance(error, OSError):
        return str(error)
    if type(error).__module__.partition(".")[0] in _OF_HTTP:
        return f"{type(error).__name__}: {error}"
    return None


def unavailable(section: str, address: str | None, cause: str) -> UnavailableError:
    """Return the error for a registry that gives no schema, which is waited for."""
    return UnavailableError(
        f"the schema registry at {address} gives no schema: {cause}; check that it runs, {section}.registry, "
        f"{section}.registry_ca and {LOGIN}"
    )


def subjects(settings: Settings, environment: Mapping[str, str]) -> "Subjects":
    """Return the subjects of the Avro publisher.

    Raises
    ------
    SettingsError
        The login cannot be read, or the client refuses the settings.
    ImportError
        The extra `registry` is not installed.
    """
    avro = settings.avro
    registry = client("avro", avro.registry, avro.registry_ca, registry_login(environment))
    return Subjects("avro", avro.registry, registry, register=avro.register)


def value_subject(topic: Topic, prefix: str) -> str:
    """Return the subject of the values of a topic (TopicNameStrategy)."""
    return f"{topic.full_name(prefix)}-value"


class Subjects:
    """Ids of Avro schemas under the subjects of a registry.

    A schema counts as registered if a version of the subject writes the same bytes: its texts and defaults may differ
    (the Parsing Canonical Form of the Avro specification). The newest such version is used. Texts that a release
    changes therefore make no new version.

    Parameters
    ----------
    section, address
        As of `client`.
    registry
        Client of the registry.
    register
        Whether to register a schema that is missing. Otherwise it is waited for.
    """

    def __init__(self, section: str, address: str | None, registry: Any, *, register: bool) -> None:
        self._section = section
        self._address = address
        self._registry = registry
        self._register = register

    def id_of(self, subject: str, schema: dict[str, Any], file: str) -> int:
        """Return the id of a schema under a subject.

        Parameters
        ----------
        file
            Name of the file with the schema, for errors.

        Raises
        ------
        SubjectError
            The registry refuses the schema, or lacks it and it may not be registered.
        UnavailableError
            The registry does not answer.
        """
        from confluent_kafka.schema_registry import Schema

        found = self.find(subject, schema)
        if found is not None:
            return found
        if self._register:
            with self._asked(subject):
                return int(self._registry.register_schema(subject, Schema(json.dumps(schema), "AVRO")))
        raise SubjectError(
            f"the schema registry at {self._address} has no version of the subject {subject} that is equivalent to "
            f"{file}; register this file of glasstream_topics/schemas, or set {self._section}.register = true"
        )

    def find(self, subject: str, schema: dict[str, Any]) -> int | None:
        """Return the id of a schema under a subject; None if it is not registered.

        Raises
        ------
        UnavailableError
            The registry does not answer.
        """
        with self._asked(subject):
            wanted = _canonical(json.dumps(schema))
            for version in reversed(self._versions(subject)):
                found = self._registry.get_version(subject, version)
                if found.schema.schema_type == "AVRO" and _canonical(found.schema.schema_str) == wanted:
                    return int(found.schema_id)
        return None

    def refuses(self, subject: str, schema: dict[str, Any]) -> bool:
        """Return whether the registry would refuse a schema, because it is not compatible with the newest version.

        Raises
        ------
        UnavailableError
            The registry does not answer.
        """
        from confluent_kafka.schema_registry import Schema

        with self._asked(subject):
            made = Schema(json.dumps(schema), "AVRO")
            return bool(self._versions(subject)) and not self._registry.test_compatibility(subject, made)

    def _versions(self, subject: str) -> list[int]:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return sorted(self._registry.get_versions(subject))
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                return []
            raise

    @contextmanager
    def _asked(self, subject: str) -> Iterator[None]:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            yield
        except Exception as error:
            cause = failure(error)
            if cause is None:
                raise
            status = error.http_status_code if isinstance(error, SchemaRegistryError) else 0
            if status in _OF_A_SUBJECT and status not in _OF_ALL:
                raise SubjectError(
                    f"the schema registry at {self._address} refuses the schema of this release under the subject "
                    f"{subject}: {cause}; change the subject's compatibility mode, delete versions that are not of "
                    "Glasstream, or allow the login to read and write the subject"
                ) from error
            raise unavailable(self._section, self._address, cause) from error


def _canonical(schema: str) -> str | None:
    """Return the Parsing Canonical Form of an Avro schema; None if it cannot be parsed alone."""
    import fastavro.schema

    try:
        return str(fastavro.schema.to_parsing_canonical_form(fastavro.schema.parse_schema(json.loads(schema))))
    except (ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType):
        return None
