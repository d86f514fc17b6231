"""The same Kafka in a container, where a Docker engine answers and Java or Maven is missing."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from glasstream.app.brokers.answer import answers
from glasstream.app.brokers.local.configuration import as_environment, server_settings
from glasstream.app.brokers.local.node import START_DEADLINE_S, STOP_DEADLINE_S, free_ports
from glasstream.base.errors import BrokerError


class ContainerKafka:
    """A Kafka in a container of the version and the settings that `LocalKafka` has. Made by `local_kafka`.

    testcontainers' own Kafka class runs another distribution, picks a new port at every restart, and has no place for
    settings such as the shorter session; so its plain container class runs Apache's image here, on a port chosen
    beforehand. Its reaper removes the container when this process dies.
    """

    kind = "local"

    def __init__(
        self, version: str, data: Path | None, settings: Mapping[str, str], log: Callable[[str], None]
    ) -> None:
        if data is not None:
            raise BrokerError(
                f"expected Java and Maven, to keep Kafka's data in {data}; a container does not keep data. "
                "Install them (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless maven`) or leave --data out."
            )
        self._version = version
        self._settings = settings
        self._log = log
        self._container: Any = None
        self._address = ""

    @property
    def bootstrap(self) -> str:
        return self._address

    def open(self) -> None:
        """Run the image and wait until the broker answers. Raises BrokerError if it does not come to that."""
        try:
            docker_container = import_module("testcontainers.core.container").DockerContainer
            docker_error: type[Exception] = import_module("docker.errors").DockerException
        except ImportError as error:
            raise BrokerError(
                "expected Java and Maven, or the package testcontainers to use the Docker engine of this machine, got "
                "neither. Install the package (`pip install 'glasstream[container]'`), or Java and Maven "
                "(Debian, Ubuntu: `apt-get install openjdk-17-jre-headless maven`)."
            ) from error
        port, controller = free_ports()
        image = f"apache/kafka:{self._version}"
        try:
            container = docker_container(image).with_bind_ports(port, port)
            host = container.get_docker_client().host()
            settings = server_settings(
                broker_port=port,
                controller_port=controller,
                data="/var/lib/kafka/data",
                listen="0.0.0.0",
                advertised=host,
                overrides=self._settings,
            )
            container.with_envs(CLUSTER_ID="Z2xhc3NzdHJlYW0tbG9jYQ", **as_environment(settings))
            self._container = container
            container.start()
        except (docker_error, OSError, RuntimeError) as error:  # the latter: the network, and testcontainers' own
            raise BrokerError(f"the Docker engine cannot start {image}: {error}") from error
        self._address = f"{host}:{port}"
        self._await()

    def start(self) -> None:
        """Start the stopped container on its data and port."""
        self._docker().start()
        self._await()

    def stop(self) -> None:
        """End the broker gracefully."""
        self._docker().stop(timeout=int(STOP_DEADLINE_S))

    def kill(self) -> None:
        """End the broker at once."""
        self._docker().kill()

    def pause(self) -> None:
        """Freeze the broker."""
        self._docker().pause()

    def resume(self) -> None:
        """Let a paused broker go on."""
        self._docker().unpause()

    def close(self) -> None:
        """Remove the container and its data."""
        if self._container is not None:
            self._container.stop()
            self._container = None

    def _docker(self) -> Any:
        if self._container is None:
            raise BrokerError("the container has been closed. Make a new one.")
        return self._container.get_wrapped_container()

    def _await(self) -> None:
        if not answers(self._address, START_DEADLINE_S):
            out, err = self._container.get_logs()
            last = "\n".join((out + err).decode(errors="replace").strip().splitlines()[-15:])
            raise BrokerError(
                f"Apache Kafka in a container has not answered on {self._address} within {START_DEADLINE_S:g} s. Its "
                f"last lines:\n{last}"
            )
        self._log(f"Apache Kafka answers on {self._address} (container)")
