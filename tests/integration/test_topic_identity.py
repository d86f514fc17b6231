"""A topic that is deleted and created again has another id on a real Kafka, and a worker refuses to continue in it."""

from collections.abc import Callable

import pytest
from confluent_kafka.admin import NewTopic

from glasstream.transport.connection import connection
from glasstream.transport.progress import read_to_end
from glasstream.transport.topic_identity import TopicIdentity
from glasstream_topics import progress_learner
from glasstream_topics.progress_learner import LearnerPartitionProgress
from tests.deployment import SETTINGS, Deployment, wait_for
from tests.logs import messages

pytestmark = pytest.mark.kafka

Deploy = Callable[..., Deployment]


def committed(deployment: Deployment) -> LearnerPartitionProgress | None:
    name = f"{deployment.settings.prefix}progress.learner"
    return progress_learner.restore(read_to_end(connection(deployment.settings), name, 0, 30.0)).partition


def test_events_that_were_created_again_while_no_learner_ran_are_refused_however_many_there_are(
    deploy: Deploy,
) -> None:
    """Only a broker gives ids."""
    deployment = deploy(*SETTINGS, "topics.events=1")
    identify = TopicIdentity(connection(deployment.settings), f"{deployment.settings.prefix}events")
    deployment.start("learner")
    deployment.send(*messages(0, 100))
    wait_for("5 messages used", lambda: (found := committed(deployment)) is not None and found.offset == 5)
    before = committed(deployment)
    assert before is not None and before.topic_id == identify()
    deployment.kill("learner-1")

    name = f"{deployment.settings.prefix}events"
    deployment.admin.delete_topics([name])[name].result(30.0)
    wait_for("no topic", lambda: name not in deployment.admin.list_topics(timeout=30.0).topics)
    deployment.admin.create_topics([NewTopic(name, 1, 1)])[name].result(30.0)
    deployment.send(*messages(0, 300))
    assert identify() != before.topic_id

    deployment.start("learner")
    said = f"was deleted and created again since this state was saved (its id was {before.topic_id}"
    wait_for("the learner refuses", lambda: said in deployment.log("learner-1") and deployment.poll())
    assert deployment.workers["learner-1"].poll() is None, "it stays, and is not ready"
    assert committed(deployment) == before
