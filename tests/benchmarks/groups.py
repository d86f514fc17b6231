"""How many alarms of groups are false, and how late are true ones?

    python tests/benchmarks/groups.py [--rows 100000] [--seeds 3]

A logistic regression is trained on a half of a real data set. Its predictions for rows of the other half, drawn with
replacement, are a stream in which nothing changes: every claim is false, and their marks are counted. Then a share of
the predictions for one group is wrong (`wrong`, the second largest group), or positive (`positive`, the one of at least
5 % of the rows with most positive predictions), from row `AT` on. The delay is the number of rows of this group until
the first record with an alarm about its accuracy, or about the demographic parity difference.
"""

import argparse
import csv
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.pop(0)  # this folder: in it another file may have the name of a package

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from glasstream.app.configuration import load
from glasstream.detect.groups.sums import FIRST
from glasstream.flow.learner.groups import GroupRecords, GroupState, LabelledColumns
from glasstream_topics.groups import Alarm, decode

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = {"adult": ("sex", "race"), "bank_marketing": ("marital", "education"), "german_credit": ("personal_status",)}
AT, AFTER, EVERY = 10_000, 20_000, 100
CHANGES = (("wrong", 0.1), ("wrong", 0.2), ("positive", 0.1), ("positive", 0.2))


class Stream(NamedTuple):
    """Groups, labels and predictions of rows."""

    groups: NDArray[Any]
    actual: NDArray[np.bool_]
    said: NDArray[np.bool_]


def predicted(name: str, attribute: str) -> Stream:
    """Return the rows of a data set that its model has not seen."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    table = []
    for column in rows[0].keys() - {"target", attribute}:
        texts = np.array([row[column] for row in rows])
        try:
            table.append(texts.astype(np.float64))
        except ValueError:
            table += [(texts == one).astype(np.float64) for one in np.unique(texts)[:20]]
    x = np.nan_to_num(np.column_stack(table))
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
    names, counts = np.unique(targets := np.array([row["target"] for row in rows]), return_counts=True)
    actual = targets == names[counts.argmin()]
    half = np.random.default_rng(0).random(len(x)) < 0.5
    model = LogisticRegression(max_iter=100).fit(x[half], actual[half])
    return Stream(np.array([row[attribute] for row in rows])[~half], actual[~half], model.predict(x[~half]))


def drawn(rows: Stream, count: int, seed: int) -> Stream:
    """Return rows that are drawn with replacement."""
    places = np.random.default_rng(seed).integers(0, len(rows.actual), count)
    return Stream(*(column[places] for column in rows))


def alarms(stream: Stream, every: int) -> Iterator[tuple[int, Alarm]]:
    """Return the alarms of all records, each with the number of rows."""
    settings = load(assignments=["groups.by=group", f"groups.every={every}"])
    state, records = GroupState(settings.groups), GroupRecords(settings, "s")
    known: dict[str, int] = {}
    codes = [bytes([known.setdefault(one, FIRST + len(known))]) for one in stream.groups.tolist()]
    state.codes = [known]
    said, actual = (["yes" if one else "no" for one in column.tolist()] for column in (stream.said, stream.actual))
    for begin in range(0, len(codes), 1_000):
        part, labelled = slice(begin, begin + 1_000), LabelledColumns()
        count = len(codes[part])
        labelled.extend(range(begin, begin + count), codes[part], said[part], actual[part], [0.5] * count)
        for record in map(decode, records.add(labelled, state, "brier")):
            yield from ((record.total.rows, alarm) for alarm in record.alarms)


def delay(rows: Stream, group: str, change: str, share: float, seed: int) -> int | None:
    """Return after how many rows of the group its change is found; None if it is not."""
    groups, actual, said = drawn(rows, AT + AFTER, seed)
    chosen = (
        (groups == group) & (np.arange(len(groups)) >= AT) & (np.random.default_rng(seed).random(len(groups)) < share)
    )
    changed = np.where(chosen, ~actual if change == "wrong" else np.True_, said)
    measure = "accuracy" if change == "wrong" else "demographic_parity_difference"
    for count, alarm in alarms(Stream(groups, actual, changed), EVERY):
        if count > AT and alarm.measure == measure and group in alarm.groups:
            return int((groups[AT:count] == group).sum())
    return None


def main() -> None:
    """Print false alarms and delays."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    total = marks = 0
    for name, attributes in SETS.items():
        for attribute in attributes:
            rows = predicted(name, attribute)
            found = [
                len({alarm.row for _, alarm in alarms(drawn(rows, options.rows, seed), 500)})
                for seed in range(options.seeds)
            ]
            total, marks = total + options.rows * options.seeds, marks + sum(found)
            print(f"{name}, {attribute}: marks with a false claim in {options.rows:,} rows: {found}", flush=True)
            names, counts = np.unique(rows.groups, return_counts=True)
            rates = [rows.said[rows.groups == one].mean() for one in names]
            selected = np.where(counts >= 0.05 * counts.sum(), rates, -1.0)
            of = {"wrong": str(names[counts.argsort()[-2]]), "positive": str(names[np.argmax(selected)])}
            for change, share in CHANGES:
                group = of[change]
                delays = [delay(rows, group, change, share, seed) for seed in range(options.seeds)]
                print(f"    {group}, {change} in {share:.0%}: found after {delays} of its rows", flush=True)
    print(f"{marks} marks with a false claim in {total:,} rows; budget {total / 100_000 * 0.5:g}")


if __name__ == "__main__":
    main()
