"""KSWIN for several series: test whether the newest numbers of a window follow the distribution of the older ones.

Each series has a detector of River (Raab, Heusinger, Schleif: "Reactive soft prototype computing for concept drift
streams", Neurocomputing 2020). All detectors have the same seed. KSWIN runs a Kolmogorov-Smirnov test for every number,
which costs some hundred µs, so it suits few series or slow streams. River is imported with the first detector, because
the import takes two seconds and an aggregator does not need River otherwise.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from glasstream.drift.detector import Alarm, Floats, Parameters

_GENERATOR = 625
"""Number of words in the state of Python's random generator, which River samples from."""
_GENERATOR_VERSION = 3


@dataclass(slots=True)
class Kswin:
    """KSWIN for each of s series.

    `update` takes River's parameters: ``alpha`` of the test, ``window_size``, ``stat_size`` (the number of newest
    values), and ``seed``. Sizes and seed must not change during the life of a series.
    """

    name: ClassVar[str] = "kswin"
    settings: ClassVar[Mapping[str, str]] = {
        "alpha": "alpha", "window_size": "window", "stat_size": "stat_size", "seed": "seed",
    }  # fmt: skip
    level: ClassVar[str | None] = "alpha"
    detectors: list[Any] = field(default_factory=list)

    @classmethod
    def empty(cls) -> Self:
        return cls()

    def update(self, values: Floats, parameters: Parameters) -> list[Alarm]:
        while len(self.detectors) < values.shape[1]:
            self.detectors.append(_detector(parameters))
        found = []
        for one, detector in enumerate(self.detectors[: values.shape[1]]):
            detector.alpha = parameters["alpha"]
            for row, value in enumerate(values[:, one].tolist()):
                if value != value:
                    continue
                window = [] if detector.drift_detected else list(detector.window)
                detector.update(value)
                if detector.drift_detected:
                    older = [*window, value][-detector.window_size : -detector.stat_size]
                    newer = list(detector.window)
                    found.append(Alarm(row, one, sum(older) / len(older), sum(newer) / len(newer), len(newer)))
        return sorted(found)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta = [
            {
                "alpha": one.alpha,
                "window_size": one.window_size,
                "stat_size": one.stat_size,
                "seed": one.seed,
                "n": one.n,
                "held": len(one.window),
                "alarmed": bool(one.drift_detected),
            }
            for one in self.detectors
        ]
        return {"series": meta}, {
            "windows": np.array([value for one in self.detectors for value in one.window], np.float64),
            "generators": np.array([one._rng.getstate()[1] for one in self.detectors], np.uint32).reshape(
                -1, _GENERATOR
            ),
        }

    @classmethod
    def restore(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        made = cls()
        values = arrays["windows"].tolist()
        for own, words in zip(meta["series"], arrays["generators"].tolist(), strict=True):
            one = _detector({name: own[name] for name in ("alpha", "window_size", "stat_size", "seed")})
            one.window = deque(values[: own["held"]], maxlen=one.window_size)
            values = values[own["held"] :]
            one.n, one._drift_detected = own["n"], own["alarmed"]
            one._rng.setstate((_GENERATOR_VERSION, tuple(words), None))
            made.detectors.append(one)
        if values:
            raise ValueError(f"expected as many numbers as the windows hold, got {len(values)} more")
        return made


def _detector(parameters: Parameters) -> Any:
    from river import drift

    return drift.KSWIN(**parameters)
