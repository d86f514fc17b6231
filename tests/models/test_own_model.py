"""A user's model factory: what it must be and return, and what is said if it is not."""

import pytest
from river import linear_model

from glasstream.errors import ModelError
from glasstream.ingest.admission import Task
from glasstream.models.live.catalogue import model_factory

HERE = __name__


def good() -> linear_model.LogisticRegression:
    return linear_model.LogisticRegression()


def with_a_task(task: str) -> linear_model.LogisticRegression:
    return linear_model.LogisticRegression()


def of_numbers() -> linear_model.LinearRegression:
    return linear_model.LinearRegression()


NOT_CALLABLE = 3


def test_a_factory_makes_a_new_model_for_each_stream() -> None:
    make = model_factory(f"{HERE}:good", 1)
    assert make(Task.CLASSIFICATION) is not make(Task.CLASSIFICATION)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("good", "expected one of forest, tree, linear, PACKAGE.MODULE:FACTORY or FILE.onnx, got 'good'"),
        ("no.such.module:good", "cannot import 'no.such.module'.*set PYTHONPATH"),
        (f"{HERE}:nothing", "expected 'nothing' in .* to be callable, got None"),
        (f"{HERE}:NOT_CALLABLE", "to be callable, got 3"),
        (f"{HERE}:with_a_task", "called without arguments, to return a River model, but it raised TypeError.*'task'"),
        (f"{HERE}:of_numbers", "must return a River classifier for a classification stream, got LinearRegression"),
    ],
)
def test_what_is_no_factory_is_refused_with_the_reason(name: str, error: str) -> None:
    with pytest.raises(ModelError, match=error):
        model_factory(name, 1)(Task.CLASSIFICATION)
