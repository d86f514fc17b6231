"""`glasstream incidents`: list the incidents of streams and their models."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import say, standard_console, table
from glasstream_topics.incidents import VERDICTS
from glasstream_topics.watching import SIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from msgspec import Struct
    from rich.table import Table

    from glasstream.flow.settings import Settings
    from glasstream_topics.consume import Reader
    from glasstream_topics.incidents import Affected, Incident
    from glasstream_topics.segments import Segments
    from glasstream_topics.watching import Watching

T = TypeVar("T", bound="Struct")

_COLUMNS = ("stream", "number", "status", "since", "time", "verdict", "features", "loss")
_NUMBERS = ("number", "since")


@click.command(short_help="List the incidents of streams and their models.")
@click.option("--stream", help="Only incidents of this stream.")
@click.option("--watching", is_flag=True, help="List how each feature is watched, and the smallest changes noticed.")
@click.option("--segments", is_flag=True, help="List the segments in which the loss is higher than elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="Print the records, one JSON object per line.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def incidents(
    stream: str | None, watching: bool, segments: bool, as_json: bool, data: Path | None, **common: Any
) -> int:
    """List the incidents on the topic `incidents`, each as of its newest record.

    Below the table, a sentence about each incident reports what changed, when it began, and how it affected the loss,
    and suggests what to do. An incident is open, over (the series are as before), or normal (later rows are compared
    with the rows since the change).

    With --watching, list instead how the features of each stream are watched, as of the newest record on the topic
    `watching`: whether they are muted, what is pending, and the smallest lasting changes that would be noticed.

    With --segments, list instead the weak segments of each stream, as of the newest record on the topic `segments`: the
    parts of the events in which the loss is higher than elsewhere, whether or not anything has changed.
    """
    if watching and segments:
        raise click.UsageError("give --watching or --segments, not both")
    from glasstream.app.command.expect import reached
    from glasstream_topics.incidents import encode

    with reached(load_settings(common), data) as settings:
        if watching:
            return _list_watching(settings, stream, as_json=as_json)
        if segments:
            return _list_segments(settings, stream, as_json=as_json)
        found = _newest(settings, stream)
    if as_json:
        for incident in found:
            click.echo(encode(incident))
        return 0
    console = standard_console()
    console.print(_table(found) if found else "no incidents")
    for incident in found:
        console.print(f"{incident.stream} {incident.incident:,}: {incident.with_suggestion()}")
    return 0


def _list_watching(settings: "Settings", stream: str | None, *, as_json: bool) -> int:
    """Print the newest record of how each stream is watched."""
    import msgspec

    from glasstream_topics import consume

    newest: dict[tuple[str, bool], Watching] = {}
    for record in _read("watching", consume.watching, settings, stream):
        former = newest.get((record.stream, record.unlabelled))
        if former is None or record.epoch >= former.epoch:
            newest[record.stream, record.unlabelled] = record
    console = standard_console()
    for _, one in sorted(newest.items()):
        if as_json:
            click.echo(msgspec.json.encode(one))
            continue
        say(f"{one.stream}: {'events without labels, ' if one.unlabelled else ''}as of {one.unit} {one.row:,}")
        console.print(_watching_table(one))
    if not as_json:
        say(SIZES if newest else "no stream is watched yet: the first record comes after 1,000 rows")
    return 0


def _list_segments(settings: "Settings", stream: str | None, *, as_json: bool) -> int:
    """Print the newest record of the weak segments of each stream."""
    import msgspec

    from glasstream_topics import consume

    newest: dict[str, Segments] = {}
    for record in _read("segments", consume.segments, settings, stream):
        former = newest.get(record.stream)
        if former is None or record.epoch >= former.epoch:
            newest[record.stream] = record
    for _, one in sorted(newest.items()):
        if as_json:
            click.echo(msgspec.json.encode(one))
            continue
        say(f"{one.stream}: {one.sentence}")
        for segment in one.segments:
            say(f"  {segment.sentence}")
    if not as_json and not newest:
        say("no segments have been tested yet: the first record comes after 3,000 rows")
    return 0


def _watching_table(one: "Watching") -> "Table":
    series = [("(label)", one.label)] if one.label is not None else []
    series += [*one.features.items()]
    horizons = sorted({size.rows for _, watched in series for size in watched.detectable})
    columns = ("feature", "state", "values", "bins", "block", "evidence", *(f"within {rows:,}" for rows in horizons))
    rows = []
    for name, watched in series:
        sizes = {size.rows: size.text for size in watched.detectable}
        found = (sizes.get(rows) for rows in horizons)
        rows.append(
            (name, watched.state, watched.known, watched.bins, watched.block, f"{watched.evidence:.2g}", *found)
        )
    return table(columns, rows, right=("values", "bins", "block", "evidence"))


def _newest(settings: "Settings", stream: str | None) -> "list[Incident]":
    """Return the newest record of each incident, by stream and number, in the newest epoch that has any.

    Parameters
    ----------
    stream
        Only incidents of this stream; None for those of all streams.

    Raises
    ------
    TopicError
        The broker does not have the topic.
    BrokerError, VersionError
        The topic cannot be read.
    """
    from glasstream_topics import consume

    newest_epochs: dict[str, tuple[int, dict[int, Incident]]] = {}
    for record in _read("incidents", consume.incidents, settings, stream):
        epoch, found = newest_epochs.get(record.stream, (-1, {}))
        if record.epoch > epoch:
            newest_epochs[record.stream] = record.epoch, {record.incident: record}
        elif record.epoch == epoch:
            found[record.incident] = record
    return [one for _, (_, found) in sorted(newest_epochs.items()) for _, one in sorted(found.items())]


def _read(name: str, opened: "Callable[..., Reader[T]]", settings: "Settings", stream: str | None) -> "Iterator[T]":
    """Yield the records of a topic up to its end, and report how many could not be read."""
    with opened(
        settings.broker,
        prefix=settings.prefix,
        streams=stream,
        follow=False,
        damaged="skip",
        kafka=settings.kafka,
    ) as records:
        yield from records
    if records.damaged:
        say(f"skipped records of {settings.prefix}{name} that cannot be read: {records.damaged:,}", err=True)


def _table(found: "list[Incident]") -> "Table":
    from glasstream.detect.incidents.summary import utc

    rows = (
        (
            one.stream,
            one.incident,
            one.status,
            f"{one.unit} {one.onset.row:,}",
            None if one.onset.ts is None else utc(one.onset.ts),
            VERDICTS.get(one.verdict, one.verdict),
            ", ".join(map(_feature, one.features)) or None,
            f"{_number(one.loss_before)} → {_number(one.loss_after)} ({one.loss_name})",
        )
        for one in found
    )
    return table(_COLUMNS, rows, right=_NUMBERS)


def _feature(affected: "Affected") -> str:
    """Return the name of a feature, and what happened to its values."""
    return affected.feature if affected.fault is None else f"{affected.feature} ({affected.fault})"


def _number(value: float | None) -> str:
    from glasstream.app.runner.tables import number

    return "–" if value is None else number(value)
