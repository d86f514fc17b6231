"""Output of a repeated explanation, as a table or as JSON."""

from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glasstream.app.operate.explain_at.explain import TOLERANCE, Explained
from glasstream.app.runner.tables import number
from glasstream.events.features import Kind
from glasstream.kafka.stages.names import topic
from glasstream_topics.methods import TAKEN, methods_of

_SHOWN = 5
"""Number of background values per feature to show in the table; `--json` prints all."""


def as_record(one: Explained) -> bytes:
    """Return one line of JSON, with null where there is no number."""
    block, answer, at = one.block, one.answer, one.at
    there = one.published
    record = {
        "stream": one.stream_epoch.stream,
        "epoch": block.epoch,
        "seq": one.seq,
        "row": one.row,
        "model_version": block.version,
        "lag": one.lag,
        "source": one.source,
        "event": _event(one),
        "features": block.names,
        "row_values": [_cell(one, slot, value) for slot, value in enumerate(block.x[at].tolist())],
        "task": block.task,
        "target": _target(one),
        "loss": block.loss,
        "kind": answer.kind,
        "reason": answer.reason,
        "draws": {name: _rows(one, name, array) for name, array in block.draws.items()},
        "values": {name: array[one.at_answer] for name, array in answer.values.items()},
        "contributions": {
            method: dict(zip(block.names, answer.values[method][one.at_answer].tolist(), strict=True))
            for method in _per_feature(one)
        },
        "published": None
        if there is None
        else {
            "at": there.place,
            "kind": there.contributions.kind,
            "reason": there.contributions.reason,
            "difference": one.difference if np.isfinite(one.difference or 0.0) else None,
            "equal": _equal(one),
        },
        "notes": list(one.notes),
    }
    return orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY)


def show(one: Explained, console: Console) -> None:
    """Print a table, and report whether the contributions equal the published ones."""
    block, answer = one.block, one.answer
    where = "no longer on the log"
    if one.event is not None:
        event = one.event
        place = f"{topic(one.stream_epoch.settings, 'events')}[{one.stream_epoch.partition}]@{event.offset}"
        where = f"{place}, event {event.index} of its message, id {event.id}"
    lines = [
        f"{one.stream_epoch.stream}: seq {one.seq:,}, row {one.row:,}, epoch {block.epoch}: {where}",
        f"model version {block.version:,}, {one.lag:,} rows behind; target {_target(one)}"
        + (f", loss {number(float(answer.values['loss'][one.at_answer]))} ({block.loss})" if answer.values else ""),
        "the block and the model are "
        + ("the ones on the topics" if one.source == "topics" else "rebuilt by learning the stream again from its log"),
    ]
    for line in lines:
        console.print(Text(line))
    if answer.kind == "failed":
        console.print(Text(f"not explained: {answer.reason}", style="yellow"))
    else:
        console.print(_table(one))
    _say_verdict(one, console)
    for note in one.notes:
        console.print(Text(note, style="dim"))


def _say_verdict(one: Explained, console: Console) -> None:
    there = one.published
    if there is None:
        text = (
            f"the published contributions are no longer on {topic(one.stream_epoch.settings, 'contributions')} "
            "(retention.bytes), so there is nothing to compare with"
        )
        console.print(Text(text, style="yellow"))
    elif _equal(one):
        console.print(
            Text(f"equal to the published contributions ({there.place}): largest difference {one.difference:g}")
        )
    else:
        said = there.contributions
        why = (
            f"the published record is {said.kind}: {said.reason}"
            if said.kind != "ok"
            else f"by up to {one.difference:g}"
        )
        console.print(Text(f"DIFFERS from the published contributions ({there.place}), {why}", style="bold red"))


def _equal(one: Explained) -> bool:
    return one.difference is not None and one.difference <= TOLERANCE


def _table(one: Explained) -> Table:
    block, answer, at = one.block, one.answer, one.at
    shown = _per_feature(one)
    order = block.draws["isage.order"][at].tolist() if "isage.order" in block.draws else None
    table = Table()
    names = ["feature", "value", *shown, *(["added as"] if order else []), *(f"drawn for {method}" for method in shown)]
    for name in names:
        table.add_column(name, overflow="fold", justify="left" if name == "feature" else "right")
    for slot, name in enumerate(block.names):
        cells = [name, _text(_cell(one, slot, float(block.x[at, slot])))]
        cells += [number(float(answer.values[method][one.at_answer, slot]), 6) for method in shown]
        if order:
            cells.append(f"{order.index(slot) + 1}.")
        for method in shown:
            drawn = block.draws[method][at].reshape(-1, len(block.names))[:, slot].tolist()
            more = f", … {len(drawn) - _SHOWN} more" if len(drawn) > _SHOWN else ""
            cells.append(", ".join(_text(_cell(one, slot, value)) for value in drawn[:_SHOWN]) + more)
        table.add_row(*map(Text, cells))
    return table


def _event(one: Explained) -> dict[str, Any] | None:
    if one.event is None:
        return None
    event, name = one.event, topic(one.stream_epoch.settings, "events")
    return {
        "topic": name,
        "partition": one.stream_epoch.partition,
        "offset": event.offset,
        "index": event.index,
        "id": event.id,
        "ts": event.ts,
        "x": event.x,
        "y": event.target,
    }


def _target(one: Explained) -> str | float:
    value = float(one.block.y[one.at])
    return one.block.classes[int(value)] if one.block.task == "classification" else value


def _rows(one: Explained, name: str, array: np.typing.NDArray[Any]) -> Any:
    """Return the draws for the event (numbers and text codes), or those of the whole block if they are not by row."""
    return array[one.at] if TAKEN[name][1][0] == "rows" else array


def _per_feature(one: Explained) -> list[str]:
    """Return the methods in the answer that have one contribution per feature."""
    return [method.name for method in methods_of(one.answer.values) if method.per_feature]


def _cell(one: Explained, slot: int, value: float) -> float | str | bool | None:
    """Return a number of a row as the value that it stands for. Keep the code of a category whose text is not known."""
    kind = one.block.kinds[slot]
    if np.isnan(value):
        return None
    if kind == Kind.BOOLEAN:
        return bool(value)
    texts = one.texts.get(one.block.names[slot], ())
    return texts[int(value)] if kind == Kind.TEXT and int(value) < len(texts) else value


def _text(value: float | str | bool | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
