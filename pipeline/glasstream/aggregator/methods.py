"""The aggregator's part for each method, and the records that it publishes.

Each part takes the rows of a block in order and makes the records of the newest row on request. Its state can be saved
as JSON values and arrays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from glasstream.aggregator.curves import Curves, Effect, PerRow
from glasstream.aggregator.intervals import normal
from glasstream.aggregator.isage import SageAggregator
from glasstream.aggregator.settings import AggregatorSettings
from glasstream.aggregator.smoothing import Smoothing
from glasstream.background.grids import categorical
from glasstream.explain.isage import OpenContributions
from glasstream.ingest.features import Kind
from glasstream_topics import effects, importance
from glasstream_topics.contributions import Contributions
from glasstream_topics.drift import CurveFields

Arrays = Mapping[str, NDArray[Any]]
Signals = Mapping[str, NDArray[np.float64]]
"""Series that detectors can watch, by `glasstream_topics.drift.SIGNALS`: (rows, d), or (rows, 1) for the loss."""


class OutputRecord(NamedTuple):
    """A record to be published."""

    topic: str
    """Name of the topic, without the prefix."""
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Moment:
    """State of the newest aggregated row that every record contains."""

    stream: str
    row: int
    seq: int
    version: int
    coverage: float
    loss: str
    staleness: float | None
    names: list[str]


class MethodAggregator(Protocol):
    """Part of a stream's aggregator for one method."""

    name: ClassVar[str]

    @classmethod
    def empty(cls, settings: AggregatorSettings) -> Self:
        """Return the part before any row."""

    @property
    def count(self) -> int:
        """n, the number of rows in the estimate."""

    def update(self, block: Contributions, rows: slice) -> Signals:
        """Add rows of a block in order; return the values of each row that detectors may watch."""

    def records(self, moment: Moment) -> Iterator[OutputRecord]:
        """Return the records as of the newest row."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""

    @classmethod
    def restore(cls, settings: AggregatorSettings, meta: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the part from a saved state.

        Raises
        ------
        StateError, KeyError, TypeError, ValueError
            The state is incomplete.
        """


def importance_record(
    name: str,
    smoothing: Smoothing,
    settings: AggregatorSettings,
    moment: Moment,
    totals: Mapping[str, float] | None = None,
) -> OutputRecord:
    """Return one `importance` record."""
    value, ends = smoothing.value, normal(smoothing, settings.level)
    return OutputRecord(
        importance.TOPIC.name,
        importance.key(moment.stream),
        importance.encode(
            stream=moment.stream,
            epoch=settings.epoch,
            row=moment.row,
            seq=moment.seq,
            method=name,
            loss=moment.loss,
            alpha=settings.alpha,
            sampling=settings.sampling,
            n=smoothing.count,
            coverage=moment.coverage,
            model_version=moment.version,
            lag=moment.row - moment.version,
            names=moment.names[: len(value)],
            value=value.tolist(),
            raw=smoothing.raw.tolist(),
            variance=smoothing.variance.tolist(),
            low=ends[0].tolist() if ends else None,
            high=ends[1].tolist() if ends else None,
            interval_kind="normal" if ends else None,
            interval_level=settings.level if ends else None,
            staleness=moment.staleness,
            totals=totals,
        ),
    )


@dataclass(slots=True)
class IpfiAggregator:
    """iPFI: smooth the contributions."""

    name: ClassVar[str] = "ipfi"
    settings: AggregatorSettings
    smoothing: Smoothing

    @classmethod
    def empty(cls, settings: AggregatorSettings) -> Self:
        return cls(settings, Smoothing.empty(settings.alpha, settings.overlap(settings.draws)))

    @property
    def count(self) -> int:
        return self.smoothing.count

    def update(self, block: Contributions, rows: slice) -> Signals:
        contributions = block.values["ipfi"][rows]
        self.smoothing.update(contributions)
        return {"importance": contributions}

    def records(self, moment: Moment) -> Iterator[OutputRecord]:
        yield importance_record(self.name, self.smoothing, self.settings, moment)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"count": self.count}, self.smoothing.arrays()

    @classmethod
    def restore(cls, settings: AggregatorSettings, meta: Mapping[str, Any], arrays: Arrays) -> Self:
        overlap = settings.overlap(settings.draws)
        return cls(settings, Smoothing.restore(settings.alpha, overlap, int(meta["count"]), dict(arrays)))


@dataclass(slots=True)
class IsageAggregator:
    """iSAGE: complete the first difference of each row, then smooth the contributions."""

    name: ClassVar[str] = "isage"
    settings: AggregatorSettings
    sage: SageAggregator

    @classmethod
    def empty(cls, settings: AggregatorSettings) -> Self:
        return cls(settings, SageAggregator.empty(settings.alpha, settings.overlap(settings.inner)))

    @property
    def count(self) -> int:
        return self.sage.count

    def update(self, block: Contributions, rows: slice) -> Signals:
        values = block.values
        contributions = self.sage.update(
            block.loss,
            OpenContributions(
                contributions=values["isage"][rows],
                first=values["isage.first"][rows],
                model_losses=values["isage.model_loss"][rows],
                predictions=values["isage.prediction"][rows],
                targets=values["isage.target"][rows],
            ),
        )
        return {"importance": contributions}

    def records(self, moment: Moment) -> Iterator[OutputRecord]:
        sage = self.sage
        totals = {"marginal_loss": sage.marginal_loss, "model_loss": sage.model_loss, "total": sage.total}
        yield importance_record(self.name, sage.smoothing, self.settings, moment, totals)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self.sage.state()

    @classmethod
    def restore(cls, settings: AggregatorSettings, meta: Mapping[str, Any], arrays: Arrays) -> Self:
        return cls(settings, SageAggregator.restore(settings.alpha, meta, arrays, settings.overlap(settings.inner)))


