"""Workers that die, sleep or cannot begin: what only a broker shows. The rest is `tests/stages/test_pipeline.py`."""

import os
import signal
from collections.abc import Callable

from confluent_kafka import TopicPartition

from glasstream.transport.worker import ExitCode
from glasstream_topics import events
from tests.deployment import SETTINGS, Deployment, assert_same, wait_for
from tests.logs import messages, reference

Deploy = Callable[..., Deployment]


def test_a_killed_worker_has_a_successor_that_goes_on_exactly(deploy: Deploy) -> None:
    """Only a broker shows that a dead process loses its partition, and that its open transaction is ended.

    That the state suffices to go on from, wherever a worker dies, is shown in `tests/stages/test_pipeline.py`.
    """
    deployment = deploy(*SETTINGS)
    log = [*messages(0, 4_000), events.FLUSH]
    expected = reference(deployment.settings, log)
    deployment.start_all()
    deployment.send(*log)
    for row, victims in ((500, ["learner-1"]), (1_200, ["aggregator-1"]), (1_900, ["learner-1", "aggregator-1"])):
        wait_for(f"row {row} aggregated", lambda row=row: deployment.aggregated("s") >= row)
        for victim in victims:
            deployment.kill(victim)
            deployment.start(victim.split("-")[0], victim)
    deployment.wait_published("s", 3_999)
    assert_same(deployment, expected)


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


def test_a_learner_whose_first_events_are_gone_stays_and_says_so_until_a_new_epoch_begins(deploy: Deploy) -> None:
    """Only a broker deletes records under a stopped worker, and only a worker stays up and is not ready."""
    deployment = deploy(*SETTINGS)
    deployment.start_all()
    deployment.send(*messages(0, 600), events.FLUSH)
    deployment.wait_published("s", 599)
    deployment.stop("learner-1")
    partition = events.partition(b"s", deployment.settings.topics.events)
    place = TopicPartition(deployment.settings.prefix + "events", partition, 10)
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
