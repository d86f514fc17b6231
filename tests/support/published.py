"""Digests of all public topics of five runs on real data: what a change may not alter unless it says so.

`python -m tests.support.published` runs them and prints the digests. `--write` also keeps them in `published.json`,
which `test_published.py` compares with. Novelty is printed and not kept: its bits depend on the processor.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE = HERE / "published.json"
PYTHON = (3, 11)
"""Version of Python of the kept digests: from 3.12 on, sum() of floats differs in the last bits."""
NOT_KEPT = "novelty"

RUNS: dict[str, tuple[str, ...]] = {
    "elec2": ("--model", "forest", "--explain", "ipfi,isage,ipdp", "--rows", "20000", "--seed", "7"),
    "adult": ("--model", "tree", "--explain", "ipfi,novelty", "--rows", "6000"),
    "bike_hourly": ("--model", "linear", "--rows", "6000"),
    "california_housing": (
        *("--model", str(HERE / "california_forest.onnx"), "--explain", "ipfi,isage,ipdp"),
        *("--rows", "5000"),
    ),
    "weather_noaa": (
        *("--model", "tree", "--explain", "ipfi,ipdp", "--rows", "5000"),
        *("--label-delay", "300", "--set", "explain.unlabelled=true"),
    ),
}
"""Options of `glasstream run` by data set."""


def digests(name: str, data: Path) -> dict[str, str]:
    """Return the SHA-256 of each public topic of a run in which all stages are a plain loop."""
    with tempfile.TemporaryDirectory() as folder:
        source = ("--csv", str(data / f"{name}.csv.gz"), "--target", "target", "--stream", name)
        command = [sys.executable, "-m", "glasstream", "run", *source, *RUNS[name], "--broker", "none", "--out", folder]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError(f"{name}: `glasstream run` ended with {done.returncode}: {done.stderr[-2000:]}")
        return {
            file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(Path(folder).glob("*.jsonl"))
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE.parents[2] / "shared" / "data")
    parser.add_argument("--write", action="store_true", help=f"keep the digests in {FILE.name}")
    arguments = parser.parse_args()
    kept = {}
    for name in RUNS:
        found = digests(name, arguments.data)
        for topic, digest in found.items():
            print(f"{name:20} {topic:12} {digest}", flush=True)
        kept[name] = {topic: digest for topic, digest in found.items() if topic != NOT_KEPT}
    if arguments.write:
        FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
