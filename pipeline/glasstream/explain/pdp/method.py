"""The method iPDP (paper 001). See `glasstream.explain.pdp.contributions` and `glasstream.explain.pdp.curves`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.errors import StateError
from glasstream.base.form import Count
from glasstream.events.features import FeatureTable, Kind, decoded
from glasstream.explain.method import Arrays, Drawing, Method, Moment, OutputRecord, Passing, Signals
from glasstream.explain.pdp import contributions as ipdp
from glasstream.explain.pdp.curves import Curves, CurvesMeta, Effect, IceCurve, PerRow
from glasstream.explain.sampling import knots
from glasstream.explain.sampling.grids import Grids, categorical
from glasstream.explain.sampling.reservoir import Drawn
from glasstream.explain.settings import MethodSettings
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import effects
from glasstream_topics.contributions import Contributions
from glasstream_topics.drift import CurveFields
from glasstream_topics.errors import FrameError
from glasstream_topics.requests import ExplainRequest, Grid


@dataclass(slots=True)
class _Drawing(Drawing):
    """Follow the grid of each feature, and tell how it changes from row to row."""

    grids: Grids
    key: NDArray[np.uint64]

    def draw(self, rows: Passing, drawn: Drawn) -> dict[str, NDArray[Any]]:
        block, kinds, first_row, start, _ = rows
        return _arrays(knots.changes(self.grids.pass_through(block, kinds, first_row, start)))

    def numbers(self, width: int) -> int:
        return 2 * self.grids.settings.knots * width

    def fields(self, draws: Arrays, rows: NDArray[np.float64], features: FeatureTable, width: int) -> dict[str, Any]:
        """Return how to read the changes, and the texts of the categories among the grid points."""
        settings, kinds = self.grids.settings, features.kinds[:width]
        known = {slot: list(features.categories[slot]) for slot, kind in enumerate(kinds) if kind is Kind.TEXT}
        grid = Grid(settings.knots, settings.points, settings.equidistant)
        return {"grid": grid, "texts": _texts(draws, known, width)}

    def state(self) -> dict[str, NDArray[Any]]:
        return self.grids.state()

    def restore(self, arrays: Arrays, features: FeatureTable) -> None:
        grids = Grids.restore(self.grids.settings, self.key, arrays)
        if grids.width > len(features) or not features.can_hold(grids.categories.codes.T):
            raise StateError("grids: expected categories of the stream's features")
        self.grids = grids


def _arrays(changes: knots.Changes) -> dict[str, NDArray[Any]]:
    return {"ipdp.row": changes.row, "ipdp.place": changes.place, "ipdp.value": changes.value}


def _changes(draws: Arrays) -> knots.Changes:
    return knots.Changes(draws["ipdp.row"], draws["ipdp.place"], draws["ipdp.value"])


def _texts(draws: Arrays, known: Mapping[int, Any], width: int) -> dict[int, dict[int, str]]:
    """Return the texts of the categories among the points, by slot and code."""
    codes = {slot: np.unique(_points(draws, slot, width)).astype(int).tolist() for slot in known}
    return {slot: {code: known[slot][code] for code in used} for slot, used in codes.items()}


def _points(draws: Arrays, slot: int, width: int) -> NDArray[np.float64]:
    """Return the values to which the knots of one feature change."""
    values = draws["ipdp.value"][draws["ipdp.place"] % max(width, 1) == slot]
    points: NDArray[np.float64] = values[~np.isnan(values)]
    return points


class _Meta(CurvesMeta, forbid_unknown_fields=True):
    """JSON values of the state of `_Aggregator`."""

    kinds: list[Annotated[int, msgspec.Meta(ge=0, le=2)]]
    texts: list[tuple[Count, list[tuple[Count, str]]]]


class _Aggregator:
    """Smooth the ICE curves and their grids."""

    name: ClassVar[str] = "ipdp"

    def __init__(self, settings: MethodSettings) -> None:
        self.settings = settings
        self.curves = Curves(settings.explain.alpha, settings.ipdp.ice)
        self.kinds: list[int] = []
        self.texts: dict[int, dict[int, str]] = {}
        """Texts of the codes in use, per slot of kind text."""

    @property
    def count(self) -> int:
        return self.curves.count

    def update(self, block: Contributions, rows: slice) -> Signals:
        values = block.values
        if len(block.kinds) > len(self.kinds):
            self.kinds = list(block.kinds)
        for slot, named in block.texts.items():
            self.texts.setdefault(slot, {}).update(named)
        outputs = [name or None for name in block.outputs] if not block.classes else block.outputs
        said = self.curves.update(values["ipdp.points"][rows], values["ipdp"][rows], categorical(block.kinds), outputs)
        return {"pd_importance": _over_outputs(self._importance(said)), "curve_shape": _over_outputs(said.distance)}

    def _importance(self, said: PerRow) -> NDArray[np.float64]:
        """Return the form of PD importance that is watched."""
        drift = self.settings.drift
        if drift.values == "smoothed":
            return said.smoothed_deviation if drift.pd == "squares" else said.smoothed_importance
        return said.deviation if drift.pd == "squares" else said.importance

    def copy(self) -> "_Aggregator":
        copied = copy(self)
        copied.curves, copied.kinds = self.curves.copy(), list(self.kinds)
        copied.texts = {slot: dict(texts) for slot, texts in self.texts.items()}
        return copied

    def total_importance(self, *, squares: bool) -> float:
        total = 0.0
        for shape in self.curves.shapes():
            total += shape.deviation if squares else shape.importance
        return total / max(1, len(self.curves.outputs))

    def named_curves(self) -> dict[int, list[CurveFields]]:
        found: dict[int, list[CurveFields]] = {}
        for shape in self.curves.shapes():
            grid, (curve,) = self._named(shape.slot, shape.grid, shape.curve)
            found.setdefault(shape.slot, []).append({"output": shape.output, "grid": grid, "curve": curve})
        return found

    def records(self, moment: Moment) -> Iterator[OutputRecord]:
        many = len(self.curves.outputs) > 1
        for effect in self.curves.effects(self.settings.explain.level):
            name = moment.names[effect.slot]
            yield OutputRecord(
                effects.TOPIC.name,
                effects.key(moment.stream, name, effect.output if many else None),
                self._encode(effect, moment, name),
            )
        slots = (slot for slot, kind in enumerate(self.kinds[: len(self.curves.grid)]) if kind == Kind.TEXT)
        self.texts = {
            slot: {code: self.texts[slot][code] for code in codes} for slot in slots if (codes := self._codes(slot))
        }

    def _codes(self, slot: int) -> list[int]:
        """Return the codes among the points of a feature with categories, also those of rows that are only kept."""
        curves = self.curves
        ice = curves.ice_points[:, :, slot]
        codes = np.unique(np.concatenate([curves.grid[slot][curves.weight[slot] > 0.0], ice[~np.isnan(ice)]]))
        return [int(code) for code in codes.tolist()]

    def _encode(self, effect: Effect, moment: Moment, name: str) -> bytes:
        grid, (curve, margin) = self._named(effect.slot, effect.grid, effect.curve, effect.margin)
        return effects.encode(
            epoch=self.settings.epoch,
            stream=moment.stream,
            row=moment.row,
            seq=moment.seq,
            ts=moment.ts,
            feature=name,
            output=effect.output,
            kind=effect.kind,
            grid=grid,
            curve=curve,
            margin=margin,
            level=self.settings.explain.level,
            importance=effect.importance,
            ice=[self._ice(effect.slot, one) for one in effect.ice] or None,
            n=effect.n,
            coverage=moment.coverage,
            model_version=moment.version,
        )

    def _ice(self, slot: int, one: IceCurve) -> effects.IceCurve:
        grid, (curve,) = self._named(slot, one.grid, one.curve)
        return effects.IceCurve(grid, curve)

    def _named(
        self, slot: int, points: list[float], *columns: list[Any]
    ) -> tuple[list[float | str | bool], Sequence[list[Any]]]:
        """Points as a reader knows them, numbers, true and false or texts, in their order; and what is at them."""
        kind = self.kinds[slot]
        if kind == Kind.NUMBER:
            return list(points), columns
        values: list[Any] = [decoded(point, kind, self.texts.get(slot, {})) for point in points]
        if kind != Kind.TEXT:
            return values, columns
        order = sorted(range(len(values)), key=values.__getitem__)
        return [values[at] for at in order], [[column[at] for at in order] for column in columns]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta, arrays = self.curves.state()
        texts = [[slot, sorted(self.texts[slot].items())] for slot in sorted(self.texts)]
        return {**meta, "kinds": [int(kind) for kind in self.kinds], "texts": texts}, arrays

    def restore(self, meta: Mapping[str, Any], arrays: Arrays, kinds: Sequence[int]) -> None:
        saved = form.values(meta, _Meta, self.name)
        self.curves = curves = Curves.restore(self.curves.alpha, self.settings.ipdp.ice, meta, arrays)
        self.kinds, width = saved.kinds, len(curves.categorical)
        form.expect(
            saved.kinds == list(kinds)[: len(saved.kinds)], f"features of the kinds {kinds}", saved.kinds, self.name
        )
        form.expect(width <= len(saved.kinds), f"at most {len(saved.kinds)} features", width, self.name)
        fits = np.array_equal(curves.categorical, categorical(saved.kinds[:width]))
        form.expect(fits, f"categories of features of the kinds {saved.kinds}", curves.categorical, self.name)
        self.texts = {slot: dict(named) for slot, named in saved.texts}
        for slot in np.flatnonzero(categorical(saved.kinds[:width])).tolist():
            codes = self._codes(slot)
            unknown = (
                [code for code in codes if code not in self.texts.get(slot, {})]
                if saved.kinds[slot] == Kind.TEXT
                else []
            )
            form.expect(
                not unknown, f"texts of the categories {codes} of feature {slot}", f"none of {unknown}", self.name
            )


def _over_outputs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (rows, d) the mean over the outputs of (rows, d, k); NaN where there is no curve."""
    if values.shape[2] == 0:
        return np.full(values.shape[:2], np.nan)
    total: NDArray[np.float64] = values[:, :, 0].copy()
    for output in range(1, values.shape[2]):
        total += values[:, :, output]
    total /= values.shape[2]
    return total


