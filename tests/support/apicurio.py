"""Apicurio Registry on this machine: a real schema registry with Confluent's API, its own TLS, and a login.

Maven fetches it once, as it does Apache Kafka. It keeps its schemas in memory and ends with the tests.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from glasstream.app.brokers.local import leash, toolchain
from glasstream.app.brokers.local.node import free_ports
from glasstream.base.errors import BrokerError
from tests.support.archives import extract

VERSION = "3.0.9"
"""A release that runs on Java 17, as 3.3 does not."""
USER, PASSWORD = "ann", "secret: with a colon"
FETCH_SECONDS = 600.0
START_SECONDS = 120.0
"""A start takes 5 s on two idle cores."""
PORT_TRIES = 3
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"
"""Later versions also read the parents of the archive's POM, which some indexes lack. The archive has all jars."""
JVM = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class Apicurio:
    """A registry that answers only by TLS, and only who has its login.

    Attributes
    ----------
    address
        Address of its Confluent API.
    login
        `user:password`.
    ca
        PEM file of the authority that signed its certificate.
    """

    def __init__(self, address: str, ca: Path, pid: int) -> None:
        self.address = address
        self.login = f"{USER}:{PASSWORD}"
        self.ca = ca
        self._pid = pid

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Freeze it: connections are accepted, and nothing is answered."""
        os.kill(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pid, signal.SIGCONT)


@contextmanager
def apicurio(folder: Path) -> Iterator[Apicurio]:
    """Run a registry whose files are in a folder.

    Raises
    ------
    BrokerError
        There is no Java or Maven, it cannot be fetched, or it does not start.
    """
    java, jars = toolchain.java(), fetch()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    for _ in range(PORT_TRIES):
        plain, secure = free_ports()
        (folder / "registry.properties").write_text(properties(folder, plain, secure), encoding="utf-8")
        command = [
            *(str(java), *JVM, f"-Dquarkus.config.locations={folder / 'registry.properties'}"),
            *("-jar", str(jars / f"apicurio-registry-app-{VERSION}-runner.jar")),
        ]
        log = folder / f"registry-{secure}.log"
        holder = subprocess.Popen(
            [sys.executable, "-I", leash.__file__, str(log), "0", "-", *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert holder.stdout is not None and holder.stdin is not None
        try:
            made = Apicurio(
                f"https://localhost:{secure}/apis/ccompat/v7", folder / "ca.pem", int(holder.stdout.readline())
            )
            if answers(made, holder):
                yield made
                return
        finally:
            holder.stdin.close()
            holder.wait()
            holder.stdout.close()
        if "already in use" not in log.read_text(errors="replace"):
            break
    raise BrokerError(
        f"expected Apicurio Registry to start; its last lines:\n{log.read_text(errors='replace')[-3000:]}"
    )


def properties(folder: Path, plain: int, secure: int) -> str:
    """Return its configuration: the login `USER`, and TLS only."""
    settings = {
        "quarkus.http.host": "localhost",
        "quarkus.http.port": str(plain),
        "quarkus.http.ssl-port": str(secure),
        "quarkus.http.insecure-requests": "disabled",
        "quarkus.http.ssl.certificate.files": str(folder / "cert.pem"),
        "quarkus.http.ssl.certificate.key-files": str(folder / "key.pem"),
        "quarkus.http.auth.basic": "true",
        "quarkus.http.auth.permission.api.paths": "/apis/*",
        "quarkus.http.auth.permission.api.policy": "authenticated",
        "quarkus.security.users.embedded.plain-text": "true",
        f"quarkus.security.users.embedded.users.{USER}": PASSWORD,
        f"quarkus.security.users.embedded.roles.{USER}": "sr-admin",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def answers(made: Apicurio, holder: "subprocess.Popen[bytes]") -> bool:
    """Wait until it answers. Return whether it does; it may have ended."""
    context = ssl.create_default_context(cafile=str(made.ca))
    authorization = f"Basic {b64encode(made.login.encode()).decode()}"
    request = urllib.request.Request(f"{made.address}/subjects", headers={"Authorization": authorization})
    end = time.monotonic() + START_SECONDS
    while holder.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5, context=context):
            return True
        time.sleep(0.1)
    return False


def fetch() -> Path:
    """Return the folder with its jars; the first call fetches them."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glasstream"
    folder = root / f"apicurio-registry-{VERSION}"
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of pytest-xdist
        if folder.is_dir():
            return folder
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=root) as work:
            command = [
                *(str(toolchain.maven()), "--batch-mode", "--quiet", GOAL),
                *(f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all", f"-DoutputDirectory={work}"),
            ]
            try:
                done = subprocess.run(
                    command, cwd=work, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
                )
            except subprocess.TimeoutExpired as error:
                raise BrokerError(f"expected Maven to fetch Apicurio Registry in {FETCH_SECONDS:.0f} s") from error
            archives = [*Path(work).glob("*.tar.gz")]
            if done.returncode != 0 or not archives:
                raise BrokerError(
                    f"expected Maven to fetch Apicurio Registry {VERSION}; its last lines:\n{done.stdout[-2000:]}"
                )
            with tarfile.open(archives[0]) as archive:
                extract(archive, Path(work) / "jars")
            shutil.move(Path(work) / "jars", folder)
    return folder
