"""SAGE of a sliding window, recomputed from scratch at intervals (paper 002, section 3: SW-SAGE)."""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import stream_key
from glasstream.base.errors import ModelError, SettingsError
from glasstream.events.admission import Task
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.losses import Loss, loss_for, losses, with_classes
from glasstream.explain.sage.contributions import OpenContributions, contributions, first_largest
from glasstream.explain.sampling.orders import orders
from glasstream.explain.sampling.reservoir import Reservoir, Wanted
from glasstream_lab.batch_sage import BatchSAGE, batch_sage


class WindowSAGE:
    """SAGE values of the newest events.

    By default, they are the values for the current model, which has learned all events of the window but the last. In
    the prequential mode, each event is judged by the model that has not learned it, as iSAGE does.

    This baseline is much slower than iSAGE, and it forgets an event abruptly when the event leaves the window.

    Parameters
    ----------
    model
        A River model, or a `LiveModel` over one.
    loss
        Name of a loss in `glasstream.explain.losses.LOSSES` or a `CustomLoss`; None for the default of the task.
    window
        Number w of events that are explained together and serve as background.
    stride
        Number of events between two computations.
    inner, fresh, corrected, seed
        Parameters of `batch_sage`.
    prequential
        Whether to judge each event with the model at this event, before the model learns it. Its background rows are
        different rows of the `window` events before it, so the first events, fewer than the smaller one of `inner` and
        `window`, are not judged. The mean prediction is the mean over the window of each model's own prediction.

    Raises
    ------
    SettingsError
        The loss does not fit the task, or window, stride or inner are below 1.

    Examples
    --------
    >>> from river import linear_model
    >>> model = linear_model.LinearRegression()
    >>> sage = WindowSAGE(model, window=20, stride=10)
    >>> for t in range(40):
    ...     x, y = {"used": t % 5, "noise": t % 3}, 2.0 * (t % 5)
    ...     values = sage.explain_one(x, y)
    ...     model.learn_one(x, y)
    >>> values["used"] > abs(values["noise"])
    True
    """

    def __init__(
        self,
        model: Any,
        loss: Loss | None = None,
        *,
        window: int = 1_000,
        stride: int = 100,
        inner: int = 5,
        fresh: bool = False,
        corrected: bool = False,
        seed: int = 0,
        prequential: bool = False,
    ) -> None:
        if window < 1 or stride < 1 or inner < 1:
            raise SettingsError(
                [f"window SAGE: expected window, stride and inner from 1 on, got {window}, {stride} and {inner}"]
            )
        self._live = model if isinstance(model, LiveModel) else LiveModel(model)
        self._loss = loss_for(Task(self._live.task), loss)
        self._stride = stride
        self._settings: Mapping[str, Any] = {"inner": inner, "fresh": fresh, "corrected": corrected, "seed": seed}
        self._next = self._live.events
        self._rows: deque[NDArray[np.float64]] = deque(maxlen=window)
        self._targets: deque[float] = deque(maxlen=window)
        self._seen = self._explained = 0
        self._key = stream_key(seed, "window SAGE")
        self._reservoir = Reservoir.empty(window, "window", self._key) if prequential else None
        self._judged: deque[OpenContributions] = deque(maxlen=window)
        self.newest: BatchSAGE | None = None
        """Newest result; None before the window is full."""

    @property
    def live(self) -> LiveModel:
        """The adapter through which the model is called."""
        return self._live

    def explain_one(self, x: Mapping[str, Any], y: Any) -> dict[str, float]:
        """Add an event to the window. Call this method before the model learns the event.

        The values are computed when the window becomes full, and every `stride` events from then on.

        Returns
        -------
        Newest values by feature name; empty before the window is full.

        Raises
        ------
        ModelError
            The event or its target is invalid, or the model raised an error.
        """
        row, target = self._live.event(x, y, self._next)
        self._next += 1
        self._seen += 1
        if self._reservoir is not None:
            self._judge(self._reservoir, row, target)
            return self.importance
        self._rows.append(row[0])
        self._targets.append(target)
        window = len(self._rows)
        if window == self._rows.maxlen and (self._seen - window) % self._stride == 0:
            rows = np.full((window, len(self._live.names)), np.nan)
            for place, row in zip(rows, self._rows, strict=True):
                place[: len(row)] = row
            first_draw = (self._seen - window) // self._stride * window
            targets = np.array(self._targets)
            self.newest = batch_sage(
                self._live.predictor, self._loss, rows, targets, first_draw=first_draw, **self._settings
            )
        return self.importance

    def _judge(self, reservoir: Reservoir, row: NDArray[np.float64], target: float) -> None:
        number, window = self._seen - 1, reservoir.size
        inner, corrected = self._settings["inner"], self._settings["corrected"]
        wanted = Wanted(rows=inner, fresh=self._settings["fresh"])
        background = reservoir.serve(row, number, min(inner, window), wanted).rows
        if not len(background):
            return
        predictor = self._live.predictor
        loss = with_classes(self._loss, predictor.classes)
        order = orders(self._key, number, 1, row.shape[1])
        judged = contributions(predictor, loss, row, np.array([target]), order, background, corrected)
        if not (np.isfinite(judged.contributions).all() and np.isfinite(judged.predictions).all()):
            raise ModelError("expected finite predictions, got one that is not; scale the features")
        self._judged.append(judged)
        self._explained += 1
        if len(self._judged) == window and (self._explained - window) % self._stride == 0:
            self.newest = _together(self._judged, loss, row.shape[1])

    @property
    def importance(self) -> dict[str, float]:
        """Newest values by feature name."""
        if self.newest is None:
            return {}
        return dict(zip(self._live.names, self.newest.values.tolist(), strict=False))


def _together(judged: Collection[OpenContributions], loss: Loss, width: int) -> BatchSAGE:
    """Return the values of the events of a window, with the mean over their predictions as first prediction."""
    outputs = max(one.predictions.shape[1] for one in judged)
    predictions = np.concatenate([_widened(one.predictions, outputs) for one in judged])
    mean = predictions.mean(axis=0, keepdims=True)
    label = first_largest(mean)
    values, marginal_losses = [], []
    for one in judged:
        value, marginal = one.completed(losses(loss, mean, label, one.targets))
        values.append(_widened(value, width))
        marginal_losses.append(marginal)
    model_losses = np.concatenate([one.model_losses for one in judged])
    return BatchSAGE(np.concatenate(values), np.concatenate(marginal_losses), model_losses)


def _widened(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return (1, width) values, with 0 for features and classes that were not known yet."""
    return np.pad(values, ((0, 0), (0, width - values.shape[1])))
