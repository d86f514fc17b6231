"""`glasstream`: the command line."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from pipeline.configuration import load
from pipeline.errors import BrokerError, GlasstreamError, InputError, ModelError, SettingsError, TopicError
from pipeline.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

USAGE = 2
"""Exit code for arguments, files and settings that cannot be used."""
NO_BROKER = 5
"""Exit code when there is no broker, or it or its topics are not as they should be."""
FAILED = 8
"""Exit code of `run` when a stage failed."""


def main() -> None:
    """Run the command line and exit."""
    if "" not in sys.path:
        sys.path.insert(0, "")  # a user's model in the current folder can be imported
    try:
        code = cli(standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except (InputError, ModelError, SettingsError) as error:
        _say_error(error)
        code = USAGE
    except (BrokerError, TopicError) as error:
        _say_error(error)
        code = NO_BROKER
    except GlasstreamError as error:
        _say_error(error)
        code = FAILED
    sys.exit(code or 0)


def _say_error(error: GlasstreamError) -> None:
    lines = error.findings if isinstance(error, SettingsError) else str(error).splitlines()
    for line in lines:
        click.echo(f"glasstream: {line}", err=True)


def _settings_options(command: F) -> F:
    """The options that every command with settings has."""
    for option in (
        click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting; may be repeated."),
        click.option("--config", type=click.Path(path_type=Path), help="A TOML file of settings."),
        click.option("--prefix", help="Begins every topic, group and transactional id."),
        click.option("--broker", help="embedded, local, HOST:PORT,...; `run` also takes none."),
    ):
        command = option(command)
    return command


def _load(
    config: Path | None, assignments: tuple[str, ...], overrides: dict[str, Any], defaults: dict[str, Any] | None = None
) -> Settings:
    """Settings from everywhere; options of the command line count as `--set`."""
    file = config or (Path(path) if (path := os.environ.get("GLASSTREAM_CONFIG")) else None)
    given = [f"{key}={value}" for key, value in overrides.items() if value is not None]
    return load(file=file, environment=os.environ, assignments=[*given, *assignments], defaults=defaults)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="glasstream")
def cli() -> None:
    """Explain models while they learn: importance, as it changes, from a Kafka topic of events."""


@cli.command()
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Events from this file (gzip too).")
@click.option("--target", help="The column of --csv that is predicted.")
@click.option("--task", type=click.Choice(["classification", "regression"]), help="What is predicted.")
@click.option("--model", help="forest, tree, linear, or PACKAGE.MODULE:FACTORY.  [default: forest]")
@click.option("--rows", type=click.IntRange(min=1), help="Use so many events.")
@click.option("--seed", type=int, help="Of the model, of all draws, of the bundled stream.  [default: 1]")
@click.option("--stream", help="The stream's name.  [default: the file's name, or agrawal]")
@click.option("--explainers", type=click.IntRange(min=1), default=1, show_default=True, help="Explainer workers.")
@click.option(
    "--rows-per-message", type=click.IntRange(min=1), default=100, show_default=True, help="Events a message."
)
@click.option("--out", type=click.Path(path_type=Path), help="Write each public topic to OUT/<topic>.jsonl.")
@click.option("--data", type=click.Path(path_type=Path), help="Where --broker local keeps its data beyond the run.")
@_settings_options
def run(
    csv_file: Path | None,
    target: str | None,
    task: str | None,
    model: str | None,
    rows: int | None,
    seed: int | None,
    stream: str | None,
    explainers: int,
    rows_per_message: int,
    out: Path | None,
    data: Path | None,
    **common: Any,
) -> int:
    """All stages on this machine: learn a stream, explain it, show what the model relies on."""
    import uuid

    from pipeline.command.run import Plan
    from pipeline.command.run import run as run_pipeline
    from pipeline.command.sources import BUNDLED_ROWS

    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    overrides = {
        "seed": seed,
        "model.name": model,
        "model.task": task,
        "broker": common["broker"],
        "prefix": common["prefix"],
    }
    fresh = f"run-{uuid.uuid4().hex[:8]}."
    settings = _load(common["config"], common["assignments"], overrides, {"prefix": fresh})
    if settings.broker not in ("none", "embedded", "local"):
        _expect_address(settings)
    source = _source(csv_file, target, stream, rows, settings.seed)
    settings = _looked_at(source, settings, console)
    plan = Plan(
        source=source,
        total=rows or (None if csv_file else BUNDLED_ROWS),
        rows_per_message=rows_per_message,
        explainers=explainers,
        out=out,
        keep_topics=settings.prefix != fresh,
        data=data,
    )
    return run_pipeline(settings, plan, console)


def _source(csv_file: Path | None, target: str | None, stream: str | None, rows: int | None, seed: int) -> Any:
    from pipeline.command.sources import BUNDLED_ROWS, BundledStream, CsvFile

    if csv_file is None:
        if target is not None:
            raise InputError("--target: expected --csv FILE beside it, got none; the bundled stream has its own target")
        return BundledStream(seed, rows or BUNDLED_ROWS, stream or "agrawal")
    if target is None:
        raise InputError("--csv: expected --target NAME beside it, the column to be predicted, got none")
    return CsvFile(csv_file, target, stream or csv_file.name.split(".")[0], rows)


def _looked_at(source: Any, settings: Settings, console: Console) -> Settings:
    """The settings with what a look at the source says of the task."""
    import msgspec

    from pipeline.ingest.admission import Task

    asked = Task(settings.model.task) if settings.model.task else None
    look = source.look(asked)
    settings.learn().factory(look.task)  # a model that cannot be made is said before anything starts
    if asked is None:
        console.print(f"{source.stream}: {look.task.value} ({look.why})", style="dim")
    model = msgspec.structs.replace(
        settings.model, task=look.task.value, many_classes=settings.model.many_classes or look.classes > 2
    )
    return msgspec.structs.replace(settings, model=model)


@cli.command()
@click.argument("stage", type=click.Choice(["learner", "explainer", "fold"]))
@click.option("--instance", help="A fixed name of this worker; a restart under it is fast.")
@click.option("--tether", is_flag=True, hidden=True, help="End when standard input ends.")
@_settings_options
def worker(stage: str, instance: str | None, tether: bool, **common: Any) -> int:
    """Run one worker of a stage against a broker, until it is told to stop."""
    from pipeline.command.children import die_with_parent
    from pipeline.stages.build import run as run_stage

    if tether:
        die_with_parent()
    overrides = {"broker": common["broker"], "prefix": common["prefix"], "worker.instance": instance}
    settings = _load(common["config"], common["assignments"], overrides)
    _expect_address(settings)
    if stage == "learner":
        settings.learn()  # a model that cannot be made is an error of usage
    return int(run_stage(stage, settings))


def _expect_broker(settings: Settings) -> None:
    """Check that the broker answers, before anything waits for it."""
    from pipeline.brokers.choose import open_broker

    _expect_address(settings)
    with open_broker(settings.broker, client=settings.kafka):
        pass


def _expect_address(settings: Settings) -> None:
    from pipeline.brokers.choose import addresses

    try:
        addresses(settings.broker)
    except BrokerError as error:
        raise SettingsError(
            [
                "broker: expected HOST:PORT,... of a running Kafka (--broker or GLASSTREAM_BROKER; "
                f"`run` also takes embedded, local and none), got {settings.broker!r}"
            ]
        ) from error


@cli.command()
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Events from this file (gzip too).")
@click.option("--target", help="The column of --csv that is predicted.")
@click.option("--rows", type=click.IntRange(min=1), help="Use so many events.")
@click.option("--seed", type=int, help="Of the bundled stream.")
@click.option("--stream", help="The stream's name.")
@click.option("--rows-per-message", type=click.IntRange(min=1), default=100, show_default=True)
@_settings_options
def produce(
    csv_file: Path | None,
    target: str | None,
    rows: int | None,
    seed: int | None,
    stream: str | None,
    rows_per_message: int,
    **common: Any,
) -> int:
    """Write a CSV file, or the bundled stream, to the `events` topic of a running deployment."""
    from pipeline.command.produce import produce as write

    overrides = {"broker": common["broker"], "prefix": common["prefix"], "seed": seed}
    settings = _load(common["config"], common["assignments"], overrides)
    _expect_broker(settings)
    source = _source(csv_file, target, stream, rows, settings.seed)
    source.look(None)
    count = write(settings, source, rows_per_message)
    click.echo(f"{count:,} events of stream {source.stream} written to {settings.prefix}events, and a flush mark")
    return 0


@cli.command()
@click.argument("topic")
@click.option("--from-start", is_flag=True, help="Begin with the first record kept.")
@click.option("--max", "most", type=click.IntRange(min=1), help="End after so many records.")
@_settings_options
def tail(topic: str, from_start: bool, most: int | None, **common: Any) -> int:
    """Print the committed records of a public topic, one JSON object a line."""
    from pipeline.command.tail import tail as follow

    overrides = {"broker": common["broker"], "prefix": common["prefix"]}
    settings = _load(common["config"], common["assignments"], overrides)
    _expect_broker(settings)
    for line in follow(settings, topic, from_start=from_start, most=most):
        click.echo(line)
    return 0


@cli.group()
def topics() -> None:
    """The topics: make them, check them, read their contract."""


@topics.command("create")
@_settings_options
def topics_create(**common: Any) -> int:
    """Make every topic that is not there yet, as its contract says."""
    from pipeline.command.topic_commands import create

    for line in create(_topic_settings(common)):
        click.echo(line)
    return 0


@topics.command("verify")
@_settings_options
def topics_verify(**common: Any) -> int:
    """Compare the broker's topics with their contracts; exit code 1 if anything deviates."""
    from pipeline.command.topic_commands import verify

    findings = verify(_topic_settings(common))
    for line in findings:
        click.echo(line)
    if not findings:
        click.echo("every topic is as its contract says")
    return 1 if findings else 0


@topics.command("show")
@_settings_options
def topics_show(**common: Any) -> int:
    """Print the contract of every topic."""
    from pipeline.command.topic_commands import show

    overrides = {"broker": common["broker"], "prefix": common["prefix"]}
    Console(soft_wrap=True).print(show(_load(common["config"], common["assignments"], overrides)))
    return 0


def _topic_settings(common: dict[str, Any]) -> Settings:
    overrides = {"broker": common["broker"], "prefix": common["prefix"]}
    settings = _load(common["config"], common["assignments"], overrides)
    _expect_broker(settings)
    return settings


if __name__ == "__main__":
    main()
