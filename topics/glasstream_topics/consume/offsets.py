"""Ask where a partition begins and ends, until a broker knows it: a new topic has no leader yet."""

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from glasstream_topics.client_errors import heals
from glasstream_topics.errors import BrokerError, UnavailableError

_PAUSE = 0.2


def bounds(client: Consumer, topic: str, partition: int, timeout: float) -> tuple[int, int]:
    """Return the first offset kept and the one after the last.

    For a client that reads committed records only, open transactions are beyond the end.

    Raises
    ------
    BrokerError
        The broker does not answer within `timeout` seconds. UnavailableError means that it may answer later.
    """
    deadline = time.monotonic() + timeout
    while True:
        left = max(deadline - time.monotonic(), _PAUSE)
        try:
            found = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=left, cached=False)
            reason, away = "no answer", True
        except KafkaException as error:
            found, reason = None, error.args[0].str()
            away = heals(error.args[0])
        if found is not None:
            low, high = found
            return int(low), int(high)
        if time.monotonic() + _PAUSE > deadline:
            kind = UnavailableError if away else BrokerError
            raise kind(f"got no offsets of {topic}[{partition}] within {timeout:g} s: {reason}")
        time.sleep(_PAUSE)
