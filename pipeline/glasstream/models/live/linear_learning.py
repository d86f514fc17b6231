"""River's `StandardScaler | LogisticRegression` or `| LinearRegression`, predicting and learning in compiled code.

The code repeats River's arithmetic operation by operation in River's order, so that predictions and state have River's
bits (Welford's mean and variance; one step of SGD on the logistic or squared loss). Its state is written into River's
own objects when a caller asks for them, to snapshot or to pickle.
"""

import math
from struct import Struct
from typing import Any, Final, NamedTuple, Self

import numpy as np
from river import compose, linear_model, optim, preprocessing

from glasstream.jit import bare_kernel
from glasstream.models.contract.arrays import Array
from glasstream.models.contract.predictor import Floats
from glasstream.models.kernels.linear_forms import IDENTITY, SIGMOID, linked

_COUNT, _MEAN, _VARIANCE, _WEIGHT = range(4)
"""Rows of `features`, float64[4, features]. A feature that no event had when the model learned has a count of 0."""
_INTERCEPT, _STEPS, _RATE, _INTERCEPT_RATE, _CLIP, _HALF = range(6)
"""Places of `numbers`, float64[6]. The half is the exponent of a square root: River uses a power, and so does this
code.
"""

_FORMS = 4_096  # number of remembered forms; a stream with optional features has several, a hostile one endless


class _Form(NamedTuple):
    """The form of events with the same names in the same order."""

    slots: Array
    """int64[n]: the place of each feature."""
    pack: Any
    """Function that writes n numbers into `buffer`."""
    buffer: memoryview
    values: Floats
    """float64[n]: the content of `buffer`."""
    scaled: Floats
    """float64[n]: scratch space."""


class CompiledLinear:
    """Learns and predicts in place of a River pipeline.

    Parameters
    ----------
    model
        Model that `of` accepts.
    """

    def __init__(self, model: compose.Pipeline) -> None:
        self._model = model
        self._scaler, self._linear = model.steps.values()
        self._logistic = type(self._linear) is linear_model.LogisticRegression
        self._slots: dict[str, int] = {}
        self._forms: dict[tuple[str, ...], _Form] = {}
        self._changed = False
        scaler, linear = self._scaler, self._linear
        weights = linear.weights
        for name in scaler.vars:
            self._slots[name] = len(self._slots)
        self._features = np.zeros((4, max(16, 2 * len(self._slots))))
        for name, slot in self._slots.items():
            count, mean, variance = scaler.counts.get(name, 0), scaler.means.get(name, 0.0), scaler.vars[name]
            self._features[:, slot] = count, mean, variance, weights.get(name, 0.0)
        rate, intercept_rate = linear.optimizer.lr.learning_rate, linear.intercept_lr.learning_rate
        steps = linear.optimizer.n_iterations
        self._numbers = np.array([linear.intercept, steps, rate, intercept_rate, linear.clip_gradient, 0.5])

    @classmethod
    def of(cls, model: Any) -> Self | None:
        """Return a replacement of `model`; None if its type or a parameter is not supported."""
        if type(model) is not compose.Pipeline or len(model.steps) != 2:
            return None
        scaler, linear = model.steps.values()
        if type(scaler) is not preprocessing.StandardScaler or scaler.window_size is not None or not scaler.with_std:
            return None
        loss = _LOSS_OF.get(type(linear))
        if loss is None or type(linear.loss) is not loss or type(linear.optimizer) is not optim.SGD:
            return None
        if not {*scaler.counts, *scaler.means, *linear.weights} <= scaler.vars.keys():
            return None  # not learned as a pipeline
        if loss is optim.losses.Log and (linear.loss.weight_pos, linear.loss.weight_neg) != (1.0, 1.0):
            return None
        constant = optim.schedulers.Constant
        plain = type(linear.optimizer.lr) is constant and type(linear.intercept_lr) is constant
        plain = plain and type(linear.initializer) is optim.initializers.Zeros
        return cls(model) if plain and not linear.l1 and not linear.l2 else None

    @property
    def river(self) -> compose.Pipeline:
        """Return the River model as of the last event.

        Only read it: this object does not see what the model learns by itself.
        """
        if self._changed:
            self._write_back()
            self._changed = False
        return self._model

    def predict_proba_one(self, x: dict[str, float]) -> dict[bool, float]:
        """Return class probabilities, as River does."""
        form = self._forms.get(tuple(x)) or self._remember(x)
        form.pack(form.buffer, 0, *x.values())
        share = _score(self._features, self._numbers, form.slots, form.values, SIGMOID)
        return {False: 1.0 - share, True: share}

    def predict_one(self, x: dict[str, float]) -> float:
        """Return the prediction of River's regression."""
        form = self._forms.get(tuple(x)) or self._remember(x)
        form.pack(form.buffer, 0, *x.values())
        return float(_score(self._features, self._numbers, form.slots, form.values, IDENTITY))

    def learn_one(self, x: dict[str, float], y: float) -> None:
        """Learn one event, as River does."""
        form = self._forms.get(tuple(x)) or self._remember(x)
        form.pack(form.buffer, 0, *x.values())
        _learn(self._features, self._numbers, form.slots, form.values, form.scaled, float(y), self._logistic)
        self._changed = True

    def _remember(self, x: dict[str, float]) -> _Form:
        for name in x:
            if name not in self._slots:
                self._slots[name] = len(self._slots)
                self._changed = True  # a prediction is enough to make River's scaler remember a feature
        if len(self._slots) > self._features.shape[1]:
            grown = np.zeros((4, 2 * len(self._slots)))
            grown[:, : self._features.shape[1]] = self._features
            self._features = grown
        if len(self._forms) >= _FORMS:
            self._forms.clear()
        values = np.empty(len(x))
        slots = np.array([self._slots[name] for name in x], np.int64)
        packed = Struct(f"{len(x)}d")
        form = _Form(slots, packed.pack_into, values.data.cast("B"), values, np.empty(len(x)))
        self._forms[tuple(x)] = form
        return form

    def _write_back(self) -> None:
        scaler, linear = self._scaler, self._linear
        weights = linear._weights
        for name, slot in self._slots.items():
            count, mean, variance, weight = self._features[:, slot].tolist()
            scaler.vars[name] = variance
            if count:
                scaler.counts[name], scaler.means[name] = int(count), mean
                weights[name] = weight
        linear.intercept = float(self._numbers[_INTERCEPT])
        linear.optimizer.n_iterations = int(self._numbers[_STEPS])