@dataclass(slots=True)
class IpdpAggregator:
    """iPDP: smooth the ICE curves and their grids."""

    name: ClassVar[str] = "ipdp"
    settings: AggregatorSettings
    curves: Curves
    kinds: list[int] = field(default_factory=list)
    texts: dict[int, dict[int, str]] = field(default_factory=dict)
    """Texts of the codes in use, per slot of kind text."""

    @classmethod
    def empty(cls, settings: AggregatorSettings) -> Self:
        return cls(settings, Curves(settings.alpha, settings.ice))

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
        if drift is None or not drift.smoothed:
            return said.deviation if drift is not None and drift.squares else said.importance
        return said.smoothed_deviation if drift.squares else said.smoothed_importance

    def copy(self) -> "IpdpAggregator":
        """Return an independent copy."""
        return IpdpAggregator(
            self.settings, self.curves.copy(), list(self.kinds), {s: dict(t) for s, t in self.texts.items()}
        )

    def named_curves(self) -> dict[int, list[CurveFields]]:
        """Return the smoothed curves of every feature, one per output, with points in readable form."""
        found: dict[int, list[CurveFields]] = {}
        for effect in self.curves.effects():
            grid, curve = self._named(effect.slot, effect.grid, effect.curve)
            found.setdefault(effect.slot, []).append({"output": effect.output, "grid": grid, "curve": curve})
        return found

    def records(self, moment: Moment) -> Iterator[OutputRecord]:
        used: dict[int, dict[int, str]] = {}
        many = len(self.curves.outputs) > 1
        for effect in self.curves.effects():
            name = moment.names[effect.slot]
            if self.kinds[effect.slot] == Kind.TEXT:
                codes = {int(code) for points in (effect.grid, *(ice.grid for ice in effect.ice)) for code in points}
                known = self.texts.get(effect.slot, {})
                used.setdefault(effect.slot, {}).update({code: known[code] for code in codes})
            yield OutputRecord(
                effects.TOPIC.name,
                effects.key(moment.stream, name, effect.output if many else None),
                self._encode(effect, moment, name),
            )
        self.texts = used

    def _encode(self, effect: Effect, moment: Moment, name: str) -> bytes:
        grid, curve = self._named(effect.slot, effect.grid, effect.curve)
        return effects.encode(
            epoch=self.settings.epoch,
            stream=moment.stream,
            row=moment.row,
            seq=moment.seq,
            feature=name,
            output=effect.output,
            kind=effect.kind,
            grid=grid,
            curve=curve,
            importance=effect.importance,
            ice=[effects.IceCurve(*self._named(effect.slot, ice.grid, ice.curve)) for ice in effect.ice] or None,
            n=effect.n,
            coverage=moment.coverage,
            model_version=moment.version,
        )

    def _named(
        self, slot: int, points: list[float], curve: list[float]
    ) -> tuple[list[float | str | bool], list[float]]:
        """Points as a reader knows them, numbers, true and false or texts, in their order; and the curve at them."""
        kind = self.kinds[slot]
        if kind == Kind.TEXT:
            pairs = sorted((self.texts[slot][int(code)], value) for code, value in zip(points, curve, strict=True))
            return [text for text, _ in pairs], [value for _, value in pairs]
        if kind == Kind.BOOLEAN:
            return [bool(code) for code in points], curve
        return list(points), curve

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta, arrays = self.curves.state()
        texts = [[slot, sorted(self.texts[slot].items())] for slot in sorted(self.texts)]
        return {**meta, "kinds": [int(kind) for kind in self.kinds], "texts": texts}, arrays

    @classmethod
    def restore(cls, settings: AggregatorSettings, meta: Mapping[str, Any], arrays: Arrays) -> Self:
        curves = Curves.restore(settings.alpha, settings.ice, meta, arrays)
        texts = {int(slot): {int(code): str(text) for code, text in named} for slot, named in meta["texts"]}
        return cls(settings, curves, [int(kind) for kind in meta["kinds"]], texts)


def _over_outputs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (rows, d) the mean over the outputs of (rows, d, k); NaN where there is no curve."""
    if values.shape[2] == 0:
        return np.full(values.shape[:2], np.nan)
    total: NDArray[np.float64] = values[:, :, 0].copy()
    for output in range(1, values.shape[2]):
        total += values[:, :, output]
    total /= values.shape[2]
    return total


METHOD_AGGREGATORS: Mapping[str, type[MethodAggregator]] = {
    one.name: one for one in (IpfiAggregator, IsageAggregator, IpdpAggregator)
}
"""Parts by method, in the order in which their records are published."""
