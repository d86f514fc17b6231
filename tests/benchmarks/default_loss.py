"""Which loss of classification shows soonest that a feature matters?

    python tests/benchmarks/default_loss.py [--data adult,elec2] [--rows 8000] [--model tree]

Each data set is shuffled (seeded), so that its concept stays the same, and gets three columns of noise: copies of
features with their rows shuffled once more. The plain loop learns and explains it with each loss (iPFI, 95 %
intervals). A feature is found at the first record from which on the interval stays above 0 for `STAYS` records. One
JSON line for each data set and loss:

- `found`: the number of features found, of those that any of the losses found
- `row`: the median row at which they were found; features that were not found count as the last row
- `zero`: the share of records in which every feature's importance is exactly 0
- `noise`: the share of (record, noise column) pairs whose interval excludes 0
- `constant`: the share of the most frequent class
"""

import argparse
import csv
import gzip
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: in it another file may have the name of a package

import numpy as np
import orjson

from glasstream.app.configuration import load
from glasstream.flow.reference import Reference
from glasstream_topics import events, importance

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = (
    "adult", "bank_marketing", "elec2", "eeg_eye_state", "higgs_10k", "weather_noaa", "phishing", "ozone_eighthr",
    "poker_hand_25k", "outdoor",
)  # fmt: skip
LOSSES = ("zero_one", "brier", "cross_entropy")
STAYS = 10
NOISE = 3
PER_MESSAGE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(SETS))
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--model", default="tree")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    for name in given.data.split(","):
        rows, targets = shuffled(name, given.rows, given.seed)
        runs = {loss: run(name, rows, targets, given.model, loss, given.seed) for loss in LOSSES}
        found = {loss: first_rows(records) for loss, records in runs.items()}
        informative = sorted(set().union(*found.values()))
        last = len(rows)
        for loss, records in runs.items():
            at = [found[loss].get(feature, last) for feature in informative]
            noise = [
                feature.low is not None and not feature.low <= 0 <= (feature.high or 0.0)
                for record in records
                for place, feature in record.features.items()
                if place.startswith("noise ")
            ]
            line = {
                "data": name,
                "rows": last,
                "constant": round(max(Counter(targets).values()) / last, 3),
                "loss": loss,
                "found": f"{sum(feature in found[loss] for feature in informative)} of {len(informative)}",
                "row": statistics.median(at) if at else None,
                "zero": round(float(np.mean([is_zero(record) for record in records])), 3),
                "noise": round(float(np.mean(noise)), 4),
            }
            print(json.dumps(line), flush=True)


def shuffled(name: str, rows: int, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return features and classes of a data set's rows in a seeded order, with columns of noise."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt", newline="") as file:
        records = list(csv.DictReader(file))
    draws = np.random.Generator(np.random.PCG64(seed))
    records = [records[place] for place in draws.permutation(len(records))[:rows]]
    targets = [record.pop("target") for record in records]
    parsed = [{key: value_of(text) for key, text in record.items() if text != ""} for record in records]
    names = list(records[0])
    for source in draws.choice(names, min(NOISE, len(names)), replace=False):
        order = draws.permutation(len(parsed))
        values = [parsed[place].get(str(source)) for place in order]
        for row, value in zip(parsed, values, strict=True):
            if value is not None:
                row[f"noise {source}"] = value
    return parsed, targets


def value_of(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def run(
    name: str, rows: list[dict[str, Any]], targets: list[str], model: str, loss: str, seed: int
) -> list[importance.Importance]:
    """Return the records of iPFI."""
    settings = load(
        assignments=[
            f"model.name={model}",
            f"seed={seed}",
            f"explain.loss={loss}",
            "model.task=classification",
            "publish.every=100",
        ]
    )
    key = events.key(name)
    messages = [
        (
            key,
            orjson.dumps([{"x": x, "y": y} for x, y in zip(rows[at : at + PER_MESSAGE], targets[at:], strict=False)]),
        )
        for at in range(0, len(rows), PER_MESSAGE)
    ]
    published = Reference(settings).run(messages)
    return [importance.decode(record) for topic, record in published if topic == "importance"]


def first_rows(records: list[importance.Importance]) -> dict[str, int]:
    """Return the row at which each feature that is not noise was found."""
    found: dict[str, int] = {}
    since: dict[str, list[int]] = {}
    for record in records:
        for name, feature in record.features.items():
            if name in found or name.startswith("noise "):
                continue
            if feature.low is not None and feature.low > 0:
                since.setdefault(name, []).append(record.row)
                if len(since[name]) == STAYS:
                    found[name] = since[name][0]
            else:
                since.pop(name, None)
    return found


def is_zero(record: importance.Importance) -> bool:
    return all(feature.value == 0 for feature in record.features.values())


if __name__ == "__main__":
    main()
