"""Streams that the tests of whole runs share."""

import csv
from pathlib import Path

import pytest
from river.datasets import synth


@pytest.fixture(scope="session")
def agrawal_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Agrawal's stream with categories as text, a boolean, and missing cells."""
    path = tmp_path_factory.mktemp("csv") / "mixed.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["salary", "age", "elevel", "car", "rich", "target"])
        for number, (x, y) in enumerate(synth.Agrawal(classification_function=1, seed=5).take(3_000)):
            rows.writerow(
                [
                    "" if number % 17 == 3 else round(x["salary"], 2),
                    x["age"],
                    f"level-{x['elevel']}" if number < 2_000 else f"other-{x['elevel']}",
                    f"car-{x['car']}",
                    str(x["salary"] > 75_000).lower(),
                    "" if number % 31 == 7 else ("yes" if y else "no"),
                ]
            )
    return path
