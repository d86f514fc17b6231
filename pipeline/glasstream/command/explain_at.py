"""`glasstream explain-at STREAM SEQ`: the explanation of one event once more, held against what was published."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.command.exit_codes import DIFFERS
from glasstream.command.options import data_option, load_settings, settings_options

if TYPE_CHECKING:
    from glasstream.operate.explain_at import Source


@click.command("explain-at")
@click.argument("stream")
@click.argument("seqs", metavar="SEQ...", type=click.IntRange(min=0), nargs=-1, required=True)
@click.option(
    "--from",
    "source",
    type=click.Choice(["topics", "log"]),
    help="The block and the model that were sent, or the events alone, learned again.  [default: what is still there]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with every number.")
@data_option
@settings_options()
def explain_at(
    stream: str, seqs: tuple[int, ...], source: "Source | None", as_json: bool, data: Path | None, **common: Any
) -> int:
    """Explain events of a stream once more, from what the log says of them: the event, the model, the background rows.

    It says whether the contributions are those that were published; exit code 1 if they are not.
    """
    import os

    from glasstream.command.console import standard_console
    from glasstream.command.expect import reached
    from glasstream.command.explanation import as_record, show
    from glasstream.operate.explain_at import TOLERANCE
    from glasstream.operate.explain_at import explain_at as explained_again
    from glasstream.stages.build import hmac_key

    settings = load_settings(common)
    key = hmac_key(os.environ)
    console = standard_console()
    differ = False
    with reached(settings, data) as at:
        for one in explained_again(at, stream, tuple(dict.fromkeys(seqs)), key, source):
            differ |= one.difference is not None and one.difference > TOLERANCE
            if as_json:
                click.echo(as_record(one))
            else:
                show(one, console)
    return DIFFERS if differ else 0
