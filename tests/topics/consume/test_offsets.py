"""A broker that does not know a partition yet is asked again, and not for ever."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from glasstream.base.errors import BrokerError, UnavailableError
from glasstream_topics.consume import offsets


def client(*answers: object) -> SimpleNamespace:
    """Gives these answers, and then the last one again."""
    left = [*answers]

    def answer(place: TopicPartition, timeout: float, cached: bool) -> object:
        assert (place.topic, place.partition) == ("t", 3) and timeout > 0 and not cached
        given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, int):
            raise KafkaException(KafkaError(given))
        return given

    return SimpleNamespace(get_watermark_offsets=answer)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_PAUSE", 0.001)


@pytest.mark.parametrize(
    "error", [KafkaError._TIMED_OUT, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART, None]
)
def test_a_broker_without_an_answer_is_asked_again(error: int | None) -> None:
    assert offsets.bounds(client(error, error, (2, 9)), "t", 3, 10.0) == (2, 9)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KafkaError._TIMED_OUT, UnavailableError),
        (None, UnavailableError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerError),
    ],
)
def test_what_does_not_end_is_reported_with_the_reason(error: int | None, kind: type[BrokerError]) -> None:
    with pytest.raises(BrokerError, match=r"no offsets of t\[3\] within 0.02 s") as found:
        offsets.bounds(client(error), "t", 3, 0.02)
    assert type(found.value) is kind
