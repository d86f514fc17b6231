"""The commands of `glasstream`.

Each command imports its modules when it runs: River and numba take seconds to import, and `--help` should not.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.command.dead import dead
from glasstream.command.doctor import doctor
from glasstream.command.exit_codes import DIFFERS
from glasstream.command.explain_at import explain_at
from glasstream.command.gbmap import gbmap
from glasstream.command.health import health
from glasstream.command.options import change_options, label_options, load_settings, settings_options
from glasstream.command.paper import paper
from glasstream.command.plot import plot
from glasstream.command.reset import reset
from glasstream.command.state import state_commands

if TYPE_CHECKING:
    from rich.console import Console

    from glasstream.command.sources import Source
    from glasstream.settings import Settings


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="glasstream")
def cli() -> None:
    """Explain models while they learn, from a Kafka topic of events."""


@cli.command()
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), help="Read the events from this CSV file, plain or gzipped."
)
@click.option("--target", help="Column of the CSV file that the model predicts.")
@click.option(
    "--task",
    type=click.Choice(["classification", "regression"]),
    help="Kind of prediction.  [default: derived from the target]",
)
@click.option("--model", help="Model to learn: forest, tree, linear, or PACKAGE.MODULE:FACTORY.  [default: forest]")
@click.option("--explain", help="Methods to run, separated by commas: ipfi, isage, ipdp, novelty.  [default: ipfi]")
@click.option("--rows", type=click.IntRange(min=1), help="Stop after this many events.")
@click.option("--seed", type=int, help="Random seed for the model, the sampling and the bundled stream.  [default: 1]")
@click.option("--stream", help="Name of the stream.  [default: the file's name, or agrawal]")
@click.option(
    "--explainers", type=click.IntRange(min=1), default=1, show_default=True, help="Number of explainer workers."
)
@click.option(
    "--rows-per-message",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Number of events per Kafka message.",
)
@change_options
@label_options
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
    "or HOST:PORT,... of a running Kafka.  [default: embedded]"
)
def run(
    csv_file: Path | None,
    target: str | None,
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
    """Learn and explain a stream with all stages on this machine, and show what the model relies on."""
    import uuid

    from glasstream.command.console import standard_console
    from glasstream.command.expect import expect_plan
    from glasstream.command.make_source import Asked, make_source
    from glasstream.command.run import Plan
    from glasstream.command.run import run as run_pipeline
    from glasstream.command.sources import BUNDLED_ROWS

    fresh = f"run-{uuid.uuid4().hex[:8]}."
    settings = load_settings(
        common,
        {"seed": seed, "model.name": model, "model.task": task, "explain.methods": explain},
        defaults={"prefix": fresh},
    )
    expect_plan(settings, explainers, out, data, page=page)
    source = _delayed(
        make_source(csv_file, target, stream, rows, settings.seed, Asked(swap, at, width)), label_delay, settings
    )
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


def _delayed(source: "Source", label_delay: str | None, settings: "Settings") -> "Source":
    """Delay the labels of a source if `label_delay` is set."""
    from glasstream.command.delayed import Delayed, LabelDelay

    if label_delay is None:
        return source
    return Delayed(source, LabelDelay.parse(label_delay, settings.labels.window), settings.seed)


def _looked_at(source: "Source", settings: "Settings", console: "Console") -> "Settings":
    """Complete the settings with the task that the source suggests."""
    import msgspec

    from glasstream.ingest.admission import Task

    asked = Task(settings.model.task) if settings.model.task else None
    look = source.look(asked)
    settings.model.factory(settings.seed)(look.task)  # report a model that cannot be made before anything starts
    if asked is None:
        console.print(f"{source.stream}: {look.task.value} ({look.why})", style="dim", markup=False)
    while source.notices:
        console.print(source.notices.pop(0), style="dim", markup=False)
    model = msgspec.structs.replace(
        settings.model, task=look.task.value, many_classes=settings.model.many_classes or look.classes > 2
    )
    return msgspec.structs.replace(settings, model=model)


@cli.command()
@click.argument("stage", type=click.Choice(["learner", "explainer", "aggregator", "novelty", "labels"]))
@click.option(
    "--instance", help="Fixed name of this worker. A worker that restarts under the same name rejoins its group faster."
)
@click.option(
    "--new-epoch",
    is_flag=True,
    help="If the settings differ from those of the saved state, start a new epoch instead of failing.",
)
@click.option("--tether", is_flag=True, hidden=True, help="Exit when standard input closes.")
@settings_options()
def worker(stage: str, instance: str | None, new_epoch: bool, tether: bool, **common: Any) -> int:
    """Run one worker of a stage against a broker until it receives a signal to stop."""
    from glasstream.command.children import die_with_parent
    from glasstream.command.expect import expect_address
    from glasstream.stages.build import run as run_stage

    if tether:
        die_with_parent()
    settings = load_settings(common, {"worker.instance": instance, "worker.new_epoch": new_epoch or None})
    expect_address(settings)
    if stage == "learner":
        settings.model.factory(settings.seed)  # report a model that cannot be made as a usage error
    return int(run_stage(stage, settings))


@cli.command()
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), help="Read the events from this CSV file, plain or gzipped."
)
@click.option("--target", help="Column of the CSV file that the model predicts.")
@click.option("--rows", type=click.IntRange(min=1), help="Stop after this many events.")
@click.option("--seed", type=int, help="Random seed for the bundled stream and for random label delays.")
@click.option("--stream", help="Name of the stream.  [default: the file's name, or agrawal]")
@click.option(
    "--rows-per-message",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Number of events per Kafka message.",
)
@change_options
@label_options
@settings_options()
def produce(
    csv_file: Path | None,
    target: str | None,
    rows: int | None,
    seed: int | None,
    stream: str | None,
    rows_per_message: int,
    swap: str | None,
    at: int | None,
    width: int | None,
    label_delay: str | None,
    **common: Any,
) -> int:
    """Write a CSV file or the bundled stream to the `events` topic of a running deployment."""
    from glasstream.command.expect import expect_broker
    from glasstream.command.make_source import Asked, make_source
    from glasstream.command.produce import produce as write
    from glasstream.ingest.admission import Task

    settings = load_settings(common, {"seed": seed})
    expect_broker(settings)
    source = _delayed(
        make_source(csv_file, target, stream, rows, settings.seed, Asked(swap, at, width)), label_delay, settings
    )
    look = source.look(None)
    _echo(source.notices)
    if settings.model.task is None and look.task is Task.CLASSIFICATION and look.numbers:
        click.echo(
            f"{look.why}: the learner treats a numeric target as regression; to classify, "
            "set model.task=classification on the learner",
            err=True,
        )
    count = write(settings, source, rows_per_message)
    _echo(source.notices)
    click.echo(f"Wrote {count:,} events of stream {source.stream} and a flush mark to {settings.prefix}events")
    return 0


def _echo(notices: list[str]) -> None:
    while notices:
        click.echo(notices.pop(0), err=True)


@cli.command()
@click.argument("topic")
@click.option("--from-start", is_flag=True, help="Start with the oldest record on the topic instead of at its end.")
@click.option("--max", "most", type=click.IntRange(min=1), help="Exit after this many records.")
@settings_options()
def tail(topic: str, from_start: bool, most: int | None, **common: Any) -> int:
    """Print the committed records of a public topic as JSON, one record per line."""
    from glasstream.command.expect import expect_broker
    from glasstream.command.tail import tail as follow

    settings = load_settings(common)
    expect_broker(settings)
    for line in follow(settings, topic, from_start=from_start, most=most):
        click.echo(line)
    return 0


@cli.command()
@click.option("--host", help="Address to listen on. Any other than the default needs a token.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on.  [default: 8642, or a free port]")
@click.option("--tls-cert", help="Serve the page over TLS with the certificate in this PEM file.")
@click.option("--tls-key", help="PEM file with the private key of the certificate.  [default: the file of --tls-cert]")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--tether", is_flag=True, hidden=True, help="Exit when standard input closes.")
@settings_options()
def page(
    host: str | None,
    port: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    open_browser: bool,
    tether: bool,
    **common: Any,
) -> int:
    """Serve a page that shows, from the public topics, what the model relies on and how that changed."""
    from glasstream.command.children import die_with_parent
    from glasstream.command.expect import expect_broker
    from glasstream.command.page import page as serve

    if tether:
        die_with_parent()
    given = {"page.host": host, "page.port": port, "page.tls_cert": tls_cert, "page.tls_key": tls_key}
    settings = load_settings(common, given)
    expect_broker(settings)
    serve(settings, open_browser=open_browser, say=click.echo)
    return 0


@cli.group()
def topics() -> None:
    """Create the topics, check them, and print their contracts."""


@topics.command("create")
@settings_options()
def topics_create(**common: Any) -> int:
    """Create every missing topic as its contract requires."""
    from glasstream.command.topic_commands import create

    for line in create(_topic_settings(common)):
        click.echo(line)
    return 0


@topics.command("verify")
@settings_options()
def topics_verify(**common: Any) -> int:
    """Compare the broker's topics with their contracts; exit with code 1 if any differs."""
    from glasstream.command.topic_commands import verify

    findings = verify(_topic_settings(common))
    for line in findings:
        click.echo(line)
    if not findings:
        click.echo("All topics match their contracts")
    return DIFFERS if findings else 0


