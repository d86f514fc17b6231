"""Records about a row have the time of its event."""

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.flow.reference import Reference
from glasstream_topics import drift, effects, importance

DECODE = {"importance": importance.decode, "effects": effects.decode, "drift": drift.decode}


def time_of(seq: int) -> int | None:
    return None if seq % 3 == 0 else 1_000 * seq + 7


def log(late: int) -> list[tuple[bytes, bytes]]:
    """Events of a stream whose rule turns around in its middle; the label of every second one comes `late` later."""
    found: list[tuple[bytes, bytes]] = []
    for seq in range(800 + late):
        if seq < 800:
            event = {"id": seq, "x": {"a": seq % 7, "b": seq % 5}}
            if (ts := time_of(seq)) is not None:
                event["ts"] = ts
            if seq % 2 or not late:
                event["y"] = ((seq % 7) > 3) != (seq >= 400)
            found.append((b"s", orjson.dumps(event)))
        labelled = seq - late
        if late and labelled >= 0 and labelled % 2 == 0:
            y = ((labelled % 7) > 3) != (labelled >= 400)
            found.append((b"s", orjson.dumps({"id": labelled, "y": y})))
    return found


@pytest.mark.parametrize(("late", "unlabelled", "budget"), [(0, False, 0.5), (30, False, 0.0), (30, True, 0.5)])
def test_records_of_a_row_have_the_time_of_its_event(late: int, unlabelled: bool, budget: float) -> None:
    settings = load(
        assignments=[
            "model.name=tree",
            "model.task=classification",
            "explain.methods=ipfi,ipdp",
            f"explain.unlabelled={str(unlabelled).lower()}",
            "labels.window=100",
            "publish.every=17",
            f"drift.budget={budget}",
            "topics.events=1",
        ]
    )
    seen = dict.fromkeys(DECODE, 0)
    for topic, value in Reference(settings).run(log(late)):
        if topic in DECODE:
            record = DECODE[topic](value)
            assert record.ts == time_of(record.seq), (topic, record)
            seen[topic] += 1
    assert seen["importance"] > 30 and seen["effects"] > 30 and seen["drift"] > 0, seen
