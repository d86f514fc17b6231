"""`glasstream dead list|show|replay`: list rejected input and send it again."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import say, standard_console, table
from glasstream_topics.events_dead import Reason

if TYPE_CHECKING:
    from rich.table import Table

    from glasstream.app.operate.dead import Wanted
    from glasstream.app.operate.repair import Letter
    from glasstream.flow.settings import Settings

_SHOWN_BYTES = 500
"""Number of bytes of an original message to print; `--json` prints all of them."""
_LINES = 20
"""Number of unsendable dead letters to list; the others are only counted."""
_ROWS = 50
"""Number of streams and reasons to list; the others are only counted."""
_CELLS = ("letters", "elements", "last", "at")
_NUMBERS = ("streams", "letters", "elements")
_PLACE = re.compile(r"(\d+)@(\d+)")

_stream = click.option("--stream", help="Only dead letters of this stream.")
_reason = click.option(
    "--reason", type=click.Choice([*map(str, Reason)]), metavar="REASON",
    help="Only dead letters with this reason, for the message or for one of its elements. "
    "ops/docs/events.md explains the reasons.",
)  # fmt: skip


def _place(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[tuple[int, int]]:
    matches = [_PLACE.fullmatch(text) for text in value]
    if wrong := [text for text, match in zip(value, matches, strict=True) if match is None]:
        raise click.BadParameter(f"expected PARTITION@OFFSET of events.dead, got {', '.join(wrong)}")
    return [(int(match[1]), int(match[2])) for match in matches if match]


_at = click.option("--at", "places", multiple=True, callback=_place, metavar="PARTITION@OFFSET",
                   help="Only this dead letter of events.dead, such as 1@3. Can be repeated.")  # fmt: skip


@click.group(short_help="List, print and replay dead letters (rejected input).")
def dead() -> None:
    """List, print and replay dead letters: the rejected input on `events.dead`."""


@dead.command("list", short_help="Count dead letters by reason, and by stream.")
@_stream
@_reason
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def list_letters(stream: str | None, reason: str | None, as_json: bool, data: Path | None, **common: Any) -> int:
    """Count dead letters, and the rejected elements of arrays: first by reason, then by stream and reason."""
    import orjson

    from glasstream.app.operate.dead import Wanted

    found: dict[tuple[str, str], dict[str, Any]] = {}
    with _letters(common, data, Wanted(stream, reason)) as (_, letters):
        for letter in letters:
            for why, elements in letter.headers.reasons().items():
                _count(found.setdefault((letter.stream, why), {}), letter, elements)
    if as_json:
        for (name, why), row in sorted(found.items()):
            click.echo(orjson.dumps({"stream": name, "reason": why, **row}))
        return 0
    console = standard_console()
    if not found:
        console.print("no dead letters")
        return 0
    console.print(_by_reason(found))
    console.print(_by_stream(found))
    if len(found) > _ROWS:
        console.print(f"and {len(found) - _ROWS:,} more; --stream and --reason select, and --json prints all")
    return 0


def _count(row: dict[str, Any], letter: "Letter", elements: int) -> None:
    row["letters"] = row.get("letters", 0) + 1
    row["elements"] = row.get("elements", 0) + elements
    if letter.headers.time >= row.get("time", 0):
        row["newest"], row["time"] = letter.place, letter.headers.time


def _by_reason(found: dict[tuple[str, str], dict[str, Any]]) -> "Table":
    """Return the totals by reason, the most frequent first."""
    rows: list[tuple[object, ...]] = []
    reasons = {why: [row for (_, other), row in found.items() if other == why] for _, why in found}
    for why, counts in sorted(reasons.items(), key=lambda item: -sum(row["letters"] for row in item[1])):
        newest = max(counts, key=lambda row: row["time"])
        total = {name: sum(row[name] for row in counts) for name in ("letters", "elements")}
        rows.append((why, len(counts), *_cells(newest | total)))
    return table(("reason", "streams", *_CELLS), rows, right=_NUMBERS, title="by reason")


def _by_stream(found: dict[tuple[str, str], dict[str, Any]]) -> "Table":
    """Return the counts of the streams with the most dead letters."""
    most = sorted(found.items(), key=lambda item: -item[1]["letters"])[:_ROWS]
    rows = ((name or None, why, *_cells(row)) for (name, why), row in sorted(most))
    return table(("stream", "reason", *_CELLS), rows, right=_NUMBERS, title="by stream and reason")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    from datetime import UTC, datetime

    last = datetime.fromtimestamp(row["time"] / 1000, UTC).isoformat(timespec="seconds")
    return row["letters"], row["elements"], last, row["newest"]


@dead.command("show", short_help="Print dead letters with reason and original message.")
@_stream
@_reason
@_at
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Print at most this many dead letters.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, with the whole original message."
)
@data_option
@settings_options(A_BROKER_OR_DATA)
def show(
    stream: str | None,
    reason: str | None,
    places: list[tuple[int, int]],
    most: int,
    as_json: bool,
    data: Path | None,
    **common: Any,
) -> int:
    """Print dead letters: the reason, the origin and the original message."""
    from itertools import islice

    import orjson

    from glasstream.app.operate.dead import Wanted

    shown = 0
    with _letters(common, data, Wanted(stream, reason, places)) as (_, letters):
        for letter in islice(letters, most):
            shown += 1
            if as_json:
                click.echo(orjson.dumps({"at": letter.place, **orjson.loads(_as_json(letter))}))
            else:
                say("\n".join(_lines(letter)))
    if not shown and not as_json:
        click.echo("no dead letter matches")
    return 0


@dead.command("replay", short_help="Send dead letters to `events` again, each once.")
@_stream
@_reason
@_at
@click.option(
    "--filter",
    "filter_name",
    help="Repair each event with this filter: nan-as-null, known-keys, or PACKAGE.MODULE:FUNCTION. The function "
    "takes an event, or the bytes of a message that is not JSON. It returns the replacement to send, or None "
    "to send nothing.",
)
@click.option("--to", metavar="STREAM", help="Send to this stream instead of the original stream.")
@click.option("--force", is_flag=True, help="Also send dead letters that have already been replayed.")
@click.option("--dry-run", is_flag=True, help="Count the dead letters without sending them.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def replay(
    stream: str | None,
    reason: str | None,
    places: list[tuple[int, int]],
    filter_name: str | None,
    to: str | None,
    force: bool,
    dry_run: bool,
    data: Path | None,
    **common: Any,
) -> int:
    """Send dead letters to `events` again, each once.

    The exit code is 1 if some cannot be sent.
    """
    from glasstream.app.operate.dead import Wanted
    from glasstream.app.operate.dead import replay as send_again
    from glasstream.app.operate.repair import LEFT_OUT, filter_named

    function = None if filter_name is None else filter_named(filter_name)
    with _letters(common, data, Wanted(stream, reason, places)) as (settings, letters):
        done = send_again(settings, letters, function, to=to, force=force, dry=dry_run)
    for line in done.lines[:_LINES]:
        say(line, err=True)
    if len(done.lines) > _LINES:
        click.echo(f"and {len(done.lines) - _LINES:,} more", err=True)
    verb = "would be sent" if dry_run else "sent again"
    click.echo(f"{done.letters:,} dead letters with {done.events:,} events {verb} to {settings.prefix}events")
    if done.before:
        click.echo(f"{done.before:,} were replayed before and are not sent again (use --force to send them)")
    for why, count in sorted(done.left.items()):
        say(f"{count:,} not sent: {why}")
    return DIFFERS if done.left.total() > done.left[LEFT_OUT] else 0


@contextmanager
def _letters(
    common: dict[str, Any], data: Path | None, wanted: "Wanted"
) -> "Iterator[tuple[Settings, Iterator[Letter]]]":
    """Yield the settings and the dead letters, and close the reader at the end."""
    from contextlib import closing

    from glasstream.app.command.expect import reached
    from glasstream.app.operate.dead import letters

    with (
        reached(load_settings(common), data) as settings,
        closing(letters(settings, wanted, lambda line: say(line, err=True))) as found,
    ):
        yield settings, found


def _lines(letter: "Letter") -> list[str]:
    dead = letter.headers
    text = "null" if letter.value is None else letter.value[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    more = len(letter.value or b"") - _SHOWN_BYTES
    if dead.omitted_bytes is not None:
        text = f"({dead.omitted_bytes:,} bytes, not kept)"
    elements = ", ".join(f"{index} {why}" for index, why in sorted(dead.rejected or ()))
    return [
        f"{letter.place}  {dead.reason}  stream {letter.stream or '–'}",
        f"  from      {dead.topic}[{dead.partition}]@{dead.offset}, epoch {dead.epoch}",
        f"  because   {dead.detail}",
        *([f"  elements  {elements}"] if elements else []),
        f"  original  {text}" + (f" … and {more:,} bytes" if more > 0 else ""),
    ]


def _as_json(letter: "Letter") -> bytes:
    from glasstream.flow.learner.dead_letters import DeadLetter
    from glasstream_topics import events_dead

    dead = letter.headers
    headers = events_dead.headers(
        epoch=dead.epoch, reason=dead.reason, topic=dead.topic, partition=dead.partition, offset=dead.offset,
        time=dead.time, detail=dead.detail, rejected=dead.rejected, omitted_bytes=dead.omitted_bytes,
    )  # fmt: skip
    return DeadLetter(letter.partition, letter.key, letter.value, tuple(headers)).as_json()
