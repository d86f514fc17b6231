"""A topic to export."""

import pytest

from glasstream.app.brokers.embedded import EmbeddedKafka
from tests.support.writing import Writer, estimate


@pytest.fixture
def writer(embedded: EmbeddedKafka) -> Writer:
    """To `importance`, of two partitions, which has records of two streams and one that is none."""
    embedded.create_topic("test.importance", 2)
    writer = Writer(embedded.bootstrap, "test.importance")
    writer.send(*(estimate(row, 'a "stream", with\nmarks') for row in range(5)), b"no record")
    writer.send(estimate(7, "other"), key=b"other")
    return writer
