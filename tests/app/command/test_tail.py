"""Records that `glasstream tail` prints, and arguments that it refuses."""

import pytest

from glasstream.app.brokers.choose import open_broker
from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command.tail import follow
from glasstream.app.configuration import load
from glasstream.base.errors import InputError, TopicError
from tests.support.writing import Writer


def test_only_records_of_the_stream_that_is_named(embedded: EmbeddedKafka) -> None:
    embedded.create_topic("p.drift", 1)
    writer = Writer(embedded.bootstrap, "p.drift")
    writer.send(b"1", b"2", key=b"loans")
    writer.send(b"3", key=b"bikes")
    writer.send(b"4", key=b"loans")
    settings = load(assignments=[f"broker={embedded.bootstrap}", "prefix=p."])
    assert list(follow(settings, "p.drift", from_start=True, stream="loans", most=3)) == ["1", "2", "4"]
    assert list(follow(settings, "drift", from_start=True, most=3)) == ["1", "2", "3"]


def test_a_topic_that_is_not_there_is_told_apart_from_one_that_cannot_be() -> None:
    with open_broker("embedded") as broker:
        settings = load(assignments=[f"broker={broker.bootstrap}", "prefix=p."])
        with pytest.raises(TopicError, match=r"p\.drift is missing\. Check --prefix.*creates missing topics"):
            next(follow(settings, "drift", from_start=True, most=1))
        with pytest.raises(InputError, match="tail: expected one of "):
            next(follow(settings, "nothing", from_start=True, most=1))
