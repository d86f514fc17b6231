"""Three brokers of this machine: what is committed outlives each of them, and topics are made so that it does."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import glasstream_topics
from glasstream.app.configuration import load
from glasstream.app.operate.doctor.cluster import kind
from glasstream.app.operate.doctor.finding import DoctorContext, Level
from glasstream.app.operate.doctor.layout import contracts, copies
from glasstream.app.operate.topics import create, verify
from glasstream.flow.settings import Settings
from glasstream_topics import admin as topic_admin
from glasstream_topics.admin import Deviation
from glasstream_topics.errors import TopicError
from tests.support.local_cluster import LocalCluster
from tests.support.local_kafka import DEADLINE_S, received, send
from tests.support.topic_configs import alter, config
from tests.support.waiting import holds_within, wait_for

pytestmark = pytest.mark.kafka


def test_replicas_outlive_a_leader_and_a_controller_and_two_dead_brokers_stop_writes(
    cluster: LocalCluster, prefix: str
) -> None:
    """Only several brokers copy a log, elect its leader, and refuse what too few of them would have."""
    topics_get_their_copies_and_fewer_are_told(cluster, prefix)
    topic = f"{prefix}t"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, -1)])[topic].result(DEADLINE_S)
    wait_for("three replicas", lambda: len(in_sync(admin, topic)) == 3)
    assert send(cluster.bootstrap, topic, [b"1"]) == []

    leader = cluster.leader(topic, 0)
    cluster.nodes[leader].kill()
    wait_for("another leader", lambda: cluster.leader(topic, 0) not in (leader, -1))
    assert send(cluster.bootstrap, topic, [b"2"]) == []
    cluster.start(leader)

    controller = cluster.controller()
    cluster.nodes[controller].kill()
    wait_for("another controller", lambda: cluster.controller() not in (controller, -1))
    assert send(cluster.bootstrap, topic, [b"3"]) == []
    cluster.start(controller)
    wait_for("all replicas", lambda: in_sync(admin, topic) == {1, 2, 3})

    leader = cluster.leader(topic, 0)
    others = [node for node in cluster.nodes if node != leader]
    for node in others:
        cluster.nodes[node].kill()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "delivery.timeout.ms": 2_000, "log_level": 0})
    refusals: list[KafkaError] = []
    producer.produce(topic, b"never", on_delivery=lambda error, message: refusals.append(error))
    producer.flush(DEADLINE_S)
    assert len(refusals) == 1 and refusals[0] is not None
    cluster.start(*others)
    assert send(cluster.bootstrap, topic, [b"4"]) == []
    values = [value for value in received(cluster.bootstrap, topic, 4) if value != b"never"]
    assert values[:3] == [b"1", b"2", b"3"]


def topics_get_their_copies_and_fewer_are_told(cluster: LocalCluster, prefix: str) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    given = [f"broker={cluster.bootstrap}", f"prefix={prefix}", "topics.events=2", "topics.requests=2"]
    name = f"{prefix}explain.requests"

    # the brokers' default
    settings = load(assignments=given)
    assert create(settings) == [f"{topic.full_name(prefix)}: created" for topic in glasstream_topics.ALL]
    settles(lambda: verify(settings), [])
    settles(lambda: config(client, name)["min.insync.replicas"].value, "2")
    settles(lambda: [one.level for one in copies(context(settings))], [Level.OK])
    settles(lambda: [one.level for one in kind(context(settings))], [Level.OK])
    alter(client, name, "min.insync.replicas", "1")
    alter(client, name, "unclean.leader.election.enable", "true")
    expected = [
        f"{name}: expected min.insync.replicas 2 with 3 copies, found 1",
        f"{name}: expected unclean.leader.election.enable false, found true",
    ]
    settles(lambda: verify(settings), expected)
    settles(lambda: [one.what for one in contracts(context(settings))], expected)
    settles(
        lambda: [(one.level, "min.insync.replicas=[2]" in one.do) for one in contracts(context(settings))],
        [(Level.FAIL, True), (Level.FAIL, False)],
    )
    topic_admin.delete(client, prefix)

    # what somebody chose is made, with a warning; names of its own, since a broker that is behind still tells of the
    # topics that were deleted
    chosen_prefix = f"{prefix}chosen."
    chosen = load(assignments=[*given, f"prefix={chosen_prefix}", "topics.replication=1"])
    lines = create(chosen)
    assert len([line for line in lines if line.startswith("warning: ") and "found 1" in line]) == len(
        glasstream_topics.ALL
    )
    settles(lambda: verify(chosen), [])
    settles(
        lambda: [(one.level, "fewer than 3 copies" in one.what) for one in copies(context(chosen))],
        [(Level.WARN, True)],
    )
    # what nobody chose is a deviation
    settles(
        lambda: topic_admin.verify(client, settings.partitions, chosen_prefix),
        [
            Deviation(one.full_name(chosen_prefix), "copies", "3 or more on 3 brokers", "1")
            for one in glasstream_topics.ALL
        ],
    )
    topic_admin.delete(client, chosen_prefix)


def settles(read: Callable[[], object], wanted: object) -> None:
    """Expect an answer in the end: a broker that is behind says what was, or does not know the topic yet."""
    last: object = None

    def matches() -> bool:
        nonlocal last
        try:
            last = read()
        except (TopicError, KafkaException) as error:
            last = error
        return last == wanted

    assert holds_within(DEADLINE_S, matches), f"expected {wanted}, got {last!r}"


def context(settings: Settings) -> DoctorContext:
    return DoctorContext(settings, {}, time.time, probe=False)


def in_sync(admin: AdminClient, topic: str) -> set[int]:
    """The in-sync replicas of partition 0; none while the broker that is asked has not heard of it."""
    partition = admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions.get(0)
    return set() if partition is None else set(partition.isrs)