class Ipdp(Method):
    """Partial dependence."""

    name = "ipdp"

    def drawing(self, settings: MethodSettings, key: NDArray[np.uint64]) -> _Drawing:
        return _Drawing(Grids.empty(settings.ipdp, key), key)

    def explainer(
        self, block: ExplainRequest, predictor: Predictor, targets: NDArray[np.float64]
    ) -> Callable[[slice], dict[str, NDArray[Any]]]:
        grid, outputs = self._grid(block), ipdp.outputs(predictor)
        laid = knots.unchanged(_changes(block.draws), block.count, grid.knots, len(block.names))
        points = knots.expand(laid, categorical(block.kinds), grid.points, equidistant=grid.equidistant)
        return lambda rows: {
            "ipdp": ipdp.curves(predictor, block.x[rows], points[rows], outputs),
            "ipdp.points": points[rows],
        }

    def aggregator(self, settings: MethodSettings) -> _Aggregator:
        return _Aggregator(settings)

    def finite(self, values: Arrays) -> NDArray[np.bool_]:
        return ~ipdp.unanswered(values["ipdp.points"], values["ipdp"])

    def part(self, block: ExplainRequest, rows: slice) -> dict[str, Any]:
        width = len(block.names)
        laid = knots.unchanged(_changes(block.draws), block.count, self._grid(block).knots, width)[rows]
        draws = _arrays(knots.changes(laid))
        return {"draws": draws, "texts": _texts(draws, block.texts, width)}

    def drawn(self, draws: Arrays, slot: int, width: int) -> NDArray[np.float64]:
        return _points(draws, slot, width)

    def _grid(self, block: ExplainRequest) -> Grid:
        """Return how to read the block's changes, which a decoded block always has."""
        if block.grid is None:
            raise FrameError(f"request of stream {block.stream!r}: expected how to read its grids, got nothing")
        return block.grid
