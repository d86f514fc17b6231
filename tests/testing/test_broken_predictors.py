"""Each check of predictors catches a predictor that breaks its law."""

from collections.abc import Callable

import numpy as np
import pytest

from glasstream.base.errors import CheckFailed
from glasstream.explain import variants
from glasstream.models.predictors.predictor import CLASSIFICATION, Output
from glasstream.testing.discover import all_checks
from glasstream.testing.streams import KnownPredictor, mixed_rows
from tests.support import own_implementations as own

ROWS = mixed_rows(40)[:, :3]
WEIGHTS = {"size": 0.5, "weight": 0.25, "open": 0.125}


class AnotherTask(own.Line):
    task = "ranking"


class ListOfFeatures(own.Line):
    def __init__(self, weights):
        super().__init__(weights)
        self.features = list(weights)


class RegressionWithClasses(own.Line):
    classes = ("no", "yes")


class AddsTheMean(own.Line):
    """The last bits of a row's result depend on the block."""

    def evaluate(self, rows):
        said = super().evaluate(rows)
        return Output(said.values + 1e-15 * len(rows), said.labels)


class Counts(own.Line):
    """It says something else each time."""

    asked = 0

    def evaluate(self, rows):
        self.asked += 1
        said = super().evaluate(rows)
        return Output(said.values + self.asked, said.labels)


class WrongForm(own.Line):
    def evaluate(self, rows):
        said = super().evaluate(rows)
        return Output(said.values[:, 0], said.labels)


class FillsInPlace(own.Line):
    def evaluate(self, rows):
        rows[np.isnan(rows)] = 0.0
        return super().evaluate(rows)


class OneBuffer(own.Line):
    """It writes every answer into the same array."""

    buffer = np.empty((1_000, 1))

    def evaluate(self, rows):
        said = super().evaluate(rows)
        self.buffer[: len(rows)] = said.values
        return Output(self.buffer[: len(rows)], said.labels)


class Votes(KnownPredictor):
    """It forgets to divide by the number of votes."""

    def __init__(self, weights):
        super().__init__(CLASSIFICATION, tuple(weights))

    def evaluate(self, rows):
        said = super().evaluate(rows)
        return Output(3.0 * said.values, said.labels)


class RaisesOnNoRows(own.Line):
    def evaluate(self, rows):
        super().evaluate(rows).values.max()
        return super().evaluate(rows)


class TakesAnything(own.Line):
    def evaluate(self, rows):
        return super().evaluate(rows.reshape(-1, rows.shape[-1]))


class RaisesWhatItLikes(own.Line):
    def evaluate(self, rows):
        if rows.ndim != 2:
            raise ValueError("rows")
        return super().evaluate(rows)


class FillsUpWithOnes(own.Line):
    def evaluate(self, rows):
        if rows.ndim == 2 and rows.shape[1] < len(self.weights):
            rows = np.pad(rows, ((0, 0), (0, len(self.weights) - rows.shape[1])), constant_values=1.0)
        return super().evaluate(rows)


class CountsEveryColumn(own.Line):
    def evaluate(self, rows):
        said = super().evaluate(rows)
        return Output(said.values + 0.01 * (~np.isnan(rows)).sum(axis=1, keepdims=True), said.labels)


class RaisesOnInfinity(own.Line):
    def evaluate(self, rows):
        if np.isinf(rows).any():
            raise ValueError("infinite")
        return super().evaluate(rows)


class RefusesThoughCompiled(RaisesOnInfinity):
    compiled = True


class ScalesTheBlock(own.Line):
    """Well while all rows are usual ones; a huge one makes the others small."""

    def evaluate(self, rows):
        said = super().evaluate(rows)
        huge = np.abs(said.values).max(initial=0.0) > 1e4
        return Output(said.values / (1e4 if huge else 1.0), said.labels)


class SharesTooMuch(own.Line):
    """Its fast way of asking for variants forgets that the feature is replaced."""

    def replaced(self, rows, values):
        said = self.evaluate(rows)
        again = np.repeat(said.values, values[0].size, axis=0)
        return said, Output(again, np.full(len(again), -1))

    def built_up(self, rows, order, background):
        return None


class BuildsUpBackwards(own.Line):
    def replaced(self, rows, values):
        return None

    def built_up(self, rows, order, background):
        return variants.written_out_built_up(self, rows, order[:, ::-1].copy(), background)


BROKEN: dict[str, list[Callable]] = {
    "check_it_says_what_it_is": [AnotherTask, ListOfFeatures, RegressionWithClasses],
    "check_the_same_bits_in_random_splits": [AddsTheMean, Counts, WrongForm],
    "check_rows_are_not_changed": [FillsInPlace],
    "check_an_answer_stays_as_it_was": [OneBuffer],
    "check_probabilities_lie_between_zero_and_one": [Votes],
    "check_no_rows_give_no_answers": [RaisesOnNoRows],
    "check_what_is_no_matrix_is_refused": [TakesAnything, RaisesWhatItLikes],
    "check_a_shorter_row_has_its_last_features_absent": [FillsUpWithOnes],
    "check_features_beyond_its_own_are_ignored": [CountsEveryColumn],
    "check_odd_values_disturb_no_other_row": [RaisesOnInfinity, RefusesThoughCompiled, ScalesTheBlock],
    "check_variants_equal_rows_written_out": [SharesTooMuch, BuildsUpBackwards],
}


@pytest.mark.parametrize("check", all_checks("predictor"), ids=lambda check: check.__name__)
def test_a_check_of_predictors_catches_what_breaks_its_law(check: Callable) -> None:
    for broken in BROKEN[check.__name__]:
        with pytest.raises(CheckFailed, match=f"^{broken.__name__}: "):
            check(broken(WEIGHTS), ROWS.copy())
