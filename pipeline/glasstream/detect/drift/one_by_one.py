"""Detectors of many series from a detector of one: a plain class with `update(value) -> bool`.

The class is a dataclass of numbers. Its parameters are the fields that take their values from settings; its other
fields are state, and have defaults. `CONTRIBUTING.md` shows one. A compiled bank, such as `adwin.Adwin`, is faster.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST_SUM, Field
from glasstream.detect.drift.detector import ANY_NUMBER, Alarm, Detectors, Floats, Parameters


class OneSeries(Protocol):
    """A detector of one series; its class is a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def update(self, value: float) -> bool:
        """Take the next number, and return whether it raises an alarm. After an alarm, a new detector goes on."""


def bank_of(
    variable: str, detector: Callable[..., OneSeries], settings: Mapping[str, str], level: str | None = None
) -> type[Detectors]:
    """Return a class with a detector for each of several series.

    An alarm reports the mean of the numbers since the one before it, and the number that raised it.

    Parameters
    ----------
    variable
        Name of the variable that the class is bound to. In lower case, it is the value of `drift.detector`.
    detector
        Class of the detectors of one series.
    settings, level
        Class variables of `glasstream.detect.drift.detector.Detectors`.
    """
    name = variable.lower()
    kept = {one.name: one.default for one in fields(detector) if one.name not in settings}  # type: ignore[arg-type]
    shapes = {"state": ("series", len(kept)), "since": ("series", 2)}
    forms = {array: Field("f8", shape, -LARGEST_SUM, LARGEST_SUM) for array, shape in shapes.items()}

    class Bank:
        def __init__(self, state: Floats, since: Floats) -> None:
            self._state = state
            self._since = since
            """(s, 2) count and sum of the numbers since the last alarm."""

        @classmethod
        def empty(cls) -> "Bank":
            return cls(np.zeros((0, len(kept))), np.zeros((0, 2)))

        def update(self, values: Floats, parameters: Parameters) -> list[Alarm]:
            more = values.shape[1] - len(self._state)
            if more > 0:
                fresh = np.array([*kept.values()], np.float64)
                self._state = np.concatenate([self._state, np.tile(fresh, (more, 1))])
                self._since = np.concatenate([self._since, np.zeros((more, 2))])
            alarms = []
            for series in range(values.shape[1]):
                one = detector(**parameters, **dict(zip(kept, self._state[series].tolist(), strict=True)))
                count, total = self._since[series].tolist()
                for row, value in enumerate(values[:, series].tolist()):
                    if np.isnan(value):
                        continue
                    if one.update(value):
                        alarms.append(Alarm(row, series, total / count if count else value, value, 1))
                        one, count, total = detector(**parameters), 0.0, 0.0
                    else:
                        count, total = count + 1.0, total + value
                self._state[series] = [getattr(one, field) for field in kept]
                self._since[series] = count, total
            return sorted(alarms)

        def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
            return {}, {"state": self._state.copy(), "since": self._since.copy()}

        @classmethod
        def restore(
            cls,
            meta: Mapping[str, Any],
            arrays: Mapping[str, NDArray[Any]],
            parameters: Parameters | None = None,
            series: int = ANY_NUMBER,
        ) -> "Bank":
            read = form.read(forms, arrays, name)
            form.expect(not meta, "no values", meta, name)
            form.expect(len(read["state"]) <= series, f"at most {series} series", len(read["state"]), name)
            counts = read["since"][:, 0]
            form.expect((counts >= 0.0).all(), "counts from 0 on", counts[counts < 0.0][:1], name)
            return cls(read["state"], read["since"])

    made: Any = Bank
    made.name, made.settings, made.level = name, settings, level
    made.__module__, made.__qualname__ = detector.__module__, variable
    bank: type[Detectors] = made
    return bank
