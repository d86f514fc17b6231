"""How long is the output behind after records were deleted from a queue?

    python tests/chaos/holes.py [--holes 5] [--rows 600] [--model tree]

A learner, an explainer and an aggregator work on a Kafka of this machine. For each hole, the reader of a queue is
stopped, rows are sent and learned, all that the queue holds is deleted as an administrator could, and the reader goes
on. One JSON line for each hole goes to stdout, with the seconds from the deletion to the moment in which the last of
these rows is aggregated, as a consumer of committed records sees it. For comparison, the same is done without a
deletion (`nothing`). The last line sums up: median and maximum for each queue, and whether every public record equals
that of the plain loop, byte for byte. The exit code is 1 if one does not.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, of which `tests` is a package

from glasstream.app.brokers.local import local_kafka
from glasstream.app.configuration import load
from glasstream_topics import events
from tests.support.deployment import READERS, SETTINGS, Deployment, make_a_hole
from tests.support.logs import messages, reference
from tests.support.waiting import wait_for

NOTHING = "nothing"
AGAIN = "requests and their snapshots"
"""Words that the learner logs once for each repair."""


def measure(holes: int, rows: int, model: str, folder: Path) -> dict[str, object]:
    """Make the holes, print a line for each, and return the sum."""
    given = [
        *SETTINGS,
        f"model.name={model}",
        f"limits.rows_ahead={2 * rows}",
        "prefix=holes.",
        "worker.session_seconds=60",
    ]
    with local_kafka(log=lambda line: print(line, file=sys.stderr)) as kafka:
        deployment = Deployment(load(assignments=[*given, f"broker={kafka.bootstrap}"]), folder)
        try:
            deployment.start_all()
            log = [*messages(0, rows), events.FLUSH]
            deployment.send(*log)
            sent = rows
            wait_for(f"{rows} rows aggregated", lambda: deployment.aggregated("s") >= rows)
            seconds: dict[str, list[float]] = {}
            for _ in range(holes):
                for topic in READERS:
                    for kind in (topic, f"{NOTHING} ({topic})"):
                        values = [*messages(sent, sent + rows), events.FLUSH]
                        log += values
                        sent += rows
                        before = deployment.log("learner-1").count(AGAIN)
                        took = make_a_hole(deployment, topic, values, sent, deleted=kind == topic)
                        repairs = deployment.log("learner-1").count(AGAIN) - before
                        seconds.setdefault(kind, []).append(took)
                        line = {"deleted": kind, "rows": rows, "seconds": round(took, 1), "repairs": repairs}
                        print(json.dumps(line), flush=True)
            deployment.wait_published("s", sent - 1)
        finally:
            deployment.end()
        expected = reference(deployment.settings, log)
        got = {topic: deployment.values(topic) for topic in expected}
    return {
        "holes": holes,
        "median": {kind: round(statistics.median(some), 1) for kind, some in seconds.items()},
        "max": {kind: round(max(some), 1) for kind, some in seconds.items()},
        "records": sum(map(len, expected.values())),
        "identical": got == expected,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holes", type=int, default=5, help="of each queue")
    parser.add_argument("--rows", type=int, default=600, help="that are sent while a reader is stopped")
    parser.add_argument("--model", default="tree")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="glasstream-holes-", ignore_cleanup_errors=True) as folder:
        outcome = measure(options.holes, options.rows, options.model, Path(folder))
    print(json.dumps(outcome), flush=True)
    return 0 if outcome["identical"] else 1


if __name__ == "__main__":
    sys.exit(main())
