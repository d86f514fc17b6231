"""`glasstream explain`: why events were predicted as they were."""

from collections import deque
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import msgspec

from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import say

if TYPE_CHECKING:
    from glasstream.flow.settings import Settings
    from glasstream_topics.attributions import Attribution

_Event: TypeAlias = tuple[str, int, int]
"""Stream, epoch and number of an event."""

_Spans: TypeAlias = dict[str, tuple[int, int, int]]
"""For each stream, the newest epoch with records, and the first and the last event that has one in it."""

_LAST: Final = 3
"""Number of events that are explained unless some are named."""


@click.command(short_help="Show what each feature contributed to predictions.")
@click.option("--stream", help="Show only events of this stream.")
@click.option("--id", "ids", multiple=True, help="Show the event with this id. Can be repeated.")
@click.option(
    "--seq",
    "seqs",
    multiple=True,
    type=click.IntRange(min=0),
    help="Show the event with this number, the field `seq` of `predictions`. Can be repeated.",
)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    help=f"Show the N newest events, if none is named.  [default: {_LAST}]",
    metavar="N",
)
@click.option("--flagged", is_flag=True, help="Show only events that the novelty detector flags.")
@click.option("--json", "as_json", is_flag=True, help="Print the records, one JSON object per line.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def explain(
    stream: str | None,
    ids: tuple[str, ...],
    seqs: tuple[int, ...],
    last: int | None,
    flagged: bool,
    as_json: bool,
    data: Path | None,
    **common: Any,
) -> int:
    """Show what each feature contributed to predictions, from the topic `attributions`.

    The stages write this topic if explain.methods contains `attributions`. If an event was explained in several epochs
    of its stream, the command shows the record of the newest.
    """
    for option, given in (("--last", last is not None), ("--flagged", flagged)):
        if given and (ids or seqs):
            raise click.UsageError(f"{option}: expected it without --id and --seq, which name the events")
    from glasstream.app.command.expect import reached
    from glasstream_topics.attributions import JSON

    with reached(load_settings(common), data) as settings:
        events = _events(settings, stream, ids) if ids else set[_Event]()
        wanted = {(name, seq) for name, _, seq in events} | {(stream, seq) for seq in seqs}
        novel = _flagged(settings, stream) if flagged else None
        found, spans = _read(settings, stream, events, set(seqs), last or _LAST, novel)
    for place, one in enumerate(found):
        if as_json:
            fields = msgspec.structs.asdict(one)
            del fields["schema_version"]
            click.echo(JSON.write(fields))
            continue
        if place:
            say("")
        say(f"{one.stream}, event {one.seq:,}: {one.sentence()}")
        say(one.origin())
        for line in one.waterfall():
            say(f"  {line}")
    missing = wanted - {key for one in found for key in ((one.stream, one.seq), (None, one.seq))}
    for name, seq in sorted(missing, key=str):
        say(
            f"event {seq:,} of {f'stream {name}' if name else 'any stream'}: expected a record on "
            f"{settings.prefix}attributions, found none: {_why(spans, name, seq)}; `glasstream replay --set "
            f"explain.methods=attributions --stream {name or 'STREAM'} --seq {seq}` explains it if it is retained",
            err=True,
        )
    if novel is not None and not found:
        say(
            f"events that are flagged on {settings.prefix}novelty: {len(novel):,}; none of them has a record on "
            f"{settings.prefix}attributions: `glasstream worker novelty` flags events, and the other stages explain "
            "them with explain.methods=attributions",
            err=True,
        )
    elif not found and not wanted:
        of = "" if stream is None else f" of stream {stream!r}"
        say(
            f"no records{of} on {settings.prefix}attributions: the stages write them with explain.methods=attributions",
            err=True,
        )
    return 0 if found and not missing else 1


def _why(spans: _Spans, stream: str | None, seq: int) -> str:
    """Return why an event has no record, as far as the events with records tell."""
    if stream is None:
        return "no stream has a record of an event with this number"
    if stream not in spans:
        return "no event of the stream has one; the stages write them with explain.methods=attributions"
    epoch, first, last = spans[stream]
    if seq > last:
        why = "not explained yet, or of an earlier epoch"
        return f"the newest record of epoch {epoch} is of event {last:,}; this one is {why}"
    if seq < first:
        why = "came before explain.start, or its record has expired"
        return f"the oldest record of epoch {epoch} is of event {first:,}; this one {why}"
    why = "was not chosen by attributions.share, output, low and high, or its record has expired"
    return f"events {first:,} to {last:,} of epoch {epoch} have records; this one {why}"


def _events(settings: "Settings", stream: str | None, ids: tuple[str, ...]) -> set[_Event]:
    """Return the events with these ids.

    Raises
    ------
    InputError
        No prediction has one of the ids.
    """
    from glasstream.base.errors import InputError
    from glasstream_topics import consume

    wanted, found = set(ids), dict[str, set[_Event]]()
    with consume.predictions(
        settings.broker, prefix=settings.prefix, streams=stream, follow=False, damaged="skip", kafka=settings.kafka
    ) as records:
        for record in records:
            if record.id in wanted:
                found.setdefault(record.id, set()).add((record.stream, record.epoch, record.seq))
    if unknown := sorted(wanted - found.keys()):
        raise InputError(
            f"--id: expected ids of events on {settings.prefix}predictions, got {', '.join(map(repr, unknown))}; the "
            "events were not predicted, or their predictions have expired"
        )
    return set().union(*found.values())


def _flagged(settings: "Settings", stream: str | None) -> set[_Event]:
    """Return the events that the novelty detector flags."""
    from glasstream_topics import consume

    with consume.novelty(
        settings.broker, prefix=settings.prefix, streams=stream, follow=False, damaged="skip", kafka=settings.kafka
    ) as records:
        return {(record.stream, record.epoch, record.seq) for record in records if record.flagged}


def _read(
    settings: "Settings",
    stream: str | None,
    events: Set[_Event],
    seqs: Set[int],
    last: int,
    novel: Set[_Event] | None,
) -> "tuple[list[Attribution], _Spans]":
    """Return the records of the events and numbers, the newest epoch of each, or the last ones if none is named.

    If `novel` is given, the last ones are only of these events.

    A number can be of another event in each epoch, so events that were found by their ids are looked up with it.
    """
    from glasstream_topics import consume

    newest: deque[Attribution] = deque(maxlen=last)
    named: dict[tuple[str, int], Attribution] = {}
    spans: _Spans = {}
    with consume.attributions(
        settings.broker, prefix=settings.prefix, streams=stream, follow=False, damaged="skip", kafka=settings.kafka
    ) as records:
        for record in records:
            event = record.stream, record.epoch, record.seq
            span = spans.get(record.stream)
            if span is None or record.epoch > span[0]:
                spans[record.stream] = record.epoch, record.seq, record.seq
            elif record.epoch == span[0]:
                spans[record.stream] = record.epoch, min(span[1], record.seq), max(span[2], record.seq)
            if not events and not seqs:
                if novel is None or event in novel:
                    newest.append(record)
            elif record.seq in seqs or event in events:
                before = named.get((record.stream, record.seq))
                if before is None or before.epoch <= record.epoch:
                    named[record.stream, record.seq] = record
    if records.damaged:
        say(f"skipped records of {settings.prefix}attributions that cannot be read: {records.damaged:,}", err=True)
    return list(named.values()) if events or seqs else list(newest), spans
