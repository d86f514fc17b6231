"""What a local Kafka needs of this machine: Java, Maven (once), or a Docker engine instead."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from glasstream.base.errors import BrokerError

#: Kafka 4's own minimum for brokers.
JAVA_VERSION = 17

_ELSE = "or use --broker embedded (no Java needed), or --broker HOST:PORT for a Kafka that runs already"


def java() -> Path:
    """The `java` of JAVA_HOME, else of PATH, if it is version 17 or newer.

    Raises
    ------
    BrokerError
        There is none, it does not run, or it is too old. The message names what to install.
    """
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    found = next((path for path in map(shutil.which, [*candidates, "java"]) if path), None)
    wanted = f"expected Java {JAVA_VERSION} or newer, which Apache Kafka runs on"
    advice = f"Install one (Debian, Ubuntu: `apt-get install openjdk-{JAVA_VERSION}-jre-headless`), {_ELSE}."
    if found is None:
        raise BrokerError(f"{wanted}; found no `java` in JAVA_HOME or PATH. {advice}")
    try:
        done = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerError(f"{wanted}; {found} does not run: {error}. {advice}") from error
    version = java_version(done.stderr + done.stdout)
    if version is None or version < JAVA_VERSION:
        said = version if version is not None else (done.stderr + done.stdout).strip() or f"exit {done.returncode}"
        raise BrokerError(f"{wanted}; {found} is: {said}. {advice}")
    return Path(found)


def java_version(text: str) -> int | None:
    """The feature version in what `java -version` prints; None if there is none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_version('java version "1.8.0_402"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def maven() -> Path:
    """The `mvn` of PATH. Raises BrokerError, naming what to install, if there is none."""
    found = shutil.which("mvn")
    if found is None:
        raise BrokerError(
            "expected Maven, which fetches Apache Kafka once; found no `mvn` in PATH. "
            f"Install it (Debian, Ubuntu: `apt-get install maven`), {_ELSE}."
        )
    return Path(found)


def docker_answers() -> bool:
    """Whether a Docker engine (not just its client) responds on this machine."""
    found = shutil.which("docker")
    if found is None:
        return False
    command = [found, "info", "--format", "{{.ServerVersion}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and bool(done.stdout.strip())
