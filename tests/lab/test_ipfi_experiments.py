"""The experiments of the iPFI paper on known importance, and on its parameters."""

import numpy as np
import pytest
from river.datasets import synth

from glasstream_lab.papers import ipfi_parameters
from glasstream_lab.papers.ipfi_parameters import BLOCK, FEATURE, Parameters, compare, smoothed
from glasstream_lab.papers.ipfi_truth import ROUNDING, TRUTH, LabellingFunction, Truth


def test_the_labelling_function_is_that_of_the_stream() -> None:
    events = list(synth.Agrawal(classification_function=1, seed=5).take(3_000))
    names = tuple(events[0][0])
    rows = np.array([list(x.values()) for x, _ in events], np.float64)
    answers = LabellingFunction(names).evaluate(rows)
    assert answers.labels.tolist() == [y for _, y in events]
    assert np.array_equal(answers.values.argmax(axis=1), answers.labels)


def test_the_known_values_are_the_probabilities_that_a_label_changes() -> None:
    """A band of ages has the label 1 on 5/13 of all salaries, and the bands overlap by half or not at all."""
    apart = np.array([[0, 5, 5], [5, 0, 10], [5, 10, 0]]) / 13  # shares of the salaries on which two bands differ
    whole_years = np.array([20, 20, 21]) / 61
    assert apart.mean() == pytest.approx(TRUTH["age"], abs=ROUNDING)
    assert whole_years @ apart @ whole_years == pytest.approx(0.3432, abs=ROUNDING)
    changes = 2 * (5 / 13) * (8 / 13)
    assert changes == pytest.approx(TRUTH["salary"], abs=ROUNDING)


def test_incremental_and_batch_importance_agree_with_the_known_values() -> None:
    task = {"events": 4_000, "seed": 2}
    result = Truth().work(None, task)
    rows = Truth().rows([(task, result), (task, result)])
    assert len(rows) == 9
    for row in rows:
        assert row.paper is not None and row.ours == pytest.approx(row.paper, abs=0.06), row.number
        assert "others" not in row.number or row.ours == 0.0


def test_values_are_smoothed_as_the_estimator_does() -> None:
    values = np.random.Generator(np.random.PCG64(1)).normal(size=(50, 3))
    raw, weight = np.zeros(3), 0.0
    for row, expected in zip(values, smoothed(values, 0.1), strict=True):
        raw, weight = 0.9 * raw + 0.1 * row, 0.9 * weight + 0.1
        assert expected == pytest.approx(raw / weight)
    assert smoothed(values[:, 0], 0.1) == pytest.approx(smoothed(values, 0.1)[:, 0])


def test_alphas_share_a_reservoir_and_reservoirs_share_an_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipfi_parameters, "RESERVOIR", 500)
    monkeypatch.setattr(ipfi_parameters, "RESERVOIRS", (50, 500))
    monkeypatch.setattr(ipfi_parameters, "SETTLED", 100)
    draws = np.random.Generator(np.random.PCG64(3))
    rows = draws.normal(size=(50 * BLOCK, 2))
    result = compare((FEATURE, "other"), rows, (rows[:, 0] > 0).astype(float), 3, seed=1)
    assert len(result["alpha curves"]) == 5 and len(result["reservoir curves"]) == 2
    assert result["alpha curves"][1] == result["reservoir curves"][1], "both have alpha 0.001 and 500 rows"
    assert result["alpha curves"][1][-1] > 0.2
    assert result["ratio"] == pytest.approx(np.mean(result["reservoir apart"]) / np.mean(result["alpha apart"]))


def test_reservoirs_with_a_larger_effect_than_alpha_are_told() -> None:
    def verdict(ratio: float) -> str:
        found = {"ratio": ratio, "alpha apart": [0.1] * 4, "reservoir apart": [0.1] * 4}
        return Parameters().rows([({}, found), ({}, found | {"ratio": ratio * 1.01})])[0].verdict

    assert verdict(0.5) == "better" and verdict(2.0).startswith("worse")
