"""The faults that need several brokers, or a network between them and the stages: see `tests.chaos.faults`."""

import errno
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from tests.chaos.faults import FAULTS, STAGES, Fault, Scene
from tests.chaos.reassign import reassign
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_for

LONG_SECONDS: Final = 70.0
"""Number of seconds that exceeds the sessions, transactions and requests of every client."""
NO_QUORUM_SECONDS: Final = 30.0
NETWORK_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 15.0
DELAY_SECONDS: Final = 0.3
_JUMP: Final = "+3600s"
_ASK_SECONDS: Final = 20.0
_BALLAST: Final = 1024 * 1024
_LED: Final = ("events", "explain.requests", "contributions", "progress.learner", "progress.aggregator", "importance")


def leader_killed(scene: Scene) -> None:
    """Kill the broker that leads a partition with kill -9."""
    topic = scene.chance.choice(_LED)
    name = scene.deployment.settings.prefix + topic
    with _down(scene, cluster(scene).leader(name, scene.chance.choice(_partitions(scene, topic)))):
        scene.some_more(200)


def controller_killed(scene: Scene) -> None:
    """Kill the active controller with kill -9."""
    with _down(scene, _controller(scene)):
        wait_for("another controller", lambda: _controller(scene) >= 0)
        scene.some_more(200)


def broker_away(scene: Scene) -> None:
    """Keep a broker away for longer than every session."""
    with _down(scene, scene.chance.choice(_nodes(scene))):
        scene.some_more(200)
        scene.wait(LONG_SECONDS)


def two_brokers_down(scene: Scene) -> None:
    """End two of three brokers: nothing can be written, and no controller can be elected."""
    with _down(scene, *scene.chance.sample(_nodes(scene), 2)):
        scene.wait(NO_QUORUM_SECONDS / 3)
        aggregated = scene.witness.aggregated
        scene.wait(NO_QUORUM_SECONDS)
        if scene.witness.aggregated != aggregated:
            raise AssertionError("rows were aggregated although two of three brokers were down")


def broker_paused(scene: Scene) -> None:
    """Pause a broker, which keeps its connections and answers nothing."""
    node = cluster(scene).nodes[scene.chance.choice(_nodes(scene))]
    node.pause()
    try:
        scene.wait(PAUSE_SECONDS)
    finally:
        node.resume()


def reassigned(scene: Scene) -> None:
    """Move all partitions of a topic from their leader to the other brokers, and then back."""
    topic = scene.chance.choice(_LED)
    for partition in _partitions(scene, topic):
        replicas = _replicas(scene, topic, partition)
        leader = cluster(scene).leader(scene.deployment.settings.prefix + topic, partition)
        others = [node for node in replicas if node != leader]
        _move(scene, topic, partition, others)
        scene.feed(60)
        _move(scene, topic, partition, [*others, leader])


def unclean(topic: str) -> Fault:
    """Make a broker that was behind the leader of a partition, which loses committed records."""

    def fault(scene: Scene) -> None:
        partition, before = _busiest(scene, topic)
        name = scene.deployment.settings.prefix + topic
        brokers = cluster(scene)
        leader = brokers.leader(name, partition)
        behind, other = scene.chance.sample([node for node in _nodes(scene) if node != leader], 2)
        _move(scene, topic, partition, [leader, behind])
        _set(scene, topic, "min.insync.replicas", "1")
        brokers.nodes[behind].kill()
        wait_for(f"{name}[{partition}] without {behind}", lambda: _in_sync(scene, topic, partition) == {leader})
        before = _ends(scene, topic)[partition]

        def grown() -> bool:
            """Whether it has grown; the more is waiting, the fewer and larger its records are."""
            return _ends(scene, topic)[partition] > before + 2 or (scene.feed(60) > 0 and scene.wait(1.0))

        wait_for(f"{name}[{partition}] grows", grown, deadline=120.0)
        end = _ends(scene, topic)[partition]
        brokers.nodes[leader].kill()
        brokers.start(behind)
        place = TopicPartition(name, partition)

        def elected() -> bool:
            with suppress(KafkaException):
                _admin(scene).elect_leaders(ElectionType.UNCLEAN, [place]).result()
            return brokers.leader(name, partition) == behind

        wait_for(f"{behind} leads {name}[{partition}]", elected)
        gone = end - _ends(scene, topic)[partition]
        brokers.start(leader)
        _set(scene, topic, "min.insync.replicas", "2")
        _move(scene, topic, partition, [leader, behind, other])
        if gone <= 0:
            raise AssertionError(f"{name}[{partition}]: an unclean election lost no record")
        scene.note(f"records of {topic} lost by an unclean election", gone)

    fault.__doc__ = unclean.__doc__
    return fault


