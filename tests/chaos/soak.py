"""A stream on a real Kafka under random faults: is anything lost, doubled or changed?

    python tests/chaos/soak.py --faults 100 --seed 1 [--nodes 3] [--model tree] [--kinds kill_aggregator,pause_broker]

Five workers learn, explain, aggregate and watch a stream of events while faults are injected one after the other: see
`tests.chaos.faults`, and `tests.chaos.cluster_faults` for those that need three brokers (`--nodes 3`). At the end every
public record is compared with those of a quiet run in one process without Kafka, read committed. Progress goes to
stderr, one JSON line at the end to stdout:

- `faults`: how often each kind was injected
- `facts`: what the faults did (records deleted, connections cut), where that can be counted
- `resumed`: how often a learner went on from a checkpoint
- `ended`: workers that ended by themselves and were started again, by exit code
- `lost`, `double`: public records that are missing, or there too often
- `identical`: every topic, byte for byte; sorted where a topic has records in several partitions
- `stuck`: where the stream did not go on after a fault: which one, and why
- `witness`, with three brokers: what a reader beside the soak found; see `tests.chaos.witness`

All clients go through a proxy. With three brokers readers fetch from a follower (`client.rack`), one broker keeps its
data on a tmpfs of its own (as root, for a disk that can be full), and each has a clock of its own (where libfaketime is
installed). A kind of fault that this machine cannot have is left out, and a line says so.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, of which `tests` is a package

import orjson
from confluent_kafka import KafkaException, Message

from glasstream.app.brokers.local import Kafka, local_kafka
from glasstream.app.brokers.local.node import free_ports
from glasstream.app.configuration import load
from glasstream.base.errors import GlasstreamError
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import Connection
from glasstream_topics import events
from tests.chaos.cluster_faults import CLUSTER_FAULTS, settle
from tests.chaos.faults import FAULTS, STAGES, EndedForGoodError, Scene, order
from tests.chaos.late_ends import LateEnds
from tests.chaos.witness import Witness
from tests.support.deployment import Deployment
from tests.support.local_cluster import LocalCluster, local_cluster

DISK_MEGABYTES = 300
STREAM = "s"
TOPICS = ("predictions", "importance", "effects", "drift", "incidents", "novelty")
ROWS_A_MESSAGE = 20
ROWS_A_FAULT = 300
RESUMED = "resumes from its checkpoint"
SETTINGS = (
    "model.task=classification",
    "explain.methods=ipfi,isage,ipdp,novelty",
    "novelty.window=300",
    "novelty.stride=600",
    "novelty.delay=200",
    "novelty.held=0.5",
    "novelty.rate=0.05",
    "novelty.learners=5",
    "novelty.anchor=1000",
    "limits.rows_ahead=1500",
    "publish.every=50",
    "worker.session_seconds=6",
    "worker.heartbeat_seconds=1",
    "checkpoint.seconds=0.001",  # at nearly every snapshot: the learner takes a tenth of a second for a fault's rows
    "checkpoint.share=0.5",
    "topics.events=2",
    "topics.requests=4",
)


class Stream:
    """An endless stream of events, in messages, whose concept changes from time to time."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.rows = 0
        self.log: list[bytes | None] = []

    def take(self, rows: int) -> list[bytes]:
        """Return the next messages, with `rows` rows in all and a few invalid events."""
        taken: list[bytes] = []
        while rows > 0:
            count = min(rows, ROWS_A_MESSAGE)
            taken.append(orjson.dumps([self._event() for _ in range(count)]))
            rows -= count
            if self._chance.random() < 0.05:
                taken.append(b"no event")
        self.log += taken
        return taken

    def _event(self) -> dict[str, object]:
        chance = self._chance
        x = {name: round(chance.random(), 3) for name in "abcd"}
        turned = self.rows // 3_000 % 2
        y = (x["a"] + x["b"] if turned else x["c"] * x["d"] * 4) > 1
        self.rows += 1
        return {"id": self.rows, "x": {**x, "town": chance.choice(["Brno", "Olomouc", "Zlín"])}, "y": y}


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass
class World:
    """The brokers for the workers: one, or three with the means to disturb them."""

    kafka: Kafka | LocalCluster
    bootstrap: str
    proxy: LateEnds
    disk: tuple[int, Path] | None = None
    clocks: dict[int, Path] = field(default_factory=dict)

    def missing(self) -> dict[str, str]:
        """Return the kinds of fault that this machine does not support, with the reasons."""
        missing = {}
        if self.disk is None:
            missing["disk_full"] = "a tmpfs can be mounted by root only"
        if not self.clocks:
            missing["clock_jumps"] = "libfaketime is not installed (apt-get install libfaketime)"
        return missing


