"""The common part of predictors that consist of one tuple of arrays."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from glasstream.models.predictors.arrays import Array, read_fields, read_tuple, require_range, sealed, sealed_tuple
from glasstream.models.predictors.compiled import texts
from glasstream.models.predictors.kernels.normalise import classified
from glasstream.models.predictors.predictor import CLASSIFICATION, Floats, Output, Task


class TablePredictor:
    """A predictor that consists of names and one tuple of arrays.

    Parameters
    ----------
    features, classes
        Features and classes; see `Predictor`.
    column
        int32[c]: the class of each key of River's dict, in the dict's order, or -1 for a key that is not reported;
        empty for regression.
    tables
        The arrays, in the order of `Tables`.
    """

    Tables: ClassVar[type[Any]]
    task: Task = CLASSIFICATION
    compiled = True

    def __init__(
        self, features: tuple[str, ...], classes: tuple[str, ...], column: object, tables: Iterable[object]
    ) -> None:
        self.features = features
        self.classes = classes
        self._column = sealed(column, np.int32)
        self._tables = sealed_tuple(self.Tables, tables)

    def _classified(self, scores: Floats, rule: str = "as they are") -> Output:
        return classified(scores, rule, self._column, len(self.classes))

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta: dict[str, object] = {"features": self.features, "classes": self.classes}
        return meta, {"column": self._column} | self._tables._asdict()

    @classmethod
    def _read(
        cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> tuple[tuple[str, ...], tuple[str, ...], Array, Any]:
        """Return features, classes, column and tables from the result of `pack`; the tables are not checked."""
        features, classes = texts(meta, "features"), texts(meta, "classes")
        (column,) = read_fields(arrays, (("column", "i4"),))
        require_range(column, -1, len(classes), "columns")
        return features, classes, column, read_tuple(cls.Tables, arrays)
