"""Several Kafka nodes of this machine as one cluster, and what a test may do to each of them."""

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from glasstream.app.brokers.local.configuration import CLUSTER_SETTINGS
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
