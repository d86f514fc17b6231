"""Records of public topics, and a producer that writes them for the tests of readers."""

from typing import Any

import orjson
from confluent_kafka import Producer

from tests.support.golden_records import checked_in

SECONDS = 30.0
ESTIMATE = orjson.loads(checked_in("importance.v2.json"))
CURVE = orjson.loads(checked_in("effects.v2.json"))


def estimate(row: int, stream: str = "s", **changes: Any) -> bytes:
    return orjson.dumps({**ESTIMATE, "stream": stream, "row": row, **changes})


def curve(feature: str, row: int, stream: str = "s") -> bytes:
    return orjson.dumps({**CURVE, "stream": stream, "feature": feature, "row": row, "output": None})


class Writer:
    """Writes to one topic that exists."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})

    def send(self, *values: bytes | None, key: bytes = b"s") -> None:
        for value in values:
            self.producer.produce(self.topic, value, key)
        assert self.producer.flush(SECONDS) == 0
