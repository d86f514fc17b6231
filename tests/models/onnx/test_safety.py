"""No file makes onnxruntime read another file, run for ever, or calculate what is not a function of its input."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from glasstream.base.errors import ModelError
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.runtime import OnnxPredictor
from tests.support.onnx_graphs import model_of, numbers

SECRET = b"0123456789abcdef"
Place = tuple[str, ...]
"""Names of the fields that lead from a model to a tensor, each message type at most twice."""


def places(descriptor: Any, before: Place = (), types: tuple[str, ...] = ()) -> Iterator[Place]:
    """Yield every place of a tensor in messages of a type, by what the descriptor of ONNX says."""
    if descriptor.full_name == TensorProto.DESCRIPTOR.full_name:
        yield before
        return
    if types.count(descriptor.full_name) == 2:
        return
    for field in descriptor.fields:
        if field.message_type is not None:
            yield from places(field.message_type, (*before, field.name), (*types, descriptor.full_name))


PLACES = sorted(places(ModelProto.DESCRIPTOR))


def reading() -> TensorProto:
    """A tensor whose data are the bytes of the file `secret`."""
    tensor = TensorProto(name="key", data_type=TensorProto.UINT8, dims=[len(SECRET)])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "secret"), ("offset", "0"), ("length", str(len(SECRET)))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def put(message: Any, place: Place, tensor: TensorProto) -> None:
    """Put a tensor at a place below a message, in a new message of each type on the way."""
    name, *rest = place
    value = getattr(message, name)
    one = value.add() if hasattr(value, "add") else value
    if rest:
        one.SetInParent()
        put(one, tuple(rest), tensor)
    else:
        one.CopyFrom(tensor)


def plain() -> ModelProto:
    return model_of([helper.make_node("Identity", ["x"], ["y"])])


def test_the_places_are_those_that_the_standard_has() -> None:
    """Of onnx 1.23; another release may have more, and each becomes a case of the next test."""
    ends = {(place[-2] if len(place) > 1 else "", place[-1]) for place in PLACES}
    assert {
        ("graph", "initializer"), ("sparse_initializer", "values"), ("sparse_initializer", "indices"),
        ("attribute", "t"), ("attribute", "tensors"), ("sparse_tensor", "values"), ("sparse_tensor", "indices"),
        ("sparse_tensors", "values"), ("sparse_tensors", "indices"), ("g", "initializer"), ("graphs", "initializer"),
        ("attribute_proto", "t"), ("initialization", "initializer"), ("algorithm", "initializer"),
    } <= ends  # fmt: skip
    assert {place[0] for place in PLACES} == {"graph", "functions", "training_info"}


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_data_in_another_file_are_refused_wherever_they_are(place: Place) -> None:
    model = plain()
    put(model, place, reading())
    with pytest.raises(ModelError, match="the data of 'key' is in another file"):
        parse(model.SerializeToString(), "a")


def test_only_tensors_can_name_other_files_and_no_field_is_a_map() -> None:
    """What the walk relies on, by the descriptor."""
    seen: dict[str, Any] = {}
    rest = [ModelProto.DESCRIPTOR]
    while rest:
        one = rest.pop()
        if one.full_name not in seen:
            seen[one.full_name] = one
            rest += [field.message_type for field in one.fields if field.message_type is not None]
    telling = {
        (name, field.name)
        for name, one in seen.items()
        for field in one.fields
        if any(word in field.name for word in ("external", "location", "path", "file", "url"))
    }
    assert telling == {("onnx.TensorProto", "external_data"), ("onnx.TensorProto", "data_location")}
    assert not [name for name, one in seen.items() if one.GetOptions().map_entry]


@pytest.mark.parametrize("way", ["sparse_value", "value", "initializer"])
def test_onnxruntime_finds_no_file_even_if_it_is_asked_for_one(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second barrier: no check, and the file lies in the working directory."""
    (tmp_path / "secret").write_bytes(SECRET)
    monkeypatch.chdir(tmp_path)
    key, initializers = reading(), []
    if way == "initializer":
        first = helper.make_node("Identity", ["key"], ["bytes"])
        initializers.append(key)
    elif way == "value":
        first = helper.make_node("Constant", [], ["bytes"], value=key)
    else:
        indices = numpy_helper.from_array(np.arange(len(SECRET)), "places")
        sparse = helper.make_sparse_tensor(key, indices, [len(SECRET)])
        first = helper.make_node("Constant", [], ["bytes"], sparse_value=sparse)
    nodes = [
        first,
        helper.make_node("Cast", ["x"], ["at"], to=TensorProto.INT64),
        helper.make_node("Gather", ["bytes", "at"], ["byte"]),
        helper.make_node("Cast", ["byte"], ["y"], to=TensorProto.FLOAT),
    ]
    file = parse(plain().SerializeToString(), "a")
    file.model.CopyFrom(model_of(nodes, initializers))
    with pytest.raises(ModelError, match="onnxruntime cannot use the model"):
        OnnxPredictor.of(file, [[]])


