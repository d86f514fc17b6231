"""How every client of ours reaches the brokers, said once for librdkafka and for Faust."""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import faust
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from faust.types.auth import AuthProtocol
from yarl import URL

from glasstream.errors import SettingsError
from glasstream_topics.access import READERS

#: What Java, aiokafka and Faust do with a key; librdkafka's own default is CRC32, and one stream sent by both would
#: land on two partitions and lose its order.
PARTITIONER = "murmur2_random"

#: A record (a chunk of a snapshot, a request) stays below this; librdkafka refuses larger ones at once.
MAX_RECORD_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Connection:
    """Where the brokers are, and what a client must say to be let in.

    Attributes
    ----------
    bootstrap : str
        `host:port[,host:port...]`.
    extra : mapping
        librdkafka settings that every client gets (`security.protocol`, `sasl.mechanism`, `sasl.username`,
        `sasl.password`, `ssl.ca.location`, ...). Faust's consumer is told the same, as far as it knows it.
    fetch_wait_ms : int
        How long a broker may hold a fetch back when there is nothing new. A real Kafka answers as soon as there is
        something; librdkafka's mock cluster does not, there it is the latency of every hop: set 10 for it.
    check_crcs : bool
        Whether Faust's consumer checks what it fetched. The mock cluster writes transaction markers with a wrong
        checksum, so there it must not (librdkafka does not by default).
    """

    bootstrap: str
    extra: Mapping[str, str] = field(default_factory=dict)
    fetch_wait_ms: int = 100
    check_crcs: bool = True

    def client(self, **settings: object) -> dict[str, Any]:
        """Return a librdkafka configuration; `_` in the names of `settings` stands for a dot."""
        ours = {name.replace("_", "."): value for name, value in settings.items()}
        # Without a logger every client prints connection losses to stderr by itself; errors reach us as results.
        logger = logging.getLogger("librdkafka")
        return {"bootstrap.servers": self.bootstrap, "logger": logger, "log_level": 2, **self.extra, **ours}

    def expect_usable(self) -> None:
        """Raise SettingsError when librdkafka does not take the settings."""
        try:
            AdminClient(self.client())
        except KafkaException as error:
            raise SettingsError([f"kafka: librdkafka does not take these settings: {error.args[0].str()}"]) from error

    def consumer(self, *, read_committed: bool, **settings: object) -> dict[str, Any]:
        """Return the configuration of a consumer outside any group that commits nothing."""
        return self.client(
            group_id=READERS,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if read_committed else "read_uncommitted",
            fetch_wait_max_ms=self.fetch_wait_ms,
            **settings,
        )

    def producer(self, **settings: object) -> dict[str, Any]:
        """Return the configuration of an idempotent producer."""
        return self.client(
            enable_idempotence=True,
            acks="all",
            partitioner=PARTITIONER,
            message_max_bytes=MAX_RECORD_BYTES,
            **settings,
        )

    def broker_urls(self) -> list[URL]:
        """Return the brokers as Faust wants them."""
        return [URL(f"kafka://{address.strip()}") for address in self.bootstrap.split(",")]

    def faust_credentials(self) -> Any:
        """Return Faust's credentials for `extra`, or None for a broker that asks for none.

        Faust takes SASL without TLS for granted unless the protocol is set explicitly, so it always is.

        Raises
        ------
        SettingsError
            For a security protocol or mechanism that Faust's consumer cannot speak.
        """
        name = self.extra.get("security.protocol", "PLAINTEXT").upper()
        if name == "PLAINTEXT":
            return None
        context = None
        if name in ("SSL", "SASL_SSL"):
            context = ssl.create_default_context(cafile=self.extra.get("ssl.ca.location"))
            certificate = self.extra.get("ssl.certificate.location")
            if certificate:
                context.load_cert_chain(
                    certificate, self.extra.get("ssl.key.location"), self.extra.get("ssl.key.password")
                )
        if name == "SSL":
            return faust.SSLCredentials(context)
        if name not in ("SASL_SSL", "SASL_PLAINTEXT"):
            raise SettingsError(
                [f"security.protocol: expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, got {name!r}"]
            )
        mechanism = self.extra.get("sasl.mechanism", self.extra.get("sasl.mechanisms", "PLAIN")).upper()
        if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            raise SettingsError([f"sasl.mechanism: expected PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, got {mechanism!r}"])
        credentials = faust.SASLCredentials(
            username=self.extra.get("sasl.username", ""),
            password=self.extra.get("sasl.password", ""),
            ssl_context=context,
            mechanism=mechanism,
        )
        credentials.protocol = AuthProtocol.SASL_SSL if name == "SASL_SSL" else AuthProtocol.SASL_PLAINTEXT
        return credentials
