"""KSWIN for several series: test whether the newest numbers of a window follow the distribution of the older ones.

Each series has a detector of River (Raab, Heusinger, Schleif: "Reactive soft prototype computing for concept drift
streams", Neurocomputing 2020). All detectors have the same seed. KSWIN runs a Kolmogorov-Smirnov test for every number,
which costs some hundred µs, so it suits few series or slow streams. River is imported with the first detector, because
the import takes two seconds and an aggregator does not need River otherwise.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST, Count, Field
from glasstream.detect.drift.detector import ANY_NUMBER, Alarm, Floats, Parameters

_GENERATOR = 625
"""Number of words in the state of Python's random generator, which River samples from."""
_GENERATOR_VERSION = 3
_OF: Final = "KSWIN"


class _Series(msgspec.Struct, forbid_unknown_fields=True):
    alpha: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    window_size: Annotated[int, msgspec.Meta(ge=4, le=100_000)]
    stat_size: Annotated[int, msgspec.Meta(ge=1, le=50_000)]
    seed: int
    n: Count
    held: Count
    alarmed: bool


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    series: list[_Series]


_FORM: Final = {
    "windows": Field("f8", ("held",), -LARGEST, LARGEST),
    "generators": Field("u4", ("series", _GENERATOR), 0, 2**32),
}


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
    def restore(
        cls,
        meta: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        parameters: Parameters | None = None,
        series: int = ANY_NUMBER,
    ) -> Self:
        saved = form.values(meta, _Meta, _OF).series
        form.expect(len(saved) <= series, f"at most {series} series", len(saved), _OF)
        held = sum(own.held for own in saved)
        found = form.read(_FORM, arrays, _OF, held=held, series=len(saved))
        _check_generators(found["generators"])
        values, begin, made = found["windows"].tolist(), 0, cls()
        for own, words in zip(saved, found["generators"].tolist(), strict=True):
            given = {name: getattr(own, name) for name in ("window_size", "stat_size", "seed")}
            wanted = given if parameters is None else {name: parameters[name] for name in given}
            form.expect(given == wanted, f"a detector with {wanted}", given, _OF)
            form.expect(own.held <= own.window_size, f"at most {own.window_size} numbers", own.held, _OF)
            fits = 2 * own.stat_size <= own.window_size
            form.expect(fits, "at most half of a window as the newest numbers", own.stat_size, _OF)
            one = _detector({"alpha": own.alpha, **given})
            one.window = deque(values[begin : begin + own.held], maxlen=one.window_size)
            begin += own.held
            one.n, one._drift_detected = own.n, own.alarmed
            one._rng.setstate((_GENERATOR_VERSION, tuple(words), None))
            made.detectors.append(one)
        return made


def _check_generators(words: NDArray[np.uint32]) -> None:
    """Raise FrameError unless random generators can have these states: an all-zero one gives the same number for ever.

    The last word is the position. Of the first word, the generator uses the highest bit only.
    """
    form.expect((words[:, -1] <= _GENERATOR - 1).all(), f"positions up to {_GENERATOR - 1}", words[:, -1], _OF)
    alive = (words[:, 0] >= 2**31) | words[:, 1:-1].any(axis=1)
    form.expect(alive.all(), "generators that are not all zero", "one that is", _OF)


def _detector(parameters: Parameters) -> Any:
    from river import drift

    return drift.KSWIN(**parameters)
