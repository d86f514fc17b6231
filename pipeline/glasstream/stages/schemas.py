"""Formats with schemas: Avro, Protobuf and JSON Schema, with or without a schema registry."""

from collections.abc import Callable, Mapping

from glasstream.errors import SettingsError
from glasstream.intake.formats import Format, plain_format
from glasstream.intake.settings import IntakeSettings


def format_maker(settings: IntakeSettings, environment: Mapping[str, str]) -> Callable[[str], Format]:
    """Return a function that makes the format of a name."""

    def make(name: str) -> Format:
        found = plain_format(settings, name)
        if found is None:
            raise SettingsError([f"intake.format: {name} is not supported"])
        return found

    return make
