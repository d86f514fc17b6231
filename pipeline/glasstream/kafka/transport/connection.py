"""Connection settings of every Kafka client."""

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from glasstream.base.errors import SettingsError
from glasstream.flow.settings import Settings
from glasstream_topics.access import READERS
from glasstream_topics.admin import CREATES_NONE

#: Partitioner of Java. librdkafka's own default is CRC32. A stream that is sent with both would
#: land on two partitions and lose its order.
PARTITIONER = "murmur2_random"

#: Largest record in bytes (such as a chunk of a snapshot, or a request). librdkafka refuses larger ones at once.
MAX_RECORD_BYTES = 8 * 1024 * 1024

#: Milliseconds after which a request without an answer counts as lost, and its connection is closed. librdkafka waits
#: for 60 s by default. After a network that silently dropped all connections, producers then wrote nothing for up to
#: two minutes, because they tried one broker after the other. `kafka.socket.timeout.ms` overrides the value.
SOCKET_TIMEOUT_MS = 15_000

#: Seconds of one poll of a producer, at most 0.2: a longer poll of the client goes on after a fatal error.
POLL_SECONDS = 0.1

#: Seconds to wait until a consumer has closed.
CLOSE_SECONDS = 5.0

#: Milliseconds between two looks of a consumer at the topics. A look finds new partitions, and it ends a wait: a member
#: asks for its topics before it joins, and librdkafka loses the question if it gives up the bootstrap address where it
#: asked, because it has just learned the brokers. After `socket.timeout.ms` the next look asks again.
TOPICS_MS = 5_000

#: Milliseconds without an answer of a broker after which a consumer forgets what it knows of its topics. By itself,
#: librdkafka takes three times the interval between two looks, which a pause of the brokers would exceed.
FORGET_MS = 180_000

#: Milliseconds that a leader may wait for its followers before it answers a producer. The producer then tries again.
ACKNOWLEDGE_MS = 10_000


@dataclass(frozen=True)
class Connection:
    """Addresses of the brokers, and the settings that clients need to connect.

    Attributes
    ----------
    bootstrap : str
        `host:port[,host:port...]`.
    extra : mapping
        librdkafka settings that every client gets (`security.protocol`, `sasl.mechanism`, `sasl.username`,
        `sasl.password`, `ssl.ca.location`, ...).
    fetch_wait_ms : int
        Milliseconds for which a broker may hold back a fetch without new records. A real Kafka answers as soon as there
        is a record. librdkafka's mock cluster does not, so this is the latency of every hop there: use 10.
    check_crcs : bool
        Whether consumers of stages verify checksums. The mock cluster writes transaction markers with wrong checksums,
        so the check must be off there (librdkafka's default is off).
    """

    bootstrap: str
    extra: Mapping[str, str] = field(default_factory=dict)
    fetch_wait_ms: int = 100
    check_crcs: bool = True

    def client(self, **settings: object) -> dict[str, Any]:
        """Return a librdkafka configuration; `_` in the names of `settings` stands for a dot."""
        ours = {name.replace("_", "."): value for name, value in settings.items()}
        # Without a logger every client prints connection losses to stderr itself. Errors reach us as results.
        logger = logging.getLogger("librdkafka")
        defaults = {
            "bootstrap.servers": self.bootstrap,
            "logger": logger,
            "log_level": 2,
            "socket.timeout.ms": SOCKET_TIMEOUT_MS,
            **CREATES_NONE,
        }
        return {**defaults, **self.extra, **ours}

    def expect_usable(self) -> None:
        """Raise SettingsError if librdkafka does not accept the settings."""
        try:
            AdminClient(self.client())
        except KafkaException as error:
            raise SettingsError([f"kafka: librdkafka rejects these settings: {error.args[0].str()}"]) from error

    def consumer(self, *, read_committed: bool, **settings: object) -> dict[str, Any]:
        """Return the configuration of a consumer that belongs to no group and commits nothing."""
        settings.setdefault("group_id", READERS)
        return self.client(
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if read_committed else "read_uncommitted",
            fetch_wait_max_ms=self.fetch_wait_ms,
            topic_metadata_refresh_interval_ms=TOPICS_MS,
            metadata_max_age_ms=FORGET_MS,
            **settings,
        )

    def producer(self, **settings: object) -> dict[str, Any]:
        """Return the configuration of an idempotent producer."""
        return self.client(
            enable_idempotence=True,
            acks="all",
            request_timeout_ms=ACKNOWLEDGE_MS,
            partitioner=PARTITIONER,
            message_max_bytes=MAX_RECORD_BYTES,
            **settings,
        )


def drain(producer: Producer, seconds: float) -> None:
    """Wait up to `seconds` until every record of a producer has been reported.

    This is `Producer.flush` for a producer that may have ended. After a fatal error, `flush` calls the reports with an
    exception pending: it raises SystemError, and loses one. `poll` raises the fatal error alone, before the reports,
    which say the same. It is not raised here.
    """
    until = time.monotonic() + seconds
    while len(producer) and time.monotonic() < until:
        with contextlib.suppress(KafkaException):
            producer.poll(POLL_SECONDS)


def close(consumer: Consumer) -> threading.Thread:
    """Close a member of a group, and wait for a limited time. Return the thread in which it closes.

    While brokers are away that takes long, and of a client that has lost its session librdkafka sometimes never
    returns from it.
    """
    thread = threading.Thread(target=consumer.close, name="closing", daemon=True)
    thread.start()
    thread.join(CLOSE_SECONDS)
    return thread


def connection(settings: Settings) -> Connection:
    """Return the connection to the broker of the settings."""
    said = {"debug": "security,broker,cgrp,eos", "log_level": "7"} if settings.worker.debug else {}
    extra = {**said, **settings.kafka}
    return Connection(settings.broker, extra, settings.worker.fetch_wait_ms, settings.worker.check_crcs)
