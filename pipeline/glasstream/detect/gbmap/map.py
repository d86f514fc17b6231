"""The fitted map: its predictions and its embedding of rows (003, equations 1, 2 and 5).

A row's results have the same bits whatever other rows the call has.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import ModelError
from glasstream.base.jit import kernel
from glasstream.detect.gbmap.rows import Floats, as_matrix
from glasstream.detect.gbmap.settings import LOSSES, UNITS, Loss, Unit
from glasstream.detect.gbmap.units import sigmoid, slope, value
from glasstream.models.predictors.arrays import sealed

Model = Callable[[Floats], npt.ArrayLike]
"""Function from rows float64[n, p] to one number for each row: a value, or the score that a sigmoid turns into a
probability.
"""


@dataclass(frozen=True, slots=True, eq=False)
class BoostedMap:
    """f(x) = f_0(x) + Σ_j (a_j + b_j g(w_j·x + v_j)) with m learners on p features.

    Parameters
    ----------
    weights
        float64[m, p], w_j.
    constants
        float64[m], v_j: weight of the constant that the paper writes into x.
    offsets
        float64[m], a_j.
    signs
        float64[m], b_j: -1 or +1.
    unit, beta
        g and its β; see `GbmapSettings`.
    loss
        Loss of the fit. With ``"logistic"``, f is the score of the class +1.
    initial
        f_0: a number, or a model of the same rows.

    Raises
    ------
    ModelError
        The arrays do not fit together.
    """

    weights: Floats
    constants: Floats
    offsets: Floats
    signs: Floats
    unit: Unit
    beta: float
    loss: Loss
    initial: float | Model = 0.0

    def __post_init__(self) -> None:
        for name in ("weights", "constants", "offsets", "signs"):
            object.__setattr__(self, name, sealed(getattr(self, name), np.float64))
        m = len(self.constants)
        if self.weights.ndim != 2 or [self.weights.shape[0], *self.offsets.shape, *self.signs.shape] != [m, m, m]:
            shapes = [array.shape for array in (self.weights, self.constants, self.offsets, self.signs)]
            raise ModelError(f"gbmap: expected weights [m, p] and constants, offsets and signs [m], got {shapes}")
        if not all(np.isfinite(array).all() for array in (self.weights, self.constants, self.offsets)):
            raise ModelError("gbmap: expected finite weights, constants and offsets; the map is damaged, fit it again")
        if not (np.abs(self.signs) == 1.0).all():
            raise ModelError(f"gbmap: expected signs of -1 and +1, got {self.signs!r:.200}")
        if self.unit not in UNITS or self.loss not in LOSSES or not (np.isfinite(self.beta) and self.beta > 0):
            raise ModelError(
                f"gbmap: expected a unit of {UNITS}, a loss of {LOSSES} and beta above 0, "
                f"got {self.unit!r}, {self.loss!r} and {self.beta!r}"
            )

    @property
    def learners(self) -> int:
        """Number of learners, m."""
        return len(self.constants)

    @property
    def features(self) -> int:
        """Number of features, p."""
        return int(self.weights.shape[1])

    def embed(self, rows: npt.ArrayLike) -> Floats:
        """Return φ(x) = (f_1(x), ..., f_m(x)) of each row: float64[n, m] (003, equation 5).

        Raises
        ------
        InputError
            `rows` is not float64[n, p] of finite numbers.
        """
        return self._embed(as_matrix(rows, "rows", self.features))

    def boosted(self, rows: npt.ArrayLike) -> Floats:
        """Return f - f_0 of each row, float64[n]: the sum of its embedding. Errors are those of `embed`."""
        return sum_learners(self.embed(rows))

    def predict(self, rows: npt.ArrayLike) -> Floats:
        """Return f of each row, float64[n]: a value, or the score of the class +1 (003, equation 1).

        Raises
        ------
        InputError
            `rows` is not float64[n, p] of finite numbers.
        ModelError
            f_0 does not give one finite number for each row.
        """
        matrix = as_matrix(rows, "rows", self.features)
        return start_values(self.initial, matrix) + sum_learners(self._embed(matrix))

    def staged(self, rows: npt.ArrayLike) -> Iterator[Floats]:
        """Yield f of each row with the first 1, 2, ..., m learners, float64[n] each. Errors are those of `predict`."""
        matrix = as_matrix(rows, "rows", self.features)
        embedded, boosted = self._embed(matrix), np.zeros(len(matrix))
        base = start_values(self.initial, matrix)
        for j in range(self.learners):
            boosted += embedded[:, j]
            yield base + boosted

    def probabilities(self, rows: npt.ArrayLike) -> Floats:
        """Return the probability of the class +1 of each row, float64[n]: σ(f) (003, 3.1).

        Errors are those of `predict`.
        """
        return sigmoids(self.predict(rows))

    def gradients(self, rows: npt.ArrayLike) -> Floats:
        """Return the gradient of f - f_0 at each row, float64[n, p]: Σ_j b_j g'(w_j·x + v_j) w_j.

        Errors are those of `embed`.
        """
        matrix = as_matrix(rows, "rows", self.features)
        out = np.zeros(matrix.shape)
        _gradients(matrix, *self._kernel_arguments(), out)
        return out

    def active(self, rows: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return whether a row is in the half-space w_j·x + v_j > 0 of each learner, bool[n, m].

        These hyperplanes cut the space into the regions of the paper (003, 5.1 and 5.2). Errors are those of `embed`.
        """
        matrix = as_matrix(rows, "rows", self.features)
        out = np.empty((len(matrix), self.learners), np.bool_)
        _active(matrix, np.ascontiguousarray(self.weights.T), self.constants, out)
        return out

    def rescaled(self, factor: float, shift: float) -> "BoostedMap":
        """Return the map of factor · f + shift, which has other units of the target.

        `factor` must be above 0 and f_0 a number. The result is exact up to rounding: c · softplus with β of z is the
        softplus with β/c of c·z.
        """
        if callable(self.initial) or not factor > 0:
            raise ModelError("gbmap: expected a number as f_0 and a factor above 0 to rescale a map")
        return replace(
            self,
            weights=self.weights * factor,
            constants=self.constants * factor,
            offsets=self.offsets * factor,
            beta=self.beta / factor,
            initial=self.initial * factor + shift,
        )

    def _embed(self, matrix: Floats) -> Floats:
        out = np.empty((len(matrix), self.learners))
        _embed(matrix, np.ascontiguousarray(self.weights.T), *self._kernel_arguments()[1:], out)
        return out

    def _kernel_arguments(self) -> tuple[Floats, Floats, Floats, Floats, int, float]:
        return self.weights, self.constants, self.offsets, self.signs, UNITS.index(self.unit), self.beta


