"""ONNX files with a mutation: a stream's model refuses such a file, or answers as onnxruntime does."""

import random
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, helper

from glasstream.base.errors import ModelError
from glasstream.events.features import Kind
from glasstream.events.limits import IngestLimits
from glasstream.models.onnx.file import OnnxFile, parse
from glasstream.models.onnx.loading import loaded
from glasstream.models.onnx.model import FixedModel
from glasstream.models.onnx.runtime import OnnxPredictor
from glasstream.models.predictors.kernels.scored_forms import ScoredForms
from glasstream.models.predictors.kernels.transform import Transformed
from glasstream.models.predictors.predictor import Predictor
from tests.support.onnx_graphs import model_of, output

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"]
WHOLE: Final = [0, 1, 2, 3, -1, -2, -5, 7, 100, 2**31 - 1, -(2**31), 2**32, 2**32 + 1, 2**40, 2**53 + 1, 2**62]
NUMBERS: Final = [0.0, -0.0, 1.0, -1.0, 0.5, 1e38, 1e-45, float("nan"), float("inf"), -float("inf")]
TEXTS: Final = [b"LEAF", *(mode.encode() for mode in MODES), b"BRANCH_EQ", b"NONE", b"LOGISTIC", b"SOFTMAX", b"PROBIT",
                b"SOFTMAX_ZERO", b"SUM", b"AVERAGE", b"MIN", b"L1", b"L2", b"", b"here", b"\xff"]  # fmt: skip
OPERATORS: Final = ["Add", "Sub", "Mul", "Div", "Identity", "Normalizer", "Scaler", "Imputer", "Concat", "Cast"]


def trees(seed: int, classes: int, count: int = 3) -> ModelProto:
    """Return a file with trees of seven nodes, for a number or so many classes."""
    source = random.Random(seed)
    nodes: dict[str, list[Any]] = {}
    leaves: dict[str, list[Any]] = {}
    prefix = "class" if classes else "target"
    for tree in range(count):
        for node in range(7):
            leaf = node > 2
            for name, value in {
                "treeids": tree, "nodeids": node, "featureids": 0 if leaf else source.randrange(3),
                "values": 0.0 if leaf else round(source.uniform(-1, 1), 3),
                "modes": "LEAF" if leaf else source.choice(MODES), "truenodeids": 0 if leaf else 2 * node + 1,
                "falsenodeids": 0 if leaf else 2 * node + 2, "missing_value_tracks_true": source.randrange(2),
            }.items():  # fmt: skip
                nodes.setdefault(f"nodes_{name}", []).append(value)
            for score in range(classes if classes > 2 else 1) if leaf else ():
                for name, value in {
                    "treeids": tree, "nodeids": node, "ids": score, "weights": round(source.random() / count, 3)
                }.items():  # fmt: skip
                    leaves.setdefault(f"{prefix}_{name}", []).append(value)
    if classes:
        more = {"classlabels_int64s": list(range(classes)), "post_transform": "NONE"}
    else:
        more = {"n_targets": 1, "aggregate_function": source.choice(["SUM", "AVERAGE"]), "base_values": [0.5]}
    return _single("TreeEnsemble", {**nodes, **leaves, **more}, classes)


def linear(seed: int, classes: int) -> ModelProto:
    """Return a file with linear forms, for a number or so many classes."""
    source, scores = random.Random(seed), classes or 1
    values = {"coefficients": [source.uniform(-1, 1) for _ in range(3 * scores)], "intercepts": [0.1] * scores}
    of_classes = {"classlabels_ints": list(range(classes)), "post_transform": "SOFTMAX"} if classes else {}
    return _single("Linear", {**values, **of_classes}, classes)


def _single(family: str, attributes: dict[str, Any], classes: int) -> ModelProto:
    kind = "Classifier" if classes else "Regressor"
    outputs = [output("label", onnx.TensorProto.INT64), output("y")] if classes else [output("y")]
    node = helper.make_node(f"{family}{kind}", ["x"], [one.name for one in outputs], domain="ai.onnx.ml", **attributes)
    return model_of([node], columns=3, outputs=outputs)


