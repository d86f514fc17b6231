"""What a file must be like, and where the names of features and classes come from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glasstream.app.configuration import load
from glasstream.base.errors import ModelError, SettingsError
from glasstream.events.admission import Task
from glasstream.events.features import Kind
from glasstream.flow.learner.make_model import fixed_model
from glasstream.models.onnx.file import LARGEST, content, digest, parse
from tests.support.onnx_exports import FEATURES, described, exported


def changed(name: str, change: Callable[[Any], None]) -> bytes:
    """The file of a model after a change."""
    model = onnx.load_model_from_string(exported(name))
    change(model)
    return bytes(model.SerializeToString())


def small(node: Any, *, shape: tuple[Any, ...] = (None, 2), initializers: tuple[Any, ...] = ()) -> bytes:
    """A model of one operator from x to y."""
    graph = helper.make_graph(
        [node],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (None, 1))],
        list(initializers),
    )
    return bytes(helper.make_model(graph).SerializeToString())


def test_names_come_from_the_settings_the_metadata_or_the_inputs() -> None:
    def note(model: Any) -> None:
        helper.set_model_props(model, {"features": '["w", "x, y", "z", "v"]', "classes": "bad, good"})

    noted = changed("forest", note)
    assert parse(noted).features == ("w", "x, y", "z", "v")
    assert parse(noted).classes == ("bad", "good")
    assert parse(noted, FEATURES, "0,1").features == ("a", "b", "c", "d")
    assert parse(noted, FEATURES, "lost, paid").classes == ("lost", "paid")
    frame = described("encoded forest")
    assert frame.features == ("a", "b", "c", "d", "town", "visits")
    assert frame.kinds == [*[Kind.NUMBER] * 4, Kind.TEXT, Kind.NUMBER]
    assert [one.whole for one in frame.inputs] == [False] * 5 + [True]
    assert frame.classes == ("no", "yes")


def test_the_task_is_that_of_the_outputs() -> None:
    assert described("forest").task is Task.CLASSIFICATION
    assert described("line").task is Task.REGRESSION
    assert described("network").classes == ("0", "1", "2")


ERRORS: dict[str, tuple[Callable[[], bytes], str]] = {
    "no ONNX": (lambda: b"not a model", "expected an ONNX file"),
    "empty": (lambda: b"", "with operators, got none"),
    "no names": (lambda: exported("forest"), "model.features: expected the names of the model's features"),
    "a custom operator": (
        lambda: small(helper.make_node("Mystery", ["x"], ["y"], domain="com.example")),
        r"got com\.example\.Mystery; export",
    ),
    "random numbers": (lambda: small(helper.make_node("RandomNormalLike", ["x"], ["y"])), "got RandomNormalLike in it"),
    "one row at a time": (
        lambda: small(helper.make_node("Identity", ["x"], ["y"]), shape=(1, 2)),
        r"takes exactly 1; export .* if the input is no feature, with a constant",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_a_file_that_cannot_be_used_is_refused(case: str) -> None:
    make, wanted = ERRORS[case]
    with pytest.raises(ModelError, match=wanted):
        parse(make())


def test_data_in_another_file_are_refused_also_inside_operators() -> None:
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "weights")
    tensor.data_location = TensorProto.EXTERNAL
    onnx.external_data_helper.set_external_data(tensor, location="/etc/passwd")
    add = helper.make_node("Add", ["x", "weights"], ["y"])
    constant = helper.make_node("Constant", [], ["y"], value=tensor)
    for data in (small(add, initializers=(tensor,)), small(constant)):
        with pytest.raises(ModelError, match="the data of 'weights' is in another file"):
            parse(data, "a,b")


@pytest.mark.parametrize(
    ("features", "classes", "wanted"),
    [
        ("a,b,c", None, "model.features: expected 4 names"),
        ("a,b,b,c", None, "expected different names"),
        (FEATURES, "only", "model.classes: expected 2 names"),
        (FEATURES, "same,same", "two or more different classes"),
        ("[1]", None, "expected a list of texts"),
    ],
)
def test_names_that_do_not_fit_are_refused(features: str, classes: str | None, wanted: str) -> None:
    with pytest.raises(ModelError, match=wanted):
        parse(exported("forest"), features, classes)


def test_settings_are_completed_from_the_file_and_bound_to_it(tmp_path: Path) -> None:
    path = tmp_path / "forest.onnx"
    path.write_bytes(exported("forest"))
    given = [f"model.name={path}", f"model.features={FEATURES}"]
    settings = load(assignments=given)
    assert settings.model.task == "classification"
    assert settings.fingerprint()["model.digest"] == digest(exported("forest"))
    assert fixed_model(settings).task is Task.CLASSIFICATION
    with pytest.raises(SettingsError, match=r"model.digest: expected .* to have the SHA-256 00"):
        load(assignments=[*given, "model.digest=00"])
    with pytest.raises(ModelError, match=r"model.task: expected classification"):
        fixed_model(load(assignments=[*given, "model.task=regression"]))
    with pytest.raises(ModelError, match=r"limits.features: the model has 4 features"):
        fixed_model(load(assignments=[*given, "limits.features=3"]))
    elsewhere = f"model.name={tmp_path / 'nowhere.onnx'}"
    with pytest.raises(SettingsError, match=r"cannot read .*nowhere.onnx.*No such file"):
        load(assignments=[elsewhere])
    assert load(assignments=[elsewhere, "model.task=regression"]).model.digest is None


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(ModelError, match="expected a file of at most"):
        content(str(path), None)
