"""Fit GBMAP and the reference models to a table, score them on test rows, and write the embedding."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from glasstream.app.operate.table_files import in_sheet
from glasstream.base.errors import InputError
from glasstream.detect.gbmap.rows import Floats
from glasstream.detect.gbmap.settings import GbmapSettings
from glasstream_lab.gbmap.table import Table
from glasstream_lab.papers.gbmap_contestants import CONTESTANTS, Fitted, name_of, parted

_FEWEST: Final = 10
"""Smallest number of rows that can be split into training and test rows."""
_SPREAD: Final = (1e-15, 1e15)
"""Smallest and largest spread of a target. Gradient boosting holds its gradients in single precision."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Scores of GBMAP and the reference models on one split of a table.

    Attributes
    ----------
    scores
        Name of each model, with its R² or accuracy on the test rows and on the training rows.
    model
        The fitted GBMAP estimator.
    tested
        For each row 1 if it was a test row, else 0.
    """

    scores: list[tuple[str, float, float]]
    model: Any
    tested: Floats


def compare(table: Table, target: str, settings: GbmapSettings, share: float, seed: int) -> Comparison:
    """Draw the test rows, fit the models to the other rows, and score them.

    Parameters
    ----------
    target
        Name of the target, for error messages.
    settings
        Hyperparameters of GBMAP.
    share
        Share of the rows to hold out for testing.

    Raises
    ------
    InputError
        The rows or their targets do not suffice for a comparison.
    """
    count, classes = len(table.targets), len(table.classes)
    if count < _FEWEST:
        raise InputError(f"gbmap: expected at least {_FEWEST} rows with a target to fit and to test, got {count}")
    train, test = parted(count, 0, seed, share)
    if len(train) < 2 or len(test) < 2:
        raise InputError(f"gbmap: expected 2 rows or more on either side of --test {share:g}, got {count} rows in all")
    if classes and len(np.unique(table.targets[train])) < 2:
        raise InputError(
            f"gbmap: expected rows of two classes or more in {target!r}, got "
            f"{', '.join(map(repr, table.classes))[:200]}; to predict a number, set --task regression"
        )
    spread = 0.0 if classes else float(table.targets.max()) - float(table.targets.min())
    if spread and not _SPREAD[0] <= spread <= _SPREAD[1]:
        raise InputError(
            f"gbmap: expected target values that differ by {_SPREAD[0]:g} to {_SPREAD[1]:g}, got {spread:g} in "
            f"{target!r}; multiply the column by a power of ten, because gradient boosting computes in single precision"
        )
    parameters = {
        "n_learners": settings.learners,
        "beta": settings.beta,
        "ridge": settings.ridge,
        "max_iter": settings.iterations,
        "tol": settings.tolerance,
        "n_starts": settings.starts,
        "single": settings.single,
    }
    models, scores = {}, []
    for contestant in CONTESTANTS:
        name = name_of(contestant, bool(classes))
        try:
            fitted = Fitted.of(
                contestant,
                table.rows[train],
                table.targets[train],
                classification=bool(classes),
                categorical=table.categorical,
                parameters=parameters if contestant == "gbmap" else None,
                seed=seed,
            )
        except ValueError as error:
            raise InputError(f"{name}: {error}") from error
        models[contestant] = fitted.model
        on_test, on_training = (fitted.score(table.rows[part], table.targets[part]) for part in (test, train))
        scores.append((name, on_test, on_training))
    tested = np.zeros(count)
    tested[test] = 1.0
    return Comparison(scores, models["gbmap"], tested)


def write_embedding(out: Path, table: Table, model: Any, tested: Floats, target: str) -> None:
    """Write the embedding of all rows as `embedding.csv`, and its picture as `embedding.png`.

    Raises
    ------
    InputError
        The directory cannot be written.
    """
    from glasstream.app.plots.embedding import plot_embedding  # needs the extra `plot`

    embedded, predicted = model.transform(table.rows), model.predict(table.rows)
    several = len(model.maps_) > 1  # one map for each class
    names = [
        f"{table.classes[int(model.classes_[place])]}.f{j + 1}" if several else f"f{j + 1}"
        for place, one in enumerate(model.maps_)
        for j in range(one.learners)
    ]
    figure = plot_embedding(embedded, table.targets, table.classes, target)

    def said(value: float) -> str | float:
        return table.classes[int(value)] if table.classes else float(value)

    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "embedding.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(map(in_sheet, ["part", "target", "prediction", *names]))
            for row, test in enumerate(tested):
                own = (said(table.targets[row]), said(predicted[row]))
                lines.writerow(map(in_sheet, ["test" if test else "training", *own, *map(float, embedded[row])]))
        figure.savefig(out / "embedding.png", format="png")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from error