def test_fields_that_no_check_knows_do_not_reach_onnxruntime() -> None:
    data = plain().SerializeToString() + b"\xfa\x7f\x03new"  # field 2047, of a later standard
    assert b"new" in onnx.load_model_from_string(data).SerializeToString()
    assert b"new" not in parse(data, "a").model.SerializeToString()


@pytest.mark.parametrize("place", ["graph", "subgraph", "training"])
def test_an_operator_that_draws_is_found_wherever_it_is(place: str) -> None:
    model, drawing = plain(), helper.make_node("RandomNormalLike", ["x"], ["z"])
    graph = model.training_info.add().algorithm if place == "training" else model.graph
    if place == "subgraph":
        graph = graph.node.add(op_type="If", input=["x"], output=["w"]).attribute.add(name="then_branch").g
    graph.node.append(drawing)
    with pytest.raises(ModelError, match="got RandomNormalLike in it"):
        parse(model.SerializeToString(), "a")


def looping(turns: list[int | None]) -> ModelProto:
    """A model with loops inside each other, of so many turns; None for a number that depends on the input."""
    inner = [helper.make_node("Add", ["acc", "one"], ["next"])]
    for depth, number in enumerate(reversed(turns)):
        names = [f"i{depth}", f"c{depth}", f"a{depth}"]
        body = helper.make_graph(
            [helper.make_node("Identity", [names[1]], [f"o{depth}"]), *renamed(inner, f"a{depth}", f"r{depth}")],
            f"body{depth}",
            [
                helper.make_tensor_value_info(names[0], TensorProto.INT64, []),
                helper.make_tensor_value_info(names[1], TensorProto.BOOL, []),
                helper.make_tensor_value_info(names[2], TensorProto.FLOAT, None),
            ],
            [
                helper.make_tensor_value_info(f"o{depth}", TensorProto.BOOL, []),
                helper.make_tensor_value_info(f"r{depth}", TensorProto.FLOAT, None),
            ],
        )
        source = "rows" if number is None else f"n{depth}"
        inner = [helper.make_node("Loop", [source, "yes", "acc"], ["next"], body=body)]
    counts = [
        numpy_helper.from_array(np.array(number), f"n{depth}")
        for depth, number in enumerate(reversed(turns))
        if number is not None
    ]
    constants = [numpy_helper.from_array(np.array(True), "yes"), numbers("one", [1.0]), *counts]
    nodes = [
        helper.make_node("Size", ["x"], ["rows"]),
        *renamed(inner, "x", "y"),
    ]
    return model_of(nodes, constants)


def renamed(nodes: list[Any], first: str, last: str) -> list[Any]:
    for node in nodes:
        for place, name in enumerate(node.input):
            if name == "acc":
                node.input[place] = first
        for place, name in enumerate(node.output):
            if name == "next":
                node.output[place] = last
    return nodes


@pytest.mark.parametrize("turns", [[2**62], [None], [-1], [200, 200], [3, None], [2**32, 2**32]], ids=str)
def test_a_loop_without_a_bound_is_refused(turns: list[int | None]) -> None:
    with pytest.raises(ModelError, match="expected loops with a constant number of turns"):
        parse(looping(turns).SerializeToString(), "a")


@pytest.mark.parametrize("turns", [[5], [3, 4]], ids=str)
def test_a_loop_with_a_bound_is_evaluated(turns: list[int | None]) -> None:
    file = parse(looping(turns).SerializeToString(), "a")
    found = OnnxPredictor.of(file, [[]]).evaluate(np.array([[1.0], [2.0]])).values
    assert found.tolist() == [[1.0 + np.prod(turns)], [2.0 + np.prod(turns)]]


def wrong_size(model: Any) -> None:
    model.graph.initializer.append(
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40], raw_data=b"12345678")
    )
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "w"], ["y"]))


def labels_without_end(model: Any) -> None:
    model.graph.initializer.append(
        TensorProto(name="w", data_type=TensorProto.INT64, dims=[2**40], raw_data=b"12345678")
    )
    model.graph.node.append(helper.make_node("Gather", ["w", "x"], ["label"]))
    model.graph.output.append(helper.make_tensor_value_info("label", TensorProto.INT64, None))


def labels_that_are_no_text(model: Any) -> None:
    node = helper.make_node("LinearClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", coefficients=[1.0, 2.0])
    node.attribute.append(helper.make_attribute("classlabels_strings", [b"\xff", b"b"]))
    model.graph.node[0].CopyFrom(node)
    model.graph.output.insert(0, helper.make_tensor_value_info("label", TensorProto.STRING, None))


def loop_of_nothing(model: Any) -> None:
    model.graph.node.append(onnx.NodeProto(op_type="Loop"))


DAMAGED = [wrong_size, labels_without_end, labels_that_are_no_text, loop_of_nothing]


@pytest.mark.parametrize("damage", DAMAGED, ids=lambda damage: damage.__name__)
def test_whatever_is_wrong_with_a_file_is_a_model_error(damage: Any) -> None:
    model = plain()
    damage(model)
    with pytest.raises(ModelError, match=r"model\.name: "):
        OnnxPredictor.of(parse(model.SerializeToString(), "a"), [[]])
