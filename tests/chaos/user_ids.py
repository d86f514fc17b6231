"""A producer puts ids of users into the key, on a real Kafka: does the learner live, and the right stream learn?

    python tests/chaos/user_ids.py [--keys 100000] [--events 2] [--memory-mib 2048] [--cgroup FOLDER]

Sends `events` events of each of `keys` keys, in an order drawn at random, to a learner with the default settings. Then
it sends 300 events of one stream, as after the repair of the producer. With --cgroup, the folder of an empty group of
the memory controller (version 1), the kernel limits the learner to `memory-mib`; without it, the learner's memory is
only measured. One JSON object:

- `peak_mib`: largest resident size of the learner
- `alive`: whether the learner's first process still runs
- `forgotten`, `rejected`: streams that gave up their places, and messages that got none
- `metrics_lines`: lines of `/metrics`
- `learned`: rows of the right stream that were learned and aggregated

The exit code is 0 if the learner lives, within the memory, and has learned all 300 events.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import psutil

from glasstream.app.brokers.choose import open_broker
from glasstream.app.brokers.local.node import free_ports
from glasstream.app.configuration import load
from tests.chaos.limited import limit, lives, metrics, total
from tests.support.deployment import Deployment
from tests.support.waiting import wait_for

LATER = 300
STREAM = "loans"
PATIENCE = 3_000.0


def event(chance: random.Random) -> bytes:
    x = {f"f{at}": chance.random() for at in range(10)}
    return json.dumps({"x": x, "y": "a" if x["f0"] > 0.5 else "b"}).encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=2)
    parser.add_argument("--memory-mib", type=int, default=2_048)
    parser.add_argument("--cgroup", type=Path)
    parser.add_argument("--broker", default="local")
    options = parser.parse_args()
    chance = random.Random(3)
    port = free_ports(1)[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glasstream-user-ids-")))
        broker = stack.enter_context(open_broker(options.broker)).bootstrap
        settings = load(assignments=[f"broker={broker}", "prefix=user-ids.", "model.task=classification"])
        deployment = Deployment(settings, folder)
        stack.callback(deployment.close)
        deployment.start("learner", GLASSTREAM_HEALTH_PORT=str(port))
        learner = psutil.Process(deployment.workers["learner-1"].pid)
        limit(learner, options.cgroup, options.memory_mib)
        deployment.start("explainer")
        deployment.start("aggregator")
        topic = settings.prefix + "events"
        for number in range(options.keys * options.events):
            key = f"user-{chance.randrange(options.keys)}"
            while True:
                try:
                    deployment.producer.produce(topic, event(chance), key.encode())
                    break
                except BufferError:
                    deployment.producer.poll(0.1)
            if number % 1_000 == 0:
                deployment.producer.poll(0)
        deployment.producer.flush(120.0)
        deployment.send(*(event(chance) for _ in range(LATER)), key=STREAM.encode())
        peak = 0

        def done() -> bool:
            nonlocal peak
            if not lives(learner):
                return True
            peak = max(peak, learner.memory_info().rss)
            return deployment.aggregated(STREAM) >= LATER

        wait_for(f"{LATER} rows of {STREAM}", done, PATIENCE)
        alive = lives(learner)
        said = metrics(port) if alive else ""
        result = {
            "peak_mib": round(peak / 2**20),
            "alive": alive,
            "forgotten": total(said, "glasstream_streams_forgotten_total"),
            "rejected": total(said, "glasstream_dead_letters_total"),
            "metrics_lines": said.count("\n"),
            "learned": deployment.aggregated(STREAM),
            "load": round(os.getloadavg()[0], 1),
        }
        print("\n".join(deployment.log("learner-1").splitlines()[-12:]), file=sys.stderr)
        print(json.dumps(result))
    return 0 if alive and result["learned"] >= LATER and peak <= options.memory_mib * 2**20 else 1


if __name__ == "__main__":
    started = time.monotonic()
    code = main()
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    sys.exit(code)
