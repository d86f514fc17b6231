"""`glasstream plot`: draw files of public records as PNG."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

_FILE = click.Path(path_type=Path)


@click.group(short_help="Plot the records that `run --out` wrote.")
def plot() -> None:
    """Plot the records that `run --out` wrote.

    This needs the extra `plot`.
    """


@plot.command("importance", short_help="Plot importance over time, with its intervals.")
@click.argument("file", type=_FILE)
@click.option("--out", type=_FILE, required=True, help="PNG file to write.")
@click.option("--incidents", type=_FILE, help="File incidents.jsonl, whose incidents to mark.  [default: none]")
@click.option("--stream", help="Stream to plot.  [default: the only stream in the file]")
@click.option("--method", help="Method to plot: ipfi, isage or attributions.  [default: one panel per method]")
@click.option("--top", type=click.IntRange(min=1), default=7, show_default=True, help="Number of features to name.")
def plot_importance(
    file: Path, out: Path, incidents: Path | None, stream: str | None, method: str | None, top: int
) -> int:
    """Plot importance over time, with its intervals, from importance.jsonl."""
    from glasstream.app.plots.importance import plot_importance as draw

    marks = () if incidents is None else read_records(incidents, "onset")
    records = read_records(file, "features")
    return _save(draw(records, incidents=marks, stream=stream, method=method, top=top), out)


@plot.command("effects", short_help="Plot effect curves and their changes.")
@click.argument("file", type=_FILE)
@click.option("--out", type=_FILE, required=True, help="PNG file to write.")
@click.option("--stream", help="Stream to plot.  [default: the only stream in the file]")
@click.option(
    "--feature",
    "features",
    multiple=True,
    help="Feature to plot. Can be repeated.  [default: the --top most important features]",
)
@click.option("--output", help="Class whose effects to plot.  [default: the first class by name]")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=6,
    show_default=True,
    help="Number of features to plot, the most important first.",
)
def plot_effects(
    file: Path, out: Path, stream: str | None, features: tuple[str, ...], output: str | None, top: int
) -> int:
    """Plot effect curves and their changes, from effects.jsonl."""
    from glasstream.app.plots.effects import plot_effects as draw

    records = read_records(file, "curve")
    return _save(draw(records, stream=stream, features=features or None, output=output, top=top), out)


def read_records(file: Path, field: str) -> Iterator[dict[str, Any]]:
    """Read the records of a file with one JSON object per line.

    Parameters
    ----------
    field
        Field that only records of the topic have.

    Raises
    ------
    InputError
        The file cannot be read, or a line is not such a record.
    """
    import orjson

    from glasstream.base.errors import InputError

    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise InputError(f"{file}:{number}: expected one JSON object per line, got {error}") from error
                if not isinstance(record, dict) or field not in record:
                    raise InputError(f"{file}:{number}: expected a record with {field!r}, got {line[:60]!r}")
                yield record
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error


def _save(figure: Any, out: Path) -> int:
    from glasstream.base.errors import InputError

    try:
        figure.savefig(out, format="png")
    except OSError as error:
        raise InputError(f"{out}: expected a place to write to, got {error.strerror}") from error
    click.echo(f"{out} written")
    return 0
