"""What cannot be done is refused in bounded time, with a message that says what to do, and an exit code."""

from collections.abc import Callable

import orjson
import pytest

from pipeline.stages.build import connection
from pipeline.transport.progress import read_to_end
from pipeline.transport.worker import ExitCode
from tests.deployment import Deployment, wait_for
from tests.integration.conftest import Run
from tests.integration.test_health import metrics
from tests.integration.test_recovery import SETTINGS, assert_same, messages, reference
from topics import events, importance
from topics.progress_learner import PARTITION_KEY

Deploy = Callable[..., Deployment]
WATCHED = (*SETTINGS, "explain.methods=ipfi,novelty", "sentinel.window=100", "sentinel.stride=200",
           "sentinel.delay=100", "sentinel.held=0.5", "sentinel.rate=0.05", "sentinel.learners=3")  # fmt: skip
NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("stage", ["learner", "explainer", "fold", "sentinel"])
def test_a_worker_without_a_broker_says_so_and_ends(stage: str, deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    deployment.start(stage, GLASSTREAM_BROKER=NOBODY)
    assert deployment.exit_code(f"{stage}-1") == ExitCode.BROKER
    said = deployment.log(f"{stage}-1")
    assert f"no broker answered at {NOBODY}" in said and "check the address and that the broker runs" in said
    assert "Traceback" not in said


def test_settings_that_librdkafka_does_not_take_are_named(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    deployment.start("fold", GLASSTREAM_KAFKA_SSL_KEYS="none")
    assert deployment.exit_code("fold-1") == ExitCode.USAGE
    said = deployment.log("fold-1")
    assert 'librdkafka does not take these settings: No such configuration property: "ssl.keys"' in said
    assert "Traceback" not in said


def test_a_run_without_a_broker_says_so_and_ends(start_run: Callable[..., Run]) -> None:
    run = start_run("--broker", NOBODY, "--rows", "100")
    assert run.wait() == ExitCode.BROKER
    assert f"expected a Kafka at {NOBODY}" in run.log and "Check that it runs" in run.log
    assert "Traceback" not in run.log


def test_a_data_folder_that_cannot_be_written_is_refused(kafka: str, start_run: Callable[..., Run]) -> None:
    run = start_run("--broker", "local", "--data", "/proc/nope", "--rows", "100")
    assert run.wait() == ExitCode.BROKER
    assert "/proc/nope" in run.log and "Give another --data, or make this one writable" in run.log
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


@pytest.mark.slow
def test_a_topic_that_is_deleted_while_running_ends_who_writes_it(deploy: Deploy) -> None:
    """When what is on its way has not been accepted for 30 s."""
    deployment = deploy(*SETTINGS)
    deployment.start_all()
    deployment.send(*messages(0, 400), events.FLUSH)
    deployment.wait_published("s", 399)
    delete(deployment, "contributions")
    deployment.send(*messages(400, 600))
    wait_for("they are learned", lambda: deployment.poll().progress.rows.get("s") == 600)
    delete(deployment, "predictions")
    deployment.send(*messages(600, 800))
    assert_names_the_missing(deployment, "explainer", "contributions")
    assert_names_the_missing(deployment, "learner", "predictions")


def test_a_fold_whose_topic_is_deleted_while_running_ends(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    deployment.start_all()
    deployment.send(*messages(0, 400), events.FLUSH)
    deployment.wait_published("s", 399)
    delete(deployment, "importance")
    deployment.send(*messages(400, 800), events.FLUSH)
    assert_names_the_missing(deployment, "fold", "importance")


def test_a_sentinel_whose_topic_is_deleted_while_running_ends(deploy: Deploy) -> None:
    deployment = deploy(*WATCHED)
    deployment.start("sentinel")
    deployment.send(*messages(0, 800))
    wait_for("some are scored", lambda: deployment.poll().progress.watched and deployment.records["novelty"])
    delete(deployment, "novelty")
    deployment.send(*messages(800, 1_600), events.FLUSH)
    assert_names_the_missing(deployment, "sentinel", "novelty")


def rows_with_reason(deployment: Deployment) -> float:
    return metrics(deployment, "explainer-1")["rows_failed_total"]


def test_rows_on_which_the_model_raises_count_as_unexplained_and_the_rest_is_explained(deploy: Deploy) -> None:
    """The same rows as in the quiet run: which ones fail does not depend on the rows beside them."""
    deployment = deploy("model.name=tests.integration.raising:strict", "model.task=classification", "publish.every=50")
    log = [*messages(0, 600), events.FLUSH]
    expected = reference(deployment.settings, log)
    deployment.start_all()
    deployment.send(*log)
    deployment.wait_published("s", 599)
    assert_same(deployment, expected)
    newest = importance.decode(deployment.values("importance")[-1])
    failed = rows_with_reason(deployment)
    assert 0 < failed < 500 and newest.coverage == pytest.approx(1 - failed / 500)
    assert newest.n == 500 - failed
    assert metrics(deployment, "explainer-1")["blocks_total failed"] > 0
    assert metrics(deployment, "fold-1")["coverage s"] == newest.coverage
    said = deployment.log("fold-1")
    assert said.count("could not be explained") == 1 and "ArithmeticError: c is not a times b" in said
    for worker in ("learner-1", "explainer-1", "fold-1"):
        assert deployment.stop(worker) == ExitCode.OK


def another(package: str) -> tuple[Callable[[dict], dict], list[str]]:
    """A record made under another version of a package, and what is said of it."""
    name = f"version.{package}"
    return (
        lambda record: {**record, "fingerprint": {**record["fingerprint"], name: "0.1.0"}},
        [f"{name}: was '0.1.0', is '", "--new-epoch"],
    )


OTHERS: dict[str, tuple[Callable[[dict], dict], list[str]]] = {
    "a later schema": (lambda record: {**record, "schema_version": 2}, ["Invalid enum value 2", "schema_version"]),
    "an older schema": (lambda record: {**record, "schema_version": 0}, ["Invalid enum value 0", "schema_version"]),
    "a damaged record": (lambda record: {}, ["missing required field", "the release that wrote it"]),
}


@pytest.mark.parametrize(("stage", "package"), [("learner", "river"), ("fold", "river"), ("sentinel", "scipy")])
def test_state_that_this_release_cannot_go_on_from_is_refused(stage: str, package: str, deploy: Deploy) -> None:
    deployment = deploy(*WATCHED)
    deployment.start_all()
    deployment.start("sentinel")
    deployment.send(*messages(0, 300), events.FLUSH)
    deployment.wait_published("s", 299)
    wait_for("all is watched", deployment.watched)
    assert deployment.stop(f"{stage}-1") == ExitCode.OK
    name = f"{deployment.settings.prefix}progress.{stage}"
    partition = events.partition(b"s", deployment.settings.topics.events)
    good = read_to_end(connection(deployment.settings), name, partition, 30.0)[PARTITION_KEY]
    for number, (change, said) in enumerate([another(package), *OTHERS.values()]):
        deployment.producer.produce(name, orjson.dumps(change(orjson.loads(good))), PARTITION_KEY, partition)
        assert deployment.producer.flush(30.0) == 0
        worker = f"{stage}-{number + 2}"
        deployment.start(stage, worker)
        assert deployment.exit_code(worker) == ExitCode.STATE
        log = deployment.log(worker)
        assert all(text in log for text in [f"{name}[{partition}]", "another --prefix", *said]), log
        assert "version.numpy" not in log and "Traceback" not in log
    deployment.read_all()  # who looks on passes over them
    for name, process in deployment.workers.items():  # they follow the topic, and go on
        assert process.poll() is None, deployment.log(name)
