"""Impossible requests are refused in bounded time, with an exit code and a message that says what to do."""

from collections.abc import Callable
from pathlib import Path

from glasstream.app.configuration import load
from glasstream.app.runner.prepare import environment
from glasstream.kafka.transport.worker import ExitCode
from glasstream_topics import events
from tests.integration.conftest import Run
from tests.support.deployment import HMAC_KEY, SETTINGS, Deployment
from tests.support.fork_server import Forked, fork_server
from tests.support.logs import messages
from tests.support.waiting import DEADLINE, wait_for

Deploy = Callable[..., Deployment]
NOBODY = "127.0.0.1:1"


def test_workers_without_a_broker_or_with_settings_that_librdkafka_does_not_take_end(tmp_path: Path) -> None:
    """Only the client library shows what it says of them."""
    settings = load(assignments=[*SETTINGS, f"broker={NOBODY}"])

    def start(stage: str, name: str, **more: str) -> tuple[Forked, Path]:
        log = tmp_path / f"{name}.log"
        variables = {**environment(settings), "GLASSTREAM_HMAC_KEY": HMAC_KEY, **more}
        return fork_server().start(["worker", stage, "--instance", name, "--tether"], variables, log), log

    workers = [start(stage, stage) for stage in ("learner", "explainer", "aggregator", "novelty")]
    misconfigured, log = start("aggregator", "misconfigured", GLASSTREAM_KAFKA_SSL_KEYS="none")
    assert misconfigured.wait(DEADLINE) == ExitCode.USAGE
    said = log.read_text()
    assert 'librdkafka rejects these settings: No such configuration property: "ssl.keys"' in said
    assert "Traceback" not in said
    for worker, log in workers:
        assert worker.wait(DEADLINE) == ExitCode.BROKER
        said = log.read_text()
        assert f"no broker answered at {NOBODY}" in said and "check the address and that the broker runs" in said
        assert "Traceback" not in said


def test_a_run_without_a_broker_says_so_and_ends(start_run: Callable[..., Run]) -> None:
    run = start_run("--broker", NOBODY, "--rows", "100")
    assert run.wait() == ExitCode.BROKER
    assert f"no broker answers at {NOBODY}" in run.log and "Check that Kafka runs" in run.log
    assert "Traceback" not in run.log


def test_an_output_folder_that_cannot_be_written_is_refused(start_run: Callable[..., Run]) -> None:
    run = start_run("--broker", "none", "--rows", "100", "--out", "/proc/nope")
    assert run.wait() == ExitCode.USAGE
    assert "/proc/nope" in run.log and "Traceback" not in run.log


def assert_names_the_missing(deployment: Deployment, stage: str, topic: str) -> None:
    """It ends when it cannot write, and is not started again without."""
    assert deployment.exit_code(f"{stage}-1") == ExitCode.BROKER
    deployment.start(stage)
    assert deployment.exit_code(f"{stage}-1") == ExitCode.BROKER
    said = deployment.log(f"{stage}-1")
    assert f"{deployment.settings.prefix}{topic} is missing" in said and "glasstream topics create" in said


def delete(deployment: Deployment, topic: str) -> None:
    name = deployment.settings.prefix + topic
    deployment.admin.delete_topics([name])[name].result()


def test_a_worker_that_lacks_a_topic_or_whose_state_is_refused_says_so_and_ends(deploy: Deploy) -> None:
    """Only a broker says which topics there are, with how many partitions, and deletes one under a producer.

    Who writes a topic that was deleted ends when what is on its way has not been accepted for 30 s. Which states are
    refused is shown without a broker: `tests/kafka/stages/test_pipeline.py`.
    """
    deployment = deploy(*SETTINGS)
    deployment.start("learner", GLASSTREAM_TOPICS_REQUESTS="5")
    deployment.start("aggregator", GLASSTREAM_PREFIX="nothing-here.")
    for stage, missing in (
        ("learner", f"{deployment.settings.prefix}explain.requests"),
        ("aggregator", "nothing-here.contributions"),
    ):
        assert deployment.exit_code(f"{stage}-1") == ExitCode.BROKER
        assert missing in deployment.log(f"{stage}-1")
    deployment.start_all()
    deployment.send(*messages(0, 300), events.FLUSH)
    deployment.wait_published("s", 299)
    for stage in ("learner", "aggregator"):
        assert deployment.stop(f"{stage}-1") == ExitCode.OK
        deployment.start(stage, GLASSTREAM_SEED="4")
        assert deployment.exit_code(f"{stage}-1") == ExitCode.STATE
        said = deployment.log(f"{stage}-1")
        assert "seed: was 3, is 4" in said and "--new-epoch" in said and "Traceback" not in said
    deployment.read_all()
    assert deployment.workers["explainer-1"].poll() is None  # it follows both topics, and goes on
    deployment.start("learner")
    deployment.start("aggregator")
    delete(deployment, "importance")
    deployment.send(*messages(300, 600), events.FLUSH)
    wait_for("they are learned", lambda: deployment.poll().progress.rows.get("s") == 600)
    delete(deployment, "contributions")
    deployment.send(*messages(600, 800))
    wait_for("they are learned", lambda: deployment.poll().progress.rows.get("s") == 800)
    delete(deployment, "predictions")
    deployment.send(*messages(800, 1_000))
    assert_names_the_missing(deployment, "aggregator", "importance")
    assert_names_the_missing(deployment, "explainer", "contributions")
    assert_names_the_missing(deployment, "learner", "predictions")
