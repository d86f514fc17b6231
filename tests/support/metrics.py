"""Ask running workers for their probes and metrics."""

import re
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from glasstream.kafka.health import catalogue
from tests.support.deployment import Deployment
from tests.support.waiting import wait_for


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
