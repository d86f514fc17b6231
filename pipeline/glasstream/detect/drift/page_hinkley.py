"""Page-Hinkley test for many series at once.

The test raises an alarm when a cumulative sum of deviations from the mean moves away from its extreme. Let d be the
deviation of the newest number from the mean of all n numbers so far (Page: "Continuous inspection schemes", Biometrika
1954). With forgetting as in River, and equal to River to the bit in both directions:

    up = λ up + d - δ,   down = λ down + d + δ

The test raises an alarm if `up` exceeds its minimum by more than `threshold`, or if `down` falls below its maximum by
more than that. The detector starts over with the number after the alarm. The change began at the extreme, so an alarm
reports the means before and after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST_SUM, Field
from glasstream.base.jit import kernel
from glasstream.detect.drift.detector import ANY_NUMBER, Alarm, Floats, Parameters

# Columns of `sums`: count, mean and sum of the numbers so far; the two cumulative sums and their extremes; the count
# and the sum of the numbers up to each extreme; whether the newest number raised an alarm.
_N, _MEAN, _SUM, _UP, _DOWN, _LOWEST, _HIGHEST, _LOW_N, _LOW_SUM, _HIGH_N, _HIGH_SUM, _ALARMED = range(12)
_COLUMNS = 12
_OF: Final = "Page-Hinkley"
_FORM: Final = {"sums": Field("f8", ("series", _COLUMNS), -LARGEST_SUM, LARGEST_SUM)}


@dataclass(slots=True)
class PageHinkley:
    """Page-Hinkley test for each of s series.

    `update` takes River's parameters: ``min_instances``, the count of numbers before the first test; ``delta`` δ;
    ``threshold``; and ``alpha``, which is λ in the formulas.
    """

    name: ClassVar[str] = "page_hinkley"
    settings: ClassVar[Mapping[str, str]] = {
        "min_instances": "grace", "delta": "tolerance", "threshold": "threshold", "alpha": "forgetting_factor",
    }  # fmt: skip
    level: ClassVar[str | None] = None
    sums: Floats = field(default_factory=lambda: np.zeros((0, _COLUMNS)))
    """(s, 12) state of each test; the module names the columns."""

    @classmethod
    def empty(cls) -> Self:
        return cls()

    def update(self, values: Floats, parameters: Parameters) -> list[Alarm]:
        new = values.shape[1] - len(self.sums)
        if new > 0:
            self.sums = np.concatenate([self.sums, np.zeros((new, _COLUMNS))])
        sides = np.zeros((*values.shape, 2))
        widths = np.zeros(values.shape, np.int64)
        _update(
            values, int(parameters["min_instances"]), float(parameters["delta"]), float(parameters["threshold"]),
            float(parameters["alpha"]), self.sums, sides, widths,
        )  # fmt: skip
        return [
            Alarm(row, one, float(sides[row, one, 0]), float(sides[row, one, 1]), int(widths[row, one]))
            for row, one in np.argwhere(widths > 0).tolist()
        ]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"sums": self.sums.copy()}

    @classmethod
    def restore(
        cls,
        meta: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        parameters: Parameters | None = None,
        series: int = ANY_NUMBER,
    ) -> Self:
        sums = form.read(_FORM, arrays, _OF)["sums"]
        form.expect(not meta, "no values", meta, _OF)
        form.expect(len(sums) <= series, f"at most {series} series", len(sums), _OF)
        counts = sums[:, [_N, _LOW_N, _HIGH_N]]
        whole = (counts >= 0.0) & (counts <= sums[:, _N : _N + 1]) & (counts == np.floor(counts))
        form.expect(whole.all(), "an extreme among the numbers so far", counts[~whole.all(axis=1)][:1], _OF)
        alarmed = sums[:, _ALARMED]
        form.expect(((alarmed == 0.0) | (alarmed == 1.0)).all(), "an alarm or none", alarmed, _OF)
        return cls(sums)


@kernel
def _update(values, shortest, delta, threshold, keep, sums, sides, widths):  # type: ignore[no-untyped-def]
    for i in range(values.shape[0]):
        for s in range(values.shape[1]):
            x, own = values[i, s], sums[s]
            if np.isnan(x):
                continue
            if own[_N] == 0.0 or own[_ALARMED] > 0.0:
                own[:] = 0.0
                own[_LOWEST], own[_HIGHEST] = np.inf, -1.0  # initial values of River
            own[_N] += 1.0
            own[_MEAN] += (1.0 / own[_N]) * (x - own[_MEAN])
            own[_SUM] += x
            apart = x - own[_MEAN]
            own[_UP] = keep * own[_UP] + apart - delta
            own[_DOWN] = keep * own[_DOWN] + apart + delta
            if own[_UP] < own[_LOWEST]:
                own[_LOWEST], own[_LOW_N], own[_LOW_SUM] = own[_UP], own[_N], own[_SUM]
            if own[_DOWN] > own[_HIGHEST]:
                own[_HIGHEST], own[_HIGH_N], own[_HIGH_SUM] = own[_DOWN], own[_N], own[_SUM]
            if own[_N] < shortest:
                continue
            if own[_UP] - own[_LOWEST] > threshold:
                _tell(own, own[_LOW_N], own[_LOW_SUM], sides[i, s], widths[i, s : s + 1])
            elif own[_HIGHEST] - own[_DOWN] > threshold:
                _tell(own, own[_HIGH_N], own[_HIGH_SUM], sides[i, s], widths[i, s : s + 1])


@kernel
def _tell(own, older, total, sides, width):  # type: ignore[no-untyped-def]
    own[_ALARMED] = 1.0
    newer = own[_N] - older
    sides[0] = total / older if older > 0.0 else own[_MEAN]
    sides[1] = (own[_SUM] - total) / newer
    width[0] = np.int64(newer)
