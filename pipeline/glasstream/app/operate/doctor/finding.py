"""Findings of the checks, and the context that checks examine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from glasstream.flow.settings import Settings


class Level(StrEnum):
    """Severity. A failure stops a stage now or at its next start; a warning may lose something one day."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True):
    """Result of examining one thing.

    Attributes
    ----------
    check
        Name of the check.
    level
        Severity; see `Level`.
    what
        Observed condition. It never contains a secret.
    do
        Remedy; empty if nothing needs to be done.
    """

    check: str
    level: Level
    what: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """Deployment to examine.

    Attributes
    ----------
    settings
        Configuration.
    environment
        Environment variables of the process.
    now
        Time of this machine in seconds since 1970.
    probe
        Whether checks may create a temporary topic to read the broker's clock.
    """

    settings: Settings
    environment: Mapping[str, str]
    now: Callable[[], float]
    probe: bool = True


Check = Callable[[DoctorContext], list[Finding]]


def ok(check: str, what: str) -> Finding:
    """Return a finding of level `ok`."""
    return Finding(check, Level.OK, what)


def warn(check: str, what: str, do: str) -> Finding:
    """Return a finding of level `warn`."""
    return Finding(check, Level.WARN, what, do)


def fail(check: str, what: str, do: str) -> Finding:
    """Return a finding of level `fail`."""
    return Finding(check, Level.FAIL, what, do)
