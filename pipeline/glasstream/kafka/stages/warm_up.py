"""Compile the kernels of the explainer and the aggregator ahead, so that their first block blocks no event loop.

Both need no River: they get made-up blocks and contributions of the methods that the settings name. The learner has
`glasstream.flow.learner.warm_up`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.detect.incidents import alarm, detectable, local, segments, series, where
from glasstream.events.admission import Task
from glasstream.events.features import FeatureTable
from glasstream.explain.background import Background
from glasstream.explain.explainer import explain
from glasstream.explain.losses import loss_for, possible_tasks
from glasstream.explain.method import Passing
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.settings import Settings
from glasstream.models.codec import warm_up as codec
from glasstream_topics import contributions, frames, methods, requests
from glasstream_topics.blocks import TEXT
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest

ROWS: Final = 20
"""Rows of a block."""
BLOCKS: Final = 8
POINTS: Final = 4
_NAMES: Final = ["a", "b", "text"]
_CATEGORIES: Final = ("u", "v", "w")
_FORMS: Final = {
    "forest": ("classification trees", "regression trees"),
    "tree": ("classification trees", "regression trees"),
    "linear": ("softmax", "linear"),
}
"""Forms of the snapshots of bundled models."""
_FIXED: Final = ("scored trees", "scored forms")
"""Forms of the snapshots of models in ONNX files, if these are translated."""

_INDICES: Final = tuple(f"attributions.{name}" for name in ("output", "link", "inputs"))
"""Arrays of contributions that are indices and codes."""


def warm_up_explainer(settings: Settings) -> None:
    """Evaluate, and explain made-up blocks with, models of the forms to which the settings can lead.

    Any other model than a bundled one can have parts of any form, so all forms are evaluated. A user's own model is not
    explained.
    """
    name, tasks = settings.model.name, possible_tasks(settings.model.chosen_task, settings.explain.loss)
    small, forms = _small(settings), _FORMS.get(name, ()) if settings.model.learns else _FIXED
    for form, predictor in codec.predictors():
        if form in forms or name not in _FORMS:
            # Of either task: a linear model of two classes has the form of one for regression.
            predictor.evaluate(np.zeros((1, 1)))
        task = Task.CLASSIFICATION if predictor.classes else Task.REGRESSION
        if form in forms and task in tasks:
            for block in blocks(small, task, predictor.classes):
                explain(requests.decode(requests.encode(block)), predictor)


def blocks(settings: Settings, task: Task, classes: Sequence[str]) -> Iterator[ExplainRequest]:
    """Yield made-up blocks as a learner draws them."""
    features, background = FeatureTable(), Background(settings, "small")
    start = settings.explain.first_row
    loss = loss_for(task, settings.explain.loss)
    for first in range(start, start + BLOCKS * ROWS, ROWS):
        x = np.array([features.encode(_features(row))[0] for row in range(first, first + ROWS)])
        answers = np.zeros(ROWS, np.int64), np.ones(ROWS)
        events = Passing(x, features.kinds, first, settings.explain.first_row, answers)
        draws = background.pass_through(x, features.kinds, first, events)
        if first > start:  # earlier rows have filled the reservoir
            yield ExplainRequest(
                stream="small",
                epoch=0,
                partition=0,
                first_row=first,
                version=1,
                seqs=np.arange(first, first + ROWS),
                x=x,
                y=np.zeros(ROWS),
                draws=draws,
                names=list(features.names),
                kinds=[int(kind) for kind in features.kinds],
                classes=list(classes),
                task=task.value,
                loss=loss,
                watched=settings.drift.finds_incidents,
                **background.fields(draws, x, features, len(features.names)),
            )


def warm_up_aggregator(settings: Settings) -> None:
    """Aggregate made-up contributions for each task that is possible, and restore the state half-way."""
    small, tasks = _small(settings), possible_tasks(settings.model.chosen_task, settings.explain.loss)
    for classes in (["x", "y"], ["x", "y", "z"], []):
        if (Task.CLASSIFICATION if classes else Task.REGRESSION) in tasks:
            stream = StreamAggregator.empty("small", small)
            for number, block in enumerate(_contributions(small, classes)):
                if number == BLOCKS // 2:
                    meta, arrays = stream.state()
                    frame = frames.decode(frames.encode("state", 1, meta, arrays), "state", 1)
                    stream = StreamAggregator.restore("small", small, dict(frame.meta), dict(frame.arrays))
                stream.offer(contributions.decode(contributions.encode(block)), number)
            stream.state()
    if settings.drift.finds_incidents:
        series.warm_up()  # the made-up rows are too few
        alarm.warm_up()
        local.warm_up()
        where.warm_up()
        detectable.warm_up()
        if settings.segments.level > 0.0:
            segments.warm_up()


def _contributions(settings: Settings, classes: list[str]) -> Iterator[Contributions]:
    d, outputs = len(_NAMES), max(1, len(classes))
    sizes = {"rows": ROWS, "events": ROWS, "d": d, "k": outputs, "points": POINTS, "outputs": outputs}
    sizes["pairs"] = 3 * settings.attributions.pairs
    shapes = {**methods.LOSS, **(methods.WATCHED if settings.drift.finds_incidents else {})}
    for name in settings.explain.names:
        shapes |= methods.METHODS[name].values
    loss = loss_for(Task.CLASSIFICATION if classes else Task.REGRESSION, settings.explain.loss)
    start = settings.explain.first_row
    for number in range(BLOCKS):
        values: dict[str, NDArray[Any]] = {}
        for name, (dtype, dims) in shapes.items():
            shape = tuple(sizes[str(dim)] for dim in dims)
            values[name] = (np.arange(np.prod(shape)).reshape(shape) % 7 + (number > BLOCKS // 2)).astype(dtype)
        values.get("attributions.pairs", np.empty(0))[...] = -1.0
        for name in ("isage.first", "isage.target", "target", *_INDICES):
            if name in values:
                values[name] = np.zeros_like(values[name])
        if "ipdp.points" in values:
            points = values["ipdp.points"]
            points[:] = np.arange(POINTS)[:, np.newaxis] + number
            points[:, :, d - 1] = np.arange(POINTS)
            points[:, len(_CATEGORIES) :, d - 1] = np.nan
        first = start + number * ROWS
        yield Contributions(
            stream="small",
            epoch=0,
            partition=0,
            first_row=first,
            row=first if settings.explain.every_event else 0,
            parts=[methods.EFFECTS | methods.LABELLED] * ROWS if settings.explain.every_event else [],
            version=1,
            seqs=np.arange(first, first + ROWS),
            kind="ok",
            names=_NAMES,
            kinds=[0, 0, TEXT],
            classes=classes,
            outputs=(classes or [""]) if "ipdp" in settings.explain.names else [],
            texts={d - 1: dict(enumerate(_CATEGORIES))},
            values=values,
            loss=loss,
            flush_before=False,
        )


def _features(row: int) -> dict[str, Any]:
    return {"a": float(row * 37 % 101), "b": float(row * 53 % 97), "text": _CATEGORIES[row % 3]}


def _small(settings: Settings) -> Settings:
    """Return settings with which a short stream reaches every state that a long one does."""
    replace = msgspec.structs.replace
    return replace(
        settings,
        explain=replace(settings.explain, reservoir=10),
        ipdp=replace(settings.ipdp, window=40, store=20),
        publish=replace(settings.publish, every=ROWS // 2),
        drift=replace(settings.drift, grace=ROWS),
    )
