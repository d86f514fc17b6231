"""Test scores with hyperparameters found by random search (003, 4.1, 4.3, Tables 2 and 4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pipeline.gbmap.table import Table
from pipeline.paper.contestants import Contestant, Fitted

FOLDS: Final = 5
TEST_SHARE: Final = 0.25
"""Of the rows that a split keeps for the test; the paper does not state its own."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scored:
    """One contestant on one split.

    Attributes
    ----------
    test
        R², or accuracy, on the rows that neither the search nor the fit saw.
    validation
        The mean over the folds with the parameters that were chosen.
    parameters
        Those.
    """

    test: float
    validation: float
    parameters: Mapping[str, Any]


def score(
    table: Table, contestant: Contestant, split: int, candidates: int, *, folds: int = FOLDS, seed: int = 0
) -> Scored:
    """Search on the training rows of a split, fit to all of them with what was found, and score on the others.

    The split and the folds depend on `seed` and `split` alone: every contestant has the same.

    Parameters
    ----------
    split
        Its number.
    candidates
        How many parameters are tried, drawn as Table 2 says.

    Raises
    ------
    ValueError
        The rows are too few for the folds, or a fit fails.
    """
    train, test = parted(len(table.targets), split, seed)
    draws = np.random.Generator(np.random.PCG64([seed, split, 1]))
    tried = [drawn(contestant, bool(table.classes), draws) for _ in range(candidates)]
    cuts = np.array_split(train, folds)  # the training rows are in random order
    means = [
        fmean(
            _fitted(table, contestant, np.concatenate([*cuts[:fold], *cuts[fold + 1 :]]), parameters, split).score(
                table.rows[cut], table.targets[cut]
            )
            for fold, cut in enumerate(cuts)
        )
        for parameters in tried
    ]
    best = int(np.argmax(means))
    fitted = _fitted(table, contestant, train, tried[best], split)
    return Scored(fitted.score(table.rows[test], table.targets[test]), means[best], tried[best])


def parted(count: int, split: int, seed: int, share: float = TEST_SHARE) -> tuple[Integers, Integers]:
    """Places of the training and of the test rows, each in random order."""
    order = np.random.Generator(np.random.PCG64([seed, split, 0])).permutation(count)
    kept = max(1, round(share * count))
    return order[kept:], order[:kept]


def drawn(contestant: Contestant, classification: bool, draws: np.random.Generator) -> dict[str, Any]:
    """Parameters within the ranges of Table 2.

    The paper's boosting is XGBoost. That of scikit-learn takes no share of the rows for each tree; the learning rate
    has its default. The linear model of a regression is ridge here, on the paper's range of penalties for logistic
    regression; the paper fits it without a penalty.
    """
    if contestant == "gbmap":
        return {
            "n_learners": int(draws.integers(2, 151)),
            "beta": float(draws.uniform(1.0, 20.0)),
            "max_iter": int(draws.choice([200, 400])),
            "ridge": float(draws.uniform(0.0, 1e-2)),
        }
    if contestant == "linear":
        penalty = float(draws.uniform(1e-5, 1.0))
        return {"C": 1.0 / penalty} if classification else {"alpha": penalty}
    return {"max_iter": int(draws.integers(100, 2_001)), "max_depth": int(draws.integers(1, 6))}


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
