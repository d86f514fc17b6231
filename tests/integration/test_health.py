"""Probes and metrics of running workers."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable

import orjson
from prometheus_client.parser import text_string_to_metric_families

from glasstream.health import catalogue
from glasstream_topics import events
from tests.deployment import OFTEN, SETTINGS, Deployment, wait_for
from tests.logs import messages

Deploy = Callable[..., Deployment]


def address(deployment: Deployment, worker: str) -> str:
    found = re.findall(r"health and metrics on (http://\S+)", deployment.log(worker))
    assert found
    return str(found[-1])  # of the newest worker of that name


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(deployment: Deployment, worker: str) -> dict[str, float]:
    told: list[str] = []

    def answered() -> bool:
        deployment.poll()
        status, text = ask(address(deployment, worker) + "/metrics")
        told.append(text)
        return status == 200  # 503: its loop has not had a turn for long

    wait_for(f"metrics of {worker}", answered)
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(told[-1]):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name not in ("stage", "instance")}
            found[" ".join([sample.name.removeprefix("glasstream_"), *labels.values()])] = sample.value
            assert family.name in {metric.name for metric in catalogue.ALL}
    return found


def total(told: dict[str, float], metric: str, label: str = "") -> float:
    """A metric of a worker over all partitions; with `label`, only where one of its labels has that value."""
    found = ((name.split(" "), value) for name, value in told.items())
    return sum(value for (name, *labels), value in found if name == metric and (not label or label in labels))


def test_metrics_say_what_has_happened(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS, "explain.methods=ipfi,ipdp", *OFTEN)
    deployment.start_all()
    deployment.send(*messages(0, 1_000), orjson.dumps([3]), b"no event", events.FLUSH)
    deployment.wait_published("s", 999)
    for worker in ("learner-1", "explainer-1", "aggregator-1"):
        for path in ("/healthz", "/readyz"):
            status, body = ask(address(deployment, worker) + path)
            assert (status, json.loads(body)["stage"]) == (200, worker[:-2])
    learner = metrics(deployment, "learner-1")
    assert learner["events_total s"] == learner["rows_learned_total s"] == 1_000
    assert 0 < learner["score accuracy s"] <= 1
    assert 512 <= learner["model_version s"] < 1_000
    assert total(learner, "dead_letters_total", "not_json") == 1
    assert learner["checkpoints_total s"] >= 1 and learner["checkpoint_bytes s"] > 1_000
    assert learner["checkpoint_age_seconds s"] < 600
    assert learner["step_seconds_total feed"] > 0 and learner["step_seconds_total commit"] > 0
    wait_for("nothing is left", lambda: metrics(deployment, "learner-1")["rows_ahead s"] == 0)
    explainer = metrics(deployment, "explainer-1")
    assert explainer["rows_explained_total"] == 900 and explainer["blocks_total failed"] == 0
    assert explainer["step_seconds_total explain"] > 0
    aggregator = metrics(deployment, "aggregator-1")
    assert aggregator["rows_aggregated_total s"] == 1_000 and aggregator["coverage s"] == 1.0
    assert total(aggregator, "records_total", "importance") == len(
        [row for row in range(100, 1_000) if (row + 1) % 50 == 0]
    )
    partition = str(events.partition(b"s", deployment.settings.topics.events))
    assert aggregator[f"input_lag {partition}"] <= 2  # markers of transactions have offsets too
