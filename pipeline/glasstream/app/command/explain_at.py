"""`glasstream explain-at STREAM SEQ`: repeat the explanation of an event, and compare it with the published one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import standard_console

if TYPE_CHECKING:
    from glasstream.app.operate.explain_at.explain import Source


@click.command("explain-at", short_help="Repeat explanations and compare them with the published ones.")
@click.argument("stream")
@click.argument("seqs", metavar="SEQ...", type=click.IntRange(min=0), nargs=-1, required=True)
@click.option(
    "--from",
    "source",
    type=click.Choice(["topics", "log"]),
    help="topics: use the retained block and snapshot. log: relearn the events, which is slow.  "
    "[default: topics if both are retained, else log]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, with every number in full.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def explain_at(
    stream: str, seqs: tuple[int, ...], source: "Source | None", as_json: bool, data: Path | None, **common: Any
) -> int:
    """Explain events of a stream again, with the model and the background rows that were used at the time.

    STREAM is the name of the stream, which is the message key of its events. SEQ is the number of an event in its
    stream: the field `seq` of `predictions` and other records. The command compares the contributions with the
    published ones; the exit code is 1 if they differ.
    """
    import os

    from glasstream.app.command.expect import reached
    from glasstream.app.command.explanation import as_record, show
    from glasstream.app.operate.explain_at.explain import TOLERANCE
    from glasstream.app.operate.explain_at.explain import explain_at as explained_again
    from glasstream.kafka.secret import hmac_key

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
