"""All arrays of a predictor, as bytes."""

from typing import Any


def bits(predictor: Any) -> Any:
    meta, arrays = predictor.pack()
    return meta, {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}
