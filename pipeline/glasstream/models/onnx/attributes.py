"""Attributes of an operator in an ONNX file."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from glasstream.models.predictors.arrays import Array


class Attributes(Mapping[str, Any]):
    """Attributes of an operator by name. Long ones become arrays without a Python object for each number."""

    def __init__(self, onnx: Any, node: Any) -> None:
        self._value_of = onnx.helper.get_attribute_value
        self._attributes = {one.name: one for one in node.attribute}

    def __getitem__(self, name: str) -> Any:
        return self._value_of(self._attributes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def whole(self, name: str) -> Array:
        """Return whole numbers as int64[n]; an absent attribute has none."""
        one = self._attributes.get(name)
        return np.fromiter(() if one is None else one.ints, np.int64)

    def single(self, name: str) -> Array:
        """Return numbers as float32[n]; an absent attribute has none."""
        one = self._attributes.get(name)
        return np.fromiter(() if one is None else one.floats, np.float32)

    def texts(self, name: str) -> list[bytes]:
        """Return texts; an absent attribute has none."""
        one = self._attributes.get(name)
        return [] if one is None else list(one.strings)
