"""A predictor that transforms its rows first: scaling, encoding, selection."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import (
    Array,
    Bytes,
    Indices,
    Numbers,
    as_rows,
    read_tuple,
    require,
    require_range,
    sealed_tuple,
)
from glasstream.models.predictors.compiled import Compiled, texts
from glasstream.models.predictors.kernels.games import CACHE_BYTES, AdditiveGame, HasGame, MappedGame
from glasstream.models.predictors.kernels.walk import find
from glasstream.models.predictors.predictor import Floats, Integers, Output, Task

CONSTANT: Final = 0
SCALED: Final = 1
ABOVE: Final = 2
IS: Final = 3
IS_OR_ABSENT: Final = 4
LOOKED_UP: Final = 5
FIRST_OF: Final = 6
ANY_OF: Final = 7
SINGLE: Final = 8
SCALED_SINGLE: Final = 9
DIVIDED_SINGLE: Final = 10
ROUNDED: Final = 11

_SEVERAL: Final = -2
_CHUNK_VALUES: Final = 1 << 20  # transformed numbers held at once, 8 MiB: one-hot rows are wide


class Steps(NamedTuple):
    """K steps, each of which appends one column, made of the columns before it, to the d of a row.

    `output` selects the columns that remain.

    Attributes
    ----------
    kind
        int8[K], of the column x that is the step's source:

        - CONSTANT: `number`, whatever the row
        - SCALED: (x - number) / divisor, 0 where the divisor is 0
        - ABOVE: 1 if x > number, else 0
        - IS: 1 if x is `number`, also in the sign of a zero, else 0; 0 where x is absent
        - IS_OR_ABSENT: as IS, but absent instead of 0
        - LOOKED_UP: the code beside x among `known[first:last]`, `number` if it is not there
        - FIRST_OF: x, or the column `other` where x is absent
        - ANY_OF: the larger of x and the column `other`, absent if both are
        - SINGLE: x rounded to float32
        - SCALED_SINGLE: (x - number) * divisor, each operation rounded to float32
        - DIVIDED_SINGLE: x / divisor, rounded to float32
        - ROUNDED: the whole number nearest to x

        Unless said otherwise the result is absent where x is.
    source, other
        int32[K]: columns.
    number, divisor
        float64[K]
    first, last
        int32[K]: ranges of the table.
    known, code
        float64[T]: the table, sorted by `known` within a range.
    output
        int32[w]: the columns that are kept, in their order.
    """

    kind: Bytes
    source: Indices
    other: Indices
    number: Numbers
    divisor: Numbers
    first: Indices
    last: Indices
    known: Numbers
    code: Numbers
    output: Indices


@kernel
def transform(rows: Floats, width: int, steps: Steps, result: Floats) -> None:
    """Fill `result` float64[n, w] with the output of `steps` for the first `width` columns of `rows`."""
    # Unpack the arrays: passing the tuple would count references on every array in each call.
    kind, source, other, number, divisor, first, last, known, code, output = steps
    columns = np.empty(width + kind.size)
    for i in range(rows.shape[0]):
        for j in range(width):
            columns[j] = rows[i, j]
        for k in range(kind.size):
            x = columns[source[k]]
            what = kind[k]
            if what == SCALED:
                if x == x:
                    x = (x - number[k]) / divisor[k] if divisor[k] != 0.0 else 0.0
            elif what in (IS, IS_OR_ABSENT):
                found = x == number[k] and np.signbit(x) == np.signbit(number[k])
                x = 1.0 if found else 0.0 if what == IS else np.nan
            elif what == LOOKED_UP:
                if x == x:
                    place = find(known, first[k], last[k], x)
                    x = code[place] if place >= 0 else number[k]
            elif what == ABOVE:
                if x == x:
                    x = 1.0 if x > number[k] else 0.0
            elif what == CONSTANT:
                x = number[k]
            elif what == SINGLE:
                x = np.float64(np.float32(x))
            elif what == SCALED_SINGLE:
                x = np.float64((np.float32(x) - np.float32(number[k])) * np.float32(divisor[k]))
            elif what == DIVIDED_SINGLE:
                x = np.float64(np.float32(x) / np.float32(divisor[k]))
            elif what == ROUNDED:
                x = np.rint(x)
            else:
                y = columns[other[k]]
                if x != x or (what == ANY_OF and y > x):
                    x = y
            columns[width + k] = x
        for j in range(output.size):
            result[i, j] = columns[output[j]]


class Transformed:
    """A predictor with steps before it.

    Parameters
    ----------
    features
        Features of the original rows; see `Predictor`.
    steps
        Steps of the transformation.
    inner
        Predictor of the transformed rows.
    """

    form: ClassVar[str] = "transformed"
    compiled = True

    def __init__(self, features: tuple[str, ...], steps: Steps, inner: Compiled) -> None:
        self.features = features
        self.task: Task = inner.task
        self.classes = inner.classes
        self.parts: tuple[Compiled, ...] = (inner,)
        self._steps = sealed_tuple(Steps, steps)

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        columns = self._steps.output.size
        height = max(1, _CHUNK_VALUES // max(1, columns))
        said = []
        for begin in range(0, max(1, len(rows)), height):
            said.append(self.parts[0].evaluate(self.transformed(rows[begin : begin + height])))
        if len(said) == 1:
            return said[0]
        return Output(np.concatenate([one.values for one in said]), np.concatenate([one.labels for one in said]))

    def transformed(self, rows: Floats) -> Floats:
        """Return the transformed rows, float64[n, w]."""
        rows = as_rows(rows, len(self.features))
        made = np.empty((len(rows), self._steps.output.size))
        transform(rows, len(self.features), self._steps, made)
        return made

    def game(self, background: Floats, cache_bytes: int = CACHE_BYTES) -> MappedGame | None:
        """Return the game with background rows; see `glasstream.models.predictors.kernels.games`.

        None if a column is made of several features, or several columns of trees are made of one feature.
        """
        inner = self.parts[0]
        source = self._sources()
        made = (
            inner.game(self.transformed(background), cache_bytes)
            if source is not None and isinstance(inner, HasGame)
            else None
        )
        if source is None or made is None:
            return None
        if not isinstance(made, AdditiveGame) and np.bincount(source[source >= 0], minlength=1).max() > 1:
            return None
        return MappedGame(made, self.transformed, source, len(self.features))

    def _sources(self) -> Integers | None:
        """Return int64[w] the feature that each column is made of, -1 for a constant; None if several are."""
        width, steps = len(self.features), self._steps
        source = np.arange(width + steps.kind.size)
        for k, kind in enumerate(steps.kind.tolist()):
            own = -1 if kind == CONSTANT else int(source[steps.source[k]])
            if kind in (FIRST_OF, ANY_OF):
                other = int(source[steps.other[k]])
                if own >= 0 and other >= 0 and own != other:
                    own = _SEVERAL
                else:
                    own = max(own, other) if own != _SEVERAL and other != _SEVERAL else _SEVERAL
            source[width + k] = own
        kept = source[steps.output]
        return None if np.any(kept == _SEVERAL) else kept

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        return {"features": self.features}, self._steps._asdict()

    @classmethod
    def assemble(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array], parts: tuple[Compiled, ...]) -> Self:
        features = texts(meta, "features")
        steps = read_tuple(Steps, arrays)
        kind, count, width = steps.kind, steps.kind.size, len(features)
        require(all(array.size == count for array in steps[:7]), "arrays of steps of one length")
        require(steps.known.size == steps.code.size, "a code for each known value")
        require_range(kind, CONSTANT, ROUNDED + 1, "kinds of step")
        before = width + np.arange(count)
        two = (kind == FIRST_OF) | (kind == ANY_OF)
        for column, used in ((steps.source, kind != CONSTANT), (steps.other, two)):
            known = (column >= 0) & (column < np.where(used, before, 1))
            require(np.all(known), "sources among the columns before a step, 0 where there is none")
        require(np.all((steps.first >= 0) & (steps.first <= steps.last)), "ranges of the table")
        require_range(steps.last, 0, steps.known.size + 1, "ranges of the table")
        require_range(steps.output, 0, width + count, "columns that are kept")
        require(len(parts) == 1 and len(parts[0].features) == steps.output.size, "a predictor of the kept columns")
        return cls(features, steps, parts[0])
