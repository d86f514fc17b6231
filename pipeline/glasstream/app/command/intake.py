"""`glasstream intake try`: try the mapping of the intake on the messages of a topic."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.command.options import load_settings, settings_options
from glasstream.app.terminal import say, standard_console, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

    from glasstream.app.operate.intake import Trial
    from glasstream.events.mapping.settings import IntakeSettings

_REJECTED = 5
_NAMELESS = "my-topic"
"""Topic to show for a file of messages, if none is named."""
_DEFAULTS = ("topics", "format", "id", "stream")
"""Settings to show even if they are defaults."""


@click.group()
def intake() -> None:
    """Try the intake, which reads events from topics of other programs."""


@intake.command(name="try", short_help="Try the mapping of messages to events.")
@click.option("--topic", help="Full name of the topic; several are separated by commas. It sets intake.topics.")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="File with a message on each line, to read instead of the topic. No broker is needed.",
)
@click.option("--target", help="Field with the target. It sets intake.target.")
@click.option(
    "--messages", type=click.IntRange(1, 100_000), default=1_000, show_default=True, help="Number of messages to read."
)
@settings_options()
def try_topic(topic: str | None, file: Path | None, target: str | None, messages: int, **common: Any) -> int:
    """Try the mapping of the intake on the newest messages of a topic, and propose settings. Write nothing.

    The command lists the fields of the messages, proposes a mapping, and shows five events and what would be rejected.
    If intake.labels_topics is set, it also shows five labels, and how many belong to the events. The exit code is 1 if
    intake.target, id, ts or stream names a field that no message has, or if there would be no event, or no label of
    intake.labels_topics.
    """
    from glasstream.app.command.expect import expect_broker
    from glasstream.app.operate.intake import attempt

    named = {} if file is None else {"intake.topics": _NAMELESS}
    settings = load_settings(common, {"intake.topics": topic, "intake.target": target}, defaults=named)
    if file is None:
        expect_broker(settings)
    trial = attempt(settings, messages, file)
    console = standard_console()
    say(f"{trial.messages:,} messages with {trial.documents:,} documents")
    console.print(_table(trial))
    chosen = settings.intake
    say("\nsettings (a line that begins with # is a default; proposals count once they are in your file of settings):")
    say("\n    [intake]")
    for line in _lines(chosen, trial.proposal):
        say(f"    {line}")
    if "target" not in trial.proposal and not chosen.target:
        why = "no field has the name of a target; without one, events have no labels, unless labels_topics names theirs"
        if chosen.labels_topics is not None:
            why = "labels come from labels_topics"
        say(f"    # target: {why}")
    if trial.left_out:
        say("\nleft out of the features:")
    for name, why in trial.left_out.items():
        say(f"    {name}: {why}")
    if trial.doubts:
        say("\nto be checked:")
    for doubt in trial.doubts:
        say(f"    {doubt}")
    for name, path in trial.lacking.items():
        say(f"\nno message has the field {path!r} of intake.{name}: the table above lists the fields")
    say(f"\nevents: {trial.made:,}")
    for stream, event in trial.events:
        say(f"    {stream}: {event}")
    labelled = chosen.labels_topics is not None and file is None
    if trial.labels_made or labelled:
        say(f"\nlabels: {trial.labels_made:,}, of which {trial.belonging:,} belong to these events")
        for stream, label in trial.labels:
            say(f"    {stream}: {label}")
        if trial.made and trial.labels_made and not trial.belonging:
            say(
                "    Compare streams and ids with those of the events. If they are alike, these labels belong to "
                "earlier events: raise --messages"
            )
    say(f"\nrejected: {len(trial.rejected):,}")
    for reason, place, detail in trial.rejected[:_REJECTED]:
        say(f"    {place}: {reason}: {detail}")
    if len(trial.rejected) > _REJECTED:
        say(f"    ... and {len(trial.rejected) - _REJECTED:,} more")
    return DIFFERS if trial.lacking or not trial.made or (labelled and not trial.labels_made) else 0


def _lines(chosen: "IntakeSettings", proposed: "Mapping[str, str]") -> "Iterator[str]":
    """Yield the settings that are set or proposed as lines of TOML, and the most important defaults as comments."""
    defaults = type(chosen)()
    for name in chosen.__struct_fields__:
        value, default = proposed.get(name, getattr(chosen, name)), getattr(defaults, name)
        if value != default or name in _DEFAULTS:
            note = "   # proposed" if name in proposed else ""
            yield f"{'# ' if value == default else ''}{name} = {_quoted(value or '')}{note}"


def _quoted(value: str) -> str:
    """Return a text as TOML."""
    import json

    return json.dumps(value, ensure_ascii=False)


def _table(trial: "Trial") -> "Table":
    rows = (
        (one.name, one.kind, one.present, one.values, one.example if len(one.example) <= 40 else f"{one.example[:39]}…")
        for one in trial.fields
    )
    return table(("field", "type", "present", "values", "example"), rows, right=("present", "values"))
