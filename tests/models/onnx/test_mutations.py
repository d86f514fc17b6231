"""A file that was changed anywhere is refused, or its model answers as onnxruntime does."""

import random
from collections import Counter

import pytest
from onnx import ModelProto

from glasstream.base.errors import FrameError, ModelError
from glasstream.models.onnx.file import parse
from glasstream.models.predictors.kernels.scored import Ending
from glasstream.models.predictors.kernels.scored_forms import ScoredForms
from glasstream.models.predictors.kernels.scored_trees import ScoredTrees
from glasstream.models.predictors.kernels.walk import LEAF, NUMERIC_BINARY
from tests.support.examples import some
from tests.support.onnx_mutations import linear, mutated, outcome, trees, unharmed

COUNT = 60
"""Mutations in one case."""


@pytest.mark.parametrize("seed", some(range(5), range(20), pytest.mark.slow))
def test_every_mutation_is_refused_or_equals_onnxruntime(seed: int) -> None:
    source, words = random.Random(f"mutations {seed}"), Counter[str]()
    for _ in range(COUNT):
        model, names = source.choice(unharmed())
        data = mutated(source, model)
        try:
            words[outcome(data, names)] += 1
        except ModelError:
            words["refused"] += 1
    assert words["refused"] and words["equal"], words


def test_the_files_are_translated_before_they_are_changed() -> None:
    for model, names in unharmed():
        network = any(node.op_type == "MatMul" for node in model.graph.node)
        assert outcome(model.SerializeToString(), names) == ("onnxruntime" if network else "equal")


def test_the_error_of_a_sum_whose_large_terms_cancel_is_relative_to_the_terms() -> None:
    model = linear(0, 0)
    (coefficients,) = (one for one in model.graph.node[0].attribute if one.name == "coefficients")
    coefficients.floats[:] = [1.0, 0.5, 0.5]
    assert outcome(model.SerializeToString(), "a,b,c") == "equal"


def changed(model: ModelProto, name: str, values: list[int]) -> bytes:
    """The file after the first values of an attribute were replaced."""
    (one,) = (one for node in model.graph.node for one in node.attribute if one.name == name)
    one.ints[: len(values)] = values
    return model.SerializeToString()


IDS = {
    "a class": ("class_ids", 3), "a target": ("target_ids", 0), "a feature": ("nodes_featureids", 3),
    "a node below": ("nodes_truenodeids", 3), "the other node below": ("nodes_falsenodeids", 0),
}  # fmt: skip


@pytest.mark.parametrize("value", [-1, -3, 7, 2**31 - 1, 2**31, 2**32, 2**40, -(2**62)])
@pytest.mark.parametrize("what", IDS)
def test_an_id_of_nothing_is_refused(what: str, value: int) -> None:
    name, classes = IDS[what]
    with pytest.raises(ModelError):
        outcome(changed(trees(1, classes), name, [value]), "a,b,c")


def test_trees_that_are_a_circle_are_refused_before_onnxruntime_walks_them() -> None:
    for targets in ([0], [3, 1], [1, 1], [1, 0]):
        with pytest.raises(ModelError, match="a branch leads back to itself"):
            parse(changed(trees(1, 0), "nodes_truenodeids", targets), "a,b,c")


def test_kernels_are_made_of_tables_that_fit_only() -> None:
    """Also those that come from no snapshot: a weight, feature, target or child that does not exist."""
    features, ending = ("a", "b"), Ending()
    kinds = [NUMERIC_BINARY, LEAF, LEAF]
    nodes = (kinds, [0, 0, 0], [0.5, 0, 0], [1, 0, 1], [2, 0, 0], [1, 0, 0], [-1] * 3, [], [], [0])
    good = (*nodes, [0, 1, 2], [0, 0], [1.0, 2.0], [0.0], [1.0])
    ScoredTrees(features, (), ending, good)
    for place, wrong in ((1, [2, 0, 0]), (1, [-5, 0, 0]), (3, [5, 0, 1]), (11, [7, 0]), (11, [-3, 0]), (12, [1.0])):
        with pytest.raises(FrameError):
            ScoredTrees(features, (), ending, (*good[:place], wrong, *good[place + 1 :]))
    ScoredForms(features, (), ending, ([[1.0, 2.0]], [0.0]))
    for weights, intercepts in (([[1.0]], [0.0]), ([[1.0, 2.0]], []), ([[1.0, 2.0], [3.0, 4.0]], [0.0])):
        with pytest.raises(FrameError):
            ScoredForms(features, (), ending, (weights, intercepts))


@pytest.mark.parametrize("name", ["coefficients", "intercepts"])
def test_a_linear_form_with_too_few_numbers_is_not_translated(name: str) -> None:
    model = linear(1, 3)
    (one,) = (one for one in model.graph.node[0].attribute if one.name == name)
    del one.floats[0]
    try:
        assert outcome(model.SerializeToString(), "a,b,c") == "onnxruntime"
    except ModelError as error:
        assert "onnxruntime" in str(error)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 1e38])
@pytest.mark.parametrize("name", ["coefficients", "intercepts"])
def test_a_linear_form_whose_sums_may_overflow_is_not_translated(name: str, value: float) -> None:
    model = linear(1, 0)
    (one,) = (one for one in model.graph.node[0].attribute if one.name == name)
    one.floats[0] = value
    assert outcome(model.SerializeToString(), "a,b,c") == "onnxruntime"
