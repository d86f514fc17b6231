"""`glasstream paper`: repeat experiments of the papers."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from glasstream.app.terminal import standard_console

if TYPE_CHECKING:
    from glasstream_lab.papers.experiment import Experiment, Request
    from glasstream_lab.papers.tasks import Json

_data = click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder with a file NAME.csv.gz for each data set.  [default: GLASSTREAM_DATA]",
)
_processes = click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of processes to run at the same time, with one thread each.",
)
_quick = click.option(
    "--quick",
    is_flag=True,
    help="Run only a small part of the experiment, in less than a minute once the kernels are compiled.",
)
_results = click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the table (CSV, and Markdown with versions and date), the figure (PNG) and the individual "
    "results. A later run continues from them.",
)


class _Experiments(click.Group):
    """Commands of the group, and one for each experiment of the registry, which is imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from glasstream_lab.papers.registry import EXPERIMENTS

        return [*super().list_commands(ctx), *EXPERIMENTS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from glasstream_lab.papers.registry import EXPERIMENTS, experiment

        if cmd_name in EXPERIMENTS:
            return _command(experiment(cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Experiments, short_help="Repeat experiments of the iPFI, iSAGE, iPDP and GBMAP papers.")
def paper() -> None:
    """Repeat experiments of the iPFI, iSAGE, iPDP and GBMAP papers, and compare the results with the published ones."""


@paper.command("list", short_help="List the experiments, with their time and data.")
def list_() -> int:
    """List the experiments: what each shows, how long it takes, and which data it reads."""
    from rich.table import Table

    from glasstream_lab.papers.registry import EXPERIMENTS, experiment

    shown = Table("experiment", "paper", "shows", "CPU minutes, about", "data")
    for name in EXPERIMENTS:
        one = experiment(name)
        shown.add_row(name, one.paper, one.shows, f"{one.minutes:g}", ", ".join(one.data) or "generated")
    standard_console().print(shown)
    return 0


@paper.command("all", short_help="Run every experiment, and sum up the verdicts.")
@_quick
@click.option(
    "--part",
    callback=lambda ctx, option, text: _part(text),
    help="Run only every N-th experiment, beginning with the K-th: K/N, such as 2/3.",
)
@_data
@_results
@_processes
def all_(quick: bool, part: tuple[int, int], data: Path | None, results: Path | None, processes: int) -> int:
    """Run every experiment, one after another, and sum up the verdicts at the end."""
    from glasstream_lab.papers.registry import EXPERIMENTS, experiment

    number, count = part
    experiments = [experiment(name) for name in list(EXPERIMENTS)[number - 1 :: count]]
    names = {name for one in experiments for name in (one.quick_data if quick else one.data)}
    folder = _folder(data, sorted(names)) if names else None
    verdicts = []
    for one in experiments:
        started = time.monotonic()
        verdict = _run(one, _request(one, folder, quick), results, processes)
        verdicts.append(f"{one.name}: {verdict} It took {time.monotonic() - started:.0f} s.")
    for line in verdicts:
        standard_console().print(line)
    return 0


@paper.command("write", short_help="Write stored results into a page.")
@click.argument("page", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder in which experiments have stored their results.",
)
def write(page: Path, results: Path) -> int:
    """Write stored results into a page in Markdown, such as `ops/docs/papers.md`.

    The results of an experiment replace the text between the lines `<!-- results of NAME -->` and `<!-- end of NAME
    -->` of the page. Experiments without stored results stay as they are. The lines `<!-- results of all -->` and `<!--
    end of all -->`, if the page has them, show the share of all its numbers that do not hold.
    """
    from glasstream.base.errors import InputError
    from glasstream_lab.papers.page import ALL, marks, summary, with_sections
    from glasstream_lab.papers.registry import EXPERIMENTS

    if not page.is_file():
        raise InputError(f"{page}: expected a page in Markdown, got no file")
    files = {name: file for name in EXPERIMENTS if (file := results / f"{name}.md").is_file()}
    if not files:
        raise InputError(f"{results}: expected a file NAME.md of an experiment, got none; run one with --results")
    sections = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    text = with_sections(page.read_text(encoding="utf-8"), sections)
    if marks(ALL)[0] in text:
        text = with_sections(text, {ALL: summary(text)})
    page.write_text(text, encoding="utf-8")
    _say(f"{page}: wrote the results of {', '.join(sections)}")
    return 0


def _part(text: str | None) -> tuple[int, int]:
    """Read K/N.

    >>> _part("2/3"), _part(None)
    ((2, 3), (1, 1))
    """
    if text is None:
        return 1, 1
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise click.BadParameter(f"expected K/N with K from 1 to N, got {text!r}")


def _command(one: "Experiment") -> click.Command:
    """Return the command that runs an experiment."""

    @click.command(one.name, help=f"{one.summary} This covers {one.shows} of the {one.paper} paper.")
    @_quick
    @click.option(
        "--repetitions",
        type=click.IntRange(min=1),
        help=f"Number of repetitions, each with another random seed.  [default: {one.repetitions}]",
    )
    @_data
    @_results
    @_processes
    def command(
        quick: bool,
        repetitions: int | None,
        data: Path | None,
        results: Path | None,
        processes: int,
        only: str | None = None,
        **choices: str,
    ) -> int:
        names = one.quick_data if quick else one.data
        chosen = None if only is None else tuple(name.strip() for name in only.split(",") if name.strip())
        if chosen is not None:
            names = tuple(name for name in names if name in chosen)
        folder = _folder(data, names) if names else None
        _run(one, _request(one, folder, quick, repetitions, choices), results, processes, chosen)
        return 0

    if one.data:
        command = click.option("--only", help="Data sets to run, separated by commas.  [default: all]")(command)
    for name, choice in one.choices.items():
        option = click.option(
            f"--{name}", type=click.Choice(choice.values), default=choice.values[0], show_default=True, help=choice.help
        )
        command = option(command)
    return command


def _request(
    one: "Experiment",
    folder: Path | None,
    quick: bool,
    repetitions: int | None = None,
    choices: Mapping[str, str] | None = None,
) -> "Request":
    from glasstream_lab.papers.experiment import Request

    count = repetitions or (one.quick_repetitions if quick else one.repetitions)
    defaults = {name: choice.values[0] for name, choice in one.choices.items()}
    return Request(folder, count, quick, {**defaults, **(choices or {})})


def _run(
    one: "Experiment",
    request: "Request",
    results: Path | None,
    processes: int,
    only: Sequence[str] | None = None,
) -> str:
    """Run an experiment, perhaps on some data sets only, and return the sentence that sums up its verdicts."""
    from glasstream_lab.papers.comparison import tally, to_csv, to_table
    from glasstream_lab.papers.experiment import PAPERS, Work
    from glasstream_lab.papers.page import section
    from glasstream_lab.papers.tasks import run_tasks

    tasks = one.tasks(request)
    if only is not None:
        tasks = _tasks_of(tasks, only)
    if results is not None:
        results.mkdir(parents=True, exist_ok=True)
    finished = None if results is None else results / f"{one.name}.jsonl"
    done = run_tasks(tasks, Work(one, request.folder), processes, finished, _say)
    found = [(task, result) for task, result, _ in done]
    rows = one.rows(found)
    title = f"{PAPERS[one.paper]}: {one.shows}"
    console = standard_console()
    console.print(to_table(title, rows))
    console.print(tally(rows))
    for line in (f"Left out: {one.quick_omits}.",) * request.quick + one.settings:
        console.print(f"- {line}")
    if results is None:
        return tally(rows)
    (results / f"{one.name}.csv").write_text(to_csv(rows), encoding="utf-8")
    (results / f"{one.name}.md").write_text(section(one, request, done, rows), encoding="utf-8")
    figure = one.figure(found)
    if figure is not None:
        figure.savefig(results / f"{one.name}.png", dpi=120)
    _say(f"{results}: {one.name}.csv, .md{'' if figure is None else ', .png'}")
    return tally(rows)


def _tasks_of(tasks: Sequence["Json"], data_sets: Sequence[str]) -> list["Json"]:
    """Return the tasks on these data sets.

    Raises
    ------
    SettingsError
        A name is unknown, or there is no name.
    """
    from glasstream.base.errors import SettingsError

    known = list(dict.fromkeys(task["data"] for task in tasks))
    if not data_sets or (unknown := [name for name in data_sets if name not in known]):
        got = ", ".join(map(repr, unknown)) if data_sets else "none"
        raise SettingsError([f"--only: expected names of {', '.join(known)}, got {got}"])
    return [task for task in tasks if task["data"] in data_sets]


def _say(line: str) -> None:
    click.echo(line, err=True)


def _folder(data: Path | None, names: Iterable[str]) -> Path:
    """Return the folder that has the files of these data sets.

    Raises
    ------
    InputError
        No folder is named, or a file is missing.
    """
    from glasstream.base.errors import InputError

    given = data or (Path(path) if (path := os.environ.get("GLASSTREAM_DATA")) else None)
    if given is None:
        raise InputError("paper: expected a folder of data sets in --data or GLASSTREAM_DATA, got none")
    missing = [name for name in names if not (given / f"{name}.csv.gz").is_file()]
    if missing:
        files = ", ".join(f"{name}.csv.gz" for name in missing)
        raise InputError(
            f"{given}: expected {files}, got none; name the folder with --data, or fewer data sets with --only"
        )
    return given
