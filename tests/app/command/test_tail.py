"""Arguments that `glasstream tail` refuses."""

import pytest

from glasstream.app.brokers.choose import open_broker
from glasstream.app.command.tail import follow
from glasstream.app.configuration import load
from glasstream.base.errors import InputError, TopicError


def test_a_topic_that_is_not_there_is_told_apart_from_one_that_cannot_be() -> None:
    with open_broker("embedded") as broker:
        settings = load(assignments=[f"broker={broker.bootstrap}", "prefix=p."])
        with pytest.raises(TopicError, match=r"p\.drift is missing\. Check --prefix.*creates missing topics"):
            next(follow(settings, "drift", from_start=True, most=1))
        with pytest.raises(InputError, match="tail: expected one of "):
            next(follow(settings, "nothing", from_start=True, most=1))
