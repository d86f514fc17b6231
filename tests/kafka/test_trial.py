"""A model in a file is tried in a process with limits before any other process uses it."""

import asyncio
import os
import time
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

from glasstream.app.configuration import load
from glasstream.base.errors import ModelError, SettingsError, UnavailableError
from glasstream.kafka import trial
from glasstream.kafka.trial import Trials
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.runtime import OnnxPredictor
from tests.support.onnx_exports import FEATURES, exported
from tests.support.onnx_graphs import model_of

pytestmark = pytest.mark.program

ONE = ("a", None, None)
"""Names of a model with one feature."""


def filling(size: int) -> ModelProto:
    """A model that makes a tensor of so many numbers, whatever its input is."""
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["many"]),
        helper.make_node("ReduceSum", ["many"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    return model_of(nodes, [numpy_helper.from_array(np.array([size]), "n")])


def multiplying(size: int, times: int) -> ModelProto:
    """A model that multiplies large matrices, and has a few kilobytes."""
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["matrix"]),
        helper.make_node("Identity", ["matrix"], ["product0"]),
        *(helper.make_node("MatMul", [f"product{at}", "matrix"], [f"product{at + 1}"]) for at in range(times)),
        helper.make_node("ReduceSum", [f"product{times}"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    return model_of(nodes, [numpy_helper.from_array(np.array([size, size]), "n")])


def many_operators(count: int) -> bytes:
    """A file of empty operators, two bytes each, of which each takes some hundred bytes of memory."""
    inner = b"\x0a\x00" * count
    length, size = b"", len(inner)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return b"\x08\x08\x3a" + length + bytes([size]) + inner


def test_the_verdict_is_the_task_or_the_error_of_the_file() -> None:
    trials = Trials()
    assert trials(exported("forest"), (FEATURES, None, None)) == "classification"
    assert trials(exported("line"), (FEATURES, None, None)) == "regression"
    with pytest.raises(ModelError, match=r"model\.features: expected the names"):
        trials(exported("forest"), (None, None, None))
    with pytest.raises(ModelError, match="expected an ONNX file"):
        trials(b"no model", ONE)


def test_an_error_that_no_trial_expects_reaches_the_message() -> None:
    with pytest.raises(ModelError, match=r"failed with TypeError: parse\(\) takes from 1 to 4 positional arguments"):
        Trials()(exported("line"), (FEATURES, None, None, None))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [3 * 2**30, 2**40], ids=["12 GiB", "4 TiB"])
def test_a_model_that_needs_too_much_memory_is_refused(size: int) -> None:
    with pytest.raises(ModelError, match=r"needs more than 2\.0 GiB of memory"):
        Trials()(filling(size).SerializeToString(), ONE)


def test_a_file_that_needs_too_much_memory_to_be_read_is_refused() -> None:
    with pytest.raises(ModelError, match=r"cannot be read|GiB"):
        Trials(memory=2**29)(many_operators(8 * 2**20), ONE)


def test_a_model_that_needs_too_much_time_is_refused() -> None:
    data = multiplying(2_000, 20_000).SerializeToString()
    with pytest.raises(ModelError, match="more than 5 s of processor time"):
        Trials(processor_seconds=5)(data, ONE)
    with pytest.raises(ModelError, match="more than 1 s; export a smaller"):
        Trials(deadline_seconds=1.0)(data, ONE)


def test_a_model_in_use_stays_within_memory_whatever_an_event_says() -> None:
    """The size of a tensor may depend on the event, which no trial knows."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=1),
        helper.make_node("Reshape", ["most", "one"], ["flat"]),
        helper.make_node("Cast", ["flat"], ["n"], to=7),
        helper.make_node("ConstantOfShape", ["n"], ["many"]),
        helper.make_node("ReduceSum", ["many"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    file = parse(model_of(nodes, [numpy_helper.from_array(np.array([1]), "one")]).SerializeToString(), "a")
    predictor = OnnxPredictor.of(file, [[]])
    assert predictor.evaluate(np.array([[5.0]])).values.tolist() == [[5.0]]
    with pytest.raises(ModelError, match=r"needs more than 2.0 GiB"):
        predictor.evaluate(np.array([[2.0**32]]))
    with pytest.raises(ModelError, match="must be >= 0"):
        predictor.evaluate(np.array([[-2.0]]))
    assert predictor.evaluate(np.array([[5.0]])).values.tolist() == [[5.0]]


def test_a_process_tries_a_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials()
    trials(exported("line"), (FEATURES, None, None))
    with pytest.raises(ModelError, match="with operators, got none"):
        trials(b"", ONE)
    monkeypatch.setattr(trial, "_child", None)
    assert trials(exported("line"), (FEATURES, None, None)) == "regression"
    with pytest.raises(ModelError):
        trials(b"", ONE)


def test_the_child_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSTREAM_HMAC_KEY", "0123456789abcdef")
    with trial._child() as child:
        deadline, variables = time.monotonic() + 60, b""
        while not variables and time.monotonic() < deadline:  # the child exists before its variables do
            variables = Path(f"/proc/{child.pid}/environ").read_bytes()
    assert b"GLASSTREAM" not in variables and b"PATH=" in variables


def test_a_trial_that_is_stopped_has_no_verdict() -> None:
    trials, errors = Trials(), list[BaseException]()

    def run() -> None:
        try:
            trials(multiplying(2_000, 20_000).SerializeToString(), ONE)
        except UnavailableError as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 60
    while trials._child is None and time.monotonic() < deadline:
        os.sched_yield()
    asyncio.run(trials.stop())
    thread.join(60)
    assert len(errors) == 1
    with pytest.raises(UnavailableError):
        trials(exported("line"), (FEATURES, None, None))


def test_the_settings_try_the_file(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    path.write_bytes(filling(2**40).SerializeToString())
    with pytest.raises(SettingsError, match="GiB of memory"):
        load(assignments=[f"model.name={path}", "model.features=a"])
