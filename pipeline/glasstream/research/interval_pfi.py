"""Interval PFI: permutation importance of consecutive fixed intervals of a stream (paper 004, experiment B).

It is a naive baseline for explaining a stream. Its values do not change within an interval, and they lag by one
interval.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.errors import SettingsError
from glasstream.estimators.live_model import LiveModel
from glasstream.explain.losses import Loss, loss_for
from glasstream.ingest.admission import Task
from glasstream.research.batch_pfi import batch_pfi


class IntervalPFI:
    """Batch PFI of each interval's events, with the model as it is at the interval's end.

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
    ) -> None:
        if interval < 2 or permutations < 1:
            raise SettingsError(
                [f"interval PFI: expected interval >= 2 and permutations >= 1, got {interval} and {permutations}"]
            )
        self._live = model if isinstance(model, LiveModel) else LiveModel(model)
        self.loss: Loss = loss_for(Task(self._live.task), loss)
        self._interval, self._permutations, self._seed = interval, permutations, seed
        self._rows: list[NDArray[np.float64]] = []
        self._targets: list[float] = []
        self.intervals = 0
        """Number of intervals explained so far."""
        self.importance: dict[str, float] = {}
        """The newest interval's values by feature name; empty before the end of the first."""

    def explain_one(self, x: Mapping[str, Any], y: Any) -> dict[str, float]:
        """Add an event. Call this method before the model learns the event.

        Returns
        -------
        `importance`, which changes only at the end of an interval.

        Raises
        ------
        ModelError
            The event or its target is invalid and was ignored; or the model raised an error, and the interval was
            skipped.
        """
        row, target = self._live.event(x, y)
        self._rows.append(row[0])
        self._targets.append(target)
        if len(self._rows) == self._interval:
            self._explain()
        return self.importance

    def _explain(self) -> None:
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
        self.intervals += 1
        self.importance = dict(zip(self._live.names, values.tolist(), strict=True))
