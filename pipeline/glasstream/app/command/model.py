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
@click.option("--stream", help="Stream that gets the model.  [default: none, the file is only stored]")
@click.option("--wait", is_flag=True, help="Wait until the learner accepts or rejects the model.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def push(
    file: Path | None, digest: str | None, stream: str | None, wait: bool, data: Path | None, **common: Any
) -> int:
    """Replace the model of a running stream by the model in FILE (ONNX), or by an already pushed model.

    The command stores the file on the topic `models`, and writes a mark to `events`. Events after the mark are
    predicted and explained by the new model. If the model does not fit the stream, the mark becomes a dead letter with
    the reason, and the stream keeps its model.
    """
    from glasstream.app.command.expect import reached
    from glasstream.app.operate.mark import known, wait_until_passed
    from glasstream.app.operate.models import find, letters_end, name_model, read_file, refusal, store
    from glasstream.app.operate.state import state
    from glasstream.base.errors import InputError

    if (file is None) == (digest is None):
        raise InputError("model push: expected FILE or --digest, got both or neither of them")
    if stream is None and (digest is not None or wait):
        raise InputError("model push: expected --stream, the stream that gets the model, with --digest or --wait")
    with reached(load_settings(common), data) as settings:
        if stream is not None:
            known(state(settings), stream)
        if file is not None:
            name = store(settings, read_file(str(file), settings))
            say(f"{file}: stored as {name}")
        else:
            name = find(settings, digest or "")
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