@cache
def unharmed() -> list[tuple[ModelProto, str | None]]:
    """Return files and the names of their features: trees and linear forms alone, and behind encoders and scalers."""
    from tests.support.onnx_exports import EXPORTS, FEATURES, GOLDEN, exported

    exports = [
        "forest of three classes", "gradient boosting, three", "encoded forest", "ordinal boosting",
        "imputed and scaled", "encoded logistic", "encoded line", "scaled forest", "network", *GOLDEN,
    ]  # fmt: skip
    own: list[tuple[ModelProto, str | None]] = [
        (make(seed, classes), "a,b,c") for make in (trees, linear) for seed in range(4) for classes in (0, 2, 3)
    ]
    return own + [
        (onnx.load_model_from_string(exported(name)), None if name in EXPORTS and EXPORTS[name].frame else FEATURES)
        for name in exports
    ]


def mutated(source: random.Random, model: ModelProto) -> bytes:
    """Return a file with one or a few mutations."""
    changed = ModelProto()
    changed.CopyFrom(model)
    for _ in range(source.choice([1, 1, 1, 2, 3])):
        kind = source.choices([_attribute, _constant, _operator, _wiring], [12, 2, 1, 1])[0]
        if changed.graph.node:
            kind(source, changed)
    return bytes(changed.SerializeToString())


def _attribute(source: random.Random, model: ModelProto) -> None:
    nodes = [node for node in model.graph.node if node.attribute]
    if not nodes:
        return
    node = source.choice(nodes)
    one = source.choice(node.attribute)
    if source.random() < 0.04:
        node.attribute.remove(one)
    elif one.ints or one.floats or one.strings:
        values: Any = one.ints or one.floats or one.strings
        at, how = source.randrange(len(values)), source.random()
        if how < 0.1:
            del values[at]
        elif how < 0.18:
            values.append(source.choice(values))
        elif one.ints:
            values[at] = source.choice([*WHOLE, values[at] + 1, values[at] - 1, source.choice(values)])
        elif one.floats:
            values[at] = source.choice([*NUMBERS, values[at] * 2, source.choice(values)])
        else:
            values[at] = source.choice([*TEXTS, source.choice(values)])
    elif one.type == onnx.AttributeProto.INT:
        one.i = source.choice([*WHOLE, one.i + 1])
    elif one.type == onnx.AttributeProto.FLOAT:
        one.f = source.choice(NUMBERS)
    elif one.type == onnx.AttributeProto.STRING:
        one.s = source.choice(TEXTS)


def _constant(source: random.Random, model: ModelProto) -> None:
    if not model.graph.initializer:
        return
    one, how = source.choice(model.graph.initializer), source.random()
    if how < 0.3:
        one.dims[:] = source.choice([[], [0], [1], [2**40], [-1], [*one.dims, 1], [*one.dims, 2]])
    elif how < 0.4:
        one.data_type = source.choice([0, 1, 6, 7, 8, 11, 99])
    elif how < 0.7 and one.raw_data:
        data = bytearray(one.raw_data)
        data[source.randrange(len(data))] = source.choice([0, 1, 127, 128, 255])
        one.raw_data = bytes(data)
    elif one.int64_data:
        one.int64_data[source.randrange(len(one.int64_data))] = source.choice(WHOLE)
    elif one.float_data:
        one.float_data[source.randrange(len(one.float_data))] = source.choice(NUMBERS)


def _operator(source: random.Random, model: ModelProto) -> None:
    node = source.choice(model.graph.node)
    how = source.random()
    if how < 0.4:
        node.op_type = source.choice([*OPERATORS, *(one.op_type for one in model.graph.node)])
    elif how < 0.6:
        model.graph.node.remove(node)
    else:
        model.graph.node.add().CopyFrom(node)


