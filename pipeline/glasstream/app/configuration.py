"""Read the settings from a TOML file, the environment and `--set`, in rising order of precedence.

A key is ``section.name`` (``explain.alpha``), or a name alone at the top level (``seed``). In a TOML file sections
are tables. In the environment the key is ``GLASSTREAM_SECTION_NAME`` (``GLASSTREAM_EXPLAIN_ALPHA``). On the command
line it is ``--set section.name=value``. All of them take precedence over a preset (``drift.preset``). Errors from all
sources are reported together.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from glasstream.app.presets import PRESETS
from glasstream.base.errors import ModelError, SettingsError
from glasstream.flow.settings import Settings, flatten
from glasstream.kafka.secret import FILE, secret

ENVIRONMENT = "GLASSTREAM_"
NOT_SETTINGS = frozenset(
    {
        "HMAC_KEY",
        "HMAC_KEY_FILE",
        "PAGE_TOKEN",
        "PAGE_TOKEN_FILE",
        "NOTIFY_URL",
        "NOTIFY_URL_FILE",
        "NOTIFY_KEY",
        "NOTIFY_KEY_FILE",
        "REGISTRY_LOGIN",
        "REGISTRY_LOGIN_FILE",
        "CONFIG",
        "DATA",
        "PEERS",
        "LOCAL_KAFKA",
        "TEST_KAFKA",
        "TEST_BROWSER",
        "REQUIRE_KAFKA",
    }
)
"""Variables with the prefix of settings that other code reads."""

SECRET_SETTINGS = ("GLASSTREAM_KAFKA_SASL_PASSWORD", "GLASSTREAM_KAFKA_SSL_KEY_PASSWORD")
"""Settings that can also be read from a file: see `glasstream.kafka.secret`."""

_SECTIONS = {
    field.name: field.type
    for field in msgspec.structs.fields(Settings)
    if isinstance(field.type, type) and issubclass(field.type, Struct)
}


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    assignments: Iterable[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings from all sources.

    Parameters
    ----------
    file
        A TOML file.
    environment
        Environment variables; those that begin with ``GLASSTREAM_`` are read.
    options
        Values of a command's own options by dotted key.
    assignments
        ``KEY=VALUE``, as given to ``--set``.
    defaults
        Values by dotted key that all other sources override.

    Raises
    ------
    SettingsError
        With one line for every error found, in all sources.
    """
    findings: list[str] = []
    values: dict[str, tuple[Any, str]] = {key: (value, "default") for key, value in (defaults or {}).items()}
    if file is not None:
        values.update(_from_file(file, findings))
    values.update(_from_environment(environment or {}, findings))
    values.update({key: (text, "command line") for key, text in (options or {}).items()})
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            findings.append(f"--set: expected KEY=VALUE, got {assignment!r}")
            continue
        values[key.strip()] = (text, f"--set {assignment}")
    preset = values.get("drift.preset", (None, ""))[0]
    for key, value in PRESETS.get(preset, {}).items() if isinstance(preset, str) else ():
        if key not in values or values[key][1] == "default":
            values[key] = (value, f"drift.preset={preset}")
    settings = _build(values, findings)
    if settings is not None:
        settings = _completed(settings, findings)
    if findings or settings is None:
        raise SettingsError(findings)
    return settings


def _completed(settings: Settings, findings: list[str]) -> Settings:
    """Complete the settings of a model in an ONNX file with what only the file says: its task and SHA-256.

    A stage other than the learner needs no file if `model.task` is set.
    """
    model = settings.model
    if model.learns or (model.task is not None and model.digest is not None):
        return settings
    if model.task is not None and not Path(model.name).exists():
        return settings
    from glasstream.kafka.trial import tried
    from glasstream.models.onnx.file import content, digest

    try:
        data = content(model.name, model.digest)
        task = model.task or tried(data, model)
    except ModelError as error:
        findings.append(f"{error}; the file is {model.name!r}, and stages other than the learner need only model.task")
        return settings
    completed = msgspec.structs.replace(model, task=task, digest=digest(data))
    return msgspec.structs.replace(settings, model=completed)


def _from_file(file: Path, findings: list[str]) -> dict[str, tuple[Any, str]]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        findings.append(f"{file}: cannot be read: {error.strerror}")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        findings.append(f"{file}: expected TOML, got: {error}")
        return {}
    return {key: (value, str(file)) for key, value in flatten(content).items()}


def _from_environment(environment: Mapping[str, str], findings: list[str]) -> dict[str, tuple[Any, str]]:
    values: dict[str, tuple[Any, str]] = {}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT) or variable[len(ENVIRONMENT) :] in NOT_SETTINGS:
            continue
        if variable.removesuffix(FILE) in SECRET_SETTINGS:
            continue
        name = variable[len(ENVIRONMENT) :].lower()
        section, _, rest = name.partition("_")
        key = f"{section}.{rest}" if section in _SECTIONS and rest else name
        if key == "kafka" or key in _SECTIONS:
            example = f"{key}_{_example(key)}".replace(".", "_").upper()
            findings.append(
                f"{variable}: {key} is a group of settings; set one variable for each, such as {ENVIRONMENT}{example}"
            )
        elif name.startswith("kafka_"):
            values[_kafka_key(variable)] = (environment[variable], variable)
        else:
            values[key] = (environment[variable], variable)
    for variable in SECRET_SETTINGS:
        try:
            text = secret(environment, variable)
        except SettingsError as error:
            findings += error.findings
        else:
            if text is not None:
                values[_kafka_key(variable)] = (text, variable)
    return values


