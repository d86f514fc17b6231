"""How many incidents are false, and are the verdicts right?

    python tests/benchmarks/incidents.py stationary [--rows 20000] [--repetitions 2] [--models tree,forest] [--data ...]
    python tests/benchmarks/incidents.py correlated|ordered|unlabelled|changes|bundled|pairs [the same options]
    python tests/benchmarks/incidents.py faults [--quick] [the same options]

Every data set is shuffled, again and again (seeded), so that nothing changes. The plain loop learns it and explains it
with iPFI. With `--results FILE`, outcomes are kept in a file, and those that are in it already are not computed again.

`stationary` counts incidents, each once, whatever its verdict becomes. The last lines have them against the budget,
with a 95 % interval (Poisson), and apart from them those that say that the model got worse on the same data, or relies
on other features: on such streams they report what the model did to itself.

`correlated` does the same for streams that do not change and whose neighbouring rows are alike: the rank of a row's
most informative number follows a stationary process with a correlation of `CORRELATIONS` from row to row.

`ordered` does the same for the first or second half of a data set in its own order, if no feature and no label changes
within that half: its quarters pass a Kolmogorov-Smirnov test, 1 % for all columns together.

`unlabelled` does the same for events without labels, which are explained with attributions. The labels either end after
`LABELS` events, or each comes `LATE` events late. It also has the alarms of the drift detectors about attributions,
where the labels have ended: those `SETTLED` events later or more.

`changes` changes the stream at row `AT` in one of several ways, and compares verdicts with `TRUTH`. Its last lines are
the confusion matrix: a line for each change, with the median delay of the first record in rows, the error of the onset
(10 %, 50 % and 90 % quantile), and the share of onsets within their interval. `model` and `redundant` put the losses
and contributions of another model in place of the stream's own from row `AT` on: of a linear model, and of the same
model where a feature and its copy have changed roles.

`bundled` has the bundled stream instead, with a seed for each repetition: its concept moves half-way. The last lines
have the verdicts on the first incident, the first and last onset, and the number of streams with a second incident.

`pairs` breaks features that are almost the same, in inputs and labels alone, without a model. The data sets are
`ALIKE`, on which the rules for such pairs were chosen. At most `COUPLES` of the two features with a rank correlation of
at least 0.85 are drawn for each repetition. At row `AT`, the two are swapped, or one gets a constant bias, drifts, gets
noise of its own, freezes, or is shifted by twice the mean difference, as if it were mirrored.

For the streams of `changes`, the lines "alarms" compare two detectors on all series: the bets, and ADWIN with its δ
divided by the number of series and of its tests, so that both bound the false alarms of a stream by the budget. They
have the median delay of the first alarm after the change, the streams without one, and the alarms in 100,000 rows
before it.

`faults` breaks the streams of `stream_faults.py`, in their own order and shuffled, with each of its faults at row `AT`,
and grades what is said. An incident that the same stream also has without the fault does not count. The last lines have
the grades and the median delay of each kind, and of all: once for the sets and kinds that rules were chosen with, and
once for the sets and kinds that were held out. They count only the faults that matter: those that move a feature by 0.3
of its spread in a tenth of the rows, or that raise the loss by 0.05 (of the variance of the labels, if these are
numbers). `loss` counts the records whose sentence says that the loss rose or fell although, since the change, it did
not. With `--quick`, an adaptive tree learns each stream once, with every third fault, which takes six minutes of one
core.

The settings of the detectors were chosen with the data sets `CHOSEN_ON`; by default, others are reported.
"""

import argparse
import csv
import gzip
import json
import multiprocessing
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import numpy as np
import orjson
from river.drift import ADWIN
from scipy.stats import chi2, ks_2samp, norm, spearmanr

from glasstream.app.configuration import load
from glasstream.base.draws import stream_key
from glasstream.detect.incidents.detectable import integrals_of_gains, would_notice
from glasstream.detect.incidents.series import Name, Series
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream.events.sources.bundled import BUNDLED_ROWS, BundledStream
from glasstream.flow.reference import Reference
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import attributions, drift, events, incidents
from glasstream_topics.contributions import Contributions
from glasstream_topics.incidents import Incident
from glasstream_topics.requests import ExplainRequest
from tests.benchmarks.stream_faults import (
    CODES,
    DESIGN_KINDS,
    DESIGN_SETS,
    FAULTS,
    HELD_OUT_SETS,
    KINDS,
    Fault,
    Scene,
    broken,
    graded,
    moved,
)

