"""Events per second that a novelty detector scores on elec2, and whether crashes, workers and pace change its output.

    python tests/benchmarks/novelty.py [--rate 5000] [--repeats 3] [--kafka HOST:PORT]

The events of elec2, every second one without its label, as two streams on two partitions of a real Kafka (one of this
machine unless given); maps of 20 learners with 2,000 rows as reference. One JSON object:

- `scored_per_s`: of one worker with everything before it on the topic, from the first records that it commits to the
  last; median of `repeats`; `ratio`: that over `rate` (goal: 1)
- `lag`, `maps_awaited`: events that one worker had not scored when the last of a stream that comes at `rate` was
  written, and how often scoring waited for a map on the way (goal: 0)
- `maps`: that were fitted to that stream
- `identical`: whether the records of one worker, of two, of two of which three were killed (kill -9), and at that pace
  are those of the plain loop without Kafka, byte for byte
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, of which `tests` is a package

import orjson

from glasstream.app.brokers.local import local_kafka
from glasstream.app.configuration import load
from glasstream.events.sources.csv_file import CsvFile
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream_topics import events
from tests.support.deployment import Deployment
from tests.support.metrics import metrics
from tests.support.waiting import wait_for

ROWS_A_MESSAGE = 50
STREAMS = (b"elec2", b"elec2-b")
"""Streams that lie on two partitions."""
SETTINGS = (
    "explain.methods=ipfi,novelty", "model.task=classification", "topics.events=2", "novelty.window=2667",
    "novelty.stride=4000", "novelty.delay=4000", "worker.session_seconds=6", "worker.heartbeat_seconds=1",
)  # fmt: skip
"""A quarter of the window is held."""

Records = dict[bytes, list[bytes]]


def messages() -> list[bytes | None]:
    file = Path(os.environ.get("GLASSTREAM_DATA", "../shared/data")) / "elec2.csv.gz"
    source = CsvFile(file, "target", "elec2")
    source.look(None)
    made = []
    for number, event in enumerate(source.events()):
        labelled = {"y": event["y"]} if number % 2 else {}
        made.append({"id": number, "x": event["x"], **labelled})
    return [orjson.dumps(made[n : n + ROWS_A_MESSAGE]) for n in range(0, len(made), ROWS_A_MESSAGE)] + [events.FLUSH]


def expected(settings: Settings, log: list[bytes | None]) -> Records:
    found: Records = defaultdict(list)
    for key in STREAMS:
        for topic, record in Reference(settings).run((key, value) for value in log):
            if topic == "novelty":
                found[key].append(record)
    return found


class Trial:
    """A deployment with novelty detectors alone."""

    def __init__(self, kafka: str, name: str, folder: Path) -> None:
        where = folder / name
        where.mkdir()
        self.name = name
        self.deployment = Deployment(load(assignments=[f"broker={kafka}", f"prefix={name}.", *SETTINGS]), where)

    def send(self, key: bytes, log: list[bytes | None]) -> None:
        self.deployment.send(*log, key=key)

    def count(self) -> int:
        self.deployment.poll()
        return len(self.deployment.records["novelty"])

    def more_than(self, records: int) -> bool:
        return self.count() > records

    def ended(self) -> Records:
        wait_for(f"{self.name}: all is watched", self.deployment.watched)
        self.deployment.read_all()
        found: Records = defaultdict(list)
        for message in self.deployment.records["novelty"]:
            found[message.key() or b""].append(message.value() or b"")
        return found


def backlog(trial: Trial, log: list[bytes | None], want: Records) -> tuple[float, bool]:
    """Events scored a second by one worker, and whether it says what is expected."""
    total = sum(map(len, want.values()))
    for key in STREAMS:
        trial.send(key, log)
    trial.deployment.start("novelty")
    wait_for("the first records", lambda: trial.count() > 0)
    first, started = trial.count(), time.perf_counter()
    wait_for("the last record", lambda: trial.count() >= total)
    return (total - first) / (time.perf_counter() - started), trial.ended() == want


def two(trial: Trial, log: list[bytes | None], want: Records, *, kill: bool) -> bool:
    names = ["novelty-1", "novelty-2"]
    for name in names:
        trial.deployment.start("novelty", name)
    parts = 4
    for part in range(parts):
        for key in STREAMS:
            trial.send(key, log[len(log) * part // parts : len(log) * (part + 1) // parts])
        if kill and part < parts - 1:
            some = sum(map(len, want.values())) * part // parts
            wait_for(f"more than {some} are scored", partial(trial.more_than, some))
            trial.deployment.kill(names[part % 2])
            trial.deployment.start("novelty", names[part % 2])
    return trial.ended() == want


def paced(trial: Trial, log: list[bytes | None], want: Records, rate: float) -> dict[str, object]:
    key = STREAMS[0]
    trial.deployment.start("novelty")
    trial.send(STREAMS[1], log[:1])  # until this is scored, the worker starts
    wait_for("the novelty detector works", lambda: sum(trial.deployment.poll().progress.watched.values()) > 0)
    started, late = time.perf_counter(), 0.0
    for number, value in enumerate(log):
        trial.send(key, [value])
        ahead = started + (number + 1) * ROWS_A_MESSAGE / rate - time.perf_counter()
        late = max(late, -ahead)
        if ahead > 0:
            time.sleep(ahead)
    name = f"events_scored_total {key.decode()}"
    scored = metrics(trial.deployment, "novelty-1").get(name, 0)  # the worker's: who reads its records is behind it
    written = len(want[key])
    lived = trial.ended()[key] == want[key]
    said = metrics(trial.deployment, "novelty-1")
    awaited = sum(value for name, value in said.items() if name.startswith("maps_awaited_total"))
    return {
        "lag": max(written - int(scored), 0), "producer_late_s": round(late, 3), "maps_awaited": int(awaited),
        "maps": int(said[f"maps_total {key.decode()}"]), "identical": lived,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=5_000.0, help="Events a second.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kafka")
    options = parser.parse_args()
    log = messages()
    with ExitStack() as stack:
        kafka = options.kafka or stack.enter_context(local_kafka()).bootstrap
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glasstream-novelty-")))
        want = expected(load(assignments=[f"broker={kafka}", *SETTINGS]), log)

        def trial(name: str) -> Trial:
            made = Trial(kafka, name, folder)
            stack.callback(made.deployment.close)
            return made

        rates, same = zip(*(backlog(trial(f"backlog-{n}"), log, want) for n in range(options.repeats)), strict=True)
        identical = {
            "one": all(same),
            "two": two(trial("two"), log, want, kill=False),
            "killed": two(trial("killed"), log, want, kill=True),
        }
        pace = paced(trial("paced"), log, want, options.rate)
        identical["paced"] = bool(pace.pop("identical"))
    rate = median(rates)
    print(
        json.dumps(
            {
                "events": sum(map(len, want.values())), "scored_per_s": round(rate), "rate": options.rate,
                "ratio": round(rate / options.rate, 2), **pace, "identical": identical,
            }
        )
    )  # fmt: skip
    return 0 if all(identical.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
