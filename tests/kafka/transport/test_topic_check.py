"""A stage starts on the topics that it needs, and not beside topics of Glasstream 0.1.0; without a broker."""

from collections import defaultdict
from types import SimpleNamespace

import pytest

from glasstream.base.errors import TopicError
from glasstream.kafka.transport import topic_check
from glasstream.kafka.transport.connection import Connection

CONNECTION = Connection("kafka:9092")


def exist(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the brokers have these topics, of two partitions each."""
    topic = SimpleNamespace(error=None, partitions={0: None, 1: None})
    listed = SimpleNamespace(topics=dict.fromkeys(names, topic))

    unknown = SimpleNamespace(topics=defaultdict(lambda: SimpleNamespace(error=None)))

    def list_topics(name: str | None = None, timeout: float = 0.0) -> SimpleNamespace:
        return listed if name is None else unknown

    monkeypatch.setattr(topic_check, "AdminClient", lambda _: SimpleNamespace(list_topics=list_topics))


@pytest.mark.parametrize("old", ["work", "progress.fold", "progress.sentinel"])
def test_a_topic_of_0_1_0_under_the_prefix_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    exist(monkeypatch, "p.events", f"p.{old}")
    with pytest.raises(TopicError) as caught:
        topic_check.check_topics(CONNECTION, {"p.events": 2}, prefix="p.")
    said = str(caught.value)
    assert f"found p.{old}." in said and "not fence workers of 0.1.0" in said and "another `prefix`" in said


def test_topics_of_0_1_0_under_another_prefix_are_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    exist(monkeypatch, "p.events", "q.work", "work")
    topic_check.check_topics(CONNECTION, {"p.events": 2}, prefix="p.")
    with pytest.raises(TopicError, match=r"p\.events has 2 partitions instead of 3"):
        topic_check.check_topics(CONNECTION, {"p.events": 3}, prefix="p.")


def test_an_error_about_missing_topics_names_the_prefixes_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    exist(monkeypatch, "run-1.explain.requests", "run-2.explain.requests", "p.explain.requests", "q.events")
    with pytest.raises(TopicError) as caught:
        topic_check.check_topics(CONNECTION, {"p.events": 2})
    said = str(caught.value)
    assert (
        "p.events is missing. Check --prefix; this broker has topics of Glasstream with the prefix 'run-1.', 'run-2.'"
        in said
    )
    exist(monkeypatch, "p.explain.requests")
    with pytest.raises(TopicError, match=r"p\.events is missing\. Check --prefix\. `glasstream topics create`"):
        topic_check.check_topics(CONNECTION, {"p.events": 2})


@pytest.mark.parametrize("name", ["events", "labels"])
def test_partitions_added_to_a_topic_of_users_are_named_and_prevent_no_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    exist(monkeypatch, f"p.{name}", "p.contributions")
    topic_check.check_topics(CONNECTION, {f"p.{name}": 1}, prefix="p.")
    assert f"p.{name} has 2 partitions, but this deployment was made for 1" in caplog.text
    assert "messages of partition 1 are not read" in caplog.text and "topics expand" in caplog.text
    for names in ({"p.contributions": 1}, {f"p.{name}": 3}):
        with pytest.raises(TopicError, match="topics expand"):
            topic_check.check_topics(CONNECTION, names, prefix="p.")
