"""One Kafka node of this machine: its folder, its process, and what a test may do to it."""

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import IO

from glasstream.app.brokers.answer import answers
from glasstream.app.brokers.local.configuration import as_properties, server_settings
from glasstream.base.errors import BrokerError

_BELOW_OUTGOING = range(20_000, 32_000)

#: A start takes 3 s on two idle cores; the rest is for busy ones.
START_DEADLINE_S = 90.0
#: A graceful end flushes and closes the logs, well below a second for what a laptop run holds.
STOP_DEADLINE_S = 15.0
#: Another run's Kafka on the same data folder gets this long to end.
LOCK_DEADLINE_S = 20.0

_PORT_TRIES = 3
_LAST_LINES = 15

# Quick to start and small rather than fast in the long run: the broker shares two cores with what it serves.
_JVM = (
    *("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"),
    *("-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true", "-Djava.awt.headless=true"),
    # The JVM does not verify Kafka's own classes when it loads them, which took a quarter of a start.
    *("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)


class PortTaken(BrokerError):
    """Another program took one of the ports between choosing and binding it."""


@dataclass(frozen=True)
class Member:
    """The place of a node in a cluster.

    Attributes
    ----------
    node
        Id of the node.
    ports
        Ports of the broker and of the controller.
    voters
        All controllers, as `controller.quorum.voters` names them.
    cluster_id
        Id that the data of every node carries.
    """

    node: int
    ports: tuple[int, int]
    voters: str
    cluster_id: str


class LocalKafka:
    """A Kafka node on loopback ports. Made by `local_kafka`, which also closes it.

    Attributes
    ----------
    bootstrap : str
        `127.0.0.1:PORT`, the same for the whole life of the object, restarts included.
    folder : Path
        Holds the configuration, `kafka.log` and Kafka's data.
    """

    kind = "local"

    def __init__(
        self,
        java: Path,
        jars: Path,
        data: Path | None,
        settings: Mapping[str, str],
        log: Callable[[str], None],
        *,
        member: Member | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._java = java
        self._jars = jars
        self._settings = dict(settings)
        self._log = log
        self._temporary = data is None
        self.folder = Path(tempfile.mkdtemp(prefix="glasstream-kafka-")) if data is None else data.resolve()
        self._leash: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._logged = 0
        self._lock: IO[str] | None = None
        self._member = member
        self._environment = dict(environment or {})
        self._ports = [0, 0] if member is None else [*member.ports]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def running(self) -> bool:
        """Whether the server's process is there (paused counts)."""
        return self._leash is not None and self._leash.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if not self.running:
            raise BrokerError("the local Kafka is stopped. Call start() first.")
        return self._pid

    @property
    def data(self) -> Path:
        """Folder of Kafka's logs and metadata."""
        return Path(self._settings.get("log.dirs", self.folder / "logs"))

    def open(self) -> None:
        """Make the folder, choose ports and start; another program's grab of a port is answered with other ports.

        Raises
        ------
        BrokerError
            The folder is in use, or the server did not start; the message holds the last lines of its log.
        """
        self.take_folder()
        for left in reversed(range(_PORT_TRIES)):
            self._ports = free_ports()
            try:
                self.start()
                return
            except PortTaken:
                if left == 0:
                    raise

    def start(self) -> None:
        """Start the server on the data and ports it had, and return when it answers."""
        if not self.running:
            self.launch()
            self.await_answer()

    def launch(self) -> None:
        """Start the server's process and do not wait for it: one node of several answers when enough are there."""
        self.kill()  # what is left of a server that ended by itself
        self._configure()
        self._format()
        self._logged = self._log_file.stat().st_size if self._log_file.exists() else 0
        self._spawn()

    def await_answer(self) -> None:
        """Wait until the launched server answers.

        Raises
        ------
        BrokerError
            The server ended, or does not answer before the deadline.
        """
        began = time.monotonic()
        if not answers(self.bootstrap, START_DEADLINE_S, still=lambda: self.running):
            alive = self.running
            self.kill()
            raise self._start_error(alive, self._logged)
        self._log(f"Apache Kafka answers on {self.bootstrap} after {time.monotonic() - began:.1f} s")

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """End the server gracefully; after the deadline kill it. The data stays for start()."""
        if self._leash is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            self._leash.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self._log(f"Apache Kafka had not ended {deadline_s:g} s after it was asked to; killing it")
        self.kill()

    def kill(self) -> None:
        """End the server at once, as a power cut would. What it had written stays for start()."""
        if self._leash is None:
            return
        self._signal(signal.SIGKILL)
        self._leash.wait()
        for pipe in (self._leash.stdin, self._leash.stdout):
            if pipe is not None:
                pipe.close()
        self._leash = None

    def pause(self) -> None:
        """Freeze the server: connections stay open, nothing is answered until resume()."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the server; gracefully where its data is kept, at once where it goes with the run."""
        if self._temporary:
            self.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self.stop()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def _log_file(self) -> Path:
        return self.folder / "kafka.log"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _signal(self, number: signal.Signals) -> None:
        # The leash reaps the server and ends right after it: a running leash means that the id is still the server's.
        if self.running:
            try:
                os.kill(self._pid, number)
            except ProcessLookupError:
                return

    def take_folder(self) -> None:
        """Create the folder and lock it against other runs."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "glasstream.lock").open("w")
        except OSError as error:
            raise BrokerError(
                f"{self.folder}: cannot keep Kafka's data there: {error.strerror}; give another --data, or make this "
                "folder writable"
            ) from error
        end = time.monotonic() + LOCK_DEADLINE_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() >= end:
                    self._lock.close()
                    self._lock = None
                    raise BrokerError(
                        f"the Kafka of another run uses the data folder {self.folder}. "
                        "End that run, use its broker with --broker HOST:PORT, or give another --data."
                    ) from error
            threading.Event().wait(0.1)

    def _configure(self) -> None:
        broker, controller = self._ports
        member = self._member
        settings = server_settings(
            broker_port=broker,
            controller_port=controller,
            data=str(self.data),
            node=1 if member is None else member.node,
            voters=None if member is None else member.voters,
            overrides=self._settings,
        )
        self._properties.write_text(as_properties(settings), encoding="utf-8")
        logging = files("glasstream.app.brokers.local").joinpath("log4j2.properties").read_text(encoding="utf-8")
        (self.folder / "log4j2.properties").write_text(logging, encoding="utf-8")

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [
            *(str(self._java), *_JVM),
            f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}",
            *("-cp", str(self._jars / "*"), main, *arguments),
        ]

    def _format(self) -> None:
        """Give fresh data its cluster id; formatted data is left as it is."""
        if (self.data / "meta.properties").exists():
            return
        cluster = new_cluster_id() if self._member is None else self._member.cluster_id
        # Joined by `=`, because an id may begin with a dash.
        command = self._command(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={self._properties}"
        )
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=START_DEADLINE_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise BrokerError(
                f"Kafka has not prepared {self.folder} within {START_DEADLINE_S:g} s. "
                "The machine is overloaded, or the folder is on a disk that hangs."
            ) from error
        if done.returncode != 0:
            raise BrokerError(
                f"Kafka could not prepare {self.folder} (exit code {done.returncode}). Free space "
                f"there, or give another --data. Its last lines:\n{_last_lines(done.stdout + done.stderr)}"
            )

    def _spawn(self) -> None:
        lock = self._lock
        if lock is None:
            raise BrokerError("the local Kafka has been closed. Make a new one.")
        remove = str(self.folder) if self._temporary else "-"
        grace = 0.0 if self._temporary else STOP_DEADLINE_S
        # By `env`, so that only the server gets them, and not the leash.
        variables = ["env", *(f"{name}={value}" for name, value in self._environment.items())]
        server = [*(variables if self._environment else ()), *self._command("kafka.Kafka", str(self._properties))]
        with as_file(files("glasstream.app.brokers.local").joinpath("leash.py")) as leash:
            self._leash = subprocess.Popen(
                [sys.executable, "-I", str(leash), str(self._log_file), str(grace), remove, *server],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Ctrl-C at a terminal is for the stages, which drain through this broker.
                start_new_session=True,
                # The folder stays locked until the server is gone, also when its owner was killed.
                pass_fds=(lock.fileno(),),
            )
            first = self._leash.stdout.readline() if self._leash.stdout is not None else b""
        if not first:
            self._leash.wait()
            raise BrokerError(f"{self._java} did not start. Its output: {self._tail(0)}")
        self._pid = int(first)

    def _tail(self, since: int) -> str:
        """The last lines that the server logged after the first `since` bytes."""
        try:
            return _last_lines(self._log_file.read_bytes()[since:].decode(errors="replace"))
        except OSError as error:
            return str(error)

    def _start_error(self, alive: bool, logged: int) -> BrokerError:
        tail = self._tail(logged)
        if "Address already in use" in tail and not alive:
            return PortTaken(
                f"expected the ports {self._ports} of 127.0.0.1 for Kafka; another program uses one of them. "
                f"End it and try again. Kafka's last lines:\n{tail}"
            )
        happened = f"it did not answer in {START_DEADLINE_S:g} s" if alive else "it ended while it was starting"
        kept = "" if self._temporary else f" (all of it: {self._log_file})"
        return BrokerError(
            f"expected Apache Kafka to start on {self.bootstrap} with its data in {self.folder}; {happened}. "
            f"It needs about 600 MB of memory and a writable folder. Its last lines{kept}:\n{tail}"
        )


def _last_lines(text: str) -> str:
    """The end of what a Java program said, without the frames of its stack traces."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("\tat ")]
    return "\n".join(lines[-_LAST_LINES:]) or "(it said nothing)"


def new_cluster_id() -> str:
    """Return a random id for the data of a new cluster."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def free_ports(count: int = 2) -> list[int]:
    """Return TCP ports that are free on 127.0.0.1 now, all different.

    They lie below the range from which systems take the ports of outgoing connections. A port of that range may be
    taken before a process that is about to start can listen on it.
    """
    chosen: list[int] = []
    while len(chosen) < count:
        port = _BELOW_OUTGOING[secrets.randbelow(len(_BELOW_OUTGOING))]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in chosen:
                chosen.append(port)
    return chosen
