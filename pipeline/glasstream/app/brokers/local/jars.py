"""Apache Kafka itself: its jars in the user's cache folder, fetched there once by Maven."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from glasstream.app.brokers.local import toolchain
from glasstream.base.errors import BrokerError

VERSION = "GLASSTREAM_LOCAL_KAFKA"
"""Environment variable with the version of Kafka to run in place of that of the pom."""

#: Maven needs 8 s with a quick registry; the rest is for slow networks.
FETCH_DEADLINE_S = 900.0


def pom() -> str:
    """The text of the pom that lists what is fetched.

    Raises
    ------
    BrokerError
        GLASSTREAM_LOCAL_KAFKA is no version.
    """
    text = files("glasstream.app.brokers.local").joinpath("pom.xml").read_text(encoding="utf-8")
    version = os.environ.get(VERSION)
    if not version:
        return text
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){2}", version) is None:
        raise BrokerError(f"{VERSION}: expected a version of Kafka such as 3.9.1, got {version!r}")
    return re.sub(r"(<kafka\.version>)[^<]+", rf"\g<1>{version}", text)


def kafka_version() -> str:
    """The Kafka version that the pom, or the environment, names.

    >>> kafka_version()
    '4.1.1'
    """
    match = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", pom())
    if match is None:
        raise BrokerError(
            "expected <kafka.version> in the pom.xml of glasstream.app.brokers.local; reinstall glasstream"
        )
    return match[1]


def cache_folder() -> Path:
    """Where the jars of this pom are kept: a folder below XDG_CACHE_HOME, else below ~/.cache.

    Its name holds the version and a digest of the pom, so that another pom gets a folder of its own.
    """
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(pom().encode()).hexdigest()[:8]
    return Path(root) / "glasstream" / f"kafka-{kafka_version()}-{digest}"


def fetch(log: Callable[[str], None]) -> Path:
    """The folder with Kafka's jars; the first call fetches them.

    Two processes may call this at the same time: one fetches, the other waits. The folder appears under its name
    only when it is complete.

    Raises
    ------
    BrokerError
        No Maven, or it failed; the message holds Maven's last lines.
    """
    folder = cache_folder()
    if folder.is_dir():
        return folder
    mvn = toolchain.maven()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # The lock goes with the process that holds it, however that ends.
        with folder.with_name(f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                log(f"fetching Apache Kafka {kafka_version()} (43 MB, once) by Maven into {folder}")
                _fetch_into(folder, mvn)
    except OSError as error:
        raise BrokerError(
            f"cannot store Apache Kafka's jars in {folder}: {error}. Make that folder writable, or set "
            "XDG_CACHE_HOME to another one."
        ) from error
    return folder


def _fetch_into(folder: Path, mvn: Path) -> None:
    """Run Maven next to `folder`, then rename its output to `folder`."""
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as work:
        (Path(work) / "pom.xml").write_text(pom(), encoding="utf-8")
        jars = Path(work) / "jars"
        command = [
            *(str(mvn), "--batch-mode", "--no-transfer-progress", "--quiet", "--file", str(Path(work) / "pom.xml")),
            *("dependency:copy-dependencies", f"-DoutputDirectory={jars}", "-DincludeScope=runtime"),
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=FETCH_DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerError(
                f"Maven has not fetched Apache Kafka within {FETCH_DEADLINE_S:.0f} s. "
                "Check the network and Maven's settings.xml (mirror, proxy), and try again."
            ) from error
        if done.returncode != 0 or not any(jars.glob("kafka_*.jar")):
            last = "\n".join(done.stdout.strip().splitlines()[-15:])
            raise BrokerError(
                f"Maven could not fetch Apache Kafka {kafka_version()} (exit code {done.returncode}). "
                "Check the network and Maven's settings.xml (mirror, proxy), and try again; or use --broker embedded "
                f"or --broker HOST:PORT. Maven's last lines:\n{last}"
            )
        # Under the lock no other process makes this name; a leftover file of that name would be an OSError.
        shutil.move(jars, folder)
