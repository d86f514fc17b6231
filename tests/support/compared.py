"""Predictions of two streams for the same events, and what is to be published of their comparison."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from glasstream.flow.comparisons import Element, Measure, Pairs, Records
from glasstream_topics import predictions
from glasstream_topics.comparisons import Comparison, Other
from glasstream_topics.events import Event
from glasstream_topics.labels import Label
from glasstream_topics.predictions import Prediction
from tests.support.golden_records import checked_in

GOLDEN = predictions.decode(checked_in("predictions.v1.json"))
ROWS = 1_300
CHANCES = dict(zip(("live", "challenger"), np.random.default_rng(3).uniform(0.4, 0.8, (2, ROWS)), strict=True))
CHANCES["challenger"] += 0.15
BRIER = Measure("brier", 2.0)


def answer(stream: str, seq: int, **changes: Any) -> Prediction:
    """Return the prediction for an event whose label is `UP`; every third label comes late."""
    chance, known = float(CHANCES[stream][seq]), seq % 3 > 0
    fields: dict[str, Any] = {
        "stream": stream,
        "seq": seq,
        "id": f"e{seq}",
        "prediction": "UP" if chance > 0.5 else "DOWN",
        "probabilities": {"UP": chance, "DOWN": 1.0 - chance},
        "target": "UP" if known else None,
        "loss": 2 * (1.0 - chance) ** 2 if known else None,
        "loss_name": "brier",
    }
    return msgspec.structs.replace(GOLDEN, **(fields | changes))


def of(stream: str, seqs: Sequence[int] = range(ROWS), **changes: Any) -> list[Prediction]:
    return [answer(stream, seq, **changes) for seq in seqs]


ELEMENTS: list[Event | Label] = []
for number in range(ROWS):
    ELEMENTS.append(Event(x={"a": 1.0}, id=f"e{number}"))
    if number >= 50:
        ELEMENTS.append(Label(id=f"e{number - 50}", y="UP"))
"""Events, and 50 events later their labels; those of events that had one do not count."""


def computed(
    first: Sequence[Prediction], second: Sequence[Prediction], measure: Measure = BRIER, *, prefix: str = "test."
) -> list[Comparison]:
    log: list[Element] = [(str(one.id), one) for one in ELEMENTS]
    pairs = Pairs(iter(first), iter(second), lambda: iter(log), measure)
    other = Other(prefix, second[0].stream, second[0].epoch, second[0].seq)
    return list(Records(pairs, measure, first[0].epoch, first[0].stream, first[0].seq, other))
