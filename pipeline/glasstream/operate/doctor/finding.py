"""What a check found, and what it is given to look at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from glasstream.settings import Settings


class Level(StrEnum):
    """How bad it is: a failure stops a stage, or will at its next start; a warning may lose something one day."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True):
    """One thing that was looked at.

    Attributes
    ----------
    check
        Of what.
    level
        See `Level`.
    what
        What is so. Never a secret.
    do
        What to do about it; empty where nothing need be done.
    """

    check: str
    level: Level
    what: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """What is looked at.

    Attributes
    ----------
    settings
        The configuration.
    environment
        The variables of the process.
    now
        The time in seconds since 1970, as this machine has it.
    probe
        Whether a topic may be made for a moment, to ask for the broker's time.
    """

    settings: Settings
    environment: Mapping[str, str]
    now: Callable[[], float]
    probe: bool = True


Check = Callable[[DoctorContext], list[Finding]]


def ok(check: str, what: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, what)


def warn(check: str, what: str, do: str) -> Finding:
    """It goes on, for now."""
    return Finding(check, Level.WARN, what, do)


def fail(check: str, what: str, do: str) -> Finding:
    """It does not, or will not at the next start."""
    return Finding(check, Level.FAIL, what, do)
