"""Test scores with hyperparameters found by random search (Patron et al. 2024, 4.1, 4.3, Tables 2 and 4).

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from glasstream.events.admission import Task
from glasstream_lab.gbmap.table import Table
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Choice, Experiment, Request, Results, values
from glasstream_lab.papers.gbmap_contestants import TEST_SHARE, Contestant, Fitted, Integers, name_of, parted
from glasstream_lab.papers.gbmap_sets import DIFFERENCES, FILES, SETS, read_set
from glasstream_lab.papers.tasks import Json

FOLDS: Final = 5
SYNTHETIC_CANDIDATES: Final = 10
SYNTHETIC_ROWS: Final = 60_000
"""Number of candidates for generated data, and of the rows on which they are compared, as in the paper."""
SYNTHETIC_FOLDS: Final = 1
"""Number of folds on which each candidate for generated data is fitted and scored. A fold has 12,000 rows."""
QUICK_SETS: Final = ("concrete", "pima_diabetes")
QUICK_CANDIDATES: Final = 2

STAGED: Final[Mapping[Contestant, tuple[str, int]]] = {"gbmap": ("n_learners", 2), "boosting": ("max_iter", 100)}
"""Parameter that counts learners or trees, and its smallest value. The fit uses the largest value."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of one contestant on one split.

    Attributes
    ----------
    test
        R² or accuracy on the rows that neither the search nor the fit saw.
    validation
        Mean score over the scored folds with the chosen parameters.
    parameters
        Chosen parameters.
    """

    test: float
    validation: float
    parameters: Mapping[str, Any]


def score(
    table: Table,
    contestant: Contestant,
    split: int,
    candidates: int,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    scored: int | None = None,
    searched: int | None = None,
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
    scored
        Number of folds on which a candidate is scored; None for all.
    searched
        Number of training rows that the search uses; None for all.

    Raises
    ------
    ValueError
        There are too few rows for the folds, or a fit fails.
    """
    train, test = parted(len(table.targets), split, seed)
    draws = np.random.Generator(np.random.PCG64([seed, split, 1]))
    tried = [drawn(contestant, draws) for _ in range(candidates)]
    validation, parameters = search(table, contestant, train[:searched], tried, split, folds, scored)
    fitted = _fitted(table, contestant, train, parameters, split)
    return Scored(fitted.score(table.rows[test], table.targets[test]), validation, parameters)


def search(
    table: Table,
    contestant: Contestant,
    places: Integers,
    tried: Sequence[Mapping[str, Any]],
    split: int,
    folds: int = FOLDS,
    scored: int | None = None,
) -> tuple[float, dict[str, Any]]:
    """Return the best mean score over the scored folds, and its parameters with the best number of learners or trees.

    Parameters
    ----------
    places
        Rows to use, in random order.
    tried
        Candidates, each with the largest number of learners or trees.
    split
        Random seed of the fits.
    scored
        Number of folds on which a candidate is scored; None for all.

    Raises
    ------
    ValueError
        There is no candidate, there are too few rows for the folds, or a fit fails.
    """
    cuts = np.array_split(places, folds)
    best: tuple[float, dict[str, Any]] | None = None
    for number, parameters in enumerate(tried):
        if parameters in tried[:number]:
            continue
        staged = np.mean(
            [
                _fitted(
                    table, contestant, np.concatenate([*cuts[:fold], *cuts[fold + 1 :]]), parameters, split
                ).staged_scores(table.rows[cut], table.targets[cut])
                for fold, cut in enumerate(cuts[:scored])
            ],
            axis=0,
        )
        name, fewest = STAGED.get(contestant, ("", 1))
        stage = fewest + int(np.argmax(staged[fewest - 1 :]))
        if best is None or staged[stage - 1] > best[0]:
            best = float(staged[stage - 1]), {**parameters, **({name: stage} if name else {})}
    if best is None:
        raise ValueError("expected at least 1 candidate, got none")
    return best


