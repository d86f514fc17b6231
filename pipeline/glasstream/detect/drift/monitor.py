"""All detectors of one stream."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST, LARGEST_SUM, Field
from glasstream.base.jit import kernel
from glasstream.detect.drift.detector import Alarm, Detectors, Parameters
from glasstream.detect.drift.settings import DETECTORS, DriftSettings

Floats = NDArray[np.float64]
_OF: Final = "drift detectors"
_SMOOTHED: Final = {"smoothed": Field("f8", ("series", 2), -LARGEST_SUM, LARGEST_SUM)}


class WatchedSignal(NamedTuple):
    """Values of one signal, one per row and series."""

    signal: str
    """Name of the signal, from `glasstream_topics.drift.SIGNALS`."""
    method: str
    """Name of the method; empty if the signal belongs to none."""
    values: Floats
    """(rows, s) values, one column per feature or a single column; NaN where there is no value."""
    smooth: bool = True
    """Whether the values can be smoothed further; False if they are smoothed already."""


class Detection(NamedTuple):
    """Alarm with the signal that raised it."""

    signal: str
    method: str
    alarm: Alarm
    parameters: Parameters


@dataclass(slots=True)
class Smoothed:
    """Exponential smoothing of s series, for detectors that watch published values instead of those of single rows.

    The smoothing is debiased, as in `glasstream.explain.smoothing`. A row without a number leaves a series as it is.
    """

    sums: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    """(s, 2) weight and biased smoothed number, which starts at 0."""

    def update(self, values: Floats, alpha: float) -> Floats:
        """Return (rows, s) smoothed series after each row; NaN where the row has no number."""
        new = values.shape[1] - len(self.sums)
        if new > 0:
            self.sums = np.concatenate([self.sums, np.zeros((new, 2))])
        out = np.full(values.shape, np.nan)
        _smooth(alpha, values, self.sums, out)
        return out

    @classmethod
    def restored(cls, sums: NDArray[Any], alpha: float, most: int, of: str) -> "Smoothed":
        """Restore the smoothing of at most `most` series from saved sums; raise FrameError if they are forged."""
        sums = form.read(_SMOOTHED, {"smoothed": sums}, of)["smoothed"]
        weight, number = sums.T
        form.expect(len(sums) <= most, f"at most {most} series", len(sums), of)
        begun = (weight >= 0.5 * alpha) & (weight <= 2.0)
        fits = np.where(weight == 0.0, number == 0.0, begun & (np.abs(number) <= 2.0 * LARGEST * weight))
        form.expect(fits.all(), f"weights from {alpha:g} to 1 and their sums", sums[~fits][:1], of)
        return cls(sums)


@kernel
def _smooth(alpha, values, sums, out):  # type: ignore[no-untyped-def]
    keep = 1.0 - alpha
    for i in range(values.shape[0]):
        for s in range(values.shape[1]):
            if not np.isnan(values[i, s]):
                sums[s, 0] = keep * sums[s, 0] + alpha
                sums[s, 1] = keep * sums[s, 1] + alpha * values[i, s]
                out[i, s] = sums[s, 1] / sums[s, 0]


@dataclass(slots=True)
class DriftMonitor:
    """The detectors of one stream, one per watched column.

    Alarms are a function of the rows in order. The places where rows are cut into calls change nothing.
    """

    settings: DriftSettings
    seed: int
    alpha: float
    """Smoothing factor α of watched values that are smoothed."""
    detectors: dict[str, Detectors] = field(default_factory=dict)
    """Detectors by ``signal/method``."""
    smoothed: dict[str, Smoothed] = field(default_factory=dict)
    """Smoothing by ``signal/method``, for signals that are smoothed before detection."""

    def feed(self, watched: Sequence[WatchedSignal], series: int | None = None) -> list[Detection]:
        """Feed rows in order. All watched signals must have the same rows.

        Parameters
        ----------
        series
            Number of columns that are watched in all; None if these signals are all.

        Returns
        -------
        Alarms, ordered by row, then by `watched` and its columns.
        """
        series = sum(one.values.shape[1] for one in watched) if series is None else series
        parameters = self.settings.parameters(self.seed, series)
        found = []
        for order, one in enumerate(watched):
            name, values = f"{one.signal}/{one.method}", np.clip(one.values, -LARGEST, LARGEST)  # squares stay finite
            if self.settings.values == "smoothed" and one.smooth:
                values = self.smoothed.setdefault(name, Smoothed()).update(values, self.alpha)
            detectors = self.detectors.get(name)
            if detectors is None:
                detectors = self.detectors[name] = DETECTORS[self.settings.detector].empty()
            alarms = detectors.update(np.ascontiguousarray(values), parameters)
            found += [((alarm.row, order, alarm.series), Detection(one.signal, one.method, alarm, parameters))
                      for alarm in alarms]  # fmt: skip
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        meta: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for name, detectors in self.detectors.items():
            meta[name], own = detectors.state()
            arrays |= {f"{name}/{key}": array for key, array in own.items()}
        arrays |= {f"{name}/smoothed": one.sums.copy() for name, one in self.smoothed.items()}
        return meta, arrays

    def restore(
        self, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], methods: Collection[str], features: int
    ) -> None:
        """Restore the detectors from a saved state.

        Parameters
        ----------
        methods
            Methods whose signals can be watched.
        features
            Number of features of the stream.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        series = max(1, features)
        parameters = self.settings.parameters(self.seed, series)
        known = {f"{signal}/{method}" for signal in self.settings.signals for method in ("", *methods)}
        form.expect(meta.keys() <= known, "detectors of watched signals", sorted(meta.keys() - known), _OF)
        for name, inner in meta.items():
            own = form.part(f"{name}/", arrays)
            if "smoothed" in own:
                self.smoothed[name] = Smoothed.restored(own["smoothed"], self.alpha, series, f"{_OF} of {name}")
            self.detectors[name] = DETECTORS[self.settings.detector].restore(inner, own, parameters, series)
