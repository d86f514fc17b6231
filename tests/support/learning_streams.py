"""Streams of events: of the data sets, and made by Hypothesis."""

import csv
import gzip
import random
from math import isfinite
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.support.equality import Event


def numbers_only(events: list[Event]) -> list[Event]:
    """Leave out the texts, with which linear models cannot calculate."""
    return [({name: value for name, value in x.items() if not isinstance(value, str)}, y) for x, y in events]


def regression_set(folder: Path, name: str, rows: int) -> list[Event]:
    """Return the first rows of a data set with its targets as numbers."""
    return [(x, float(y)) for x, y in data_set(folder, name, rows)]


def data_set(folder: Path, name: str, rows: int) -> list[Event]:
    """Return the first rows of a data set; columns with texts stay texts, and missing values are left out."""
    with gzip.open(folder / f"{name}.csv.gz", "rt", newline="") as file:
        records = [record for record, _ in zip(csv.DictReader(file), range(rows), strict=False)]
    texts = {name for name in records[0] if not all(_is_number(record[name]) for record in records)}
    events = []
    for record in records:
        label = record.pop("target")
        x = {name: value if name in texts else float(value) for name, value in record.items() if value}
        events.append((x, label))
    return events


def _is_number(text: str) -> bool:
    try:
        return not text or isfinite(float(text))
    except ValueError:
        return False


_NUMBERS = [0.0, -0.0, 1.0, 1.0, 2.0, 2.5, -3.0, 1e60, -1e60, 1e-60, 7.25]


@st.composite
def made_streams(draw: st.DrawFn, most: int = 400) -> list[Event]:
    """Draw a stream whose features come, go, repeat values, are constant, huge or texts, and whose classes appear."""
    source = random.Random(draw(st.integers(0, 2**32)))
    numeric = draw(st.integers(0, 5))
    texts = draw(st.integers(0 if numeric else 1, 3))
    classes = draw(st.sampled_from([1, 2, 2, 3, 5, 12]))
    missing = draw(st.sampled_from([0.0, 0.0, 0.1, 0.5]))
    coarse = draw(st.sampled_from(["ties", "fine", "huge"]))
    signal = draw(st.sampled_from([0.0, 0.6, 0.9]))
    count = source.randint(1, most)
    appears = [source.randrange(count) if source.random() < 0.2 else 0 for _ in range(numeric + texts)]
    vanishes = [source.randrange(count) if source.random() < 0.1 else count for _ in range(numeric + texts)]
    categories = [source.choice([1, 2, 3, 8, 40]) for _ in range(texts)]
    constant = source.random() < 0.2
    events: list[Event] = []
    for number in range(count):
        known = 1 + min(classes - 1, number * classes * 2 // count)
        truth = source.randrange(known)
        shift = truth if number < 2 * count // 3 else classes - 1 - truth
        x: dict[str, Any] = {}
        for place in range(numeric + texts):
            if not appears[place] <= number < vanishes[place] or source.random() < missing:
                continue
            told = source.random() < signal
            if place >= numeric:
                many = categories[place - numeric]
                x[f"t{place}"] = f"c{shift % many if told else source.randrange(many)}"
            elif constant and place == 0:
                x["n0"] = 4.0
            elif coarse == "ties":
                x[f"n{place}"] = float(shift) if told else source.choice(_NUMBERS[:7])
            elif coarse == "huge":
                x[f"n{place}"] = float(shift) * 1e59 if told else source.choice(_NUMBERS)
            else:
                x[f"n{place}"] = source.gauss(shift if told else 0.0, 1.0)
        events.append((x, f"y{(truth * 7) % 13}"))
    return events


def with_a_feature(events: list[Event]) -> list[Event]:
    """Leave out what comes before the first event that has a feature: River takes no logarithm of 0."""
    return events[next((number for number, (x, _) in enumerate(events) if x), len(events)) :]


@st.composite
def made_numbers(draw: st.DrawFn, most: int = 400, texts: bool = False) -> list[Event]:
    """Draw a stream of `made_streams` with numbers as targets: few values, many, constant or huge."""
    events = draw(made_streams(most=most))
    source = random.Random(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["few", "fine", "fine", "huge", "constant"]))
    made: list[Event] = []
    for x, label in events if texts else numbers_only(events):
        signal = float(label[1:]) + (x.get("n0", 0.0) if kind == "fine" else 0.0)
        y = signal if kind == "few" else 7.0 if kind == "constant" else source.gauss(signal, 0.5)
        made.append((x, source.choice((y, 1e60, -1e60, 1e-60, 0.0)) if kind == "huge" else y))
    return made
