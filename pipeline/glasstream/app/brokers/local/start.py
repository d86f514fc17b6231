"""The way to a Kafka of this machine: Java and Maven where they are, else a container."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from glasstream.app.brokers.local import jars, toolchain
from glasstream.app.brokers.local.container import ContainerKafka
from glasstream.app.brokers.local.node import LocalKafka
from glasstream.base.errors import BrokerError


class Kafka(Protocol):
    """A running Kafka that belongs to this process. Tests of recovery do all of this to it."""

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT`, unchanged by restarts."""

    def start(self) -> None:
        """Start again on the same data and port, and return when it answers."""

    def stop(self) -> None:
        """End gracefully; the data stays."""

    def kill(self) -> None:
        """End at once; what was written stays."""

    def pause(self) -> None:
        """Freeze: connections stay open, nothing is answered."""

    def resume(self) -> None:
        """Go on after pause()."""

    def close(self) -> None:
        """End for good; data without a folder of its own is removed."""


@contextmanager
def local_kafka(
    data: Path | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    log: Callable[[str], None] | None = None,
) -> Iterator[Kafka]:
    """A Kafka that answers, until the block is left or this process dies, whichever comes first.

    Parameters
    ----------
    data
        Folder that keeps topics and records for later runs; None for a temporary one that is removed at the end.
        One run at a time can use it.
    settings
        Broker settings on top of `configuration.server_settings`.
    log
        Function that receives a line of text for each slow step; None for the log of this module.

    Raises
    ------
    BrokerError
        There is no way to a Kafka here, or it did not start; the message says what to install or do.
    """
    kafka = _make(data, dict(settings or {}), log or logging.getLogger(__name__).info)
    try:
        kafka.open()
        yield kafka
    finally:
        kafka.close()


def prepare(log: Callable[[str], None]) -> None:
    """Make sure that `local_kafka` has what it needs, fetching it if need be, without starting anything.

    Raises BrokerError, saying what to install, if there is no way to a Kafka on this machine.
    """
    try:
        toolchain.java()
        jars.fetch(log)
    except BrokerError:
        if not toolchain.docker_answers():
            raise


def _make(data: Path | None, settings: Mapping[str, str], log: Callable[[str], None]) -> LocalKafka | ContainerKafka:
    try:
        return LocalKafka(toolchain.java(), jars.fetch(log), data, settings, log)
    except BrokerError as error:
        if not toolchain.docker_answers():
            raise
        log(f"{error} A Docker engine answers; Kafka runs in a container instead.")
        return ContainerKafka(jars.kafka_version(), data, settings, log)
