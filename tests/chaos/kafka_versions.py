"""Does the pipeline work with several versions of Kafka? A table, from a soak with each.

    python tests/chaos/kafka_versions.py [--versions 3.0.2,3.9.1,4.0.0] [--nodes 1,3] [--faults 6] [--seed 1]

Each line is a run of `tests/chaos/soak.py`: a real Kafka of this version, whose jars Maven fetches, workers of all
stages, and random faults. The public records are compared with those of a run without Kafka. The exit code is 1 if a
run lost, doubled or changed a record, or did not end.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).with_name("soak.py")
VERSIONS = "3.0.2,3.4.1,3.9.1,4.0.0,4.1.1,4.4.0"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", default=VERSIONS, help=f"versions of Kafka; default {VERSIONS}")
    parser.add_argument("--nodes", default="1", help="numbers of brokers, 1 or 3; default 1")
    parser.add_argument("--faults", type=int, default=6, help="faults of each run; default 6")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| Kafka | brokers | faults | records | lost | double | identical |", flush=True)
    print("|---|---|---|---|---|---|---|", flush=True)
    failed = 0
    for version in given.versions.split(","):
        for nodes in given.nodes.split(","):
            command = [sys.executable, str(SOAK), "--nodes", nodes, "--faults", str(given.faults)]
            done = subprocess.run(
                [*command, "--seed", str(given.seed)],
                env={**os.environ, "GLASSTREAM_LOCAL_KAFKA": version},
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            failed += done.returncode != 0
            lines = done.stdout.splitlines()
            found = json.loads(lines[-1]) if lines else {}
            columns = [version, nodes, sum(found.get("faults", {}).values())]
            columns += [found.get(name) for name in ("records", "lost", "double", "identical")]
            print(f"| {' | '.join(map(str, columns))} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
