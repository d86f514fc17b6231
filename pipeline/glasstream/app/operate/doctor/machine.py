"""Checks of this machine: packages, settings as a stage would use them, and secrets."""

import os
import platform
import stat
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from glasstream.app.operate.doctor.finding import DoctorContext, Finding, fail, ok, warn
from glasstream.base.errors import GlasstreamError, SettingsError
from glasstream.flow.learner.expect_model import expect_model
from glasstream.kafka.secret import hmac_key
from glasstream.kafka.trial import expect_tried

_DISTRIBUTION = "glasstream"
_GOOD_KEY_BYTES = 32
"""Length beyond which HMAC-SHA256 gains nothing."""


def packages(context: DoctorContext) -> list[Finding]:
    """Check that the packages have the versions that this release requires."""
    check = "packages"
    try:
        wanted = [Requirement(text) for text in requires(_DISTRIBUTION) or []]
    except PackageNotFoundError:
        return [warn(check, f"{_DISTRIBUTION} is not installed, so its requirements are unknown", "install it")]
    found: list[Finding] = []
    for one in wanted:
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        try:
            there = version(one.name)
        except PackageNotFoundError:
            there = "none"
        if there == "none" or not one.specifier.contains(there, prereleases=True):
            found.append(
                fail(
                    check,
                    f"{one.name}: expected {one.specifier}, got {there}",
                    f"run pip install '{one.name}{one.specifier}' on every machine with a stage",
                )
            )
    mine = f"{_DISTRIBUTION} {version(_DISTRIBUTION)}, Python {platform.python_version()}, River {version('river')}"
    return found or [ok(check, f"{mine}, confluent-kafka {version('confluent-kafka')}")]


def usable(context: DoctorContext) -> list[Finding]:
    """Check the settings as a stage does at its start."""
    settings = context.settings
    try:
        expect_tried(settings.model)
        expect_model(settings)
    except GlasstreamError as error:
        return [fail("settings", str(error), "correct the setting; no stage starts with it")]
    return [ok("settings", f"model {settings.model.name}, methods {settings.explain.methods}, seed {settings.seed}")]


def secrets(context: DoctorContext) -> list[Finding]:
    """Check the HMAC key, and how passwords travel, without printing them."""
    return [*_key(context), *_passwords(context)]


def _key(context: DoctorContext) -> list[Finding]:
    check, environment = "hmac key", context.environment
    file = environment.get("GLASSTREAM_HMAC_KEY_FILE")
    found = _file(Path(file)) if file and not environment.get("GLASSTREAM_HMAC_KEY") else []
    try:
        key = hmac_key(environment)
    except SettingsError as error:
        return [*found, fail(check, str(error), "give all stages one key, from `openssl rand -hex 32`")]
    if key is None:
        from glasstream.flow.learner.stream_state import reason_for_key  # imports River, for which a key leaves no need

        reason = reason_for_key(context.settings)
        if reason is not None:
            do = "set GLASSTREAM_HMAC_KEY or GLASSTREAM_HMAC_KEY_FILE"
            return [*found, fail(check, f"no key is set, and the learner does not start without one: {reason}", do)]
        return [*found, ok(check, "none; saved state is not authenticated, so only trusted clients may write it")]
    if len(key[0]) < _GOOD_KEY_BYTES:
        do = "put a longer key before it, from `openssl rand -hex 32`; ops/docs/security.md tells how to change it"
        found.append(warn(check, f"the key has {len(key[0])} bytes; use {_GOOD_KEY_BYTES}", do))
    older = f", and {len(key) - 1} older for verification" if len(key) > 1 else ""
    return found or [ok(check, f"set{older}")]


def _file(path: Path) -> list[Finding]:
    try:
        status = path.stat()
    except OSError:
        return []  # loading the key reports it
    mode = status.st_mode
    if status.st_uid != os.geteuid() and status.st_gid in {os.getegid(), *os.getgroups()}:
        mode &= ~stat.S_IRGRP  # mounted readable for our group, as Kubernetes does
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        return [fail("hmac key", f"{path} can be read or written by all users ({stat.filemode(status.st_mode)})",
                     f"chmod 600 {path}, and create a new key, because others may know the old one")]  # fmt: skip
    if mode & (stat.S_IRGRP | stat.S_IWGRP):
        return [warn("hmac key", f"{path} can be read or written by its group ({stat.filemode(status.st_mode)})",
                     f"chmod 600 {path}, unless the group is the stages' own")]  # fmt: skip
    return []


def _passwords(context: DoctorContext) -> list[Finding]:
    protocol = context.settings.kafka.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "SASL_PLAINTEXT":
        do = "use SASL_SSL (kafka.security.protocol)"
        return [warn("transport", "the user and the password are sent to the broker without TLS", do)]
    if "sasl.password" in context.settings.kafka and not protocol.startswith("SASL"):
        do = "set kafka.security.protocol=SASL_SSL"
        return [fail("transport", f"sasl.password is set but unused, because security.protocol is {protocol}", do)]
    return [ok("transport", protocol)]
