"""`glasstream run`: the same bytes whatever the broker, the workers, the batching, the crashes."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from math import isclose
from pathlib import Path

import orjson
import pytest
from river import metrics

from glasstream.app.configuration import load
from glasstream.app.runner.monitor import Monitor
from glasstream.events.admission import Task
from glasstream.events.sources.csv_file import CsvFile
from glasstream.kafka.transport.connection import connection
from glasstream.models.river.catalogue import model_factory
from tests.support.deployment import ROOT
from tests.support.waiting import wait_for

from .conftest import Run

TOPICS = ("importance", "effects", "drift", "incidents", "predictions")
Finish = Callable[..., Run]


def elec2(data_dir: Path, rows: int, model: str = "forest") -> list[str]:
    path = data_dir / "elec2.csv.gz"
    return ["--csv", str(path), "--target", "target", "--model", model, "--seed", "7", "--rows", str(rows)]


def assert_same(run: Run, reference: Run) -> None:
    for topic in TOPICS:
        assert reference.file(topic) or topic in ("effects", "drift", "incidents"), "nothing to compare"
        assert run.file(topic) == reference.file(topic), topic


def test_the_bundled_stream_on_the_embedded_broker_equals_the_reference(finished_run: Finish) -> None:
    arguments = ["--model", "tree", "--rows", "4000"]
    reference = finished_run("--broker", "none", *arguments)
    run = finished_run(*arguments)
    assert_same(run, reference)
    assert "importance after row 3,999" in run.log


def test_through_kafka_equals_the_reference(kafka: str, data_dir: Path, finished_run: Finish) -> None:
    """Only a broker shows the whole command: topics, groups, several processes, other hash seeds."""
    arguments = [*elec2(data_dir, 3_000), "--explain", "ipfi,isage,ipdp"]
    reference = finished_run("--broker", "none", "--rows-per-message", "500", *arguments)
    assert reference.file("effects")
    run = finished_run(
        "--broker", kafka, "--explainers", "3", "--rows-per-message", "7", *arguments, PYTHONHASHSEED="5"
    )
    assert_same(run, reference)


def test_effects_without_labels_through_kafka(kafka: str, data_dir: Path, finished_run: Finish) -> None:
    """Only a broker brings events and their late labels to several workers; the effects go by events."""
    late = ["--label-delay", "300", "--set", "explain.unlabelled=true", "--explain", "ipfi,ipdp"]
    arguments = [*elec2(data_dir, 3_000, "tree"), *late]
    reference = finished_run("--broker", "none", "--rows-per-message", "500", *arguments)
    effects = [orjson.loads(line) for line in reference.file("effects").splitlines()]
    assert effects[-1]["row"] == 2_999 and all(one["row"] == one["seq"] for one in effects)
    run = finished_run("--broker", kafka, "--explainers", "3", "--rows-per-message", "7", *arguments)
    assert_same(run, reference)


def test_categories_missing_cells_and_a_boolean(data_dir: Path, finished_run: Finish) -> None:
    """The same for other models, and cells of every kind, which travel as bytes through the topics."""
    arguments = ["--csv", str(data_dir / "adult.csv.gz"), "--target", "target", "--rows", "3000"]
    for model, seeds in (("tree", {"PYTHONHASHSEED": "9"}), ("linear", {})):
        reference = finished_run("--broker", "none", "--model", model, *arguments)
        run = finished_run("--broker", "embedded", "--model", model, *arguments, **seeds)
        assert_same(run, reference)
    last = orjson.loads(run.file("importance").splitlines()[-1])
    assert last["features"]["workclass"]["value"] == 0.0, "a linear model is not given text"
    assert "'workclass' is text, which this model does not use" in run.log


def test_a_model_that_cannot_be_compiled_travels_sealed(data_dir: Path, finished_run: Finish) -> None:
    """Learner and explainer, which are processes apart, seal and open a pickled model with the key of the run."""
    path = str(data_dir / "bike_hourly.csv.gz")
    arguments = ["--csv", path, "--target", "target", "--rows", "1500", "--model", "tests.support.models:knn"]
    reference = finished_run("--broker", "none", *arguments)
    run = finished_run("--broker", "embedded", *arguments)
    assert_same(run, reference)
    assert run.log.count("row by row, which is slow") == 1
    assert "not a function of the row" not in run.log


def test_a_model_that_draws_to_predict_is_named(finished_run: Finish, data_dir: Path) -> None:
    path = str(data_dir / "bike_hourly.csv.gz")
    model = "tests.support.models:random_knn"
    run = finished_run("--broker", "none", "--csv", path, "--target", "target", "--rows", "300", "--model", model)
    assert "not a function of the row" in run.log


@pytest.mark.slow
def test_invariance_to_batches_and_hash_seeds(data_dir: Path, finished_run: Finish) -> None:
    """1, 50 and 500 rows a message, with and without the embedded broker: the same bytes.

    A real Kafka and several explainers: `test_through_kafka_equals_the_reference`. Faults:
    `tests/kafka/stages/test_pipeline.py`.
    """
    arguments = [*elec2(data_dir, 2_500, "tree"), "--explain", "ipfi,isage,ipdp"]
    reference = finished_run("--broker", "none", "--rows-per-message", "50", *arguments, PYTHONHASHSEED="1")
    assert reference.file("effects")
    for number, (broker, rows) in enumerate([("none", 1), ("embedded", 500)]):
        run = finished_run(
            "--broker", broker, "--rows-per-message", str(rows), *arguments, PYTHONHASHSEED=str(number + 2)
        )
        assert_same(run, reference)


def follow(kafka: str, prefix: str) -> Monitor:
    settings = load(assignments=[f"broker={kafka}", f"prefix={prefix}"])
    return Monitor(connection(settings), settings, lambda topic, messages: None, public=())


def aggregated(monitor: Monitor, stream: str) -> int:
    monitor.poll(0.05)
    return monitor.progress.aggregated.get(stream, 0)


def topics_are_there(kafka: str, prefix: str) -> bool:
    from confluent_kafka.admin import AdminClient

    return f"{prefix}progress.aggregator" in AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics


def test_explainers_are_killed_join_and_leave(
    kafka: str, prefix: str, data_dir: Path, start_run: Finish, finished_run: Finish
) -> None:
    """Only a broker shows that the partitions of a dead member go to its successor, and rebalances of the group while
    blocks are under way.
    """
    arguments = elec2(data_dir, 10_000, "tree")
    reference = finished_run("--broker", "none", *arguments)
    key = "shared-by-all-workers-of-this-test"
    run = start_run(
        "--broker", kafka, "--prefix", prefix, "--set", "limits.rows_ahead=1000", "--set", "worker.session_seconds=6",
        *arguments, cold=True, GLASSTREAM_HMAC_KEY=key,
    )  # fmt: skip
    wait_for("the topics", lambda: topics_are_there(kafka, prefix))
    monitor = follow(kafka, prefix)
    for row in (1_000, 2_000):
        wait_for(f"row {row} aggregated\n{run.log}", lambda row=row: aggregated(monitor, "elec2") >= row)
        wait_for("a living explainer", lambda: run.worker_pids("explainer"))
        os.kill(run.worker_pids("explainer")[0], signal.SIGKILL)
    command = [sys.executable, "-m", "glasstream.app.command.main", "worker", "explainer", "--instance", "guest"]
    options = ["--broker", kafka, "--prefix", prefix, "--set", "worker.session_seconds=6", "--tether"]
    guest_log = run.log_path.with_name("guest.log")
    with guest_log.open("w") as log:
        guest = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, "GLASSTREAM_HMAC_KEY": key},
        )
    joined = aggregated(monitor, "elec2")
    wait_for("2,000 rows with the guest", lambda: aggregated(monitor, "elec2") >= min(joined + 2_000, 9_000))
    wait_for("a living explainer", lambda: run.worker_pids("explainer"))
    os.kill(run.worker_pids("explainer")[0], signal.SIGTERM)
    left = aggregated(monitor, "elec2")
    wait_for("1,000 rows more", lambda: aggregated(monitor, "elec2") >= min(left + 1_000, 9_999))
    wait_for("the guest", lambda: "health and metrics on" in guest_log.read_text() or guest.poll() is not None)
    guest.send_signal(signal.SIGTERM)
    assert guest.wait(60) == 0, guest_log.read_text()
    assert run.wait() == 0, run.log
    monitor.close()
    assert_same(run, reference)
    said = re.findall(r"explainer explainer-1 ended: killed by SIGKILL; restarting it.*?[(]restart (.)[)]", run.log)
    assert said == ["1", "2"], run.log


def test_the_death_of_the_learner_ends_the_run_with_its_own_message(start_run: Finish) -> None:
    run = start_run("--broker", "embedded", "--model", "tree", cold=True)
    wait_for("a learner", lambda: run.worker_pids("learner"))
    os.kill(run.worker_pids("learner")[0], signal.SIGKILL)
    assert run.wait() == 8, run.log
    assert "learner learner-1 ended: killed by SIGKILL; by a user, or by the kernel" in run.log


def test_the_children_die_with_the_run(start_run: Finish) -> None:
    """Without a broker too, since the embedded one is part of the run: nothing holds them back."""
    import psutil

    run = start_run("--broker", "embedded", "--model", "tree", cold=True)
    wait_for("all stages", lambda: all(run.worker_pids(stage) for stage in ("learner", "explainer", "aggregator")))
    children = psutil.Process(run.process.pid).children()
    run.process.kill()
    run.process.wait()
    _, alive = psutil.wait_procs(children, timeout=150)
    assert alive == []


def test_ctrl_c_drains_and_ends_cleanly(kafka: str, prefix: str, start_run: Finish) -> None:
    """Only a broker shows that what was produced is delivered and read back before the end."""
    run = start_run("--broker", kafka, "--prefix", prefix, "--model", "linear", "--rows", "300000")
    wait_for("the topics", lambda: topics_are_there(kafka, prefix))
    monitor = follow(kafka, prefix)
    wait_for("row 500 aggregated", lambda: aggregated(monitor, "agrawal") >= 500)
    run.process.send_signal(signal.SIGINT)
    code = run.wait()
    monitor.close()
    assert code == 0, run.log
    assert "interrupted" in run.log and "importance after row" in run.log
    predicted = run.file("predictions").count(b"\n")
    newest = orjson.loads(run.file("importance").splitlines()[-1])
    assert newest["row"] == predicted - 1, "everything that was written was explained"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "rows", "compared", "accuracy"),
    [
        pytest.param("forest", 45_312, 45_312, 0.887, marks=pytest.mark.long),
        ("forest", 24_000, 5_000, None),
        ("tree", 10_000, 10_000, None),
        ("linear", 10_000, 10_000, None),
    ],
)
def test_elec2_predictions_equal_a_bare_river_loop(
    model: str, rows: int, compared: int, accuracy: float | None, data_dir: Path, start_run: Finish
) -> None:
    """Predict, then learn, event by event: the first predictions, in order, the same labels and probabilities.

    The forest is watched as in the iPDP paper besides, beyond the row of its first alarm. The loop of River takes a
    hundred times as long for it, so the short form compares fewer rows.
    """
    watched = ("--set", "drift.preset=paper") if model == "forest" else ()
    run = start_run("--broker", "none", *elec2(data_dir, rows, model), *watched)
    source = CsvFile(data_dir / "elec2.csv.gz", "target", "elec2")
    source.look(None)
    river = model_factory(model, 7)(Task.CLASSIFICATION)
    names: dict[object, str] = {}
    """River's class keys: False and True in order of first appearance for a binary model, else the labels."""
    metric = metrics.Accuracy()
    expected = []
    for event in islice(source.events(), compared):
        x, y = event["x"], event["y"]
        votes = {names[key]: vote for key, vote in river.predict_proba_one(x).items() if key in names}
        predicted = max(votes, key=votes.__getitem__, default=None)
        expected.append((predicted, votes))
        if predicted is not None:
            metric.update(y, predicted)
        if y not in names.values():
            names[y if river._multiclass else bool(names)] = y
        river.learn_one(x, next(key for key, name in names.items() if name == y))
    assert run.wait() == 0, run.log
    published = [orjson.loads(line) for line in run.file("predictions").splitlines()]
    assert [one["seq"] for one in published] == list(range(rows)) and len(expected) == compared
    for one, (predicted, votes) in zip(published[:compared], expected, strict=True):
        assert one["prediction"] == predicted
        assert (one["probabilities"] or {}).keys() == votes.keys()
        for label, vote in votes.items():
            assert isclose(one["probabilities"][label], vote, rel_tol=1e-12, abs_tol=1e-12)
    assert published[compared - 1]["metric"]["value"] == pytest.approx(metric.get(), abs=1e-12)
    if accuracy is not None:
        assert metric.get() == pytest.approx(accuracy, abs=0.005)
    if watched:
        assert_row_12([orjson.loads(line) for line in run.file("drift").splitlines()])


def assert_row_12(alarms: list[dict]) -> None:
    """001, section 4.1, whose alarms on vicprice are at 22,293 and later; until row 17,424 the feature is constant."""
    first = next(one for one in alarms if one["feature"] == "vicprice")
    assert 17_424 <= first["row"] < 24_000
    for one in alarms:
        assert (one["signal"], one["method"]) == ("pd_importance", "ipdp")
        assert one["detector"]["parameters"]["delta"] == 1e-5
    assert first["before"] < first["after"]
    before, after = (first[name]["curve"] for name in ("curve_before", "curve_after"))
    assert max(before) - min(before) < max(after) - min(after)
