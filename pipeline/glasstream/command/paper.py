"""`glasstream paper`: repeat experiments of the papers."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Shown

    from glasstream.gbmap.table import Table

Asked = dict[str, Any]
"""Task as JSON: its subject and its settings."""

_WITHIN = 2.0
"""Number of standard errors by which a score may fall short of the paper's."""

_data = click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder with a file NAME.csv.gz for each data set.  [default: GLASSTREAM_DATA]",
)
_datasets = click.option(
    "--datasets", help="Data sets to run, separated by commas.  [default: all data sets of the experiment]"
)
_processes = click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of processes to run at the same time, with one thread each.",
)
_results = click.option(
    "--results", type=click.Path(path_type=Path),
    help="File to append results to. Results that it already holds are not computed again.",
)  # fmt: skip


@click.group()
def paper() -> None:
    """Repeat experiments of the papers (needs the extra `gbmap`)."""


@paper.command("gbmap-table4")
@_data
@_datasets
@click.option(
    "--splits",
    type=click.IntRange(min=2),
    default=10,
    show_default=True,
    help="Number of random splits into training and test rows.",
)
@click.option(
    "--candidates", type=click.IntRange(min=1), default=100, show_default=True,
    help="Number of hyperparameter candidates per model and split, each tried with every number of learners "
            "or trees.",
)  # fmt: skip
@click.option(
    "--models", default="gbmap,linear,boosting", show_default=True, help="Models to compare, separated by commas."
)
@click.option("--rows", type=click.IntRange(min=20), help="Use only the first rows of each data set, this many.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Random seed for the splits and the candidates.",
)
@_processes
@_results
def table4(
    data: Path | None,
    datasets: str | None,
    splits: int,
    candidates: int,
    models: str,
    rows: int | None,
    seed: int,
    processes: int,
    results: Path | None,
) -> int:
    """Repeat Table 4 of 003: compare test scores with a linear model and with gradient boosting.

    Every model is tuned by random search. The whole table takes many hours; --results keeps finished results.
    """
    from glasstream.research.gbmap_paper.contestants import CONTESTANTS
    from glasstream.research.gbmap_paper.sets import SETS, TABLE_4

    chosen = _chosen(models, CONTESTANTS, "--models")
    names = _chosen(datasets, tuple(SETS), "--datasets", TABLE_4)
    folder = _folder(data, names)
    asked = [
        {
            "experiment": "gbmap-table4", "data": name, "split": split, "model": model, "candidates": candidates,
            "rows": rows, "seed": seed,
        }
        for name in names
        for split in range(splits)
        for model in chosen
    ]  # fmt: skip
    found = _done(asked, _Table4(folder), processes, results)
    console = _console()
    console.print(_table_4(names, chosen, splits, candidates, found))
    _tell_differences(console, names)
    return 0


@paper.command("gbmap-drift")
@_data
@_datasets
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of random seeds, each for one cut of the rows and its fits.",
)
@click.option("--feature", help="Feature to split the rows by.  [default: the feature that causes the most drift]")
@click.option("--rows", type=click.IntRange(min=160), help="Use only the first rows of each data set, this many.")
@_processes
@_results
def drift(
    data: Path | None,
    datasets: str | None,
    seeds: int,
    feature: str | None,
    rows: int | None,
    processes: int,
    results: Path | None,
) -> int:
    """Repeat the drift experiment of 003, 4.5: detect, without labels, the rows that the model fails on.

    "drift" is the rise of the mean loss that the split causes, in variances of the target. "positives" is the share of
    rows to be detected. "flags/stated" is the share of flagged rows among those that did not drift, divided by the
    share that the method states.
    """
    from glasstream.ingest.admission import Task
    from glasstream.research.gbmap_paper.sets import DRIFT, SETS

    of_numbers = tuple(name for name, one in SETS.items() if one.task is Task.REGRESSION)
    names = _chosen(datasets, of_numbers, "--datasets", DRIFT)
    folder = _folder(data, names)
    asked = [
        {"experiment": "gbmap-drift", "data": name, "feature": feature, "rows": rows, "seed": seed}
        for name in names
        for seed in range(seeds)
    ]
    found = _done(asked, _Drift(folder), processes, results)
    console = _console()
    console.print(_drift_table(names, seeds, found))
    _tell_differences(console, names)
    return 0


class _Table4:
    """One task of Table 4, which any process can run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, asked: Asked) -> Asked:
        from glasstream.research.gbmap_paper.table4 import score

        table = _read(self.folder, asked["data"], asked["rows"])
        scored = score(table, asked["model"], asked["split"], asked["candidates"], seed=asked["seed"])
        return {"test": scored.test, "validation": scored.validation, "parameters": dict(scored.parameters)}


class _Drift:
    """One task of the drift experiment, which any process can run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, asked: Asked) -> Asked:
        from glasstream.research.gbmap_paper.drift import drift as drifted

        table = _read(self.folder, asked["data"], asked["rows"])
        return asdict(drifted(table, asked["seed"], feature=asked["feature"]))


def _read(folder: Path, name: str, rows: int | None) -> "Table":
    from glasstream.research.gbmap_paper.sets import SETS, TARGET
    from glasstream.sources.table_file import read_table

    one = SETS[name]
    return read_table(folder / f"{name}.csv.gz", TARGET, one.task, one.categories, rows)


