"""iPFI against interval PFI while a forest learns a stream with a drift (Fumagalli et al. 2023, Tables 2 and 3)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from river import forest

from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream.explain.estimators.ipfi import IncrementalPFI, normalised
from glasstream.explain.smoothing import Smoothing
from glasstream.models.predictors.predictor import Floats, Predictor
from glasstream_lab.batch_pfi import batch_pfi
from glasstream_lab.gbmap.table_file import read_table
from glasstream_lab.papers.comparison import Row, of_one_run
from glasstream_lab.papers.experiment import Choice, Experiment, Request, Results, values
from glasstream_lab.papers.models import StreamLearner
from glasstream_lab.papers.streams import generated
from glasstream_lab.papers.tasks import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Integers = NDArray[np.int64]

SAMPLINGS: Final = ("uniform", "geometric")
RESERVOIR: Final = 1_000
REALISATIONS: Final = 10
PERMUTATIONS: Final = 10
TREES: Final = 50
BLOCK: Final = 20
"""Number of events that are explained with the same model."""
INTERVAL: Final = 2_000
"""Number of events of an interval of the reference."""
PHASES: Final = ("whole", "before", "after")


class Stream(NamedTuple):
    """Stream with a drift.

    Attributes
    ----------
    source
        Generator or data set.
    events, drift, width
        Number of events, event in the middle of the drift, and width of the drift.
    functions
        Functions of the generator before and after the drift, as River numbers them.
    swaps
        Pairs of features that exchange their values from the drift on.
    paper
        For each sampling and alpha the paper's median errors over the whole stream, before and after the drift.
    """

    source: Literal["agrawal", "stagger", "elec2"]
    events: int
    drift: int
    width: int
    functions: tuple[int, int]
    swaps: tuple[tuple[str, str], ...]
    paper: dict[tuple[str, float], tuple[float, float, float]]


_U, _G = SAMPLINGS

STREAMS: Final = {
    "agrawal fu. 1": Stream(
        "agrawal", 20_000, 10_000, 200, (1, 2), (),
        {
            (_U, 0.001): (0.050, 0.075, 0.024),
            (_G, 0.001): (0.052, 0.071, 0.022),
            (_U, 0.01): (0.047, 0.098, 0.018),
            (_G, 0.01): (0.040, 0.116, 0.027),
        },
    ),
    "agrawal fu. 2": Stream(
        "agrawal", 20_000, 10_000, 200, (1, 6), (),
        {
            (_U, 0.001): (0.067, 0.064, 0.072),
            (_G, 0.001): (0.063, 0.059, 0.074),
            (_U, 0.01): (0.111, 0.208, 0.058),
            (_G, 0.01): (0.103, 0.166, 0.070),
        },
    ),
    "agrawal fu. 2, early": Stream(
        "agrawal", 20_000, 5_000, 200, (1, 6), (),
        {
            (_U, 0.001): (0.067, 0.110, 0.064),
            (_G, 0.001): (0.066, 0.116, 0.063),
            (_U, 0.01): (0.069, 0.217, 0.066),
            (_G, 0.01): (0.078, 0.187, 0.069),
        },
    ),
    "agrawal fu. 2, late": Stream(
        "agrawal", 20_000, 15_000, 200, (1, 6), (),
        {
            (_U, 0.001): (0.071, 0.051, 0.244),
            (_G, 0.001): (0.081, 0.061, 0.246),
            (_U, 0.01): (0.117, 0.139, 0.095),
            (_G, 0.01): (0.103, 0.128, 0.077),
        },
    ),
    "agrawal fu. 3": Stream(
        "agrawal", 20_000, 10_000, 200, (6, 1), (),
        {
            (_U, 0.001): (0.079, 0.097, 0.032),
            (_G, 0.001): (0.081, 0.095, 0.029),
            (_U, 0.01): (0.097, 0.149, 0.056),
            (_G, 0.01): (0.124, 0.142, 0.090),
        },
    ),
    "agrawal fe. 1": Stream(
        "agrawal", 20_000, 10_000, 200, (2, 2), (("age", "salary"), ("elevel", "car")),
        {
            (_U, 0.001): (0.048, 0.021, 0.087),
            (_G, 0.001): (0.035, 0.023, 0.047),
            (_U, 0.01): (0.062, 0.072, 0.046),
            (_G, 0.01): (0.044, 0.079, 0.043),
        },
    ),
    "stagger fu. 1": Stream(
        "stagger", 10_000, 5_000, 100, (1, 2), (),
        {
            (_U, 0.001): (0.018, 0.009, 0.132),
            (_G, 0.001): (0.018, 0.008, 0.131),
        },
    ),
    "elec2 fe. 1": Stream(
        "elec2", 40_000, 20_000, 400, (0, 0), (("nswprice", "nswdemand"),),
        {
            (_U, 0.001): (0.270, 0.041, 0.353),
            (_G, 0.001): (0.037, 0.037, 0.037),
        },
    ),
    "elec2 fe. 1, gradual": Stream(
        "elec2", 40_000, 20_000, 8_000, (0, 0), (("nswprice", "nswdemand"),),
        {
            (_U, 0.001): (0.158, 0.048, 0.321),
            (_G, 0.001): (0.037, 0.040, 0.037),
        },
    ),
}  # fmt: skip
QUICK_STREAMS: Final = ("stagger fu. 1",)


class Explainer(Protocol):
    """Explainer of blocks, such as `IncrementalPFI`."""

    def explain_block(self, predictor: Predictor, rows: Floats, targets: Floats) -> Floats:
        """Return the contributions of the rows that are explained, (n, d)."""


class Drift(Experiment):
    """Distance of iPFI from interval PFI on streams with a drift."""

    name = "ipfi-drift"
    paper = "iPFI"
    shows = "Tables 2 and 3, Figures 3, 4 and 7 to 14"
    summary = "Compare iPFI with interval PFI on streams with a drift."
    minutes = 70
    data = ("elec2",)
    quick_omits = "all streams but stagger, and eight of ten repetitions"
    settings = (
        "Functions, swapped features and widths of the drifts are those of the authors' published code and results; "
        f"so are reservoirs of {RESERVOIR:,} rows and intervals of {INTERVAL:,} events. The paper does not state them.",
        "The authors learn each event before they explain it (`--order after`), and shuffle elec2 (`--shuffle yes`). "
        "Elsewhere Glasstream explains an event before the model learns it.",
        f"{BLOCK} events share the model, before or after they are learned. The interval reference uses the model at "
        "the end of the interval, as the authors do.",
        "A number is the median over the intervals of a phase. The authors' code has one stream and one forest for the "
        "tables (`datastream_seed` 1, `model_iterations` 1), and averages ten runs of the explainer on them, as a "
        "repetition averages ten reservoirs. So the paper's number varies as that of one repetition.",
        "The streams before and after the drift have the same rows in the same order, but for the function or the "
        "swapped features, and the new one begins at the drift, as in the authors' code.",
    )
    choices: ClassVar = {
        "order": Choice(("after", "before"), "Explain each event after or before the model learns it."),
        "shuffle": Choice(("yes", "no"), "Shuffle the events of elec2."),
    }

    def tasks(self, request: Request) -> list[Json]:
        names = QUICK_STREAMS if request.quick else tuple(STREAMS)
        return [
            {"data": name, "seed": seed, **request.choices} for name in names for seed in range(request.repetitions)
        ]

    def work(self, folder: Path | None, task: Json) -> Json:
        stream, seed = STREAMS[task["data"]], task["seed"]
        names, rows, targets = events_of(folder, stream, seed, shuffle=task["shuffle"] == "yes")
        learner = StreamLearner(forest.ARFClassifier(TREES, binary_split=True, seed=seed), names)
        result = followed(stream, rows, targets, learner, explainers_of(seed), seed, order=task["order"])
        return result | {"names": names}

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for name, stream in STREAMS.items():
            for (sampling, alpha), numbers in stream.paper.items():
                for phase, theirs in zip(PHASES, numbers, strict=True):
                    if errors := values(results, f"{sampling} {alpha:g} {phase}", data=name):
                        number = f"{name}, {sampling}, alpha {alpha:g}, {phase}"
                        rows.append(of_one_run(Row(number, errors, theirs, "above", tolerance=0.0005)))
        return rows

    def figure(self, results: Results) -> "Figure":
        """Return the importance of the features along each stream: iPFI as lines, interval PFI as dots."""
        from matplotlib.figure import Figure

        first = {task["data"]: result for task, result in reversed(results)}
        names = [name for name in STREAMS if name in first]
        figure = Figure(figsize=(8, 3 * len(names)), layout="constrained")
        for axes, name in zip(figure.subplots(len(names), squeeze=False)[:, 0], names, strict=True):
            ends = INTERVAL * np.arange(1, 1 + len(first[name]["reference"]))
            for place, feature in enumerate(first[name]["names"]):
                (line,) = axes.plot(ends, [one[place] for one in first[name]["importance"]], label=feature)
                axes.plot(ends, [one[place] for one in first[name]["reference"]], "o", color=line.get_color(), ms=3)
            axes.axvline(STREAMS[name].drift, color="grey", linestyle="--")
            axes.set(title=f"{name}: iPFI with geometric sampling (lines), interval PFI (dots)", xlabel="events")
            axes.legend(fontsize=7, ncols=3)
        return figure


def explainers_of(seed: int) -> dict[str, Explainer]:
    """Return iPFI with each sampling, by its name."""
    return {
        sampling: IncrementalPFI(
            loss="zero_one", sampling=sampling, reservoir=RESERVOIR, realisations=REALISATIONS, start=BLOCK, seed=seed
        )
        for sampling in SAMPLINGS
    }


def followed(
    stream: Stream,
    rows: Floats,
    targets: Integers,
    learner: StreamLearner,
    explainers: Mapping[str, Explainer],
    seed: int,
    *,
    order: str,
) -> Json:
    """Learn and explain a stream, and compare each explainer with interval PFI.

    Parameters
    ----------
    stream, rows, targets
        Description, rows and classes of the stream.
    learner, explainers
        Model, and explainers by name. They do not explain the first `BLOCK` events.
    seed
        Random seed of interval PFI.
    order
        Whether to explain each event ``"after"`` or ``"before"`` the model learns it.

    Returns
    -------
    For each explainer and alpha of the paper the distance at the end of each interval (``NAME ALPHA``) and its median
    in each phase (``NAME ALPHA PHASE``); interval PFI (``reference``); and the values of the last explainer with the
    smallest alpha (``importance``), both as shares.
    """
    alphas = sorted({alpha for _, alpha in stream.paper})
    smoothings = {(name, alpha): Smoothing.empty(alpha) for name in explainers for alpha in alphas}
    result: Json = {f"{name} {alpha:g}": [] for name, alpha in smoothings}
    result |= {"reference": [], "importance": []}
    learner.learn(rows[:BLOCK], targets[:BLOCK])
    for explainer in explainers.values():
        explainer.explain_block(learner.predictor(), rows[:BLOCK], targets[:BLOCK].astype(float))
    for first in range(BLOCK, len(rows), BLOCK):
        x, y = rows[first : first + BLOCK], targets[first : first + BLOCK]
        predictor = learner.predictor()
        learner.learn(x, y)
        if order == "after":
            predictor = learner.predictor()
        for name, explainer in explainers.items():
            contributions = explainer.explain_block(predictor, x, y.astype(float))
            for alpha in alphas:
                smoothings[name, alpha].update(contributions)
        done = first + BLOCK
        if done % INTERVAL == 0:
            past = slice(done - INTERVAL, done)
            interval = batch_pfi(
                learner.predictor(), "zero_one", rows[past], targets[past].astype(float),
                permutations=PERMUTATIONS, seed=seed, first_permutation=done // INTERVAL * PERMUTATIONS,
            )  # fmt: skip
            reference = normalised(interval)
            result["reference"].append(reference.tolist())
            for (name, alpha), smoothing in smoothings.items():
                importance = normalised(smoothing.value)
                result[f"{name} {alpha:g}"].append(float(np.abs(importance - reference).sum()))
            result["importance"].append(normalised(smoothings[name, alphas[0]].value).tolist())
    for name, alpha in smoothings:
        key = f"{name} {alpha:g}"
        for phase in PHASES:
            result[f"{key} {phase}"] = float(np.median(result[key][_intervals(stream, phase)]))
    return result


def _intervals(stream: Stream, phase: str) -> slice:
    """Return the intervals of a phase. An interval that ends at the drift is one before it."""
    before = stream.drift // INTERVAL
    return {"whole": slice(None), "before": slice(before), "after": slice(before, None)}[phase]


def events_of(
    folder: Path | None, stream: Stream, seed: int, *, shuffle: bool
) -> tuple[tuple[str, ...], Floats, Integers]:
    """Return names, rows and classes of a stream that changes from an old stream to a new one.

    Each event is the next one of either stream, drawn at random; the chance of the new stream rises as a sigmoid. A
    stream advances only when it is drawn, so the new one begins with its first event.
    """
    draws = np.random.Generator(np.random.PCG64(seed))
    if stream.source == "elec2":
        if folder is None:
            raise InputError("elec2: expected a folder of data sets, got none")
        table = read_table(folder / "elec2.csv.gz", "target", Task.CLASSIFICATION)
        order = draws.permutation(len(table.rows)) if shuffle else np.arange(len(table.rows))
        names = table.names
        old = new = table.rows[order[: stream.events]], table.targets[order[: stream.events]].astype(np.int64)
    else:
        names, *_ = generated(stream.source, stream.functions[0], 1, seed)
        old, new = (generated(stream.source, function, stream.events, seed)[1:] for function in stream.functions)
    swapped = new[0].copy()
    for one, other in stream.swaps:
        a, b = names.index(one), names.index(other)
        swapped[:, [a, b]] = swapped[:, [b, a]]
    apart = 4.0 * (np.arange(stream.events) - stream.drift) / stream.width
    is_new = draws.random(stream.events) < 1.0 / (1.0 + np.exp(-np.clip(apart, -50, 50)))
    rows, targets = np.empty_like(old[0]), np.empty_like(old[1])
    for drawn, (x, y) in ((~is_new, old), (is_new, (swapped, new[1]))):
        count = int(drawn.sum())
        rows[drawn], targets[drawn] = x[:count], y[:count]
    return names, rows, targets
