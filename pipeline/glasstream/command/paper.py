"""`glasstream paper`: repeat experiments of the papers."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

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
    from glasstream.research.gbmap_paper.table4 import Table4, show_table4
    from glasstream.research.gbmap_paper.tasks import run_tasks

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
    found = run_tasks(asked, Table4(folder), processes, results, _say)
    console = _console()
    console.print(show_table4(names, chosen, splits, candidates, found))
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
    from glasstream.research.gbmap_paper.drift import DriftExperiment, show_drift
    from glasstream.research.gbmap_paper.sets import DRIFT, SETS
    from glasstream.research.gbmap_paper.tasks import run_tasks

    of_numbers = tuple(name for name, one in SETS.items() if one.task is Task.REGRESSION)
    names = _chosen(datasets, of_numbers, "--datasets", DRIFT)
    folder = _folder(data, names)
    asked = [
        {"experiment": "gbmap-drift", "data": name, "feature": feature, "rows": rows, "seed": seed}
        for name in names
        for seed in range(seeds)
    ]
    found = run_tasks(asked, DriftExperiment(folder), processes, results, _say)
    console = _console()
    console.print(show_drift(names, seeds, found))
    _tell_differences(console, names)
    return 0


def _say(line: str) -> None:
    click.echo(line, err=True)


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