_LOSS_OF: Final = {
    linear_model.LogisticRegression: optim.losses.Log,
    linear_model.LinearRegression: optim.losses.Squared,
}


@bare_kernel
def _score(features: Array, numbers: Array, slots: Array, values: Floats, link: int) -> float:
    dot = 0.0
    for k in range(slots.size):
        j = slots[k]
        variance = features[_VARIANCE, j]
        if variance != 0.0:
            dot += features[_WEIGHT, j] * ((values[k] - features[_MEAN, j]) / variance ** numbers[_HALF])
    return float(linked(dot + numbers[_INTERCEPT], link))


@bare_kernel
def _learn(
    features: Array, numbers: Array, slots: Array, values: Floats, scaled: Floats, y: float, logistic: bool
) -> None:
    dot = 0.0
    for k in range(slots.size):
        j, x = slots[k], values[k]
        features[_COUNT, j] += 1.0
        count, before = features[_COUNT, j], features[_MEAN, j]
        mean = before + (x - before) / count
        variance = features[_VARIANCE, j]
        variance += ((x - before) * (x - mean) - variance) / count
        features[_MEAN, j], features[_VARIANCE, j] = mean, variance
        scaled[k] = (x - mean) / variance ** numbers[_HALF] if variance != 0.0 else 0.0
        dot += features[_WEIGHT, j] * scaled[k]
    gradient = _gradient(dot + numbers[_INTERCEPT], y, logistic)
    gradient = max(min(gradient, numbers[_CLIP]), -numbers[_CLIP])
    numbers[_INTERCEPT] -= numbers[_INTERCEPT_RATE] * gradient
    for k in range(slots.size):
        features[_WEIGHT, slots[k]] -= numbers[_RATE] * (scaled[k] * gradient)
    numbers[_STEPS] += 1.0


@bare_kernel
def _gradient(score: float, y: float, logistic: bool) -> float:
    if not logistic:
        return 2.0 * (score - y)
    sign = -1.0 if y == 0.0 else 1.0
    z = score * sign
    if z > 18.0:
        return math.exp(-z) * -sign
    if z < -18.0:
        return -sign
    return -sign / (math.exp(z) + 1.0)
