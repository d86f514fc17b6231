"""The importance of a fixed model over a whole file is that of scikit-learn's `permutation_importance`."""

from pathlib import Path

import numpy as np
import orjson
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance

from glasstream.app.configuration import load
from tests.support.logs import reference

ROWS = 3_000


def test_importance_is_that_of_scikit_learn_within_its_standard_error(tmp_path: Path) -> None:
    """Both estimate the rise of the loss when a feature comes from another row of the same distribution.

    iPFI with a weight of 1/n for each of n rows is a mean over all rows, each with one replacement. Its standard error
    follows from the published variance, and that of scikit-learn from its repeats.
    """
    from skl2onnx import to_onnx

    random = np.random.default_rng(5)
    x = random.normal(size=(ROWS, 4)).astype(np.float32)
    y = (x[:, 0] + 0.5 * x[:, 1] + 0.3 * random.normal(size=ROWS) > 0).astype(int)
    forest = RandomForestClassifier(20, max_depth=5, random_state=1).fit(x[:1000], y[:1000])
    path = tmp_path / "forest.onnx"
    path.write_bytes(to_onnx(forest, x[:1]).SerializeToString())
    settings = load(
        assignments=[
            f"model.name={path}", "model.features=a,b,c,d", "explain.loss=zero_one", "explain.sampling=uniform",
            "explain.reservoir=500", f"explain.alpha={1 / ROWS}", "topics.events=1", f"publish.every={ROWS}",
        ]
    )  # fmt: skip
    names = "abcd"
    log = [
        orjson.dumps([{"x": dict(zip(names, row, strict=True)), "y": int(label)} for row, label in rows])
        for at in range(0, ROWS, 500)
        if (rows := list(zip(x[at : at + 500].tolist(), y[at : at + 500].tolist(), strict=True)))
    ]
    (record,) = reference(settings, log)["importance"]
    found = orjson.loads(record)["features"]
    explained = slice(settings.explain.first_row, ROWS)
    theirs = permutation_importance(forest, x[explained], y[explained], n_repeats=10, random_state=2)
    for place, name in enumerate(names):
        # The variance of one row's contribution; a decaying mean of n rows has n / 2 to n effective ones.
        error = np.hypot(theirs.importances_std[place], np.sqrt(found[name]["variance"] / (ROWS / 2)))
        assert found[name]["value"] == pytest.approx(theirs.importances_mean[place], abs=3 * error + 1e-4)
    assert theirs.importances_mean[0] > 0.1