def records_deleted(topic: str, reader: str) -> Fault:
    """Delete the records of a queue before they are read, as an administrator could."""

    def fault(scene: Scene) -> None:
        for name in [name for name, stage in STAGES.items() if stage == reader]:
            scene.deployment.kill(name)
        before = _ends(scene, topic)
        scene.feed(600)

        def waiting() -> int:
            return sum(_ends(scene, topic).values()) - sum(before.values())

        wait_for(f"records in {topic}", lambda: waiting() > 4, deadline=60.0)
        prefix = scene.deployment.settings.prefix
        places = [TopicPartition(prefix + topic, number, end) for number, end in _ends(scene, topic).items() if end]
        for future in _admin(scene).delete_records(places, request_timeout=_ASK_SECONDS).values():
            future.result()
        scene.note(f"records of {topic} deleted by an administrator", waiting())

    fault.__doc__ = records_deleted.__doc__
    return fault


def frozen(stage: str) -> Fault:
    """Stop every worker of a stage for longer than its session."""

    def fault(scene: Scene) -> None:
        names = [name for name, own in STAGES.items() if own == stage]
        for name in names:
            os.kill(scene.deployment.workers[name].pid, signal.SIGSTOP)
        try:
            scene.feed(200)
            scene.wait(LONG_SECONDS)
        finally:
            for name in names:
                os.kill(scene.deployment.workers[name].pid, signal.SIGCONT)

    fault.__doc__ = frozen.__doc__
    return fault


def connections_cut(scene: Scene) -> None:
    """Reset all connections of clients, and refuse new ones for a while."""
    scene.note("connections cut", scene.proxy.cut())
    scene.wait(NETWORK_SECONDS / 4)
    scene.proxy.heal()


def network_slow(scene: Scene) -> None:
    """Delay everything that clients send and receive."""
    scene.proxy.slow(DELAY_SECONDS)
    scene.feed(200)
    scene.wait(NETWORK_SECONDS)
    scene.proxy.heal()


def connections_half_open(scene: Scene) -> None:
    """Drop the brokers' end of all connections of clients, without telling the clients."""
    scene.note("connections half-opened", scene.proxy.half_open())
    scene.wait(NETWORK_SECONDS)
    scene.proxy.heal()


def disk_full(scene: Scene) -> None:
    """Fill the disk of a broker, which ends; restart it when there is room."""
    number, disk = scene.disk
    node = cluster(scene).nodes[number]
    ballast = disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file, suppress(_NoSpace):
            while True:
                _fill(file.fileno())
        scene.feed(200)
        wait_for(f"broker {number} ends on a full disk", lambda: not node.running or scene.wait(0.5), deadline=60.0)
        scene.some_more(200)
    finally:
        ballast.unlink(missing_ok=True)
        cluster(scene).start(number)


class _NoSpace(Exception):
    """The disk is full."""


def _fill(file: int) -> None:
    """Write to a file; raise _NoSpace when the disk is full to the last page."""
    for size in (_BALLAST, 4096):
        try:
            os.write(file, b"\0" * size)
            return
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    raise _NoSpace


def clock_jumps(scene: Scene) -> None:
    """Let the clock of a broker jump ahead by an hour, and back when the broker is started again.

    A Kafka whose clock jumps back while it runs takes part in no election of a controller until its clock has caught
    up: its timers go by the highest time that they have seen. The next broker that ends would stop the cluster.
    """
    number = scene.chance.choice(sorted(scene.clocks))
    clock = scene.clocks[number]
    clock.write_text(_JUMP, encoding="utf-8")
    try:
        scene.some_more(300)
        scene.wait(NETWORK_SECONDS)
    finally:
        cluster(scene).nodes[number].kill()
        clock.write_text("+0s", encoding="utf-8")
        cluster(scene).start(number)


CLUSTER_FAULTS: Final[dict[str, Fault]] = {
    **{name: fault for name, fault in FAULTS.items() if name not in ("restart_broker", "pause_broker")},
    "leader_killed": leader_killed,
    "controller_killed": controller_killed,
    "two_brokers_down": two_brokers_down,
    "broker_away": broker_away,
    "broker_paused": broker_paused,
    "reassigned": reassigned,
    "unclean_requests": unclean("explain.requests"),
    "unclean_contributions": unclean("contributions"),
    "deleted_requests": records_deleted("explain.requests", "explainer"),
    "deleted_contributions": records_deleted("contributions", "aggregator"),
    "connections_cut": connections_cut,
    "network_slow": network_slow,
    "connections_half_open": connections_half_open,
    "disk_full": disk_full,
    "clock_jumps": clock_jumps,
    "frozen_learner": frozen("learner"),
    "frozen_explainers": frozen("explainer"),
    "frozen_aggregator": frozen("aggregator"),
    "frozen_novelty": frozen("novelty"),
}
"""Faults that a soak on three brokers injects."""


