"""Topic administration where the brokers of a cluster do not know the same yet."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient

import glasstream_topics
from glasstream_topics import admin
from glasstream_topics.errors import TopicError

NAMES = [topic.full_name("p.") for topic in glasstream_topics.ALL]


def cluster(copies: int, listed: list[str]) -> SimpleNamespace:
    """Metadata of three brokers that list some topics of one partition."""
    partition = SimpleNamespace(leader=1, replicas=list(range(copies)))
    topics = {name: SimpleNamespace(error=None, partitions={0: partition}) for name in listed}
    return SimpleNamespace(brokers={1: None, 2: None, 3: None}, topics=topics)


class Brokers:
    """A client whose every request for metadata goes to another broker; the last answers from then on."""

    def __init__(self, *answers: SimpleNamespace) -> None:
        self.answers = list(answers)

    def list_topics(self, timeout: float) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize(
    "behind",
    [
        cluster(1, []),
        cluster(1, NAMES[1:]),
        SimpleNamespace(brokers={}, topics={name: SimpleNamespace(error=None, partitions={}) for name in NAMES}),
    ],
    ids=["no topics", "one topic fewer", "no partitions"],
)
def test_a_broker_that_is_behind_hides_no_topic_with_few_copies(behind: SimpleNamespace) -> None:
    client = cast(AdminClient, Brokers(behind, cluster(1, NAMES)))
    assert admin.scarce(client, "p.") == dict.fromkeys(NAMES, 1)


def test_a_broker_that_never_lists_the_topics_is_named() -> None:
    client = cast(AdminClient, Brokers(cluster(1, NAMES[1:])))
    with pytest.raises(TopicError, match=r"expected that the broker lists the topics within 0\.1 s"):
        admin.scarce(client, "p.", timeout=0.1)
