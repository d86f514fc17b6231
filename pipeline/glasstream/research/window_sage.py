"""SAGE of a sliding window, recomputed from scratch at intervals (paper 002, section 3: SW-SAGE)."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.errors import SettingsError
from glasstream.estimators.live_model import LiveModel
from glasstream.explain.losses import Loss, loss_for
from glasstream.ingest.admission import Task
from glasstream.research.batch_sage import BatchSAGE, batch_sage


class WindowSAGE:
    """SAGE values of the newest events for the current model.

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

    Raises
    ------
    SettingsError
        The loss does not fit the task, or window or stride are below 1.

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
    ) -> None:
        if window < 1 or stride < 1:
            raise SettingsError([f"window SAGE: expected window and stride from 1 on, got {window} and {stride}"])
        self._live = model if isinstance(model, LiveModel) else LiveModel(model)
        self._loss = loss_for(Task(self._live.task), loss)
        self._stride = stride
        self._settings: Mapping[str, Any] = {"inner": inner, "fresh": fresh, "corrected": corrected, "seed": seed}
        self._rows: deque[NDArray[np.float64]] = deque(maxlen=window)
        self._targets: deque[float] = deque(maxlen=window)
        self._seen = 0
        self.newest: BatchSAGE | None = None
        """Newest result; None before the window is full."""

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
        row, target = self._live.event(x, y)
        self._rows.append(row[0])
        self._targets.append(target)
        window = len(self._rows)
        self._seen += 1
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

    @property
    def importance(self) -> dict[str, float]:
        """Newest values by feature name."""
        if self.newest is None:
            return {}
        return dict(zip(self._live.names, self.newest.values.tolist(), strict=False))
