"""What `run` says about a file and a model before the first event."""

from io import StringIO
from pathlib import Path

import pytest
from onnx import helper
from rich.console import Console

from glasstream.app.command.run import _looked_at
from glasstream.app.configuration import load
from glasstream.base.errors import InputError
from glasstream.events.sources.csv_file import CsvFile
from tests.support.onnx_graphs import model_of, output

pytestmark = pytest.mark.program


def said(folder: Path, rows: str, *assignments: str) -> str:
    """What is printed about a file of rows, with a model of the features `size` and `age` that gives a number."""
    nodes = [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=1)]
    made = model_of(nodes, columns=2, outputs=[output("y", shape=[None, 1])])
    return looked_at(folder, made.SerializeToString(), rows, *assignments)


def looked_at(folder: Path, file: bytes, rows: str, *assignments: str) -> str:
    model, data = folder / "m.onnx", folder / "d.csv"
    model.write_bytes(file)
    data.write_text(rows, encoding="utf-8")
    settings = load(assignments=[f"model.name={model}", "model.features=size,age", *assignments])
    text = StringIO()
    _looked_at(CsvFile(data, "y", "d"), settings, Console(file=text, width=400))
    return text.getvalue()


def test_a_target_of_0_and_1_for_a_model_that_gives_a_number_is_reported(tmp_path: Path) -> None:
    wanted = "the target has only 0 and 1, and the model gives a number; if it is a probability, set model.classes=0,1"
    assert wanted in said(tmp_path, "size,age,y\n1,2,0\n3,4,1\n5,6,1\n")
    assert wanted not in said(tmp_path, "size,age,y\n1,2,0\n3,4,1\n5,6,2\n")
    booleans = "the target has only false and true, and the model gives a number; if it is a probability, set "
    assert f"{booleans}model.classes=false,true" in said(tmp_path, "size,age,y\n1,2,False\n3,4,True\n")


def test_a_column_may_be_absent_if_the_model_takes_missing_values(tmp_path: Path) -> None:
    rows = "size,y\n1,0.5\n3,1.5\n"
    with pytest.raises(InputError, match=r"takes the features 'age', which .* order size, age .* model.absent=missing"):
        said(tmp_path, rows)
    assert "does not have 'age': the model gets these features as missing" in said(
        tmp_path, rows, "model.absent=missing"
    )


def test_numbers_for_classes_that_are_texts_are_reported(tmp_path: Path) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["y"])]
    net = model_of(nodes, columns=2, outputs=[output("y", shape=[None, 2])]).SerializeToString()
    wanted = "the classes of the model are texts such as '0.0'; state --types TARGET=text"
    assert wanted in looked_at(tmp_path, net, "size,age,y\n1,2,0.0\n3,4,0.5\n", "model.classes=0.0,0.5")
    assert wanted not in looked_at(tmp_path, net, "size,age,y\n1,2,0\n3,4,1\n", "model.classes=0,1")