def _wiring(source: random.Random, model: ModelProto) -> None:
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    node = source.choice(model.graph.node)
    part: Any = source.choice([node.input, node.output])
    if part:
        part[source.randrange(len(part))] = source.choice([*names, "", "new"])


def rows_of(file: OnnxFile, known: list[list[str]], count: int = 24) -> np.ndarray:
    """Return rows of numbers, texts and whole numbers, of which some are missing, and some at the ends of float32."""
    source = np.random.default_rng(5)
    rows = source.normal(size=(count, len(file.features)))
    rows[::5] = np.round(rows[::5] * 3)
    rows[1::7] *= 1e30
    rows[source.random(rows.shape) < 0.1] = np.nan
    whole = [one.whole for one in file.inputs for _ in one.features]
    for slot, texts in enumerate(known):
        if file.kinds[slot] is Kind.TEXT:
            rows[:, slot] = source.integers(0, len(texts) + 1, count)
        elif whole[slot]:
            rows[:, slot] = source.integers(-2, 9, count)
    return rows


def outcome(data: bytes, names: str | None, bits: Callable[[OnnxFile], bool] = lambda file: _trees_only(file)) -> str:
    """Return a word for what a stream's model makes of a file: ``onnxruntime`` if it is not translated, or ``equal``.

    Raises
    ------
    ModelError
        The file is refused.
    AssertionError
        The translation answers otherwise than onnxruntime.
    """
    found = loaded(parse(data, names))
    model = FixedModel(found, IngestLimits())
    rows = rows_of(found.file, found.texts)
    answers = model.predictor.evaluate(rows)
    if model.generic is not None:
        return "onnxruntime"
    try:
        wanted = OnnxPredictor.of(found.file, found.texts).evaluate(rows)
    except ModelError as error:
        raise AssertionError(f"onnxruntime does not evaluate what was translated: {error}") from error
    assert answers.values.shape == wanted.values.shape, (answers.values.shape, wanted.values.shape)
    if bits(found.file):
        assert np.array_equal(answers.values, wanted.values, equal_nan=True), _difference(
            answers.values, wanted.values, answers.values != wanted.values
        )
        assert answers.labels.tolist() == wanted.labels.tolist()
    else:
        rounding = 1e-6 + 1e-5 * _magnitudes(model.predictor, rows)
        close = np.isclose(answers.values, wanted.values, rtol=1e-5, atol=rounding, equal_nan=True)
        assert close.all(), _difference(answers.values, wanted.values, ~close)
    return "equal"


def _magnitudes(predictor: Predictor, rows: np.ndarray) -> np.ndarray:
    """Return float64[n, 1]: the largest sum of the absolute terms of a row's linear forms, 0 for trees.

    onnxruntime adds in float32: where terms cancel, the error of a sum is relative to its terms, not to the sum.
    """
    if isinstance(predictor, Transformed):
        return _magnitudes(predictor.parts[0], predictor.transformed(rows))
    if not isinstance(predictor, ScoredForms):
        return np.zeros((len(rows), 1))
    _, arrays = predictor.pack()
    sums = np.abs(np.nan_to_num(rows)) @ np.abs(arrays["weight"]).T + np.abs(arrays["intercept"])
    return np.asarray(sums.max(axis=1, keepdims=True))


def _trees_only(file: OnnxFile) -> bool:
    """Return whether the answers are sums of leaves, without an exponential, and so equal to the last bit."""
    operators = {node.op_type for node in file.model.graph.node}
    exponential = any(
        one.name == "post_transform" and one.s != b"NONE" for node in file.model.graph.node for one in node.attribute
    )
    return not operators & {"LinearClassifier", "LinearRegressor"} and not exponential


def _difference(found: np.ndarray, wanted: np.ndarray, differs: np.ndarray) -> str:
    place = tuple(np.argwhere(differs & ~(np.isnan(found) & np.isnan(wanted)))[0].tolist())
    return f"row and column {place}: {found[place]} instead of {wanted[place]}"