@topics.command("show")
@settings_options("Ignored: this command needs no broker.")
def topics_show(**common: Any) -> int:
    """Print the contract of every topic."""
    from glasstream.command.topic_commands import show

    click.echo("\n".join(show(load_settings(common))))
    return 0


@topics.command("acls")
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="ROLE=NAME",
    help="Kafka principal that has this role. Can be repeated.  [default: User:glasstream-ROLE]",
)
@click.option(
    "--apply", is_flag=True, help="Create the access rules on the broker instead of printing Kafka's commands for them."
)
@settings_options()
def topics_acls(principals: tuple[str, ...], apply: bool, **common: Any) -> int:
    """Print the least access rights that each stage, a producer, a consumer and an operator need."""
    from glasstream.command.acls import apply_acls, expect_roles, print_acls

    roles = expect_roles(principals)
    settings = _topic_settings(common) if apply else load_settings(common)
    for line in apply_acls(settings, roles) if apply else print_acls(settings, roles):
        click.echo(line)
    return 0


cli.add_command(dead)
cli.add_command(doctor)
cli.add_command(explain_at)
cli.add_command(gbmap)
cli.add_command(health)
cli.add_command(paper)
cli.add_command(plot)
cli.add_command(reset)
cli.add_command(state_commands)


def _topic_settings(common: dict[str, Any]) -> "Settings":
    from glasstream.command.expect import expect_broker

    settings = load_settings(common)
    expect_broker(settings)
    return settings
