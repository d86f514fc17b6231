"""Small ONNX models from operators."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSETS = (("", 17), ("ai.onnx.ml", 3))


def numbers(name: str, values: object) -> TensorProto:
    """Return a constant of float32."""
    return numpy_helper.from_array(np.array(values, np.float32), name)


def output(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[int | None] | None = None) -> Any:
    """Return the description of an output."""
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(
    nodes: Sequence[Any],
    constants: Iterable[Any] = (),
    *,
    columns: int = 1,
    outputs: Sequence[Any] = (),
) -> ModelProto:
    """Return a model of operators, from x as float32[n, columns] to y, or to other outputs."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, columns])],
        list(outputs) or [output("y")],
        list(constants),
    )
    opsets = [helper.make_opsetid(*one) for one in OPSETS]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
