"""Cost of the learner beyond River, without Kafka.

    python tests/benchmarks/learner.py [--models forest,tree,linear] [--repeats 5] [--explain ipfi,isage,ipdp]
        [--per-message 100] [--run 64]

Both learn the same events in one process, in turns of 500 events, so that a machine whose speed varies is as fast for
the one as for the other: a bare loop that predicts and learns, and everything that the learner does with a message,
from its bytes to those of predictions, requests and snapshots. One JSON line a model, with medians:

- `bare_us`, `learner_us`: CPU µs an event
- `late_us`: the same of a learner that gets each label 300 events after its event
- `late`: its time over that of the learner whose events come with their labels
- `outside_river`: the learner's CPU beyond the bare loop's, as a share of the bare loop's; negative for a model that
  learns in compiled code
- `snapshots`: how many it made
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Iterator

sys.path.pop(0)  # this folder: in it another file may have the name of a package

from river.datasets import synth

from glasstream.app.configuration import load
from glasstream.events.admission import Task
from glasstream.events.message import Message
from glasstream.events.sources.messages import pack
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.models.codec import snapshot as codec
from glasstream.models.river.catalogue import model_factory
from glasstream_topics import events, requests

ROWS = {"forest": 6_000, "tree": 40_000, "linear": 150_000}
TURN = 500
DELAY = 300
SEED = 7


class Bare:
    """Predict, then learn."""

    def __init__(self, model: str) -> None:
        self.model = model_factory(model, SEED)(Task.CLASSIFICATION)

    def learn(self, turn: list[dict]) -> float:
        pairs = [(one["x"], one["y"] if self.model._multiclass else one["y"] == "1") for one in turn]
        begun = time.process_time()
        for x, y in pairs:
            self.model.predict_one(x)
            self.model.learn_one(x, y)
        return time.process_time() - begun


class Learner:
    """The learner, from the bytes of a message to the bytes of its output."""

    def __init__(self, model: str, methods: str, per_message: int, run: int) -> None:
        self.per_message, self.run = per_message, run
        given = (f"model.name={model}", f"seed={SEED}", "model.task=classification", f"explain.methods={methods}")
        settings = load(assignments=given)
        self.partition = events.partition(b"s", settings.topics.events)
        self.core = PartitionLearner(self.partition, settings)
        self.offset = self.snapshots = 0

    def learn(self, turn: list[dict]) -> float:
        messages = [value for value, _ in pack(iter(turn), self.per_message, 1_000_000)]
        begun = time.process_time()
        for first in range(0, len(messages), self.run):
            run = [
                Message("events", self.partition, self.offset + n, b"s", one)
                for n, one in enumerate(messages[first : first + self.run])
            ]
            for _ in self.core.consume(*run):
                self._encode_snapshots()
            self.offset += len(run)
        self.core.cut()
        self._encode_snapshots()
        outbox, _ = self.core.take_outbox()
        for block in outbox.requests:
            requests.encode(block)
        return time.process_time() - begun

    def _encode_snapshots(self) -> None:
        for one in self.core.outbox.snapshots:
            codec.encode(one.predictor, stream=one.stream, epoch=0, version=one.version, key=None)
            self.snapshots += 1
        self.core.outbox.snapshots.clear()


def stream(rows: int) -> list[dict]:
    return [
        {"id": number, "x": {name: float(value) for name, value in x.items()}, "y": str(y)}
        for number, (x, y) in enumerate(synth.Agrawal(classification_function=1, seed=SEED).take(rows))
    ]


def measure(model: str, methods: str, rows: int, per_message: int, run: int) -> tuple[float, float, float, int]:
    """CPU µs an event of the loop, the learner and the learner of late labels, and the snapshots."""
    bare, learner, late = Bare(model), *(Learner(model, methods, per_message, run) for _ in range(2))
    spent = [0.0, 0.0, 0.0]
    given = stream(rows)
    gc.collect()
    gc.freeze()  # a worker does not hold all events, which the collector would look at
    for start in range(0, rows, TURN):
        turn = given[start : start + TURN]
        spent[0] += bare.learn(turn)
        spent[1] += learner.learn(turn)
        spent[2] += late.learn(list(with_late_labels(given, start)))
    bare_us, learner_us, late_us = (seconds / rows * 1e6 for seconds in spent)
    return bare_us, learner_us, late_us, learner.snapshots


def with_late_labels(given: list[dict], start: int) -> Iterator[dict]:
    for number, event in enumerate(given[start : start + TURN], start):
        yield {"id": event["id"], "x": event["x"]}
        if number >= DELAY:
            yield {"id": given[number - DELAY]["id"], "y": given[number - DELAY]["y"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,tree,linear")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--explain", default="ipfi,isage,ipdp")
    parser.add_argument("--per-message", type=int, default=100, help="events in each message")
    parser.add_argument("--run", type=int, default=64, help="largest number of messages that the learner gets at once")
    options = parser.parse_args()
    for model in options.models.split(","):
        given = (options.per_message, options.run)
        measure(model, options.explain, 2 * TURN, *given)  # compiles what is compiled
        runs = [measure(model, options.explain, ROWS[model], *given) for _ in range(options.repeats)]
        line = {
            "model": model,
            "explain": options.explain,
            "per_message": options.per_message,
            "run": options.run,
            "rows": ROWS[model],
            "repeats": options.repeats,
            "bare_us": round(statistics.median(run[0] for run in runs), 1),
            "learner_us": round(statistics.median(run[1] for run in runs), 1),
            "outside_river": round(statistics.median(run[1] / run[0] - 1 for run in runs), 3),
            "late_us": round(statistics.median(run[2] for run in runs), 1),
            "late": round(statistics.median(run[2] / run[1] for run in runs), 2),
            "snapshots": runs[-1][3],
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
