"""What a model answers means what the file and the settings say, or the model is refused with the way out."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from glasstream.base.errors import ModelError, ModelRaised
from glasstream.events.limits import IngestLimits
from glasstream.models.online.live import Columns
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.loading import loaded
from glasstream.models.onnx.model import FixedModel
from tests.support.onnx_exports import FEATURES, X, exported
from tests.support.onnx_graphs import model_of, numbers, output

ROWS = X[:80].astype(np.float64)
WEIGHTS = np.eye(4, 3) * 3.0
BEST = (ROWS @ WEIGHTS).argmax(axis=1)
"""Which of the first three features is largest, and so which class has the largest probability."""


def whole(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def net(*, first: int = 0, last: str = "Softmax", label: bool = True, table: bool = True) -> bytes:
    """A net of three classes as PyTorch exports it: `argmax(x) + first`, and an activation of each class."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("ArgMax", ["h"], ["at"], axis=1, keepdims=0),
        helper.make_node("Add", ["at", "first"], ["label"]), helper.make_node(last, ["h"], ["p"]),
    ]  # fmt: skip
    named = [output("label", TensorProto.INT64, [None])] * label + [output("p", shape=[None, 3])] * table
    return model_of(nodes, [numbers("w", WEIGHTS), whole("first", first)], columns=4, outputs=named).SerializeToString()


def outliers() -> bytes:
    """A model that gives -1 for some rows and 1 for others, and a score."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["sum"], keepdims=1),
        helper.make_node("Less", ["sum", "bound"], ["far"]),
        helper.make_node("Where", ["far", "minus", "one"], ["label"]),
    ]
    constants = [numbers("bound", 0.0), whole("axes", 1), whole("minus", -1), whole("one", 1)]
    named = [output("label", TensorProto.INT64, [None, 1]), output("sum", shape=[None, 1])]
    return model_of(nodes, constants, columns=4, outputs=named).SerializeToString()


def model(data: bytes, *, features: str | None = FEATURES, **named: str) -> FixedModel:
    return FixedModel(loaded(parse(data, features, named.get("classes"), named.get("outputs"))), IngestLimits())


def labels(made: FixedModel) -> list[Any]:
    """The label of each row, or the error."""
    found = made.predict_and_learn(Columns(list("abcd"), ROWS, {}), [None] * len(ROWS))
    return [str(one) if isinstance(one, ModelRaised) else one.label for one in found]


@pytest.mark.parametrize("table", [True, False], ids=["with probabilities", "alone"])
@pytest.mark.parametrize("first", [-1, 0, 1, 7])
def test_whole_numbers_as_classes_are_the_values_of_the_label(first: int, table: bool) -> None:
    named = ",".join(str(first + place) for place in range(3))
    found = labels(model(net(first=first, table=table), classes=named))
    assert found == [str(first + place) for place in BEST.tolist()]


@pytest.mark.parametrize("table", [True, False], ids=["with probabilities", "alone"])
def test_other_names_stand_for_labels_from_0_on_and_a_label_beyond_them_is_refused(table: bool) -> None:
    found = labels(model(net(table=table), classes="low,middle,high"))
    assert found == [["low", "middle", "high"][place] for place in BEST.tolist()]
    with pytest.raises(ModelError, match=r"labels among 0, 1, 2 .* stand for the labels from 0 on, got 1, 2, 3; list"):
        model(net(first=1, table=table), classes="low,middle,high")


def test_labels_that_are_none_of_the_classes_are_refused_with_their_values() -> None:
    with pytest.raises(ModelError, match=r"labels among 10, 20, 30 .* those of model.classes, got 0, 1, 2; list the"):
        model(net(), classes="10,20,30")
    with pytest.raises(ModelError, match=r"labels among 1, 2 .* got 1, 2, 3"):
        model(net(first=1, table=False), classes="1,2")


def test_classes_in_another_order_than_their_probabilities_are_refused() -> None:
    assert labels(model(net(), classes="0,1,2"))
    with pytest.raises(ModelError, match=r"order of the probabilities, .* gives 0, 1, 2, never names the class"):
        model(net(), classes="2,0,1")


def test_the_labels_of_an_outlier_detector_are_its_classes() -> None:
    with pytest.raises(ModelError, match=r"model.outputs=sum, .* set model.outputs=label and model.classes=-1,1"):
        model(outliers())
    found = labels(model(outliers(), outputs="label", classes="-1,1"))
    assert found == ["-1" if far else "1" for far in (ROWS.astype(np.float32).sum(axis=1) < 0).tolist()]
    assert {*found} == {"-1", "1"}


def test_a_label_that_no_trial_has_seen_is_a_dead_letter_with_its_value() -> None:
    """The trial's numbers are between -2 and 2, and so small that this model rounds them to 0 or 1."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], axes=[1], keepdims=0),
        helper.make_node("Abs", ["most"], ["positive"]),
        helper.make_node("Div", ["positive", "five"], ["part"]),
        helper.make_node("Round", ["part"], ["rounded"]),
        helper.make_node("Cast", ["rounded"], ["label"], to=TensorProto.INT64),
    ]
    named = [output("label", TensorProto.INT64, [None])]
    made = model(model_of(nodes, [numbers("five", 3.0)], columns=4, outputs=named).SerializeToString(), classes="0,1")
    assert {*labels(made)} == {"0", "1"}
    with pytest.raises(ModelRaised, match=r"a label among its classes .* got 4; its classes are 0, 1; list the values"):
        made.predict(dict.fromkeys("abcd", 12.0))


