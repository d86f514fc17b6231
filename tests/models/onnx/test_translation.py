"""A model from an ONNX file answers as onnxruntime does: translated to kernels, or called."""

import numpy as np
import onnx
import pytest

from glasstream.base.errors import AuthenticationError, ModelError, NotCompilable
from glasstream.explain.variants import built_up, replaced, written_out_built_up, written_out_replaced
from glasstream.models.codec import snapshot
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.runtime import OnnxPredictor
from glasstream.models.onnx.translate import known_texts, translate
from glasstream.models.onnx.trees import largest_double
from glasstream.models.predictors.checks import check_splits
from glasstream.models.predictors.predictor import Predictor
from tests.support.onnx_exports import EXPORTS, FEATURES, GOLDEN, NAMES, described, exported, rows_for

KEY = b"a key of sixteen bytes"
LARGEST_DIFFERENCE = 5e-7
"""Largest difference of a probability or a number of a linear model, relative to 1 or to the number. See the table in
`ops/docs/production-model.md`.
"""
TRANSLATED = [name for name in NAMES if name in GOLDEN or EXPORTS[name].bits is not None]
GENERIC = [name for name in NAMES if name not in TRANSLATED]


def called(name: str) -> OnnxPredictor:
    file = described(name)
    return OnnxPredictor.of(file, known_texts(file))


def passed_on(predictor: Predictor) -> Predictor:
    """The predictor as an explainer gets it."""
    data = snapshot.encode(predictor, stream="s", epoch=0, version=0, key=KEY)
    return snapshot.decode(data, key=KEY)


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_translation_equals_onnxruntime(name: str) -> None:
    """Trees give the same bits, also behind transformers; linear forms are sums in another order."""
    file = described(name)
    rows = rows_for(file)
    mine, theirs = check_splits(passed_on(translate(file)), rows, splits=2), called(name).evaluate(rows)
    if name in GOLDEN or EXPORTS[name].bits:
        assert mine.values.tobytes() == theirs.values.tobytes()
        assert mine.labels.tolist() == theirs.labels.tolist()
        return
    assert np.isnan(mine.values).tolist() == np.isnan(theirs.values).tolist()
    numbers = ~np.isnan(mine.values).any(axis=1)
    assert numbers.sum() > 300
    off = np.abs(mine.values - theirs.values)[numbers]
    assert np.all(off <= LARGEST_DIFFERENCE * (1 + np.abs(theirs.values[numbers])))
    decided = numbers & (np.abs(np.sort(theirs.values, axis=1)[:, -1] - 0.5) > 1e-5)
    assert mine.labels[decided].tolist() == theirs.labels[decided].tolist()


@pytest.mark.parametrize("name", GENERIC)
def test_what_is_not_translated_is_called_and_says_why(name: str) -> None:
    file = described(name)
    with pytest.raises(NotCompilable, match=r"no translation|shape"):
        translate(file)
    predictor = called(name)
    rows = rows_for(file, 60)
    said, again = check_splits(predictor, rows, splits=2), passed_on(predictor).evaluate(rows)
    assert said.values.tobytes() == again.values.tobytes()
    assert said.labels.tolist() == again.labels.tolist()


@pytest.mark.parametrize("name", ["forest of three classes", "lightgbm_three", "xgboost_two", "boosted regression"])
def test_variants_that_share_paths_have_the_bits_of_written_out_ones(name: str) -> None:
    predictor, random = translate(described(name)), np.random.default_rng(2)
    rows, values = rows_for(described(name), 40), random.normal(size=(40, 3, 5))
    rows = np.column_stack([rows, random.normal(size=40)])  # a feature that the model does not know
    values[::5, 1, 2] = np.nan
    order = np.array([random.permutation(5) for _ in range(40)])
    for backgrounds in (1, 4):
        background = random.normal(size=(40, backgrounds, 3, 5))
        one = built_up(predictor, rows, order, background)
        other = written_out_built_up(predictor, rows, order, background)
        assert one.values.tobytes() == other.values.tobytes()
    for one, other in zip(
        replaced(predictor, rows, values), written_out_replaced(predictor, rows, values), strict=True
    ):
        assert one.values.tobytes() == other.values.tobytes()
        assert one.labels.tolist() == other.labels.tolist()


