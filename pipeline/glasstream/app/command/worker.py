"""`glasstream worker STAGE`: run one worker of a stage."""

import logging
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from glasstream.app.command.options import load_settings, settings_options


@click.command(short_help="Run one worker of a stage.")
@click.argument(
    "stage",
    metavar="STAGE",
    type=click.Choice(["learner", "explainer", "aggregator", "novelty", "labels", "intake", "notify", "avro"]),
)
@click.option(
    "--instance",
    help="Fixed name of this worker, unique within its stage. A worker that restarts under the same name rejoins its "
    "group faster.",
)
@click.option(
    "--new-epoch",
    type=click.IntRange(min=1),
    metavar="N",
    help="If settings or versions differ from those of the saved state of an epoch below N, discard that state and "
    "start epoch N instead of failing. Start every stage with the same number.",
)
@click.option("--tether", is_flag=True, hidden=True, help="Exit when standard input closes.")
@click.option(
    "--kernels",
    type=click.Path(path_type=Path),
    hidden=True,
    help="Do not wait for kernels to be compiled, and write to this file whether plain Python runs in their place.",
)
@settings_options()
def worker(
    stage: str, instance: str | None, new_epoch: int | None, tether: bool, kernels: Path | None, **common: Any
) -> NoReturn:
    """Run one worker of a stage until it receives a signal to stop.

    STAGE is learner, explainer, aggregator, novelty, labels, intake, notify or avro. Every deployment needs the first
    three. The stage `novelty` scores events, the stage `labels` forwards labels that arrive on a topic of their own,
    the stage `intake` reads events and labels from topics of other programs, the stage `notify` posts incidents to a
    webhook, and the stage `avro` publishes the records in Avro too.
    """
    from glasstream.app.command.expect import expect_address
    from glasstream.app.runner.children import die_with_parent, write_kernels
    from glasstream.app.runner.compile_notice import compile_notice
    from glasstream.kafka.stages.build import run as run_stage

    if tether:
        die_with_parent()
    settings = load_settings(common, {"worker.instance": instance, "worker.new_epoch": new_epoch})
    expect_address(settings)
    if stage == "learner":
        from glasstream.flow.learner.expect_model import expect_model
        from glasstream.kafka.trial import expect_tried

        expect_tried(settings.model)
        expect_model(settings)  # report a model that cannot be made as a usage error
    if kernels:
        run_stage(stage, settings, partial(write_kernels, kernels))
    with compile_notice(logging.getLogger("glasstream").info):
        run_stage(stage, settings)
