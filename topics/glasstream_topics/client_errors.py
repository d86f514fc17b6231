"""Which errors of a Kafka client disappear when the brokers come back."""

from confluent_kafka import KafkaError

_HEALS = frozenset(
    {
        KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._RETRY, KafkaError._WAIT_COORD,
        KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE, KafkaError._ISR_INSUFF, KafkaError._IN_PROGRESS,
        KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION, KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_CONTROLLER, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.TRANSACTION_COORDINATOR_FENCED, KafkaError.TRANSACTION_ABORTABLE,
    }
)  # fmt: skip
"""Errors of a client or a broker while brokers are down, elect leaders, or have too few replicas in sync."""


def heals(error: KafkaError) -> bool:
    """Return whether an error disappears when the brokers come back."""
    return error.code() in _HEALS or bool(error.retriable())
