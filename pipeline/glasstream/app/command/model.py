"""`glasstream model`: replace the model of a running stream, and list the pushed models."""

from pathlib import Path
from typing import Any

import click

from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import say, standard_console, table


@click.group()
def model() -> None:
    """Push trained models (ONNX) to running streams, and list them."""


@model.command(short_help="Replace the model of a running stream.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--digest", help="SHA-256 (or prefix) of an already pushed model, instead of FILE.")
@click.option(
    "--from", "challenger", metavar="STREAM", help="Another stream, whose pushed model to use instead of FILE."
)
@click.option("--stream", help="Stream that gets the model.  [default: none, the file is only stored]")
@click.option("--wait", is_flag=True, help="Wait until the learner accepts or rejects the model.")
@click.option("--dry-run", is_flag=True, help="Print what would happen, and write nothing.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def push(
    file: Path | None,
    digest: str | None,
    challenger: str | None,
    stream: str | None,
    wait: bool,
    dry_run: bool,
    data: Path | None,
    **common: Any,
) -> int:
    """Replace the model of a running stream by the model in FILE (ONNX), or by an already pushed model.

    With --from, the stream gets the model of another stream of the deployment, a challenger, and the command prints the
    newest published comparison of both.

    The command stores the file on the topic `models`, and writes a mark to `events`. Events after the mark are
    predicted and explained by the new model. If the model does not fit the stream, the mark becomes a dead letter with
    the reason, and the stream keeps its model.
    """
    from glasstream.app.command.expect import reached
    from glasstream.app.operate.mark import known, wait_until_passed
    from glasstream.app.operate.models import (
        find,
        letters_end,
        name_model,
        read_file,
        refusal,
        replacement,
        store,
        used_by,
        verdict,
    )
    from glasstream.app.operate.state import state
    from glasstream.base.errors import InputError
    from glasstream_topics import models

    if [file, digest, challenger].count(None) != 2:
        raise InputError("model push: expected either FILE, --digest or --from")
    if stream is None and (file is None or wait):
        raise InputError(
            "model push: expected --stream, the stream that gets the model, with --digest, --from or --wait"
        )
    if stream is not None and stream == challenger:
        raise InputError(f"--from: expected another stream than {stream!r}")
    with reached(load_settings(common), data) as settings:
        if stream is not None:
            known(state(settings), stream)
        content = None if file is None else read_file(str(file), settings)
        if content is not None:
            name = models.digest(content)
        else:
            name = find(settings, (digest or "") if challenger is None else used_by(settings, challenger))
        if stream is not None:
            if challenger is not None:
                say(verdict(settings, stream, challenger))
            say(replacement(settings, stream, name))
        if dry_run:
            say("nothing was written")
            return 0
        if content is not None:
            store(settings, content)
            say(f"{file}: stored as {name}")
        if stream is not None:
            end = letters_end(settings, stream) if wait else 0
            mark = name_model(settings, stream, name)
            say(f"{mark.place}: the next event of stream {stream} is predicted by the model {name}, if it fits")
            if wait:
                wait_until_passed(mark, settings, lambda line: say(line, err=True), ("learner",))
                reason = refusal(settings, mark, end)
                if reason is not None:
                    say(f"{mark.place}: the learner has refused the model: {reason}", err=True)
                    return 1
                say(f"stream {stream} uses the model")
    return 0


@model.command("list", short_help="List the pushed models.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per model.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def list_models(as_json: bool, data: Path | None, **common: Any) -> int:
    """List the models on the topic `models` with the streams that use them, oldest first."""
    import msgspec

    from glasstream.app.command.expect import reached
    from glasstream.app.operate.models import stored

    with reached(load_settings(common), data) as settings:
        found = stored(settings)
    if as_json:
        for one in found:
            click.echo(msgspec.json.encode(one))
        return 0
    rows = (
        (one.digest, one.bytes, (", ".join(one.streams) or None) if one.whole else "damaged: push it again")
        for one in found
    )
    shown = table(("SHA-256", "bytes", "streams"), rows, right=("bytes",))
    standard_console().print(shown if found else "no models were pushed")
    return 0
