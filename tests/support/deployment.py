"""The stages as processes on a real Kafka, and what they publish."""

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from glasstream.app.runner.monitor import PUBLIC, Monitor
from glasstream.app.runner.prepare import environment
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.progress import read_to_end, watermarks
from glasstream_topics import admin, checkpoints, events
from tests.support.fork_server import Forked, fork_server
from tests.support.waiting import DEADLINE, wait_for

SETTINGS = ("model.name=tree", "seed=3", "model.task=classification", "limits.rows_ahead=800", "publish.every=50")
OFTEN = ("checkpoint.seconds=0.001", "checkpoint.share=1")
"""Settings that write a checkpoint at nearly every snapshot, however fast the machine learns."""
ROOT = Path(__file__).resolve().parents[2]
HMAC_KEY = "tests-" * 4
READERS = {"explain.requests": "explainer-1", "contributions": "aggregator-1"}
"""The worker that reads each queue, where there is one of each stage."""


@dataclass
class Deployment:
    """Workers on a real Kafka under a prefix of their own, and what they publish."""

    settings: Settings
    folder: Path
    records: dict[str, list[Message]] = field(default_factory=lambda: {topic: [] for topic in PUBLIC})
    workers: dict[str, Forked] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.settings.broker, "log_level": 2})
        admin.create(self.admin, self.settings.partitions, self.settings.prefix, topics=self.settings.all_topics)
        link = connection(self.settings)
        self.producer = Producer(link.producer())
        self.monitor = Monitor(link, self.settings, lambda topic, new: self.records[topic].extend(new))

    def start(self, stage: str, name: str | None = None, **variables: str) -> None:
        """Start a worker; `name` is its fixed name in the group."""
        name = name or f"{stage}-1"
        variables = {**environment(self.settings), "GLASSTREAM_HMAC_KEY": HMAC_KEY, **variables}
        arguments = ["worker", stage, "--instance", name, "--tether"]
        self.workers[name] = fork_server().start(arguments, variables, self.folder / f"{name}.log")

    def start_all(self, explainers: int = 1) -> None:
        """Start the three stages."""
        self.start("aggregator")
        self.start("learner")
        for number in range(explainers):
            self.start("explainer", f"explainer-{number + 1}")

    def kill(self, name: str) -> None:
        """Kill a worker with kill -9."""
        self.workers[name].kill()
        self.workers.pop(name).wait()

    def stop(self, name: str) -> int:
        """Stop a worker with SIGTERM and return its exit code."""
        process = self.workers.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(DEADLINE)

    def exit_code(self, name: str) -> int:
        """Wait until a worker ends by itself and return its exit code."""
        return self.workers.pop(name).wait(DEADLINE)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def send(self, *values: bytes | None, key: bytes | None = b"s", partition: int | None = None) -> None:
        """Write messages to `events`."""
        for value in values:
            where = {} if partition is None else {"partition": partition}
            self.producer.produce(self.settings.prefix + events.TOPIC.name, value, key, **where)
        assert self.producer.flush(120.0) == 0

    def poll(self) -> Monitor:
        self.monitor.poll(0.05)
        return self.monitor

    def aggregated(self, stream: str) -> int:
        return self.poll().progress.aggregated.get(stream, 0)

    def published(self, stream: str) -> int:
        return self.poll().progress.published.get(stream, -1)

    def wait_published(self, stream: str, row: int) -> None:
        """Wait until the importance of `row` is published, and read everything published."""
        wait_for(f"row {row} of {stream} published ({self.folder})", lambda: self.published(stream) == row)
        self.read_all()

    def watched(self) -> bool:
        """Return whether the novelty detectors have committed all events."""
        name, link = self.settings.prefix + events.TOPIC.name, connection(self.settings)
        partitions = range(self.settings.topics.events)
        ends = {partition: watermarks(link, name, partition, 30.0)[1] for partition in partitions}
        found = self.poll().progress.watched
        return all(found.get(partition, 0) >= end for partition, end in ends.items())

    def read_all(self) -> None:
        ends = self.monitor.ends()
        wait_for("all records read", lambda: self.poll().has_read(ends))

    def values(self, topic: str) -> list[bytes]:
        return [message.value() or b"" for message in self.records[topic]]

    def end(self) -> None:
        """End all workers; the topics stay, for a broker that ends too."""
        for process in self.workers.values():
            process.kill()
            process.wait()
        self.monitor.close()

    def close(self) -> None:
        """End all workers, and delete the topics."""
        self.end()
        admin.delete(self.admin, self.settings.prefix)


def assert_same(deployment: Deployment, expected: dict[str, list[bytes]]) -> None:
    """Compare what was published with what the plain loop publishes."""
    for topic in ("predictions", "importance"):
        got = deployment.values(topic)
        assert len(got) == len(expected[topic]), f"{topic}: lost or double"
        assert got == expected[topic], topic


def checkpoint_keys(deployment: Deployment, partition: int) -> list[checkpoints.Key]:
    """Return the keys of all parts of checkpoints, the newest first."""
    name = f"{deployment.settings.prefix}checkpoints"
    keys = [checkpoints.Key.decode(key) for key in read_to_end(connection(deployment.settings), name, partition, 30.0)]
    return sorted(keys, key=lambda key: key.version, reverse=True)


def ends(deployment: Deployment, topic: str) -> dict[TopicPartition, int]:
    """Return where the partitions of a queue end."""
    link, name = connection(deployment.settings), deployment.settings.prefix + topic
    count = deployment.settings.topics.requests if topic == "explain.requests" else deployment.settings.topics.events
    return {TopicPartition(name, number): watermarks(link, name, number, 30.0)[1] for number in range(count)}


def make_a_hole(deployment: Deployment, topic: str, values: list[bytes], rows: int, *, deleted: bool = True) -> float:
    """Delete from a queue all that its stopped reader has not read; return the seconds until all rows are aggregated.

    The values are sent in halves: the first one answers the fetch that was under way when the reader was stopped.

    Parameters
    ----------
    deployment
        Workers that run, and have aggregated all rows that were sent.
    topic
        A queue of `READERS`.
    values
        Messages that are sent while the reader is stopped.
    rows
        Number of rows that are then sent in all.
    deleted
        Whether anything is deleted.
    """
    reader = deployment.workers[READERS[topic]]
    reader.send_signal(signal.SIGSTOP)
    for half in (values[: len(values) // 2], values[len(values) // 2 :]):
        before = sum(ends(deployment, topic).values())
        deployment.send(*half)
        wait_for(f"more {topic}", lambda before=before: sum(ends(deployment, topic).values()) > before)
    wait_for(f"{rows} rows learned", lambda: deployment.poll().progress.rows.get("s", 0) >= rows)
    places = [TopicPartition(place.topic, place.partition, end) for place, end in ends(deployment, topic).items()]
    begun = time.monotonic()
    if deleted:
        for future in deployment.admin.delete_records(places).values():
            future.result()
    reader.send_signal(signal.SIGCONT)
    wait_for(f"{rows} rows aggregated", lambda: deployment.aggregated("s") >= rows)
    return time.monotonic() - begun
