"""A producer and a consumer for short tests of a broker."""

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.waiting import wait_for

DEADLINE_S = 30.0


def send(bootstrap: str, topic: str, values: list[bytes]) -> list[KafkaError]:
    """Write records, and return the broker's refusals."""
    refusals: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: object) -> None:
        if error is not None:
            refusals.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 16_000_000})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(DEADLINE_S) == 0
    return refusals


def received(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    """The first `count` values of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    try:
        wait_for(f"{count} records of {topic}", lambda: _take(consumer, values) >= count)
    finally:
        consumer.close()
    return values


def _take(consumer: Consumer, values: list[bytes]) -> int:
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        values.append(message.value())
    return len(values)
