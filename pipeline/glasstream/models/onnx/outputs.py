"""Find out what the outputs of an ONNX model mean: a label, probabilities of classes, or a number."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from glasstream.base.errors import ModelError
from glasstream.models.onnx.remedies import TARGETS

_TYPES: Final = {1: "float32", 6: "int32", 7: "int64", 8: "text", 9: "bool", 11: "float64"}
"""Types of tensors by their numbers in ONNX."""
_LABELS: Final = frozenset({"int32", "int64", "text", "bool"})
_NUMBERS: Final = frozenset({"float32", "float64"})
_WHOLE: Final = re.compile(r"0|-?[1-9]\d{0,17}")
"""Whole numbers as classes are written; another spelling would be another class than the labels of the stream."""
_JOINED: Final = "glasstream probabilities"


class Outputs(NamedTuple):
    """The outputs that are used, and the classes; see `glasstream.models.onnx.file.OnnxFile`."""

    label: str | None
    table: str | None
    keys: tuple[int | str, ...] = ()
    classes: tuple[str, ...] = ()
    own_keys: bool = True


def outputs_of(onnx: Any, graph: Any, chosen: Sequence[str], given: Sequence[str]) -> Outputs:
    """Return the outputs of a model. Dicts of probabilities become a table, and so do columns of probabilities.

    Parameters
    ----------
    chosen, given
        Names of the outputs to use and of the classes, from the settings or the metadata; empty for unknown ones.

    Raises
    ------
    ModelError
        Their meaning is not certain; the message says how to name them.
    """
    keys = _without_dicts(onnx, graph)
    unknown = set(chosen) - {one.name for one in graph.output}
    if unknown:
        raise ModelError(
            f"model.outputs: expected some of {_described(graph.output)}, got {', '.join(sorted(unknown))}"
        )
    used = [one for one in graph.output if not chosen or one.name in chosen]
    labels = [one for one in used if type_of(one) in _LABELS]
    tables = [one for one in used if type_of(one) in _NUMBERS]
    others = len(used) - len(labels) - len(tables)
    if len(labels) == 1:
        keys = keys or _labels(onnx, graph, labels[0].name)
        if len(tables) > 1 and len(tables) == len(keys) and all(_width(one) == 1 for one in tables):
            tables = [_joined(onnx, graph, tables)]
    if any(_width(one) not in (None, 1) for one in labels):
        raise ModelError(f"model.outputs: expected one label for each event, got {_described(labels)}; {TARGETS}")
    if len(labels) > 1 or len(tables) > 1 or not labels + tables or others:
        raise ModelError(
            "model.outputs: expected one output with labels (whole numbers or texts) and one with the probabilities of "
            f"all classes, or one with a number, got {_described(used)}; name those to use, such as "
            f"model.outputs={_suggested(labels, tables) or 'label,probabilities'}, or export them as tables of numbers"
        )
    table = tables[0].name if tables else None
    if labels:
        return _classified(labels[0], tables, keys, given)
    width = _width(tables[0])
    if not given:
        if width is not None and width != 1:
            raise ModelError(
                f"model.classes: expected one number for each event, but the model's output {table!r} has {width}; if "
                "they are probabilities of classes, list the classes in their order with model.classes, separated by "
                f"commas; {TARGETS}"
            )
        return Outputs(None, table)
    count = 2 if width == 1 else width
    if count not in (None, len(given)):
        raise ModelError(
            f"model.classes: expected {count} names, one for each probability in the model's output {table!r}, or two "
            f"for a single one, got {len(given)}"
        )
    return Outputs(None, table, (), _distinct(given))


def type_of(value: Any) -> str | None:
    """Return the type of a tensor; None for another type."""
    return _TYPES.get(value.type.tensor_type.elem_type) if value.type.HasField("tensor_type") else None


def _classified(label: Any, tables: Sequence[Any], keys: tuple[int | str, ...], given: Sequence[str]) -> Outputs:
    """Return the outputs of a classifier that gives labels."""
    table = tables[0].name if tables else None
    width = _width(tables[0]) if tables else None
    if width == 1 and type_of(label) in ("int32", "int64") and not keys:
        raise ModelError(
            f"model.outputs: its output {label.name!r} has whole numbers and {table!r} one number, as "
            "those of outlier detectors, whose labels are -1 and 1; to explain the number, set "
            f"model.outputs={table}, and send the label of an event as a number, or none with "
            f"explain.unlabelled=true; to explain the label, set model.outputs={label.name} and model.classes=-1,1"
        )
    own = bool(keys)
    if not keys and not given:
        order = "" if table is None else f" in the order of the probabilities in {table!r}"
        raise ModelError(
            f"model.classes: expected the classes, which this file does not list; list all values of its output "
            f"{label.name!r}{order}, separated by commas"
        )
    if not keys:
        keys = _keys(type_of(label), given)
    if own:
        expect_order("model.classes", given, [str(one) for one in keys])
    if given and len(given) != len(keys):
        raise ModelError(
            f"model.classes: expected {len(keys)} names, one for each class of the model "
            f"({', '.join(map(str, keys))}), got {len(given)}"
        )
    return Outputs(label.name, table, keys, _distinct(given or [str(one) for one in keys]), own)


def _keys(kind: str | None, names: Sequence[str]) -> tuple[int | str, ...]:
    """Return the labels that names mean: texts and whole numbers mean themselves, other names their positions."""
    if kind == "text":
        return tuple(names)
    return tuple(map(int, names)) if all(_WHOLE.fullmatch(name) for name in names) else tuple(range(len(names)))


def expect_order(setting: str, given: Sequence[str], own: Sequence[str]) -> None:
    """Refuse names that are those of the file in another order: they would rename each thing to another one.

    Raises
    ------
    ModelError
        They are.
    """
    if list(given) != list(own) and sorted(given) == sorted(own):
        raise ModelError(
            f"{setting}: expected the names of the file in its order, {', '.join(own)[:300]}, got "
            f"{', '.join(given)[:300]}; leave {setting} unset"
        )


def _distinct(classes: Sequence[str]) -> tuple[str, ...]:
    if len(classes) < 2 or len(set(classes)) != len(classes):
        raise ModelError(f"model.classes: expected two or more different classes, got {', '.join(classes) or 'none'}")
    return tuple(classes)


def _described(outputs: Sequence[Any]) -> str:
    """Return the names and types of outputs for a message."""
    return ", ".join(f"{one.name} ({_shape(one)})" for one in outputs)[:500]


def _shape(output: Any) -> str:
    kind = type_of(output)
    if kind is None:
        return "no tensor of numbers or texts"
    if not output.type.tensor_type.HasField("shape"):
        return kind
    sizes = [str(size.dim_value or "n") for size in output.type.tensor_type.shape.dim]
    return f"{kind}[{', '.join(sizes)}]"


def _suggested(labels: Sequence[Any], tables: Sequence[Any]) -> str:
    """Return the first output of each kind, if there is one."""
    return ",".join(one.name for kind in (labels, tables) for one in kind[:1])


def _width(output: Any) -> int | None:
    """Return the number of columns of an output; None if the file does not say it."""
    if not output.type.tensor_type.HasField("shape"):
        return None
    sizes = [size.dim_value for size in output.type.tensor_type.shape.dim]
    if len(sizes) < 2:
        return 1 if sizes else None
    return sizes[-1] if len(sizes) == 2 and sizes[-1] > 0 else None


def _joined(onnx: Any, graph: Any, columns: Sequence[Any]) -> Any:
    """Add an output that has several columns of probabilities as a table, and return it."""
    kind = columns[0].type.tensor_type.elem_type
    shape = onnx.helper.make_tensor(f"{_JOINED} shape", onnx.TensorProto.INT64, [2], [-1, 1])
    graph.initializer.append(shape)
    parts = [f"{_JOINED} {number}" for number in range(len(columns))]
    for column, part in zip(columns, parts, strict=True):
        graph.node.append(onnx.helper.make_node("Reshape", [column.name, shape.name], [part]))
    graph.node.append(onnx.helper.make_node("Concat", parts, [_JOINED], axis=1))
    graph.output.append(onnx.helper.make_tensor_value_info(_JOINED, kind, [None, len(columns)]))
    return graph.output[-1]


def _without_dicts(onnx: Any, graph: Any) -> tuple[int | str, ...]:
    """Take out the operator ZipMap, which turns probabilities into a dict for each row; return its keys."""
    for node in [node for node in graph.node if node.op_type == "ZipMap"]:
        keys = _attributes(onnx, node)
        graph.node.remove(node)
        for place, output in enumerate(graph.output):
            if output.name == node.output[0]:
                tensor = onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None)
                graph.output[place].CopyFrom(tensor)
                return keys
    return ()


def _attributes(onnx: Any, node: Any) -> tuple[int | str, ...]:
    """Return the class labels that an operator lists."""
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels"):
            values = onnx.helper.get_attribute_value(attribute)
            if len(values):
                return tuple(one.decode() if isinstance(one, bytes) else int(one) for one in values)
    return ()


def _labels(onnx: Any, graph: Any, label: str) -> tuple[int | str, ...]:
    """Return the class labels that follow from the operators before an output."""
    makers = {name: node for node in graph.node for name in node.output}
    constants = {one.name: one for one in graph.initializer}
    while (node := makers.pop(label, None)) is not None:
        if keys := _attributes(onnx, node):
            return keys
        if node.op_type in ("ArrayFeatureExtractor", "Gather") and node.input[0] in constants:
            values = onnx.numpy_helper.to_array(constants[node.input[0]]).ravel().tolist()
            return tuple(one.decode() if isinstance(one, bytes) else one for one in values)
        label = node.input[0]
    return ()
