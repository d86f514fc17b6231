"""iPDP while a model learns a stream with a drift (Muschalik et al. 2023, sections 4.1, 4.2 and 0.C.2)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from river import drift, forest, tree

from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream.events.features import Kind
from glasstream.explain.estimators.ipdp import IncrementalPDP
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.sampling.settings import GridSettings
from glasstream.models.predictors.predictor import Floats
from glasstream.models.river.catalogue import ClassesInOrder
from glasstream_lab.batch_pdp import batch_pdp
from glasstream_lab.gbmap.table_file import read_table
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Experiment, Request, Results, values
from glasstream_lab.papers.models import Integers, StreamLearner
from glasstream_lab.papers.streams import HYPERPLANES, generated
from glasstream_lab.papers.tasks import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHA: Final = 0.001
POINTS: Final = 20
BLOCK: Final = 20
"""Number of events that are explained with the same model, before it learns them."""
BATCH_ROWS: Final = 2_000
"""Number of newest rows of the batch curves."""
CLOSE: Final = 0.05
"""Distance, as a probability, up to which two curves count as the same effect."""


class _Stream(NamedTuple):
    names: tuple[str, ...]
    rows: Floats
    targets: Integers
    ends: tuple[int, ...]
    """Numbers of events after which the curves are kept."""


class _Followed(NamedTuple):
    kept: list[Json]
    """Curves after each of the ends."""
    importance: Floats
    """float64[n], sum of the squared deviations of the smoothed curve from its mean, after each explained event."""


def follow(model: Any, stream: _Stream, feature: str, grid: GridSettings, seed: int) -> _Followed:
    """Learn a stream, and explain every event before it is learned.

    Each kept result holds the curve of the feature, the batch curve of the current model over the newest rows at the
    same points, the mean distance of the two, and the importance of the feature by iPFI.
    """
    learner = StreamLearner(model, stream.names)
    pdp = IncrementalPDP(alpha=ALPHA, grid=grid, start=1, seed=seed)
    pfi = IncrementalPFI(loss="zero_one", alpha=ALPHA, seed=seed)
    slot = stream.names.index(feature)
    learner.learn(stream.rows[:BLOCK], stream.targets[:BLOCK])
    kept, series = [], []
    for first in range(BLOCK, len(stream.rows), BLOCK):
        own = slice(first, first + BLOCK)
        predictor = learner.predictor()
        per_row = pdp.explain_block(predictor, stream.rows[own])
        series.append((grid.points - 1) * per_row.smoothed_importance[:, slot, 0] ** 2)
        pfi.explain_block(predictor, stream.rows[own], stream.targets[own].astype(float))
        learner.learn(stream.rows[own], stream.targets[own])
        if first + BLOCK in stream.ends:
            there = pdp.curves.weight[:, :, 0] > 0.0
            points = np.where(there, pdp.curves.grid[:, :, 0], np.nan).T
            newest = stream.rows[max(0, first + BLOCK - BATCH_ROWS) : first + BLOCK]
            batch = batch_pdp(learner.predictor(), newest, [Kind.NUMBER] * len(stream.names), grid=points)
            own_points = there[slot]
            curve, reference = pdp.curves.curve[slot, own_points, 0], batch.curve[slot, own_points, 0]
            kept.append(
                {
                    "events": first + BLOCK,
                    "grid": points[own_points, slot].tolist(),
                    "curve": curve.tolist(),
                    "batch": reference.tolist(),
                    "distance": float(np.abs(curve - reference).mean()),
                    "rise": float(curve[-1] - curve[0]),
                    "iPFI": pfi.importance[feature],
                }
            )
    return _Followed(kept, np.concatenate(series))


class _Curves(Experiment):
    """What the experiments on generated streams share: tasks, and the figure."""

    paper = "iPDP"
    repetitions = 5
    quick_repetitions = 2

    def tasks(self, request: Request) -> list[Json]:
        return [{"seed": seed} for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        followed = self.followed(task["seed"])
        result: Json = {"kept": followed.kept}
        for one in followed.kept:
            result |= {f"{key} {one['events']}": one[key] for key in ("distance", "rise", "iPFI")}
        return result

    def followed(self, seed: int) -> _Followed:
        """Return the curves of a repetition."""
        raise NotImplementedError

    def figure(self, results: Results) -> "Figure":
        """Return the curves of the first repetition, with the batch curves."""
        from matplotlib.figure import Figure

        kept = results[0][1]["kept"]
        figure = Figure(figsize=(4 * len(kept), 3.5), layout="constrained")
        for axes, one in zip(figure.subplots(1, len(kept), squeeze=False)[0], kept, strict=True):
            axes.plot(one["grid"], one["curve"], "r-", label="iPDP")
            axes.plot(one["grid"], one["batch"], "b--", label="batch PDP of the newest rows")
            axes.set(title=f"after {one['events']:,} events", ylim=(0, 1))
            axes.legend(fontsize=7)
        return figure


class Hyperplane(_Curves):
    """Curve of an adaptive tree on a hyperplane that moves."""

    name = "ipdp-hyperplane"
    shows = "Figure 5"
    summary = "Follow an effect that turns around and moves."
    minutes = 0.5
    quick_omits = "three of five repetitions"
    settings = (
        "The standard deviations (20 and 40) and the noise (mean 5, standard deviation 1) are those of the authors' "
        "published code; the paper calls 20 and 40 variances, and does not state the noise.",
        "The paper publishes a figure. In place of its numbers stand those of the known effect: it rises from 0 to 1 "
        f"before the drift, and falls from 1 to 0 after it. A tree's effect may differ by {4 * CLOSE:g}, and the curve "
        f"by {CLOSE:g} from that of batch PDP of the current model over the newest {BATCH_ROWS:,} rows.",
        f"{BLOCK} events share the model, before they are learned.",
    )
    concept: ClassVar = 20_000

    def followed(self, seed: int) -> _Followed:
        """Return the curves of a repetition."""
        parts = [plane.events(self.concept, 2 * seed + number) for number, plane in enumerate(HYPERPLANES)]
        rows, targets = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
        stream = _Stream(("x_1", "x_2"), rows, targets, (self.concept, self.concept + 500, 2 * self.concept))
        model = tree.HoeffdingAdaptiveTreeClassifier(seed=seed)
        model.classes = ClassesInOrder()
        return follow(model, stream, "x_1", GridSettings(grid="extremes", points=POINTS, window=2_000), seed)

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for events, known in ((self.concept, 1.0), (2 * self.concept, -1.0)):
            of = f"after {events:,} events"
            rise, distance, pfi = (values(results, f"{key} {events}") for key in ("rise", "distance", "iPFI"))
            rows.append(Row(f"rise of the effect of x_1 {of}", rise, known, tolerance=4 * CLOSE))
            rows.append(Row(f"distance from batch PDP {of}", distance, 0.0, "above", tolerance=CLOSE))
            rows.append(Row(f"iPFI of x_1 {of}", pfi, None))
        return rows


class Agrawal(_Curves):
    """Curve of a forest on Agrawal with two drifts."""

    name = "ipdp-agrawal"
    shows = "Figures 2 and 8"
    summary = "Compare iPDP with batch PDP after two drifts."
    minutes = 3
    quick_omits = "three of five repetitions"
    settings = (
        "Functions (River's 2, then 1), drifts every 10,000 events, the wider salaries of the third concept (times 1 "
        "to 4/3) and grids between the extremes of 100 rows are those of the authors' published code.",
        "The paper publishes figures and states that iPDP shows the same effects as batch PDP. Here this means a mean "
        f"distance of {CLOSE:g} at most from batch PDP of the current model over the newest {BATCH_ROWS:,} rows.",
        f"{BLOCK} events share the model, before they are learned.",
    )
    concept: ClassVar = 10_000

    def followed(self, seed: int) -> _Followed:
        """Return the curves of a repetition."""
        names, *first = generated("agrawal", 2, self.concept, 2 * seed)
        _, rows, targets = generated("agrawal", 1, 2 * self.concept, 2 * seed + 1)
        wider = np.random.Generator(np.random.PCG64(seed)).uniform(1.0, 4 / 3, self.concept)
        rows[self.concept :, names.index("salary")] *= wider
        stream = _Stream(
            names, np.concatenate([first[0], rows]), np.concatenate([first[1], targets]),
            tuple(self.concept * number for number in (1, 2, 3)),
        )  # fmt: skip
        return follow(
            forest.ARFClassifier(10, seed=seed),
            stream,
            "salary",
            GridSettings(grid="extremes", points=POINTS, window=100),
            seed,
        )

    def rows(self, results: Results) -> Sequence[Row]:
        return [
            Row(
                f"distance from batch PDP after {events:,} events",
                values(results, f"distance {events}"), 0.0, "above", tolerance=CLOSE,
            )
            for events in (self.concept, 2 * self.concept, 3 * self.concept)
        ]  # fmt: skip


class Elec2(Experiment):
    """Alarms of ADWIN on the importance of the curve of vicprice."""

    name = "ipdp-elec2"
    paper = "iPDP"
    shows = "Figure 4"
    summary = "Detect changes of a curve while a forest learns elec2."
    minutes = 12
    data = ("elec2",)
    quick_data = ("elec2",)
    repetitions = 5
    quick_repetitions = 2
    quick_omits = "three of five repetitions, and all events after the first 24,000"
    alarms: ClassVar = (22_293, 35_893, 43_957)
    """Events of the alarms that the paper selects for its figure."""
    quick_events: ClassVar = 24_000
    settings = (
        "ADWIN has delta = 0.00001 and waits for 2,000 events, and the importance is the sum of the squared deviations "
        "from the mean of the curve, as in the authors' published code.",
        "The paper selects three of its alarms. Beside each stands our nearest one, which may be 1,000 events off: the "
        "forest is another one for each random seed.",
        f"{BLOCK} events share the model, before they are learned.",
    )

    def tasks(self, request: Request) -> list[Json]:
        events = self.quick_events if request.quick else None
        return [{"data": "elec2", "events": events, "seed": seed} for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        if folder is None:
            raise InputError("elec2: expected a folder of data sets, got none")
        table = read_table(folder / "elec2.csv.gz", "target", Task.CLASSIFICATION, (), task["events"])
        stream = _Stream(table.names, table.rows, table.targets.astype(np.int64), ())
        grid = GridSettings(grid="quantile_range", points=10)
        followed = follow(forest.ARFClassifier(10, seed=task["seed"]), stream, "vicprice", grid, task["seed"])
        detector = drift.ADWIN(delta=1e-5, grace_period=2_000)
        alarms = []
        for event, importance in enumerate(np.nan_to_num(followed.importance).tolist(), BLOCK + 1):
            detector.update(importance)
            if detector.drift_detected:
                alarms.append(event)
        prices = stream.rows[:, table.names.index("vicprice")]
        start = int(np.argmax(prices != prices[0]))
        return {
            "alarms": alarms,
            "before": float(np.nanmax(followed.importance[1_000 : start - BLOCK])),
            "importance": followed.importance[::100].tolist(),
        }

    def rows(self, results: Results) -> Sequence[Row]:
        rows = [
            Row(
                "largest importance while vicprice is constant", values(results, "before"), 0.0, "above", tolerance=1e-6
            )
        ]
        for event in self.alarms:
            nearest = [
                float(min(result["alarms"], key=lambda one: abs(one - event)))
                for task, result in results
                if result["alarms"] and (task["events"] is None or event < task["events"])
            ]
            if nearest:
                rows.append(Row(f"alarm nearest to event {event:,}", nearest, float(event), tolerance=1_000.0))
        rows.append(Row("number of alarms", [float(len(result["alarms"])) for _, result in results], None))
        return rows