DATA = Path(os.environ.get("DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
CHOSEN_ON = ("adult", "elec2", "eeg_eye_state", "weather_noaa", "bike_hourly", "california_housing")
REPORTED = (
    "bank_marketing", "higgs_10k", "superconductor_sample", "poker_hand_25k", "wine_white", "cpu_small", "qm9_10k",
    "air_quality", "abalone", "ozone_eighthr",
)  # fmt: skip
REGRESSIONS = {
    "superconductor_sample",
    "wine_white",
    "cpu_small",
    "qm9_10k",
    "air_quality",
    "abalone",
    "bike_hourly",
    "california_housing",
    "auto_mpg",
    "communities_crime",
    "concrete",
}
ALIKE = ("weather_noaa", "bike_hourly", "auto_mpg", "communities_crime")
COUPLES = 16
AT, ROWS = 5_000, 8_000
PER_MESSAGE = 100
CORRELATIONS = (0.5, 0.9)
LABELS, LATE, SETTLED = 3_000, 500, 4_000
CLOCK, FIRST = 32, 300  # rows between tests of ADWIN, and rows that scale its values
TRUTH = {
    "nothing": (),
    "swapped": ("feature_broken",),
    "scaled": ("feature_broken",),
    "missing": ("feature_broken",),
    "constant": ("feature_broken",),
    "inputs drawn anew": ("data_moved",),
    "labels flipped": ("concept_moved",),
    "labels drawn anew": ("labels_shifted",),
    "came alive": ("feature_alive",),
    "model": ("model_replaced", "reasoning_moved"),
    "redundant": ("reasoning_moved",),
}
OF_THE_MODEL = ("model_replaced", "reasoning_moved")

Row = tuple[dict[str, Any], str]


class Recorder(Reference):
    """A plain loop that keeps the rows that its watch would get, and watches nothing itself."""

    def __init__(self, name: str, model: str, seed: int) -> None:
        task = "regression" if name in REGRESSIONS else "classification"
        super().__init__(
            load(
                assignments=[
                    f"model.name={model}",
                    f"model.task={task}",
                    f"seed={seed}",
                    "explain.methods=ipfi",
                    "drift.watch=none",
                    "publish.every=1000000",
                ]
            )
        )
        self.stream, self.regression, self.blocks = name, task == "regression", list[Contributions]()

    def _explain(self, block: ExplainRequest, model: Predictor | None) -> list[Contributions]:
        answers = super()._explain(block, model)
        self.blocks += [answer for answer in answers if answer.kind == "ok"]
        return answers

    def rows(self, stream: list[Row]) -> Rows:
        """Return the explained rows of a stream."""
        key = events.key(self.stream)
        for first in range(0, len(stream), PER_MESSAGE):
            part = [{"x": x, "y": float(y) if self.regression else y} for x, y in stream[first : first + PER_MESSAGE]]
            for _ in self.run([(key, orjson.dumps(part))]):
                pass
        widest = max(self.blocks, key=lambda block: len(block.names))
        d = len(widest.names)
        return Rows(
            first_row=self.blocks[0].first_row,
            seqs=np.concatenate([block.seqs for block in self.blocks]),
            times=[],
            names=widest.names,
            kinds=widest.kinds,
            inputs=np.concatenate([_wide(block.values["inputs"], d, np.nan) for block in self.blocks]),
            target=np.concatenate([block.values["target"] for block in self.blocks]),
            classes=self.blocks[-1].classes,
            loss=np.concatenate([block.values["loss"] for block in self.blocks]),
            loss_name=self.blocks[-1].loss,
            importance=np.concatenate([_wide(block.values["ipfi"], d, 0.0) for block in self.blocks]),
        )


def _wide(array: np.ndarray, d: int, fill: float) -> np.ndarray:
    return np.pad(array, ((0, 0), (0, d - array.shape[1])), constant_values=fill)


def watched(rows: Rows, stream: str, seed: int, budget: float) -> list[Incident]:
    return list(IncidentWatch(stream, 0, seed, budget).update(rows))


def read(name: str) -> list[Row]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt", newline="") as file:
        records = list(csv.DictReader(file))
    targets = [record.pop("target") for record in records]
    return [
        ({key: value_of(text) for key, text in record.items() if text != ""}, target)
        for record, target in zip(records, targets, strict=True)
    ]


def value_of(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def shuffled(rows: list[Row], count: int, draws: np.random.Generator) -> list[Row]:
    places = np.concatenate([draws.permutation(len(rows)) for _ in range(-(-count // len(rows)))])
    return [rows[place] for place in places[:count]]


def correlated(rows: list[Row], count: int, rho: float, draws: np.random.Generator) -> list[Row]:
    first, _ = informative(rows[:3_000])
    values = np.array([x.get(first, np.nan) for x, _ in rows], float)
    order = np.lexsort((draws.random(len(rows)), values))
    noise = draws.normal(size=count)
    for row in range(1, count):
        noise[row] = rho * noise[row - 1] + np.sqrt(1.0 - rho**2) * noise[row]
    return [rows[order[place]] for place in (norm.cdf(noise) * len(rows)).astype(int)]


def stationary_half(rows: list[Row]) -> list[Row]:
    """Return the first half in which no column changes, or nothing."""
    middle = len(rows) // 2
    for half in (rows[:middle], rows[middle:]):
        columns = [[x.get(name) for x, _ in half] for name in rows[0][0]] + [[value_of(y) for _, y in half]]
        chances = []
        for column in columns:
            codes = {value: code for code, value in enumerate(sorted({str(one) for one in column}))}
            numbers = [one if isinstance(one, float) else -1e300 if one is None else codes[str(one)] for one in column]
            quarter = len(numbers) // 2
            chances.append(ks_2samp(numbers[:quarter], numbers[quarter:]).pvalue)
        if min(chances) > 0.01 / len(chances):
            return half
    return []


class Case(NamedTuple):
    """A change of a stream."""

    rows: list[Row]
    pool: list[Row]
    """Further rows of the stream."""
    regression: bool
    first: str
    """The most informative number."""
    second: str
    median: float
    """Of `first`."""
    draws: np.random.Generator

    @classmethod
    def of(cls, name: str, seed: int) -> "Case":
        data = read(name)
        draws = np.random.Generator(np.random.PCG64(seed))
        rows = shuffled(data, 3 * ROWS, draws)
        first, second = informative(data[:3_000])
        median = float(np.median([x.get(first, 0.0) for x, _ in rows]))
        return cls(rows[:ROWS], rows[ROWS:], name in REGRESSIONS, first, second, median, draws)

    def after(self, change: Callable[[dict[str, Any], str], Row]) -> list[Row]:
        return self.rows[:AT] + [change(dict(x), y) for x, y in self.rows[AT:]]

    def drawn(self, belongs: Callable[[Row], bool]) -> list[Row]:
        """Draw the rows after the change such that 85 % of them belong to a part of the data."""
        parts = [[row for row in self.pool if bool(belongs(row)) is wanted] for wanted in (True, False)]
        chosen = (parts[0] if self.draws.random() < 0.85 else parts[1] for _ in range(ROWS - AT))
        return self.rows[:AT] + [part[self.draws.integers(len(part))] for part in chosen]


def informative(rows: list[Row]) -> tuple[str, str]:
    """Return the two numbers with more than eight values whose ranks correlate most with the target."""
    codes = {y: code for code, y in enumerate(sorted({y for _, y in rows}))}
    numbers = all(isinstance(value_of(y), float) for _, y in rows)
    target = np.array([float(y) if numbers else codes[y] for _, y in rows])
    scores = []
    for name in rows[0][0]:
        values = np.array([x.get(name, np.nan) if not isinstance(x.get(name), str) else np.nan for x, _ in rows])
        if np.isnan(values).mean() < 0.5 and len(np.unique(values)) > 8:
            ranks = np.argsort(np.argsort(np.where(np.isnan(values), np.nanmedian(values), values)))
            scores.append((abs(float(np.corrcoef(ranks, target)[0, 1])), name))
    return tuple(name for _, name in sorted(scores, reverse=True)[:2])  # type: ignore[return-value]


def changed(kind: str, case: Case) -> list[Row]:
    """Return the rows of a stream that changes at row `AT`."""
    a, b = case.first, case.second
    classes = sorted({y for _, y in case.rows})
    mean = np.mean([float(y) for _, y in case.rows]) if case.regression else 0.0
    often = Counter(y for _, y in case.rows).most_common(1)[0][0]

    def swap(x: dict[str, Any], y: str) -> Row:
        values = x.pop(a, None), x.pop(b, None)
        return {**x, **{name: value for name, value in zip((b, a), values, strict=True) if value is not None}}, y

    def flip(x: dict[str, Any], y: str) -> Row:
        if x.get(a, 0.0) <= case.median:
            return x, y
        return x, str(2.0 * mean - float(y)) if case.regression else classes[(classes.index(y) + 1) % len(classes)]

    match kind:
        case "swapped":
            return case.after(swap)
        case "scaled":
            return case.after(lambda x, y: ({**x, a: x.get(a, 0.0) * 1_000.0}, y))
        case "missing":
            lost = lambda x: {k: v for k, v in x.items() if k != a} if case.draws.random() < 0.3 else x  # noqa: E731
            return case.after(lambda x, y: (lost(x), y))
        case "constant":
            return case.after(lambda x, y: ({**x, a: case.median}, y))
        case "inputs drawn anew":
            return case.drawn(lambda row: row[0].get(a, 0.0) > case.median)
        case "labels flipped":
            return case.after(flip)
        case "labels drawn anew":
            return case.drawn(lambda row: float(row[1]) > mean if case.regression else row[1] != often)
        case "came alive":
            return [({**x, a: 0.0}, y) for x, y in case.rows[:AT]] + case.rows[AT:]
        case _:
            return case.rows


def rows_of(kind: str, name: str, model: str, seed: int) -> Rows:
    if kind == "bundled":
        stream = [(dict(event["x"]), str(event["y"])) for event in BundledStream(seed).events()]
        return Recorder(name, model, seed).rows(stream)
    case = Case.of(name, seed)
    if kind == "model":
        return spliced(*(Recorder(name, one, seed).rows(case.rows) for one in (model, "linear")))
    if kind == "redundant":
        a = case.first
        others = [case.rows[place][0].get(a, 0.0) for place in case.draws.permutation(ROWS)]
        noise = [({**x, "copy": other}, y) for (x, y), other in zip(case.rows, others, strict=True)]
        roles = [({**x, a: other, "copy": x.get(a, 0.0)}, y) for (x, y), other in zip(case.rows, others, strict=True)]
        rows = spliced(*(Recorder(name, model, seed).rows(stream) for stream in (noise, roles)))
        inputs = rows.inputs.copy()
        inputs[:, rows.names.index("copy")] = inputs[:, rows.names.index(a)]
        return rows._replace(inputs=inputs)
    return Recorder(name, model, seed).rows(changed(kind, case))


def spliced(before: Rows, after: Rows) -> Rows:
    """Return rows whose losses and contributions are those of `after` from row `AT` on."""
    assert before.importance is not None and after.importance is not None
    at = AT - before.first_row
    order = [after.names.index(name) for name in before.names]
    return before._replace(
        loss=np.concatenate([before.loss[:at], after.loss[at:]]),
        importance=np.concatenate([before.importance[:at], after.importance[at:, order]]),
    )


class Outcome(NamedTuple):
    """What the watch said about one stream."""

    kind: str
    data: str
    model: str
    seed: int
    rows: int
    early: list[str]
    """Verdicts on incidents before the change."""
    verdict: str
    """Last verdict on the first incident after it, or "missed"."""
    delay: int | None
    onset: int | None
    """Error of its onset, in rows."""
    within: bool | None
    alarms: dict[str, tuple[int, int | None]] | None = None
    """By detector: the number of alarms before the change, and the delay of the first one after it."""
    later: int = 0
    """Number of further incidents."""


def alarms(rows: Rows, name: str, seed: int, budget: float) -> dict[str, tuple[int, int | None]]:
    found = {"bets": alarms_of_bets(rows, name, seed, budget), "ADWIN": alarms_of_adwin(rows, budget)}
    at = AT - rows.first_row
    return {
        detector: (sum(row < at for row in places), next((row - at for row in places if row >= at), None))
        for detector, places in found.items()
    }


def alarms_of_bets(rows: Rows, name: str, seed: int, budget: float) -> list[int]:
    """Return the places at which bets exceed their limit. They begin anew after each."""
    series, key, found, done = Series(budget), stream_key(seed, name), list[int](), 0
    series.widen(rows.kinds)
    values, levels = np.column_stack([rows.target, rows.inputs]), np.column_stack([rows.loss, rows.importance])
    events = np.zeros((len(values), 2), np.int64)
    while done < len(values):
        stop = min(len(values), done + series.until_due)
        part = slice(done, stop)
        fed, over = series.feed(done, values[part], levels[part], events[part], key, (), learn=True)
        done += fed
        if over is not None:
            found.append(done - 1)
            series.forget_bets()
    return found


def alarms_of_adwin(rows: Rows, budget: float) -> list[int]:
    """Return the places at which one detector of all finds a change. Values are scaled by their first rows."""
    columns = np.column_stack([rows.target, rows.inputs, rows.loss, rows.importance])
    low, high = np.nanmin(columns[:FIRST], axis=0), np.nanmax(columns[:FIRST], axis=0)
    scaled = np.clip((columns - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    delta = budget * CLOCK / 100_000 / columns.shape[1]
    found: set[int] = set()
    for column in range(columns.shape[1]):
        detector, is_level = ADWIN(delta=delta, clock=CLOCK, grace_period=FIRST), column > rows.inputs.shape[1]
        for place, value in enumerate(np.where(np.isnan(scaled[:, column]), 0.0, scaled[:, column]).tolist()):
            before = detector.estimation
            detector.update(value)
            falls = column == rows.inputs.shape[1] + 1 and detector.estimation < before  # a loss that falls is none
            if detector.drift_detected and not falls and (not is_level or place >= FIRST):
                found.add(place)
    return sorted(found)


def outcome(task: tuple[str, str, str, int, int, float]) -> Outcome:
    kind, name, model, seed, count, budget = task
    if kind.startswith("unlabelled"):
        return of_events(*task)
    if kind not in TRUTH and kind != "bundled":
        draws, stream = np.random.Generator(np.random.PCG64(seed)), read(name)
        if kind == "ordered":
            stream = stationary_half(stream)[:count]
            if not stream:
                return Outcome(kind, name, model, seed, 0, [], "", None, None, None)
        elif kind == "stationary":
            stream = shuffled(stream, count, draws)
        else:
            stream = correlated(stream, count, float(kind.removeprefix("correlated ")), draws)
        rows = Recorder(name, model, seed).rows(stream)
        found = {one.incident: one.verdict for one in watched(rows, name, seed, budget) if one.status == "open"}
        return Outcome(kind, name, model, seed, len(rows.loss), list(found.values()), "", None, None, None)
    rows, at = rows_of(kind, name, model, seed), BUNDLED_ROWS // 2 if kind == "bundled" else AT
    raised = alarms(rows, name, seed, budget) if kind in TRUTH else None
    incidents = defaultdict[int, list[Incident]](list)
    for one in watched(rows, name, seed, budget):
        incidents[one.incident].append(one)
    early = [records[0].verdict for records in incidents.values() if records[0].row < at]
    late = [records for records in incidents.values() if records[0].row >= at]
    if not late:
        return Outcome(kind, name, model, seed, at, early, "missed", None, None, None, raised)
    first, last = late[0][0], [one for one in late[0] if one.status == "open"][-1]
    within = first.onset.earliest <= at <= first.onset.latest
    delay, onset = first.row - at, first.onset.row - at
    return Outcome(kind, name, model, seed, at, early, last.verdict, delay, onset, within, raised, len(late) - 1)


def of_events(kind: str, name: str, model: str, seed: int, count: int, budget: float) -> Outcome:
    """Return what is said about events without labels, by the plain loop."""
    late, regression, key = kind.endswith("late"), name in REGRESSIONS, events.key(name)
    loop = Reference(
        load(
            assignments=[
                f"model.name={model}",
                f"model.task={'regression' if regression else 'classification'}",
                f"seed={seed}",
                "explain.methods=attributions",
                "drift.watch=importance",
                f"drift.budget={budget}",
                "publish.every=1000000",
            ]
        )
    )
    stream = shuffled(read(name), count, np.random.Generator(np.random.PCG64(seed)))
    rows, alarms, found = 0, 0, dict[int, str]()
    for first in range(0, len(stream), PER_MESSAGE):
        part: list[dict[str, Any]] = []
        for place in range(first, min(first + PER_MESSAGE, len(stream))):
            labels = [place] if not late and place < LABELS else [place - LATE] if late and place >= LATE else []
            part.append({"id": str(place), "x": stream[place][0]})
            part += [{"id": str(at), "y": float(stream[at][1]) if regression else stream[at][1]} for at in labels]
        for topic, data in loop.run([(key, orjson.dumps(part))]):
            rows += topic == attributions.TOPIC.name
            alarms += topic == drift.TOPIC.name and drift.decode(data).row >= LABELS + SETTLED
            if topic == incidents.TOPIC.name and (one := incidents.decode(data)).rule == "unlabelled":
                found.setdefault(one.incident, one.verdict)
    of_adwin = None if late else {"ADWIN": (alarms, None)}
    return Outcome(kind, name, model, seed, rows, list(found.values()), "", None, None, None, of_adwin)


class Grade(NamedTuple):
    """What was said about one fault."""

    kind: str
    severity: str
    data: str
    order: str
    model: str
    seed: int
    grade: str
    matters: bool
    delay: int | None
    false_loss: bool
    """Whether the sentence says that the loss rose or fell although it did not."""
    summary: str
    noticeable: bool | None = None
    """Whether the watch would notice what the inputs and labels do since the fault; None in former results."""


class Said(NamedTuple):
    """What a record says, but for numbers that grow with its rows."""

    verdict: str
    since: int
    features: tuple[str, ...]

    @classmethod
    def by(cls, record: Incident) -> "Said":
        return cls(record.verdict, record.onset.row, tuple(one.feature for one in record.features))


class Usual(NamedTuple):
    """A stream without a fault."""

    high_loss: float
    """A mean loss that is so much higher since the change that it matters."""
    said: set[Said]
    """What is said about its incidents."""


def faulty(task: tuple[str, str, str, int, float, int]) -> list[Grade]:
    """Return the grades of the faults of one stream: of all, or of every third one from one of the first three on."""
    name, order, model, seed, budget, first = task
    code = CODES.get(name)
    data = [({**x, code: f"c{x[code]}"} if code in x else x, y) for x, y in read(name)]
    draws = np.random.Generator(np.random.PCG64(seed))
    rows = data if order == "own" else shuffled(data, 3 * ROWS, draws)
    texts = [key for key in rows[0][0] if len({x[key] for x, _ in rows[:AT] if isinstance(x.get(key), str)}) >= 3]
    number, other = informative(rows[:AT])
    pool = [] if order == "own" else rows[ROWS:]
    scene = Scene(rows[:AT], rows[AT:ROWS], pool, name in REGRESSIONS, number, other, next(iter(texts), None), draws)
    control = Recorder(name, model, seed).rows(scene.before + scene.after)
    at = AT - control.first_row
    step = 0.05 * (float(control.target[:at].var()) if scene.regression else 1.0)
    usual = Usual(float(control.loss[at:].mean()) + step, set(map(Said.by, watched(control, name, seed, budget))))
    return [
        graded_fault(fault, scene._replace(draws=np.random.Generator(np.random.PCG64([seed, place]))), task[:5], usual)
        for place, fault in enumerate(FAULTS)
        if first in (-1, place % 3)
        if scene.category is not None or fault.of != "category"
    ]


def graded_fault(fault: Fault, scene: Scene, task: tuple[str, str, str, int, float], usual: Usual) -> Grade:
    name, order, model, seed, budget = task
    after = fault.breaks(scene)
    rows = Recorder(name, model, seed).rows(scene.before + after)
    at = AT - rows.first_row
    new = [one for one in watched(rows, name, seed, budget) if one.row >= AT and Said.by(one) not in usual.said]
    opened = [one for one in new if one.status == "open"]
    last = next((one for one in reversed(opened) if one.incident == opened[0].incident), None)
    worse = float(rows.loss[at:].mean()) >= usual.high_loss
    matters = worse or fault.of == "rows" or fault.holds or moved(scene, after, fault) >= 0.1
    grade = graded(last, fault, broken(scene, fault), label_gap(rows, at))
    return Grade(
        fault.kind, fault.severity, name, order, model, seed, grade, matters,
        opened[0].row - AT if opened else None, last is not None and false_loss(last, rows, at),
        "" if last is None else last.summary, noticeable(rows, at, name, seed, budget),
    )  # fmt: skip


def label_gap(rows: Rows, at: int) -> float:
    """Return by how much labels at equal values differ since a row: the largest of all features.

    It is the root mean square of the differences of mean labels in 16 bins, less what chance adds to it, in standard
    deviations of the labels.
    """
    spread, largest = float(rows.target[:at].std()) or 1.0, 0.0
    for column in rows.inputs.T:
        edges = np.unique(np.nanquantile(column[:at], np.linspace(0.0, 1.0, 17)[1:-1]))
        places = np.where(np.isnan(column), 0, 1 + np.searchsorted(edges, column, "right"))
        counts = np.array([np.bincount(part, minlength=20) for part in (places[:at], places[at:])])
        sums = np.array(
            [np.bincount(places[side], rows.target[side], minlength=20) for side in (slice(0, at), slice(at, None))]
        )
        use = (counts >= 20).all(axis=0)
        if use.any():
            means, weights = sums[:, use] / counts[:, use], counts[1, use] / counts[1, use].sum()
            chance = (1.0 / counts[:, use]).sum(axis=0)
            square = float((weights * (((means[1] - means[0]) / spread) ** 2 - chance)).sum())
            largest = max(largest, square)
    return largest**0.5


def noticeable(rows: Rows, at: int, name: str, seed: int, budget: float) -> bool:
    """Return whether the sizes that the watch states at the fault say that an input or the labels will be noticed."""
    watch, integrals = IncidentWatch(name, 0, seed, budget), integrals_of_gains()
    arrays = {key: value[:at] for key, value in rows._asdict().items() if isinstance(value, np.ndarray)}
    list(watch.update(rows._replace(**arrays, times=rows.times[:at])))
    values = np.column_stack([rows.target, rows.inputs])[at:]
    muted = set(watch.series.muted)
    for place in range(1 + len(watch.names)) if watch.alarm is None else ():
        one = Name("input", place - 1) if place else Name("label", 0)
        before, need = watch.series.histogram(one), float(np.log(watch.series.need(one)))
        since = before.shares_of(values[:, place])
        if place - 1 not in muted and would_notice(before, since, need, len(values), integrals):
            return True
    return False


def false_loss(record: Incident, rows: Rows, at: int) -> bool:
    """Return whether a sentence says that the loss rose or fell, and the loss since the change did not."""
    step = float(rows.loss[at : record.row - rows.first_row + 1].mean() - rows.loss[max(0, at - 2_000) : at].mean())
    return (" loss rose" in record.summary and step <= 0.0) or (" loss fell" in record.summary and step >= 0.0)


def grades(found: list[Grade]) -> Iterator[dict[str, Any]]:
    designed = {True: "design", False: "held out"}
    for design in (True, False):
        part = [one for one in found if one.matters and (one.data in DESIGN_SETS) is design]
        part = [one for one in part if (one.kind in DESIGN_KINDS) is design]
        for kind in KINDS:
            chosen = [one for one in part if one.kind == kind]
            if chosen:
                yield {"part": designed[design], "kind": kind, **tally(chosen)}
        for order in ("own", "shuffled"):
            yield {"part": designed[design], "order": order, **tally([one for one in part if one.order == order])}
        yield {"part": designed[design], "order": "all", **tally(part)}
    yield {"part": "all streams and kinds", **tally([one for one in found if one.matters])}


def tally(chosen: list[Grade]) -> dict[str, Any]:
    counts = Counter(one.grade for one in chosen)
    delays = [one.delay for one in chosen if one.delay is not None and one.grade in ("right", "partly")]
    return {
        "streams": len(chosen),
        **{grade: counts[grade] for grade in ("right", "partly", "wrong", "missed")},
        "%": [round(100 * counts[grade] / max(1, len(chosen))) for grade in ("right", "partly", "wrong", "missed")],
        "delay": float(np.median(delays)) if delays else None,
        "loss": sum(one.false_loss for one in chosen),
        "missed though noticeable": sum(one.grade == "missed" and one.noticeable is True for one in chosen),
        "noticeable": sum(one.noticeable is True for one in chosen),
    }


def of_faults(given: argparse.Namespace) -> None:
    data = [*DESIGN_SETS, *HELD_OUT_SETS] if given.data is None else given.data.split(",")
    models, repetitions = (["tree"], 1) if given.quick else (given.models.split(","), given.repetitions)
    found = [] if given.results is None or not given.results.exists() else [
        Grade(**json.loads(line)) for line in given.results.read_text().splitlines()
    ]  # fmt: skip
    done = {(one.data, one.order, one.model, one.seed) for one in found}
    tasks = [
        (name, order, model, seed, given.budget, (i + j) % 3 if given.quick else -1)
        for seed in range(repetitions)
        for i, name in enumerate(data)
        for j, order in enumerate(("own", "shuffled"))
        for model in models
        if (name, order, model, seed) not in done
    ]
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("fork")) as pool:
        for some in pool.map(faulty, tasks):
            found += some
            lines = "".join(f"{json.dumps(one._asdict())}\n" for one in some)
            print(lines, end="", flush=True)
            if given.results is not None:
                with given.results.open("a") as file:
                    file.write(lines)
    for summary in grades(found):
        print(json.dumps(summary), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = ("stationary", "correlated", "ordered", "unlabelled", "changes", "bundled", "pairs", "faults")
    parser.add_argument("what", choices=what)
    parser.add_argument("--data", help="names of data sets, separated by commas")
    parser.add_argument("--quick", action="store_true", help="one adaptive tree for each stream of `faults`")
    parser.add_argument("--models", default="tree,forest")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first repetition of a stream")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    if given.what == "pairs":
        for line in of_pairs(given.repetitions, given.budget):
            print(json.dumps(line), flush=True)
        return
    if given.what == "faults":
        of_faults(given)
        return
    kinds = {
        "correlated": [f"correlated {rho}" for rho in CORRELATIONS],
        "unlabelled": ["unlabelled", "unlabelled late"],
        "changes": list(TRUTH),
    }
    outcomes = kept(given.results)
    done = {(one.kind, one.data, one.model, one.seed) for one in outcomes}
    tasks = [
        (kind, name, model, seed, given.rows, given.budget)
        for seed in range(given.first_seed, given.first_seed + given.repetitions)
        for kind in kinds.get(given.what, [given.what])
        for name in (["agrawal"] if given.what == "bundled" else (given.data or ",".join(REPORTED)).split(","))
        for model in given.models.split(",")
        if (kind, name, model, seed) not in done
    ]
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("fork")) as pool:
        for one in pool.map(outcome, tasks):
            outcomes.append(one)
            line = json.dumps(one._asdict())
            print(line, flush=True)
            if given.results is not None:
                with given.results.open("a") as file:
                    file.write(f"{line}\n")
    match given.what:
        case "changes":
            lines = [*confusion(outcomes), *compared(outcomes)]
        case "bundled":
            lines = [first_incidents(outcomes, model) for model in given.models.split(",")]
        case _:
            lines = [*budget_kept(outcomes, given.budget)]
    for summary in lines:
        print(json.dumps(summary), flush=True)


def of_pairs(repetitions: int, budget: float) -> Iterator[dict[str, Any]]:
    """Return what was said about each break of two features, by their rank correlation."""
    found = defaultdict[tuple[str, str], Counter[str]](Counter)
    for name in ALIKE:
        for seed in range(repetitions):
            draws = np.random.Generator(np.random.PCG64(seed))
            rows = shuffled(read(name), ROWS, draws)
            names = [key for key in rows[0][0] if all(isinstance(x.get(key, 0.0), float) for x, _ in rows)]
            inputs = np.array([[x.get(key, np.nan) for key in names] for x, _ in rows])
            codes = {y: code for code, y in enumerate(sorted({y for _, y in rows}))}
            target = np.array([float(y) if name in REGRESSIONS else codes[y] for _, y in rows], float)
            likeness = np.abs(spearmanr(inputs[:AT], nan_policy="omit").statistic)
            couples = np.argwhere(np.triu(likeness >= 0.85, 1))
            for i, j in draws.permutation(couples)[:COUPLES].tolist():
                group = next(f"from {least}" for least in (0.95, 0.9, 0.85) if likeness[i, j] >= least)
                for kind in ("swapped", "bias", "drift", "noise", "frozen", "mirrored"):
                    block = Rows(
                        0, np.arange(ROWS), [], names, [0] * len(names), torn(kind, inputs, i, j, draws), target,
                        [] if name in REGRESSIONS else sorted(codes), draws.random(ROWS), "none", None,
                    )  # fmt: skip
                    said = [one for one in watched(block, name, seed, budget) if one.status == "open" and one.row >= AT]
                    last = [one for one in said if one.incident == said[0].incident][-1:]
                    features = [one for record in last for one in record.features if one.fault == "swapped"]
                    swaps = {frozenset((one.feature, one.other)) for one in features}
                    right = swaps == {frozenset((names[i], names[j]))}
                    verdict = last[0].verdict if last else "missed"
                    found[kind, group]["these swapped" if right else "others swapped" if swaps else verdict] += 1
    for (kind, group), verdicts in sorted(found.items()):
        yield {"break": kind, "rank correlation": group, "verdicts": dict(verdicts)}


def torn(kind: str, inputs: np.ndarray, i: int, j: int, draws: np.random.Generator) -> np.ndarray:
    result, gap = inputs.copy(), inputs[:, i] - inputs[:, j]
    spread, rows, sign = np.nanstd(gap), np.arange(ROWS - AT), draws.choice([-1.0, 1.0])
    match kind:
        case "swapped":
            result[AT:, [i, j]] = result[AT:, [j, i]]
        case "bias":
            result[AT:, i] += sign * draws.uniform(0.5, 4.0) * spread
        case "drift":
            result[AT:, i] += sign * 0.002 * spread * rows
        case "noise":
            result[AT:, i] += 2.0 * spread * draws.normal(size=len(rows))
        case "frozen":
            result[AT:, i] = result[AT, i]
        case "mirrored":
            result[AT:, i] -= 2.0 * np.nanmean(gap)
    return result


def kept(results: Path | None) -> list[Outcome]:
    """Return the outcomes of a file."""
    if results is None or not results.exists():
        return []
    return [Outcome(**json.loads(line)) for line in results.read_text().splitlines()]


def budget_kept(outcomes: list[Outcome], budget: float) -> Iterator[dict[str, Any]]:
    groups = {(one.kind, model) for one in outcomes for model in (one.model, "all")}
    for kind, model in sorted(groups):
        chosen = [one for one in outcomes if one.kind == kind and model in ("all", one.model) and one.rows]
        rows = sum(one.rows for one in chosen)
        verdicts = [verdict for one in chosen for verdict in one.early]
        others = [verdict for verdict in verdicts if verdict not in OF_THE_MODEL]
        per = 100_000 / rows
        yield {
            "kind": kind,
            "model": model,
            "data": len({one.data for one in chosen}),
            "rows": rows,
            "budget": budget,
            "incidents per 100,000 rows": round(len(verdicts) * per, 3),
            "95 %": [round(bound * per, 3) for bound in poisson(len(verdicts))],
            "without those of the model": round(len(others) * per, 3),
            "95 % of these": [round(bound * per, 3) for bound in poisson(len(others))],
            "verdicts": dict(Counter(verdicts)),
            **({"alarms": sum(one.alarms["ADWIN"][0] for one in chosen)} if chosen[0].alarms else {}),
        }


def first_incidents(outcomes: list[Outcome], model: str) -> dict[str, Any]:
    chosen = [one for one in outcomes if one.model == model]
    onsets = [one.onset for one in chosen if one.onset is not None]
    return {
        "model": model,
        "streams": len(chosen),
        "before the change": sum(len(one.early) for one in chosen),
        "verdicts": dict(Counter(one.verdict for one in chosen)),
        "onset": [min(onsets), max(onsets)] if onsets else None,
        "with a second incident": sum(one.later > 0 for one in chosen),
    }


def compared(outcomes: list[Outcome]) -> Iterator[dict[str, Any]]:
    for kind in TRUTH:
        for detector in ("bets", "ADWIN"):
            chosen = [one.alarms[detector] for one in outcomes if one.kind == kind and one.alarms is not None]
            delays = [delay for _, delay in chosen if delay is not None]
            yield {
                "alarms": kind,
                "detector": detector,
                "delay": float(np.median(delays)) if delays else None,
                "without": len(chosen) - len(delays),
                "before the change, in 100,000 rows": round(
                    sum(early for early, _ in chosen) * 100_000 / max(1, AT * len(chosen)), 2
                ),
            }


def poisson(count: int) -> tuple[float, float]:
    """Return the 95 % interval of a Poisson mean."""
    return (chi2.ppf(0.025, 2 * count) / 2 if count else 0.0), chi2.ppf(0.975, 2 * count + 2) / 2


def confusion(outcomes: list[Outcome]) -> Iterator[dict[str, Any]]:
    right = wrong = total = 0
    for kind, truth in TRUTH.items():
        chosen = [one for one in outcomes if one.kind == kind]
        verdicts = Counter(one.verdict for one in chosen)
        good = verdicts["missed"] if not truth else sum(verdicts[verdict] for verdict in truth)
        unclear = verdicts["unclear"] + (verdicts["missed"] if truth else 0)
        right, wrong, total = right + good, wrong + len(chosen) - good - unclear, total + len(chosen)
        delays = [one.delay for one in chosen if one.delay is not None]
        onsets = [one.onset for one in chosen if one.onset is not None]
        yield {
            "change": kind,
            "verdicts": dict(verdicts.most_common()),
            "delay": float(np.median(delays)) if delays else None,
            "onset": [float(one) for one in np.percentile(onsets, [10, 50, 90])] if onsets else None,
            "within": round(float(np.mean([one.within for one in chosen if one.within is not None])), 2)
            if onsets
            else None,
            "before the change": dict(Counter(verdict for one in chosen for verdict in one.early)),
        }
    yield {"right": round(right / total, 3), "wrong": round(wrong / total, 3), "streams": total}


if __name__ == "__main__":
    main()
