"""Workers that die, sleep or cannot begin, and records that go under them: what only a broker shows.

The rest is `tests/kafka/stages/test_pipeline.py`.
"""

import os
import signal
from collections.abc import Callable

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.input_topic import TopicIdentity
from glasstream.kafka.transport.progress import read_to_end
from glasstream.kafka.transport.worker import ExitCode
from glasstream_topics import events, progress_learner
from glasstream_topics.progress_learner import LearnerPartitionProgress
from tests.support.deployment import SETTINGS, Deployment, assert_same, make_a_hole
from tests.support.logs import messages, reference
from tests.support.waiting import wait_for

Deploy = Callable[..., Deployment]


def test_successors_of_killed_workers_continue_exactly_and_lost_records_come_again(deploy: Deploy) -> None:
    """Only a broker shows that a dead process loses its partition, that its open transaction is ended, and that what is
    removed from a queue under a worker is published again.

    That the state suffices to go on from, wherever a worker dies, is shown in `tests/kafka/stages/test_pipeline.py`,
    and that any record may be lost in `tests/kafka/stages/test_repair.py`.
    """
    deployment = deploy(*SETTINGS, "worker.session_seconds=60")
    log = [*messages(0, 4_000), events.FLUSH]
    first, second = list(messages(4_000, 4_600)), [*messages(4_600, 5_200), events.FLUSH]
    expected = reference(deployment.settings, [*log, *first, *second])
    deployment.start_all()
    deployment.send(*log)
    for row, victims in ((500, ["learner-1"]), (1_200, ["aggregator-1"]), (1_900, ["learner-1", "aggregator-1"])):
        wait_for(f"row {row} aggregated", lambda row=row: deployment.aggregated("s") >= row)
        for victim in victims:
            deployment.kill(victim)
            deployment.start(victim.split("-")[0], victim)
    wait_for("4,000 rows aggregated", lambda: deployment.aggregated("s") >= 4_000)
    make_a_hole(deployment, "explain.requests", first, 4_600)
    make_a_hole(deployment, "contributions", second, 5_200)
    deployment.wait_published("s", 5_199)
    assert_same(deployment, expected)
    assert deployment.log("learner-1").count("requests and their snapshots") >= 2, deployment.log("learner-1")


def test_a_worker_that_was_paused_past_its_session_can_add_nothing(deploy: Deploy) -> None:
    """It wakes as a second owner: only a broker shows that the first commit of its successor has fenced it."""
    deployment = deploy(*SETTINGS)
    log = [*messages(0, 3_000), events.FLUSH]
    expected = reference(deployment.settings, log)
    deployment.start_all()
    deployment.send(*log[: len(log) // 2])
    wait_for("row 500 aggregated", lambda: deployment.aggregated("s") >= 500)
    sleeper = deployment.workers["learner-1"]
    os.kill(sleeper.pid, signal.SIGSTOP)
    deployment.start("learner", "learner-2")
    deployment.send(*log[len(log) // 2 :])
    deployment.wait_published("s", 2_999)
    os.kill(sleeper.pid, signal.SIGCONT)
    assert deployment.stop("learner-2") == ExitCode.OK
    code = sleeper.poll()
    if code is None:
        code = deployment.stop("learner-1")
    # BROKER: it was paused within a commit, and wakes when the commit's deadline is gone.
    assert code in (ExitCode.OK, ExitCode.FENCED, ExitCode.BROKER), deployment.log("learner-1")
    deployment.read_all()
    assert_same(deployment, expected)


def test_a_learner_whose_first_events_are_gone_or_made_again_stays_and_says_so(deploy: Deploy) -> None:
    """Only a broker deletes records and gives ids to topics, and only a worker stays up and is not ready.

    After the first loss a new epoch begins. Then the topic is deleted and created again while no learner runs, and gets
    more events than the learner had used.
    """
    deployment = deploy(*SETTINGS, "topics.events=1")
    name = f"{deployment.settings.prefix}{events.TOPIC.name}"
    deployment.start_all()
    deployment.send(*messages(0, 600), events.FLUSH)
    deployment.wait_published("s", 599)
    deployment.stop("learner-1")
    place = TopicPartition(name, 0, 10)
    deployment.admin.delete_records([place])[place].result()
    deployment.start("learner")
    wait_for("it is told", lambda: "keeps it from 10 on" in deployment.log("learner-1"))
    said = deployment.log("learner-1")
    assert "again from offset 0" in said and "--set epoch=N" in said and "another --prefix" in said
    assert deployment.stop("learner-1") == ExitCode.OK
    for stage in ("learner", "explainer", "aggregator"):
        if stage != "learner":
            deployment.stop(f"{stage}-1")
        deployment.start(stage, f"{stage}-2", GLASSTREAM_EPOCH="1")
    deployment.send(*messages(600, 1_200), events.FLUSH)

    def are_published() -> bool:
        deployment.poll()
        return any(b'"epoch":1' in record for record in deployment.values("importance"))

    wait_for("records of the new epoch", are_published)
    identify = TopicIdentity(connection(deployment.settings), name)
    wait_for("all is used", lambda: committed(deployment).offset == 62)
    before = committed(deployment)
    assert before.topic_id == identify()
    deployment.kill("learner-2")

    deployment.admin.delete_topics([name])[name].result(30.0)
    wait_for("no topic", lambda: name not in deployment.admin.list_topics(timeout=30.0).topics)
    deployment.admin.create_topics([NewTopic(name, 1, 1)])[name].result(30.0)
    deployment.send(*messages(0, 1_400))
    assert identify() != before.topic_id

    deployment.start("learner", "learner-2", GLASSTREAM_EPOCH="1")
    refused = f"was deleted and created again since this state was saved (its id was {before.topic_id}"
    wait_for("the learner refuses", lambda: refused in deployment.log("learner-2") and deployment.poll())
    assert deployment.workers["learner-2"].poll() is None, "it stays, and is not ready"
    assert committed(deployment) == before


def committed(deployment: Deployment) -> LearnerPartitionProgress:
    """Return how far the learner is on partition 0."""
    name = f"{deployment.settings.prefix}progress.learner"
    found = progress_learner.restore(read_to_end(connection(deployment.settings), name, 0, 30.0)).partition
    assert found is not None
    return found
