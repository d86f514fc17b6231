"""iPDP for a River model that keeps learning (paper 001, Algorithm 1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import stream_key
from glasstream.base.errors import ModelError, SettingsError
from glasstream.events.features import Kind, decoded
from glasstream.explain.estimators.live_model import LiveModel, is_missing
from glasstream.explain.pdp import contributions as ipdp
from glasstream.explain.pdp.curves import Curves, Effect, PerRow
from glasstream.explain.pdp.surfaces import Surface
from glasstream.explain.sampling.grids import Grids, categorical, points
from glasstream.explain.sampling.settings import GridSettings
from glasstream.models.predictors.predictor import CLASSIFICATION, Predictor
from glasstream_topics.notebook import curve, table

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceOf:
    """Effect of a pair of features on one output.

    Attributes
    ----------
    first, second, value
        (m, m) arrays: value of the first feature, value of the second feature, and smoothed prediction in each cell;
        NaN where there is no cell.
    """

    first: Floats
    second: Floats
    value: Floats


class IncrementalPDP:
    """Effect curves of every feature, on a grid that follows the feature's range.

    Parameters
    ----------
    model
        A River classifier or regressor, or a `LiveModel` over one. None if only `explain_block` is used.
    alpha
        Smoothing factor α in (0, 1]. A window of N events corresponds to 2 / (N + 1).
    grid
        Settings of the grids; None for the defaults of `GridSettings`.
    start
        First event that is explained, counted from 0 and at least 1. Earlier events enter the grids only.
    output
        Class whose probability the curves show. None for the second of two classes by name, or for each of more.
    keep
        Number of ICE curves to keep.
    pairs
        Pairs of feature names whose joint effect is followed too. Each costs m² evaluations per event.
    seed, stream
        Random seed and name of the stream. Every draw is a function of both and of the event's number.

    Raises
    ------
    SettingsError
        A number is out of range.
    ModelError
        `model` is not a River classifier or regressor.

    Examples
    --------
    >>> from river import linear_model
    >>> model = linear_model.LinearRegression()
    >>> pdp = IncrementalPDP(model, alpha=0.05, grid=GridSettings(points=3))
    >>> for t in range(500):
    ...     x, y = {"used": t % 5, "noise": t % 3}, 2.0 * (t % 5)
    ...     importance = pdp.explain_one(x, y)
    ...     model.learn_one(x, y)
    >>> importance["used"] > 100 * importance["noise"]
    True
    >>> effect = pdp.effect("used")
    >>> [round(value) for value in effect.grid], [round(value) for value in effect.curve]
    ([0, 2, 4], [0, 4, 8])
    """

    def __init__(
        self,
        model: Any = None,
        *,
        alpha: float = 0.001,
        grid: GridSettings | None = None,
        start: int = 1,
        output: str | None = None,
        keep: int = 20,
        pairs: Sequence[tuple[str, str]] = (),
        seed: int = 0,
        stream: str = "",
    ) -> None:
        findings = []
        if not 0.0 < alpha <= 1.0:
            findings.append(f"iPDP alpha: expected a number above 0 and at most 1, got {alpha}")
        if start < 1:
            findings.append(f"iPDP start: expected a number from 1 on, got {start}")
        if keep < 0:
            findings.append(f"iPDP keep: expected a number from 0 on, got {keep}")
        if findings:
            raise SettingsError(findings)
        self._live = model if model is None or isinstance(model, LiveModel) else LiveModel(model)
        self.settings = grid or GridSettings()
        self.start = start
        self._next = 0 if self._live is None else self._live.events
        """Number that the next event has for the model, which other estimators may share."""
        self.rows = 0
        """Number of events seen, explained or not."""
        self.grids = Grids.empty(self.settings, stream_key(seed, stream))
        self.curves = Curves(alpha, keep)
        self._surfaces = {pair: Surface.empty(alpha) for pair in pairs}
        self._output = output
        self._names: tuple[str, ...] = ()

    @property
    def live(self) -> LiveModel | None:
        """The adapter through which the model is called; None without a model."""
        return self._live

    def explain_one(self, x: Mapping[str, Any], y: Any = None) -> dict[str, float]:
        """Explain one event with the model as it is now.

        Call this method before the model learns the event, as the pipeline does, or afterwards, to explain the model
        that has learned it. `ExplainedModel` calls both methods in either order.

        Parameters
        ----------
        x
            Numbers, booleans and texts by feature name. A feature that is None or missing is absent.
        y
            True class or number, if it is known. No curve depends on it.

        Returns
        -------
        `importance` as of this event.

        Raises
        ------
        ModelError
            The event is invalid and was ignored; or the model raised an error or returned no finite number, and the
            event counts as seen but not as explained. The estimator remains usable.
        """
        if self._live is None:
            raise ModelError("expected a River model to ask, got None; give one, or use explain_block")
        if is_missing(y):
            row = self._live.row(x, self._next)
        else:
            row, _ = self._live.event(x, y, self._next)
        self._next += 1
        if self._live.task == CLASSIFICATION and is_missing(y):
            self._live.meet_classes()
        self._names = self._live.names
        self._advance(self._live.predictor, row, self._live.kinds)
        return self.importance

    def explain_block(self, predictor: Predictor, rows: Floats, kinds: Sequence[int] | None = None) -> PerRow:
        """Explain consecutive events with one state of a model.

        The places where events are cut into blocks change no number.

        Parameters
        ----------
        predictor
            Model to explain. New classes and features come after those of earlier predictors.
        rows
            (n, d), NaN where a feature is absent; d may have grown.
        kinds
            Kinds of the features; None if all are numbers.

        Returns
        -------
        Series that drift detectors can watch, for each row from `start` on.

        Raises
        ------
        ModelError
            The model raised an error or returned no finite number. None of the rows counts as explained.
        """
        self._names = max(self._names, tuple(predictor.features), key=len)
        return self._advance(predictor, rows, kinds or [Kind.NUMBER] * rows.shape[1])

    def _advance(self, predictor: Predictor, rows: Floats, kinds: Sequence[int]) -> PerRow:
        knots = self.grids.pass_through(rows, kinds, self.rows, self.start)
        self.rows += len(rows)
        rows = rows[len(rows) - len(knots) :]
        at = points(knots, kinds, self.settings)
        columns = ipdp.outputs(predictor, self._output)
        ice = ipdp.curves(predictor, rows, at, columns)
        pairs = {pair: self._slots(pair) for pair in self._surfaces}
        answers = {
            pair: (slots, ipdp.surfaces(predictor, rows, at, slots, columns)) for pair, slots in pairs.items() if slots
        }
        if ipdp.unanswered(at, ice).any():
            raise ModelError("expected finite predictions, got one that is not; scale the features")
        has_categories = categorical(kinds)
        names = [column.name for column in columns]
        for pair, (slots, answer) in answers.items():
            both = list(slots)
            self._surfaces[pair].update(at[:, :, both], answer, has_categories[both], names)
        return self.curves.update(at, ice, has_categories, names)

    @property
    def outputs(self) -> tuple[str | None, ...]:
        """Classes that have curves; (None,) for regression."""
        return self.curves.outputs

    @property
    def importance(self) -> dict[str, float]:
        """Importance of each feature's curve, averaged over the outputs. Features without a curve are left out."""
        values = [[one for one in outputs if not isnan(one)] for outputs in self.curves.importance.tolist()]
        return {self._name(slot): sum(found) / len(found) for slot, found in enumerate(values) if found}

    def effects(self) -> list[dict[str, Any]]:
        """Return every curve with the fields of the `effects` topic that an estimator knows, for plots and files."""
        return [
            {
                "row": self.rows - 1,
                "feature": self._name(effect.slot),
                "output": effect.output,
                "kind": effect.kind,
                "grid": self._texts(effect.slot, effect.grid),
                "curve": effect.curve,
                "margin": effect.margin,
                "importance": effect.importance,
                "ice": [{"grid": self._texts(effect.slot, one.grid), "curve": one.curve} for one in effect.ice],
                "n": effect.n,
            }
            for effect in self.curves.effects()
        ]

    def _repr_html_(self) -> str:
        """Show the curves in a notebook, those that move the prediction most first."""
        effects = sorted(self.effects(), key=lambda one: (-one["importance"], one["feature"], str(one["output"])))
        rows = [
            (one["feature"], one["output"], one["importance"], curve(one["grid"], one["curve"]), _ends(one["grid"]))
            for one in effects
        ]
        title = f"{type(self).__name__}: effects after {self.rows:,} events"
        return table(title, ("feature", "output", "importance", "curve", "from … to"), rows)

    def effect(self, feature: str, output: str | None = None) -> Effect:
        """Return the curve of one feature.

        Parameters
        ----------
        feature
            Name of the feature.
        output
            Class; None for the only output.

        Raises
        ------
        ModelError
            There is no such curve.
        """
        for effect in self.curves.effects():
            if self._name(effect.slot) == feature and output in (effect.output, None):
                if output is None and len(self.outputs) > 1:
                    break
                return effect
        raise ModelError(
            f"expected a feature that has a curve (one of {', '.join(sorted(self.importance))}) and an output of "
            f"{', '.join(map(str, self.outputs))}, got {feature!r} and {output!r}"
        )

    def surface(self, first: str, second: str, output: str | None = None) -> SurfaceOf:
        """Return the joint effect of a pair of features.

        Raises
        ------
        ModelError
            The pair is not one of `pairs`, or has no surface for this output.
        """
        surface = self._surfaces.get((first, second))
        if surface is None or not surface.outputs:
            raise ModelError(
                f"expected a pair of {list(self._surfaces)} after its first explained event, got {(first, second)}"
            )
        if output is None and len(surface.outputs) == 1:
            output = surface.outputs[0]
        if output not in surface.outputs:
            raise ModelError(f"expected an output of {', '.join(map(str, surface.outputs))}, got {output!r}")
        return SurfaceOf(*surface.shown(output))

    def _slots(self, pair: tuple[str, str]) -> tuple[int, int] | None:
        place = {name: slot for slot, name in enumerate(self._names)}
        first, second = (place.get(name) for name in pair)
        return None if first is None or second is None else (first, second)

    def _name(self, slot: int) -> str:
        return self._names[slot] if slot < len(self._names) else f"feature {slot}"

    def _texts(self, slot: int, grid: list[float]) -> list[float | str | bool]:
        """Return a grid with the categories as texts."""
        live = self._live
        if live is None:
            return list(grid)
        kind, texts = live.kinds[slot], live.categories(slot)
        return [decoded(value, kind, texts) for value in grid]  # type: ignore[misc]  # no NaN


def _ends(grid: Sequence[Any]) -> str:
    """Return the first and the last point of a grid in words."""
    numbers = all(isinstance(one, float) for one in grid)
    return f"{grid[0]:.4g} … {grid[-1]:.4g}" if numbers else ", ".join(map(str, grid))
