"""A user's model factory: what it must be and return, and what is said if it is not."""

import sys
from pathlib import Path

import pytest
from river import linear_model

from glasstream.base.errors import ModelError, ModelRaised
from glasstream.events.admission import Task
from glasstream.models.river.catalogue import model_factory
from glasstream.models.stream_model import StreamModel

HERE = __name__


def good() -> linear_model.LogisticRegression:
    return linear_model.LogisticRegression()


def with_a_task(task: str) -> linear_model.LogisticRegression:
    return linear_model.LogisticRegression()


def of_numbers() -> linear_model.LinearRegression:
    return linear_model.LinearRegression()


def the_class() -> type[linear_model.LogisticRegression]:
    return linear_model.LogisticRegression


def that_exits() -> None:
    sys.exit(0)


NOT_CALLABLE = 3
A_MODEL = linear_model.LogisticRegression()
"""Its text has several lines."""


def test_a_factory_makes_a_new_model_for_each_stream() -> None:
    make = model_factory(f"{HERE}:good", 1)
    assert make(Task.CLASSIFICATION) is not make(Task.CLASSIFICATION)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("good", "expected one of forest, tree, linear, PACKAGE.MODULE:FACTORY or FILE.onnx, got 'good'"),
        ("no.such.module:good", "cannot import 'no.such.module'.*set PYTHONPATH"),
        (f"{HERE}:nothing", "expected 'nothing' in .* got no such name"),
        (f"{HERE}:NOT_CALLABLE", "to be callable, got an object of the type int; name a function"),
        (f"{HERE}:A_MODEL", "to be callable, got an object of the type LogisticRegression; name a function"),
        (f"{HERE}:the_class", "must return a River classifier .* got the class LogisticRegression; return a model"),
        (f"{HERE}:that_exits", "to return a River model, but it raised SystemExit: 0"),
        (f"{HERE}:with_a_task", "called without arguments, to return a River model, but it raised TypeError.*'task'"),
        (f"{HERE}:of_numbers", "must return a River classifier for a classification stream, got LinearRegression"),
    ],
)
def test_what_is_no_factory_is_refused_with_the_reason(name: str, error: str) -> None:
    with pytest.raises(ModelError, match=error):
        model_factory(name, 1)(Task.CLASSIFICATION)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def make(: pass", "it raised SyntaxError: .* line 1"),
        ("1 / 0", "it raised ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", "it raised SystemExit: 0"),
        ("import no_such_package", "No module named 'no_such_package'; the module must be importable"),
    ],
)
def test_a_module_that_cannot_be_imported_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    (tmp_path / "damaged_module.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError, match=f"cannot import 'damaged_module' of 'damaged_module:make': {error}"):
        model_factory("damaged_module:make", 1)


@pytest.mark.parametrize("task", list(Task))
def test_an_error_on_an_event_with_text_says_that_the_model_may_take_only_numbers(task: Task) -> None:
    bare = {Task.CLASSIFICATION: linear_model.LogisticRegression, Task.REGRESSION: linear_model.LinearRegression}[task]
    model = StreamModel(lambda _: bare(), task)
    with pytest.raises(ModelRaised, match=r"^learn: .* \(feature 'town' is text; .*SelectType\(Number\)"):
        model.learn({"rooms": 3.0, "town": "Espoo"}, "yes" if task is Task.CLASSIFICATION else 1.0)
