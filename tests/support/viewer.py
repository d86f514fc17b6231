"""Records in the store of the live page, and what a viewer gets."""

from typing import Any

import orjson

from glasstream.app.page.store import Store
from glasstream.app.page.stream import Record
from glasstream.app.page.viewer import Viewer
from glasstream_topics import (
    attributions,
    comparisons,
    drift,
    effects,
    groups,
    importance,
    incidents,
    novelty,
    predictions,
    segments,
    watching,
)
from tests.support.page_records import (
    drift_record,
    effect_record,
    importance_record,
    incident_record,
    novelty_record,
    prediction_record,
    watching_record,
)

DECODE = {
    "importance": importance.decode,
    "effects": effects.decode,
    "drift": drift.decode,
    "incidents": incidents.decode,
    "predictions": predictions.decode,
    "novelty": novelty.decode,
    "attributions": attributions.decode,
    "watching": watching.decode,
    "segments": segments.decode,
    "groups": groups.decode,
    "comparisons": comparisons.decode,
}


def put(store: Store, topic: str, data: bytes) -> None:
    record: Record = DECODE[topic](data)
    store.take(topic, record, 1_000)


def some(store: Store, rows: range) -> None:
    for row in rows:
        put(store, "predictions", prediction_record(row, float(row % 3 == 0)))
        put(store, "novelty", novelty_record(row, flagged=row % 50 == 0))
        if row % 10 == 9:
            put(store, "importance", importance_record(row, {"a": 0.5 + row / 1e4, "b": 0.1, "c": -0.2}))
            put(store, "effects", effect_record(row, "a", [0.1, 0.2, row / 1e4]))
        if row % 200 == 199:
            put(store, "drift", drift_record(row, "a", 0.1, 0.5))
        if row % 250 == 249:
            put(store, "watching", watching_record(row, {"a": "muted" if row % 500 == 499 else "watched"}))
        if row % 30 == 29:
            put(store, "incidents", incident_record(row, 1 + row // 100, status="over" if row % 60 == 59 else "open"))


def sent(viewer: Viewer, now: float = 0.0) -> dict[str, Any] | None:
    data = viewer.message(now)
    return None if data is None else orjson.loads(data)


def store() -> Store:
    made = Store(most_streams=2, most_features=100, most_summaries=20)
    made.reading.done = True
    return made
