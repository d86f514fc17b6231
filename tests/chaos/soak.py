"""A stream on a real Kafka under random faults: is anything lost, doubled or changed?

    python tests/chaos/soak.py --faults 100 --seed 1 [--model tree] [--kinds kill_fold,pause_broker]

Five workers learn, explain, fold and watch a stream of events while faults are injected one after the other: see
`tests.chaos.faults`. At the end every public record is compared with those of a quiet run in one process without
Kafka, read committed. Progress goes to stderr, one JSON line at the end to stdout:

- `faults`: how often each kind was injected
- `resumed`: how often a learner went on from a checkpoint
- `ended`: workers that ended by themselves and were started again, by exit code
- `lost`, `double`: public records that are missing, or there too often
- `identical`: every topic, byte for byte
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, of which `tests` is a package

import orjson

from pipeline.brokers.local import local_kafka
from pipeline.command.reference import Reference
from pipeline.configuration import load
from pipeline.settings import Settings
from tests.chaos.faults import FAULTS, STAGES, Scene, order
from tests.deployment import Deployment
from topics import events

STREAM = "s"
TOPICS = ("predictions", "importance", "effects", "drift", "novelty")
ROWS_A_MESSAGE = 20
ROWS_A_FAULT = 300
RESUMED = "goes on from its checkpoint"
SETTINGS = (
    "model.task=classification",
    "explain.methods=ipfi,isage,ipdp,novelty",
    "sentinel.window=300",
    "sentinel.stride=600",
    "sentinel.delay=200",
    "sentinel.held=0.5",
    "sentinel.rate=0.05",
    "sentinel.learners=5",
    "sentinel.anchor=1000",
    "limits.rows_ahead=1500",
    "publish.every=50",
    "worker.session_seconds=6",
    "worker.heartbeat_seconds=1",
    "checkpoint.seconds=1",
    "checkpoint.share=0.5",
    "topics.events=2",
    "topics.work=4",
)


class Stream:
    """Endless events whose truth changes now and then, in messages."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.rows = 0
        self.log: list[bytes | None] = []

    def take(self, rows: int) -> list[bytes]:
        """The next messages, of `rows` rows in all; a few of them are no events."""
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


def soak(faults: list[str], seed: int, model: str, folder: Path) -> dict[str, object]:
    chance = random.Random(seed)
    stream = Stream(seed)
    started = time.monotonic()
    with local_kafka(log=say) as kafka:
        settings = load(assignments=[f"broker={kafka.bootstrap}", "prefix=soak.", f"model.name={model}", *SETTINGS])
        deployment = Deployment(settings, folder)

        def feed(rows: int) -> int:
            deployment.send(*stream.take(rows), key=STREAM.encode())
            return stream.rows

        scene = Scene(deployment, kafka, feed, chance, STREAM)
        try:
            scene.heal()
            scene.some_more(600)
            for number, name in enumerate(faults, 1):
                feed(chance.randrange(ROWS_A_FAULT // 2, ROWS_A_FAULT))
                FAULTS[name](scene)
                scene.heal()
                scene.some_more(ROWS_A_FAULT // 2)
                seconds = time.monotonic() - started
                say(f"{number}/{len(faults)} {name}: {deployment.folded(STREAM)} rows folded, {seconds:.0f} s")
            stream.log.append(events.FLUSH)
            deployment.send(events.FLUSH, key=STREAM.encode())
            scene.until_folded(stream.rows)
            deployment.wait_published(STREAM, stream.rows - 1)
            scene.until_watched()
            deployment.read_all()
            got = {topic: deployment.values(topic) for topic in TOPICS}
            resumed = sum(log.read_text().count(RESUMED) for log in folder.glob("learner-*.log"))
            dead = [(message.key(), message.value()) for message in deployment.records["events.dead"]]
        finally:
            deployment.close()
    say("compares with the quiet run")
    return {
        "faults": dict(sorted(Counter(faults).items())),
        "seed": seed,
        "rows": stream.rows,
        "ended": dict(sorted(scene.ended.items())),
        "resumed": resumed,
        **compare(settings, stream.log, got, dead),
        "seconds": round(time.monotonic() - started),
    }


def compare(
    settings: Settings,
    log: list[bytes | None],
    got: dict[str, list[bytes]],
    dead: list[tuple[bytes | None, bytes | None]],
) -> dict[str, object]:
    """What differs from the quiet run; dead letters by their originals, for their headers tell the time."""
    expected: dict[str, list[bytes]] = {topic: [] for topic in got}
    for topic, record in Reference(settings).run((STREAM.encode(), value) for value in log):
        if topic in expected:
            expected[topic].append(record)
    lost = double = 0
    for topic, records in expected.items():
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
    parser.add_argument("--kinds", help=f"only these, separated by commas, of {', '.join(FAULTS)}")
    options = parser.parse_args()
    faults = order(options.faults, random.Random(options.seed))
    if options.kinds:
        kinds = options.kinds.split(",")
        faults = [kinds[number % len(kinds)] for number in range(options.faults)]
    with tempfile.TemporaryDirectory(prefix="glasstream-soak-") as folder:
        outcome = soak(faults, options.seed, options.model, Path(folder))
        sound = outcome["identical"] and not outcome["lost"] and not outcome["double"]
        if not sound:
            for name in STAGES:
                log = Path(folder) / f"{name}.log"
                say(f"--- {name}\n{log.read_text()[-4_000:] if log.exists() else ''}")
    print(json.dumps(outcome), flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