def _done(
    asked: Sequence[Asked], work: Callable[[Asked], Asked], processes: int, results: Path | None
) -> list[tuple[Asked, Asked]]:
    """Return all tasks with their results. Run the tasks that are not finished yet, and report progress."""
    from glasstream.research.gbmap_paper.finished import Finished
    from glasstream.research.gbmap_paper.tasks import each

    finished = Finished(results)
    left = [one for one in asked if finished.get(one) is None]
    if len(left) < len(asked):
        click.echo(f"{results} already holds {len(asked) - len(left):,} of {len(asked):,} results", err=True)
    started = time.monotonic()
    found = {id(one): known for one in asked if (known := finished.get(one)) is not None}
    for count, (one, came) in enumerate(each(work, left, processes), 1):
        finished.add(one, came)
        found[id(one)] = came
        spent = time.monotonic() - started
        what = " ".join(str(one[key]) for key in ("data", "model", "split", "seed") if key in one)
        rest = f", about {_minutes(spent / count * (len(left) - count))} left" if count < len(left) else ""
        click.echo(f"{count:,} of {len(left):,} done after {_minutes(spent)}{rest}: {what}", err=True)
    return [(one, found[id(one)]) for one in asked]


def _minutes(seconds: float) -> str:
    """Format a duration.

    >>> _minutes(59.7), _minutes(75), _minutes(7300)
    ('60 s', '1 min', '2.0 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _table_4(
    names: Iterable[str], models: Sequence[str], splits: int, candidates: int, found: list[tuple[Asked, Asked]]
) -> "Shown":
    from rich.table import Table as Shown

    from glasstream.ingest.admission import Task
    from glasstream.research.gbmap_paper.contestants import name_of
    from glasstream.research.gbmap_paper.sets import SETS

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
            verdict = ("reached" if ours >= theirs - _WITHIN * error else "below") if model == "gbmap" else ""
            score = "accuracy" if classification else "R²"
            numbers = (f"{ours:.3f}", f"{error:.4f}", f"{theirs:.3f}", distance)
            shown.add_row(name, name_of(model, classification), score, *numbers, verdict)  # type: ignore[arg-type]
        shown.add_section()
    return shown


def _drift_table(names: Iterable[str], seeds: int, found: list[tuple[Asked, Asked]]) -> "Shown":
    from collections import Counter

    from rich.table import Table as Shown

    from glasstream.research.gbmap_paper.sets import SETS

    shown = Shown(
        title=f"Drift, 003, 4.5: area under the ROC curve, median (least to largest) of {seeds} seeds",
        title_justify="left",
    )
    columns = ("data", "GBMAP", "paper", "Euclidean", "paper", "dropped (seeds)", "drift", "positives", "flags/stated")
    for column in columns:
        shown.add_column(column, justify="left" if column in ("data", "dropped (seeds)") else "right")
    for name in names:
        came = [result for one, result in found if one["data"] == name]
        features = Counter(result["feature"] for result in came).most_common()
        shown.add_row(
            name,
            _range(came, "gbmap"),
            f"{SETS[name].auc:.2f}",
            _range(came, "euclidean"),
            f"{SETS[name].auc_euclidean:.2f}",
            ", ".join(f"{feature} ({count})" for feature, count in features),
            _range(came, "drift"),
            _range(came, "positives"),
            _range([{"ratio": one["flagged"] / one["stated"]} for one in came], "ratio"),
        )
    return shown


def _range(came: Sequence[Mapping[str, Any]], key: str) -> str:
    """Format the median and the range of a number.

    >>> _range([{"x": 0.5}, {"x": 0.75}, {"x": 0.25}], "x")
    '0.50 (0.25 to 0.75)'
    """
    values = [float(one[key]) for one in came]
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _tell_differences(console: "Console", names: Iterable[str]) -> None:
    from glasstream.research.gbmap_paper.sets import SETS

    for name in names:
        if SETS[name].differs:
            console.print(f"{name}: {SETS[name].differs}", markup=False)


def _chosen(
    given: str | None, known: tuple[str, ...], option: str, default: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    from glasstream.errors import SettingsError

    if given is None:
        return default or known
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if not names or (unknown := [name for name in names if name not in known]):
        got = ", ".join(map(repr, unknown)) if names else "none"
        raise SettingsError([f"{option}: expected names of {', '.join(known)}, got {got}"])
    return names


def _folder(data: Path | None, names: Iterable[str]) -> Path:
    """Return the folder that has the files of these data sets.

    Raises
    ------
    InputError
        No folder is named, or a file is missing.
    """
    from glasstream.errors import InputError

    given = data or (Path(path) if (path := os.environ.get("GLASSTREAM_DATA")) else None)
    if given is None:
        raise InputError("paper: expected a folder of data sets in --data or GLASSTREAM_DATA, got none")
    missing = [name for name in names if not (given / f"{name}.csv.gz").is_file()]
    if missing:
        raise InputError(
            f"{given}: expected {missing[0]}.csv.gz, and so on for {', '.join(missing)}, got none; name the folder "
            "with --data, or fewer data sets with --datasets"
        )
    return given


def _console() -> "Console":
    from glasstream.command.console import standard_console

    return standard_console()
