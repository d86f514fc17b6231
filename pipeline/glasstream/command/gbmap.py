"""`glasstream gbmap`: fit GBMAP to a CSV file, score it beside other models, and draw the embedding."""

import csv
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.gbmap.settings import PRESETS

if TYPE_CHECKING:
    from rich.table import Table as Shown

    from glasstream.gbmap.rows import Floats
    from glasstream.gbmap.settings import GbmapSettings
    from glasstream.gbmap.table import Table

_FEWEST = 10
"""Smallest number of rows that can be split into training and test rows."""
_SPREAD = (1e-15, 1e15)
"""Smallest and largest spread of a target. Gradient boosting holds its gradients in single precision."""
_MOST_SEED = 2**32 - 1
"""Largest seed that scikit-learn accepts."""


@click.command()
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(path_type=Path),
    required=True,
    help="CSV file with the rows, plain or gzipped.",
)
@click.option("--target", required=True, help="Column that the models predict.")
@click.option(
    "--task",
    type=click.Choice(["classification", "regression"]),
    help="Kind of prediction.  [default: derived from the target]",
)
@click.option(
    "--category", "categories", multiple=True, help="Numeric column whose values are category codes. Can be repeated."
)
@click.option(
    "--preset",
    type=click.Choice([*PRESETS]),
    default="paper-drift",
    show_default=True,
    help="Preset of GBMAP hyperparameters.",
)
@click.option(
    "--test", "share", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.25, show_default=True,
    help="Share of the rows to hold out for testing.",
)  # fmt: skip
@click.option("--rows", type=click.IntRange(min=1), help="Read at most this many rows.")
@click.option(
    "--seed",
    type=click.IntRange(0, _MOST_SEED),
    default=0,
    show_default=True,
    help="Random seed for the split and the fit.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write OUT/embedding.csv and OUT/embedding.png.")
def gbmap(
    csv_file: Path,
    target: str,
    task: str | None,
    categories: tuple[str, ...],
    preset: str,
    share: float,
    rows: int | None,
    seed: int,
    out: Path | None,
) -> int:
    """Fit GBMAP to a CSV file, compare its test score with other models, and write the embedding.

    The test rows are drawn at random. The command needs the extra `gbmap`, and with --out the extra `plot`.
    """
    import glasstream.research.gbmap_paper.contestants  # says what to install, before anything takes time  # noqa: F401
    from glasstream.command.console import standard_console
    from glasstream.ingest.admission import Task
    from glasstream.plots.canvas import drawing
    from glasstream.runner.outputs import expect_writable
    from glasstream.sources.table_file import read_table

    if out is not None:
        expect_writable(out)
        drawing(1, 1)  # so does this
    console = standard_console()
    notices: list[str] = []
    table = read_table(csv_file, target, Task(task) if task else None, categories, rows, notices=notices)
    for line in notices:
        console.print(line, style="dim", markup=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
        shown, model, test = _compared(table, target, PRESETS[preset], share, seed)
    console.print(shown)
    if not table.classes and (table.targets == table.targets[0]).all():
        console.print(
            f"{target!r} has the same value in all rows, so every model predicts it without learning anything",
            markup=False,
        )
    if out is not None:
        _write(out, table, model, test, target)
        console.print(f"{out / 'embedding.csv'} and {out / 'embedding.png'} written", markup=False)
    return 0


def _compared(
    table: "Table", target: str, settings: "GbmapSettings", share: float, seed: int
) -> tuple["Shown", Any, "Floats"]:
    """Return the table of scores, the fitted estimator, and for each row 1 if it was a test row, else 0."""
    import numpy as np
    from rich.table import Table as Shown
    from rich.text import Text

    from glasstream.errors import InputError
    from glasstream.research.gbmap_paper.contestants import CONTESTANTS, Fitted, name_of
    from glasstream.research.gbmap_paper.table4 import parted
    from glasstream.runner.tables import number

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
    what = f"{count:,} rows, {len(table.names)} features, " + (f"{classes} classes" if classes else "regression")
    title = Text(f"{target}: {what}; {len(test):,} rows for the test")  # escape markup in the name
    shown = Shown(title=title, title_justify="left", title_style="italic")
    measure = "accuracy" if classes else "R²"
    for name in ("model", f"{measure}, test", f"{measure}, training"):
        shown.add_column(name, justify="left" if name == "model" else "right")
    parameters = {
        "n_learners": settings.learners,
        "beta": settings.beta,
        "ridge": settings.ridge,
        "max_iter": settings.iterations,
        "tol": settings.tolerance,
        "n_starts": settings.starts,
        "single": settings.single,
    }
    models = {}
    for contestant in CONTESTANTS:
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
            raise InputError(f"{name_of(contestant, bool(classes))}: {error}") from error
        models[contestant] = fitted.model
        scores = (number(fitted.score(table.rows[part], table.targets[part])) for part in (test, train))
        shown.add_row(name_of(contestant, bool(classes)), *scores)
    tested = np.zeros(count)
    tested[test] = 1.0
    return shown, models["gbmap"], tested


def _write(out: Path, table: "Table", model: Any, tested: "Floats", target: str) -> None:
    from glasstream.errors import InputError
    from glasstream.plots.embedding import plot_embedding

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
            lines.writerow(["part", "target", "prediction", *names])
            for row, test in enumerate(tested):
                own = (said(table.targets[row]), said(predicted[row]))
                lines.writerow(["test" if test else "training", *own, *map(float, embedded[row])])
        figure.savefig(out / "embedding.png", format="png")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from error
