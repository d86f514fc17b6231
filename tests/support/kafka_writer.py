"""Public records on a real Kafka."""

from collections.abc import Mapping

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.waiting import wait_for
from tests.support.writing import SECONDS, Writer


class KafkaWriter(Writer):
    """Makes one topic of a prefix and writes to it; the topic is gone at the end of the test."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(bootstrap, topic)
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result(SECONDS)
        wait_for(f"the topic {topic}", lambda: topic in self.admin.list_topics(timeout=SECONDS).topics)

    def transaction(self, *values: bytes, commit: bool) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.topic})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.topic, value, b"s")
        producer.flush(SECONDS)
        producer.commit_transaction(SECONDS) if commit else producer.abort_transaction(SECONDS)
        # The markers come after the answer, and until then committed records are read up to the transaction only.
        committed, all_records = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        wait_for("the markers", lambda: self.ends(committed) == self.ends(all_records))

    def ends(self, level: IsolationLevel) -> list[int]:
        """Return where each partition ends for a reader with this isolation level."""
        partitions = self.admin.list_topics(self.topic, timeout=SECONDS).topics[self.topic].partitions
        asked = {TopicPartition(self.topic, partition): OffsetSpec.latest() for partition in partitions}
        found = self.admin.list_offsets(asked, isolation_level=level)
        return [found[place].result(SECONDS).offset for place in asked]

    def delete(self) -> None:
        self.admin.delete_topics([self.topic])[self.topic].result(SECONDS)
