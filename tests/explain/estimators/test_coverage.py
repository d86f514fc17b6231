"""Intervals contain the exact value as often as they say. `coverage.py` beside it measures more runs."""

import numpy as np
import pytest

from tests.support.coverage import (
    METHODS,
    MODELS,
    Cell,
    CurveCell,
    cells,
    coverage,
    curve_cells,
    curve_coverage,
    estimator,
    least,
)

BIASED = {"absolute", "zero_one"}


def publishes(cell: Cell) -> bool:
    return cell.method == "iPFI" or cell.loss not in BIASED


def test_the_law_covers_every_method_and_sampling_and_three_models() -> None:
    published = [cell for cell in cells() if publishes(cell)]
    assert {cell.method for cell in published} == METHODS.keys()
    assert {cell.sampling for cell in published} == {"geometric", "uniform", "window"}
    for method in METHODS:
        assert len({cell.model.name for cell in published if cell.method == method}) >= 3
        assert {cell.loss for cell in published if cell.method == method} >= {"squared", "brier", "cross_entropy"}


@pytest.mark.slow
@pytest.mark.parametrize("cell", cells(), ids=str)
def test_intervals_hold_what_they_claim(cell: Cell) -> None:
    runs = 300
    shares = coverage(cell, runs if publishes(cell) else 1)
    assert (shares is not None) == publishes(cell)
    assert shares is None or shares.min() >= least(runs), shares


@pytest.mark.slow
@pytest.mark.parametrize("cell", curve_cells(), ids=str)
def test_intervals_of_curves_hold_what_they_claim(cell: CurveCell) -> None:
    runs = 300
    shares = curve_coverage(cell, runs)
    assert shares.min() >= least(runs), shares


def test_without_the_correction_the_exact_value_is_outside() -> None:
    """So the law can fail: it is the correction that makes it hold."""
    model = MODELS[0]
    cell = Cell("iSAGE", model, "squared", "geometric")
    exact, outside = model.exact("iSAGE", "squared"), np.zeros(3)
    for seed in range(10):
        sage = estimator(cell, seed, corrected=False)
        sage.explain_block(model.predictor, *model.draw(3_000, seed))
        assert sage.interval() == {}
        low, high = sage.aggregator.interval()
        outside += (exact < low) | (exact > high)
    assert outside[2] >= 8 and outside[0] >= 3, outside


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_exact_values_are_those_of_closed_forms(model) -> None:
    for loss in model.losses:
        rows, targets = model.draw(20_000, 1)
        pfi = estimator(Cell("iPFI", model, loss, "window"), 1, alpha=1e-9)
        pfi.explain_block(model.predictor, rows, targets)
        sage = estimator(Cell("iSAGE", model, loss, "window"), 1, alpha=1e-9, inner=100)
        sage.explain_block(model.predictor, rows, targets)
        for estimate, method in ((pfi, "iPFI"), (sage, "iSAGE")):
            error = 4 * np.sqrt(np.array(list(estimate.variance.values())) / 20_000) + 0.03
            assert (np.abs([*estimate.importance.values()] - model.exact(method, loss)) < error).all()
