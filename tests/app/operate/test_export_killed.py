"""`glasstream export --follow`, killed at random moments: what is there afterwards holds every record once."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import orjson
import pytest

from glasstream.app.brokers.embedded import EmbeddedKafka
from tests.support.exporting import FEATURES, PREDICTED, ROWS, arguments, exported
from tests.support.waiting import wait_for
from tests.support.writing import Writer, estimate

KILLS = 3


def column(out: Path, table: str, expression: str) -> list[object]:
    """Return a column of all rows; none if nothing was exported yet."""
    place = f"read_parquet('{out}/{table}-*.parquet', union_by_name = true)"
    try:
        return [row[0] for row in duckdb.sql(f"SELECT {expression} FROM {place}").fetchall()]
    except duckdb.IOException:
        return []  # nothing is there


@pytest.mark.slow
def test_every_record_is_there_once(writer: Writer, embedded: EmbeddedKafka, tmp_path: Path) -> None:
    embedded.create_topic("test.predictions", 1)
    out = tmp_path / "parquet"
    others, draws = Writer(writer.bootstrap, "test.predictions"), random.Random(7)
    ended, sent = threading.Event(), range(100, 1_000_000, 10)
    numbers = iter(sent)

    def send() -> None:
        while not ended.wait(0.05):
            row = next(numbers)
            writer.send(*(estimate(row, f"s{number}") for number in range(10)), key=str(row).encode())
            others.send(orjson.dumps({**PREDICTED, "seq": row}))

    sender = threading.Thread(target=send)
    sender.start()
    options = ["importance", "predictions", "--to", "parquet"]
    follow = arguments(writer.bootstrap, out, *options, "--follow", "--every", "0.5")
    before = 0
    try:
        for _ in range(KILLS):
            export = subprocess.Popen([sys.executable, "-m", "glasstream", *follow], stderr=subprocess.DEVNULL)
            wait_for("further rows", lambda before=before: len(column(out, "importance", "seq")) > before)  # type: ignore[misc]
            time.sleep(draws.random())
            assert export.poll() is None
            export.kill()
            export.wait()
            before = len(column(out, "importance", "seq"))
    finally:
        ended.set()
        sender.join()
    exported(writer.bootstrap, out, *options)
    times = sent.index(next(numbers))
    rows = column(out, "importance", "(stream, row, feature)::VARCHAR")
    assert len(rows) == len(set(rows)) == ROWS + 10 * FEATURES * times
    assert column(out, "predictions", "seq") == [*sent[:times]]
