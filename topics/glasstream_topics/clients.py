"""Clients that write to `events`, and how each chooses the partition of a message with a key."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Client(NamedTuple):
    """A client of Kafka.

    Attributes
    ----------
    name
        Name, with the languages or libraries that it stands for.
    short
        Name in an error.
    default
        How it chooses the partition of a message with a key, by default.
    setting
        What makes it use murmur2; empty if it does so by default.
    otherwise
        Further advice; may be empty.
    """

    name: str
    short: str
    default: str
    setting: str = ""
    otherwise: str = ""


CLIENTS: Final = (
    Client("Java, and what is built on it (Kafka Streams, Connect, Flink, Spark)", "Java", "murmur2"),
    Client(
        "librdkafka, and what is built on it (C, C++, confluent-kafka for Python, Go, .NET and JavaScript, kcat, PHP)",
        "librdkafka",
        "CRC32",
        "partitioner=murmur2_random",
    ),
    Client("Rust: rdkafka, which is librdkafka", "rdkafka", "CRC32", '.set("partitioner", "murmur2_random")'),
    Client("franz-go (Go)", "franz-go", "murmur2", otherwise="`SaramaHasher` and other partitioners are not murmur2"),
    Client(
        "sarama (Go)",
        "sarama",
        "FNV-1a",
        "Producer.Partitioner = sarama.NewMurmur2Partitioner",
        "added in 2026: older releases lack it; `NewReferenceHashPartitioner` is FNV-1a too",
    ),
    Client(
        "segmentio/kafka-go (Go)",
        "kafka-go",
        "round robin: the key is ignored",
        "Balancer: kafka.Murmur2Balancer{}",
        "the balancer `Hash` is FNV-1a",
    ),
    Client("kafkajs 2 (JavaScript)", "kafkajs 2", "murmur2"),
    Client(
        "kafkajs 1, and `LegacyPartitioner` of kafkajs 2",
        "kafkajs with LegacyPartitioner",
        "a variant of murmur2",
        "createPartitioner: Partitioners.DefaultPartitioner",
        "kafkajs 1 calls it `JavaCompatiblePartitioner`",
    ),
    Client("kafka-python and aiokafka (Python)", "kafka-python", "murmur2"),
)
"""Clients and their partitioners, as of 2026."""

INTAKE: Final = "let it write to a topic of its own, and put the intake in front of `events`"
"""What helps where a client cannot use murmur2 or sends no keys. The intake sets the key and the partition."""

WRONG_PARTITION: Final[Mapping[str, str]] = MappingProxyType(
    {
        "murmur2": "make the producer use murmur2 ("
        + "; ".join(f"{client.short}: {client.setting}" for client in CLIENTS if client.setting)
        + f"); if it cannot, {INTAKE}. If all producers use librdkafka's default, set topics.partitioner=crc32 in "
        "Glasstream",
        "crc32": "topics.partitioner=crc32 fits only producers that use librdkafka's default: make this one do so "
        f"(partitioner=consistent_random), or {INTAKE}",
    }
)
"""What to do about messages on another partition than their key's, by Glasstream's own partitioner."""

NO_KEY: Final = f'set the key, or {INTAKE} (intake.stream="=NAME" gives all messages to one stream)'
"""What to do about messages without a key."""


def table() -> Iterator[str]:
    """Yield the lines of a table of the clients, in Markdown."""
    yield "| client | partitioner for messages with a key | setting for murmur2 |"
    yield "|---|---|---|"
    for client in CLIENTS:
        setting = f"`{client.setting}`" if client.setting else "none needed"
        yield f"| {client.name} | {client.default} | {'; '.join(filter(None, (setting, client.otherwise)))} |"