def start_values(initial: float | Model, rows: Floats, name: str = "the initial model") -> Floats:
    """Return f_0 of each row, float64[n]; errors name it `name`.

    Raises
    ------
    ModelError
        `initial` does not give one finite number for each row.
    """
    given = initial(rows) if callable(initial) else np.full(len(rows), float(initial))
    values = np.asarray(given, np.float64)
    if values.shape != (len(rows),) or not np.isfinite(values).all():
        raise ModelError(
            f"gbmap: expected {name} to give {len(rows)} finite numbers, one for each row, "
            f"got shape {values.shape} with {np.count_nonzero(~np.isfinite(values))} that are not finite"
        )
    return values


def sum_learners(embedded: Floats) -> Floats:
    """Return Σ_j f_j of each row of an embedding, float64[n], added up from the first learner to the last."""
    total = np.zeros(len(embedded))
    for j in range(embedded.shape[1]):
        total += embedded[:, j]
    return total


def sigmoids(scores: Floats) -> Floats:
    """Return σ of each score, float64[n]."""
    out = np.empty(len(scores))
    _sigmoids(scores, out)
    return out


@kernel
def _embed(rows, columns, constants, offsets, signs, unit, beta, out):  # type: ignore[no-untyped-def]
    """Fill the embedding; `columns` are the weights [p, m]."""
    for i in range(rows.shape[0]):
        z = out[i]
        for j in range(z.size):
            z[j] = constants[j]
        for k in range(rows.shape[1]):
            x = rows[i, k]
            for j in range(z.size):
                z[j] += columns[k, j] * x
        for j in range(z.size):
            z[j] = offsets[j] + signs[j] * value(unit, beta, z[j])


@kernel
def _gradients(rows, weights, constants, offsets, signs, unit, beta, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        for j in range(constants.size):
            z = constants[j]
            for k in range(rows.shape[1]):
                z += weights[j, k] * rows[i, k]
            by_z = signs[j] * slope(unit, beta, z)
            for k in range(rows.shape[1]):
                out[i, k] += by_z * weights[j, k]


@kernel
def _active(rows, columns, constants, out):  # type: ignore[no-untyped-def]
    z = np.empty(constants.size)
    for i in range(rows.shape[0]):
        z[:] = constants
        for k in range(rows.shape[1]):
            for j in range(z.size):
                z[j] += columns[k, j] * rows[i, k]
        for j in range(z.size):
            out[i, j] = z[j] > 0.0


@kernel
def _sigmoids(scores, out):  # type: ignore[no-untyped-def]
    for i in range(scores.size):
        out[i] = sigmoid(scores[i])
