"""Refuse ONNX files that would read other files, draw random numbers, or never end."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from glasstream.base.errors import ModelError
from glasstream.models.onnx.attributes import Attributes
from glasstream.models.onnx.remedies import OPERATORS, way_out
from glasstream.models.onnx.trees import expect_ends

_STANDARD: Final = frozenset({"", "ai.onnx", "ai.onnx.ml"})
_RANDOM: Final = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
_TURNS: Final = 10_000
"""Largest number of turns of a loop, with those of the loops around it."""


def messages(message: Any) -> Iterator[Any]:
    """Yield a protobuf message and every message inside it, whatever field holds it."""
    rest = [message]
    while rest:
        one = rest.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is not None:
                rest += [value] if hasattr(value, "ListFields") else value


def expect_safe(onnx: Any, model: Any) -> None:
    """Refuse data in other files, custom operators, random numbers, and trees or loops that may never end.

    Raises
    ------
    ModelError
        The file contains such a thing; the message says what to do.
    """
    custom = {f"{one.domain}.{one.name}" for one in model.functions}
    for part in messages(model):
        if isinstance(part, onnx.TensorProto):
            if part.data_location != onnx.TensorProto.DEFAULT or part.external_data:
                raise ModelError(
                    f"model.name: expected a file that is complete, but the data of {part.name!r:.200} is in another "
                    "file; save the model in one file (onnx.save without save_as_external_data, torch.onnx.export with "
                    "external_data=False)"
                )
        elif isinstance(part, onnx.NodeProto):
            if part.domain not in _STANDARD:
                custom.add(f"{part.domain}.{part.op_type}")
            if part.op_type in _RANDOM:
                raise ModelError(
                    f"model.name: expected a model that is a function of its input, got {part.op_type} in it"
                )
            if part.op_type.startswith("TreeEnsemble"):
                expect_ends(Attributes(onnx, part))
    if custom:
        names = ", ".join(sorted(custom))
        raise ModelError(
            f"model.name: expected operators of the ONNX standard only, got {names:.300}; {way_out(OPERATORS, names)}"
        )
    _expect_bounded(onnx, model.graph, {}, 1)


def _expect_bounded(onnx: Any, graph: Any, outer: Mapping[str, int], turns: int) -> None:
    """Refuse loops whose number of turns is not a constant, or is too large.

    Parameters
    ----------
    outer
        Constants of the graphs around this one that may be numbers of turns, by name.
    turns
        Number of turns of the loops around this graph.
    """
    constants = {**outer, **dict.fromkeys((one.name for one in graph.input), -1)}
    constants |= {one.name: _number(onnx, one) for one in graph.initializer}
    for node in graph.node:
        constants |= dict.fromkeys(node.output, -1)
        if node.op_type == "Constant":
            for attribute in node.attribute:
                constants[node.output[0]] = attribute.i if attribute.name == "value_int" else _number(onnx, attribute.t)
        inside = turns
        if node.op_type == "Loop":
            inside *= constants.get(node.input[0], -1) if node.input else -1
            if not 0 <= inside <= _TURNS:
                raise ModelError(
                    f"model.name: expected loops with a constant number of turns, together at most {_TURNS:,}, but the "
                    f"loop {node.name or node.output[0]!r:.100} may have any number or more; export the model with "
                    "its loops unrolled"
                )
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                _expect_bounded(onnx, inner, constants, inside)


def _number(onnx: Any, tensor: Any) -> int:
    """Return the whole number in a tensor that holds a single one; -1 for any other tensor."""
    if tensor.data_type != onnx.TensorProto.INT64 or any(size != 1 for size in tensor.dims):
        return -1
    if len(tensor.raw_data) == 8:
        return int.from_bytes(tensor.raw_data, "little", signed=True)
    return tensor.int64_data[0] if len(tensor.int64_data) == 1 else -1
