"""`glasstream gbmap`: fit GBMAP to a CSV file, compare its score with other models, and draw the embedding."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click

from glasstream.app.command.options import drop_option, types_option
from glasstream.app.terminal import standard_console
from glasstream.detect.gbmap.settings import PRESETS

if TYPE_CHECKING:
    from rich.table import Table as Shown

    from glasstream_lab.gbmap.table import Table
    from glasstream_lab.papers.gbmap_comparison import Comparison

_MOST_SEED = 2**32 - 1
"""Largest seed that scikit-learn accepts."""


@click.command(short_help="Fit GBMAP to a CSV file and compare it with other models.")
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
@types_option
@drop_option
@click.option(
    "--category", "categories", multiple=True, help="Numeric column whose values are category codes. Can be repeated."
)
@click.option(
    "--preset",
    type=click.Choice([*PRESETS]),
    default="paper-drift",
    show_default=True,
    help="Hyperparameters of GBMAP: those of the paper's drift, scaling or feature experiments.",
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
    types: tuple[str, ...],
    drop: tuple[str, ...],
    categories: tuple[str, ...],
    preset: str,
    share: float,
    rows: int | None,
    seed: int,
    out: Path | None,
) -> int:
    """Fit GBMAP to a CSV file, compare its test score with other models, and write the embedding.

    GBMAP (gradient boosting mapping) maps rows to an embedding that reflects how the target depends on them. The test
    rows are drawn at random.
    """
    from glasstream.app.command.make_source import parse_types
    from glasstream.app.plots.canvas import drawing
    from glasstream.app.runner.outputs import expect_writable
    from glasstream.events.admission import Task
    from glasstream_lab.gbmap.table_file import read_table
    from glasstream_lab.papers.gbmap_comparison import compare, write_embedding

    if out is not None:
        expect_writable(out)
        drawing(1, 1)  # says what to install, before anything takes time
    console = standard_console()
    notices: list[str] = []
    table = read_table(
        csv_file, target, Task(task) if task else None, categories, rows, parse_types(types), notices, drop
    )
    for line in notices:
        console.print(line, style="dim")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
        compared = compare(table, target, PRESETS[preset], share, seed)
    console.print(_score_table(table, target, compared))
    if not table.classes and (table.targets == table.targets[0]).all():
        console.print(
            f"{target!r} has the same value in all rows, so every model predicts it without learning anything",
        )
    if out is not None:
        write_embedding(out, table, compared.model, compared.tested, target)
        console.print(f"{out / 'embedding.csv'} and {out / 'embedding.png'} written")
    return 0


def _score_table(table: "Table", target: str, compared: "Comparison") -> "Shown":
    from rich.table import Table as Shown
    from rich.text import Text

    from glasstream.app.runner.tables import number

    count, classes = len(table.targets), len(table.classes)
    what = f"{count:,} rows, {len(table.names)} features, " + (f"{classes} classes" if classes else "regression")
    tested = int(compared.tested.sum())
    title = Text(f"{target}: {what}; {tested:,} rows for the test")  # escape markup in the name
    shown = Shown(title=title, title_justify="left", title_style="italic")
    measure = "accuracy" if classes else "R²"
    for name in ("model", f"{measure}, test", f"{measure}, training"):
        shown.add_column(name, justify="left" if name == "model" else "right")
    for name, *scores in compared.scores:
        shown.add_row(name, *map(number, scores))
    return shown