def test_a_label_for_each_of_several_targets_is_refused() -> None:
    nodes = [helper.make_node("Cast", ["x"], ["label"], to=TensorProto.INT64)]
    for shape, wanted in (([None, 4], "one label for each event"), (None, r"one label for each row .* \(\d+, 4\)")):
        named = [output("label", TensorProto.INT64, shape)]
        with pytest.raises(ModelError, match=f"{wanted}.* one model for each target"):
            model(model_of(nodes, columns=4, outputs=named).SerializeToString(), classes="0,1")


def test_labels_beyond_the_classes_of_the_file_are_refused() -> None:
    """The exporter of one-vs-one models writes the places of the classes as labels."""
    made = parse(net(), FEATURES, "10,20,30").model
    made.graph.node.append(
        helper.make_node("ZipMap", ["p"], ["dicts"], domain="ai.onnx.ml", classlabels_int64s=[10, 20, 30])
    )
    made.graph.output[1].CopyFrom(helper.make_tensor_value_info("dicts", TensorProto.UNDEFINED, None))
    with pytest.raises(ModelError, match=r"labels among 10, 20, 30 .* the classes of the file, got 0, 1, 2; train it"):
        model(made.SerializeToString())


def test_numbers_that_are_right_for_several_classes_at_once_are_refused() -> None:
    with pytest.raises(ModelError, match=r"with the sum 1 in the model's output 'p', got .* one model for each class"):
        model(net(last="Sigmoid", label=False), classes="a,b,c")
    assert labels(model(net(label=False), classes="a,b,c"))


def test_names_of_the_file_in_another_order_are_refused() -> None:
    one = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 1]) for name in ("size", "age")]
    graph = helper.make_graph(
        [helper.make_node("Sub", ["size", "age"], ["y"])], "two inputs", one, [output("y", shape=[None, 1])]
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    assert parse(data, "size,age").features == ("size", "age")
    assert parse(data, "age,years").features == ("age", "years")
    with pytest.raises(
        ModelError, match=r"model.features: expected the names of the file in its order, size, age, got"
    ):
        parse(data, "age,size")


def test_classes_of_the_file_in_another_order_are_refused() -> None:
    assert parse(exported("forest"), FEATURES, "no,yes").classes == ("no", "yes")
    with pytest.raises(ModelError, match=r"model.classes: expected the names of the file in its order, 0, 1, got 1, 0"):
        parse(exported("forest"), FEATURES, "1,0")
