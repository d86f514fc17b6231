"""A predictor, a sampler, an explainer and detectors as a user might write them: a few lines each."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from glasstream.base.errors import ModelError
from glasstream.models.predictors.predictor import NO_LABEL, REGRESSION, Output


class Line:
    """A weighted sum; an absent feature counts as 0."""

    task = REGRESSION
    classes: tuple[str, ...] = ()
    compiled = False

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.features = tuple(weights)
        self.weights = tuple(weights.values())

    def evaluate(self, rows: np.ndarray) -> Output:
        if rows.ndim != 2:
            raise ModelError(f"expected rows as float64[n, d], got an array of shape {rows.shape}")
        values = np.zeros((len(rows), 1))
        for weight, column in zip(self.weights, rows.T, strict=False):
            values[:, 0] += weight * np.where(np.isnan(column), 0.0, column)
        return Output(values, np.full(len(rows), NO_LABEL))


class RowBefore:
    """Draws, for every row, the row before it."""

    def __init__(self) -> None:
        self.last = np.empty(0)

    def pass_through(self, block: np.ndarray, first_row: int, start: int) -> np.ndarray:
        drawn = np.full(block.shape, np.nan)
        drawn[:1, : len(self.last)] = self.last
        drawn[1:] = block[:-1]
        if len(block):
            self.last = block[-1].copy()
        return drawn[max(0, start - first_row) :]


class LeaveOut:
    """By how much the absolute error rises, on average, when a feature is left out."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.sums: dict[str, float] = {}
        self.events = 0

    @property
    def importance(self) -> dict[str, float]:
        return {name: total / self.events for name, total in self.sums.items()}

    def explain_one(self, x: Mapping[str, Any], y: Any) -> dict[str, float]:
        x = {name: value for name, value in x.items() if value is not None}
        odd = [value for value in (*x.values(), y) if not isinstance(value, int | float | str)]
        if odd:
            raise ModelError(f"expected numbers, booleans and texts, got {odd}")
        for name, difference in self.differences(x, y):
            self.sums[name] = self.sums.get(name, 0.0) + difference
        self.events += 1
        return self.importance

    def differences(self, x: Mapping[str, Any], y: float) -> Iterator[tuple[str, float]]:
        loss = abs(y - self.model.predict_one(x))
        for left_out in x:
            rest = {name: value for name, value in x.items() if name != left_out}
            yield left_out, abs(y - self.model.predict_one(rest)) - loss

    def explain_block(self, predictor: Any, rows: np.ndarray, targets: np.ndarray) -> None:
        for row, target in zip(rows, targets.tolist(), strict=True):
            loss = abs(target - predictor.evaluate(row[np.newaxis]).values.item())
            for slot in np.flatnonzero(~np.isnan(row)).tolist():
                rest = row.copy()
                rest[slot] = np.nan
                difference = abs(target - predictor.evaluate(rest[np.newaxis]).values.item()) - loss
                name = predictor.features[slot]
                self.sums[name] = self.sums.get(name, 0.0) + difference
            self.events += 1


class Halves:
    """Alarms when the mean of the newest 50 numbers is far from that of the 50 before, and begins anew then."""

    def __init__(self) -> None:
        self.drift_detected = False
        self.numbers: deque[float] = deque(maxlen=100)

    def update(self, x: float) -> None:
        self.numbers.append(x)
        half = len(self.numbers) // 2
        newer, older = sum([*self.numbers][half:]), sum([*self.numbers][:half])
        self.drift_detected = len(self.numbers) == 100 and abs(newer - older) > 0.5 * half
        if self.drift_detected:
            self.numbers.clear()


class HalvesOfEach:
    """One of them for each of several series."""

    def __init__(self) -> None:
        self.detectors: list[Halves] = []

    def update(self, values: np.ndarray, parameters: Mapping[str, Any]) -> list[tuple[int, int]]:
        self.detectors += [Halves() for _ in range(values.shape[1] - len(self.detectors))]
        alarms = []
        for row, numbers in enumerate(values.tolist()):
            for series, (x, detector) in enumerate(zip(numbers, self.detectors, strict=False)):
                if x == x:
                    detector.update(x)
                    if detector.drift_detected:
                        alarms.append((row, series))
        return alarms

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"numbers": [[*detector.numbers] for detector in self.detectors]}, {}

    @classmethod
    def restore(cls, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "HalvesOfEach":
        made = cls()
        for numbers in meta["numbers"]:
            made.detectors.append(Halves())
            made.detectors[-1].numbers.extend(numbers)
        return made
