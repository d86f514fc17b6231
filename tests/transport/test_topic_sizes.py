"""Checks of the largest message of its topic that a worker makes before it starts."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from glasstream.brokers.choose import TopicRequest, open_broker
from glasstream.transport import topic_sizes
from glasstream.transport.connection import Connection
from glasstream.transport.topic_sizes import SizeCheck


def test_the_embedded_broker_is_not_asked_for_what_it_never_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Any] = []

    class Admin(topic_sizes.AdminClient):
        def describe_configs(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            asked.append(args)
            return {"topic": SimpleNamespace(result=lambda: {})}

    monkeypatch.setattr(topic_sizes, "AdminClient", Admin)
    with open_broker("embedded", data=None, client={}, log=lambda line: None) as broker:
        broker.create_topics([TopicRequest("events", 1, {})])
        with caplog.at_level(logging.WARNING):
            SizeCheck(Connection(broker.bootstrap), "events").check()
    assert not asked and not caplog.text