@contextmanager
def world(nodes: int, folder: Path) -> Iterator[World]:
    """Run the brokers of a soak."""
    numbers = range(1, nodes + 1)
    behind = dict(zip(numbers, free_ports(len(numbers)), strict=True))
    with ExitStack() as stack:
        proxy = LateEnds(behind.values())
        stack.callback(proxy.close)

        def listener(node: int) -> dict[str, str]:
            return {
                "listeners": f"PROXIED://127.0.0.1:{behind[node]}",
                "advertised.listeners": f"PROXIED://127.0.0.1:{proxy.ports[behind[node]]}",
                "listener.security.protocol.map": "PROXIED:PLAINTEXT",
            }

        bootstrap = ",".join(f"127.0.0.1:{port}" for port in proxy.ports.values())
        if nodes == 1:
            kafka = stack.enter_context(local_kafka(settings=listener(1), log=say))
            yield World(kafka, bootstrap, proxy)
            return
        disk = stack.enter_context(small_disk(folder / "disk"))
        library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
        clocks = {number: folder / f"clock-{number}" for number in numbers} if library else {}
        for clock in clocks.values():
            clock.write_text("+0s", encoding="utf-8")

        def of_node(node: int) -> dict[str, str]:
            settings = listener(node)
            if disk is not None and node == nodes:
                settings["log.dirs"] = str(disk / "logs")
            return settings

        def environment(node: int) -> dict[str, str]:
            if node not in clocks:
                return {}
            return {
                "LD_PRELOAD": str(library),
                "FAKETIME_TIMESTAMP_FILE": str(clocks[node]),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # its cure for an old glibc lets every timed wait of Java spin
            }

        cluster = stack.enter_context(local_cluster(nodes, of_node=of_node, environment=environment, log=say))
        yield World(cluster, bootstrap, proxy, None if disk is None else (nodes, disk), clocks)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a disk of a few hundred megabytes; None if the user may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "glasstream-soak", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def soak(kinds: list[str] | None, count: int, seed: int, model: str, nodes: int, folder: Path) -> dict[str, object]:
    chance = random.Random(seed)
    stream = Stream(seed)
    started = time.monotonic()
    registry = FAULTS if nodes == 1 else CLUSTER_FAULTS
    stuck: str | None = None
    witness: Witness | None = None
    with world(nodes, folder) as brokers:
        missing = brokers.missing() if nodes > 1 else {}
        for name, why in missing.items():
            say(f"{name} is left out: {why}")
        among = [name for name in kinds or registry if name not in missing]
        if not among:
            raise ValueError(f"expected a kind of fault that this machine can have, got {', '.join(missing)}")
        faults = order(count, random.Random(seed), among)
        if kinds:  # as they were asked for
            faults = [among[number % len(among)] for number in range(count)]
        given = [f"broker={brokers.bootstrap}", "prefix=soak.", f"model.name={model}", *SETTINGS]
        if nodes > 1:
            given.append(f"kafka.client.rack=rack-{nodes}")
        settings = load(assignments=given)
        deployment = Deployment(settings, folder)
        scene = Scene(deployment, brokers.kafka, lambda rows: feed(rows), chance, STREAM)
        scene.proxy = brokers.proxy
        if isinstance(brokers.kafka, LocalCluster):
            direct = Connection(brokers.kafka.bootstrap, {"client.rack": "rack-2"})
            witness = Witness(direct, settings, STREAM, lambda: stream.rows, lambda: scene.health)
            scene.witness, scene.clocks = witness, brokers.clocks
            if brokers.disk is not None:
                scene.disk = brokers.disk

        def feed(rows: int) -> int:
            deployment.send(*stream.take(rows), key=STREAM.encode())
            return stream.rows

        got: dict[str, list[Message]] = {}
        dead: list[tuple[bytes | None, bytes | None]] = []
        name = "start"
        try:
            scene.heal()
            scene.some_more(600)
            for number, name in enumerate(faults, 1):
                scene.heal()
                feed(chance.randrange(ROWS_A_FAULT // 2, ROWS_A_FAULT))
                registry[name](scene)
                scene.heal()
                scene.some_more(ROWS_A_FAULT // 2)
                if witness is not None:
                    settle(scene)
                    witness.await_ready(name)
                seconds = time.monotonic() - started
                say(f"{number}/{len(faults)} {name}: {deployment.aggregated(STREAM)} rows aggregated, {seconds:.0f} s")
            name = "end"
            stream.log.append(events.FLUSH)
            deployment.send(events.FLUSH, key=STREAM.encode())
            scene.until_aggregated(stream.rows)
            last = stream.rows - 1
            scene.until(f"row {last} published", lambda: deployment.published(STREAM) == last)
            scene.until_watched()
            deployment.read_all()
            got = {topic: deployment.records[topic] for topic in TOPICS}
            dead = [(message.key(), message.value()) for message in deployment.records["events.dead"]]
            watched = {} if witness is None else {"witness": witness.close()}
        except (
            GlasstreamError, KafkaException, TimeoutError, AssertionError, ValueError, OSError, EndedForGoodError,
        ) as error:  # fmt: skip
            stuck = f"{name}: {type(error).__name__}: {error}"
            say(f"stuck after {stuck}")
            if isinstance(brokers.kafka, LocalCluster):
                for number, node in brokers.kafka.nodes.items():
                    lines = (node.folder / "kafka.log").read_text(errors="replace").splitlines()
                    say("\n".join([f"--- broker {number}", *(line[:300] for line in lines[-15:])]))
            watched = {} if witness is None else {"witness": {"readiness_lies": witness.lies}}
        finally:
            resumed = sum(log.read_text().count(RESUMED) for log in folder.glob("learner-*.log"))
            deployment.end()
    outcome = {
        "nodes": nodes,
        "faults": dict(sorted(Counter(faults).items())),
        "facts": dict(sorted(scene.facts.items())),
        "seed": seed,
        "rows": stream.rows,
        "ended": dict(sorted(scene.ended.items())),
        "resumed": resumed,
        "stuck": stuck,
    }
    if stuck is None:
        say("compares with the quiet run")
        outcome |= compare(settings, stream.log, got, dead)
    return {**outcome, **watched, "seconds": round(time.monotonic() - started)}


def is_sound(outcome: dict[str, object]) -> bool:
    """Return whether a soak found no error."""
    witness = outcome.get("witness", {})
    found = [outcome.get("stuck"), outcome.get("lost"), outcome.get("double")]
    found += [witness.get(what) for what in ("again", "aborted", "skipped", "readiness_lies")]
    return outcome.get("identical") is True and not any(found)


def compare(
    settings: Settings,
    log: list[bytes | None],
    messages: dict[str, list[Message]],
    dead: list[tuple[bytes | None, bytes | None]],
) -> dict[str, object]:
    """Return the differences from the quiet run. Dead letters count by their originals: their headers hold times.

    The records of a topic are in the order of the quiet run where all are in one partition. Several partitions have
    several leaders, and a reader gets their records in no order: there the sorted records are compared.
    """
    expected: dict[str, list[bytes]] = {topic: [] for topic in messages}
    got = {topic: [message.value() or b"" for message in records] for topic, records in messages.items()}
    for topic, record in Reference(settings).run((STREAM.encode(), value) for value in log):
        if topic in expected:
            expected[topic].append(record)
    lost = double = 0
    for topic, records in expected.items():
        if len({message.partition() for message in messages[topic]}) > 1:
            records.sort()
            got[topic].sort()
        want, have = Counter(records), Counter(got[topic])
        missing, further = (want - have).total(), (have - want).total()
        if missing or further:
            say(f"{topic}: {missing} of {len(records)} records are missing, {further} are further ones")
            first = next((pair for pair in zip(records, got[topic], strict=False) if pair[0] != pair[1]), None)
            say(f"the first that differs: expected {first[0]!r}, got {first[1]!r}" if first else "all before are equal")
        lost += missing
        double += further
    rejected = [(STREAM.encode(), value) for value in log if value == b"no event"]
    lost += (Counter(rejected) - Counter(dead)).total()
    double += (Counter(dead) - Counter(rejected)).total()
    return {"records": sum(map(len, expected.values())), "lost": lost, "double": double, "identical": expected == got}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="tree")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="number of brokers")
    parser.add_argument("--kinds", help=f"only these, separated by commas, of {', '.join(CLUSTER_FAULTS | FAULTS)}")
    options = parser.parse_args()
    kinds = options.kinds.split(",") if options.kinds else None
    if unknown := set(kinds or ()) - set(FAULTS if options.nodes == 1 else CLUSTER_FAULTS):
        parser.error(f"--kinds: with --nodes {options.nodes} there is no {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="glasstream-soak-", ignore_cleanup_errors=True) as folder:
        outcome = soak(kinds, options.faults, options.seed, options.model, options.nodes, Path(folder))
        sound = is_sound(outcome)
        if not sound:
            for name in STAGES:
                log = Path(folder) / f"{name}.log"
                say(f"--- {name}\n{log.read_text()[-4_000:] if log.exists() else ''}")
    print(json.dumps(outcome), flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
