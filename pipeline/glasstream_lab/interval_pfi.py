"""Interval PFI: permutation importance of consecutive fixed intervals of a stream (paper 004, experiment B).

It is a naive baseline for explaining a stream. Its values do not change within an interval, and they lag by one
interval.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import stream_key
from glasstream.base.errors import ModelError, SettingsError
from glasstream.events.admission import Task
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.losses import Loss, loss_for
from glasstream.explain.pfi import contributions
from glasstream.explain.sampling.reservoir import Reservoir
from glasstream_lab.batch_pfi import batch_pfi


class IntervalPFI:
    """PFI of each interval's events.

    By default, it is the batch PFI of the model as it is at the interval's end. That model has learned all events of
    the interval but the last. Its importances therefore also show how well it remembers these events. In the
    prequential mode, each event is judged by the model that has not learned it, as iPFI does.

    Parameters
    ----------
    model
        A River model, or a `LiveModel` over one.
    loss
        Name of a loss in `glasstream.explain.losses.LOSSES` or a `CustomLoss`; None for the default of the task.
    interval
        Number of events that are explained together, at least 2.
    permutations, seed
        Parameters of `batch_pfi`.
    prequential
        Whether to judge each event with the model at this event, before the model learns it. The values for a feature
        come from `permutations` rows drawn from the `interval` events before this one, since later ones are not known
        yet. So the first event of all is not judged.

    Raises
    ------
    SettingsError
        The loss does not fit the task, or a number is out of range.

    Examples
    --------
    >>> from river import linear_model
    >>> model = linear_model.LinearRegression()
    >>> pfi = IntervalPFI(model, interval=20)
    >>> for t in range(60):
    ...     x, y = {"used": t % 5, "noise": t % 3}, 2.0 * (t % 5)
    ...     values = pfi.explain_one(x, y)
    ...     model.learn_one(x, y)
    >>> values["used"] > abs(values["noise"])
    True
    """

    def __init__(
        self,
        model: Any,
        loss: Loss | None = None,
        *,
        interval: int = 1_000,
        permutations: int = 10,
        seed: int = 0,
        prequential: bool = False,
    ) -> None:
        if interval < 2 or permutations < 1:
            raise SettingsError(
                [f"interval PFI: expected interval >= 2 and permutations >= 1, got {interval} and {permutations}"]
            )
        self._live = model if isinstance(model, LiveModel) else LiveModel(model)
        self.loss: Loss = loss_for(Task(self._live.task), loss)
        self._interval, self._permutations, self._seed = interval, permutations, seed
        self._next = self._live.events
        self._rows: list[NDArray[np.float64]] = []
        self._targets: list[float] = []
        self._reservoir: Reservoir | None = None
        self._judged: list[NDArray[np.float64]] = []
        self._seen = 0
        if prequential:
            self._reservoir = Reservoir.empty(interval, "window", stream_key(seed, "interval PFI"))
        self.intervals = 0
        """Number of intervals explained so far."""
        self.importance: dict[str, float] = {}
        """The newest interval's values by feature name; empty before the end of the first."""

    @property
    def live(self) -> LiveModel:
        """The adapter through which the model is called."""
        return self._live

    def explain_one(self, x: Mapping[str, Any], y: Any) -> dict[str, float]:
        """Add an event. Call this method before the model learns the event.

        Returns
        -------
        `importance`, which changes only at the end of an interval.

        Raises
        ------
        ModelError
            The event or its target is invalid and was ignored; or the model raised an error, and the interval was
            skipped (in the prequential mode: the event was not judged).
        """
        row, target = self._live.event(x, y, self._next)
        self._next += 1
        self._seen += 1
        try:
            if self._reservoir is not None:
                self._judge(self._reservoir, row, target)
            else:
                self._rows.append(row[0])
                self._targets.append(target)
        finally:
            if self._seen % self._interval == 0:
                self._explain()
        return self.importance

    def _judge(self, reservoir: Reservoir, row: NDArray[np.float64], target: float) -> None:
        draws = reservoir.pass_through(row, self._seen - 1, 1, self._permutations)
        if not len(draws):
            return
        judged = contributions(self._live.predictor, self.loss, row, np.array([target]), draws)
        if not np.isfinite(judged).all():
            raise ModelError("expected finite predictions, got one that is not; scale the features")
        self._judged.append(judged[0])

    def _explain(self) -> None:
        if self._reservoir is not None:
            total = np.zeros(len(self._live.names))
            for judged in self._judged:  # a feature that is new has contributed 0 before
                total[: len(judged)] += judged
            self._end(total / max(len(self._judged), 1))
            self._judged.clear()
            return
        rows = np.full((self._interval, len(self._live.names)), np.nan)
        for place, row in zip(rows, self._rows, strict=True):
            place[: len(row)] = row
        targets = np.array(self._targets)
        self._rows.clear()
        self._targets.clear()
        values = batch_pfi(
            self._live.predictor,
            self.loss,
            rows,
            targets,
            permutations=self._permutations,
            seed=self._seed,
            # a feature that is new moves the numbers on, never back
            first_permutation=self.intervals * self._permutations,
        )
        self._end(values)

    def _end(self, values: NDArray[np.float64]) -> None:
        self.intervals += 1
        self.importance = dict(zip(self._live.names, values.tolist(), strict=True))
