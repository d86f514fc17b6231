"""Things that the documents assume: files of these names, a stream of loans, and rejected input."""

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import trustme
from confluent_kafka import Producer

from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection
from glasstream_topics import events
from glasstream_topics.consume import importance

STREAM = "loans"
LOANS = 500
HOUSES = 400
"""Rows of the files that documents name."""


def files(folder: Path) -> None:
    """`houses.csv` and `events.csv`, gzipped too, with a column `price`; a certificate of the page and its key."""
    random = np.random.Generator(np.random.PCG64(1))
    rooms, size = random.integers(1, 6, HOUSES).tolist(), random.normal(90.0, 20.0, HOUSES).round(1).tolist()
    towns = random.choice(["A", "B", "C"], HOUSES).tolist()
    rows = [
        (count, area, town, round(20.0 * count + area + 0.5 * (town == "B"), 2))
        for count, area, town in zip(rooms, size, towns, strict=True)
    ]
    for name in ("houses.csv", "events.csv"):
        _write(folder / name, ("rooms", "size", "town", "price"), rows)
    (folder / "events.csv.gz").write_bytes(gzip.compress((folder / "events.csv").read_bytes()))
    certificate = trustme.CA().issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "chain.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")


def loans(settings: Settings) -> None:
    """Events of the stream, and among them two that are rejected."""
    producer = Producer(connection(settings).producer())
    random = np.random.Generator(np.random.PCG64(2))
    sent = [
        {"id": number, "x": {"age": age, "income": 1000.0 * age}, "y": "paid" if age > 40 else "lost"}
        for number, age in enumerate(random.integers(18, 80, LOANS).tolist())
    ]
    odd = b'{"x": {"age": 30, "income": 1000.0}, "y": 3}', b'{"x": {"age": NaN, "income": 1000.0}, "y": "paid"}'
    blocks = [events.encode(sent[first : first + 100]) for first in range(0, LOANS, 100)]
    values = [*blocks[:-1], *odd, blocks[-1], events.FLUSH]
    for value in values:
        producer.produce(settings.prefix + events.TOPIC.name, value, STREAM.encode())
    assert producer.flush(30.0) == 0


def wait_explained(settings: Settings, seconds: float) -> None:
    """Until all of them have been learned and explained."""
    with importance(settings.broker, prefix=settings.prefix, streams=STREAM, timeout=seconds) as records:
        assert any(record.row == LOANS - 1 for record in records), f"not explained within {seconds:.0f} s"


def _write(path: Path, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(header)
        lines.writerows(rows)
