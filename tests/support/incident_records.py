"""Incidents as the aggregator publishes them, for those that read them."""

from typing import Any

import msgspec

from glasstream.events.message import Message
from glasstream_topics import incidents


def incident(number: int = 1, **changes: Any) -> incidents.Incident:
    """Return an incident; without changes, one that is open."""
    return incidents.decode(encoded(number, **changes))


def encoded(number: int = 1, **changes: Any) -> bytes:
    """Return the bytes of an incident."""
    fields: dict[str, Any] = {
        "schema_version": 1,
        "epoch": 0,
        "stream": "orders",
        "incident": number,
        "status": "open",
        "row": 1_000 * number,
        "seq": 1_000 * number + 7,
        "onset": {"row": 900, "earliest": 880, "latest": 930},
        "verdict": "concept_moved",
        "weight": 0.75,
        "alternatives": [{"verdict": "data_moved", "weight": 0.25}],
        "features": [{"feature": "price", "fault": "scaled", "factor": 100.0}],
        "loss_name": "brier",
        "loss_before": 0.1,
        "loss_after": 0.3,
        "summary": "The loss tripled at row 900.",
        "evidence": [
            {"side": "loss", "feature": None, "row": 900, "strength": 4.5, "before": 0.1, "after": 0.3},
        ],
    }
    return incidents.encode(msgspec.convert({**fields, **changes}, incidents.Incident))


def message(offset: int, partition: int = 0, **changes: Any) -> Message:
    """Return an incident as it was read; its number is that of its offset."""
    return Message("incidents", partition, offset, b"orders", encoded(offset + 1, **changes))
