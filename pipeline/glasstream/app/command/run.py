"""`glasstream run`: run all stages on this machine, and show the importance of the features."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.options import load_settings, settings_options, source_options
from glasstream.app.terminal import standard_console
from glasstream.explain.settings import NOVELTY
from glasstream_topics.methods import METHODS

if TYPE_CHECKING:
    from rich.console import Console

    from glasstream.events.mapping.fields import Kind
    from glasstream.events.sources.source import Source
    from glasstream.flow.settings import Settings


@click.command(short_help="Run all stages on this machine and show the results.")
@source_options
@click.option(
    "--task",
    type=click.Choice(["classification", "regression"]),
    help="Kind of prediction.  [default: derived from the target]",
)
@click.option(
    "--model",
    help="Model to learn: forest, tree, linear, or PACKAGE.MODULE:FACTORY; or FILE.onnx, a trained model that learns "
    "nothing.  [default: forest]",
)
@click.option(
    "--explain", help=f"Methods to run, separated by commas: {', '.join((*METHODS, NOVELTY))}.  [default: ipfi]"
)
@click.option(
    "--seed", type=int, help="Random seed for the model, the explanations and the bundled stream.  [default: 1]"
)
@click.option(
    "--explainers", type=click.IntRange(min=1), default=1, show_default=True, help="Number of explainer workers."
)
@click.option("--out", type=click.Path(path_type=Path), help="Write each public topic to OUT/<topic>.jsonl.")
@click.option(
    "--data", type=click.Path(path_type=Path), help="Folder in which --broker local keeps its data after the run."
)
@click.option("--page", is_flag=True, help="Show the run on a page in the browser.")
@click.option(
    "--hold/--no-hold",
    default=None,
    help="With --page, keep the page open after the last event until Ctrl-C.  [default: --hold on a terminal]",
)
@settings_options(
    "Broker to use: embedded (in this process), local (a Kafka started on this machine), none (no Kafka), "
    "or HOST:PORT,... of a running Kafka.  [default: embedded]",
    "a random one, whose topics are removed at the end unless --data keeps them",
)
def run(
    csv_file: Path | None,
    target: str | None,
    types: tuple[str, ...],
    drop: tuple[str, ...],
    meta: tuple[str, ...],
    ts: str | None,
    task: str | None,
    model: str | None,
    explain: str | None,
    rows: int | None,
    seed: int | None,
    stream: str | None,
    explainers: int,
    rows_per_message: int,
    swap: str | None,
    at: int | None,
    width: int | None,
    label_delay: str | None,
    out: Path | None,
    data: Path | None,
    page: bool,
    hold: bool | None,
    **common: Any,
) -> int:
    """Learn and explain a stream with all stages on this machine, and show the importance of the features."""
    import uuid

    from glasstream.app.command.expect import expect_no_deployment, expect_plan
    from glasstream.app.command.make_source import Asked, delay_labels, make_source
    from glasstream.app.runner.run import Plan
    from glasstream.app.runner.run import run as run_pipeline
    from glasstream.events.sources.bundled import BUNDLED_ROWS

    fresh = f"run-{uuid.uuid4().hex[:8]}."
    settings = load_settings(
        common,
        {"seed": seed, "model.name": model, "model.task": task, "explain.methods": explain},
        defaults={"prefix": fresh},
    )
    if settings.prefix != fresh and common["prefix"] is None:
        expect_no_deployment(settings)
    expect_plan(settings, explainers, out, data, page=page)
    asked = Asked(swap, at, width)
    source = make_source(
        csv_file, target, stream, rows, settings.seed, asked, types, drop, _declared(settings), meta, ts
    )
    source = delay_labels(source, label_delay, settings)
    console = standard_console()
    settings = _looked_at(source, settings, console)
    plan = Plan(
        source=source,
        total=rows or (None if csv_file else BUNDLED_ROWS),
        rows_per_message=rows_per_message,
        explainers=explainers,
        out=out,
        keep_topics=settings.prefix != fresh,
        data=data,
        page=page,
        hold=page and (console.is_interactive if hold is None else hold),
    )
    return run_pipeline(settings, plan, console)


def _declared(settings: "Settings") -> "dict[str, Kind]":
    """Return the kinds of the features that a model of a file declares."""
    if settings.model.learns:
        return {}
    from glasstream.events.mapping.fields import Kind
    from glasstream.flow.learner.make_model import fixed_model

    model = fixed_model(settings)
    return {name: Kind[kind.name] for name, kind in zip(model.features, model.kinds, strict=True)}


def _looked_at(source: "Source", settings: "Settings", console: "Console") -> "Settings":
    """Complete the settings with the task that the source suggests."""
    import msgspec

    from glasstream.app.command.expect import expect_features
    from glasstream.events.admission import Task
    from glasstream.flow.learner.expect_model import expect_model
    from glasstream.kafka.trial import expect_tried

    expect_tried(settings.model)
    asked = Task(settings.model.task) if settings.model.task else None
    look = source.look(asked)
    expect_model(settings, look.task)
    if asked is None:
        console.print(f"{source.stream}: {look.task.value} ({look.why})", style="dim")
    while source.notices:
        console.print(source.notices.pop(0), style="dim")
    if not settings.model.learns:
        from glasstream.flow.learner.make_model import fixed_model

        model_of_file = fixed_model(settings)
        may_lack = settings.model.absent == "missing"
        needed = model_of_file.whole if may_lack else model_of_file.features
        expect_features(source, needed, model_of_file.features, settings.model.name)
        if lacking := [name for name in model_of_file.features if name not in source.features]:
            console.print(
                f"{source.stream} does not have {', '.join(map(repr, lacking))[:300]}: the model gets these features "
                "as missing",
                style="dim",
            )
        if look.binary and look.task is Task.REGRESSION:
            what, classes = ("0 and 1", "0,1") if look.numbers else ("false and true", "false,true")
            console.print(
                f"{source.stream}: the target has only {what}, and the model gives a number; if it is a probability, "
                f"set model.classes={classes}",
                style="dim",
            )
        if look.numbers and any("." in name for name in model_of_file.classes):
            console.print(
                f"{source.stream}: the target is read as numbers, and the classes of the model are texts such as "
                f"{next(iter(model_of_file.classes))!r}; state --types TARGET=text",
                style="dim",
            )
        return msgspec.structs.replace(settings, model=msgspec.structs.replace(settings.model, absent="missing"))
    model = msgspec.structs.replace(
        settings.model, task=look.task.value, many_classes=settings.model.many_classes or look.classes > 2
    )
    return msgspec.structs.replace(settings, model=model)
