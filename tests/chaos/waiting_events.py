"""Events of about 1 MiB that wait for their labels, on a real Kafka: does the learner's memory stay flat?

    python tests/chaos/waiting_events.py [--events 10000] [--memory-mib 2048] [--cgroup FOLDER] [--compression none]

Sends `events` events of one stream without labels to a learner with the default settings. Each of them has as many
features as a stream may have, and either a long text or, one of fifty, tens of thousands of further features. Then it
sends the labels of the newest 300 events and of the oldest one, kills the learner, starts another one, and sends the
labels of the 300 events before. With --cgroup, the folder of an empty group of the memory controller (version 1), the
kernel limits both learners to `memory-mib`; without it, their memory is only measured. One JSON object:

- `message_bytes`: size of a message with a long text, and of one with further features
- `mib`: largest resident size of the learner in each tenth of the events
- `growth`: that of the last tenth over that of the fifth (goal: at most 1.1)
- `waiting`, `dropped`: events that wait, and those that stopped waiting for `limits.waiting_bytes`, after the events,
  after the first labels, after the restart, and after the last labels
- `rejected`, `joined`: messages that this learner rejected, and labels that found their events, at the same times
- `restart_mib`: largest resident size of the second learner

The exit code is 0 if the memory is flat and within the limit, some events were dropped, the second learner waits for
the same events, and all 600 labels of newer events were learned.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import psutil
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from glasstream.app.brokers.choose import open_broker
from glasstream.app.brokers.local.node import free_ports
from glasstream.app.configuration import load
from glasstream.app.runner.prepare import environment
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection
from glasstream_topics import events
from tests.chaos.limited import limit, lives, metrics, total
from tests.support.deployment import HMAC_KEY, Deployment
from tests.support.waiting import wait_for

COMMAND = [sys.executable, "-m", "glasstream", "worker", "learner", "--instance", "learner-1", "--tether"]
"""A process of its own: one from the fork server would begin with the memory of all stages."""
STREAM = "loans"
LABELS = 300
WIDE_EVERY = 50
PATIENCE = 3_000.0
GROWTH = 1.1


def messages(count: int, settings: Settings) -> Iterator[bytes]:
    """Yield events that fill the largest message, each with values of its own."""
    features, most = settings.limits.features, settings.limits.message_bytes - 10_000
    rest = "".join(f',"f{place}":{place % 97 / 8}' for place in range(1, features))
    room = most - len(rest)
    text = ',"note":"' + "x" * room + '"'
    wide = "".join(f',"g{place:06}":{place % 10}' for place in range(room // 12))
    for number in range(count):
        begin = f'{{"id":{number},"x":{{"f0":{number / 8}{rest}'
        yield f"{begin}{text if number % WIDE_EVERY else wide}}}}}".encode()


def label(number: int) -> bytes:
    return events.encode({"id": number, "y": "ab"[number % 2]})


def must_arrive(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


class Learner:
    """A learner in a deployment, its memory, and what it says of the waiting events."""

    def __init__(self, deployment: Deployment, cgroup: Path | None, mib: int) -> None:
        self.deployment = deployment
        self.port = free_ports(1)[0]
        variables = environment(deployment.settings)
        variables |= {"GLASSTREAM_HEALTH_PORT": str(self.port), "GLASSTREAM_HMAC_KEY": HMAC_KEY}
        with (deployment.folder / "learner-1.log").open("a") as log:
            worker = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=log, stderr=log, env=variables)
        deployment.workers["learner-1"] = worker
        self.process = psutil.Process(worker.pid)
        limit(self.process, cgroup, mib)
        self.peak = 0

    def consumed(self) -> int:
        """Return how many messages of the stream have been consumed; raise an error if the learner does not live."""
        if not lives(self.process):
            raise RuntimeError(f"the learner has ended:\n{self.deployment.log('learner-1')[-2_000:]}")
        self.peak = max(self.peak, self.process.memory_info().rss)
        settings = self.deployment.settings
        partition = events.partition(STREAM.encode(), settings.topics.events)
        return self.deployment.poll().progress.consumed.get(partition, 0)

    def wait_for(self, messages: int) -> int:
        """Wait until so many messages have been consumed, and return the largest resident size on the way, in MiB."""
        self.peak = 0
        wait_for(f"{messages:,} messages", lambda: self.consumed() >= messages, PATIENCE)
        return round(self.peak / 2**20)

    def says(self) -> dict[str, int]:
        said = metrics(self.port)
        return {
            "waiting": total(said, "glasstream_events_waiting_for_labels"),
            "dropped": total(said, "glasstream_bound_hits_total", 'bound="limits.waiting_bytes"'),
            "rejected": total(said, "glasstream_dead_letters_total"),
            "joined": total(said, "glasstream_labels_joined_total"),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--memory-mib", type=int, default=2_048)
    parser.add_argument("--cgroup", type=Path)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--broker", default="local")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glasstream-waiting-events-")))
        broker = stack.enter_context(open_broker(options.broker)).bootstrap
        settings = load(assignments=[f"broker={broker}", "prefix=waiting.", "model.task=classification"])
        deployment = Deployment(settings, folder)
        stack.callback(deployment.close)
        first = Learner(deployment, options.cgroup, options.memory_mib)
        producer = Producer(connection(settings).producer(compression_type=options.compression))
        topic, sizes, tenths = settings.prefix + events.TOPIC.name, set(), []
        for number, value in enumerate(messages(options.events, settings), 1):
            sizes.add(round(len(value), -4))
            producer.produce(topic, value, STREAM.encode(), on_delivery=must_arrive)
            if number % 10 == 0:
                producer.flush()
            if number % (options.events // 10) == 0:
                tenths.append(first.wait_for(number))
        log = [first.says()]
        newest = range(options.events - LABELS, options.events)
        deployment.send(*map(label, newest), label(0), key=STREAM.encode())
        first.wait_for(options.events + LABELS + 1)
        log.append(first.says())
        deployment.kill("learner-1")
        second = Learner(deployment, options.cgroup, options.memory_mib)
        before = range(newest.start - LABELS, newest.start)
        deployment.send(label(newest[0]), key=STREAM.encode())  # its second label, which is rejected
        restart = second.wait_for(options.events + LABELS + 2)
        log.append(second.says())
        deployment.send(*map(label, before), key=STREAM.encode())
        restart = max(restart, second.wait_for(options.events + 2 * LABELS + 2))
        log.append(second.says())
        growth = tenths[9] / tenths[4]
        result = {
            "message_bytes": sorted(sizes),
            "mib": tenths,
            "growth": round(growth, 3),
            **{name: [one[name] for one in log] for name in log[0]},
            "restart_mib": restart,
            "load": round(os.getloadavg()[0], 1),
        }
        print("\n".join(deployment.log("learner-1").splitlines()[-12:]), file=sys.stderr)
        print(json.dumps(result))
        flat = growth <= GROWTH and max(*tenths, restart) <= options.memory_mib
        same = log[1]["waiting"] == log[2]["waiting"] == log[0]["waiting"] - LABELS
        told = log[0]["dropped"] > 0 and log[0]["dropped"] + log[0]["waiting"] == options.events
        learned = [one["joined"] for one in log] == [0, LABELS, LABELS, 2 * LABELS]
    return 0 if flat and same and told and learned else 1


if __name__ == "__main__":
    started = time.monotonic()
    code = main()
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    sys.exit(code)
