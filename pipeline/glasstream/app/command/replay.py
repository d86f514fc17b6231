"""`glasstream replay`: recompute results from the retained events, in this process."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import standard_console, table

if TYPE_CHECKING:
    from rich.console import Console

    from glasstream.app.operate.explained import Explained
    from glasstream.app.operate.replay import Comparison, Log
    from glasstream.flow.settings import Settings


@click.command(short_help="Recompute results from the retained events, and compare.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the records of each topic to OUT/<topic>.jsonl.")
@click.option("--stream", "streams", multiple=True, help="Only events of this stream. Can be repeated.")
@click.option(
    "--compare",
    is_flag=True,
    help="Count the published records that equal the recomputed ones byte for byte; the exit code is 1 if any differ.",
)
@click.option(
    "--seq",
    "seqs",
    multiple=True,
    type=click.IntRange(min=0),
    help="Print what each feature contributed to this event of the --stream, and stop after it; the exit code is 1 if "
    "the published contributions differ. SEQ is the field `seq` of `predictions`. Can be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="With --seq: print one JSON object per line.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def replay(
    out: Path | None,
    streams: tuple[str, ...],
    compare: bool,
    seqs: tuple[int, ...],
    as_json: bool,
    data: Path | None,
    **common: Any,
) -> int:
    """Recompute results from the retained events; with --compare or --seq, compare them with what was published.

    By default, the settings that change numbers are those of the running stages. To see the results of other settings
    or of another model, set them: for example, --set explain.alpha=0.01, or --set model.name=FILE.onnx. The command
    writes nothing to any topic.
    """
    if seqs and (len(streams) != 1 or compare or out is not None):
        raise click.UsageError("--seq: expected one --stream, and neither --compare nor --out")
    if as_json and not seqs:
        raise click.UsageError("--json: expected --seq, whose explanations it prints")
    from glasstream.app.command.expect import reached
    from glasstream.app.operate.replay import Comparison, open_log
    from glasstream.app.runner.outputs import expect_writable

    if out is not None:
        expect_writable(out)
    console, notices = standard_console(), standard_console(err=as_json)
    with reached(load_settings(common), data) as at:
        log = open_log(at)
        settings = load_settings(common, {"broker": at.broker}, log.defaults)
        _expect_streams(log, streams)
        _notice(log, settings, notices)
        if seqs:
            return _explain(settings, log, streams[0], seqs, None if as_json else console)
        comparison = Comparison(settings, log, streams) if compare else None
        _compute(settings, log, streams, out, comparison, console)
        return _tell(comparison, console) if comparison is not None else 0


def _expect_streams(log: "Log", streams: tuple[str, ...]) -> None:
    """Check that the learner has seen the streams; if it has seen none, they may be on the topic nevertheless."""
    from glasstream.base.errors import InputError

    unknown = [stream for stream in streams if stream not in log.streams]
    if unknown and log.streams:
        raise InputError(
            f"--stream: expected one of {', '.join(map(repr, log.streams))[:300]}, which the learner has seen, got "
            f"{', '.join(map(repr, unknown))}"
        )


def _notice(log: "Log", settings: "Settings", console: "Console") -> None:
    """Say why the results may differ from those that the stages have published."""
    from glasstream.kafka.stages.names import topic
    from glasstream_topics import events

    name = topic(settings, events.TOPIC.name)
    for one in log.begins:
        if one.lost:
            console.print(
                f"{name}[{one.partition}]: Kafka has deleted the events before offset {one.offset:,}; the model starts "
                "without them",
                style="yellow",
            )
    for line in log.differing(settings):
        console.print(f"differs from the running stages: {line}", style="yellow", markup=False, highlight=False)


def _compute(
    settings: "Settings",
    log: "Log",
    streams: tuple[str, ...],
    out: Path | None,
    comparison: "Comparison | None",
    console: "Console",
) -> None:
    import time

    from glasstream.app.operate.replay import replay as records
    from glasstream.app.runner.compile_notice import compile_notice
    from glasstream.app.runner.monitor import written
    from glasstream.app.runner.outputs import OutputDirectory
    from glasstream.app.runner.report import Report

    report = Report(console, None, novelty=settings.explain.detects_novelty, incidents=settings.drift.finds_incidents)
    started = time.monotonic()
    with OutputDirectory(out, written(settings)) as files, compile_notice(standard_console(err=True).print):
        for name, record in records(settings, log, streams):
            files.add(name, record)
            report.add(name, [record])
            if comparison is not None:
                comparison.add(name, record)
            report.progress(time.monotonic())
    report.table(time.monotonic() - started)


def _explain(settings: "Settings", log: "Log", stream: str, seqs: tuple[int, ...], console: "Console | None") -> int:
    """Print the explanations of some events, as JSON without a console, and return the exit code."""
    import msgspec

    from glasstream.app.operate.explained import explained
    from glasstream.app.runner.compile_notice import compile_notice

    code = 0
    with compile_notice(standard_console(err=True).print):
        for one in explained(settings, log, stream, seqs):
            if one.published is not None and not one.published.equal:
                code = DIFFERS
            if console is None:
                click.echo(msgspec.json.encode(one))
            else:
                _show(one, console)
    return code


def _show(one: "Explained", console: "Console") -> None:
    from glasstream.app.runner.tables import number

    there = one.published
    console.print(f"{one.stream}: seq {one.seq:,}, row {one.row:,}, epoch {one.epoch}: {one.at}, id {one.id}")
    console.print(
        f"model version {one.model_version:,}, {one.lag:,} rows behind; prediction {one.prediction}, target "
        f"{one.target}" + ("" if one.loss is None else f", loss {number(one.loss)} ({one.loss_name})")
    )
    if one.reason:
        console.print(f"not explained: {one.reason}", style="yellow")
    shown = dict(one.contributions)
    if there is not None and not there.equal:
        shown |= {f"published {method}": values for method, values in there.contributions.items()}
    rows = (
        (
            feature,
            value if value is None else str(value),
            *(number(values[feature], 6) if feature in values else None for values in shown.values()),
        )
        for feature, value in one.features.items()
    )
    columns = ("feature", "value", *shown)
    console.print(table(columns, rows, right=columns[1:]))
    if there is None:
        console.print("there are no published contributions to compare with", style="yellow")
    elif there.equal:
        console.print(f"equal to the published contributions ({there.at})")
    else:
        why = f": {there.reason}" if there.reason else ""
        console.print(f"DIFFERS from the published contributions ({there.at}){why}", style="bold red")


def _tell(comparison: "Comparison", console: "Console") -> int:
    """Print the counts of a comparison, and return the exit code."""
    code = 0
    for name, published in comparison.published.items():
        equal, damaged = comparison.equal[name], comparison.damaged[name]
        more = comparison.computed[name] - equal
        if not published and not more and not damaged:
            continue
        parts = [f"{name}: {published:,} published records, {equal:,} of them computed again"]
        if published > equal:
            code = DIFFERS
            example = comparison.example(name).decode("utf-8", "backslashreplace")
            parts.append(f"the first of the {published - equal:,} others: {example[:300]}")
        if more:
            parts.append(f"{more:,} more computed, which Kafka has deleted or which were never published")
        if damaged:
            parts.append(f"{damaged:,} messages are no records")
        line = "; ".join(parts)
        style = "yellow" if published > equal or more or damaged else None
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
    if not comparison.published.total():
        console.print("there are no published records to compare with", style="yellow")
    return code
