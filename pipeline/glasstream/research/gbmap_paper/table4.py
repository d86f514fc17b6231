"""Measure test scores with hyperparameters found by random search (003, 4.1, 4.3, Tables 2 and 4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from rich.table import Table as Shown

from glasstream.gbmap.table import Table
from glasstream.ingest.admission import Task
from glasstream.research.gbmap_paper.contestants import Contestant, Fitted, name_of
from glasstream.research.gbmap_paper.sets import SETS, read_set
from glasstream.research.gbmap_paper.tasks import Json

FOLDS: Final = 5
TEST_SHARE: Final = 0.25
"""Share of the rows that a split keeps for the test. The paper does not state its share."""

STAGED: Final[Mapping[Contestant, tuple[str, int]]] = {"gbmap": ("n_learners", 2), "boosting": ("max_iter", 100)}
"""Parameter that counts learners or trees, and its smallest value. The fit uses the largest value."""

WITHIN: Final = 2.0
"""Number of standard errors by which a score may fall short of the paper's."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of one contestant on one split.

    Attributes
    ----------
    test
        R² or accuracy on the rows that neither the search nor the fit saw.
    validation
        Mean score over the folds with the chosen parameters.
    parameters
        Chosen parameters.
    """

    test: float
    validation: float
    parameters: Mapping[str, Any]


def score(
    table: Table, contestant: Contestant, split: int, candidates: int, *, folds: int = FOLDS, seed: int = 0
) -> Scored:
    """Search on the training rows of a split, fit all of them with the best parameters, and score the test rows.

    The split and the folds depend on `seed` and `split` alone, so they are the same for every contestant.

    Parameters
    ----------
    table
        Data set.
    contestant
        Model to score.
    split
        Number of the split.
    candidates
        Number of parameter sets to draw from the ranges in Table 2. Each draw is scored for all numbers of learners or
        trees in the range of Table 2, because the stages of the largest fit are the smaller fits.
    folds
        Number of folds of the search.
    seed
        Random seed of the split and of the parameter sets.

    Raises
    ------
    ValueError
        There are too few rows for the folds, or a fit fails.
    """
    train, test = parted(len(table.targets), split, seed)
    draws = np.random.Generator(np.random.PCG64([seed, split, 1]))
    tried = [drawn(contestant, bool(table.classes), draws) for _ in range(candidates)]
    cuts = np.array_split(train, folds)  # the training rows are in random order
    best: tuple[float, dict[str, Any]] | None = None
    for number, parameters in enumerate(tried):
        if parameters in tried[:number]:
            continue
        staged = np.mean(
            [
                _fitted(
                    table, contestant, np.concatenate([*cuts[:fold], *cuts[fold + 1 :]]), parameters, split
                ).staged_scores(table.rows[cut], table.targets[cut])
                for fold, cut in enumerate(cuts)
            ],
            axis=0,
        )
        name, fewest = STAGED.get(contestant, ("", 1))
        stage = fewest + int(np.argmax(staged[fewest - 1 :]))
        if best is None or staged[stage - 1] > best[0]:
            best = float(staged[stage - 1]), parameters | ({name: stage} if name else {})
    if best is None:
        raise ValueError(f"expected at least 1 candidate, got {candidates}")
    fitted = _fitted(table, contestant, train, best[1], split)
    return Scored(fitted.score(table.rows[test], table.targets[test]), *best)


def parted(count: int, split: int, seed: int, share: float = TEST_SHARE) -> tuple[Integers, Integers]:
    """Return the indices of the training rows and of the test rows, each in random order."""
    order = np.random.Generator(np.random.PCG64([seed, split, 0])).permutation(count)
    kept = max(1, round(share * count))
    return order[kept:], order[:kept]


def drawn(contestant: Contestant, classification: bool, draws: np.random.Generator) -> dict[str, Any]:
    """Draw parameters from the ranges in Table 2, with the largest number of learners or trees.

    The paper uses XGBoost for boosting. The boosting of scikit-learn cannot sample rows for each tree, and its learning
    rate keeps the default here. For regression, the linear model here is ridge regression with the paper's range of
    penalties for logistic regression. The paper fits it without a penalty.
    """
    if contestant == "gbmap":
        return {
            "n_learners": 150,
            "beta": float(draws.uniform(1.0, 20.0)),
            "max_iter": int(draws.choice([200, 400])),
            "ridge": float(draws.uniform(0.0, 1e-2)),
        }
    if contestant == "linear":
        penalty = float(draws.uniform(1e-5, 1.0))
        return {"C": 1.0 / penalty} if classification else {"alpha": penalty}
    return {"max_iter": 2_000, "max_depth": int(draws.integers(1, 6))}


def _fitted(
    table: Table, contestant: Contestant, places: Integers, parameters: Mapping[str, Any], split: int
) -> Fitted:
    return Fitted.of(
        contestant,
        table.rows[places],
        table.targets[places],
        classification=bool(table.classes),
        categorical=table.categorical,
        parameters=parameters,
        seed=split,
    )


class Table4:
    """One task of Table 4, which any process can run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, asked: Json) -> Json:
        table = read_set(self.folder, asked["data"], asked["rows"])
        scored = score(table, asked["model"], asked["split"], asked["candidates"], seed=asked["seed"])
        return {"test": scored.test, "validation": scored.validation, "parameters": dict(scored.parameters)}


def show_table4(
    names: Iterable[str], models: Sequence[str], splits: int, candidates: int, found: list[tuple[Json, Json]]
) -> Shown:
    """Return the table of the mean scores beside those of the paper."""
    shown = Shown(
        title=f"Table 4 of 003: mean of {splits} splits, {candidates} candidates per model and split",
        title_justify="left",
    )
    for column in ("data", "model", "score", "here", "standard error", "paper", "(here - paper) / s.e.", ""):
        shown.add_column(column, justify="left" if column in ("data", "model", "score", "") else "right")
    for name in names:
        classification = SETS[name].task is Task.CLASSIFICATION
        for model in models:
            tests = [came["test"] for one, came in found if (one["data"], one["model"]) == (name, model)]
            ours, error, theirs = fmean(tests), stdev(tests) / len(tests) ** 0.5, float(getattr(SETS[name], model))
            distance = f"{(ours - theirs) / error:+.1f}" if error > 0 else ""
            verdict = ("reached" if ours >= theirs - WITHIN * error else "below") if model == "gbmap" else ""
            measure = "accuracy" if classification else "R²"
            numbers = (f"{ours:.3f}", f"{error:.4f}", f"{theirs:.3f}", distance)
            shown.add_row(name, name_of(model, classification), measure, *numbers, verdict)  # type: ignore[arg-type]
        shown.add_section()
    return shown
