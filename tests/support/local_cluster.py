"""Several Kafka nodes of this machine as one cluster, and what a test may do to each of them."""

import json
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from glasstream.app.brokers.local import jars, toolchain
from glasstream.app.brokers.local.node import (
    START_DEADLINE_S,
    LocalKafka,
    Member,
    PortTaken,
    free_ports,
    new_cluster_id,
)
from glasstream.base.errors import BrokerError

_PORT_TRIES = 3
_ASK_S = 5.0
_PAUSE_S = 0.1

NodeSettings = Callable[[int], Mapping[str, str]]

CLUSTER_SETTINGS: Mapping[str, str] = {
    # Every record is on three brokers, and is committed when two have it: one broker may be lost without any effect.
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # A consumer that names its rack (`client.rack`) reads from the broker of that rack.
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Kafka's defaults again: on a busy machine a shorter session lets the controller fence brokers that are alive.
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    # How soon a follower that stands still leaves the in-sync replicas; 30 s by default, longer than a test waits.
    "replica.lag.time.max.ms": "10000",
}
"""Settings of a broker in a cluster of three that replace those of a single node."""


class LocalCluster:
    """A cluster of brokers on loopback ports, each also a controller. Made by `local_cluster`, which closes it.

    Attributes
    ----------
    nodes : dict of int to LocalKafka
        The nodes by their ids, from 1 on. Each can be killed, stopped, paused and started again on its data; `start`
        of a node returns when it answers, which needs a majority of the nodes: bring several back by `start(...)` of
        the cluster. Node N is in the rack `rack-N`.
    folder : Path
        Holds a folder for each node.
    """

    kind = "local"

    def __init__(
        self,
        java: Path,
        jars: Path,
        count: int,
        settings: Mapping[str, str],
        log: Callable[[str], None],
        *,
        of_node: NodeSettings | None = None,
        environment: NodeSettings | None = None,
    ) -> None:
        self._java = java
        self._jars = jars
        self._count = count
        self._settings = dict(settings)
        self._log = log
        self._of_node = of_node or (lambda node: {})
        self._environment = environment or (lambda node: {})
        self.folder = Path(tempfile.mkdtemp(prefix="glasstream-cluster-"))
        self.nodes: dict[int, LocalKafka] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, `127.0.0.1:PORT,...`; restarts do not change them."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def open(self) -> None:
        """Choose ports and start all nodes; where another program takes one of the ports, try others.

        Raises
        ------
        BrokerError
            A node did not start; the message holds the last lines of its log.
        """
        for left in reversed(range(_PORT_TRIES)):
            self._make()
            try:
                self.start(*self.nodes)
                return
            except PortTaken:
                self._close_nodes()
                if left == 0:
                    raise

    def start(self, *nodes: int) -> None:
        """Start nodes on the data and ports they had, and return when each of them is a live broker again."""
        stopped = [self.nodes[node] for node in nodes if not self.nodes[node].running]
        for node in stopped:
            node.launch()
        for node in stopped:
            node.await_answer()
        self.await_alive(*nodes)

    def await_alive(self, *nodes: int) -> None:
        """Wait until every running node says that these nodes are live brokers.

        Raises
        ------
        BrokerError
            A node is missing at the deadline.
        """
        end = time.monotonic() + START_DEADLINE_S
        for asked in self.nodes.values():
            while asked.running:
                alive = _alive(asked.bootstrap)
                if alive >= set(nodes):
                    break
                if time.monotonic() > end:
                    raise BrokerError(
                        f"expected the brokers {sorted(nodes)} within {START_DEADLINE_S:g} s, got {sorted(alive)} from "
                        f"{asked.bootstrap}. See kafka.log in the folders of {self.folder}."
                    )
                threading.Event().wait(_PAUSE_S)

    def leader(self, topic: str, partition: int) -> int:
        """Return the node that leads a partition, -1 if none does.

        Raises
        ------
        BrokerError
            There is no such partition.
        """
        metadata = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=_ASK_S)
        try:
            return int(metadata.topics[topic].partitions[partition].leader)
        except KeyError as error:
            raise BrokerError(f"the cluster has no partition {topic}[{partition}]") from error

    def controller(self) -> int:
        """Return the node that is the active controller, -1 while an election is under way.

        Clients get a random broker in its place. Every node records which node it follows, and in which epoch.
        """
        best = (-1, -1)
        for node in self.nodes.values():
            file = node.data / "__cluster_metadata-0" / "quorum-state"
            if node.running and file.exists():
                state = json.loads(file.read_text(encoding="utf-8"))
                best = max(best, (int(state["leaderEpoch"]), int(state["leaderId"])))
        return best[1]

    def close(self) -> None:
        """End all nodes and remove their data."""
        self._close_nodes()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close_nodes(self) -> None:
        for node in self.nodes.values():
            node.kill()
        for node in self.nodes.values():
            node.close()
        self.nodes = {}

    def _make(self) -> None:
        ports = free_ports(2 * self._count)
        pairs = dict(enumerate(zip(ports[::2], ports[1::2], strict=True), 1))
        voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, controller) in pairs.items())
        cluster_id = new_cluster_id()
        shutil.rmtree(self.folder, ignore_errors=True)
        for node, pair in pairs.items():
            settings = {**CLUSTER_SETTINGS, "broker.rack": f"rack-{node}", **self._settings, **self._of_node(node)}
            self.nodes[node] = LocalKafka(
                self._java,
                self._jars,
                self.folder / str(node),
                settings,
                self._log,
                member=Member(node, pair, voters, cluster_id),
                environment=self._environment(node),
            )
            self.nodes[node].take_folder()


def _alive(bootstrap: str) -> set[int]:
    """The live brokers that a node knows; none while it does not answer."""
    try:
        return set(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=_ASK_S).brokers)
    except KafkaException:
        return set()


@contextmanager
def local_cluster(
    count: int = 3,
    *,
    settings: Mapping[str, str] | None = None,
    of_node: NodeSettings | None = None,
    environment: NodeSettings | None = None,
    log: Callable[[str], None] | None = None,
) -> Iterator[LocalCluster]:
    """A cluster of Kafka nodes that answers, until the block is left or this process dies, whichever comes first.

    Every node is broker and controller and takes about 350 MB of memory. Topics have three copies and need two.

    Parameters
    ----------
    count
        Number of nodes, from 3 on.
    settings, of_node
        Broker settings of all nodes, and of one by its id, on top of `CLUSTER_SETTINGS`.
    environment
        Further environment variables of a node's process by its id.
    log
        Function that receives a line of text for each slow step; None for the log of this module.

    Raises
    ------
    BrokerError
        Java or Kafka is missing (a container cannot stand in for a cluster), or a node did not start.
    """
    say = log or logging.getLogger(__name__).info
    cluster = LocalCluster(
        toolchain.java(), jars.fetch(say), count, settings or {}, say, of_node=of_node, environment=environment
    )
    try:
        cluster.open()
        yield cluster
    finally:
        cluster.close()
