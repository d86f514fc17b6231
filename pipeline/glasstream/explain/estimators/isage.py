"""iSAGE for a River model that keeps learning (paper 002, Algorithm 1)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import stream_key
from glasstream.base.errors import FrameError, ModelError, SettingsError, StateError
from glasstream.events.features import Kind
from glasstream.explain.estimators.incremental import IncrementalImportance, findings, held
from glasstream.explain.intervals import Interval
from glasstream.explain.losses import Loss, with_classes
from glasstream.explain.overlap import Overlap
from glasstream.explain.sage.contributions import contributions, correctable
from glasstream.explain.sage.smoothing import SageAggregator
from glasstream.explain.sampling.orders import orders
from glasstream.explain.sampling.reservoir import Reservoir, Wanted
from glasstream.explain.sampling.settings import StorageSettings
from glasstream.explain.sampling.storage import ConditionalStorage
from glasstream.explain.smoothing import Smoothing
from glasstream.models.predictors.predictor import Predictor

Floats = NDArray[np.float64]
Removal = Literal["marginal", "conditional"]


class IncrementalSAGE(IncrementalImportance):
    """Shapley values of the features: how much each contributes to the model's advantage over its mean prediction.

    After every event, the values add up to `total`, the smoothed loss of the mean prediction minus that of the model.
    An estimator can be pickled together with its model and continues bit-identically. Use `state` for a state that is
    data only.

    Parameters
    ----------
    model
        A River classifier or regressor, or a `LiveModel` over one. None if only `explain_block` is used, which needs
        `loss`.
    loss
        Name of a loss in `glasstream.explain.losses.LOSSES` or a `CustomLoss`; None for the default of the task.
    alpha
        Smoothing factor α in (0, 1]. A window of N events corresponds to 2 / (N + 1).
    inner
        Number m of background rows drawn for each event. They are different rows if the reservoir holds that many.
        Without a correction, a small m shifts the values towards the important features by terms of the order 1/m.
    reservoir, sampling
        Size of the reservoir and its sampling strategy, see `glasstream.explain.sampling.reservoir`.
    start
        First event that is explained, counted from 0 and at least 1. None for the event at which the reservoir is full.
    removal
        ``marginal``: background rows come from the reservoir. ``conditional``: they come from storage trees, given the
        features that are present.
    storage
        Settings of the storage trees; None for the defaults.
    fresh
        Whether to draw new background rows for each step instead of once per event. The expectation is the same, but
        the variance is larger. Conditional removal always draws new rows.
    corrected
        Whether to remove the bias of a finite m where that is possible: for squared and Brier loss with m of at least
        2, and for cross-entropy with m of at least 3. See `biased`.
    seed, stream
        Random seed and name of the stream. Every draw is a function of both and of the event's number.

    Raises
    ------
    SettingsError
        The loss does not fit the task, or a number is out of range.
    ModelError
        `model` is not a River classifier or regressor.

    Examples
    --------
    >>> from river import linear_model
    >>> model = linear_model.LinearRegression()
    >>> sage = IncrementalSAGE(model, alpha=0.05, reservoir=20)
    >>> for t in range(200):
    ...     x, y = {"used": t % 5, "noise": t % 3}, 2.0 * (t % 5)
    ...     values = sage.explain_one(x, y)
    ...     model.learn_one(x, y)
    >>> values["used"] > 5 > abs(values["noise"])
    True
    >>> abs(sum(values.values()) - sage.total) < 1e-9
    True
    """

    def __init__(
        self,
        model: Any = None,
        loss: Loss | None = None,
        *,
        alpha: float = 0.001,
        inner: int = 5,
        reservoir: int = 100,
        sampling: str = "geometric",
        start: int | None = None,
        removal: Removal = "marginal",
        storage: StorageSettings | None = None,
        fresh: bool = False,
        corrected: bool = True,
        seed: int = 0,
        stream: str = "",
    ) -> None:
        start = reservoir if start is None else start
        wrong = findings("iSAGE", alpha, sampling, {"inner": inner, "reservoir": reservoir, "start": start})
        if removal not in get_args(Removal):
            wrong.append(f"iSAGE removal: expected one of {', '.join(get_args(Removal))}, got {removal!r}")
        if wrong:
            raise SettingsError(wrong)
        super().__init__("iSAGE", model, loss, start)
        self._alpha, self._inner, self._fresh, self._corrected = alpha, inner, fresh, corrected
        self._key = stream_key(seed, stream)
        storage = storage or StorageSettings()
        self._background: Reservoir | ConditionalStorage = (
            Reservoir.empty(reservoir, sampling, self._key)
            if removal == "marginal"
            else ConditionalStorage.empty(storage, self._key)
        )
        self._overlap = (
            Overlap.of(sampling, reservoir, inner * (2 if fresh else 1))
            if removal == "marginal"
            else Overlap.of("geometric", storage.size, 2 * inner)
        )
        self.aggregator = SageAggregator.empty(alpha, self._overlap)

    def _advance(self, predictor: Predictor | None, rows: Floats, targets: Floats, kinds: Sequence[Kind]) -> Floats:
        count, width = rows.shape
        explained = min(count, max(0, self.rows + count - self.start))
        order = orders(self._key, self.rows + count - explained, explained, width)
        if isinstance(self._background, Reservoir):
            wanted = Wanted(rows=self._inner, fresh=self._fresh)
            background = self._background.serve(rows, self.rows, self.start, wanted).rows
        else:
            background = self._background.pass_through(rows, self.rows, self.start, order, self._inner, kinds)
        self.rows += count
        if predictor is None or not explained:
            return np.empty((0, width))
        own = slice(count - explained, count)
        loss = with_classes(self.loss, predictor.classes)
        block = contributions(predictor, loss, rows[own], targets[own], order, background, self._corrected)
        if not (np.isfinite(block.contributions).all() and np.isfinite(block.predictions).all()):
            raise ModelError("expected finite predictions, got one that is not; scale the features")
        return self.aggregator.update(loss, block)

    @property
    def _smoothing(self) -> Smoothing:
        return self.aggregator.smoothing

    @property
    def biased(self) -> bool:
        """Whether the values have a bias of unknown size, so that `interval` is empty.

        The bias of a finite m is unknown without a correction, if the m rows are not always different rows, and for
        conditional removal.
        """
        if not (self._corrected and isinstance(self._background, Reservoir)):
            return True
        return not correctable(self.loss, self._inner) or self._inner > min(self._background.size, self.start)

    def _interval(self, level: float) -> Interval | None:
        return None if self.biased else self.aggregator.interval(level)

    @property
    def marginal_loss(self) -> float:
        """Smoothed loss of the mean prediction."""
        return self.aggregator.marginal_loss

    @property
    def model_loss(self) -> float:
        """Smoothed loss of the model."""
        return self.aggregator.model_loss

    @property
    def total(self) -> float:
        """`marginal_loss` minus `model_loss`: the sum of the values."""
        return self.aggregator.total

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return the state as JSON values and arrays.

        An estimator with the same settings continues bit-identically from it. The state contains neither the model nor
        a `CustomLoss`.

        Raises
        ------
        StateError
            Removal is conditional. River trees cannot be stored as arrays.
        """
        reservoir = self._reservoir()
        meta, arrays = self.aggregator.state()
        return {**meta, **self._meta()}, {**arrays, "reservoir": reservoir.rows.copy()}

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
        """Restore a state that `state` returned. The settings must be the same.

        Raises
        ------
        StateError
            The state is incomplete or does not fit, or removal is conditional.
        """
        reservoir = self._reservoir()
        try:
            aggregator = SageAggregator.restore(self._alpha, meta, arrays, self._overlap)
            rows = held(reservoir, arrays["reservoir"])
            self._restore_meta(meta)
        except (FrameError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"iSAGE: the state is not one of an estimator with these settings ({error!r})") from error
        reservoir.rows, self.aggregator = rows, aggregator

    def _reservoir(self) -> Reservoir:
        if isinstance(self._background, Reservoir):
            return self._background
        raise StateError("iSAGE: expected marginal removal, for storage trees are no arrays; pickle the estimator")