def cluster(scene: Scene) -> LocalCluster:
    """Return the brokers of a scene with several brokers."""
    if not isinstance(scene.kafka, LocalCluster):
        raise TypeError("expected a cluster, got a single broker: choose `--nodes 3`")
    return scene.kafka


def settle(scene: Scene) -> None:
    """Wait until every copy of every partition is in sync, so that the next fault meets a whole cluster."""

    def whole() -> bool:
        metadata = _admin(scene).list_topics(timeout=_ASK_SECONDS)
        partitions = [one for topic in metadata.topics.values() for one in topic.partitions.values()]
        behind = [one for one in partitions if one.leader < 0 or set(one.isrs) != set(one.replicas)]
        return not behind or scene.wait(0.2)

    wait_for("all copies in sync", whole)


@contextmanager
def _down(scene: Scene, *nodes: int) -> Iterator[None]:
    """Kill brokers for the length of the block."""
    for node in nodes:
        cluster(scene).nodes[node].kill()
    try:
        yield
    finally:
        cluster(scene).start(*nodes)


def _admin(scene: Scene) -> AdminClient:
    """Return a client that reaches the brokers without the proxy."""
    return _client(cluster(scene).bootstrap)


@cache
def _client(bootstrap: str) -> AdminClient:
    """A client that is kept: the futures of one that is collected are never done."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _nodes(scene: Scene) -> list[int]:
    return sorted(cluster(scene).nodes)


def _controller(scene: Scene) -> int:
    """Wait until there is an active controller and return it."""
    wait_for("a controller", lambda: cluster(scene).controller() >= 0 or scene.wait(0.1))
    return cluster(scene).controller()


def _metadata(scene: Scene, topic: str) -> dict[int, object]:
    name = scene.deployment.settings.prefix + topic
    partitions: dict[int, object] = _admin(scene).list_topics(name, timeout=_ASK_SECONDS).topics[name].partitions
    return partitions


def _partitions(scene: Scene, topic: str) -> list[int]:
    return sorted(_metadata(scene, topic))


def _replicas(scene: Scene, topic: str, partition: int) -> list[int]:
    return list(_metadata(scene, topic)[partition].replicas)


def _in_sync(scene: Scene, topic: str, partition: int) -> set[int]:
    return set(_metadata(scene, topic)[partition].isrs)


def _ends(scene: Scene, topic: str) -> dict[int, int]:
    """Return the end of each partition of a topic."""
    name = scene.deployment.settings.prefix + topic
    ends: dict[int, int] = {}

    def asked() -> bool:
        """Return whether all leaders have answered; a broker that has just become one may be behind."""
        places = {TopicPartition(name, number): OffsetSpec.latest() for number in _partitions(scene, topic)}
        with suppress(KafkaException):
            for place, future in _admin(scene).list_offsets(places, request_timeout=_ASK_SECONDS).items():
                ends[place.partition] = future.result().offset
            return True
        return scene.wait(0.2)

    wait_for(f"the ends of {name}", asked)
    return ends


def _busiest(scene: Scene, topic: str) -> tuple[int, int]:
    """Return the partition that grew most while some rows were fed, and its end."""
    before = _ends(scene, topic)
    scene.some_more(200)
    after = _ends(scene, topic)
    partition = max(after, key=lambda number: after[number] - before[number])
    return partition, after[partition]


def _move(scene: Scene, topic: str, partition: int, replicas: Sequence[int]) -> None:
    """Have a partition kept by these brokers, and led by the first of them."""
    name = scene.deployment.settings.prefix + topic
    address = next(node.bootstrap for node in cluster(scene).nodes.values() if node.running)
    reassign(address, name, partition, replicas)

    def moved() -> bool:
        now = _metadata(scene, topic)[partition]
        return (now.replicas == list(replicas) and set(now.isrs) == set(replicas)) or scene.wait(0.2)

    wait_for(f"{name}[{partition}] on {replicas}", moved)
    place = TopicPartition(name, partition)

    def led() -> bool:
        with suppress(KafkaException):
            _admin(scene).elect_leaders(ElectionType.PREFERRED, [place]).result()
        return cluster(scene).leader(name, partition) == replicas[0] or scene.wait(0.2)

    wait_for(f"{name}[{partition}] led by {replicas[0]}", led)


def _set(scene: Scene, topic: str, name: str, value: str) -> None:
    """Change the configuration of a topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, scene.deployment.settings.prefix + topic, incremental_configs=[entry])
    for future in _admin(scene).incremental_alter_configs([resource]).values():
        future.result()