def _kafka_key(variable: str) -> str:
    return "kafka." + variable.removeprefix(f"{ENVIRONMENT}KAFKA_").lower().replace("_", ".")


def _example(section: str) -> str:
    """Return the name of a setting in a section."""
    return "security.protocol" if section == "kafka" else _SECTIONS[section].__struct_fields__[0]


def _build(values: Mapping[str, tuple[Any, str]], findings: list[str]) -> Settings | None:
    """Build the settings. Each value is converted by itself, so that every error is found."""
    tables: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    kafka: dict[str, str] = {}
    known = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    for key, (value, source) in values.items():
        section, _, name = key.partition(".")
        if (key == "kafka" or key in _SECTIONS) and not isinstance(value, Mapping):
            findings.append(
                f"{key}: expected a table of settings ({key}.{_example(key)}, ...), got {_described(value)} ({source})"
            )
        elif key == "kafka":
            kafka.update({inner: str(setting) for inner, setting in value.items()})
        elif section == "kafka" and name:
            kafka[name] = str(value)
        elif section in _SECTIONS and name:
            inner = {field.name: field.type for field in msgspec.structs.fields(_SECTIONS[section])}
            if name in inner:
                _convert(key, value, inner[name], source, tables.setdefault(section, {}), name, findings)
            else:
                wanted = f"expected one of {', '.join(sorted(inner))} in {section}"
                findings.append(f"{key}: {wanted} ({source}){_service_link(source)}")
        elif key in known and key not in _SECTIONS:
            _convert(key, value, known[key], source, top, key, findings)
        else:
            close = get_close_matches(key, [*known, *_keys()], 1)
            wanted = f"did you mean {close[0]}?" if close else "ops/docs/all-settings.md lists the settings"
            findings.append(f"{key}: there is no such setting; {wanted} ({source}){_service_link(source)}")
    if findings:
        return None
    sections: dict[str, Any] = {}
    for section, inner in tables.items():
        try:
            sections[section] = _SECTIONS[section](**inner)
        except SettingsError as error:  # settings of the section that contradict each other
            own = f"{section}."
            findings += [line if line.startswith(own) else own + line for line in error.findings]
    return None if findings else Settings(**top, **sections, kafka=kafka)


def choices_of(wanted: Any) -> tuple[Any, ...]:
    """Return the values of a type between which a setting chooses; nothing for other types."""
    if get_origin(wanted) is Literal:
        return get_args(wanted)
    return next(filter(None, map(choices_of, get_args(wanted))), ())


def _keys() -> Iterator[str]:
    """Yield the keys of the settings in sections."""
    for section, struct in _SECTIONS.items():
        yield from (f"{section}.{field}" for field in struct.__struct_fields__)


def _convert(
    key: str, value: Any, wanted: Any, source: str, target: dict[str, Any], name: str, findings: list[str]
) -> None:
    try:
        target[name] = msgspec.convert(value, wanted, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        choices = choices_of(wanted)
        said = f"expected one of {', '.join(choices)}" if choices else f"{str(error)[:1].lower()}{str(error)[1:]}"
        said = said.partition(", got ")[0]  # the kind; the value follows
        for kind, noun in _NOUNS.items():
            said = said.replace(f"`{kind}`", noun)
        for part in get_args(wanted):
            if isinstance(part, msgspec.Meta) and part.description and isinstance(value, str):
                said = f"expected {part.description}"
        findings.append(f"{key}: {said}, got {value!r} ({source}){_service_link(source)}")


def _service_link(source: str) -> str:
    """Return a hint for findings about a variable that Kubernetes may have set for a Service."""
    if not source.startswith(ENVIRONMENT) or _SERVICE_LINK.search(source) is None:
        return ""
    return "; Kubernetes may have set it for a Service of that name: set enableServiceLinks: false in the pod"


_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP|SCTP).*)?$")
"""Endings of the environment variables that Kubernetes sets in each container for Services in its namespace."""


_NOUNS = {"float": "a number", "int": "a whole number", "bool": "true or false", "str": "a text", "null": "nothing"}
"""Words for the types that msgspec names in its errors."""
_KINDS = {bool: "the boolean", int: "the integer", float: "the number", str: "the text", list: "the array"}


def _described(value: Any) -> str:
    """Return a TOML value with its kind: ``the integer 3``."""
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return f"{_KINDS.get(type(value), 'the value')} {shown}"


def to_environment(settings: Settings) -> dict[str, str]:
    """Return the settings as variables from which `load` makes the same settings again. Defaults are left out."""
    values = flatten(msgspec.to_builtins(settings))
    defaults = {**flatten(msgspec.to_builtins(Settings())), **PRESETS.get(settings.drift.preset or "", {})}
    variables = {}
    for key, value in values.items():
        if key == "kafka":
            variables.update(
                {f"{ENVIRONMENT}KAFKA_{name.replace('.', '_').upper()}": text for name, text in value.items()}
            )
        elif value != defaults[key] and value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            variables[ENVIRONMENT + key.replace(".", "_").upper()] = text
    return variables
