"""Requests and contributions that the broker loses under running workers come again, and nothing changes."""

import signal
import time
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition

from glasstream.transport.connection import connection
from glasstream.transport.progress import watermarks
from glasstream_topics import events
from tests.deployment import SETTINGS, Deployment, assert_same, wait_for
from tests.logs import messages, reference

pytestmark = pytest.mark.kafka

Deploy = Callable[..., Deployment]


def ends(deployment: Deployment, topic: str) -> dict[TopicPartition, int]:
    link, name = connection(deployment.settings), deployment.settings.prefix + topic
    count = deployment.settings.topics.requests if topic == "explain.requests" else deployment.settings.topics.events
    return {TopicPartition(name, number): watermarks(link, name, number, 30.0)[1] for number in range(count)}


def test_a_hole_in_requests_and_one_in_contributions_are_repaired(deploy: Deploy) -> None:
    """While the reader of the queue sleeps, everything that it has not read is removed."""
    deployment = deploy(*SETTINGS, "limits.rows_ahead=5000", "worker.session_seconds=60", "topics.events=1")
    log = [*messages(0, 3_000), events.FLUSH]
    expected = reference(deployment.settings, log)
    deployment.start_all()
    third = len(log) // 3
    deployment.send(*log[:third])
    wait_for("500 rows aggregated", lambda: deployment.aggregated("s") >= 500)
    took = {}
    for topic, reader, first, end in (
        ("explain.requests", "explainer-1", third, 2 * third),
        ("contributions", "aggregator-1", 2 * third, len(log)),
    ):
        before = ends(deployment, topic)
        deployment.workers[reader].send_signal(signal.SIGSTOP)
        deployment.send(*log[first:end])
        rows = 3_000 if end == len(log) else end * 20
        wait_for(f"{rows} rows learned", lambda rows=rows: deployment.poll().progress.rows.get("s", 0) >= rows)
        if topic == "contributions":
            last = sum(before.values())
            wait_for("rows answered", lambda last=last: sum(ends(deployment, "contributions").values()) > last)
        removed = ends(deployment, topic)
        assert sum(removed.values()) > sum(before.values())
        places = [TopicPartition(place.topic, place.partition, offset) for place, offset in removed.items()]
        for future in deployment.admin.delete_records(places).values():
            future.result()
        deployment.workers[reader].send_signal(signal.SIGCONT)
        begun = time.monotonic()
        wait_for(f"{rows} rows aggregated", lambda rows=rows: deployment.aggregated("s") >= rows)
        took[topic] = round(time.monotonic() - begun, 1)
    deployment.wait_published("s", 2_999)
    assert_same(deployment, expected)
    said = deployment.log("learner-1")
    print(f"seconds until it was repaired: {took}")
    assert said.count("requests and their snapshots again") >= 2, said
