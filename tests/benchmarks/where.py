"""Do incidents name the rows that a fault concerns?

    python tests/benchmarks/where.py [--quick] [--sets tuned|reported] [--models frozen,tree] [--repetitions 2]

A real data set is shuffled. From row `AT` on, one of `FAULTS` happens in one of `BOXES`: events that fulfil a condition
on one feature or on two, or in all events. A model predicts the rows, and the watch gets them with their losses, as in
the pipeline. Each stream is judged by the last record of the first incident that opens after the fault:

precision, recall
    of the rows since `AT` that fulfil the conditions of the named segments, against those in the box. Streams count
    whose mean loss in the box rises by at least 0.2 (of the variance of the labels, if these are numbers), and whose
    incident says that the loss rose.
everywhere
    share of the streams with a fault in all events whose loss is reported to have risen everywhere, among those whose
    mean loss rises by at least 0.1.
false segments
    share of these streams for which segments are named.
found in 1,000 rows of the box
    number of the faults in a box with such a rise about which an incident opened that soon.
within
    share of the named segments whose 95 % interval contains the true rise: that over all rows of the data set, which
    only a `frozen` model has.

`frozen` is a gradient boosted ensemble that was trained with the other half of the data set. `tree` is the adaptive
tree of the pipeline, which learns the rows, and with them the fault. The rules were chosen with the sets `TUNED`; by
default, `REPORTED` are used. `--quick` takes a repetition of one fault in each box.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream_topics.incidents import Condition, Where
from tests.benchmarks.incidents import REGRESSIONS, Recorder, Row, informative, read, shuffled

TUNED = ("adult", "elec2", "bike_hourly", "weather_noaa")
REPORTED = (
    "bank_marketing", "higgs_10k", "california_housing", "cpu_small", "qm9_10k", "wine_white", "superconductor_sample",
    "abalone", "air_quality", "powersupply",
)  # fmt: skip
AT, ROWS = 6_000, 20_000
FAULTS = ("labels", "column", "noise")
BOXES = (0.03, 0.08, 0.15, 0.3, 1.0)
KINDS = ("number", "interval", "two numbers", "category")
SOON = 1_000  # rows of a box
NEAR = 3_000  # rows before, and since, by which the true rise is measured
_LEAST, _LEAST_EVERYWHERE = 0.2, 0.1

Box = Callable[[dict[str, Any]], bool]
Case = tuple[str, str, float, str, str, int]
"""Data set, model, share and kind of the box, fault, seed."""


def box_of(rows: list[Row], share: float, kind: str, draws: np.random.Generator) -> Box | None:
    """Return a condition that about this share of the rows fulfil; None if no feature allows it."""
    if share == 1.0:
        return lambda x: True
    names = list(rows[0][0])
    columns = {name: [x.get(name) for x, _ in rows] for name in names}
    numbers = [
        name
        for name in names
        if len({*columns[name]}) > 8 and not any(isinstance(value, str) for value in columns[name])
    ]
    order = draws.permutation(len(numbers)).tolist()
    if kind == "category":
        fits = []
        for name in names:
            if name in numbers:
                continue
            values = sorted({value for value in columns[name] if value is not None}, key=str)
            shares = [
                (abs(np.mean([one == value for one in columns[name]]) / share - 1.0), str(value), name, value)
                for value in values
            ]
            fits += [one[2:] for one in shares if one[0] < 0.3]
        if not fits:
            return None
        name, value = fits[draws.integers(len(fits))]
        return lambda x: x.get(name) == value
    needed = 2 if kind == "two numbers" else 1
    for place in range(len(order) - needed + 1):
        chosen = [numbers[one] for one in order[place : place + needed]]
        each = share ** (1.0 / needed)
        bounds = {}
        for name in chosen:
            values = np.array([np.nan if value is None else value for value in columns[name]], float)
            begin = draws.uniform(0.1, 0.9 - each) if kind == "interval" else float(draws.choice([0.0, 1.0 - each]))
            low, high = np.nanquantile(values, [begin, begin + each])
            bounds[name] = (low if begin > 0.0 else -np.inf, high if begin + each < 1.0 else np.inf)

        def box(x: dict[str, Any], bounds: dict[str, tuple[float, float]] = bounds) -> bool:
            return all(low <= x.get(name, np.nan) < high for name, (low, high) in bounds.items())

        if 0.7 * share <= np.mean([box(x) for x, _ in rows]) <= 1.4 * share:
            return box
    return None


def broken(rows: list[Row], box: Box, fault: str, name: str, column: str, draws: np.random.Generator) -> list[Row]:
    """Return rows with a fault in a box. `column` breaks."""
    regression = name in REGRESSIONS
    classes = sorted({y for _, y in rows})
    mean = np.mean([float(y) for _, y in rows]) if regression else 0.0
    labels = [rows[place][1] for place in draws.permutation(len(rows))]
    values = [rows[place][0].get(column) for place in draws.permutation(len(rows))]

    def change(i: int, x: dict[str, Any], y: str) -> Row:
        if not box(x):
            return x, y
        if fault == "noise":
            return x, labels[i]
        if fault == "labels":
            return x, str(2.0 * mean - float(y)) if regression else classes[(classes.index(y) + 1) % len(classes)]
        return {key: one for key, one in {**x, column: values[i]}.items() if one is not None}, y

    return [change(i, x, y) for i, (x, y) in enumerate(rows)]


class Frozen:
    """A model that was trained once, and the rows of a stream as numbers."""

    def __init__(self, name: str, train: list[Row]) -> None:
        self.regression = name in REGRESSIONS
        self.names = list(dict.fromkeys(key for x, _ in train for key in x))
        self.codes: dict[str, dict[str, int]] = {
            key: {} for key in self.names if any(isinstance(x.get(key), str) for x, _ in train)
        }
        self.classes = [] if self.regression else sorted({y for _, y in train})
        inputs, target = self.encoded(train)
        self.variance = float(target.var())
        kind = HistGradientBoostingRegressor if self.regression else HistGradientBoostingClassifier
        self.model = kind(max_iter=40, random_state=0).fit(inputs, target)

    def encoded(self, rows: list[Row]) -> tuple[np.ndarray, np.ndarray]:
        inputs = np.full((len(rows), len(self.names)), np.nan)
        for i, (x, _) in enumerate(rows):
            for j, key in enumerate(self.names):
                value = x.get(key, np.nan)
                inputs[i, j] = (
                    self.codes[key].setdefault(value, len(self.codes[key])) if isinstance(value, str) else value
                )
        target = [float(y) if self.regression else float(self.classes.index(y)) for _, y in rows]
        return inputs, np.array(target)

    def losses(self, inputs: np.ndarray, target: np.ndarray) -> np.ndarray:
        if self.regression:
            return np.asarray((self.model.predict(inputs) - target) ** 2 / self.variance)
        truth = np.eye(len(self.classes))[target.astype(int)]
        return np.asarray(((self.model.predict_proba(inputs) - truth) ** 2).sum(axis=1))

    def rows(self, stream: list[Row]) -> Rows:
        inputs, target = self.encoded(stream)
        texts = {
            self.names.index(key): {code: text for text, code in codes.items()} for key, codes in self.codes.items()
        }
        return Rows(
            first_row=0, seqs=np.arange(len(stream)), times=[], names=self.names,
            kinds=[2 if key in self.codes else 0 for key in self.names], inputs=inputs, target=target,
            classes=self.classes, loss=self.losses(inputs, target), loss_name="brier", importance=None, texts=texts,
        )  # fmt: skip


def fulfils(conditions: list[Condition], x: dict[str, Any]) -> bool:
    """Return whether an event fulfils all conditions, by their machine-readable form alone."""
    for one in conditions:
        value = x.get(one.feature)
        if value is None:
            if not one.missing:
                return False
            continue
        match one.op:
            case ">=":
                holds = value >= one.values[0]
            case "<":
                holds = value < one.values[0]
            case "in":
                holds = value in one.values
            case "not in":
                holds = value not in one.values
            case op:
                holds = op == "present"
        if not holds:
            return False
    return True


class Outcome(NamedTuple):
    """The last record about one stream, compared with its fault."""

    data: str
    model: str
    share: float
    kind: str
    fault: str
    seed: int
    rise: float
    """True rise of the mean loss in the box, over `NEAR` rows of the stream before and since."""
    verdict: str
    extent: str
    """`missed`, if no incident opened; `loss` or another word if the incident located something else or nothing."""
    precision: float | None
    recall: float | None
    within: list[bool]
    text: str
    action: str
    delay: int | None
    """Rows of the box until the incident opened."""
    false: int
    """Incidents before the fault."""


_MODELS: dict[tuple[str, int], tuple[Frozen, list[Row], list[Row]]] = {}


def outcome(case: Case) -> Outcome | None:
    name, kind_of_model, share, kind, fault, seed = case
    draws = np.random.Generator(np.random.PCG64([seed, int(100 * share), KINDS.index(kind), FAULTS.index(fault)]))
    if (name, seed) not in _MODELS:
        _MODELS.clear()
        data = read(name)
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(data)).tolist()
        half = min(len(data) // 2, 6_000)
        train, rest = ([data[place] for place in part] for part in (order[:half], order[half : half + 10_000]))
        _MODELS[name, seed] = Frozen(name, train), train, rest
    frozen, train, rest = _MODELS[name, seed]
    column, _ = informative(train[:3_000])
    box = box_of(rest, share, kind, draws)
    if box is None:
        return None
    clean = shuffled(rest, ROWS, draws)
    stream = clean[:AT] + broken(clean[AT:], box, fault, name, column, draws)
    inside = np.array([box(x) for x, _ in clean])
    if kind_of_model == "frozen":
        rows, scale = frozen.rows(stream), 1.0
    else:
        rows = Recorder(name, kind_of_model, seed).rows(stream)
        scale = frozen.variance if frozen.regression else 1.0
        texts: dict[int, dict[int, str]] = {}
        for slot, key in enumerate(rows.names):
            if rows.kinds[slot] == 2:
                codes = rows.inputs[:, slot]
                places = {
                    code: int(np.flatnonzero(codes == code)[0]) for code in np.unique(codes[~np.isnan(codes)]).tolist()
                }
                texts[slot] = {int(code): stream[rows.first_row + at][0][key] for code, at in places.items()}
        rows = rows._replace(texts=texts)
    at = AT - rows.first_row
    own = inside[rows.first_row :]
    rise = (
        rows.loss[at : at + NEAR][own[at : at + NEAR]].mean() - rows.loss[at - NEAR : at][own[at - NEAR : at]].mean()
    ) / scale
    watch = IncidentWatch(name, 0, seed, 0.5, learns=kind_of_model != "frozen")
    every = list(watch.update(rows))
    records = [one for one in every if one.onset.latest >= AT - 50 and one.row >= AT]
    first = [one for one in records if one.incident == records[0].incident]
    last = first[-1] if first else None
    where = None if last is None else last.where
    precision = recall = None
    within: list[bool] = []
    if where is not None and where.segments:
        named = np.array([any(fulfils(one.conditions, x) for one in where.segments) for x, _ in stream[AT:]])
        hit = (named & inside[AT:]).sum()
        precision, recall = float(hit / max(1, named.sum())), float(hit / inside[AT:].sum())
        if kind_of_model == "frozen":
            within = list(covered(where, frozen, rest, broken(rest, box, fault, name, column, draws)))
    return Outcome(
        name, kind_of_model, share, kind, fault, seed, float(rise),
        "missed" if last is None else last.verdict,
        "missed" if last is None else "none" if where is None else where.extent if where.of == "loss" else "events",
        precision, recall, within, "" if where is None else " | ".join(one.text for one in where.segments),
        "" if last is None or last.advice is None else last.advice.action,
        int(inside[AT : records[0].row + 1].sum()) if records else None,
        len({one.incident for one in every if one.row < AT}),
    )  # fmt: skip


def covered(where: Where, frozen: Frozen, before: list[Row], since: list[Row]) -> Iterator[bool]:
    """Yield whether the interval of each segment contains the rise over all rows of the data set."""
    losses = [frozen.losses(*frozen.encoded(rows)) for rows in (before, since)]
    for one in where.segments:
        then, now = (
            own[np.array([fulfils(one.conditions, x) for x, _ in rows])]
            for own, rows in zip(losses, (before, since), strict=True)
        )
        if where.of == "loss" and len(then) and len(now) and one.low is not None and one.high is not None:
            yield bool(one.low <= now.mean() - then.mean() <= one.high)


def summary(outcomes: list[Outcome]) -> Iterator[dict[str, Any]]:
    groups = defaultdict[tuple[str, str], list[Outcome]](list)
    for one in outcomes:
        for group in ("all", f"box {one.share}", one.kind if one.share < 1.0 else "all events", one.fault, one.data):
            groups[one.model, group].append(one)
    for (model, group), chosen in sorted(groups.items()):
        local = [one for one in chosen if one.share < 1.0 and one.rise >= _LEAST]
        judged = [one for one in local if one.extent in ("segments", "everywhere", "unknown")]
        named = [one for one in judged if one.precision is not None and one.recall is not None]
        wide = [one for one in chosen if one.share == 1.0 and one.rise >= _LEAST_EVERYWHERE and one.extent != "missed"]
        wide = [one for one in wide if one.extent in ("segments", "everywhere", "unknown")]
        within = [hit for one in chosen for hit in one.within]
        mean = lambda values: round(float(np.mean(values)), 3) if len(values) else None  # noqa: E731
        yield {
            "model": model,
            "group": group,
            "faults in a box": len(local),
            "missed": sum(one.extent == "missed" for one in local),
            "found in 1,000 rows of the box": sum(one.delay is not None and one.delay <= SOON for one in local),
            "false incidents before": sum(one.false for one in chosen),
            "loss not located": sum(one.extent in ("events", "none") for one in local),
            "named": len(named),
            "everywhere": sum(one.extent == "everywhere" for one in judged),
            "unknown": sum(one.extent == "unknown" for one in judged),
            "precision": mean([one.precision for one in named]),
            "recall": mean([one.recall for one in named]),
            "both >= 0.8": mean([min(one.precision or 0.0, one.recall or 0.0) >= 0.8 for one in named]),
            "faults in all events": len(wide),
            "reported everywhere": mean([one.extent == "everywhere" for one in wide]),
            "false segments": mean([one.extent == "segments" for one in wide]),
            "intervals": len(within),
            "within": mean(within),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", choices=["tuned", "reported"], default="reported")
    parser.add_argument("--data")
    parser.add_argument("--models", default="frozen")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    names = given.data.split(",") if given.data else TUNED if given.sets == "tuned" else REPORTED
    outcomes: list[Outcome] = []
    for name in names:
        for seed in range(given.first_seed, given.first_seed + (1 if given.quick else given.repetitions)):
            for model in given.models.split(","):
                for share in BOXES:
                    for number, kind in enumerate(KINDS if share < 1.0 else KINDS[:1]):
                        for fault in [FAULTS[number % 3]] if given.quick and share < 1.0 else FAULTS:
                            one = outcome((name, model, share, kind, fault, seed))
                            if one is not None:
                                outcomes.append(one)
                                print(json.dumps(one._asdict()), flush=True)
    for line in summary(outcomes):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
