"""The faults that the soak injects, each by name, and how each is made good again."""

import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Message, Producer

from glasstream.app.brokers.local import Kafka
from glasstream.app.brokers.local.node import free_ports
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.progress import read_to_end
from glasstream.kafka.transport.worker import ExitCode
from glasstream_topics import checkpoints, snapshots
from glasstream_topics.errors import FrameError
from tests.chaos.late_ends import LateEnds
from tests.chaos.witness import Witness
from tests.support.deployment import Deployment
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_for

SILENT: Final = 0.2
"""Share of late requests whose client gets no answer. For the others, the connection is reset."""
PAUSE_SECONDS: Final = 10.0
"""Number of seconds for which a paused broker does not answer."""
STAGES: Final = {
    "learner-1": "learner", "aggregator-1": "aggregator", "explainer-1": "explainer", "explainer-2": "explainer",
    "novelty-1": "novelty",
}  # fmt: skip
"""Workers of the deployment, which run whenever no fault is active."""
MOST_ENDS: Final = 3
"""How often a worker may end with the same code during one wait. A supervisor would restart it without end."""


class EndedForGoodError(Exception):
    """A worker has ended, and would end again whoever starts it."""


@dataclass
class Scene:
    """Deployment into which faults are injected.

    Attributes
    ----------
    deployment
        The workers.
    kafka
        Their broker, or the cluster of their brokers.
    feed
        Writes so many more events; gives the number of rows written so far.
    chance
        What all choices come from.
    """

    deployment: Deployment
    kafka: Kafka | LocalCluster
    feed: Callable[[int], int]
    chance: random.Random
    stream: str
    ended: dict[str, int] = field(default_factory=dict)
    """Number of workers that ended by themselves and were restarted, by stage and exit code."""
    ends: Counter[tuple[str, int]] = field(default_factory=Counter)
    """The same by name and exit code, since the last wait that came to its end."""
    facts: dict[str, int] = field(default_factory=dict)
    """Counted effects of the faults."""
    health: dict[str, int] = field(default_factory=lambda: dict(zip(STAGES, free_ports(len(STAGES)), strict=True)))
    """Port of each worker's health probes."""
    proxy: LateEnds = field(init=False)
    """Proxy between the brokers and all clients of the deployment."""
    witness: Witness = field(init=False)
    """Second reader of the soak; this and the following attributes are set only with several brokers."""
    disk: tuple[int, Path] = field(init=False)
    """Broker with a disk so small that it can be filled, and the disk."""
    clocks: dict[int, Path] = field(default_factory=dict)
    """Files with the offset of a broker's clock from the machine's, by broker."""

    def wait(self, seconds: float) -> bool:
        """Wait and return False, so that a condition can end with this call."""
        return threading.Event().wait(seconds)

    def note(self, what: str, count: int) -> None:
        """Count an effect of a fault."""
        self.facts[what] = self.facts.get(what, 0) + count

    def heal(self, asleep: str = "") -> None:
        """Start what is not running, as a supervisor would, but for the worker that is asleep.

        Raises
        ------
        EndedForGoodError
            Starting it again is of no use.
        """
        for name, stage in STAGES.items():
            if name == asleep:
                continue
            worker = self.deployment.workers.get(name)
            if worker is not None and (code := worker.poll()) is not None:
                self.deployment.workers.pop(name)
                self._note_end(name, code)
                worker = None
            if worker is None:
                self.deployment.start(stage, name, GLASSTREAM_HEALTH_PORT=str(self.health[name]))

    def _note_end(self, name: str, code: int) -> None:
        kind = f"{STAGES[name]}, code {code}"
        self.ended[kind] = self.ended.get(kind, 0) + 1
        self.ends[name, code] += 1
        reasons = [line for line in self.deployment.log(name).splitlines() if "exiting with code" in line]
        how = f"{name}: {reasons[-1] if reasons else f'killed, {code}'}"
        print(how, file=sys.stderr, flush=True)
        if code in (ExitCode.USAGE, ExitCode.STATE) or self.ends[name, code] >= MOST_ENDS:
            raise EndedForGoodError(
                f"{how} (time {self.ends[name, code]}); its log: {self.deployment.log(name)[-4_000:]}"
            )

    def until(self, what: str, reached: Callable[[], object], asleep: str = "", deadline: float = 240.0) -> None:
        """Wait until a condition holds, and restart workers that end meanwhile.

        Raises
        ------
        EndedForGoodError
            A worker has ended for good.
        """

        def healed() -> object:
            self.heal(asleep)
            return reached()

        wait_for(f"{what} ({self.deployment.folder})", healed, deadline)
        self.ends.clear()

    def until_aggregated(self, rows: int, asleep: str = "") -> None:
        """Wait until this many rows are aggregated."""
        self.until(f"row {rows} aggregated", lambda: self.deployment.aggregated(self.stream) >= rows, asleep)

    def until_watched(self) -> None:
        """Wait until the novelty detectors have seen all events."""
        self.until("all events watched", self.deployment.watched)

    def some_more(self, rows: int) -> None:
        """Feed, and wait until about half of it is aggregated."""
        end = self.feed(rows)
        self.until_aggregated(end - rows // 2)


Fault = Callable[[Scene], None]


def kill(stage: str) -> Fault:
    """Kill a worker of a stage with kill -9."""

    def fault(scene: Scene) -> None:
        scene.deployment.kill(scene.chance.choice([name for name, own in STAGES.items() if own == stage]))

    return fault


def kill_two(scene: Scene) -> None:
    """Kill two workers at once with kill -9."""
    for name in scene.chance.sample(sorted(STAGES), 2):
        scene.deployment.kill(name)


def sleep_over(scene: Scene) -> None:
    """Stop a worker for longer than its session, so that it wakes as a second owner."""
    name = scene.chance.choice(sorted(STAGES))
    stage = STAGES[name]
    sleeper = scene.deployment.workers.pop(name)
    os.kill(sleeper.pid, signal.SIGSTOP)
    second = f"{stage}-9"
    scene.deployment.start(stage, second)
    try:
        end = scene.feed(400)
        scene.until_aggregated(end - 200, asleep=name)
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
    scene.deployment.workers[name] = sleeper
    scene.some_more(200)
    scene.deployment.stop(second)


def rebalance(scene: Scene) -> None:
    """Let a further worker join a stage and leave again."""
    stage = scene.chance.choice(["learner", "aggregator", "explainer", "novelty"])
    further = f"{stage}-8"
    scene.deployment.start(stage, further)
    scene.some_more(400)
    scene.deployment.stop(further)


def restart_broker(scene: Scene) -> None:
    """End the broker, at once or in order, and restart it."""
    if scene.chance.random() < 0.5:
        scene.kafka.kill()
    else:
        scene.kafka.stop()
    scene.kafka.start()


def pause_broker(scene: Scene) -> None:
    """Pause the broker, which answers nothing for a while."""
    scene.kafka.pause()
    threading.Event().wait(PAUSE_SECONDS)
    scene.kafka.resume()


def late_end(scene: Scene) -> None:
    """Deliver the request that ends a transaction late, in the next transaction of the same stage and partition."""
    late = scene.proxy.hold(silent=scene.chance.random() < SILENT, after=scene.chance.randrange(3))

    def delivered() -> bool:
        return late.delivered.is_set() or (scene.feed(20) > 0 and scene.wait(1.0))

    scene.until("the late request is delivered", delivered)
    if late.answer == 0:
        raise AssertionError("a broker accepted a late request and ended a transaction that was not complete")
    scene.note("late ends of transactions that a broker refused", 1)


def repeat(topic: str) -> Fault:
    """Repeat messages of an internal queue in another order."""

    def fault(scene: Scene) -> None:
        found = _newest(scene, topic, 40)
        again = [message for message in found if scene.chance.random() < 0.7]
        scene.chance.shuffle(again)
        _write(scene, topic, [(m.key(), m.value(), m.partition()) for m in again])

    return fault


def damage_checkpoint(scene: Scene) -> None:
    """Overwrite a part of the newest checkpoint, so that the learner must resume from an older one."""
    for partition in range(scene.deployment.settings.topics.events):
        records = _state(scene, checkpoints.TOPIC.name, partition)
        keys = [checkpoints.Key.decode(key) for key in records]
        if keys:
            newest = max(keys, key=lambda key: (key.epoch, key.version, key.chunk))
            _write(
                scene,
                checkpoints.TOPIC.name,
                [(newest.encode(), _bent(scene, records[newest.encode()]), partition)],
            )
    scene.deployment.kill("learner-1")


def damage_snapshot(scene: Scene) -> None:
    """Overwrite a part of the newest snapshot, so that an explainer that does not know it must request it."""
    records = _state(scene, snapshots.TOPIC.name, 0)
    keys = []
    for key in records:
        try:
            keys.append(snapshots.Key.decode(key))
        except FrameError:
            continue
    if keys:
        newest = max(keys, key=lambda key: key.version).encode()
        _write(scene, snapshots.TOPIC.name, [(newest, _bent(scene, records[newest]), 0)])
    for name in ("explainer-1", "explainer-2"):
        scene.deployment.kill(name)


FAULTS: Final[dict[str, Fault]] = {
    "kill_learner": kill("learner"),
    "kill_explainer": kill("explainer"),
    "kill_aggregator": kill("aggregator"),
    "kill_novelty": kill("novelty"),
    "kill_two": kill_two,
    "sleep_over": sleep_over,
    "rebalance": rebalance,
    "restart_broker": restart_broker,
    "pause_broker": pause_broker,
    "late_end": late_end,
    "repeat_requests": repeat("explain.requests"),
    "repeat_contributions": repeat("contributions"),
    "damage_checkpoint": damage_checkpoint,
    "damage_snapshot": damage_snapshot,
}


def order(count: int, chance: random.Random, among: Collection[str]) -> list[str]:
    """Return `count` faults in random order, each kind as often as the others."""
    names: list[str] = []
    while len(names) < count:
        kinds = list(among)
        chance.shuffle(kinds)
        names += kinds
    return names[:count]


def _bent(scene: Scene, value: bytes) -> bytes:
    """Return the bytes with one of them changed."""
    place = scene.chance.randrange(len(value))
    return value[:place] + bytes([value[place] ^ 0x55]) + value[place + 1 :]


def _state(scene: Scene, topic: str, partition: int) -> dict[bytes, bytes]:
    settings = scene.deployment.settings
    return dict(read_to_end(connection(settings), settings.prefix + topic, partition, 30.0))


def _write(scene: Scene, topic: str, records: list[tuple[bytes | None, bytes | None, int]]) -> None:
    """Write with a producer without transactions, as a foreign client would."""
    producer: Producer = scene.deployment.producer
    for key, value, partition in records:
        producer.produce(scene.deployment.settings.prefix + topic, value, key, partition)
    if producer.flush(60.0):
        raise TimeoutError(f"{topic}: the broker took nothing for 60 s")


def _newest(scene: Scene, topic: str, count: int) -> list[Message]:
    """Return the last messages of every partition of a topic."""
    from confluent_kafka import Consumer, TopicPartition

    settings = scene.deployment.settings
    name = settings.prefix + topic
    partitions = settings.topics.requests if topic == "explain.requests" else settings.topics.events
    reader = Consumer(connection(settings).consumer(read_committed=True))
    found: list[Message] = []
    try:
        for partition in range(partitions):
            low, high = reader.get_watermark_offsets(TopicPartition(name, partition), timeout=30.0)
            first = max(low, high - count)
            if first >= high:
                continue
            reader.assign([TopicPartition(name, partition, first)])
            found += [message for message in reader.consume(count, timeout=1.0) if message.error() is None]
    finally:
        reader.close()
    return found
