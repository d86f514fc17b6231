"""This machine: packages, the settings as a stage would use them, secrets."""

import os
import platform
import stat
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from glasstream.errors import GlasstreamError, SettingsError
from glasstream.operate.doctor.finding import DoctorContext, Finding, fail, ok, warn
from glasstream.stages.build import hmac_key

_DISTRIBUTION = "glasstream"
_GOOD_KEY_BYTES = 32
"""HMAC-SHA256 gains nothing from a longer key."""


def packages(context: DoctorContext) -> list[Finding]:
    """The packages that this release was made for, in their versions."""
    check = "packages"
    try:
        wanted = [Requirement(text) for text in requires(_DISTRIBUTION) or []]
    except PackageNotFoundError:
        return [warn(check, f"{_DISTRIBUTION} is not installed here, so nothing says what it needs", "install it")]
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
                    f"{one.name}: expected {one.specifier}, found {there}",
                    f"pip install '{one.name}{one.specifier}', the same on every machine with a stage",
                )
            )
    mine = f"{_DISTRIBUTION} {version(_DISTRIBUTION)}, Python {platform.python_version()}, River {version('river')}"
    return found or [ok(check, f"{mine}, confluent-kafka {version('confluent-kafka')}")]


def usable(context: DoctorContext) -> list[Finding]:
    """What a stage makes of the settings at its start."""
    settings = context.settings
    try:
        settings.learn()
        settings.aggregator()
        settings.novelty_detector()
    except GlasstreamError as error:
        return [fail("settings", str(error), "correct the setting; the stages refuse to start with it")]
    return [ok("settings", f"model {settings.model.name}, methods {settings.explain.methods}, seed {settings.seed}")]


def secrets(context: DoctorContext) -> list[Finding]:
    """The HMAC key, and how passwords travel; none of them is shown."""
    return [*_key(context), *_passwords(context)]


def _key(context: DoctorContext) -> list[Finding]:
    check, environment = "hmac key", context.environment
    file = environment.get("GLASSTREAM_HMAC_KEY_FILE")
    found = _file(Path(file)) if file and not environment.get("GLASSTREAM_HMAC_KEY") else []
    try:
        key = hmac_key(environment)
    except SettingsError as error:
        return [*found, fail(check, str(error), "every stage needs one, and the same; `openssl rand -hex 32` makes it")]
    if key is None:
        if context.settings.checkpoint.seconds:
            do = "set GLASSTREAM_HMAC_KEY or GLASSTREAM_HMAC_KEY_FILE, or checkpoint.seconds=0"
            return [*found, fail(check, "there is none, and the learner does not start: it seals checkpoints", do)]
        return [*found, ok(check, "none; none is needed without checkpoints, unless a model cannot be compiled")]
    if len(key[0]) < _GOOD_KEY_BYTES:
        do = "put a longer one before it: `openssl rand -hex 32` (ops/docs/security.md, to change the key)"
        found.append(warn(check, f"it has {len(key[0])} bytes; {_GOOD_KEY_BYTES} are as good as any", do))
    older = f", and {len(key) - 1} that only verify" if len(key) > 1 else ""
    return found or [ok(check, f"is there{older}")]


def _file(path: Path) -> list[Finding]:
    try:
        status = path.stat()
    except OSError:
        return []  # reading it says so
    mode = status.st_mode
    if status.st_uid != os.geteuid() and status.st_gid in {os.getegid(), *os.getgroups()}:
        mode &= ~stat.S_IRGRP  # it is mounted for our group to read, as Kubernetes does it
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        return [fail("hmac key", f"{path} can be read or written by everybody ({stat.filemode(status.st_mode)})",
                     f"chmod 600 {path}, and make a new key: the old one may be known")]  # fmt: skip
    if mode & (stat.S_IRGRP | stat.S_IWGRP):
        return [warn("hmac key", f"{path} can be read or written by its group ({stat.filemode(status.st_mode)})",
                     f"chmod 600 {path}, unless the group is the stages' own")]  # fmt: skip
    return []


def _passwords(context: DoctorContext) -> list[Finding]:
    protocol = context.settings.kafka.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "SASL_PLAINTEXT":
        do = "use SASL_SSL (kafka.security.protocol)"
        return [warn("transport", "user and password go to the broker without TLS", do)]
    if "sasl.password" in context.settings.kafka and not protocol.startswith("SASL"):
        do = "set kafka.security.protocol=SASL_SSL"
        return [fail("transport", f"there is a password, and security.protocol is {protocol}: it is not used", do)]
    return [ok("transport", protocol)]
