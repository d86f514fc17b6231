"""`glasstream worker STAGE`: run one worker of a stage."""

from typing import Any

import click

from glasstream.command.options import load_settings, settings_options


@click.command()
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
    from glasstream.command.expect import expect_address
    from glasstream.runner.children import die_with_parent
    from glasstream.stages.build import run as run_stage

    if tether:
        die_with_parent()
    settings = load_settings(common, {"worker.instance": instance, "worker.new_epoch": new_epoch or None})
    expect_address(settings)
    if stage == "learner":
        settings.learn()  # report a model that cannot be made as a usage error
    if stage == "novelty":
        settings.novelty_detector()
    settings.aggregator()
    return int(run_stage(stage, settings))
