"""Attributions of trained models equal those of shap, which `tests/support/onnx_golden.py` has written."""

import json

import numpy as np
import pytest

from glasstream.explain.attributions.game import Attributor
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.translate import translate
from tests.support.onnx_golden import FEATURES, FOLDER, SHAP

VALUES = json.loads((SHAP / "values.json").read_text())
KEY = np.array([1, 2], np.uint64)


@pytest.mark.parametrize("name", VALUES)
def test_values_of_a_trained_model_are_those_of_shap(name: str) -> None:
    (file,) = (path for folder in (FOLDER, SHAP) for path in folder.glob(f"{name}.onnx"))
    predictor = translate(parse(file.read_bytes(), FEATURES))
    background, rows, wanted = (np.array(VALUES[name][part]) for part in ("background", "rows", "values"))
    attributor = Attributor(predictor, background, key=KEY)
    count = len(rows)
    # Of two classes, shap has the values of the second one only where the model adds log odds.
    outputs = range(wanted.shape[2]) if wanted.shape[2] > 1 else [min(1, max(0, len(predictor.classes) - 1))]
    for place, output in enumerate(outputs):
        found = attributor.explain(rows, np.full(count, output), np.arange(count))
        assert np.abs(found.values).max() > 0.05
        assert found.values == pytest.approx(wanted[:, :, place], abs=1e-6)
        assert found.error.max() == 0.0
