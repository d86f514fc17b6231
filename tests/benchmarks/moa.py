"""Cost of trees and forests that learn in compiled code, beside those of MOA 2024.07.0 (Java).

    python tests/benchmarks/moa.py [--models forest,adaptive,tree] [--data elec2,agrawal] [--repeats 3]

The first run fetches MOA from Maven Central with `mvn`, and compiles `Moa.java`; both need Java 17. A Java process
first learns `WARM` events with models of its own, so that its code is compiled, and the kernels are loaded. Then both
sides predict and learn the same stream with new models, in alternating turns of `TURN` events. The models have the
default parameters, and as many features at a split of a forest as in River. One JSON line a model and stream, with
medians over the repeats:

- `moa_us`: CPU µs an event of the thread that learns, without the collection of garbage and the compiler
- `moa_process_us`: the same of the whole Java process
- `compiled_us`: CPU µs an event of the compiled model
- `ratio`: `moa_us` divided by `compiled_us`
- `accuracy`: of MOA and of the compiled model
"""

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path[0] = str(Path(__file__).resolve().parents[2])  # not this folder: in it files have the names of packages

import numpy as np

from glasstream.models.river.live import take
from tests.benchmarks.learning import MODELS, WHOLE, Stream, agrawal, data_set, learn_live, targets_of

WARM = 100_000
TURN = 500
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "moa"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>glasstream</groupId><artifactId>moa</artifactId><version>1</version><dependencies><dependency>
<groupId>nz.ac.waikato.cms.moa</groupId><artifactId>moa</artifactId><version>2024.07.0</version>
</dependency></dependencies></project>"""
CLASSIFIERS = {
    "forest": "meta.AdaptiveRandomForest -s 10 -o (Specified m (integer value)) -m {features}",
    "adaptive": "trees.HoeffdingAdaptiveTree",
    "tree": "trees.HoeffdingTree",
}


class Turn(NamedTuple):
    thread: float
    process: float
    right: int


def class_path() -> str:
    """Return MOA and the compiled `Moa.java`; fetch and compile them the first time."""
    path = f"{CACHE}/lib/*:{CACHE}"
    if not (CACHE / "Moa.class").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "pom.xml").write_text(POM)
        fetch = ["mvn", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(fetch, cwd=CACHE, check=True)
        source = Path(__file__).with_name("Moa.java")
        subprocess.run(["javac", "-cp", path, "-d", str(CACHE), str(source)], check=True)
    return path


class Moa:
    """A Java process that learns a stream in turns."""

    def __init__(self, stream: Stream, classifier: str, file: Path) -> None:
        with file.open("w", newline="") as out:
            rows = csv.writer(out)
            rows.writerow([*stream.names, "target"])
            rows.writerows([*row, label] for row, label in zip(stream.values.tolist(), stream.labels, strict=True))
        command = ["java", "-Xmx2g", "-cp", class_path(), "Moa", str(file), classifier]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._events = len(stream.labels)

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def begin(self) -> None:
        """Begin the stream with a new model."""
        self._send("new")

    def learn(self, events: int) -> Turn:
        """Predict and learn the next events."""
        self._send(str(events))
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("MOA ended; its message is above")
        thread, process, right = map(int, line.split())
        return Turn(thread / 1e9, process / 1e9, right)

    def warm_up(self) -> None:
        for _ in range(math.ceil(WARM / self._events)):
            self.begin()
            self.learn(self._events)

    def end(self) -> None:
        self._process.communicate()


def warm_up(make: Any, stream: Stream) -> None:
    """Compile our kernels, or load them from the cache."""
    live = take(make())
    learn_live(live, stream, targets_of(live, stream), 0, TURN)


def measure(moa: Moa, make: Any, stream: Stream) -> tuple[list[float], list[float]]:
    """Return CPU µs an event (of MOA's thread, of its process, of the compiled model), and both accuracies."""
    live = take(make())
    targets, events = targets_of(live, stream), len(stream.labels)
    spent, right = [0.0, 0.0, 0.0], [0, 0]
    moa.begin()
    for first in range(0, events, TURN):
        last = min(first + TURN, events)
        turn = moa.learn(last - first)
        ours, votes = learn_live(live, stream, targets, first, last)
        spent = [spent[0] + turn.thread, spent[1] + turn.process, spent[2] + ours]
        labels = np.nan_to_num(np.array(votes), nan=-1.0).argmax(axis=1)
        right = [right[0] + turn.right, right[1] + int((labels == targets[first:last]).sum())]
    return [one / events * 1e6 for one in spent], [one / events for one in right]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,adaptive,tree", help=f"of {', '.join(CLASSIFIERS)}")
    parser.add_argument("--data", default="elec2,agrawal")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for name in options.data.split(","):
        stream = agrawal(WHOLE) if name == "agrawal" else data_set(name, WHOLE)
        for model in options.models.split(","):
            features = round(math.sqrt(len(stream.names)))
            with tempfile.TemporaryDirectory() as folder:
                moa = Moa(stream, CLASSIFIERS[model].format(features=features), Path(folder) / "stream.csv")
                moa.warm_up()
                warm_up(MODELS[model], stream)
                runs = [measure(moa, MODELS[model], stream) for _ in range(options.repeats)]
                moa.end()
            costs = [statistics.median(run[0][side] for run in runs) for side in range(3)]
            line = {
                "model": model,
                "stream": name,
                "rows": len(stream.labels),
                "repeats": options.repeats,
                "moa_us": round(costs[0], 2),
                "moa_process_us": round(costs[1], 2),
                "compiled_us": round(costs[2], 2),
                "ratio": round(statistics.median(run[0][0] / run[0][2] for run in runs), 2),
                "accuracy": [round(share, 4) for share in runs[0][1]],
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
