"""A file that cannot be used, or that is not what its author meant, is reported with the way out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

from glasstream.base.errors import ModelError, ModelRaised
from glasstream.events.limits import IngestLimits
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.loading import loaded
from glasstream.models.onnx.model import FixedModel
from glasstream.models.onnx.remedies import shortened
from tests.support.onnx_graphs import model_of, numbers, output


def typed(kind: int, shape: list[int | None], nodes: list[Any] | None = None, out: int | None = None) -> ModelProto:
    """A model with an input of another type than float32."""
    graph = helper.make_graph(
        nodes or [helper.make_node("Identity", ["x"], ["y"])],
        "typed",
        [helper.make_tensor_value_info("x", kind, shape)],
        [output("y", kind if out is None else out, shape)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def custom(name: str) -> ModelProto:
    return model_of([helper.make_node(name, ["x"], ["y"], domain="com.microsoft")])


def of_dicts() -> ModelProto:
    made = typed(TensorProto.FLOAT, [None, 1])
    made.graph.input[0].type.map_type.key_type = TensorProto.STRING
    return made


def leaf_of(feature: int) -> ModelProto:
    """A tree that tests a column, which its input of one column may not have."""
    tree = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[feature, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.0, 0.0, 0.0], nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )  # fmt: skip
    return model_of([tree], outputs=[output("y", shape=[None, 1])])


def old_opset() -> ModelProto:
    made = model_of([helper.make_node("Add", ["x", "x"], ["y"])], outputs=[output("y", shape=[None, 1])])
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("", 6))
    return made


REFUSED: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "float64 in operators of float32": (
        lambda: typed(TensorProto.DOUBLE, [None, 1], out=TensorProto.FLOAT),
        r'from float32 numbers: `X.astype\("float32"',
    ),
    "an opset that onnxruntime no longer has": (old_opset, r"convert it to another opset: `onnx\.version_converter"),
    "texts as labels where the exporter writes numbers": (
        lambda: typed(TensorProto.STRING, [None, 1], out=TensorProto.INT64), "the numbers 0, 1, 2 and so on as classes",
    ),
    "a text in words": (
        lambda: custom("Tokenizer"), r"got com\.microsoft\.Tokenizer; make the columns of the text .* features",
    ),
    "a Gaussian process": (lambda: custom("Solve"), r"got com\.microsoft\.Solve; .* train another model"),
    "float16": (lambda: typed(TensorProto.FLOAT16, [None, 2]), r"'x' is FLOAT16\[n, 2\]; .*keep_io_types=True"),
    "three dimensions": (
        lambda: typed(TensorProto.FLOAT, [None, 3, 2]), r"'x' is FLOAT\[n, 3, 2\]; .* a table as input",
    ),
    "dicts": (of_dicts, r"'x' is a map; make the columns of the DictVectorizer features"),
    "bytes": (lambda: typed(TensorProto.UINT8, [None, 2]), r"'x' is UINT8\[n, 2\]; export it with inputs of float32"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_the_error_says_what_came_and_what_to_do(case: str) -> None:
    make, wanted = REFUSED[case]
    with pytest.raises(ModelError, match=wanted):
        loaded(parse(make().SerializeToString(), "a", "0,1" if "label" in case else None))


def test_a_domain_that_no_operator_uses_is_no_custom_operator() -> None:
    """onnxruntime writes its own domains into every file that it optimizes."""
    made = model_of([helper.make_node("Identity", ["x"], ["y"])], outputs=[output("y", shape=[None, 1])])
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    made.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    assert loaded(parse(made.SerializeToString(), "a")).predictor.evaluate(np.array([[3.0]])).values == [[3.0]]


def test_a_missing_whole_number_is_refused_in_the_same_way_whatever_the_settings_say() -> None:
    data = typed(
        TensorProto.INT64, [None, 1], [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], TensorProto.FLOAT
    ).SerializeToString()
    for absent in (None, "missing"):
        made = FixedModel(loaded(parse(data, "visits")), IngestLimits(), absent)
        for event in ({}, {"visits": None}, {"other": 1.0}):
            reason = made.refuses(event)
            assert reason is not None and "cannot be missing, and the event has none; send a number" in reason


def test_a_model_that_answers_no_row_is_reported_and_its_events_are_too() -> None:
    made = loaded(parse(leaf_of(4).SerializeToString(), "a"))
    (notice,) = made.notices
    assert "answers none of the rows on which it was tried" in notice and "SimpleImputer(add_indicator=True)" in notice
    with pytest.raises(ModelRaised, match=r"requests feature 4 .*SimpleImputer") as raised:
        FixedModel(made, IngestLimits()).predict({"a": 1.0})
    assert "onnxruntime_src" not in str(raised.value) and len(str(raised.value)) < 300
    assert loaded(parse(leaf_of(0).SerializeToString(), "a")).notices == ()


def two_inputs(*, reads: str) -> ModelProto:
    """A model of two columns that are inputs of their own, as exporters write them for a data frame."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 1]) for name in ("age", "income")]
    nodes = [helper.make_node("Add", ["age", reads], ["y"])]
    return helper.make_model(
        helper.make_graph(nodes, "two", inputs, [output("y", shape=[None, 1])]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


def test_columns_that_the_exporter_has_lost_are_reported() -> None:
    """As by skl2onnx for a PowerTransformer of a data frame, which scales its first column only."""
    (notice,) = loaded(parse(two_inputs(reads="age").SerializeToString())).notices
    assert "no operator of the file reads income;" in notice and "to_onnx(model, X[:1].to_numpy())" in notice
    assert loaded(parse(two_inputs(reads="income").SerializeToString())).notices == ()


def test_columns_that_only_a_branch_reads_are_not_reported() -> None:
    made = two_inputs(reads="age")
    branch = helper.make_graph([helper.make_node("Identity", ["income"], ["z"])], "branch", [], [output("z")])
    made.graph.node[0].input[1] = "either"
    constant = helper.make_tensor("true", TensorProto.BOOL, [], [True])
    made.graph.initializer.append(constant)
    made.graph.node.insert(0, helper.make_node("If", ["true"], ["either"], then_branch=branch, else_branch=branch))
    assert parse(made.SerializeToString()).unread == ()


def test_an_index_beyond_the_columns_advises_to_export_from_an_array() -> None:
    """As by skl2onnx for a SelectKBest of a data frame."""
    nodes = [helper.make_node("ArrayFeatureExtractor", ["x", "place"], ["y"], domain="ai.onnx.ml")]
    place = helper.make_tensor("place", TensorProto.INT64, [1], [1])
    (notice,) = loaded(
        parse(model_of(nodes, [place], outputs=[output("y", shape=[None, 1])]).SerializeToString(), "a")
    ).notices
    assert "export the pipeline from an array" in notice


def test_errors_of_onnxruntime_lose_the_names_of_functions_and_nothing_else() -> None:
    made = leaf_of(4).SerializeToString()
    session = onnxruntime.InferenceSession(made, providers=["CPUExecutionProvider"])
    with pytest.raises(Exception, match="TreeEnsembleRegressor") as raised:
        session.run(None, {"x": np.zeros((2, 1), np.float32)})
    assert shortened(raised.value).startswith("TreeEnsembleRegressor: One path in the graph requests feature 4")
    assert shortened("[ONNXRuntimeError] : 1 : FAIL : Type Error:\n no") == "FAIL : Type Error: no"
    assert shortened("an error") == "an error"


def test_a_model_whose_rows_depend_on_each_other_is_reported() -> None:
    """As a net with batch normalisation that was exported while it trained."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
    ]
    made = loaded(parse(model_of(nodes, outputs=[output("y", shape=[None, 1])]).SerializeToString(), "a"))
    assert len(made.notices) == 1 and "model.eval()" in made.notices[0]
    plain = model_of([helper.make_node("Mul", ["x", "two"], ["y"])], [numbers("two", 2.0)])
    assert loaded(parse(plain.SerializeToString(), "a")).notices == ()


@pytest.mark.parametrize("rounds", [True, False])
def test_what_calculates_in_float64_is_named_and_what_only_takes_it_too(rounds: bool) -> None:
    kind = TensorProto.FLOAT if rounds else TensorProto.DOUBLE
    made = typed(TensorProto.DOUBLE, [None, 1], [helper.make_node("Cast", ["x"], ["y"], to=kind)], kind)
    reason = loaded(parse(made.SerializeToString(), "a")).generic
    wanted = "it takes float64, which its operator Cast rounds to float32" if rounds else "it calculates in float64"
    assert reason == wanted


def test_a_model_of_several_targets_gets_the_way_out() -> None:
    for shape in ([None, 2], None):
        made = model_of([helper.make_node("Identity", ["x"], ["y"])], columns=2, outputs=[output("y", shape=shape)])
        with pytest.raises(ModelError, match="export one model for each target"):
            loaded(parse(made.SerializeToString(), "a,b"))
