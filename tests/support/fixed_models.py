"""Settings and events of streams whose model comes from an ONNX file."""

from pathlib import Path
from typing import Any

import orjson

from glasstream.app.configuration import load
from glasstream.flow.settings import Settings
from tests.support.onnx_exports import FRAME, TEXT, exported

BASE = (
    "explain.reservoir=10", "publish.every=20", "topics.events=1", "topics.requests=2", "block.rows=8",
    "snapshot.doubling=8", "snapshot.cadence=20", "limits.rows_ahead=80", "explain.methods=ipfi,isage,ipdp",
    "checkpoint.seconds=0.000001", "checkpoint.share=1",
)  # fmt: skip


def settings(folder: Path, name: str, *more: str) -> Settings:
    path = folder / f"{name.replace(' ', '_')}.onnx"
    path.write_bytes(exported(name))
    return load(assignments=[*BASE, f"model.name={path}", *more])


def event(number: int) -> dict[str, Any]:
    row = FRAME.iloc[number % len(FRAME)]
    x = {name: row[name] if name == "town" else float(row[name]) for name in FRAME.columns}
    made = {"id": number, "x": x, "y": str(TEXT[number % len(TEXT)])}
    if number % 7 == 3:
        x["a"] = None
    if number % 11 == 5:
        x["town"] = f"new {number % 3}"
    if number % 13 == 6:
        del made["y"]
    if number > 40:
        x["extra"] = number % 3
    return made


def log(count: int, size: int = 7) -> list[bytes]:
    made = [event(number) for number in range(count)]
    return [orjson.dumps(made[at : at + size]) for at in range(0, count, size)]
