"""Streams that rest while retention removes their events: workers can be restarted all the same, and say the same."""

from collections import defaultdict
from collections.abc import Callable

import orjson
import pytest
from confluent_kafka import TopicPartition

from glasstream.runner.reference import Reference
from glasstream.transport.connection import connection
from glasstream.transport.progress import read_to_end, watermarks
from glasstream_topics import checkpoints, events, progress_learner, progress_novelty
from tests.deployment import SETTINGS, Deployment, wait_for
from tests.logs import messages

pytestmark = pytest.mark.kafka

Deploy = Callable[..., Deployment]
WATCHED = (
    "topics.events=1", "explain.methods=ipfi,novelty", "novelty.window=100", "novelty.stride=200",
    "novelty.delay=100", "novelty.held=0.5", "novelty.rate=0.05", "novelty.learners=3", "novelty.anchor=1000000",
    "checkpoint.seconds=0.02", "checkpoint.share=1",
)  # fmt: skip
Log = list[tuple[bytes, bytes]]


def by_stream(published: list[tuple[str, bytes]]) -> dict[tuple[str, str], list[bytes]]:
    found = defaultdict(list)
    for topic, record in published:
        found[topic, orjson.loads(record)["stream"]].append(record)
    return dict(found)


def kept(deployment: Deployment, log: Log) -> bool:
    """Whether learner and novelty detector have used the whole log, and kept every stream as it is."""
    settings, link = deployment.settings, connection(deployment.settings)
    name = f"{settings.prefix}{events.TOPIC.name}"
    state = {
        topic: read_to_end(link, f"{settings.prefix}{topic}", 0, 30.0)
        for topic in ("progress.learner", "progress.novelty", "checkpoints")
    }
    learned = progress_learner.restore(state["progress.learner"])
    watched = progress_novelty.restore(state["progress.novelty"])
    places = {checkpoints.Key.decode(key).identity for key in state["checkpoints"]}
    end = watermarks(link, name, 0, 30.0)[1]
    streams = {key.decode() for key, _ in log}
    return (
        learned.partition is not None
        and watched.partition is not None
        and learned.partition.offset == watched.partition.offset == end
        and all((name, 0, learned.streams[name].rows) in places for name in streams)
        and all(watched.streams[name].anchor == watched.streams[name].seqs for name in streams)
    )


def test_what_retention_has_removed_is_not_asked_for(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS, *WATCHED)
    few: Log = [(b"few", value) for value in messages(0, 60)]
    busy: Log = [(b"busy", value) for value in messages(0, 1_000)]
    later: Log = [(key, value) for key in (b"few", b"busy") for value in (*messages(1_000, 1_600), events.FLUSH)]
    deployment.start_all()
    deployment.start("novelty")
    for key, value in [*few, *busy]:
        deployment.send(value, key=key)
    wait_for("every stream is kept as it is", lambda: kept(deployment, [*few, *busy]))
    for worker in ("learner-1", "novelty-1"):
        deployment.kill(worker)
    place = TopicPartition(f"{deployment.settings.prefix}{events.TOPIC.name}", 0, -1)
    deployment.admin.delete_records([place])[place].result()
    for stage in ("learner", "novelty"):
        deployment.start(stage)
    for key, value in later:
        deployment.send(value, key=key)
    for stream, row in (("few", 659), ("busy", 1_599)):
        deployment.wait_published(stream, row)
    wait_for("all is watched", deployment.watched)
    deployment.read_all()
    expected = by_stream(list(Reference(deployment.settings).run([*few, *busy, *later])))
    topics = ("predictions", "importance", "novelty")
    got = by_stream([(topic, value) for topic in topics for value in deployment.values(topic)])
    for topic in topics:
        for stream in ("few", "busy"):
            assert got[topic, stream] == expected[topic, stream], (topic, stream)