def test_an_operator_that_is_not_as_expected_is_left_to_onnxruntime() -> None:
    def without(attribute: str) -> bytes:
        model = onnx.load_model_from_string(exported("forest"))
        (node,) = (node for node in model.graph.node if node.op_type == "TreeEnsembleClassifier")
        for place in [place for place, one in enumerate(node.attribute) if one.name == attribute]:
            del node.attribute[place]
        return bytes(model.SerializeToString())

    for attribute in ("nodes_values", "class_nodeids", "nodes_featureids"):
        file = parse(without(attribute), FEATURES)
        with pytest.raises(NotCompilable, match="TreeEnsembleClassifier"):
            translate(file)
        with pytest.raises(ModelError, match=r"model.name: onnxruntime cannot use the model|onnxruntime: "):
            OnnxPredictor.of(file, known_texts(file)).evaluate(rows_for(file, 9))


@pytest.mark.parametrize(("name", "number"), [("offset", np.inf), ("scale", 1e38), ("offset", np.nan)])
def test_columns_that_leave_float32_before_they_are_added_are_left_to_onnxruntime(name: str, number: float) -> None:
    model = onnx.load_model_from_string(exported("scaled logistic"))
    (scaler,) = (node for node in model.graph.node if node.op_type == "Scaler")
    (attribute,) = (one for one in scaler.attribute if one.name == name)
    translate(parse(model.SerializeToString(), FEATURES))
    attribute.floats[0] = number
    with pytest.raises(NotCompilable, match="its sums may leave float32"):
        translate(parse(model.SerializeToString(), FEATURES))


def test_columns_that_two_scalers_together_move_out_of_float32_are_left_to_onnxruntime() -> None:
    model = onnx.load_model_from_string(exported("scaled logistic"))
    (first,) = (node for node in model.graph.node if node.op_type == "Scaler")
    (scale,) = (one for one in first.attribute if one.name == "scale")
    scale.floats[:] = [1e20] * len(scale.floats)
    translate(parse(model.SerializeToString(), FEATURES))
    nodes = list(model.graph.node)
    second = onnx.NodeProto.FromString(first.SerializeToString())
    first.output[0], second.input[0] = "between", "between"
    nodes.insert(nodes.index(first) + 1, second)
    changed = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(changed)
    with pytest.raises(NotCompilable, match="its sums may leave float32"):
        translate(parse(model.SerializeToString(), FEATURES))


def test_a_threshold_decides_about_a_double_as_about_its_float32() -> None:
    random = np.random.default_rng(1)
    extremes = [0.0, -0.0, 1.0, 3.4e38, -3.4e38, 1e-45, np.inf, -np.inf]
    singles = np.concatenate([random.normal(size=500), extremes]).astype(np.float32)
    for single, bound in zip(singles, largest_double(singles).tolist(), strict=True):
        for x in (bound, np.nextafter(bound, np.inf), np.nextafter(bound, -np.inf), float(single), -1e300, 1e300):
            with np.errstate(over="ignore"):
                assert (np.float32(x) <= single) == (x <= bound)


def test_onnxruntime_gets_no_bytes_from_strangers() -> None:
    data = snapshot.encode(called("network"), stream="s", epoch=0, version=0, key=KEY)
    with pytest.raises(AuthenticationError, match="HMAC does not match"):
        snapshot.decode(data, key=b"another key of bytes")
    with pytest.raises(AuthenticationError, match="there is none"):
        snapshot.encode(called("network"), stream="s", epoch=0, version=0, key=None)
    assert snapshot.encode(translate(described("forest")), stream="s", epoch=0, version=0, key=None)


def test_later_texts_reach_onnxruntime_as_themselves() -> None:
    """A code means the text that the stream gave it; the model treats a text that it does not know as it does."""
    predictor = called("encoded network")
    slot = predictor.features.index("town")
    rows = rows_for(described("encoded network"), 20)
    rows[:, slot] = 3  # the first code beyond the encoder's
    unseen = predictor.evaluate(rows)
    assert (
        predictor.extended((), (), {slot: (3, ["elsewhere"])}).evaluate(rows).values.tobytes()
        == unseen.values.tobytes()
    )
    as_here = predictor.extended((), (), {slot: (3, ["here"])}).evaluate(rows)
    rows[:, slot] = known_texts(described("encoded network"))[slot].index("here")
    assert predictor.evaluate(rows).values.tobytes() == as_here.values.tobytes()
