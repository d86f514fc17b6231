"""Losses: block, single event and definition agree; a loss of one's own stands wherever a name does."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.base.errors import SettingsError
from glasstream.events.admission import Task
from glasstream.explain.losses import (
    CLIP,
    DEFAULT,
    LOSSES,
    ROUNDED,
    CustomLoss,
    loss_for,
    loss_one,
    losses,
    rounding,
    with_classes,
)
from glasstream.explain.pfi import contributions
from tests.support.function_predictor import FunctionPredictor

CLASSES = ("a", "b", "c")
CLASSIFICATION = [name for name, task in LOSSES.items() if task is Task.CLASSIFICATION]
REGRESSION = [name for name, task in LOSSES.items() if task is Task.REGRESSION]

probabilities = st.lists(st.sampled_from([0.0, 1e-300, 0.2, 0.5, 1.0]) | st.floats(0, 1), min_size=3, max_size=3)
number = st.floats(-1e6, 1e6)


def by_definition(name: str, said: list[float], label: int, target: int) -> float:
    if name == "zero_one":
        return float(label != target or label < 0)
    if name == "cross_entropy":
        return -log(min(max(said[target] if target >= 0 else 0.0, CLIP), 1.0))
    return sum((p - (c == target)) ** 2 for c, p in enumerate(said)) + (target < 0)


@pytest.mark.parametrize("name", CLASSIFICATION)
@given(st.lists(st.tuples(probabilities, st.integers(-1, 2), st.integers(-1, 2)), min_size=1, max_size=8))
def test_classification_losses_are_what_they_are_defined_to_be(name: str, events: list) -> None:
    said, labels, targets = (np.array(column) for column in zip(*events, strict=True))
    found = losses(name, said.astype(float), labels, targets.astype(float))
    wanted = [by_definition(name, *event) for event in events]
    assert found == pytest.approx(wanted, rel=1e-12)
    for (p, label, target), loss in zip(events, found, strict=True):
        if target >= 0:  # an event has a class; one that the model does not know is missing in its probabilities
            named = CLASSES[label] if label >= 0 else None
            one = loss_one(name, named, dict(zip(CLASSES, p, strict=True)), 0.0, CLASSES[target])
        else:
            one = loss_one(name, CLASSES[label] if label >= 0 else None, dict(zip(CLASSES, p, strict=True)), 0.0, "d")
        assert one == pytest.approx(loss, rel=1e-12)


@given(st.lists(st.tuples(number, number), min_size=1, max_size=8))
def test_regression_losses_are_what_they_are_defined_to_be(events: list[tuple[float, float]]) -> None:
    values, targets = (np.array(column) for column in zip(*events, strict=True))
    nobody = np.full(len(values), -1)
    for name, power in (("absolute", 1), ("squared", 2)):
        wanted = [abs(value - target) ** power for value, target in events]
        assert losses(name, values[:, None], nobody, targets) == pytest.approx(wanted, rel=1e-12)
        assert [loss_one(name, None, None, *event) for event in events] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_rounding_is_the_loss_of_a_prediction_that_is_right_but_for_the_last_digits(name: str) -> None:
    if LOSSES[name] is Task.CLASSIFICATION:
        said, targets = np.array([[1.0 - ROUNDED, ROUNDED]] * 2), np.zeros(2)
    else:
        targets = np.array([-3e5, 7.0])
        said = (targets * (1.0 + ROUNDED))[:, np.newaxis]
    assert losses(name, said, np.zeros(2, np.int64), targets) == pytest.approx(rounding(name, targets), rel=0.02)


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_two_classes_are_no_special_case(name: str) -> None:
    said, targets = np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([0.0, 1.0])
    wanted = {"zero_one": [1.0, 1.0], "cross_entropy": [-log(0.25), -log(0.5)], "brier": [1.125, 0.5]}
    assert losses(name, said, np.array([1, 0]), targets) == pytest.approx(wanted[name])


@pytest.mark.parametrize("name", list(LOSSES))
def test_a_row_costs_the_same_bits_alone(name: str) -> None:
    random = np.random.Generator(np.random.PCG64(1))
    said = random.dirichlet(np.ones(3), size=257)
    labels, targets = random.integers(0, 3, 257), random.integers(0, 3, 257).astype(float)
    whole = losses(name, said, labels, targets)
    alone = [losses(name, said[i : i + 1], labels[i : i + 1], targets[i : i + 1])[0] for i in range(257)]
    assert whole.tobytes() == np.array(alone).tobytes()


def own_brier(said: dict[str, float], target: str | None) -> float:
    return sum((p - (name == target)) ** 2 for name, p in said.items()) + (target is None)


@pytest.mark.parametrize("block", [None, lambda values, targets: losses("brier", values, None, targets)])
def test_a_custom_loss_that_is_the_brier_score_equals_it(block) -> None:
    random = np.random.Generator(np.random.PCG64(2))
    said, labels = random.dirichlet(np.ones(3), size=20), np.zeros(20, np.int64)
    targets = random.integers(-1, 3, 20).astype(float)
    own = with_classes(CustomLoss("mine", "classification", own_brier, block), CLASSES)
    assert losses(own, said, labels, targets) == pytest.approx(losses("brier", said, labels, targets), rel=1e-12)
    assert loss_one(own, "a", {"a": 0.2, "b": 0.8}, 0.0, "b") == pytest.approx(0.08)
    assert str(own) == "mine"


def test_a_custom_loss_stands_wherever_a_name_does() -> None:
    random = np.random.Generator(np.random.PCG64(3))
    rows, draws = random.normal(size=(30, 2)), random.normal(size=(30, 2, 2))

    def probability(x: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-3 * x[:, 0]))
        return np.stack([1 - p, p], axis=1)

    for predictor, name, own, targets in (
        (FunctionPredictor(probability, 2, ("no", "yes")), "brier", CustomLoss("b", "classification", own_brier),
         (rows[:, 0] > 0).astype(float)),
        (FunctionPredictor(lambda x: 2 * x[:, 0], 2), "squared",
         CustomLoss("s", "regression", lambda value, target: (value - target) ** 2), rows[:, 1]),
    ):  # fmt: skip
        wanted = contributions(predictor, name, rows, targets, draws)
        assert np.abs(wanted[:, 0]).max() > 0.1
        assert contributions(predictor, own, rows, targets, draws) == pytest.approx(wanted, abs=1e-12)


def test_a_loss_must_fit_the_task() -> None:
    own = CustomLoss("mine", "regression", lambda value, target: 0.0)
    assert loss_for(Task.REGRESSION, own) is own
    assert {task: loss_for(task, None) for task in Task} == DEFAULT
    for task, loss in ((Task.CLASSIFICATION, own), (Task.CLASSIFICATION, "squared"), (Task.REGRESSION, "brier")):
        with pytest.raises(SettingsError, match="expected one"):
            loss_for(task, loss)
    with pytest.raises(SettingsError, match="expected the task classification or regression"):
        CustomLoss("mine", "ranking", own.function)


def test_a_custom_loss_that_was_not_told_the_classes_says_what_to_do() -> None:
    own = CustomLoss("mine", "classification", own_brier)
    with pytest.raises(SettingsError, match=r"with_classes\(loss, predictor\.classes\)"):
        losses(own, np.ones((1, 2)), np.zeros(1, np.int64), np.zeros(1))
