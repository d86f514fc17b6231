"""iSAGE for a River model that keeps learning (paper 002, Algorithm 1)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from glasstream.aggregator.bounds import bound
from glasstream.aggregator.intervals import normal
from glasstream.aggregator.isage import SageAggregator
from glasstream.aggregator.overlap import Overlap
from glasstream.background.orders import orders
from glasstream.background.reservoir import SAMPLINGS, Reservoir, Wanted
from glasstream.background.settings import StorageSettings
from glasstream.background.storage import ConditionalStorage
from glasstream.draws import stream_key
from glasstream.errors import ModelError, SettingsError, StateError
from glasstream.estimators.live_model import LiveModel
from glasstream.explain.isage import check_correction, contributions
from glasstream.explain.losses import Loss, loss_for, with_classes
from glasstream.ingest.admission import Task
from glasstream.ingest.features import Kind
from glasstream.models.contract.predictor import Predictor

Floats = NDArray[np.float64]
Removal = Literal["marginal", "conditional"]


class IncrementalSAGE:
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
        Number m of background rows drawn for each event. Without `corrected`, a small m shifts the values towards the
        important features by terms of the order 1/m.
    reservoir, sampling
        Size of the reservoir and its sampling strategy, see `glasstream.background.reservoir`.
    start
        First event that is explained, counted from 1. None for the event at which the reservoir is full.
    removal
        ``marginal``: background rows come from the reservoir. ``conditional``: they come from storage trees, given the
        features that are present.
    storage
        Settings of the storage trees; None for the defaults.
    fresh
        Whether to draw background rows anew for each step instead of once per event. The expectation is the same, but
        the variance is larger. Conditional removal always draws anew.
    corrected
        Whether to remove the bias of a finite m. This needs squared or Brier loss and m of at least 2.
    seed, stream
        Random seed and name of the stream. Every draw is a function of both and of the event's number.

    Raises
    ------
    SettingsError
        The loss does not fit the task, there is no correction for it, or a number is out of range.
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
        corrected: bool = False,
        seed: int = 0,
        stream: str = "",
    ) -> None:
        self._live = model if model is None or isinstance(model, LiveModel) else LiveModel(model)
        self.start = reservoir if start is None else start
        _check(alpha, inner, reservoir, sampling, self.start, removal)
        if self._live is not None:
            loss = loss_for(Task(self._live.task), loss)
        if loss is None:
            raise SettingsError(["iSAGE: expected a loss, since there is no model to choose a default for"])
        if corrected:
            check_correction(loss, inner)
        self.loss: Loss = loss
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
        self.rows = 0
        """Number of events seen, explained or not."""
        self._names: tuple[str, ...] = ()

    def explain_one(self, x: Mapping[str, Any], y: Any) -> dict[str, float]:
        """Explain one event. Call this method before the model learns the event.

        Parameters
        ----------
        x
            Numbers, booleans and texts by feature name. A feature that is None or missing is absent.
        y
            True class or number.

        Returns
        -------
        `importance` as of this event.

        Raises
        ------
        ModelError
            The event or its target is invalid, or the model raised an error or returned no finite number. The event is
            not explained. The estimator remains usable.
        """
        if self._live is None:
            raise ModelError("expected a River model to ask, got None; give one, or use explain_block")
        row, target = self._live.event(x, y)
        targets = np.array([target])
        self._names = self._live.names
        explained = self.rows >= self.start
        self._advance(self._live.predictor if explained else None, row, targets, self._live.kinds)
        return self.importance

    def explain_block(
        self, predictor: Predictor, rows: Floats, targets: Floats, kinds: Sequence[Kind] | None = None
    ) -> Floats:
        """Explain consecutive events with one state of a model.

        The places where events are cut into blocks change no number.

        Parameters
        ----------
        predictor
            Model to explain. New classes and features come after those of earlier predictors.
        rows
            (n, d), NaN where a feature is absent; d may have grown.
        targets
            (n,) true value, or index of the true class among the predictor's classes (-1 if it is not among them).
        kinds
            Kinds of the features, which conditional removal needs; None if all are numbers.

        Returns
        -------
        (explained, d) contributions of the rows from `start` on.

        Raises
        ------
        ModelError
            The model raised an error or returned no finite number. None of the rows counts as explained.
        """
        self._names = max(self._names, tuple(predictor.features), key=len)
        return self._advance(predictor, rows, targets, kinds or [Kind.NUMBER] * rows.shape[1])

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
    def importance(self) -> dict[str, float]:
        """Values by feature name, without start-up bias; empty before the first explained event."""
        return self._named(self.aggregator.smoothing.value)

    @property
    def raw(self) -> dict[str, float]:
        """Values smoothed from 0, with start-up bias."""
        return self._named(self.aggregator.smoothing.raw)

    @property
    def variance(self) -> dict[str, float]:
        """Variance of the contributions under the weights of the smoothing."""
        return self._named(self.aggregator.smoothing.variance)

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

    def interval(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return low and high by name, see `glasstream.aggregator.intervals`; empty while there are too few events."""
        found = normal(self.aggregator.smoothing, level)
        if found is None:
            return {}
        low, high = found
        return dict(zip(self._names, zip(low.tolist(), high.tolist(), strict=True), strict=False))

    def bound(self, delta: float = 0.1) -> dict[str, float]:
        """Return bounds that the errors exceed with probability δ at most, see `glasstream.aggregator.bounds`."""
        return self._named(bound(self.aggregator.smoothing, delta))

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
        live = {} if self._live is None else {"live": self._live.state()}
        meta |= {"rows": self.rows, "names": list(self._names), **live}
        return meta, {**arrays, "reservoir": reservoir.rows.copy()}

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
        """Restore a state that `state` returned. The settings must be the same.

        Raises
        ------
        StateError
            The state is incomplete or does not fit, or removal is conditional.
        """
        reservoir = self._reservoir()
        aggregator = SageAggregator.restore(self._alpha, meta, arrays, self._overlap)
        try:
            rows, names = int(meta["rows"]), tuple(str(name) for name in meta["names"])
            held = np.array(arrays["reservoir"], np.float64)
            if held.ndim != 2 or len(held) != reservoir.size:
                raise ValueError(f"expected {reservoir.size} rows in the reservoir, got shape {held.shape}")
            if self._live is not None:
                self._live.restore(meta["live"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"iSAGE: the state is not one of an estimator with these settings ({error!r})") from error
        reservoir.rows, self.aggregator, self.rows, self._names = held, aggregator, rows, names

    def _reservoir(self) -> Reservoir:
        if isinstance(self._background, Reservoir):
            return self._background
        raise StateError("iSAGE: expected marginal removal, for storage trees are no arrays; pickle the estimator")

    def _named(self, values: Floats) -> dict[str, float]:
        return dict(zip(self._names, values.tolist(), strict=False))


def _check(alpha: float, inner: int, reservoir: int, sampling: str, start: int, removal: str) -> None:
    findings = []
    if not 0.0 < alpha <= 1.0:
        findings.append(f"iSAGE alpha: expected a number above 0 and at most 1, got {alpha}")
    for name, number in (("inner", inner), ("reservoir", reservoir), ("start", start)):
        if number < 1:
            findings.append(f"iSAGE {name}: expected a number from 1 on, got {number}")
    if sampling not in SAMPLINGS:
        findings.append(f"iSAGE sampling: expected one of {', '.join(SAMPLINGS)}, got {sampling!r}")
    if removal not in get_args(Removal):
        findings.append(f"iSAGE removal: expected one of {', '.join(get_args(Removal))}, got {removal!r}")
    if findings:
        raise SettingsError(findings)
