"""Arguments of `glasstream` that stand in a file, as the command itself would take them."""

import click

from glasstream.app.command.cli import cli


def parsed(arguments: list[str]) -> click.Context:
    """The context of the command that these arguments name; click raises where it would refuse them."""
    context = cli.make_context("glasstream", list(arguments))
    while isinstance(context.command, click.Group):
        _, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        context = command.make_context(command.name, rest, parent=context)
    return context