def drawn(contestant: Contestant, draws: np.random.Generator) -> dict[str, Any]:
    """Draw parameters from the ranges in Table 2, with the largest number of learners or trees.

    The boosting of scikit-learn cannot sample rows for each tree, as the paper's XGBoost does. Its learning rate keeps
    the default. Least squares has no parameters.
    """
    if contestant == "gbmap":
        return {
            "n_learners": 150,
            "beta": float(draws.uniform(1.0, 20.0)),
            "max_iter": int(draws.choice([200, 400])),
            "ridge": float(draws.uniform(0.0, 1e-2)),
        }
    if contestant == "linear":
        return {"C": 1.0 / float(draws.uniform(1e-5, 1.0))}
    if contestant == "least squares":
        return {}
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


class Table4(Experiment):
    """GBMAP against a linear model and gradient boosting."""

    name = "gbmap-table4"
    paper = "GBMAP"
    shows = "Table 4 (regression and classification)"
    summary = "Compare tuned GBMAP, linear models and gradient boosting."
    minutes = 450
    repetitions = 5
    data = FILES
    quick_data = QUICK_SETS
    quick_omits = (
        f"all data sets but {' and '.join(QUICK_SETS)}, {10 - QUICK_CANDIDATES} of ten candidates, three of five "
        "splits, and gradient boosting"
    )
    settings = (
        f"The paper states neither the share of test rows ({TEST_SHARE:.0%}), nor the number of splits (5), nor the "
        "spread of its scores. The distance is therefore in standard errors of ours.",
        "A candidate of GBMAP or of boosting is scored with every number of learners or trees, since the stages of the "
        "largest fit are the smaller fits. Ten candidates are therefore 1,490 parameter sets of GBMAP. The paper has "
        "100 sets (`--candidates 100` draws 100 candidates).",
        "The paper's boosting is XGBoost, with sampled rows. Ours is scikit-learn's histogram gradient boosting, "
        "another model, so the paper's scores are not compared: "
        + ", ".join(f"{name} {one.boosting:.3f}" for name, one in SETS.items())
        + ".",
        f"The search for synth-cos has {SYNTHETIC_CANDIDATES} candidates and {SYNTHETIC_ROWS:,} rows, as in the paper. "
        f"Each candidate is scored on {SYNTHETIC_FOLDS} of the {FOLDS} folds, {SYNTHETIC_ROWS // FOLDS:,} rows, since "
        "a fit takes several minutes.",
        f"Differences in the data: {DIFFERENCES}.",
    )
    choices: ClassVar = {
        "candidates": Choice(("10", "100"), "Number of hyperparameter candidates per model and split.")
    }

    def tasks(self, request: Request) -> list[Json]:
        candidates = QUICK_CANDIDATES if request.quick else int(request.choices["candidates"])
        return [
            {
                "data": name,
                "model": model,
                "candidates": min(candidates, SYNTHETIC_CANDIDATES) if SETS[name].generated else candidates,
                "split": split,
            }
            for name in (QUICK_SETS if request.quick else SETS)
            for model in _contestants(name)
            if not (request.quick and model == "boosting")
            for split in range(request.repetitions)
        ]

    def work(self, folder: Path | None, task: Json) -> Json:
        name = task["data"]
        folds, rows = (SYNTHETIC_FOLDS, SYNTHETIC_ROWS) if SETS[name].generated else (None, None)
        table = read_set(folder, name)
        found = score(table, task["model"], task["split"], task["candidates"], scored=folds, searched=rows)
        return {"test": found.test, "validation": found.validation, "parameters": dict(found.parameters)}

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for name, one in SETS.items():
            papers = dict(zip(_contestants(name), (one.gbmap, one.linear, None), strict=True))
            for model, theirs in papers.items():
                if tests := values(results, "test", data=name, model=model):
                    rows.append(Row(f"{name}, {_readable(model)}", tests, theirs, "below", tolerance=0.0005))
        return rows


def _contestants(name: str) -> tuple[Contestant, Contestant, Contestant]:
    return "gbmap", "linear" if SETS[name].task is Task.CLASSIFICATION else "least squares", "boosting"


def _readable(model: Contestant) -> str:
    return "histogram gradient boosting" if model == "boosting" else name_of(model, classification=True)
